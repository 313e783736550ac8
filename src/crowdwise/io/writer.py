"""Atomic writers for CSV, TSV, JSON lines and Parquet.

Text formats are built column by column: each distinct value is converted to text once, and Arrow joins the rows.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.atomic_io import atomic_write
from crowdwise._core.frames import to_table
from crowdwise.answers import Answers
from crowdwise.answers.encoding import combine_chunks
from crowdwise.errors import FormatError
from crowdwise.io.csv_escaping import escape, join_text
from crowdwise.io.raw_columns import is_text

ROWS = 200_000  # rows converted to text at a time


def write(data: Any, path: str | os.PathLike[str]) -> None:
    """Write answers, or any table, as .csv, .tsv, .jsonl (optionally .gz) or .parquet, by the name of the file.

    The file appears once it is complete. In CSV and TSV, text that a spreadsheet would run as a formula gets a leading
    apostrophe, which `read` removes, so that ids are restored exactly.

    Parameters
    ----------
    data : Answers, or pandas, polars or Arrow table
        Answers are written as the columns task, worker, label and, if set, weight, pseudo and truth.
    path : path
        The file; an existing one is replaced.
    """
    file = Path(path)
    suffix = check_target(file)
    table = _table(data) if isinstance(data, Answers) else to_table(data)
    try:
        with atomic_write(file) as temporary, temporary.open("wb") as stream:
            if file.suffix == ".gz":
                with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
                    _WRITERS[suffix](table, cast(IO[bytes], packed))
            else:
                _WRITERS[suffix](table, stream)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        message = f"{file.name}: a column cannot be written as {suffix}: {error}"
        raise FormatError(message) from None


def check_target(path: str | os.PathLike[str]) -> str:
    """Check that `write` can write this file, before any work is done; returns the kind of file: ".csv", ..."""
    file = Path(path)
    suffix = file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix
    if suffix not in _WRITERS or (file.suffix == ".gz" and suffix == ".parquet"):
        message = f"{file.name}: the file name must end in .csv, .tsv, .jsonl (optionally .gz) or .parquet."
        raise FormatError(message)
    if not file.parent.is_dir():
        message = f"{file} cannot be written: the folder {str(file.parent)!r} does not exist. Create it first."
        raise FormatError(message)
    if file.is_dir() or not os.access(file.parent, os.W_OK):
        denied = f"no permission to write to {str(file.parent)!r}. Choose another folder."
        message = f"{file} cannot be written: {'it is a folder. Name a file in it.' if file.is_dir() else denied}"
        raise FormatError(message)
    return suffix


def _table(answers: Answers) -> pa.Table:
    """Return answers as dictionary columns, which share the codes and id tables of the answers."""

    def column(codes: Any, ids: pa.Array, known: Any = None) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=known), ids)

    columns = {
        "task": column(answers.task, answers.task_ids),
        "worker": column(answers.worker, answers.worker_ids),
        "label": column(answers.label, answers.class_ids),
    }
    columns |= {n: pa.array(getattr(answers, n)) for n in ("weight", "pseudo") if getattr(answers, n) is not None}
    if answers.truth is not None:
        codes = answers.truth[answers.task]
        columns["truth"] = column(np.maximum(codes, 0), answers.class_ids, codes < 0)
    return pa.table(columns)


def _write_parquet(table: pa.Table, stream: IO[bytes]) -> None:
    import pyarrow.parquet as pq

    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in table.schema]
    schema = pa.schema(zip(table.column_names, kinds, strict=True))
    with pq.ParquetWriter(stream, schema) as writer:
        for start in range(0, table.num_rows, 1 << 20):  # decoded in parts, to save memory
            writer.write_table(table.slice(start, 1 << 20).cast(schema))


def _write_csv(table: pa.Table, stream: IO[bytes]) -> None:
    _write_delimited(table, stream, ",")


def _write_tsv(table: pa.Table, stream: IO[bytes]) -> None:
    _write_delimited(table, stream, "\t")


def _write_delimited(table: pa.Table, stream: IO[bytes], delimiter: str) -> None:
    def cells(values: pa.Array) -> pa.Array:
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        words = values.cast(pa.large_string())
        if pa.types.is_boolean(values.type):
            words = pc.utf8_capitalize(words)
        return _quoted(escape(words)) if is_text(values.type) else words.fill_null("")

    names = _quoted(escape(pa.array(table.column_names, pa.large_string()))).to_pylist()
    stream.write((delimiter.join(names) + "\n").encode())
    _write_rows(table, stream, cells, ["", *[delimiter] * (table.num_columns - 1), "\n"], "")


def _quoted(texts: pa.Array) -> pa.Array:
    """Quote cells that contain any separator: a spreadsheet may split at another one than ours."""
    inside = pc.replace_substring(texts, '"', '""')
    needed = pc.match_substring_regex(texts, '[,;\t"\r\n]')
    return pc.if_else(needed, join_text('"', inside, '"'), texts)


def _write_jsonl(table: pa.Table, stream: IO[bytes]) -> None:
    def cells(values: pa.Array) -> pa.Array:
        if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
            return values.cast(pa.large_string())
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
            return values.cast(pa.large_string()).fill_null("null")
        words = [json.dumps(v, ensure_ascii=False, default=str) for v in values.to_pylist()]
        return pa.array(words, pa.large_string())

    keys = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
    _write_rows(table, stream, cells, [f"{', ' if i else '{'}{key}: " for i, key in enumerate(keys)] + ["}\n"], "null")


_WRITERS: dict[str, Callable[[pa.Table, IO[bytes]], None]] = {
    ".csv": _write_csv, ".tsv": _write_tsv, ".jsonl": _write_jsonl, ".parquet": _write_parquet,
}  # fmt: skip


def _write_rows(
    table: pa.Table, stream: IO[bytes], cells: Callable[[pa.Array], pa.Array], between: list[str], null: str
) -> None:
    """Write rows as between[0] cell between[1] cell ... between[-1], from the text of each distinct value."""
    columns = []
    for column in table.columns:
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        distinct = combine_chunks(column)
        columns.append(pa.DictionaryArray.from_arrays(distinct.indices, cells(distinct.dictionary)))
    for start in range(0, table.num_rows, ROWS):
        parts: list[str | pa.Array] = [between[0]]
        for column, after in zip(columns, between[1:], strict=True):
            parts += [column.slice(start, ROWS).cast(pa.large_string()).fill_null(null), after]
        stream.write(memoryview(join_text(*parts).buffers()[2]))  # Arrow stores the texts of an array contiguously
