"""Krippendorff's alpha on Spark: pairs of answers to the same task are counted in the parts, and the counts added."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.engines.spark.columns import Columns
from crowdwise.engines.spark.intake import take
from crowdwise.engines.spark.partitions import Part
from crowdwise.errors import CrowdwiseWarning
from crowdwise.evaluate import agreement as local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Agreement(NamedTuple):
    """How far workers agree; None where it is not defined (see `crowdwise.evaluate`)."""

    alpha: float | None  # Krippendorff's
    pairwise: float | None
    kappa: float | None  # Fleiss'
    rejected: DataFrame  # task, worker, label, file, reason: rows that were not used
    removed: dict[str, int]  # their number, by reason


def agreement(
    frame: DataFrame, *, task: str = "task", worker: str = "worker", label: str = "label", **options: Any
) -> Agreement:
    """Agreement of the workers, as the functions of `crowdwise.evaluate` give it.

    Parameters
    ----------
    frame : DataFrame
        One row an answer.
    task, worker, label : str
        Its columns.
    **options
        classes, duplicates, bad, max_classes, parts: as in `fit`. Weights are not used, here as there: drop the column.
    """
    data = take(frame, Columns(task, worker, label), **options)
    parts = data.parts.mapValues(partial(_count, n_classes=data.n_classes)).collect()
    count = _sum([of_part for _, of_part in sorted(parts, key=lambda numbered: numbered[0])])
    data.release()
    for held in data.held:
        held.unpersist()
    coefficients = local.alpha_from_counts(count), local.agreement_from_counts(count), local.kappa_from_counts(count)
    return Agreement(*coefficients, data.rejected, data.removed)


def alpha(
    frame: DataFrame, *, task: str = "task", worker: str = "worker", label: str = "label", **options: Any
) -> float | None:
    """Krippendorff's alpha, nominal; see `agreement`, which also gives the rows that were not used."""
    found = agreement(frame, task=task, worker=worker, label=label, **options)
    if found.removed:
        message = f"rows are left out: {found.removed}. See agreement(...).rejected."
        warnings.warn(message, CrowdwiseWarning, stacklevel=2)
    return found.alpha


def _count(packed: bytes, n_classes: int) -> local.PairCounts:
    return local.count_pairs(Part(packed, n_classes).answers)


def _sum(parts: list[local.PairCounts]) -> local.PairCounts:
    pairs, agreeing, disagreement, votes, fewest, most = zip(*parts, strict=True)
    return local.PairCounts(sum(pairs), sum(agreeing), sum(disagreement), np.sum(votes, axis=0), min(fewest), max(most))
