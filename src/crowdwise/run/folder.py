"""A run folder: plain files that say what came out, and `Run`, which reads them.

    config.json         what was asked: inputs with their checksums, options, seed, version
    labels.parquet      a row a task: label, confidence, verdict, ...; and the probability of each class
    labels.csv          the same without these
    workers.csv         a row a worker: how good, how informative, what is confused with what
    tasks.csv           tasks by ambiguity, the most ambiguous first, with who said what
    next.csv            answers to buy next, and what they should bring
    model.safetensors   the model that made the labels; `classifier.safetensors` where it cannot classify by features
    metrics.json        every figure of the report; written when all else but the report is there: the run is complete
    times.json          how long each step took
    images/             small pictures of the most ambiguous tasks
    report.html         all of this to look at

Each is written whole or not at all, and `metrics.json` has their checksums (`layout`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from crowdwise._core.display import html_table
from crowdwise.answers import Answers
from crowdwise.errors import FormatError
from crowdwise.io.csv_escaping import unescape
from crowdwise.io.model_files import load, load_answers
from crowdwise.run.folder_format import check_file, read_figures, read_json, understood

if TYPE_CHECKING:
    from crowdwise.run.advice import Feedback

Array = np.ndarray[Any, np.dtype[Any]]

CONFIG, METRICS, TIMES = "config.json", "metrics.json", "times.json"
LABELS, LABELS_CSV, WORKERS, TASKS, NEXT = "labels.parquet", "labels.csv", "workers.csv", "tasks.csv", "next.csv"
MODEL, CLASSIFIER, REPORT, IMAGES = "model.safetensors", "classifier.safetensors", "report.html", "images"
READ = (CONFIG, LABELS, WORKERS, TASKS, NEXT, MODEL, CLASSIFIER)  # again, by `Run`
PROBA = "proba_"  # begins the names of the columns of labels.parquet that hold probabilities


class Run:
    """A finished run, read from its folder as things are asked for.

    Attributes
    ----------
    config, metrics : dict
        What was asked for, and every figure.
    labels, workers, tasks, next : pyarrow.Table
        The tables of the folder.
    answers : Answers
        What the run was made from, with the known labels where some were given.
    proba : (tasks, classes) array
        How probable each class is, calibrated; rows follow `answers.tasks`.
    model : truth model or learner
        The fitted model that made the labels.
    classifier : learner or None
        What classifies other tasks by their features.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            message = f"there is no run folder {str(path)!r}: give the folder that `crowdwise run` wrote with --out."
            raise FormatError(message)
        if not (self.path / METRICS).is_file():
            unfinished = (self.path / CONFIG).is_file()
            remedy = "the run was not finished: `crowdwise run ... --resume` goes on" if unfinished else "it is no run"
            message = f"{path} holds no {METRICS}: {remedy}."
            raise FormatError(message)
        self.metrics  # noqa: B018 (says when the folder is of a newer format, or damaged)

    @cached_property
    def config(self) -> dict[str, Any]:
        """What was asked for."""
        return read_json(self._file(CONFIG))

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Every figure of the report."""
        return read_figures(self.path / METRICS)

    @cached_property
    def labels(self) -> pa.Table:
        """A row a task."""
        path = self._file(LABELS)
        with understood(path), path.open("rb") as stream:  # by its name, Arrow would take `a:b` for an address
            return _with_columns(pq.read_table(stream), ("task", "label", "confidence", "verdict"))

    @cached_property
    def workers(self) -> pa.Table:
        """A row a worker."""
        texts = dict.fromkeys(("worst_class", "worst_confusion"), pa.string())
        return _read_csv(self._file(WORKERS), {"worker": self.answers.worker_ids.type, **texts})

    @cached_property
    def tasks(self) -> pa.Table:
        """A row a task, the most ambiguous first; who said what stands in lists written as JSON."""
        lists = ("workers", "labels", "trust", "text", "image")
        return _read_csv(self._file(TASKS), {"task": self.answers.task_ids.type, **dict.fromkeys(lists, pa.string())})

    @cached_property
    def next(self) -> pa.Table:
        """Answers to buy next, the best first."""
        answers = self.answers
        kinds = {"task": answers.task_ids.type, "worker": answers.worker_ids.type}
        return _read_csv(self._file(NEXT), kinds | dict.fromkeys(("belief", "expected"), pa.string()))

    @cached_property
    def answers(self) -> Answers:
        """What the run was made from."""
        return load_answers(self._file(MODEL))

    @cached_property
    def proba(self) -> Array:
        """How probable each class is, (tasks, classes)."""
        names = [name for name in self.labels.column_names if name.startswith(PROBA)]
        return np.stack([self.labels.column(name).to_numpy() for name in names], axis=1)

    @property
    def codes(self) -> Array:
        """The label of each task as its place among the classes, (tasks,)."""
        answers = self.answers
        return pc.index_in(self.labels.column("label"), answers.class_ids).to_numpy().astype(np.int64)

    @cached_property
    def model(self) -> Any:
        """The model that made the labels."""
        return load(self._file(MODEL))

    @cached_property
    def classifier(self) -> Any:
        """What classifies tasks by their features: the model itself where it can; None without features."""
        if (self.path / CLASSIFIER).is_file():
            return load(self._file(CLASSIFIER))
        return self.model if hasattr(self.model, "predict_proba") else None

    def _file(self, name: str) -> Path:
        """A file of the folder, as the run wrote it."""
        path = self.path / name
        check_file(path, self.metrics.get("files", {}))
        return path

    def confusion_counts(self, workers: Array) -> Array:
        """Expected counts, (workers, classes, classes): how often each of these said l (last) where the truth is c.

        Parameters
        ----------
        workers : int array
            Codes: places among `answers.workers`.
        """
        answers, k = self.answers, self.answers.n_classes
        place = np.full(answers.n_workers, -1)
        place[workers] = np.arange(len(workers))
        rows = np.flatnonzero(place[answers.worker] >= 0)
        cell = place[answers.worker[rows]] * k + answers.label[rows]
        belief = self.proba[answers.task[rows]]  # (rows, classes)
        counts = [np.bincount(cell, belief[:, c], minlength=len(workers) * k) for c in range(k)]
        return np.stack(counts, axis=1).reshape(len(workers), k, k).swapaxes(1, 2)

    def feedback(self, worker: Any) -> Feedback:
        """What this worker confuses with what, against the crowd, with examples."""
        from crowdwise.run.feedback import feedback

        return feedback(self, worker)

    def report(self, out: str | os.PathLike[str] | None = None) -> Path:
        """Write the report, `report.html` in the folder unless another place is named; returns where it is."""
        from crowdwise.report import report

        return report(self, out)

    def __str__(self) -> str:
        counts = self.metrics["counts"]
        lines = [*self.metrics["words"], "", *(f"{count:7,}  {verdict}" for verdict, count in counts.items())]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.metrics['method']}, {self.labels.num_rows:,} tasks)"

    def _repr_html_(self) -> str:
        means = self.metrics["verdict_words"]
        rows = ((verdict, f"{count:,}", means[verdict]) for verdict, count in self.metrics["counts"].items())
        where = f"In {self.path}: {LABELS_CSV}, {WORKERS}, {TASKS}, {NEXT}"
        address = escape(quote((self.path / REPORT).as_posix()))  # quoted, no name of a folder is read as `javascript:`
        link = f'<p><a href="{address}">{REPORT}</a></p>'
        return html_table(rows, ["verdict", "tasks", "what to do"], [*self.metrics["words"], where]) + link


def _read_csv(path: Path, kinds: dict[str, pa.DataType]) -> pa.Table:
    """A table of the folder, with the ids as they are in the answers; formula escapes are taken off again."""
    text = {name: pa.string() for name in kinds}
    convert = pyarrow.csv.ConvertOptions(
        column_types=text, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""],
        true_values=["True"], false_values=["False"],
    )  # fmt: skip
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with understood(path):
        table = _with_columns(pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert), kinds)
        for name, kind in kinds.items():
            cells = table.column(name).combine_chunks().dictionary_encode()
            column = pa.DictionaryArray.from_arrays(cells.indices, unescape(cells.dictionary)).dictionary_decode()
            table = table.set_column(table.column_names.index(name), name, column.cast(kind))
        return table


def _with_columns(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """The table, if it has these columns."""
    missing = [name for name in names if name not in table.column_names]
    if missing:
        message = f"it has no column {missing[0]!r}"
        raise ValueError(message)
    return table
