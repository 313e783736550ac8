"""The arrays of a set of answers, and the indexes and counts derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise.answers.encoding import stable_order, starts, take_by_code, to_numpy, used_codes
from crowdwise.answers.rows import Array

if TYPE_CHECKING:
    import scipy.sparse


class Pairs(NamedTuple):
    """The distinct (worker, label) pairs that occur, sorted by worker: confusion counts are stored per pair."""

    of_answer: Array  # (answers,) int32: the pair of each answer
    label: Array  # (pairs,) int32
    worker_starts: Array  # (workers + 1,) int64: pairs of worker w are worker_starts[w]:worker_starts[w + 1]


@dataclass(frozen=True, eq=False, repr=False)
class AnswerCodes:
    """The fields of `Answers`, its sizes, and where to find the answers of a task or a worker."""

    task: Array
    worker: Array
    label: Array
    task_ids: pa.Array
    worker_ids: pa.Array
    class_ids: pa.Array
    weight: Array | None = None
    pseudo: Array | None = None
    truth: Array | None = None
    removed: Mapping[str, int] = field(default_factory=dict)
    abstentions: Mapping[Any, int] = field(default_factory=dict)
    truth_is_gold: bool = False
    tasks_reordered: bool = False

    unknown: ClassVar[int | float] = -1  # in `truth`, of a task whose truth is not known

    def __post_init__(self) -> None:
        for array in (self.task, self.worker, self.label, self.weight, self.pseudo, self.truth):
            if array is not None:
                array.setflags(write=False)

    def __len__(self) -> int:
        return self.n_tasks

    @property
    def n_tasks(self) -> int:
        """Number of tasks, answered or not."""
        return len(self.task_ids)

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return len(self.worker_ids)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_ids)

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return len(self.task)

    @property
    def shape(self) -> tuple[int]:
        """(tasks,), as scikit-learn expects of a `y`."""
        return (self.n_tasks,)

    @classmethod
    def is_known(cls, truth: Array) -> Array:
        """Return a mask of the tasks whose truth is known."""
        return truth >= 0

    @property
    def marked_gold(self) -> Array | None:
        """Known labels that were marked as gold where they were read, (tasks,) codes; None without any."""
        marked = self.truth_is_gold and self.truth is not None and bool(self.is_known(self.truth).any())
        return self.truth if marked else None

    @cached_property
    def tasks(self) -> Array:
        """Ids of the tasks."""
        return to_numpy(self.task_ids)

    @cached_property
    def workers(self) -> Array:
        """Ids of the workers."""
        return to_numpy(self.worker_ids)

    @cached_property
    def classes(self) -> Array:
        """The classes."""
        return to_numpy(self.class_ids)

    @cached_property
    def task_starts(self) -> Array:
        """Answers to task t are `task_starts[t]:task_starts[t + 1]`."""
        return starts(self.task, self.n_tasks)

    @cached_property
    def by_worker(self) -> Array:
        """Row numbers sorted by worker, then task."""
        return stable_order(self.worker, self.n_workers)

    @cached_property
    def worker_starts(self) -> Array:
        """Answers of worker w are `by_worker[worker_starts[w]:worker_starts[w + 1]]`."""
        return starts(self.worker, self.n_workers)

    @cached_property
    def pairs(self) -> Pairs:
        """The distinct (worker, label) pairs: confusion counts per pair need no more memory than the answers."""
        n_codes = self.n_workers * self.n_classes
        if n_codes <= min(
            4 * self.n_answers + 1024, np.iinfo(np.int32).max
        ):  # a flag per possible pair is faster than sorting
            of_answer = self.worker * np.int32(self.n_classes)  # (answers,)
            of_answer += self.label
            used = used_codes(of_answer, n_codes)
            distinct = np.flatnonzero(used)
            of_answer = take_by_code(np.cumsum(used, dtype=np.int32) - np.int32(1), of_answer)
        else:
            code = self.worker.astype(np.int64) * self.n_classes + self.label  # (answers,)
            distinct, inverse = np.unique(code, return_inverse=True)
            of_answer = inverse.astype(np.int32)
        worker, label = np.divmod(distinct, max(self.n_classes, 1))
        return Pairs(of_answer, label.astype(np.int32), starts(worker, self.n_workers))

    def counts(self, *, dense: bool = False) -> scipy.sparse.csr_array | Array:
        """Return the votes for each class, (tasks, classes), sparse unless `dense`. Votes are weighted by `weight`.

        >>> from crowdwise.answers import Answers
        >>> Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"]).counts(dense=True)
        array([[1., 1.], [1., 0.]])
        """
        shape = (self.n_tasks, self.n_classes)
        votes = np.ones(self.n_answers) if self.weight is None else self.weight
        if dense:
            cell = self.task.astype(np.int64) * self.n_classes + self.label
            return np.bincount(cell, votes, minlength=shape[0] * shape[1]).reshape(shape)
        from scipy.sparse import coo_array

        return coo_array((votes, (self.task, self.label)), shape=shape).tocsr()
