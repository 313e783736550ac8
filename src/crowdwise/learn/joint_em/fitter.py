"""How `JointEM` climbs: EM with all experts for a few rounds, then with those that are heard.

An expert is a kind of classifier on a view of the features (`experts`). All of them are tried, on a sample where tasks
are many; those to which answers give a weight worth the name go on.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array, Callback
from crowdwise.learn.joint_em.class_prior import Judged, judged
from crowdwise.learn.joint_em.classifiers import draw_folds
from crowdwise.learn.joint_em.engine import ConfusionWorkers, Joint
from crowdwise.learn.joint_em.experts import GAUSSIAN, Expert, make_experts, together
from crowdwise.learn.methods.raykar import warn_unsettled
from crowdwise.truth.base import vote_shares
from crowdwise.truth.kernels.shared import FLOOR

TRIAL, HEARD = 3, 0.02  # rounds in which all experts are heard; share of the weight that an expert needs to stay
SAMPLE = 8192  # tasks: of more, these are enough to find out which experts to hear
ROUNDS, EXACT_ROUNDS, STILL = 20, 100, 1e-4  # at most; where the bound is true; change of posteriors that ends them


class FitterInput(NamedTuple):
    """What EM is given beside the features."""

    answers: Answers
    gold: Array | None  # codes, -1 unknown
    weight: Array | None  # of the tasks
    even: bool  # whether classes are held for equally likely
    declared: tuple[Array, float] | None = None  # shares of the classes, and how far to draw posteriors to them

    def rows(self, rows: Array) -> FitterInput:
        """The same of some tasks."""
        gold, weight = (None if each is None else each[rows] for each in (self.gold, self.weight))
        return FitterInput(self.answers[rows], gold, weight, self.even, self.declared)


class FitterResult(NamedTuple):
    """Where EM came to its end."""

    joint: Joint
    experts: list[Expert]  # that were heard
    bounds: list[float]
    converged: bool


class JointEMFitter:
    """Joint EM with experts.

    Parameters
    ----------
    settings : JointEM
        Whose parameters say how.
    named : (classes,) bool array
        Classes that can be true.
    """

    def __init__(self, settings: Any, named: Array) -> None:
        self.settings, self.named = settings, named

    def experts(self, x: Array, crowd: FitterInput, shown: Array | None) -> list[Expert]:
        """All experts for features (tasks, features), or those that a sample hears; views are of the rows `shown`."""
        return self._made(x, crowd, only=self._tried(x, crowd) if len(x) > SAMPLE else None, shown=shown)

    def climb(self, crowd: FitterInput, experts: list[Expert], callback: Callback | None) -> FitterResult:
        """EM to its end, first for a few rounds with all experts, then with those that are heard."""
        rounds = self.settings.max_iter or (EXACT_ROUNDS if self._exact(crowd) else ROUNDS)
        first, by_features = vote_shares(crowd.answers), self.settings.calibrate
        bounds: list[float] = []
        if len(experts) > 1 and rounds > TRIAL:
            joint = self._engine(crowd, experts, TRIAL)
            joint.still = 0.0
            joint.start(first, by_features=by_features)
            bounds, _ = joint.run(callback, left=rounds - TRIAL)
            experts, first, rounds, by_features = heard(joint, experts), joint.proba[0], rounds - TRIAL, False
        joint = self._engine(crowd, experts, rounds)
        joint.start(first, by_features=by_features)
        more, converged = joint.run(callback, done=len(bounds))
        warn_unsettled(self.settings, converged, rounds, joint.tol)
        return FitterResult(joint, experts, [*bounds, *more], converged)

    def _tried(self, x: Array, crowd: FitterInput) -> set[tuple[int, str]]:
        """Experts that a sample of the tasks hears, by place and kind: the others need not see all of them."""
        known = np.arange(len(x)) if crowd.weight is None else np.flatnonzero(crowd.weight)
        if len(known) > SAMPLE:
            known = np.sort(np.random.default_rng(self.settings.random_state).choice(known, SAMPLE, replace=False))
        few = crowd.rows(known)
        experts = self._made(x[known], few, n_answers=crowd.answers.n_answers)
        if len(experts) > 1:
            joint = self._engine(few, experts, TRIAL)
            joint.start(vote_shares(few.answers), by_features=self.settings.calibrate)
            joint.run(None)
            experts = heard(joint, experts)
        return {(expert.place, expert.kind) for expert in experts}

    def _made(self, x: Array, crowd: FitterInput, **options: Any) -> list[Expert]:
        how = self.settings
        folds = None if how.cross_fit is None else draw_folds(len(x), how.cross_fit, how.random_state)
        return make_experts(
            x, crowd.answers, crowd.weight, folds,
            classifier=how.classifier, features=how.features, even=crowd.even, apart=self.apart, **options,
        )  # fmt: skip

    def _engine(self, crowd: FitterInput, experts: list[Expert], rounds: int) -> Joint:
        """Joint EM of these experts."""
        answers, gold, weight, even, declared = crowd
        how, exact = self.settings, self._exact(crowd)
        shares: Literal["even", "learned"] | None = None
        if self.apart:
            shares = "even" if even and declared is None else "learned"
        workers = ConfusionWorkers(answers, how.prior, weight, leave_one_out=how.leave_one_out, renew=not exact)
        return Joint(
            answers, gold, [workers], together(experts), max_iter=rounds, tol=how.tol if exact else 0.0,
            still=STILL if how.tol and not exact else 0.0, calibrate=how.calibrate, declared=declared, weight=weight,
            shares=shares, named=self.named, count=self.count,
            monotone=exact and experts[0].kind in ("lda", "logistic"),
        )  # fmt: skip

    def _exact(self, crowd: FitterInput) -> bool:
        """Whether nothing breaks the bound."""
        how = self.settings
        return not (how.calibrate or how.leave_one_out or how.cross_fit or crowd.declared or self.count != 1)

    @property
    def apart(self) -> bool:
        """Whether the shares of the classes stand apart from what the classifier says."""
        kind = self.settings.classifier
        return self.settings.calibrate or (isinstance(kind, str) and kind in GAUSSIAN)

    @property
    def count(self) -> Any:
        """For how much each answer is taken, as the engine takes it."""
        weight = self.settings.answer_weight
        return 1.0 if weight == "auto" and not self.settings.calibrate else weight


def judge(told: FitterResult, without: FitterResult) -> Judged:
    """What the answers say of the shares of the first."""
    answers, weight = told.joint.answers, told.joint.weight
    share = np.maximum(np.average(vote_shares(answers), axis=0, weights=weight), FLOOR)
    blind = without.joint.workers[0].evidence(np.tile(share, (answers.n_tasks, 1)))
    return judged(without.joint.evidence(), told.joint.evidence(), blind)


def heard(joint: Joint, experts: list[Expert]) -> list[Expert]:
    """Those of the experts that joint EM has given a weight worth the name."""
    weights = joint.weights[0]
    return [expert for expert, weight in zip(experts, weights, strict=True) if weight >= HEARD * weights.sum()]
