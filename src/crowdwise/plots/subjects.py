"""What a chart can be drawn of: answers, fitted models and runs, each with a few common views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from crowdwise.answers import Answers, as_answers
from crowdwise.answers.columns import is_table
from crowdwise.errors import ParameterError

Array = np.ndarray[Any, np.dtype[Any]]
Rows = list[dict[str, Any]]

SPAM = "answers no better than chance"  # in runs of earlier versions, which have no flags


class Labels(NamedTuple):
    """Labels of tasks."""

    answers: Answers
    codes: Array | None  # (tasks,)
    proba: Array | None  # (tasks, classes)


def is_run(subject: Any) -> bool:
    """Return whether this is a finished run: it has metrics and tables."""
    return hasattr(subject, "metrics") and hasattr(subject, "tables")


def labels_of(subject: Any) -> Labels:
    """Return the answers, and the labels of a fitted model or a run; answers and data frames have none."""
    if isinstance(subject, Answers) or is_table(subject):
        return Labels(as_answers(subject), None, None)
    if is_run(subject):
        return Labels(subject.answers, np.asarray(subject.codes), np.asarray(subject.proba))
    if not hasattr(subject, "fit"):
        message = f"{type(subject).__name__} cannot be drawn: pass Answers, a data frame, a fitted model or a run."
        raise ParameterError(message)
    if (kind := getattr(subject, "answer_kind", Answers.kind)) != Answers.kind:
        message = f"{type(subject).__name__} takes {kind}; charts are of answers that name a class."
        raise ParameterError(message)
    if not hasattr(type(subject), "_fitted"):
        message = f"{type(subject).__name__} does not keep its answers: pass a run, or subclass TruthModel."
        raise ParameterError(message)
    return Labels(subject.answers_, np.asarray(subject.codes_), np.asarray(subject.proba_))


def fitted_labels(subject: Any, what: str) -> tuple[Answers, Array, Array]:
    """Return answers, codes and probabilities; raise if there are only answers."""
    answers, codes, proba = labels_of(subject)
    if codes is None or proba is None:
        message = f"{what} needs labels, and answers have none: pass a fitted model or a run."
        raise ParameterError(message)
    return answers, codes, proba


def known_codes(answers: Answers, truth: Any, what: str) -> Array:
    """Return the codes of the known truth, (tasks,), -1 where unknown; raise if nothing is known."""
    codes = answers.truth if truth is None else answers.codes_of_truth(truth)
    if codes is None or not (codes >= 0).any():
        message = f"{what} needs known truth: pass truth=, a table with the columns task and label."
        raise ParameterError(message)
    return codes


def flag_of(row: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a worker's answers; runs of earlier versions only say who looks like a spammer.

    >>> flag_of({"spammer": True}), flag_of({"spammer": False, "flag": "copies w1"})
    ('answers no better than chance', 'copies w1')
    """
    return row.get("flag") or (SPAM if row.get("spammer") else None)
