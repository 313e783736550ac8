"""Bradley and Terry with uneven workers: some guess, some prefer a side, some answer the wrong way round.

    role[a] ~ Categorical(role_share[w])                            w = worker of answer a; roles: judge, guess, reverse
    judge:    outcome ~ Davidson(d)                                 d = score[left] - score[right]
    reverse:  outcome ~ Davidson(-d)
    guess:    outcome ~ Categorical(habit[w])                       left, right, tie: a preferred side
    score[i] ~ Normal(0, spread^2)
    role_share[w] ~ Dirichlet(1 + ROLE_PRIOR)                       most workers judge
    habit[w]      ~ Dirichlet(1 + HABIT_STRENGTH * shares of the outcomes)

EM: the E-step gives the probability of each role for each answer; in the M-step shares and habits are counts, and the
scores take a Newton step on counts weighted by the roles, where a reversed answer counts for the other side. The bound
is the log posterior, which never falls. The spread is that of Davidson's model, and the prior of the roles is not
estimated: both would grow, since larger scores with more guesses explain the outcomes almost as well.

Special cases: without guessing, CrowdBT (Chen et al. 2013); without reversal, NoisyBradleyTerry of crowd-kit (Bugakova
et al. 2019). Fails where most workers answer the wrong way round: the scores are then reversed, and only known winners
(gold) show it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from crowdwise.answers import Comparisons
from crowdwise.answers.comparison_columns import LEFT, RIGHT, TIE
from crowdwise.errors import ParameterError
from crowdwise.kinds.comparisons.base import ComparisonModel, Spread, answer_weights, check_spread, gold_counts
from crowdwise.kinds.comparisons.methods.bradley_terry import Davidson
from crowdwise.kinds.comparisons.strengths import (
    Pairs,
    Strengths,
    centred_inverse,
    components,
    item_pairs,
    log_prior,
    newton_step,
    outcome_counts,
    outcome_logs,
)
from crowdwise.truth.base import Array, Callback
from crowdwise.truth.em import run_em

JUDGE, GUESS, REVERSE = range(3)
ROLE_PRIOR = np.array([1.9, 0.08, 0.02])  # Dirichlet parameters less one: about two answers, nearly all judged
HABIT_STRENGTH = 2.0  # answers that the shares of all outcomes count for
SWAP = np.array([RIGHT, LEFT, TIE])
NEWTON_STEPS = 2  # per M-step


class Work(NamedTuple):
    """The arrays of a fit."""

    pairs: Pairs
    pair: Array  # (answers,) of each answer
    outcome: Array  # (answers,)
    worker: Array  # (answers,)
    weight: Array  # (answers,)
    n_workers: int
    known: Array  # (pairs, 3) known winners
    role_prior: Array  # (3,) Dirichlet parameters less one
    habit_prior: Array  # (3,)


class WorkerParameters(NamedTuple):
    """The parameters of the model."""

    strengths: Strengths
    role_share: Array  # (workers, 3): judge, guess, reverse
    habit: Array  # (workers, 3): left, right, tie when guessing


class CrowdBradleyTerry(ComparisonModel):
    """Scores of items and the reliability of each worker, from comparisons. Ties are an outcome of their own.

    Parameters
    ----------
    spread : float, "estimated" or None
        As in `BradleyTerry`.
    guessing : bool
        Whether workers may guess, by their habit of choosing a side.
    reversal : bool
        Whether workers may answer the wrong way round.
    max_iter : int
        Most iterations of EM.
    tol : float
        Rise of the bound per answer that ends the fit.
    random_state : int
        Seed for the label of a pair of equal scores.

    Attributes
    ----------
    reliability_ : (workers,) array
        Share of a worker's answers that follow the scores, less the share that reverses them: 1 is perfect, 0 tells
        nothing.
    role_share_ : (workers, 3) array
        Shares of answers that judge, guess and reverse.
    habit_ : (workers, 3) array
        How often a guess is left, right or a tie.

    Examples
    --------
    >>> from crowdwise import CrowdBradleyTerry, simulate
    >>> comparisons = simulate.comparisons(n_items=8, n_workers=12, n_comparisons=900, careless=0.25, seed=0)
    >>> model = CrowdBradleyTerry().fit(comparisons)
    >>> sorted(model.workers_[model.reliability_ < 0.5].tolist())
    [0, 1, 2]
    """

    converged_: bool
    history_: list[float]
    n_iter_: int

    def __init__(
        self, spread: Spread = "estimated", *, guessing: bool = True, reversal: bool = True, max_iter: int = 300,
        tol: float = 1e-7, random_state: int = 0,
    ) -> None:  # fmt: skip
        self.spread = spread
        self.guessing = guessing
        self.reversal = reversal
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    monotone = True
    reliability_: Array
    role_share_: Array
    habit_: Array

    def _check_parameters(self) -> None:
        check_spread(self.spread)
        if not (self.guessing or self.reversal):
            message = "without guessing and reversal all workers are equal: use davidson."
            raise ParameterError(message)

    def _fit(  # type: ignore[override]
        self, answers: Comparisons, gold: Array | None, rng: np.random.Generator, callback: Callback | None
    ) -> None:
        equal = Davidson("estimated" if self.spread is None else self.spread)
        pairs, of_task = equal._pairs(answers, gold), item_pairs(answers)[1]
        start, _ = equal._maximise(pairs)
        start = start if self.spread is not None else start._replace(spread=np.inf)
        outcome, weight = answers.label, answer_weights(answers)
        allowed = np.array([True, self.guessing, self.reversal])
        habit = outcome_counts(np.zeros(len(outcome), int), outcome, weight, 1)[0] + 1.0
        habit[TIE] = habit[TIE] if np.isfinite(start.log_nu) else 0.0
        habit[:TIE] = habit[:TIE].mean()
        work = Work(
            pairs, of_task[answers.task], outcome, answers.worker, weight, answers.n_workers,
            gold_counts(gold, of_task, len(pairs.left)), ROLE_PRIOR * allowed, HABIT_STRENGTH * habit / habit.sum(),
        )  # fmt: skip
        parameters = WorkerParameters(
            start, *(np.tile(p / p.sum(), (answers.n_workers, 1)) for p in (work.role_prior, work.habit_prior))
        )
        parameters, self.history_, self.converged_ = run_em(self, work, parameters, answers.n_answers, callback)
        self.n_iter_ = len(self.history_)
        _, self.role_share_, self.habit_ = parameters
        self.reliability_ = self.role_share_[:, JUDGE] - self.role_share_[:, REVERSE]
        covariance = centred_inverse(_information(work, parameters))
        self._finish(parameters.strengths, covariance, components(pairs), gold)

    def _e_step(self, work: Work, parameters: WorkerParameters) -> tuple[Array, float]:
        """Return the probability of each role, (answers, 3), and the log posterior."""
        judged = np.exp(outcome_logs(work.pairs, parameters.strengths))  # (pairs, 3)
        share, habit = parameters.role_share[work.worker], parameters.habit[work.worker, work.outcome]
        joint = share * np.stack(
            [judged[work.pair, work.outcome], habit, judged[work.pair, SWAP[work.outcome]]], axis=1
        )  # (answers, 3)
        total = joint.sum(axis=1)
        bound = float(work.weight @ np.log(total)) + log_prior(parameters.strengths)
        bound += float((work.known * np.log(np.maximum(judged, 1e-300))).sum())
        for prior, part in ((work.role_prior, parameters.role_share), (work.habit_prior, parameters.habit)):
            used = prior > 0
            bound += float((prior[used] * np.log(part[:, used])).sum())
        return joint / total[:, None], bound

    def _m_step(self, work: Work, roles: Array, parameters: WorkerParameters) -> WorkerParameters:
        weighted = roles * work.weight[:, None]
        counts = np.stack([np.bincount(work.worker, weighted[:, k], work.n_workers) for k in range(3)], axis=1)
        share = counts + work.role_prior  # (workers, 3)
        habit = outcome_counts(work.worker, work.outcome, weighted[:, GUESS], work.n_workers) + work.habit_prior
        pairs = self._judged_pairs(work, weighted)
        strengths = parameters.strengths
        for _ in range(NEWTON_STEPS):
            strengths, _ = newton_step(pairs, strengths, position=False)
        return WorkerParameters(
            strengths, share / share.sum(axis=1, keepdims=True), habit / habit.sum(axis=1, keepdims=True)
        )

    def _judged_pairs(self, work: Work, weighted: Array) -> Pairs:
        """Return the counts of outcomes as the judging workers meant them."""
        n_pairs = len(work.pairs.left)
        counts = outcome_counts(work.pair, work.outcome, weighted[:, JUDGE], n_pairs)
        counts += outcome_counts(work.pair, SWAP[work.outcome], weighted[:, REVERSE], n_pairs)
        return work.pairs._replace(counts=counts + work.known)


def _information(work: Work, parameters: WorkerParameters) -> Any:
    """Return the expected information about the scores, (items, items), after that about the workers' role shares.

    With p(o) the probability of an answer's outcome o, it is the sum over answers and o of (dp dp') / p.
    """
    n, strengths = work.pairs.n_items, parameters.strengths
    judged = np.exp(outcome_logs(work.pairs, strengths))[work.pair]  # (answers, 3)
    difference = judged[:, LEFT] - judged[:, RIGHT]
    slope = judged * (np.array([0.5, -0.5, 0.0]) - difference[:, None] / 2)  # of P(outcome | judge) by d
    share = parameters.role_share[work.worker]  # (answers, 3)
    habit, swapped = parameters.habit[work.worker], judged[:, SWAP]
    p = share[:, [JUDGE]] * judged + share[:, [GUESS]] * habit + share[:, [REVERSE]] * swapped
    p = np.maximum(p, 1e-300)
    by_score = share[:, [JUDGE]] * slope + share[:, [REVERSE]] * slope[:, SWAP]  # (answers, 3)
    by_role = np.stack([habit - judged, swapped - judged])  # (2, answers, 3): guess and reverse instead of judge
    curve = work.weight * (by_score**2 / p).sum(axis=1)
    cross = work.weight * (by_score * by_role / p).sum(axis=2)  # (2, answers)
    left, right = work.pairs.left[work.pair], work.pairs.right[work.pair]
    rows, columns = np.concatenate([left, right, left, right]), np.concatenate([left, right, right, left])
    own = sp.coo_array((np.concatenate([curve, curve, -curve, -curve]), (rows, columns)), shape=(n, n)).tocsr()
    precision = 1e-9 + (strengths.spread**-2 if np.isfinite(strengths.spread) else 0.0)
    own = own + sp.diags_array(np.full(n, precision))
    inner = np.zeros((work.n_workers, 2, 2))
    for i in range(2):
        for j in range(2):
            both = work.weight * (by_role[i] * by_role[j] / p).sum(axis=1)
            inner[:, i, j] = np.bincount(work.worker, both, work.n_workers)
    curvature = work.role_prior / np.maximum(parameters.role_share, 1e-12) ** 2  # (workers, 3) of the Dirichlet prior
    inner += curvature[:, [[JUDGE]]] * np.ones((2, 2)) + np.einsum("wk,kl->wkl", curvature[:, 1:], np.eye(2))
    inner += 1e-9 * np.eye(2)
    root = np.linalg.cholesky(np.linalg.inv(inner))  # (workers, 2, 2)
    place = [2 * work.worker + k for k in range(2)]
    border = sp.coo_array(
        (
            np.concatenate([cross[0], -cross[0], cross[1], -cross[1]]),
            (np.concatenate([left, right, left, right]), np.concatenate([place[0], place[0], place[1], place[1]])),
        ),
        shape=(n, 2 * work.n_workers),
    ).tocsr()
    blocks = sp.bsr_array((root, np.arange(work.n_workers), np.arange(work.n_workers + 1)))
    half = border @ blocks.tocsr()
    return (own - half @ half.T).tocsr()
