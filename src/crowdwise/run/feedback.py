"""What to tell a worker: which classes are confused with which, against the crowd, with tasks to look at again.

    count[c, l]        expected answers l of the worker to tasks of class c, by the run's belief
    of[c]              = sum over l of count[c, l]
    crowd_share[c, l]  what all others say of class c, a share
    share[c, l]        = (count[c, l] + 2 crowd_share[c, l]) / (of[c] + 2): with few answers, near the crowd's

A confusion is named when the crowd's share would hardly ever give so many: P(count or more of `of`, each with
`crowd_share`) is below 5 % shared among all pairs of classes, so that 1 worker in 20 who is like the others is told
anything. A worker's own answer has a say in the belief, so confusions are rather missed than made up. Praise is counted
likewise, but by what the others say alone (`truth.peer_quality`): by his own answers everybody is right. Of whom too
little is known, and who spams, is not praised.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import betainc

from crowdwise._core.validation import is_integer, require
from crowdwise.errors import UnknownIdError
from crowdwise.run.advice import UNSURE, Confusion, Example, Feedback, Strength, listed
from crowdwise.run.folder import Run
from crowdwise.truth.base import Array
from crowdwise.truth.peer_quality import (
    CAUTION,
    EDGE,
    base_rates,
    crowd_counts,
    error_distribution,
    judge_by_peers,
    pair_counts,
    smoothed,
    tasks_per_class,
    workers_of_pairs,
)

CHANCE = 0.05  # probability that a worker like all others is told of a confusion
FEW = 5  # tasks of a class, below which nobody is called good at it
GOOD = 3  # classes named that a worker is good at


def feedback(run: Run, worker: Any, *, examples: int = 3, confusions: int = 5) -> Feedback:
    """What to tell a worker of a run.

    Parameters
    ----------
    run : Run
    worker : id
        As in the answers, or written as text.
    examples, confusions : int
        How many tasks to name for a confusion, and how many confusions, at most.
    """
    return feedback_all(run, [worker], examples=examples, confusions=confusions)[0]


def feedback_all(
    run: Run, workers: Iterable[Any] | None = None, *, examples: int = 3, confusions: int = 5
) -> list[Feedback]:
    """What to tell each of these workers, or all; what they share is worked out once for a run."""
    require(is_integer(examples, 0), "examples", examples, "a whole number, 0 or more")
    require(is_integer(confusions, 0), "confusions", confusions, "a whole number, 0 or more")
    crowd = _crowd(run)
    codes = range(run.answers.n_workers) if workers is None else [crowd.code(worker) for worker in workers]
    return [crowd.feedback(code, examples, confusions) for code in codes]


def in_need(run: Run) -> pa.Table:
    """The workers who are worse than the crowd beyond doubt, those who cost most right answers first.

    Returns
    -------
    pyarrow.Table
        Rows of `run.tables.workers`, with `lost`: right answers that the crowd would have given and this worker did
        not.
    """
    table = run.workers
    crowd = _crowd_quality(table)
    if crowd is None:
        return table.slice(0, 0).append_column("lost", pa.array([], pa.float64()))
    lost = pc.multiply(table.column("answers"), pc.subtract(crowd, table.column("quality")))
    sure = pc.less(table.column("quality_high"), crowd)
    return table.append_column("lost", lost).filter(sure).sort_by([("lost", "descending")])


@lru_cache(maxsize=2)
def _crowd(run: Run) -> _Crowd:
    return _Crowd(run)


class _Crowd:
    """What the feedback to all workers of a run rests on."""

    def __init__(self, run: Run) -> None:
        answers = self.answers = run.answers
        self.ids = answers.workers.tolist()
        self.place = {str(worker): code for code, worker in enumerate(self.ids)}
        self.classes = answers.classes.tolist()
        self.counts = pair_counts(answers, run.proba)  # (pairs, classes)
        self.seen = tasks_per_class(answers, self.counts)  # (workers, classes)
        self.total = crowd_counts(answers, self.counts)  # (classes, labels)
        self.found = self._found()
        self.codes = run.codes  # (tasks,)
        self.confidence = run.labels.column("confidence").to_numpy()  # (tasks,)
        self.sure = pc.equal(run.labels.column("verdict"), "accept").to_numpy()  # (tasks,)
        self.texts = run.tasks.column("text")
        self.text_row = pc.index_in(answers.task_ids, run.tasks.column("task").combine_chunks())  # (tasks,)
        names = ("answers", "quality", "quality_low", "quality_high", "spammer")
        self.workers = {name: run.workers.column(name).to_pylist() for name in names}
        self.quality = _crowd_quality(run.workers)
        quality = np.clip(run.workers.column("quality").fill_null(0.5).to_numpy(), EDGE, 1 - EDGE)
        wrong = error_distribution(smoothed(self.total))
        by_others = judge_by_peers(answers, quality, base_rates(answers, run.proba), wrong)
        self.by_others = by_others[2]  # (pairs, classes): as `counts`, by the belief of the others
        self.recognised = smoothed(crowd_counts(answers, self.by_others)).diagonal()  # (classes,)

    def code(self, worker: Any) -> int:
        """The place of a worker, by id or its text."""
        name = str(worker)
        if name not in self.place:
            close = difflib.get_close_matches(name, self.place, n=3)
            meant = (
                f"Did you mean {listed(close)}?"
                if close
                else f"There are {len(self.ids):,}, such as {listed(list(self.place)[:3])}."
            )
            message = f"no worker {name!r} in this run. {meant}"
            raise UnknownIdError(message)
        return self.place[name]

    def feedback(self, code: int, examples: int, confusions: int) -> Feedback:
        answers = self.answers
        rows = answers.by_worker[answers.worker_starts[code] : answers.worker_starts[code + 1]]
        mine = self.found[np.searchsorted(self.found["worker"], code) :][:confusions]
        mine = mine[mine["worker"] == code]
        row = {name: column[code] for name, column in self.workers.items()}
        unsure = row["quality_high"] - row["quality_low"] > UNSURE
        return Feedback(
            worker=self.ids[code],
            **row,
            crowd_quality=self.quality,
            confusions=tuple(self._confusion(each, rows, examples) for each in mine),
            good_at=() if row["spammer"] or unsure else self._good_at(code),
        )

    def _found(self) -> Array:
        """Confusions beyond chance, a row each, sorted by worker, most answers beyond the crowd's first."""
        answers = self.answers
        k, who, label = answers.n_classes, workers_of_pairs(answers), answers.pairs.label
        pair, c = np.nonzero(self.counts >= 1)
        wrong = label[pair] != c
        pair, c = pair[wrong], c[wrong]
        worker, said = who[pair], label[pair]
        count, of = self.counts[pair, c], self.seen[worker, c]
        usual = (self.total[c, said] - count + 1 / k) / (self.total.sum(axis=1)[c] - of + 1)  # by the others
        chance = betainc(count, np.maximum(of - count, 0) + 1, usual)  # P(Binomial(of, usual) >= count)
        kept = np.flatnonzero(chance < CHANCE / max(k * (k - 1), 1))
        beyond = (count - of * usual)[kept]
        order = kept[np.lexsort((-beyond, worker[kept]))]
        share = (count + CAUTION * usual) / (of + CAUTION)
        columns = {"worker": worker, "c": c, "said": said, "count": count, "of": of, "share": share, "usual": usual}
        found = np.empty(len(order), [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            found[name] = column[order]
        return found

    def _confusion(self, found: Any, rows: Array, examples: int) -> Confusion:
        answers = self.answers
        task = answers.task[rows[answers.label[rows] == found["said"]]]
        task = task[self.codes[task] == found["c"]]
        best = task[np.lexsort((-self.confidence[task], ~self.sure[task]))][:examples]
        return Confusion(
            truth=self.classes[found["c"]],
            said=self.classes[found["said"]],
            count=float(found["count"]),
            of=float(found["of"]),
            share=float(found["share"]),
            crowd_share=float(found["usual"]),
            examples=tuple(self._example(t) for t in best.tolist()),
        )

    def _example(self, task: int) -> Example:
        row = self.text_row[task].as_py()
        text = None if row is None else self.texts[row].as_py()
        label = self.classes[self.codes[task]]
        return Example(self.answers.task_ids[task].as_py(), text, label, float(self.confidence[task]))

    def _good_at(self, code: int) -> tuple[Strength, ...]:
        """Classes this worker recognises at least as well as the crowd, those met most often first."""
        pairs = self.answers.pairs
        mine = slice(pairs.worker_starts[code], pairs.worker_starts[code + 1])
        c = pairs.label[mine]  # (labels the worker uses,)
        counts = self.by_others[mine]  # (labels, classes)
        right, of = counts[np.arange(len(c)), c], counts.sum(axis=0)[c]
        usual = self.recognised[c]
        share = (right + CAUTION * usual) / (of + CAUTION)
        good = np.flatnonzero((of >= FEW) & (share >= usual) & (share > 0.5))
        good = good[np.argsort(-of[good], kind="stable")][:GOOD]
        return tuple(
            Strength(self.classes[c[i]], float(of[i]), float(share[i]), float(usual[i])) for i in good.tolist()
        )


def _crowd_quality(workers: pa.Table) -> float | None:
    """Mean quality of the answers of all workers."""
    total = pc.sum(pc.multiply(workers.column("answers"), workers.column("quality"))).as_py()
    return None if total is None else total / pc.sum(workers.column("answers")).as_py()
