"""Parts of a set of answers, and what is added to one: fewer tasks, workers or answers, more answers, known labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from crowdwise.answers import merging
from crowdwise.answers.codes import Codes
from crowdwise.answers.encoding import lookup, runs
from crowdwise.answers.rows import Array, Duplicates, id_table, sort_rows
from crowdwise.errors import DuplicateError, ParameterError


@dataclass(frozen=True, eq=False, repr=False)
class SelectionMixin(Codes):
    """Every way from one set of answers to another; each gives a new one."""

    def __getitem__(self, rows: Any) -> Self:
        """Answers to the tasks at these rows, in this order; workers and classes stay as they are."""
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        rows = np.arange(self.n_tasks)[rows]
        if len(np.unique(rows)) < len(rows):
            message = "a task is selected twice; answers hold each task once. Use weights to count one more often."
            raise DuplicateError(message)
        kept, task = runs(self.task_starts, rows)
        return replace(
            self.take(kept),
            task=task.astype(np.int32),
            task_ids=self.task_ids.take(pa.array(rows)),
            truth=None if self.truth is None else self.truth[rows],
        )

    def select(self, *, tasks: Any = None, workers: Any = None, classes: Any = None) -> Self:
        """Narrow the named tables to these ids, leaving out the answers that refer to others.

        The tables not named stay whole, so a task may end up without answers.

        >>> from crowdwise.answers import Answers
        >>> answers = Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"])
        >>> answers.select(workers=["y"])
        Answers(2 tasks, 1 workers, 1 answers, 2 classes)
        """
        out = self
        if tasks is not None:
            out = out[lookup(id_table(tasks, "task"), self.task_ids, "task")]
        for what, ids, codes in (("worker", workers, "worker"), ("class", classes, "label")):
            if ids is None:
                continue
            table = id_table(ids, what)
            chosen = lookup(table, getattr(out, f"{what}_ids"), what)
            new_code = np.full(len(getattr(out, f"{what}_ids")), -1, np.int32)
            new_code[chosen] = np.arange(len(chosen), dtype=np.int32)
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
                out = out._resorted()
        return out

    def thin(self, fraction: float, *, keep_one: bool = True, seed: int = 0) -> Self:
        """Remove a fraction of the answers at random: the papers' sparsity study.

        Parameters
        ----------
        fraction : float
            Share of all answers to remove, from 0 up to but not including 1.
        keep_one : bool
            Leave at least one answer to each task that has one. The share removed is then as close to `fraction` as
            that allows.
        seed : int
            The same seed removes the same answers.
        """
        return self.take(self.thinned(fraction, keep_one=keep_one, seed=seed))

    def thinned(self, fraction: float, *, keep_one: bool = True, seed: int = 0) -> Array:
        """Row numbers of the answers that `thin` keeps."""
        if not 0 <= fraction < 1:
            message = f"fraction={fraction}: give the share of answers to remove, from 0 up to but not including 1."
            raise ParameterError(message)
        draw = np.random.default_rng(seed).random(self.n_answers)
        n_keep = self.n_answers - round(fraction * self.n_answers)
        if keep_one:  # the smallest draw of each task goes before all others
            first = self.task_starts[:-1][np.diff(self.task_starts) > 0]
            smallest = np.repeat(np.minimum.reduceat(draw, first), np.diff(np.append(first, self.n_answers)))
            draw[draw == smallest] -= 1
            n_keep = max(n_keep, len(first))
        return np.sort(np.argsort(draw, kind="stable")[:n_keep])

    def merge(
        self,
        other: Codes,
        *,
        pseudo: bool = False,
        weight: float | None = None,
        duplicates: Duplicates = "error",
    ) -> Self:
        """Add answers. Ids new to this set are appended to its tables, so the codes of known ids do not change.

        Parameters
        ----------
        other : Answers
            What to add.
        pseudo : bool
            Mark all that is added as made by a model; otherwise its own marks are kept.
        weight : float, optional
            Weight of each added answer, in place of its own.
        duplicates : {"error", "first", "last", "vote"}
            When both hold an answer of a worker to a task; "first" keeps ours, "last" the added one.
        """
        return type(self)(**merging.merge(self, other, pseudo=pseudo, weight=weight, duplicates=duplicates))

    def with_truth(self, truth: Any, *, ignore_unknown: bool = False) -> Self:
        """Attach known labels.

        Parameters
        ----------
        truth : mapping or Series of task to class, pair (tasks, classes), or codes (-1 unknown) in task order
            A class that no worker chose is added to the classes.
        ignore_unknown : bool
            Leave out, and count in `removed`, tasks that are not here; otherwise they are an error.

        Examples
        --------
        >>> from crowdwise.answers import Answers
        >>> answers = Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"])
        >>> answers.with_truth({2: "yes"}).truth.tolist()
        [-1, 1]
        """
        return replace(self, **merging.with_truth(self, truth, ignore_unknown=ignore_unknown))

    def codes_of_truth(self, truth: Any) -> Array:
        """Known labels, given as in `with_truth`, as int32 codes in task order, -1 where unknown."""
        return merging.truth_codes(self, truth)

    def take(self, rows: Array) -> Self:
        """Only these answers (row numbers, increasing); all tables stay."""
        return replace(
            self,
            task=self.task[rows],
            worker=self.worker[rows],
            label=self.label[rows],
            weight=None if self.weight is None else self.weight[rows],
            pseudo=None if self.pseudo is None else self.pseudo[rows],
        )

    def _resorted(self) -> Self:
        fields = sort_rows(
            [self.task, self.worker, self.label], (self.task_ids, self.worker_ids, self.class_ids),
            weight=self.weight, pseudo=self.pseudo, truth=self.truth, duplicates="error", removed=dict(self.removed),
        )  # fmt: skip
        return type(self)(**fields)
