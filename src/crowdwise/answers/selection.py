"""Derive one set of answers from another: select tasks, workers or answers, merge, attach known labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from crowdwise.answers import merging
from crowdwise.answers.codes import AnswerCodes
from crowdwise.answers.encoding import lookup, runs
from crowdwise.answers.rows import Array, Duplicates, check_ids, sort_rows
from crowdwise.errors import DuplicateError, ParameterError


@dataclass(frozen=True, eq=False, repr=False)
class SelectionMixin(AnswerCodes):
    """The methods of `Answers` that return a new set of answers."""

    def __getitem__(self, rows: Any) -> Self:
        """Return the answers to the tasks at these rows, in this order; workers and classes do not change."""
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        rows = np.arange(self.n_tasks)[rows]
        if len(np.unique(rows)) < len(rows):
            message = (
                "a task is selected twice, but answers contain each task once. To count a task more often, use weights."
            )
            raise DuplicateError(message)
        answer_rows, task = runs(self.task_starts, rows)
        return replace(
            self.take(answer_rows),
            task=task.astype(np.int32),
            task_ids=self.task_ids.take(pa.array(rows)),
            truth=None if self.truth is None else self.truth[rows],
        )

    def select(self, *, tasks: Any = None, workers: Any = None, classes: Any = None) -> Self:
        """Return only the answers of these tasks, workers and classes.

        The other id tables do not change, so a task may end up without answers.

        >>> from crowdwise.answers import Answers
        >>> answers = Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"])
        >>> answers.select(workers=["y"])
        Answers(2 tasks, 1 workers, 1 answers, 2 classes)
        """
        out = self
        if tasks is not None:
            out = out[lookup(check_ids(tasks, "task"), self.task_ids, "task")]
        for what, ids, codes in (("worker", workers, "worker"), ("class", classes, "label")):
            if ids is None:
                continue
            table = check_ids(ids, what)
            selected = lookup(table, getattr(out, f"{what}_ids"), what)
            new_code = np.full(len(getattr(out, f"{what}_ids")), -1, np.int32)
            new_code[selected] = np.arange(len(selected), dtype=np.int32)
            truth = out.truth
            if what == "class" and truth is not None:
                truth = np.where(truth >= 0, new_code[truth], -1).astype(np.int32)
            out = out.take(np.flatnonzero(new_code[getattr(out, codes)] >= 0))
            changed: dict[str, Any] = {
                codes: new_code[getattr(out, codes)],
                f"{what}_ids": table,
                "truth": truth,
            }
            out = replace(out, **changed)
            if what == "worker":  # a new order of workers changes the order of rows
                out = out._sorted()
        return out

    def thin(self, fraction: float, *, keep_one: bool = True, seed: int = 0) -> Self:
        """Remove a fraction of the answers at random, as in the papers' sparsity study.

        Parameters
        ----------
        fraction : float
            Share of all answers to remove, from 0 up to but not including 1.
        keep_one : bool
            Keep at least one answer to each task that has one. The share removed is then as close to `fraction` as
            possible.
        seed : int
            The same seed removes the same answers.
        """
        return self.take(self.thinned(fraction, keep_one=keep_one, seed=seed))

    def thinned(self, fraction: float, *, keep_one: bool = True, seed: int = 0) -> Array:
        """Return the row numbers of the answers that `thin` keeps."""
        if not 0 <= fraction < 1:
            message = f"fraction={fraction}: pass the share of answers to remove, at least 0 and below 1."
            raise ParameterError(message)
        draw = np.random.default_rng(seed).random(self.n_answers)
        n_keep = self.n_answers - round(fraction * self.n_answers)
        if keep_one:  # the smallest draw of each task is ranked before all others
            first = self.task_starts[:-1][np.diff(self.task_starts) > 0]
            smallest = np.repeat(np.minimum.reduceat(draw, first), np.diff(np.append(first, self.n_answers)))
            draw[draw == smallest] -= 1
            n_keep = max(n_keep, len(first))
        return np.sort(np.argsort(draw, kind="stable")[:n_keep])

    def merge(
        self,
        other: AnswerCodes,
        *,
        pseudo: bool = False,
        weight: float | None = None,
        duplicates: Duplicates = "error",
    ) -> Self:
        """Add answers. New ids are appended to the id tables, so the codes of existing ids do not change.

        Parameters
        ----------
        other : Answers
            The answers to add.
        pseudo : bool
            Mark all added answers as made by a model; otherwise they keep their own marks.
        weight : float, optional
            Weight of each added answer, replacing its own.
        duplicates : {"error", "first", "last", "vote"}
            What to do if both contain an answer of a worker to a task; "first" keeps the old one, "last" the new one.
        """
        return replace(self, **merging.merge(self, other, pseudo=pseudo, weight=weight, duplicates=duplicates))

    def with_truth(self, truth: Any, *, ignore_unknown: bool = False) -> Self:
        """Return the answers with known labels attached.

        Parameters
        ----------
        truth : mapping or Series of task to class, table, pair (tasks, classes), or codes (-1 unknown) in task order
            A table has a column of tasks and one named `truth` or `label`; rows without a label are skipped. A class
            that no worker chose is added to the classes.
        ignore_unknown : bool
            Skip tasks that have no answers, and count them in `removed`; otherwise they are an error.

        Examples
        --------
        >>> from crowdwise.answers import Answers
        >>> answers = Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"])
        >>> answers.with_truth({2: "yes"}).truth.tolist()
        [-1, 1]
        """
        return replace(self, **merging.with_truth(self, truth, ignore_unknown=ignore_unknown))

    def truth_per_task(self, truth: Any) -> Array:
        """Return known truth, passed as in `with_truth`, in task order and the form of `truth`."""
        return self.codes_of_truth(truth)

    def codes_of_truth(self, truth: Any) -> Array:
        """Return known labels, passed as in `with_truth`, as int32 codes in task order, -1 where unknown."""
        return merging.truth_codes(self, truth)

    def take(self, rows: Array) -> Self:
        """Return the answers at these rows (increasing); the id tables do not change."""
        return replace(
            self,
            task=self.task[rows],
            worker=self.worker[rows],
            label=self.label[rows],
            weight=None if self.weight is None else self.weight[rows],
            pseudo=None if self.pseudo is None else self.pseudo[rows],
        )

    def _sorted(self) -> Self:
        fields = sort_rows(
            [self.task, self.worker, self.label], (self.task_ids, self.worker_ids, self.class_ids),
            weight=self.weight, pseudo=self.pseudo, truth=self.truth, duplicates="error", removed=dict(self.removed),
        )  # fmt: skip
        return replace(self, **fields)
