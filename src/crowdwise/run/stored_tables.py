"""The tables of a run folder as Arrow tables, read when they are first used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from crowdwise.answers import Answers
from crowdwise.io.csv_escaping import unescape
from crowdwise.io.model_files import load_answers
from crowdwise.io.parquet_pages import read_flat_table
from crowdwise.run.stored_files import GOLD, LABELS, MODEL, NEXT, TASKS, WORKERS, check_file, name_damaged_file


class StoredTables:
    """The tables of a run folder.

    Parameters
    ----------
    path : path
        The folder.
    metrics : mapping
        The content of metrics.json, which has the checksums of the files.
    """

    def __init__(self, path: Path, metrics: Mapping[str, Any]) -> None:
        self._path, self._metrics = path, metrics

    def file(self, name: str) -> Path:
        """Return the path of a file of the folder after comparing its checksum."""
        path = self._path / name
        check_file(path, self._metrics.get("files", {}))
        return path

    @cached_property
    def answers(self) -> Answers:
        """The answers the run was made from."""
        return load_answers(self.file(MODEL))

    @cached_property
    def labels(self) -> pa.Table:
        """One row per task."""
        path = self.file(LABELS)
        n_tasks = self.answers.n_tasks
        with name_damaged_file(path):
            return require_columns(read_flat_table(path, n_tasks), ("task", "label", "confidence", "verdict"))

    @cached_property
    def workers(self) -> pa.Table:
        """One row per worker."""
        names = ["worst_class", "worst_confusion", *(["flag"] if self._metrics["format"] >= 3 else [])]
        types = {"worker": self.answers.worker_ids.type} | dict.fromkeys(names, pa.string())
        return read_csv(self.file(WORKERS), types)

    @cached_property
    def tasks(self) -> pa.Table:
        """One row per task, the most ambiguous first; workers, labels and trust are JSON lists."""
        texts = dict.fromkeys(("workers", "labels", "trust", "text", "image"), pa.string())
        return read_csv(self.file(TASKS), {"task": self.answers.task_ids.type, **texts})

    @cached_property
    def next(self) -> pa.Table:
        """Answers to buy next, the best first."""
        types = {"task": self.answers.task_ids.type, "worker": self.answers.worker_ids.type}
        return read_csv(self.file(NEXT), types | dict.fromkeys(("belief", "expected"), pa.string()))

    @cached_property
    def gold(self) -> pa.Table | None:
        """The gold labels with how their tasks were drawn (`trust.gold_design`); None without gold."""
        if not (self._path / GOLD).is_file():
            return None
        types = {"task": self.answers.task_ids.type, "label": self.answers.class_ids.type}
        return read_csv(self.file(GOLD), types)


def read_csv(path: Path, types: dict[str, pa.DataType]) -> pa.Table:
    """Read a table of the folder, with ids of these types; the escaping of formulas is undone."""
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(types, pa.string()), strings_can_be_null=True, quoted_strings_can_be_null=False,
        null_values=[""], true_values=["True"], false_values=["False"],
    )  # fmt: skip
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with name_damaged_file(path):
        table = require_columns(pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert), types)
        for name, kind in types.items():
            cells = table.column(name).combine_chunks().dictionary_encode()
            column = pa.DictionaryArray.from_arrays(cells.indices, unescape(cells.dictionary)).dictionary_decode()
            table = table.set_column(table.column_names.index(name), name, column.cast(kind))
        return table


def require_columns(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """Return the table if it has these columns."""
    missing = [name for name in names if name not in table.column_names]
    if missing:
        message = f"column {missing[0]!r} is missing"
        raise ValueError(message)
    return table
