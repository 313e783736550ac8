"""A run folder: plain files that hold the result of a run, and `Run`, which reads them.

    config.json         the request: inputs with their checksums, options, seed, version
    labels.parquet      one row per task: label, confidence, verdict, ..., and the probability of each class
    labels.csv          the same without the probabilities
    workers.csv         one row per worker: quality, informativeness, worst confusion
    tasks.csv           tasks by ambiguity, the most ambiguous first, with their answers
    next.csv            answers to buy next, and their expected benefit
    gold.csv            the gold labels, if there are any, and how their tasks were drawn
    model.safetensors   the model that made the labels; `classifier.safetensors` if that model cannot classify features
    metrics.json        every figure of the report; written after all other files but the report
    times.json          seconds per step
    images/             thumbnails of the most ambiguous tasks
    report.html         all of this on one page

Every file is written atomically. Since format 2, `metrics.json` keeps a checksum of itself and of each file that `Run`
reads, so damage is detected; format 1 is read without this check. Format 3 adds `trust` to
`metrics.json`, `reason` to the labels and `flag` to the workers; format 4 (the current one) adds `wrong`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from crowdwise import report
from crowdwise._core.checksums import CHECKSUM_KEY, strict_json
from crowdwise._core.display import html_table
from crowdwise._core.json_schema import check
from crowdwise.answers import Answers
from crowdwise.errors import FormatError
from crowdwise.io.csv_escaping import unescape
from crowdwise.io.model_files import load, load_answers
from crowdwise.io.parquet_pages import read_flat_table
from crowdwise.report.source import REPORT_FILE
from crowdwise.run import schema

if TYPE_CHECKING:
    from crowdwise.run.feedback import Feedback

Array = np.ndarray[Any, np.dtype[Any]]

FORMAT = 4
CONFIG, METRICS, TIMES = "config.json", "metrics.json", "times.json"
LABELS, LABELS_CSV, WORKERS, TASKS, NEXT = "labels.parquet", "labels.csv", "workers.csv", "tasks.csv", "next.csv"
GOLD = "gold.csv"
MODEL, CLASSIFIER, IMAGES = "model.safetensors", "classifier.safetensors", "images"
CHECKED = (CONFIG, LABELS, WORKERS, TASKS, NEXT, GOLD, MODEL, CLASSIFIER)  # files with a checksum in metrics.json
PROBA = "proba_"  # prefix of the probability columns in labels.parquet
REMEDY = "Restore it from a backup, or run again in a new folder."


class Run:
    """A finished run. Its files are read when they are first used.

    Attributes
    ----------
    config, metrics : dict
        The request, and every figure.
    labels, workers, tasks, next : pyarrow.Table
        The tables of the folder.
    gold : pyarrow.Table or None
        The gold labels.
    answers : Answers
        The answers the run was made from.
    proba : (tasks, classes) array
        Calibrated class probabilities; rows follow `answers.tasks`.
    model : truth model or learner
        The fitted model that made the labels.
    classifier : learner or None
        A classifier of new tasks by their features.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
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
        path = self._checked(CONFIG)
        content = read_json(path)
        with name_damaged_file(path):
            check(content, schema.CONFIG, allow_unknown=True)
        return content

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Every figure of the report."""
        return read_metrics(self.path / METRICS)

    @cached_property
    def labels(self) -> pa.Table:
        """One row per task."""
        path = self._checked(LABELS)
        n_tasks = self.answers.n_tasks
        with name_damaged_file(path):
            return _require_columns(read_flat_table(path, n_tasks), ("task", "label", "confidence", "verdict"))

    @cached_property
    def workers(self) -> pa.Table:
        """One row per worker."""
        names = ["worst_class", "worst_confusion", *(["flag"] if self.metrics["format"] >= 3 else [])]
        types = {"worker": self.answers.worker_ids.type} | dict.fromkeys(names, pa.string())
        return _read_csv(self._checked(WORKERS), types)

    @cached_property
    def tasks(self) -> pa.Table:
        """One row per task, the most ambiguous first; workers, labels and trust are JSON lists."""
        texts = dict.fromkeys(("workers", "labels", "trust", "text", "image"), pa.string())
        return _read_csv(self._checked(TASKS), {"task": self.answers.task_ids.type, **texts})

    @cached_property
    def next(self) -> pa.Table:
        """Answers to buy next, the best first."""
        types = {"task": self.answers.task_ids.type, "worker": self.answers.worker_ids.type}
        return _read_csv(self._checked(NEXT), types | dict.fromkeys(("belief", "expected"), pa.string()))

    @cached_property
    def gold(self) -> pa.Table | None:
        """The gold labels with how their tasks were drawn (`trust.gold_design`); None without gold."""
        if not (self.path / GOLD).is_file():
            return None
        types = {"task": self.answers.task_ids.type, "label": self.answers.class_ids.type}
        return _read_csv(self._checked(GOLD), types)

    @cached_property
    def answers(self) -> Answers:
        """The answers the run was made from."""
        return load_answers(self._checked(MODEL))

    @cached_property
    def proba(self) -> Array:
        """Calibrated class probabilities, (tasks, classes)."""
        names = [name for name in self.labels.column_names if name.startswith(PROBA)]
        return np.stack([self.labels.column(name).to_numpy() for name in names], axis=1)

    @property
    def codes(self) -> Array:
        """The label of each task as a code, its position in `answers.classes`, (tasks,)."""
        return pc.index_in(self.labels.column("label"), self.answers.class_ids).to_numpy().astype(np.int64)

    @cached_property
    def model(self) -> Any:
        """The fitted model that made the labels."""
        return load(self._checked(MODEL))

    @cached_property
    def classifier(self) -> Any:
        """A classifier of tasks by their features: the model itself if it is one; None without features."""
        if (self.path / CLASSIFIER).is_file():
            return load(self._checked(CLASSIFIER))
        return self.model if hasattr(self.model, "predict_proba") else None

    def _checked(self, name: str) -> Path:
        """Return the path of a file after comparing its checksum."""
        path = self.path / name
        check_file(path, self.metrics.get("files", {}))
        return path

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
        """Write the report and return its path; by default `report.html` in the folder."""
        return report.write_report(self, out)

    def __str__(self) -> str:
        counts = self.metrics["counts"]
        lines = [*self.metrics["words"], "", *(f"{count:7,}  {verdict}" for verdict, count in counts.items())]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.metrics['method']}, {self.labels.num_rows:,} tasks)"

    def _repr_html_(self) -> str:
        advice = self.metrics["verdict_words"]
        rows = ((verdict, f"{count:,}", advice[verdict]) for verdict, count in self.metrics["counts"].items())
        files = f"In {self.path}: {LABELS_CSV}, {WORKERS}, {TASKS}, {NEXT}"
        url = escape(quote((self.path / REPORT_FILE).as_posix()))  # quoted, so a folder name cannot be `javascript:`
        link = f'<p><a href="{url}">{REPORT_FILE}</a></p>'
        return html_table(rows, ["verdict", "tasks", "what to do"], [*self.metrics["words"], files]) + link


def seal_metrics(metrics: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the content of metrics.json: the figures, the format version, and checksums of the files and itself."""
    files = {name: _file_checksum(folder / name) for name in CHECKED if (folder / name).is_file()}
    content = json.loads(json.dumps({"format": FORMAT, **metrics, "files": files}, allow_nan=False))
    return {**content, CHECKSUM_KEY: _json_checksum(content)}


def read_metrics(path: Path) -> dict[str, Any]:
    """Return the content of metrics.json after checking its format, checksum and fields."""
    content = read_json(path)
    version = content.get("format")
    if version not in range(1, FORMAT + 1):
        message = f"{path.parent} has run format {version!r}; this version of crowdwise reads up to {FORMAT}: upgrade."
        raise FormatError(message)
    checksum = content.pop(CHECKSUM_KEY, None)
    if version != 1 and checksum != _json_checksum(content):
        message = f"{path} is damaged or was edited: its checksum does not match. {REMEDY}"
        raise FormatError(message)
    with name_damaged_file(path):
        schema.check_metrics(content)
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object of the folder; an error names the damaged file."""
    try:
        content = strict_json(path.read_bytes())
    except OSError as error:
        message = f"Cannot read {path}: {error.strerror}. Rerun `crowdwise run` with --resume."
        raise FormatError(message) from None
    except ValueError as error:
        message = f"{path} is damaged: {error}. {REMEDY}"
        raise FormatError(message) from None
    if not isinstance(content, dict):
        message = f"{path} does not hold a JSON object. Is this a run folder?"
        raise FormatError(message)
    return content


def check_file(path: Path, checksums: Mapping[str, Any]) -> None:
    """Raise if a file is not as the run wrote it; format 1 has no checksums to compare."""
    if path.name not in checksums:
        return
    try:
        same = _file_checksum(path) == checksums[path.name]
    except OSError as error:
        message = f"Cannot read {path}: {error.strerror}. {REMEDY}"
        raise FormatError(message) from None
    if not same:
        message = f"{path} is damaged or was edited: its checksum does not match. {REMEDY}"
        raise FormatError(message)


@contextmanager
def name_damaged_file(path: Path) -> Iterator[None]:
    """Turn any error while a file is read into one that names the file and the remedy."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        message = f"Cannot read {path}: {error}. {REMEDY}"
        raise FormatError(message) from None


def _file_checksum(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _json_checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read_csv(path: Path, types: dict[str, pa.DataType]) -> pa.Table:
    """Read a table of the folder, with ids of these types; the escaping of formulas is undone."""
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(types, pa.string()), strings_can_be_null=True, quoted_strings_can_be_null=False,
        null_values=[""], true_values=["True"], false_values=["False"],
    )  # fmt: skip
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with name_damaged_file(path):
        table = _require_columns(pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert), types)
        for name, kind in types.items():
            cells = table.column(name).combine_chunks().dictionary_encode()
            column = pa.DictionaryArray.from_arrays(cells.indices, unescape(cells.dictionary)).dictionary_decode()
            table = table.set_column(table.column_names.index(name), name, column.cast(kind))
        return table


def _require_columns(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """Return the table if it has these columns."""
    missing = [name for name in names if name not in table.column_names]
    if missing:
        message = f"column {missing[0]!r} is missing"
        raise ValueError(message)
    return table
