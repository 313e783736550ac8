"""Measure how far workers make the same mistakes, and how many independent votes each task is worth.

    q[t, c]      estimate of the truth of task t                                    `proba`, or the default below
    C[w, c, l]   = P(worker w says l | truth c), from q, with `SMOOTHING` answers of the average worker
    expected     = sum over pairs of answers (i, j) to task t of  sum_c q[t, c] C[i, c] . C[j, c]
                   the agreement if errors are independent given the truth: skill and class are taken out
    scale        = sum over the same pairs of  sum_c q[t, c] sqrt((1 - |C[i, c]|^2) (1 - |C[j, c]|^2))
    rho          = (observed agreement - expected) / scale                              0 if errors are independent

`background_rho` is the rho of pairs outside families: tasks that are hard or misleading for everyone. Families, groups
with more in common than that, come from `crowdwise.trust.families` and need no estimate of the truth. For a task with n
answers, g[f] of them by family f,

    rho[t]       = (sum_f pairs(g[f]) rho_f + other pairs x background_rho) / pairs(n)         pairs(n) = n (n - 1) / 2
    votes[t]     = n / (1 + (n - 1) rho[t])                            effective number of votes (Kish's design effect)
    rho_f        = background_rho + (1 - background_rho) excess_f      excess_f: mean excess of the family's pairs

The answers alone cannot show all of it. If most workers agree on a wrong class, that class looks like the truth. By
default q is fitted by Dawid-Skene, where the answers of a family count as its effective votes. The rho that it leaves
visible is zero for independent crowds and, on 12 real crowds with known truth, about a third of the real one
(correlation .86; `python -m benchmarks dependence real` prints both). So the default `background_rho` is
`VISIBLE_FACTOR` times the visible one: right on average over real crowds, wrong by .07 in the mean for a crowd left out
of the average, and blind to shared errors that look like the truth. With `proba` from gold labels rho is exact up to
sampling. A `proba` fitted to the same answers is taken at its word and understates rho.

Workers who give identical answers (`trust.copies`) are a family from the start, so that half of a crowd that copies one
worker cannot pass for the truth.

Answers that never differ from each other, nor from gold, hold no mistake, so nothing shows whether mistakes are shared:
that is an error, not one vote.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from crowdwise.answers import Answers, as_answers
from crowdwise.errors import ConvergenceWarning, EmptyError, ParameterError, TooLargeError, UnknownIdError
from crowdwise.evaluate.metrics import Array
from crowdwise.trust.copies import copy_groups
from crowdwise.trust.families import FamilyFit, find_families, same
from crowdwise.truth.methods.dawid_skene import DawidSkene

VISIBLE_FACTOR = 3.0
SMOOTHING = 2.0
COPIES = 0.8  # correlation of errors from which workers of a family count as copies of one another
MAX_CONFUSION_CELLS = 20_000_000  # workers x classes^2


class Family(NamedTuple):
    """Workers who make the same mistakes."""

    workers: Array  # ids
    rho: float  # correlation of their errors given the truth
    excess: float  # the part of it beyond what all workers share


@dataclass(frozen=True, eq=False, repr=False)
class Dependence:
    """What `dependence` returns.

    Attributes
    ----------
    background_rho : float
        Correlation of errors that all workers share, 0 to 1.
    visible_rho : float
        The same as far as the truth estimate shows it, before `VISIBLE_FACTOR`. May be slightly negative.
    families : tuple of Family
        The largest first.
    worker_family : (workers,) int array
        Position of each worker's family in `families`, or -1.
    copies : tuple of int arrays
        Groups of workers, as codes, who give identical answers. Each is in one family.
    rho : (tasks,) array
        Mean correlation of the errors of the workers who answered the task.
    effective_votes : (tasks,) array
        Number of independent votes that the answers to the task are worth.
    ambiguous : bool
        Whether different families explain the answers equally well. Then none is named.
    """

    background_rho: float
    visible_rho: float
    families: tuple[Family, ...]
    worker_family: Array
    copies: tuple[Array, ...]
    rho: Array
    effective_votes: Array
    ambiguous: bool
    _answers: Answers
    _fit: FamilyFit

    @property
    def votes_per_answer(self) -> float:
        """How many independent votes an answer is worth, on average over the answered tasks."""
        count = np.diff(self._answers.task_starts)
        return float(self.effective_votes[count > 0].sum() / max(count.sum(), 1))

    def pair_table(self) -> pa.Table:
        """Return one row per pair of workers with enough common tasks, the most significant first.

        Columns: `worker`, `other`, `common_tasks`, `excess` (correlation of errors beyond what all share), `z`, and
        `family`, whether both are in one family.
        """
        order = np.argsort(-self._fit.z, kind="stable")
        pairs, ids = self._fit.pairs, self._answers.worker_ids
        return pa.table(
            {
                "worker": ids.take(pa.array(pairs.i[order])),
                "other": ids.take(pa.array(pairs.j[order])),
                "common_tasks": pairs.common[order],
                "excess": self._fit.rho[order],
                "z": self._fit.z[order],
                "family": same(self._fit.family, pairs)[order],
            }
        )

    def summary(self) -> str:
        """Return the findings as a few lines of text."""
        count = np.diff(self._answers.task_starts)
        answered = count > 0
        lines = [
            f"On average, the {count[answered].mean():.1f} answers to a task are worth "
            f"{self.effective_votes[answered].mean():.1f} independent votes.",
            f"Correlation of errors among all workers: {self.background_rho:.2f}.",
        ]
        for number, family in enumerate(self.families, 1):
            names = ", ".join(map(str, family.workers.tolist()))
            lines.append(f"Family {number} (correlation of errors {family.rho:.2f}): {names}.")
        if self.ambiguous:
            lines.append(
                "Some workers err together, but the answers do not show which. Name the families if you know them."
            )
        elif not self.families:
            lines.append("No group of workers has more mistakes in common than the others.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Return the main figures."""
        n = len(self.families)
        return f"Dependence(background_rho={self.background_rho:.3f}, {n} {'family' if n == 1 else 'families'})"


def dependence(
    answers: Any,
    proba: Array | None = None,
    *,
    families: Mapping[Any, Any] | Sequence[Any] | None = None,
    weight: Array | None = None,
    seed: int = 0,
) -> Dependence:
    """Measure how far workers make the same mistakes.

    Parameters
    ----------
    answers : Answers or data frame
        Weights are not used.
    proba : (tasks, classes) array, optional
        Estimate of the truth; best from gold labels. Rows of zeros or NaN mark tasks of unknown truth, which are left
        out of `background_rho`. The default is estimated from the answers.
    families : mapping or sequence, optional
        Known families: a mapping from worker id to the name of the family, or one name per worker in the order of
        `answers.workers`. None means no family. The default finds families by a test.
    weight : (tasks,) array, optional
        Weights of the tasks in `background_rho`, for gold tasks that were not drawn uniformly (`trust.gold_sample`).
    seed : int
        Seed of the sample of tasks, which is drawn only if there are more than ten million pairs of answers.

    Returns
    -------
    Dependence

    Examples
    --------
    >>> from crowdwise import Answers, simulate
    >>> answers = simulate.simulate(500, n_workers=8, n_classes=3, answers_per_task=8, seed=1)
    >>> dependence(answers).families
    ()
    >>> rows = answers.worker < 2
    >>> copies = Answers.from_arrays(answers.task[rows], answers.worker[rows] + 8, answers.label[rows])
    >>> found = dependence(answers.merge(copies))  # workers 8 and 9 copy 0 and 1
    >>> [family.workers.tolist() for family in found.families]
    [[0, 8], [1, 9]]
    """
    answers = as_answers(answers)
    numbers = None if families is None else family_numbers(answers, families)
    groups = copy_groups(answers) if families is None else []
    copies = group_numbers(groups, answers.n_workers) if groups else None
    fit = find_families(answers, numbers, copies=copies, seed=seed)
    if copies is not None:
        fit = fit._replace(rho=np.where(same(copies, fit.pairs), 1.0, fit.rho))
    excess = family_excess(fit)  # (families,)
    known = None if proba is None else check_proba(answers, proba)
    check_mistakes(answers, known)
    truth = default_truth(answers, fit.family, excess) if known is None else known
    visible = residual_rho(answers, truth, fit.family, weight)
    background = min(max(visible * (VISIBLE_FACTOR if known is None else 1.0), 0.0), 1.0)
    inside = background + (1 - background) * excess
    rho, votes = effective_votes(answers, fit.family, inside, background)
    members = [answers.workers[fit.family == number] for number in range(len(excess))]
    found = tuple(Family(*row) for row in zip(members, inside.tolist(), excess.tolist(), strict=True))
    return Dependence(background, visible, found, fit.family, tuple(groups), rho, votes, fit.ambiguous, answers, fit)


def group_numbers(groups: Sequence[Array], n_workers: int) -> Array:
    """Return the position of each worker's group or -1, (workers,)."""
    number = np.full(n_workers, -1)
    for position, group in enumerate(groups):
        number[group] = position
    return number


def check_mistakes(answers: Answers, known: Array | None) -> None:
    """Raise unless some answer differs from another to its task, or from its `known` class, (tasks, classes)."""
    alone = np.diff(answers.task_starts) < 2
    others = answers.label == np.append(answers.label[1:], -1)  # the next answer of the same task
    others |= np.append(answers.task[1:], -1) != answers.task
    unanimous = bool(others.all())
    if known is not None:
        gold = known.sum(axis=1)[answers.task] > 0  # (answers,)
        unanimous = unanimous and bool((known[answers.task, answers.label][gold] > 1 - 1e-9).all())
    if unanimous and not alone.all():
        message = (
            "all answers to a task agree. Without a disagreement, nothing shows whether workers make the same "
            "mistakes, nor how many votes their answers are worth."
        )
        raise EmptyError(message)


def family_numbers(answers: Answers, families: Mapping[Any, Any] | Sequence[Any]) -> Array:
    """Return the number of each worker's family or -1, (workers,); families of one worker are none."""
    ids = answers.workers.tolist()
    if isinstance(families, Mapping):
        unknown = sorted(set(families) - set(ids), key=str)
        if unknown:
            message = f"families name {len(unknown)} workers without answers, for example {unknown[0]!r}. Remove them."
            raise UnknownIdError(message)
        names = [families.get(worker) for worker in ids]
    else:
        names = list(families)
        if len(names) != len(ids):
            message = f"families has {len(names)} names for {len(ids)} workers: give one per worker, or a mapping."
            raise ParameterError(message)
    count: dict[Any, int] = {}
    for name in names:
        if name is not None:
            count[name] = count.get(name, 0) + 1
    largest = sorted((name for name, n in count.items() if n > 1), key=lambda name: -count[name])
    number = {name: position for position, name in enumerate(largest)}
    return np.array([-1 if name is None else number.get(name, -1) for name in names], dtype=np.int64)


def family_excess(fit: FamilyFit) -> Array:
    """Return the mean excess of the pairs in each family, weighted by common tasks; 0 without such a pair."""
    inside, n = same(fit.family, fit.pairs), int(fit.family.max(initial=-1)) + 1
    number, common = fit.family[fit.pairs.i[inside]], fit.pairs.common[inside]
    total = np.bincount(number, common * fit.rho[inside], minlength=n)
    return np.clip(total / np.maximum(np.bincount(number, common, minlength=n), 1), 0.0, 1.0)


def check_proba(answers: Answers, proba: Array) -> Array:
    """Return `proba` with rows of unknown truth set to zero."""
    proba = np.nan_to_num(np.asarray(proba, dtype=float), nan=0.0)
    expected = (answers.n_tasks, answers.n_classes)
    if proba.shape != expected:
        message = f"proba has shape {proba.shape}; it needs a row per task and a column per class: {expected}."
        raise ParameterError(message)
    total = proba.sum(axis=1)
    bad = (proba < 0).any(axis=1) | ((np.abs(total - 1) > 1e-6) & (total != 0))
    if bad.any():
        message = f"row {int(bad.argmax())} of proba is not a distribution: it must sum to 1, or to 0 if unknown."
        raise ParameterError(message)
    return proba


def default_truth(answers: Answers, family: Array, excess: Array) -> Array:
    """Return Dawid-Skene's probabilities, (tasks, classes); a family's answers to a task count as effective votes."""
    weight = family_weights(answers, family, excess)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DawidSkene().fit(replace(answers, weight=weight)).proba_


def family_weights(answers: Answers, family: Array, excess: Array) -> Array:
    """Return a weight per answer, (answers,), such that a family's answers to a task count as its effective votes.

    Parameters
    ----------
    answers : Answers
    family : (workers,) int array
        Number of each worker's family, or -1.
    excess : (families,) array
        Correlation of errors within each family beyond what all workers share.
    """
    order, bounds = family_runs(answers, family)
    size = np.repeat(np.diff(bounds), np.diff(bounds))  # (answers by members,) members who answered the same task
    weight = np.ones(answers.n_answers)
    weight[order] = 1 / (1 + (size - 1) * excess[family[answers.worker[order]]])
    return weight


def residual_rho(answers: Answers, proba: Array, family: Array, weight: Array | None = None) -> float:
    """Return the correlation of errors over all pairs of answers to a task that are not of one family.

    `weight` has a number per task.
    """
    weight = np.ones(answers.n_tasks) if weight is None else weight
    k = answers.n_classes
    if answers.n_workers * k * k > MAX_CONFUSION_CELLS:
        message = f"{answers.n_workers} workers with {k} classes are too many. Merge classes, or pass fewer workers."
        raise TooLargeError(message)
    cell = answers.worker.astype(np.int64) * k + answers.label
    weighted = proba * (weight / weight.mean())[:, None]  # (tasks, classes)
    counts = [np.bincount(cell, weighted[answers.task, c], minlength=answers.n_workers * k) for c in range(k)]
    count = np.stack(counts).reshape(k, -1, k).transpose(1, 0, 2)  # (workers, truth, labels)
    crowd = count.sum(axis=0) + 0.1 * np.eye(k) + 0.01
    crowd /= crowd.sum(axis=1, keepdims=True)
    confusion = (count + SMOOTHING * crowd) / (count.sum(axis=2, keepdims=True) + SMOOTHING)
    deviation = np.sqrt(np.maximum(1 - np.square(confusion).sum(axis=2), 0.0))  # (workers, truth)
    every = np.arange(answers.n_answers)
    order, bounds = family_runs(answers, family)
    total = [
        np.array(
            _pair_sums(rows, cuts, answers.task, answers.worker, answers.label, proba, weight, confusion, deviation)
        )
        for rows, cuts in ((every, answers.task_starts), (order, bounds))
    ]
    observed, expected, scale = total[0] - total[1]
    return float((observed - expected) / scale) if scale > 1e-9 else 0.0


def effective_votes(answers: Answers, family: Array, inside: Array, background: float) -> tuple[Array, Array]:
    """Return the mean correlation of each task's pairs of answers and its effective votes, (tasks,) each."""
    n = np.diff(answers.task_starts).astype(float)
    pairs = n * (n - 1) / 2
    order, bounds = family_runs(answers, family)
    first, size = order[bounds[:-1]], np.diff(bounds)
    extra = size * (size - 1) / 2 * (inside[family[answers.worker[first]]] - background)
    sums = background * pairs + np.bincount(answers.task[first], extra, minlength=answers.n_tasks)
    rho = sums / np.maximum(pairs, 1)
    return rho, n / (1 + np.maximum(n - 1, 0) * rho)


def family_runs(answers: Answers, family: Array) -> tuple[Array, Array]:
    """Return the answers by members of families, sorted by task and family, and where each such group starts."""
    of_answer = family[answers.worker]
    order = np.lexsort((of_answer, answers.task))
    order = order[of_answer[order] >= 0]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(answers.task[order]) != 0) | (np.diff(of_answer[order]) != 0)
    return order, np.append(np.flatnonzero(new), len(order))


@njit(cache=True)
def _pair_sums(
    rows: Array, bounds: Array, task: Array, worker: Array, label: Array,
    proba: Array, weight: Array, confusion: Array, deviation: Array,
) -> tuple[float, float, float]:  # fmt: skip
    """Return observed and expected agreement and the scale of rho, over pairs of answers between two bounds."""
    k = proba.shape[1]
    votes, mean = np.zeros(k), np.zeros(k)
    observed, expected, scale = 0.0, 0.0, 0.0
    for r in range(bounds.shape[0] - 1):
        if bounds[r + 1] - bounds[r] < 2:
            continue
        t = task[rows[bounds[r]]]
        q, b = proba[t], weight[t]
        if q.sum() == 0.0:
            continue
        votes[:] = 0.0
        for a in rows[bounds[r] : bounds[r + 1]]:
            observed += b * votes[label[a]]
            votes[label[a]] += 1.0
        for c in range(k):
            if q[c] == 0.0:
                continue
            mean[:] = 0.0
            spread = 0.0
            for a in rows[bounds[r] : bounds[r + 1]]:
                w = worker[a]
                for m in range(k):
                    expected += b * q[c] * mean[m] * confusion[w, c, m]
                    mean[m] += confusion[w, c, m]
                scale += b * q[c] * spread * deviation[w, c]
                spread += deviation[w, c]
    return observed, expected, scale
