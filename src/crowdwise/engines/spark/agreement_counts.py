"""Agreement of workers on Spark: pairs of answers to the same task are counted per part, and the counts added up."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.engines.spark.columns import Columns
from crowdwise.engines.spark.packing import pack_answers
from crowdwise.engines.spark.partitions import Partition
from crowdwise.errors import CrowdwiseWarning
from crowdwise.evaluate import agreement as local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Agreement(NamedTuple):
    """Agreement coefficients; None where one is not defined (see `crowdwise.evaluate`)."""

    alpha: float | None  # Krippendorff's
    pairwise: float | None
    kappa: float | None  # Fleiss'
    rejected: DataFrame  # task, worker, label, file, reason of the rows that were not used
    removed: dict[str, int]  # number of those rows, by reason


def agreement(
    frame: DataFrame, *, task: str = "task", worker: str = "worker", label: str = "label", **options: Any
) -> Agreement:
    """Return the agreement coefficients of `crowdwise.evaluate`.

    Parameters
    ----------
    frame : DataFrame
        One row per answer.
    task, worker, label : str
        Names of its columns.
    **options
        classes, duplicates, bad, max_classes, parts: as in `SparkModel.fit`. Weights are not supported; drop a column
        named "weight".
    """
    data = pack_answers(frame, Columns(task, worker, label), **options)
    parts = data.parts.mapValues(partial(_count, n_classes=data.n_classes)).collect()
    count = _sum([of_part for _, of_part in sorted(parts, key=lambda numbered: numbered[0])])
    data.release()
    for cached in data.cached:
        cached.unpersist()
    coefficients = local.alpha_from_counts(count), local.agreement_from_counts(count), local.kappa_from_counts(count)
    return Agreement(*coefficients, data.rejected, data.removed)


def alpha(
    frame: DataFrame, *, task: str = "task", worker: str = "worker", label: str = "label", **options: Any
) -> float | None:
    """Return Krippendorff's nominal alpha; `agreement` also returns the rows that were not used."""
    result = agreement(frame, task=task, worker=worker, label=label, **options)
    if result.removed:
        message = f"some rows were left out: {result.removed}. See agreement(...).rejected."
        warnings.warn(message, CrowdwiseWarning, stacklevel=2)
    return result.alpha


def _count(packed: bytes, n_classes: int) -> local.PairCounts:
    return local.count_pairs(Partition(packed, n_classes).answers)


def _sum(parts: list[local.PairCounts]) -> local.PairCounts:
    pairs, agreeing, disagreement, votes, fewest, most = zip(*parts, strict=True)
    return local.PairCounts(sum(pairs), sum(agreeing), sum(disagreement), np.sum(votes, axis=0), min(fewest), max(most))
