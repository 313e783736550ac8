"""All metrics of a model, or of probabilities, against known truth in one call."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from crowdwise._core.display import html_table
from crowdwise.answers import Answers
from crowdwise.errors import GoldError, ParameterError
from crowdwise.evaluate import metrics
from crowdwise.evaluate.metrics import Array, ClassScore


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """The metrics of one model; `scores["accuracy"]` is `scores.accuracy`. Undefined metrics are None.

    Attributes
    ----------
    accuracy, balanced_accuracy, macro_f1, auc : float or None
        1 is best; see `metrics` for how each handles a missing class.
    log_loss, brier, ece : float or None
        0 is best; None, like `auc`, if only labels were passed.
    per_class : list of ClassScore
        Support, precision, recall and F1 of each class.
    confusion : (classes, classes) int array
        Number of tasks per true class (rows) and predicted class (columns).
    n_tasks, n_unknown : int
        Number of tasks scored, and of tasks ignored because their truth is unknown.
    """

    accuracy: float | None
    balanced_accuracy: float | None
    macro_f1: float | None
    log_loss: float | None
    brier: float | None
    ece: float | None
    auc: float | None
    per_class: list[ClassScore]
    confusion: Array
    n_tasks: int
    n_unknown: int

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            message = f"no metric {name!r}; use one of {', '.join(NAMES)}."
            raise ParameterError(message)
        return getattr(self, name)

    def as_dict(self) -> dict[str, Any]:
        """Return all values in types that JSON can represent."""
        plain = {name: getattr(self, name) for name in NAMES}
        plain["per_class"] = [{**row._asdict(), "name": _to_python(row.name)} for row in self.per_class]
        plain["confusion"] = self.confusion.tolist()
        return plain

    def __str__(self) -> str:
        ignored = f", {self.n_unknown} of unknown truth ignored" if self.n_unknown else ""
        lines = [f"{self.n_tasks} tasks scored{ignored}"]
        lines += [f"{name.replace('_', ' '):<18}{_format(getattr(self, name)):>8}" for name in METRICS]
        width = max([len(str(row.name)) for row in self.per_class] + [5])
        lines += ["", f"{'class':<{width}}  support  precision  recall      F1"]
        lines += [
            f"{row.name!s:<{width}}  {row.support:7d}  {_format(row.precision):>9}  {_format(row.recall):>6}"
            f"  {_format(row.f1):>6}"
            for row in self.per_class
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Scores({', '.join(f'{name}={_format(getattr(self, name))}' for name in METRICS)})"

    def _repr_html_(self) -> str:
        rows = [[name.replace("_", " "), _format(getattr(self, name))] for name in METRICS]
        ignored = f", {self.n_unknown:,} of unknown truth ignored" if self.n_unknown else ""
        return html_table(rows, paragraphs=[f"{self.n_tasks:,} tasks scored{ignored}"])


NAMES = tuple(field.name for field in fields(Scores))
METRICS = NAMES[:7]


def evaluate(model: Any, truth: Any = None, answers: Answers | None = None) -> Scores:
    """Score a model against known truth.

    Parameters
    ----------
    model : fitted model, (tasks, classes) array or (tasks,) array
        A model with `proba_`; probabilities; or class codes (-1 for no label), for which probability metrics are None.
        Ties between probabilities are broken at random, as in models.
    truth : int codes in task order with -1 for unknown, or mapping of task to class, optional
        The known truth, `answers.truth` by default.
    answers : Answers, optional
        Defines the task and class ids; by default those of the fitted model.

    Examples
    --------
    >>> scores = evaluate(np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), [0, 1, -1])
    >>> scores["accuracy"], scores.n_unknown
    (1.0, 1)
    """
    answers = getattr(model, "answers_", None) if answers is None else answers
    values = np.asarray(getattr(model, "proba_", model))
    if values.ndim == 1 and values.dtype.kind in "iu":
        proba, predicted = None, values
    else:
        proba = _check_proba(values)
        predicted = np.asarray(model.codes_) if hasattr(model, "codes_") else metrics.decide(proba)
    codes = _truth_codes(truth, answers, len(values))
    if proba is not None:
        n_classes = proba.shape[1]
    elif answers is not None:
        n_classes = answers.n_classes
    else:
        n_classes = int(max(codes.max(initial=-1), predicted.max(initial=-1))) + 1
    if codes.max(initial=-1) >= n_classes:
        message = f"truth has codes up to {codes.max()}, but there are {n_classes} classes (0..{n_classes - 1})."
        raise ParameterError(message)
    known = codes >= 0
    return Scores(
        accuracy=metrics.accuracy(codes, predicted),
        balanced_accuracy=metrics.balanced_accuracy(codes, predicted),
        macro_f1=metrics.macro_f1(codes, predicted),
        log_loss=None if proba is None else metrics.log_loss(codes, proba),
        brier=None if proba is None else metrics.brier(codes, proba),
        ece=None if proba is None else metrics.ece(codes, proba, predicted),
        auc=None if proba is None else metrics.auc(codes, proba),
        per_class=metrics.per_class(codes, predicted, np.arange(n_classes) if answers is None else answers.classes),
        confusion=metrics.confusion(codes, predicted, n_classes),
        n_tasks=int(known.sum()),
        n_unknown=int((~known).sum()),
    )


def _truth_codes(truth: Any, answers: Answers | None, n_tasks: int) -> Array:
    """Return the truth as codes in task order."""
    if answers is not None:
        if truth is None and answers.truth is None:
            message = "there is no truth to score against: pass truth=, or attach it with answers.with_truth(...)."
            raise GoldError(message)
        if answers.n_tasks != n_tasks:
            message = f"predictions for {n_tasks} tasks, but the answers have {answers.n_tasks} tasks."
            raise ParameterError(message)
        return answers.truth if truth is None else answers.codes_of_truth(truth)  # type: ignore[return-value]
    codes = np.asarray(truth)
    if codes.shape != (n_tasks,) or codes.dtype.kind not in "iu":
        message = (
            f"truth of shape {codes.shape} and type {codes.dtype} for {n_tasks} tasks: pass integer codes, -1 where "
            f"unknown, or pass answers= as well and a mapping of task to class."
        )
        raise ParameterError(message)
    return codes


def _check_proba(proba: Array) -> Array:
    if proba.ndim != 2 or proba.dtype.kind != "f":
        message = (
            f"an array of shape {proba.shape} and type {proba.dtype}: pass a fitted model, probabilities "
            f"(tasks, classes), or integer class codes."
        )
        raise ParameterError(message)
    # This also finds NaN and infinite values.
    bad = np.flatnonzero(~((np.abs(proba.sum(axis=1) - 1) < 1e-3) & (proba >= 0).all(axis=1)))
    if len(bad):
        message = f"row {bad[0]} (and {len(bad) - 1} more) is not a probability distribution: {proba[bad[0]].tolist()}."
        raise ParameterError(message)
    return proba


def _format(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
