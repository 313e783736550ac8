"""What is in a set of answers: sizes, sparsity, imbalance, agreement. The page `crowdwise inspect` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.display import html_table
from crowdwise.answers import Answers
from crowdwise.evaluate.agreement import agreement_of, alpha_of, count_pairs, kappa_of
from crowdwise.evaluate.metrics import Array, imbalance_ratio

SHOWN_CLASSES = 12  # more than this are counted, not listed, on the page


class Spread(NamedTuple):
    """How a count is spread over tasks or workers."""

    min: int
    q1: float
    median: float
    q3: float
    max: int
    mean: float

    def __str__(self) -> str:
        return (
            f"{self.mean:,.2f} on average, from {self.min:,} to {self.max:,} "
            f"(quartiles {self.q1:,g}, {self.median:,g}, {self.q3:,g})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Facts about a set of answers; `str(summary)` is a page of text. What is undefined is None.

    Attributes
    ----------
    n_tasks, n_workers, n_answers, n_classes : int
        Sizes of the tables, and number of answers.
    unanswered : int
        Tasks without an answer.
    per_task, per_worker : Spread or None
        Answers of each task and of each worker, those without any included.
    classes, votes : list
        The classes, and how many answers name each.
    imbalance : float or None
        R: answers that name the class named most over those that name the class named least (of those named).
    agreement, alpha, kappa : float or None
        Share of agreeing pairs of answers, Krippendorff's alpha, Fleiss' kappa; between workers, so without pseudo
        answers.
    n_pseudo : int
        Answers made by a model.
    n_known : int
        Tasks of known truth.
    answer_accuracy : float or None
        Share of right answers to tasks of known truth.
    truth_imbalance : float or None
        R of the known truth.
    removed : dict
        Rows left out on the way in, by reason.
    """

    n_tasks: int
    n_workers: int
    n_answers: int
    n_classes: int
    unanswered: int
    per_task: Spread | None
    per_worker: Spread | None
    classes: list[Any]
    votes: list[int]
    imbalance: float | None
    agreement: float | None
    alpha: float | None
    kappa: float | None
    n_pseudo: int
    n_known: int
    answer_accuracy: float | None
    truth_imbalance: float | None
    removed: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        plain = dict(self.__dict__)
        for name in ("per_task", "per_worker"):
            spread = getattr(self, name)
            plain[name] = None if spread is None else spread._asdict()
        return {**plain, "removed": dict(self.removed)}

    def rows(self) -> list[tuple[str, str]]:
        """The page as pairs of what and how much, in plain words."""
        rows = [
            ("tasks", f"{self.n_tasks:,}" + (f" ({self.unanswered:,} without an answer)" if self.unanswered else "")),
            ("workers", f"{self.n_workers:,}"),
            ("answers", f"{self.n_answers:,}" + (f" ({self.n_pseudo:,} made by a model)" if self.n_pseudo else "")),
            ("classes", f"{self.n_classes:,}"),
        ]
        rows += [
            (f"answers per {what}", str(spread))
            for what, spread in (("task", self.per_task), ("worker", self.per_worker))
            if spread is not None
        ]
        rows.append(("imbalance ratio R", f"{_figure(self.imbalance)} (answers for the class named most over least)"))
        rows.append(("pairwise agreement", f"{_figure(self.agreement)} of pairs of answers to the same task agree"))
        rows.append(("Krippendorff's alpha", self.reading))
        if self.kappa is not None:
            rows.append(("Fleiss' kappa", _figure(self.kappa)))
        if self.n_known:
            accuracy = "" if self.answer_accuracy is None else f", {self.answer_accuracy:.1%} of their answers right"
            rows.append(("known truth", f"{self.n_known:,} tasks{accuracy}, R {_figure(self.truth_imbalance)}"))
        rows += [("left out", f"{count:,} {why}") for why, count in self.removed.items()]
        return rows

    @property
    def reading(self) -> str:
        """Krippendorff's alpha in plain words."""
        if self.alpha is None:
            return "undefined: no task has two answers"
        words = next(words for least, words in _READINGS if self.alpha >= least)
        return f"{self.alpha:.2f}: {words}"

    def __str__(self) -> str:
        lines = [f"{what:<22}{how_much}" for what, how_much in self.rows()]
        order = np.argsort(self.votes, kind="stable")[::-1].tolist()
        shown = order[:SHOWN_CLASSES]
        width = max([len(str(self.classes[c])) for c in shown] + [5])
        lines += ["", f"{'class':<{width}}  answers   share"]
        lines += [f"{self.classes[c]!s:<{width}}  {self.votes[c]:7,}  {self._share(c):6.1%}" for c in shown]
        if len(order) > len(shown):
            rest = sum(self.votes[c] for c in order[SHOWN_CLASSES:])
            lines.append(f"and {len(order) - len(shown)} classes more, of {rest:,} answers together")
        return "\n".join(lines)

    def _share(self, c: int) -> float:
        return self.votes[c] / max(self.n_answers, 1)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self.rows())


# Krippendorff's own marks are 0.8 (rely on it) and 0.667 (draw tentative conclusions); below them the words are ours.
_READINGS = (
    (0.8, "workers agree; majority vote will do for most tasks"),
    (0.667, "workers agree fairly well; a model settles the doubtful tasks"),
    (0.2, "workers disagree a lot; look at the task's instructions or use a model"),
    (0.0, "workers hardly agree more than by chance; mend the task before trusting any label"),
    (-np.inf, "workers agree less than by chance; is a label swapped, or the column the right one?"),
)


def summarise(answers: Answers) -> Summary:
    """Count and measure, in time linear in the answers.

    Examples
    --------
    >>> answers = Answers.from_arrays([1, 1, 2, 2, 3], list("ababa"), ["cat", "cat", "dog", "cat", "cat"])
    >>> print(summarise(answers))
    tasks                 3
    workers               2
    answers               5
    classes               2
    answers per task      1.67 on average, from 1 to 2 (quartiles 1.5, 2, 2)
    answers per worker    2.50 on average, from 2 to 3 (quartiles 2.25, 2.5, 2.75)
    imbalance ratio R     4.00 (answers for the class named most over least)
    pairwise agreement    0.50 of pairs of answers to the same task agree
    Krippendorff's alpha  0.00: workers hardly agree more than by chance; mend the task before trusting any label
    <BLANKLINE>
    class  answers   share
    cat          4   80.0%
    dog          1   20.0%
    """
    per_task = np.diff(answers.task_starts)
    votes = np.bincount(answers.label, minlength=answers.n_classes)
    pairs = count_pairs(_of_workers(answers))
    truth = np.empty(0, np.int32) if answers.truth is None else answers.truth  # (tasks,), if any is known
    known = truth[answers.task] if len(truth) else truth  # (answers,)
    right = answers.label[: len(known)][known >= 0] == known[known >= 0]
    return Summary(
        n_tasks=answers.n_tasks,
        n_workers=answers.n_workers,
        n_answers=answers.n_answers,
        n_classes=answers.n_classes,
        unanswered=int((per_task == 0).sum()),
        per_task=_spread(per_task),
        per_worker=_spread(np.diff(answers.worker_starts)),
        classes=answers.classes.tolist(),
        votes=votes.tolist(),
        imbalance=imbalance_ratio(votes),
        agreement=agreement_of(pairs),
        alpha=alpha_of(pairs),
        kappa=kappa_of(pairs),
        n_pseudo=0 if answers.pseudo is None else int(answers.pseudo.sum()),
        n_known=int((truth >= 0).sum()),
        answer_accuracy=float(right.mean()) if len(right) else None,
        truth_imbalance=imbalance_ratio(np.bincount(truth[truth >= 0])),
        removed=dict(answers.removed),
    )


def _of_workers(answers: Answers) -> Answers:
    """Without what a model added: it would agree with itself."""
    if answers.pseudo is None or not answers.pseudo.any():
        return answers
    real = ~answers.pseudo
    columns = {name: getattr(answers, name)[real] for name in ("task", "worker", "label")}
    return replace(answers, **columns, weight=None, pseudo=None)


def _spread(counts: Array) -> Spread | None:
    if not len(counts):
        return None
    low, q1, median, q3, high = np.quantile(counts, [0, 0.25, 0.5, 0.75, 1]).tolist()
    return Spread(int(low), q1, median, q3, int(high), float(counts.mean()))


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
