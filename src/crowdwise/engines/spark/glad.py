"""GLAD on Spark: the tasks' log-easiness b stays with its part; abilities are sent to all parts, only sums come back.

    E, and b   on each part: posteriors at the present parameters, then a Newton step in every log-easiness b, by the
               local kernels; then, with the new b, the part's terms of Q and of its slope and curvature per ability
    ability    on the driver: the Newton step of every worker; all parts evaluate it; it is halved where Q would fall

b and the new b of each part are kept in the cluster's memory, in two copies, so that losing one machine loses nothing.
With a checkpoint, the new b is also written to its folder, which all machines share.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise._core.validation import is_number, require
from crowdwise.engines.spark.driver import add_up
from crowdwise.engines.spark.packing import PackedAnswers
from crowdwise.engines.spark.partitions import Partition, Sums
from crowdwise.errors import ModelFileError
from crowdwise.truth.base import Array, weights_of
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.kernels.threads import compiled, run, use_threads
from crowdwise.truth.methods import glad

if TYPE_CHECKING:
    from pyspark import RDD

_HALVINGS = 30


class Parameters(NamedTuple):
    """The parameters of EM on the driver; the log-easiness of the tasks is in the cluster."""

    class_prior: Array  # (classes,)
    ability: Array  # (workers,)
    written: int  # how many times the parameters have been estimated, which determines the folder of b
    n_parts: int


class Message(NamedTuple):
    """The message to all parts."""

    class_prior: Array  # (classes,)
    ability: Array  # (workers,)
    candidate: Array  # (workers,): abilities to evaluate
    mean: float  # prior mean of every b
    first: bool  # whether vote shares replace the posteriors


class SparkGLAD:
    """EM steps whose tasks are in the cluster; `folder` is where b is written, if there is a checkpoint."""

    updated: RDD[Any] | None = None  # (part, (b, new b, sums)) of the latest E-step
    _shared: Any  # the broadcast it was computed with

    data: PackedAnswers
    folder: Path | None
    max_iter: int
    monotone: bool
    tol: float

    def __init__(self, model: glad.GLAD, data: PackedAnswers, folder: Path | None) -> None:
        self.model, self.data, self.folder = model, data, folder
        self.max_iter, self.tol, self.monotone = model.max_iter, model.tol, model.monotone
        mean = model.log_easiness_mean
        require(is_number(mean), "log_easiness_mean", mean, "one number; on Spark tasks have no order")
        self.means: Array = glad._means("ability_mean", model.ability_mean, data.n_workers)  # (workers,)
        self.b: RDD[Any] = data.parts.mapValues(partial(_start, mean=float(mean)))  # (part, b) now

    def initialise(self) -> Parameters:
        """Return parameters estimated from the vote shares."""
        shares = self.model._first_class_prior(self.data.n_classes)
        start = Parameters(shares, self.means, 0, self.data.n_parts)
        return self._m_step(None, self._e_step_and_update(start, first=True), start)

    def restore(self, parameters: Parameters) -> None:
        """Read b from disk."""
        path = self._path(parameters.written)
        if parameters.n_parts != self.data.n_parts:
            message = f"the checkpoint in {str(self.folder)!r} has parts={parameters.n_parts}. Resume with that number."
            raise ModelFileError(message)
        if not (path / "_SUCCESS").exists():
            message = f"{str(path)!r} is incomplete. All machines must share the folder. Delete it to start over."
            raise ModelFileError(message)
        stored = self.data.spark.read.parquet(f"file://{path}").rdd.map(_unpacked)
        self.b = stored.partitionBy(self.data.n_parts)

    def _e_step(self, work: None, parameters: Parameters) -> tuple[Sums, float]:
        sums = self._e_step_and_update(parameters, first=False)
        return sums, sums.bound + float(self._log_prior(parameters.ability).sum())

    def _m_step(self, work: None, statistics: Sums, parameters: Parameters) -> Parameters:
        assert self.updated is not None
        shares = parameters.class_prior
        if isinstance(self.model.class_prior, str) and self.model.class_prior == "estimated":
            shares = np.maximum(statistics.totals / self.data.n_tasks, FLOOR)
        ability = self._newton(statistics.counts, parameters.ability)
        new = Parameters(shares, ability, parameters.written + 1, self.data.n_parts)
        self.b = self.updated.mapValues(_second)
        if self.folder is not None:
            frame = self.data.spark.createDataFrame(self.b.map(_packed), "part int, b binary")
            frame.write.mode("overwrite").parquet(f"file://{self._path(new.written)}")
        return new

    def inputs(self) -> RDD[Any]:
        """Return each part with the b of the latest E-step: (part, (packed answers, b))."""
        assert self.updated is not None
        return self.data.parts.join(self.updated.mapValues(_first), self.data.n_parts)

    def _newton(self, terms: Array, ability: Array) -> Array:
        """Return the abilities (workers,) after one safe Newton step each: `glad.newton` with sums from the cluster."""
        height, slope, curve = terms.T  # (workers,) each
        before = height + self._log_prior(ability)
        step = np.clip((slope + self.means - ability) / (curve + 1), -1.0, 1.0)
        new, pending = ability.copy(), np.ones(len(ability), bool)  # whose step is not accepted yet
        for _ in range(_HALVINGS):
            candidate = np.where(pending, ability + step, new)
            rises = pending & (self._heights(candidate) + self._log_prior(candidate) >= before)
            new[rises] = candidate[rises]
            pending &= ~rises
            if not pending.any():
                break
            step *= 0.5
        return new

    def _log_prior(self, ability: Array) -> Array:
        return -0.5 * (ability - self.means) ** 2

    def _e_step_and_update(self, parameters: Parameters, *, first: bool) -> Sums:
        """Run the E-step and update b on all parts; return the sums for the abilities and the bound."""
        from pyspark import StorageLevel

        context = self.data.parts.context
        mean = float(self.model.log_easiness_mean)
        self.message = Message(parameters.class_prior, parameters.ability, parameters.ability, mean, first)
        shared = context.broadcast(self.message)
        joined = self.data.parts.join(self.b, self.data.n_parts)
        updated = joined.mapValues(partial(_update, shared=shared, n_classes=self.data.n_classes))
        alone = str(context.master).startswith("local")
        updated.persist(StorageLevel.MEMORY_AND_DISK if alone else StorageLevel.MEMORY_AND_DISK_2)
        updated.localCheckpoint()  # drop the lineage, which grows with the iterations
        sums = add_up(updated.mapValues(_third), self.data.n_parts, np.arange(self.data.n_workers))
        if self.updated is not None:
            self.updated.unpersist()
            self._shared.destroy()
        self.updated, self._shared = updated, shared  # the RDD still refers to the broadcast
        return sums

    def _heights(self, candidate: Array) -> Array:
        """Return Q without priors, (workers,), at these abilities and the new b."""
        assert self.updated is not None
        shared = self.data.parts.context.broadcast(self.message._replace(candidate=candidate))
        joined = self.data.parts.join(self.updated, self.data.n_parts)
        heights = joined.mapValues(partial(_candidate_terms, shared=shared, n_classes=self.data.n_classes))
        sums = add_up(heights, self.data.n_parts, np.arange(self.data.n_workers))
        shared.destroy()
        return sums.counts[:, 0]

    def _path(self, written: int) -> Path:
        assert self.folder is not None
        return self.folder.resolve() / f"easiness-{written % 2}"  # the other folder stays until this is complete


# Functions that run in the cluster


def posterior(part: Partition, rows: Array, message: Message) -> Array:
    """Return the posteriors (tasks, classes), given the log-easiness of the tasks."""
    return _posteriors(part, rows, message)[0]


def difficulty(rows: Array) -> Array:
    """Return the difficulty of each task."""
    return np.exp(-rows)


def _update(value: Any, *, shared: Any, n_classes: int) -> tuple[Array, Array, Sums]:
    """Run the E-step, update b, and return the terms of the abilities."""
    packed, b = value
    part, message = Partition(packed, n_classes), shared.value
    with use_threads(1):
        answers, ability, updated = part.answers, message.ability[part.workers], b.copy()
        proba, log_likelihood = _posteriors(part, b, message)
        right, in_order = proba[answers.task, answers.label], np.empty(0, np.int64)
        run(
            glad.newton, part.n_tasks, part.starts, in_order, answers.worker, ability, weights_of(answers), right,
            np.full(part.n_tasks, message.mean), True, updated,
        )  # fmt: skip
        terms = _terms(part, right, ability, updated)
    bound = log_likelihood - 0.5 * float(((b - message.mean) ** 2).sum())
    return b, updated, Sums(part.workers, terms, proba.sum(axis=0), bound)


def _candidate_terms(value: Any, *, shared: Any, n_classes: int) -> Sums:
    """Return the terms of the candidate abilities."""
    packed, (b, updated, _) = value
    part, message = Partition(packed, n_classes), shared.value
    with use_threads(1):
        right = _posteriors(part, b, message)[0][part.answers.task, part.answers.label]
        terms = _terms(part, right, message.candidate[part.workers], updated)
    return Sums(part.workers, terms[:, :1], np.zeros(n_classes), 0.0)


def _posteriors(part: Partition, b: Array, message: Message) -> tuple[Array, float]:
    """Return the posteriors (tasks, classes) and the log-likelihood of the answers."""
    if message.first:
        return part.votes(), 0.0
    answers, scores = part.answers, np.empty((part.n_tasks, part.n_classes))
    log_wrong = float(np.log(max(part.n_classes - 1, 1)))
    work = glad.Work(answers, weights_of(answers), part.gold, log_wrong, (np.empty(0), np.empty(0)), scores)
    parameters = glad.Parameters(message.class_prior, message.ability[part.workers], b)
    return scores, glad.posteriors(work, parameters)


def _terms(part: Partition, right: Array, ability: Array, b: Array) -> Array:
    """Return value, slope and curvature of Q, without priors, in each ability: (workers, 3)."""
    answers, terms = part.answers, np.zeros((len(ability), 3))
    _add_terms(part.starts, answers.worker, weights_of(answers), right, ability, np.exp(b), terms)
    return terms


@compiled
def _add_terms(
    starts: Array, worker: Array, weight: Array, right: Array, ability: Array, easiness: Array, terms: Array
) -> None:
    """Add up the sums of `glad.newton` over each worker's answers in this part."""
    for t in range(starts.shape[0] - 1):
        factor = easiness[t]
        for a in range(starts[t], starts[t + 1]):
            w = weight[a] if weight.shape[0] else 1.0
            x = ability[worker[a]] * factor
            p = 1.0 / (1.0 + np.exp(-x))
            mine = terms[worker[a]]
            mine[0] += w * (right[a] * x - glad.softplus(x))
            mine[1] += w * (right[a] - p) * factor
            mine[2] += w * p * (1.0 - p) * factor * factor


def _start(packed: bytes, mean: float) -> Array:
    return np.full(Partition(packed, 1).n_tasks, mean)


def _first(updated: tuple[Array, Array, Sums]) -> Array:
    return updated[0]


def _second(updated: tuple[Array, Array, Sums]) -> Array:
    return updated[1]


def _third(updated: tuple[Array, Array, Sums]) -> Sums:
    return updated[2]


def _packed(numbered: tuple[int, Array]) -> tuple[int, bytes]:
    return numbered[0], numbered[1].tobytes()


def _unpacked(row: Any) -> tuple[int, Array]:
    return row[0], np.frombuffer(row[1], dtype=np.float64)
