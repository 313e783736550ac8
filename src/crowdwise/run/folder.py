"""`Run`: a finished run, in a folder (`run.stored_files`) or in memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pyarrow.compute as pc

from crowdwise import report
from crowdwise._core.atomic_io import atomic_write, exclusive_access
from crowdwise._core.display import html_table
from crowdwise._core.frames import Kind, as_kind
from crowdwise._core.json_schema import check
from crowdwise._core.temporary import TemporaryFolder
from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.errors import FormatError, ParameterError
from crowdwise.io.model_files import load
from crowdwise.report.source import REPORT_FILE
from crowdwise.run import schema
from crowdwise.run.progress import OutputFolder
from crowdwise.run.stored_files import (
    CLASSIFIER,
    CONFIG,
    LABELS_CSV,
    METRICS,
    MODEL,
    NEXT,
    PROBA,
    TASKS,
    WORKERS,
    name_damaged_file,
    read_json,
    read_metrics,
)
from crowdwise.run.stored_tables import StoredTables

if TYPE_CHECKING:
    from crowdwise.run.feedback import Feedback

Array = np.ndarray[Any, np.dtype[Any]]


class Run:
    """A finished run. Its files are read when they are first used.

    Parameters
    ----------
    path : path
        The folder of the run.
    kind : {"arrow", "pandas", "polars"}
        The kind of the frames. `run` returns frames of the kind of its answers.
    memory : TemporaryFolder, optional
        What deletes the folder of a run in memory.

    Attributes
    ----------
    config, metrics : dict
        The request, and every figure.
    labels, workers, tasks, next : frame
        One row per task, worker, task by ambiguity, and answer to buy. A frame of Arrow is an Arrow table that has
        `to_pandas()` and `to_polars()`.
    gold : frame or None
        The gold labels.
    tables : StoredTables
        The same tables, always of Arrow.
    answers : Answers
        The answers the run was made from.
    proba : (tasks, classes) array
        Calibrated class probabilities; rows follow `answers.tasks`.
    model : truth model or learner
        The fitted model that made the labels.
    classifier : learner or None
        A classifier of new tasks by their features.
    """

    path: Path

    def __init__(
        self, path: str | os.PathLike[str], *, kind: Kind = "arrow", memory: TemporaryFolder | None = None
    ) -> None:
        require(kind in ("arrow", "pandas", "polars"), "kind", kind, '"arrow", "pandas" or "polars"')
        self.path, self.kind, self._memory = Path(path), kind, memory
        if not self.path.is_dir():
            message = f"No run folder at {str(path)!r}. Give the folder that `crowdwise run --out` wrote."
            raise FormatError(message)
        if not (self.path / METRICS).is_file():
            unfinished = (self.path / CONFIG).is_file()
            reason = "the run is not finished. Resume it with `crowdwise run ... --resume`" if unfinished else (
                "it is not a run folder"
            )  # fmt: skip
            message = f"{path} has no {METRICS}: {reason}."
            raise FormatError(message)
        self.metrics  # noqa: B018 (raises if the format is newer or the file is damaged)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The request: inputs, options, seed and version."""
        path = self.tables.file(CONFIG)
        content = read_json(path)
        with name_damaged_file(path):
            check(content, schema.CONFIG, allow_unknown=True)
        return content

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Every figure of the report."""
        return read_metrics(self.path / METRICS)

    @cached_property
    def tables(self) -> StoredTables:
        """The tables of the folder, of Arrow."""
        return StoredTables(self.path, self.metrics)

    @cached_property
    def labels(self) -> Any:
        """One row per task."""
        return as_kind(self.tables.labels, self.kind)

    @cached_property
    def workers(self) -> Any:
        """One row per worker."""
        return as_kind(self.tables.workers, self.kind)

    @cached_property
    def tasks(self) -> Any:
        """One row per task, the most ambiguous first; workers, labels and trust are JSON lists."""
        return as_kind(self.tables.tasks, self.kind)

    @cached_property
    def next(self) -> Any:
        """Answers to buy next, the best first."""
        return as_kind(self.tables.next, self.kind)

    @cached_property
    def gold(self) -> Any:
        """The gold labels with how their tasks were drawn (`trust.gold_design`); None without gold."""
        return None if self.tables.gold is None else as_kind(self.tables.gold, self.kind)

    @property
    def answers(self) -> Answers:
        """The answers the run was made from."""
        return self.tables.answers

    @cached_property
    def proba(self) -> Array:
        """Calibrated class probabilities, (tasks, classes)."""
        labels = self.tables.labels
        names = [name for name in labels.column_names if name.startswith(PROBA)]
        return np.stack([labels.column(name).to_numpy() for name in names], axis=1)

    @property
    def codes(self) -> Array:
        """The label of each task as a code, its position in `answers.classes`, (tasks,)."""
        return pc.index_in(self.tables.labels.column("label"), self.answers.class_ids).to_numpy().astype(np.int64)

    @cached_property
    def model(self) -> Any:
        """The fitted model that made the labels."""
        return load(self.tables.file(MODEL))

    @cached_property
    def classifier(self) -> Any:
        """A classifier of tasks by their features: the model itself if it is one; None without features."""
        if (self.path / CLASSIFIER).is_file():
            return load(self.tables.file(CLASSIFIER))
        return self.model if hasattr(self.model, "predict_proba") else None

    def confusion_counts(self, workers: Array) -> Array:
        """Return expected counts (workers, classes, classes): how often each worker answered l (last) for truth c.

        Parameters
        ----------
        workers : int array
            Codes: positions in `answers.workers`.
        """
        answers, k = self.answers, self.answers.n_classes
        place = np.full(answers.n_workers, -1)
        place[workers] = np.arange(len(workers))
        rows = np.flatnonzero(place[answers.worker] >= 0)
        cell = place[answers.worker[rows]] * k + answers.label[rows]
        proba = self.proba[answers.task[rows]]  # (rows, classes)
        counts = [np.bincount(cell, proba[:, c], minlength=len(workers) * k) for c in range(k)]
        return np.stack(counts, axis=1).reshape(len(workers), k, k).swapaxes(1, 2)

    def feedback(self, worker: Any) -> Feedback:
        """Return feedback for one worker: which classes they confuse, compared with the crowd, with examples."""
        return self.feedback_all([worker])[0]

    def feedback_all(
        self, workers: Iterable[Any] | None = None, *, examples: int = 3, confusions: int = 5
    ) -> list[Feedback]:
        """Return feedback for these workers, or for all of them."""
        from crowdwise.run.feedback import feedback_all

        return feedback_all(self, workers, examples=examples, confusions=confusions)

    def report(self, out: str | os.PathLike[str] | None = None) -> Path:
        """Write the report and return its path, which notebooks show as the page; by default `report.html`."""
        return report.write_report(self, out)

    def save(self, out: str | os.PathLike[str]) -> Run:
        """Write the run to a new folder, with its report, and return the run in that folder."""
        target = OutputFolder(out).path
        if (target / CONFIG).exists():
            message = f"{target} holds a run: name another folder."
            raise ParameterError(message)
        with exclusive_access(target):
            files = [file for file in self.path.rglob("*") if file.is_file() and file.name != REPORT_FILE]
            for file in sorted(files, key=lambda file: file.name == METRICS):  # which makes the run complete
                place = target / file.relative_to(self.path)
                place.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(place) as partial:
                    shutil.copyfile(file, partial)
        saved = Run(target, kind=self.kind)
        saved.report()
        return saved

    def __str__(self) -> str:
        counts = self.metrics["counts"]
        lines = [*self.metrics["words"], "", *(f"{count:7,}  {verdict}" for verdict, count in counts.items())]
        return "\n".join(lines)

    def __repr__(self) -> str:
        where = "in memory" if self._memory else repr(str(self.path))
        return f"Run({where}: {self.metrics['method']}, {self.tables.labels.num_rows:,} tasks)"

    def _repr_html_(self) -> str:
        advice = self.metrics["verdict_words"]
        rows = ((verdict, f"{count:,}", advice[verdict]) for verdict, count in self.metrics["counts"].items())
        where = (
            "In memory: run.report() shows the report, run.save(path) writes the run to a folder."
            if self._memory
            else f"In {self.path}: {LABELS_CSV}, {WORKERS}, {TASKS}, {NEXT}"
        )
        table = html_table(rows, ["verdict", "tasks", "what to do"], [*self.metrics["words"], where])
        if self._memory:
            return table
        url = escape(quote((self.path / REPORT_FILE).as_posix()))  # quoted, so a folder name cannot be `javascript:`
        return f'{table}<p><a href="{url}">{REPORT_FILE}</a></p>'
