"""What a report needs from a run: `crowdwise.run.Run` has all of it, and so may any other object.

The report does not import the run: a run writes its report, and a report can be made of anything of this shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from crowdwise.answers import Answers

Array = np.ndarray[Any, np.dtype[Any]]

REPORT_FILE = "report.html"
VERDICTS = ("accept", "review", "needs more answers", "hopeless")


class FeedbackSource(Protocol):
    """Feedback for one worker."""

    @property
    def words(self) -> list[str]:
        """The feedback in sentences, those about confusions included."""

    @property
    def confusions(self) -> Sequence[Any]:
        """Confusions; `str(confusion)` is one of the sentences."""

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values."""


class TableSource(Protocol):
    """The tables of a run."""

    @property
    def labels(self) -> pa.Table:
        """One row per task."""

    @property
    def workers(self) -> pa.Table:
        """One row per worker."""

    @property
    def tasks(self) -> pa.Table:
        """One row per task, the most ambiguous first."""

    @property
    def next(self) -> pa.Table:
        """Answers to buy next, the best first."""


class RunSource(Protocol):
    """A finished run: the files of its folder as tables and figures."""

    path: Path  # the folder: images are read from it, and the report is written to it

    @property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""

    @property
    def metrics(self) -> dict[str, Any]:
        """The content of metrics.json."""

    @property
    def answers(self) -> Answers:
        """The answers the run was made from."""

    @property
    def tables(self) -> TableSource:
        """The tables of the folder."""

    def confusion_counts(self, workers: Array) -> Array:
        """Expected counts (workers, classes, classes) of each answer (last axis) per true class, by worker code."""

    def feedback_all(
        self, workers: Iterable[Any] | None = None, *, examples: int = 3, confusions: int = 5
    ) -> Sequence[FeedbackSource]:
        """Feedback for these workers."""
