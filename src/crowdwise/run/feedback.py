"""Feedback for a worker: which classes they confuse, compared with the crowd, with tasks to look at again.

    count[c, l]        expected number of the worker's answers l to tasks of class c, by the run's probabilities
    of[c]              = sum over l of count[c, l]
    crowd_share[c, l]  share of answers l that all other workers give to tasks of class c
    share[c, l]        = (count[c, l] + 2 crowd_share[c, l]) / (of[c] + 2): with few answers, near the crowd's

A confusion is reported if chance hardly explains it: P(count or more of `of` answers, each with `crowd_share`) is below
5% divided by the number of pairs of classes. So about 1 in 20 ordinary workers gets a false report. A worker's own
answers influence the probabilities, so confusions are missed rather than invented. Praise is counted alike, but by the
answers of other workers only (`truth.peer_quality`), since everybody is right by their own answers. Spammers, and
workers with too few shared answers, are not praised.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from html import escape
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import betainc

from crowdwise._core.validation import is_integer, require
from crowdwise.errors import UnknownIdError
from crowdwise.run.folder import Run
from crowdwise.truth.base import Array
from crowdwise.truth.peer_quality import (
    CAUTION,
    EDGE,
    base_rates,
    crowd_counts,
    error_distribution,
    judge_by_peers,
    one_quality,
    pair_counts,
    smoothed,
    tasks_per_class,
    workers_of_pairs,
)

FALSE_REPORTS = 0.05  # probability of reporting a confusion to a worker who is like all others
MIN_PRAISED = 5  # tasks of a class, below which nobody is praised for it
MAX_PRAISED = 3  # classes named in the praise
WIDE = 0.4  # a quality interval wider than this says too little
MIXED_UP = 0.5  # a worker below this quality, who calls one class another more often than this, may mix up labels
MAX_TEXT = 30  # characters of a task's text in a sentence


@dataclass(frozen=True)
class Example:
    """A task to look at again, with its label and confidence."""

    task: Any
    text: str | None
    label: Any
    confidence: float

    def __str__(self) -> str:
        if not self.text:
            return str(self.task)
        text = self.text if len(self.text) <= MAX_TEXT else f"{self.text[: MAX_TEXT - 3]}..."
        return f"{self.task} ({text})"


@dataclass(frozen=True)
class Confusion:
    """A class that the worker takes for another more often than the crowd does."""

    truth: Any
    said: Any
    count: float
    of: float
    share: float
    crowd_share: float
    examples: tuple[Example, ...]

    def __str__(self) -> str:
        of = max(round(self.of), 1)
        text = (
            f"You labelled {min(round(self.count), of)} of {of} {_tasks(of)} '{self.said}' that are most likely "
            f"'{self.truth}'; other workers do so for {_percent(self.crowd_share)}."
        )
        if not self.examples:
            return text
        return f"{text} Please look again at {_tasks(len(self.examples))} {_join(map(str, self.examples))}."


@dataclass(frozen=True)
class Strength:
    """A class that the worker recognises at least as well as the crowd."""

    label: Any
    of: float
    share: float
    crowd_share: float


@dataclass(frozen=True)
class Feedback:
    """Feedback for one worker. Its text can be sent to the worker.

    Attributes
    ----------
    worker : id
    answers : int
    quality, quality_low, quality_high : float or None
        Share of right answers and its interval, as in `run.workers`.
    crowd_quality : float or None
        Share of right answers of all workers together.
    confusions : tuple of Confusion
        Those with most answers beyond the crowd's first.
    good_at : tuple of Strength
    spammer : bool
    """

    worker: Any
    answers: int
    quality: float | None
    quality_low: float
    quality_high: float
    crowd_quality: float | None
    confusions: tuple[Confusion, ...]
    good_at: tuple[Strength, ...]
    spammer: bool

    @property
    def words(self) -> list[str]:
        """The feedback in sentences."""
        return [self._opening(), *map(str, self.confusions), *self._closing()]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, with `words`."""
        plain = asdict(self)
        for each in plain["confusions"]:
            each["examples"] = list(each["examples"])
        lists = {name: list(plain[name]) for name in ("confusions", "good_at")}
        return plain | lists | {"words": self.words}

    def __str__(self) -> str:
        return "\n".join([f"Worker {self.worker}", *self.words])

    def _repr_html_(self) -> str:
        words = "".join(f"<li>{escape(text)}</li>" for text in self.words)
        return f"<p><b>Worker {escape(str(self.worker))}</b></p><ul>{words}</ul>"

    def _opening(self) -> str:
        if self.quality is None or self.crowd_quality is None:
            return "You have not answered any task yet."
        start = f"You answered {self.answers:,} {_tasks(self.answers)}."
        if self.spammer:  # whoever repeats the most frequent class is often right, which says nothing about them
            return start
        if self.quality_high - self.quality_low > WIDE:
            return f"{start} The answers of others are too few, or differ too much, to say how many you got right."
        return (
            f"{start} {_about(self.quality)} of your answers are right ({_percent(self.quality_low)} to "
            f"{_percent(self.quality_high)}); of all workers' answers, {_percent(self.crowd_quality)} are."
        )

    def _closing(self) -> list[str]:
        out = []
        if self.spammer:
            out.append(
                "Your answers do not seem to depend on the task. Please read the instructions again, and ask if "
                "anything is unclear."
            )
        elif self.quality_high < MIXED_UP and any(each.share > MIXED_UP for each in self.confusions):
            out.append("Did you mix up the labels? You often differ from other workers in the same way.")
        elif self.answers and not self.confusions:
            out.append("You do not confuse any classes more often than others do.")
        if self.good_at:
            names = _join(f"'{each.label}'" for each in self.good_at)
            out.append(f"You recognise {names} at least as well as others do. Thank you!")
        return out


def feedback(run: Run, worker: Any, *, examples: int = 3, confusions: int = 5) -> Feedback:
    """Return feedback for one worker of a run.

    Parameters
    ----------
    run : Run
    worker : id
        As in the answers, or as text.
    examples, confusions : int
        Maximum number of examples per confusion, and of confusions.
    """
    return feedback_all(run, [worker], examples=examples, confusions=confusions)[0]


def feedback_all(
    run: Run, workers: Iterable[Any] | None = None, *, examples: int = 3, confusions: int = 5
) -> list[Feedback]:
    """Return feedback for these workers, or for all; what they share is computed once per run."""
    require(is_integer(examples, 0), "examples", examples, "an integer, 0 or more")
    require(is_integer(confusions, 0), "confusions", confusions, "an integer, 0 or more")
    writer = _feedback_writer(run)
    codes = range(run.answers.n_workers) if workers is None else [writer.code(worker) for worker in workers]
    return [writer.feedback(code, examples, confusions) for code in codes]


def workers_below_crowd(run: Run) -> pa.Table:
    """Return the workers who are clearly worse than the crowd, those who cost most right answers first.

    Returns
    -------
    pyarrow.Table
        Rows of `run.workers`, with `lost`: how many more right answers the crowd would have given.
    """
    table = run.tables.workers
    crowd = _crowd_quality(table)
    if crowd is None:
        return table.slice(0, 0).append_column("lost", pa.array([], pa.float64()))
    lost = pc.multiply(table.column("answers"), pc.subtract(crowd, table.column("quality")))
    clearly = pc.less(table.column("quality_high"), crowd)
    return table.append_column("lost", lost).filter(clearly).sort_by([("lost", "descending")])


_WRITERS: WeakKeyDictionary[Run, _FeedbackWriter] = WeakKeyDictionary()


def _feedback_writer(run: Run) -> _FeedbackWriter:
    if run not in _WRITERS:
        _WRITERS[run] = _FeedbackWriter(run)
    return _WRITERS[run]


class _FeedbackWriter:
    """Writes feedback for the workers of one run; holds what they share."""

    def __init__(self, run: Run) -> None:
        answers = self.answers = run.answers
        self.ids = answers.workers.tolist()
        self.code_of = {str(worker): code for code, worker in enumerate(self.ids)}
        self.classes = answers.classes.tolist()
        self.counts = pair_counts(answers, run.proba)  # (pairs, classes)
        self.seen = tasks_per_class(answers, self.counts)  # (workers, classes)
        self.total = crowd_counts(answers, self.counts)  # (classes, labels)
        self.confusions = self._find_confusions()
        self.codes = run.codes  # (tasks,)
        self.confidence = run.tables.labels.column("confidence").to_numpy()  # (tasks,)
        self.accepted = pc.equal(run.tables.labels.column("verdict"), "accept").to_numpy()  # (tasks,)
        self.texts = run.tables.tasks.column("text")
        self.text_row = pc.index_in(answers.task_ids, run.tables.tasks.column("task").combine_chunks())  # (tasks,)
        names = ("answers", "quality", "quality_low", "quality_high", "spammer")
        self.workers = {name: run.tables.workers.column(name).to_pylist() for name in names}
        flagged = "flag" in run.tables.workers.column_names  # not in runs of earlier versions
        self.flags = run.tables.workers.column("flag").to_pylist() if flagged else [None] * len(self.ids)
        self.quality = _crowd_quality(run.tables.workers)
        quality = np.clip(run.tables.workers.column("quality").fill_null(0.5).to_numpy(), EDGE, 1 - EDGE)
        wrong = error_distribution(smoothed(self.total))
        said = one_quality(answers, quality, wrong)
        by_others = judge_by_peers(answers, said, base_rates(answers, run.proba), wrong)
        self.by_others = by_others[2]  # (pairs, classes): as `counts`, by the answers of other workers
        self.recognised = smoothed(crowd_counts(answers, self.by_others)).diagonal()  # (classes,)

    def code(self, worker: Any) -> int:
        """Return the code of a worker, given the id or its text."""
        name = str(worker)
        if name not in self.code_of:
            close = difflib.get_close_matches(name, self.code_of, n=3)
            hint = (
                f"Did you mean {_join(close)}?"
                if close
                else f"It has {len(self.ids):,} workers, such as {_join(list(self.code_of)[:3])}."
            )
            message = f"No worker {name!r} in this run. {hint}"
            raise UnknownIdError(message)
        return self.code_of[name]

    def feedback(self, code: int, examples: int, confusions: int) -> Feedback:
        """Return feedback for the worker with this code."""
        answers = self.answers
        rows = answers.by_worker[answers.worker_starts[code] : answers.worker_starts[code + 1]]
        own = self.confusions[np.searchsorted(self.confusions["worker"], code) :][:confusions]
        own = own[own["worker"] == code]
        row = {name: column[code] for name, column in self.workers.items()}
        unknown = row["quality_high"] - row["quality_low"] > WIDE
        return Feedback(
            worker=self.ids[code],
            **row,
            crowd_quality=self.quality,
            confusions=tuple(self._confusion(each, rows, examples) for each in own),
            good_at=() if row["spammer"] or self.flags[code] or unknown else self._good_at(code),
        )

    def _find_confusions(self) -> Array:
        """Confusions beyond chance, one row each, sorted by worker, most answers beyond the crowd's first."""
        answers = self.answers
        k, pair_worker, label = answers.n_classes, workers_of_pairs(answers), answers.pairs.label
        pair, c = np.nonzero(self.counts >= 1)
        wrong = label[pair] != c
        pair, c = pair[wrong], c[wrong]
        worker, said = pair_worker[pair], label[pair]
        count, of = self.counts[pair, c], self.seen[worker, c]
        usual = (self.total[c, said] - count + 1 / k) / (self.total.sum(axis=1)[c] - of + 1)  # by the others
        chance = betainc(count, np.maximum(of - count, 0) + 1, usual)  # P(Binomial(of, usual) >= count)
        unusual = np.flatnonzero(chance < FALSE_REPORTS / max(k * (k - 1), 1))
        beyond = (count - of * usual)[unusual]
        order = unusual[np.lexsort((-beyond, worker[unusual]))]
        share = (count + CAUTION * usual) / (of + CAUTION)
        columns = {"worker": worker, "c": c, "said": said, "count": count, "of": of, "share": share, "usual": usual}
        table = np.empty(len(order), [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            table[name] = column[order]
        return table

    def _confusion(self, row: Any, rows: Array, examples: int) -> Confusion:
        """A row of `confusions` with examples among these answers, accepted labels of high confidence first."""
        answers = self.answers
        task = answers.task[rows[answers.label[rows] == row["said"]]]
        task = task[self.codes[task] == row["c"]]
        best = task[np.lexsort((-self.confidence[task], ~self.accepted[task]))][:examples]
        return Confusion(
            truth=self.classes[row["c"]],
            said=self.classes[row["said"]],
            count=float(row["count"]),
            of=float(row["of"]),
            share=float(row["share"]),
            crowd_share=float(row["usual"]),
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
        own = slice(pairs.worker_starts[code], pairs.worker_starts[code + 1])
        c = pairs.label[own]  # (labels the worker uses,)
        counts = self.by_others[own]  # (labels, classes)
        right, of = counts[np.arange(len(c)), c], counts.sum(axis=0)[c]
        usual = self.recognised[c]
        share = (right + CAUTION * usual) / (of + CAUTION)
        good = np.flatnonzero((of >= MIN_PRAISED) & (share >= usual) & (share > 0.5))
        good = good[np.argsort(-of[good], kind="stable")][:MAX_PRAISED]
        return tuple(
            Strength(self.classes[c[i]], float(of[i]), float(share[i]), float(usual[i])) for i in good.tolist()
        )


def _crowd_quality(workers: pa.Table) -> float | None:
    """Mean quality of all workers, weighted by their number of answers."""
    total = pc.sum(pc.multiply(workers.column("answers"), workers.column("quality"))).as_py()
    return None if total is None else total / pc.sum(workers.column("answers")).as_py()


def _percent(share: float) -> str:
    """A share in words that never round to none or all.

    >>> _percent(0.083), _percent(0.001), _percent(0.999)
    ('8%', 'under 1%', 'over 99%')
    """
    if share < 0.01:
        return "under 1%"
    return "over 99%" if share > 0.99 else f"{share:.0%}"


def _about(share: float) -> str:
    """A share at the start of a sentence.

    >>> _about(0.083), _about(0.999)
    ('About 8%', 'Over 99%')
    """
    text = _percent(share)
    return f"About {text}" if text[0].isdigit() else text.capitalize()


def _tasks(n: int) -> str:
    return "task" if n == 1 else "tasks"


def _join(names: Iterable[str]) -> str:
    """Names with commas and an "and".

    >>> _join(["17", "4", "90"])
    '17, 4 and 90'
    """
    *first, last = [*names] or [""]
    return f"{', '.join(first)} and {last}" if first else last
