"""crowd-kit's helper functions: accuracy of answers and labels, and small operations on frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from crowdwise import errors
from crowdwise._core.validation import require
from crowdwise.answers.encoding import preview
from crowdwise.compat.crowdkit._frames import COLUMNS, Aggregator, is_empty
from crowdwise.truth.base import Array

__all__ = [
    "clone_aggregator",
    "evaluate",
    "evaluate_equal",
    "evaluate_in",
    "factorize",
    "get_accuracy",
    "get_most_probable_labels",
    "normalize_rows",
]

SomeAggregator = TypeVar("SomeAggregator", bound=Aggregator)


def clone_aggregator(aggregator: SomeAggregator) -> SomeAggregator:
    """Return a new aggregator with the same arguments, not fitted.

    >>> from crowdwise.compat.crowdkit import DawidSkene
    >>> clone_aggregator(DawidSkene(n_iter=5)).n_iter
    5
    """
    arguments = {name: value for name, value in vars(aggregator).items() if not name.endswith("_") and name[0] != "_"}
    return type(aggregator)(**arguments)


def evaluate_in(row: Any) -> int:
    """Return 1 if the predicted label is among the true labels of a row of `evaluate`, else 0."""
    return int(row["label_pred"] in row["label_true"])


def evaluate_equal(row: Any) -> int:
    """Return 1 if the predicted label of a row of `evaluate` is the true one, else 0."""
    return int(row["label_pred"] == row["label_true"])


def evaluate(
    df_true: pd.DataFrame, df_pred: pd.DataFrame, evaluate_func: Callable[[Any], float] = evaluate_in
) -> float:
    """Return the mean over tasks of `evaluate_func`, called with the true and predicted label of each.

    Parameters
    ----------
    df_true, df_pred : DataFrame
        Column `label`, and `task` as a column or the index. Every true label needs one predicted label.
    evaluate_func : callable
        Takes a row with `label_true` and `label_pred`; `evaluate_in` and `evaluate_equal` are such functions.

    Examples
    --------
    >>> true = pd.DataFrame({"task": [1, 2], "label": ["x", "y"]})
    >>> evaluate(true, true.assign(label="x"), evaluate_equal)
    0.5
    """
    both = df_true.merge(df_pred, on="task", suffixes=("_true", "_pred"))
    if len(both) != len(df_true):
        message = (
            f"{len(df_true)} true labels, but {len(both)} rows of tasks with a true and a predicted label. Pass one "
            f"predicted label for each task with a true label."
        )
        raise errors.GoldError(message)
    if not len(both):
        message = "there are no true labels; pass at least one."
        raise errors.EmptyError(message)
    return float(np.mean([evaluate_func(row) for _, row in both.iterrows()]))


def factorize(data: Array) -> tuple[Array, Array]:
    """Return the distinct values, sorted, and an array of their positions in the shape of `data`.

    >>> values, positions = factorize(np.array([["b", "a"], ["a", "a"]]))
    >>> values.tolist(), positions.tolist()
    (['a', 'b'], [[1, 0], [0, 0]])
    """
    values, positions = np.unique(data, return_inverse=True)
    return values, positions.reshape(np.shape(data))


def get_accuracy(data: pd.DataFrame, true_labels: pd.Series, by: str | None = None) -> float | pd.Series:
    """Return the share of answers that are right, of all or by a column.

    Answers to other tasks do not count. An answer to a task with several true labels is right if it is one of them.

    Parameters
    ----------
    data : DataFrame
        Columns `task`, `worker`, `label`, and optionally `weight`.
    true_labels : Series
        True labels by task.
    by : {"task", "worker", "label", "true_label"}, optional
        Return one accuracy for each value of this column.

    Examples
    --------
    >>> data = pd.DataFrame({"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["x", "y", "x"]})
    >>> get_accuracy(data, pd.Series({1: "x", 2: "x"}))
    0.6666666666666666
    >>> get_accuracy(data, pd.Series({1: "x", 2: "x"}), by="worker").to_dict()
    {'a': 1.0, 'b': 0.0}
    """
    allowed = ("task", "worker", "label", "true_label")
    require(by is None or by in allowed, "by", by, "'task', 'worker', 'label' or 'true_label'")
    if not is_empty(data):
        data = data[[*COLUMNS, *(["weight"] if "weight" in data.columns else [])]]
    known = data.join(true_labels.rename("true_label"), on="task").dropna(subset="true_label")
    if not len(known) and by is None:
        message = (
            f"no answer is to a task with a true label (true_labels is indexed by "
            f"{preview(true_labels.index.tolist())}). Index it by task."
        )
        raise errors.GoldError(message)
    weight = known["weight"] if "weight" in known.columns else pd.Series(1, index=known.index)
    known = known.assign(weight=weight, score=weight * (known["label"] == known["true_label"]))
    # An answer that is compared with several true labels counts once, as right if one of them is equal.
    known = known.sort_values("score").drop_duplicates(COLUMNS, keep="last")
    if by is None:
        return float(known["score"].sum() / known["weight"].sum())
    sums = known.groupby(by)[["score", "weight"]].sum()
    return sums["score"] / sums["weight"]


def get_most_probable_labels(proba: pd.DataFrame) -> pd.Series:
    """Return the column with the highest value of each row; the first of equal ones.

    >>> get_most_probable_labels(pd.DataFrame({"x": [0.9, 0.2], "y": [0.1, 0.8]}, index=["t1", "t2"])).to_dict()
    {'t1': 'x', 't2': 'y'}
    """
    return proba.idxmax(axis="columns") if proba.size else pd.Series([], dtype=object)


def normalize_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Divide each row by its sum.

    >>> normalize_rows(pd.DataFrame({"x": [3.0, 1.0], "y": [1.0, 1.0]})).to_numpy().tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    return scores.div(scores.sum(axis=1), axis=0)
