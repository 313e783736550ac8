"""M-MSR, Ma and Olshevsky (2020): skills from the agreement of pairs of workers, robust to adversarial workers.

    P(label[a] = truth[t]) = accuracy[w], wrong classes equally likely   a = answer, by worker w to task t
    skill[w] = (classes * accuracy[w] - 1) / (classes - 1)               1 always right, 0 guessing, below 0 adversarial

    C[w, v] = (classes * agreement of w and v on their common tasks - 1) / (classes - 1)
    E C[w, v] = skill[w] * skill[v]                                      of rank one, observed where tasks are shared

    1  sign[w] = sign of the leading eigenvector of C's signed random walk, started at all ones: most are honest
    2  size[w] = trimmed mean over partners v of sign[w] * sign[v] * C[w, v] / size[v], repeated until convergence;
       the partners that give the highest and lowest values are left out, so adversaries and outliers do not count
    3  vote with the weights log((classes - 1) * accuracy / (1 - accuracy)): the posterior if the skills were exact

    paper   s = skill      C-tilde = agreement      M = classes      F = partners left out at either end

Ma and Olshevsky, "Adversarial crowdsourcing through robust rank-one matrix completion", NeurIPS 2020. We differ in
three ways, because many pairs of real workers share only one or two tasks. The paper estimates sizes before signs, from
|C|, which is near 1 for such pairs whatever the skills. It takes a plain mean; ours weights a partner by
sqrt(common tasks) * size**2, so that pairs with little information count little. It leaves out a fixed number F of
partners; ours leaves out a share of their weight. Cost grows with the number of pairs of workers who share tasks.
It fails when most workers are adversarial, and it does not model confused or rare classes.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold
from crowdwise.truth.kernels import shared
from crowdwise.truth.kernels.threads import compiled, run

SIGN_ROUNDS = 200
SIGN_TOL = 1e-4


class MMSR(TruthModel):
    """Votes weighted by skills from robust rank-one matrix completion.

    Parameters
    ----------
    trim : float
        Share of a worker's partners, by weight, left out at either end, from 0 to below 0.5. It should be about as
        large as the share of adversaries to withstand.
    max_iter : int
        Largest number of rounds.
    tol : float
        Relative change of the skills at which the iteration stops; 0 runs all rounds.
    random_state : int
        Seed for breaking ties.

    Attributes
    ----------
    skill_ : (workers,) array
        1 always right, 0 guessing, below 0 adversarial. A worker who shares no task gets the average.
    accuracy_ : (workers,) array
        The skill as the probability of a right answer.
    history_ : list of float
        Relative change of the skills in each round.

    Examples
    --------
    >>> from crowdwise import MMSR, Answers
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "x"])
    >>> mmsr = MMSR().fit(answers)
    >>> mmsr.labels_.tolist(), (mmsr.skill_ < 0).tolist()
    (['x', 'y'], [False, False, True])
    """

    uses_weights = False

    converged_: bool
    n_iter_: int
    proba_: Array

    def __init__(self, trim: float = 0.2, *, max_iter: int = 200, tol: float = 1e-5, random_state: int = 0) -> None:
        self.trim = trim
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    skill_: Array
    accuracy_: Array

    def _check_parameters(self) -> None:
        require(0 <= self.trim < 0.5, "trim", self.trim, "a share from 0 to below 0.5")
        require(self.max_iter >= 1, "max_iter", self.max_iter, "1 or more")
        require(self.tol >= 0, "tol", self.tol, "0 or more (0 runs all max_iter rounds)")

    def _fit(
        self,
        answers: Answers,
        gold: Array | None,
        rng: np.random.Generator,
        callback: Callback | None,
    ) -> None:
        n_classes = max(answers.n_classes, 2)  # with one class, the other is a class no worker chose
        starts, partner, common, agreed = shared_tasks(answers)
        covariance = (n_classes * agreed / common - 1) / (n_classes - 1)  # (pairs,): C
        weight = np.sqrt(common)  # the root: two workers who copy each other cannot outweigh all others
        sign = signs(starts, partner, weight * covariance)  # (workers,)
        covariance *= np.repeat(sign, np.diff(starts)) * sign[partner]
        size = np.full(answers.n_workers, 0.5)
        least = 1 / np.sqrt(answers.n_answers + 1)  # avoids division by a size of zero
        self.converged_ = self.tol == 0
        for iteration in range(self.max_iter):
            updated = trimmed_means(starts, partner, covariance, weight, size, self.trim, least)
            updated = np.sqrt(size * updated)  # geometric mean: sizes c times too large give updates c times too small
            change = float(np.linalg.norm(updated - size) / np.linalg.norm(size))
            size = updated
            self.history_.append(change)
            if callback is not None:
                callback(iteration, change)
            if change < self.tol:
                self.converged_ = True
                break
        self.n_iter_ = len(self.history_)
        alone = np.diff(starts) == 0
        size[alone] = size[~alone].mean() if not alone.all() else 0.5
        # Keep the accuracy as far from 0 and 1 as Laplace's rule does for this number of answers.
        margin = 1 / (np.diff(answers.worker_starts) + 2)  # (workers,)
        self.accuracy_ = np.clip((1 + (n_classes - 1) * sign * size) / n_classes, margin, 1 - margin)
        self.skill_ = (n_classes * self.accuracy_ - 1) / (n_classes - 1)
        self.proba_ = fix_gold(weighted_vote(answers, self.accuracy_), gold)


def weighted_vote(answers: Answers, accuracy: Array) -> Array:
    """Return posteriors (tasks, classes) for workers of known accuracy; classes and errors are equally likely."""
    weight = np.log(max(answers.n_classes - 1, 1) * accuracy / (1 - accuracy))  # (workers,)
    scores = np.empty((answers.n_tasks, answers.n_classes))
    shared.weighted_scores(answers.task_starts, answers.label, weight[answers.worker], scores)
    shared.softmax_rows(scores, np.empty(answers.n_tasks))
    return scores


def signs(starts: Array, partner: Array, affinity: Array) -> Array:
    """Split the workers into two sides, +1 or -1, by signed affinities (pairs,)."""
    n = len(starts) - 1
    walk = csr_array((affinity, partner, starts), shape=(n, n))
    total = np.maximum(abs(walk).sum(axis=1), 1e-300)
    side = np.ones(n)
    for _ in range(SIGN_ROUNDS):
        moved = 0.5 * (side + walk @ side / total)  # a lazy walk: it cannot alternate between two states
        moved /= max(np.abs(moved).max(), 1e-300)
        converged = np.abs(moved - side).max() < SIGN_TOL
        side = moved
        if converged:
            break
    return np.where(side < 0, -1.0, 1.0)


def shared_tasks(answers: Answers) -> tuple[Array, Array, Array, Array]:
    """Return the pairs of workers who share tasks: `starts` (workers + 1,), `partner`, and common and agreed tasks."""
    columns = (
        answers.task_starts, answers.worker, answers.label, answers.task, answers.by_worker, answers.worker_starts,
    )  # fmt: skip
    starts = np.zeros(answers.n_workers + 1, np.int64)
    empty = np.empty(0)
    count_shared(*columns, starts, np.empty(0, np.int32), empty, empty)  # counts the pairs only
    n_pairs = starts[-1]
    partner, common, agreed = np.empty(n_pairs, np.int32), np.empty(n_pairs), np.empty(n_pairs)
    count_shared(*columns, starts, partner, common, agreed)
    return starts, partner, common, agreed


@compiled
def count_shared(
    task_starts: Array, worker: Array, label: Array, task: Array, by_worker: Array, worker_starts: Array,
    starts: Array, partner: Array, common: Array, agreed: Array,
) -> None:  # fmt: skip
    """Count the tasks that each worker shares with the others; fill `starts`, and the other arrays unless empty."""
    n_workers = worker_starts.shape[0] - 1
    met = np.zeros(n_workers)
    same = np.zeros(n_workers)
    seen = np.empty(n_workers, np.int32)  # partners of the current worker, in order of appearance
    for w in range(n_workers):
        n_seen = 0
        for r in range(worker_starts[w], worker_starts[w + 1]):
            a = by_worker[r]
            for b in range(task_starts[task[a]], task_starts[task[a] + 1]):
                other = worker[b]
                if other != w:
                    if met[other] == 0:
                        seen[n_seen] = other
                        n_seen += 1
                    met[other] += 1
                    same[other] += label[a] == label[b]
        for i in range(n_seen):
            other = seen[i]
            if partner.shape[0] > 0:
                partner[starts[w] + i] = other
                common[starts[w] + i] = met[other]
                agreed[starts[w] + i] = same[other]
            met[other] = 0
            same[other] = 0
        starts[w + 1] = starts[w] + n_seen


def trimmed_means(
    starts: Array, partner: Array, covariance: Array, weight: Array, size: Array, trim: float, least: float
) -> Array:
    """Return each worker's weighted mean of covariance / size over partners, without `trim` of the weight at each end.

    Results are clipped to `least` to 1; a worker without partners keeps their size.
    """
    out = np.empty_like(size)
    run(_trimmed_means, len(size), starts, partner, covariance, weight, size, trim, least, out)
    return out


@compiled
def _trimmed_means(
    first_worker: int, end_worker: int, starts: Array, partner: Array, covariance: Array, weight: Array, size: Array,
    trim: float, least: float, out: Array,
) -> None:  # fmt: skip
    for w in range(first_worker, end_worker):
        first, n = starts[w], starts[w + 1] - starts[w]
        ratio, share = np.empty(n), np.empty(n)
        total = 0.0
        for i in range(n):
            other = size[partner[first + i]]
            ratio[i] = covariance[first + i] / other
            share[i] = weight[first + i] * other * other
            total += share[i]
        low, high = trim * total, total - trim * total
        passed = 0.0  # weight of the partners so far, lowest ratio first
        mean = 0.0
        for i in np.argsort(ratio):
            inside = min(passed + share[i], high) - max(passed, low)
            passed += share[i]
            if inside > 0:
                mean += inside * ratio[i] / (high - low)
        if n > 0:
            out[w] = min(max(mean, least), 1.0)
        else:
            out[w] = size[w]
