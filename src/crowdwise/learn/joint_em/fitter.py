"""One fit of `JointEM`: EM with all experts for a few rounds, then with those that received enough weight.

An expert is a kind of classifier on a view of the features (`experts`). All of them are tried, on a sample if there are
many tasks. Only those whose pooling weight (`pooling`) is large enough take part in the remaining rounds.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array, Callback
from crowdwise.learn.joint_em.class_prior import PriorEvidence, compare_evidence
from crowdwise.learn.joint_em.classifiers import ClassifierGroup, NoFeatures, draw_folds
from crowdwise.learn.joint_em.engine import ConfusionWorkers, JointEMEngine
from crowdwise.learn.joint_em.experts import GAUSSIAN, Expert, make_experts
from crowdwise.learn.joint_em.labels import is_higher
from crowdwise.learn.methods.raykar import warn_if_not_converged
from crowdwise.truth.base import vote_shares
from crowdwise.truth.kernels.shared import FLOOR

TRIAL_ROUNDS = 3  # rounds with all experts
MIN_WEIGHT_SHARE = 0.02  # share of the total weight that an expert needs to take part after the trial
SAMPLE = 8192  # with more tasks, a sample of this size selects the experts
MAX_ROUNDS, MAX_ROUNDS_EXACT = 20, 100  # by default; the second if the bound is exact
MIN_ANSWERS = 2  # mean number of answers per task from which EM may start from labels of the answers alone
START_ERRORS = 1.0  # standard errors by which that start has to predict the answers better than the usual one
FEATURE_ERRORS = 4.0  # the same for features; shuffled ones gain up to 4.8 with one answer per task, 2.2 with three
PROBA_TOL = 1e-4  # mean change of the posteriors below which EM stops, if the bound is not exact


class EMProblem(NamedTuple):
    """The inputs of EM other than features."""

    answers: Answers
    gold: Array | None  # codes, -1 unknown
    weight: Array | None  # of the tasks
    equal_shares: bool  # whether all classes are taken to be equally likely
    declared_shares: tuple[Array, float] | None = None  # class shares, and how far to pull posteriors to them

    def select(self, rows: Array) -> EMProblem:
        """Return the same problem for some tasks."""
        gold, weight = (None if each is None else each[rows] for each in (self.gold, self.weight))
        return EMProblem(self.answers[rows], gold, weight, self.equal_shares, self.declared_shares)


class EMResult(NamedTuple):
    """The state of EM after the last round."""

    engine: JointEMEngine
    experts: list[Expert]  # that took part in the last round
    bounds: list[float]
    converged: bool


class JointEMFitter:
    """Joint EM with experts.

    Parameters
    ----------
    settings : JointEM
        The model whose parameters to use.
    possible : (classes,) bool array
        Classes that can be true.
    """

    possible: Array
    settings: Any

    def __init__(self, settings: Any, possible: Array) -> None:
        self.settings, self.possible = settings, possible

    def make_experts(self, x: Array, problem: EMProblem, rows: Array | None) -> list[Expert]:
        """Return the experts for features (tasks, features), preselected on a sample if there are many tasks.

        Views are fitted to the given `rows`, or to all of them if None.
        """
        only = self._select_on_sample(x, problem) if len(x) > SAMPLE else None
        return self._make_experts(x, problem, only=only, rows=rows)

    def fit(
        self, problem: EMProblem, experts: list[Expert], callback: Callback | None, start: Array | None = None
    ) -> EMResult:
        """Run EM to its end: a few rounds with all experts, the rest with the selected ones.

        It starts from posteriors (tasks, classes), by default from the votes; with one answer per task the votes would
        confirm each worker, so workers are then first judged by the features.
        """
        rounds = self._rounds(problem)
        by_features = self.settings.calibrate and start is None
        first = vote_shares(problem.answers) if start is None else start
        bounds: list[float] = []
        if len(experts) > 1 and rounds > TRIAL_ROUNDS:
            engine = self._engine(problem, experts, TRIAL_ROUNDS)
            engine.proba_tol = 0.0
            engine.start(first, by_features=by_features)
            bounds, _ = engine.run(callback, left=rounds - TRIAL_ROUNDS)
            experts, first = select_experts(engine, experts), engine.proba[0]
            rounds, by_features = rounds - TRIAL_ROUNDS, False
        engine = self._engine(problem, experts, rounds)
        engine.start(first, by_features=by_features)
        more, converged = engine.run(callback, done=len(bounds))
        warn_if_not_converged(self.settings, converged, rounds, engine.tol)
        return EMResult(engine, experts, [*bounds, *more], converged)

    def fit_both(
        self, problem: EMProblem, experts: list[Expert], callback: Callback | None, start: Array | None = None
    ) -> tuple[EMResult | None, EMResult]:
        """Return a fit of the answers alone, None without `calibrate`, and one with experts.

        The second one starts from the features, or from `start`, beliefs of an earlier fit. If it then predicts the
        answers better, it starts from the labels that the first one found. With one answer per task these are hardly
        more than the answers, and are not tried.
        """
        result = self.fit(problem, experts, callback, start)
        if not self.settings.calibrate:
            return None, result
        alone = self.fit_answers(problem)
        if (
            start is not None
            or problem.answers.n_answers < MIN_ANSWERS * (np.diff(problem.answers.task_starts) > 0).sum()
        ):
            return alone, result
        other = self.fit(problem, experts, None, alone.engine.proba[0])
        better = is_higher(other.engine.evidence(), result.engine.evidence(), problem.weight, START_ERRORS)
        return alone, other if better else result

    def use_features(self, alone: EMResult | None, result: EMResult) -> bool:
        """Whether features predict the answers better than the answers alone do."""
        if alone is None:
            return True
        evidence = result.engine.evidence(), alone.engine.evidence()
        return is_higher(*evidence, result.engine.weight, FEATURE_ERRORS)

    def fit_answers(self, problem: EMProblem) -> EMResult:
        """Run EM with the answers alone."""
        answers, gold, weight, _, declared_shares = problem
        workers = ConfusionWorkers(answers, self.settings.prior, weight)
        engine = JointEMEngine(
            answers, gold, [workers], NoFeatures(answers.n_tasks, answers.n_classes), max_iter=MAX_ROUNDS_EXACT,
            tol=self.settings.tol, declared_shares=declared_shares, weight=weight, shares="learned",
            possible=self.possible, monotone=declared_shares is None,
        )  # fmt: skip
        engine.start(vote_shares(answers))
        bounds, converged = engine.run(None)
        return EMResult(engine, [], bounds, converged)

    def add_experts(self, problem: EMProblem, experts: list[Expert], result: EMResult) -> EMResult:
        """Return a fit without experts with those that predict its labels; posteriors and workers stay."""
        engine = self._engine(problem, experts, 1)
        engine.adopt(result.engine.proba)
        chosen = select_experts(engine, experts)
        if len(chosen) < len(experts):
            engine = self._engine(problem, chosen, 1)
            engine.adopt(result.engine.proba)
        engine.workers, engine.answer_weights = result.engine.workers, result.engine.answer_weights
        return EMResult(engine, chosen, result.bounds, result.converged)

    def _rounds(self, problem: EMProblem) -> int:
        return self.settings.max_iter or (MAX_ROUNDS_EXACT if self._is_exact(problem) else MAX_ROUNDS)

    def _select_on_sample(self, x: Array, problem: EMProblem) -> set[tuple[int, str]]:
        """Return the experts, by view index and kind, that get enough weight on a sample of the tasks."""
        rows = np.arange(len(x)) if problem.weight is None else np.flatnonzero(problem.weight)
        if len(rows) > SAMPLE:
            rows = np.sort(np.random.default_rng(self.settings.random_state).choice(rows, SAMPLE, replace=False))
        sample = problem.select(rows)
        experts = self._make_experts(x[rows], sample, n_answers=problem.answers.n_answers)
        if len(experts) > 1:
            engine = self._engine(sample, experts, TRIAL_ROUNDS)
            engine.start(vote_shares(sample.answers), by_features=self.settings.calibrate)
            engine.run(None)
            experts = select_experts(engine, experts)
        return {(expert.view_index, expert.kind) for expert in experts}

    def _make_experts(self, x: Array, problem: EMProblem, **options: Any) -> list[Expert]:
        settings = self.settings
        folds = None if settings.cross_fit is None else draw_folds(len(x), settings.cross_fit, settings.random_state)
        return make_experts(
            x, problem.answers, problem.weight, folds, classifier=settings.classifier, features=settings.features,
            equal_shares=problem.equal_shares, separate_shares=self.separate_shares, **options,
        )  # fmt: skip

    def _engine(self, problem: EMProblem, experts: list[Expert], rounds: int) -> JointEMEngine:
        """Return joint EM with these experts."""
        answers, gold, weight, equal_shares, declared_shares = problem
        settings, exact = self.settings, self._is_exact(problem)
        shares: Literal["equal", "learned"] | None = None
        if self.separate_shares:
            shares = "equal" if equal_shares and declared_shares is None else "learned"
        workers = ConfusionWorkers(
            answers, settings.prior, weight, leave_one_out=settings.leave_one_out, refresh_prior=not exact
        )
        return JointEMEngine(
            answers, gold, [workers], ClassifierGroup([expert.classifier for expert in experts]), max_iter=rounds,
            tol=settings.tol if exact else 0.0, proba_tol=PROBA_TOL if settings.tol and not exact else 0.0,
            calibrate=settings.calibrate, declared_shares=declared_shares, weight=weight, shares=shares,
            possible=self.possible, answer_weight=self.answer_weight,
            monotone=exact and experts[0].kind in ("lda", "logistic"),
        )  # fmt: skip

    def _is_exact(self, problem: EMProblem) -> bool:
        """Whether EM maximises the bound: no setting that breaks it is on."""
        settings = self.settings
        return not (
            settings.calibrate
            or settings.leave_one_out
            or settings.cross_fit
            or problem.declared_shares
            or self.answer_weight != 1
        )

    @property
    def separate_shares(self) -> bool:
        """Whether the class shares are a parameter of their own, and not part of the classifier."""
        kind = self.settings.classifier
        return self.settings.calibrate or (isinstance(kind, str) and kind in GAUSSIAN)

    @property
    def answer_weight(self) -> Any:
        """The weight of each answer, or "auto", as the engine takes it."""
        weight = self.settings.answer_weight
        return 1.0 if weight == "auto" and not self.settings.calibrate else weight


def compare_shares(with_shares: EMResult, without: EMResult) -> PriorEvidence:
    """Compare the evidence of two fits: with the class shares in question, and without them."""
    answers, weight = with_shares.engine.answers, with_shares.engine.weight
    share = np.maximum(np.average(vote_shares(answers), axis=0, weights=weight), FLOOR)
    without_features = without.engine.workers[0].evidence(np.tile(share, (answers.n_tasks, 1)))
    return compare_evidence(without.engine.evidence(), with_shares.engine.evidence(), without_features)


def select_experts(engine: JointEMEngine, experts: list[Expert]) -> list[Expert]:
    """Return the experts whose share of the total weight is large enough."""
    weights = engine.weights[0]
    least = MIN_WEIGHT_SHARE * weights.sum()
    return [expert for expert, weight in zip(experts, weights, strict=True) if weight >= least]
