"""Summary of a set of answers, as `crowdwise inspect` prints it: sizes, sparsity, imbalance, agreement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.display import html_table
from crowdwise.answers import Answers, as_answers
from crowdwise.evaluate.agreement import agreement_from_counts, alpha_from_counts, count_pairs, kappa_from_counts
from crowdwise.evaluate.metrics import Array, imbalance_ratio

MAX_CLASSES_SHOWN = 12  # the others are only counted


class Spread(NamedTuple):
    """Distribution of a count over tasks or workers."""

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
    """Statistics of a set of answers; `str(summary)` is a page of text. Undefined values are None.

    Attributes
    ----------
    n_tasks, n_workers, n_answers, n_classes : int
        Number of tasks, workers, answers and classes.
    unanswered : int
        Number of tasks without an answer.
    per_task, per_worker : Spread or None
        Answers per task and per worker, including those without any.
    classes, votes : list
        The classes, and the number of answers per class.
    imbalance : float or None
        R: answers for the most frequent class over answers for the least frequent one, among classes with answers.
    agreement, alpha, kappa : float or None
        Share of agreeing pairs of answers, Krippendorff's alpha, Fleiss' kappa. Pseudo answers are excluded.
    n_pseudo : int
        Number of answers made by a model.
    n_known : int
        Number of tasks of known truth.
    answer_accuracy : float or None
        Share of correct answers to tasks of known truth.
    truth_imbalance : float or None
        R of the known truth.
    removed : dict
        Number of rows dropped when the answers were read, by reason.
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
        """Return all values in types that JSON can represent."""
        plain = dict(self.__dict__)
        for name in ("per_task", "per_worker"):
            spread = getattr(self, name)
            plain[name] = None if spread is None else spread._asdict()
        return {**plain, "removed": dict(self.removed)}

    def rows(self) -> list[tuple[str, str]]:
        """Return the page as pairs of a name and a value."""
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
        rows.append(
            (
                "imbalance ratio R",
                f"{_format(self.imbalance)} (answers for the most frequent class over the least frequent)",
            )
        )
        pairs = "undefined: no task has two answers"
        if self.agreement is not None:
            pairs = f"{_format(self.agreement)} of pairs of answers to the same task agree"
        rows.append(("pairwise agreement", pairs))
        rows.append(("Krippendorff's alpha", self.reading))
        if self.kappa is not None:
            rows.append(("Fleiss' kappa", _format(self.kappa)))
        if self.n_known:
            accuracy = (
                "" if self.answer_accuracy is None else f", {self.answer_accuracy:.1%} of their answers are correct"
            )
            rows.append(("known truth", f"{self.n_known:,} tasks{accuracy}, R {_format(self.truth_imbalance)}"))
        rows += [("left out", f"{count:,} {reason}") for reason, count in self.removed.items()]
        return rows

    @property
    def reading(self) -> str:
        """Krippendorff's alpha and what it means."""
        if self.alpha is None:
            return "undefined: no task has two answers"
        meaning = next(meaning for least, meaning in _READINGS if self.alpha >= least)
        return f"{self.alpha:.2f}: {meaning}"

    def __str__(self) -> str:
        lines = [f"{name:<22}{value}" for name, value in self.rows()]
        order = np.argsort(self.votes, kind="stable")[::-1].tolist()
        shown = order[:MAX_CLASSES_SHOWN]
        width = max([len(str(self.classes[c])) for c in shown] + [5])
        lines += ["", f"{'class':<{width}}  answers   share"]
        lines += [f"{self.classes[c]!s:<{width}}  {self.votes[c]:7,}  {self._share(c):6.1%}" for c in shown]
        if len(order) > len(shown):
            rest = sum(self.votes[c] for c in order[MAX_CLASSES_SHOWN:])
            lines.append(f"and {len(order) - len(shown)} more classes with {rest:,} answers in total")
        return "\n".join(lines)

    def _share(self, c: int) -> float:
        return self.votes[c] / max(self.n_answers, 1)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self.rows())


# The thresholds 0.8 (reliable) and 0.667 (tentative conclusions) are Krippendorff's; the lower ones are ours.
_READINGS = (
    (0.8, "workers agree; majority vote is enough for most tasks"),
    (0.667, "workers agree fairly well; use a model for the disputed tasks"),
    (0.2, "workers often disagree; check the instructions or use a model"),
    (0.0, "workers agree little more than by chance; fix the task before using any label"),
    (-np.inf, "workers agree less than by chance; check for swapped labels or a wrong column"),
)


def summarise(answers: Any) -> Summary:
    """Summarise answers, or a table of them, in time linear in the answers.

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
    imbalance ratio R     4.00 (answers for the most frequent class over the least frequent)
    pairwise agreement    0.50 of pairs of answers to the same task agree
    Krippendorff's alpha  0.00: workers agree little more than by chance; fix the task before using any label
    <BLANKLINE>
    class  answers   share
    cat          4   80.0%
    dog          1   20.0%
    """
    answers = as_answers(answers)
    per_task = np.diff(answers.task_starts)
    votes = np.bincount(answers.label, minlength=answers.n_classes)
    pairs = count_pairs(_without_pseudo(answers))
    truth = np.empty(0, np.int32) if answers.truth is None else answers.truth  # (tasks,), if any is known
    known = truth[answers.task] if len(truth) else truth  # (answers,)
    correct = answers.label[: len(known)][known >= 0] == known[known >= 0]
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
        agreement=agreement_from_counts(pairs),
        alpha=alpha_from_counts(pairs),
        kappa=kappa_from_counts(pairs),
        n_pseudo=0 if answers.pseudo is None else int(answers.pseudo.sum()),
        n_known=int((truth >= 0).sum()),
        answer_accuracy=float(correct.mean()) if len(correct) else None,
        truth_imbalance=imbalance_ratio(np.bincount(truth[truth >= 0])),
        removed=dict(answers.removed),
    )


def _without_pseudo(answers: Answers) -> Answers:
    """Return only the answers of workers: a model would agree with itself."""
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


def _format(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
