"""Families of workers, such as the maker of each language model: a column next to the answers, or a table of workers.

Each worker has one family, or none where the cell is empty. A worker with two is an error that names both rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.display import pluralise
from crowdwise.answers import Answers
from crowdwise.answers.columns import recognise
from crowdwise.answers.encoding import preview
from crowdwise.errors import CrowdwiseWarning, DuplicateError, FormatError, MissingColumnError, UnknownIdError
from crowdwise.io.files import file_errors, find_files
from crowdwise.io.raw_columns import RawColumns, concat_files, decode
from crowdwise.io.reader import Paths, cast_ids, choose_format

FAMILY_NAMES = ("family", "families", "group", "maker", "provider", "vendor")  # in order of preference


def read_families(
    path: Paths, column: str | None = None, *, like: Answers, worker: str | None = None, format: str | None = None
) -> dict[Any, str]:
    r"""Read the family of each worker.

    Parameters
    ----------
    path : path, folder, glob or list of these
        The files of the answers, or a table of workers: CSV, TSV, Parquet or JSONL.
    column : str, optional
        The column with the families. By default the column `family`.
    like : Answers
        The answers. Workers without answers are left out, with a warning.
    worker, format : str, optional
        Column with the workers, and format of the files. By default they are detected.

    Returns
    -------
    dict of worker to name of the family
        In the order of `like.workers`, without workers whose cell is empty.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from crowdwise import Answers
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "judges.csv"
    >>> _ = file.write_text("worker,family\nfox-small,fox\nfox-large,fox\nowl,\n")
    >>> answers = Answers.from_arrays([1, 1, 1], ["fox-small", "fox-large", "owl"], ["a", "a", "b"])
    >>> read_families(file, like=answers)
    {'fox-large': 'fox', 'fox-small': 'fox'}
    """

    def choose(names: list[str]) -> dict[str, str]:
        lower = {name.strip().lower(): name for name in reversed(names)}
        found = column or next((lower[name] for name in FAMILY_NAMES if name in lower), None)
        if found is None or found not in names:
            what = "no column for the family" if column is None else f"no column {column!r}"
            message = f"{what} among {preview(names)}."
            raise MissingColumnError(message)
        return recognise(names, worker=worker) | {"label": found}

    files = find_files(path)
    form = choose_format(files[0], format, {})
    if not form.long:
        message = (
            f"{files[0]}: families are read from columns of CSV, TSV, Parquet or JSONL files, not from {form.name}. "
            "Pass a file with the columns worker and family."
        )
        raise FormatError(message)
    raws = []
    for file in files:
        with file_errors(file):
            raws.append(form.load()(file, choose))
    with file_errors(files[0]):
        columns = concat_files(raws, files).columns
        ids = cast_ids(decode(columns["worker"]), like.worker_ids, "worker")
    family = decode(columns["label"]).cast(pa.large_string())
    table = pa.table({"worker": ids, "family": family, "row": pa.array(range(len(ids)), pa.int64())})
    table = table.filter(pc.and_(pc.is_valid(table.column("worker")), pc.is_valid(table.column("family"))))
    table = table.group_by(["worker", "family"], use_threads=False).aggregate([("row", "min")])
    rows = table.sort_by("row_min").to_pylist()
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        first = found.setdefault(row["worker"], row)
        if first is not row:
            places = [_place(files, raws, each["row_min"]) for each in (first, row)]
            message = (
                f"worker {row['worker']!r} has two families: {first['family']!r} in {places[0]} and "
                f"{row['family']!r} in {places[1]}. Give each worker one family."
            )
            raise DuplicateError(message)
    workers = like.worker_ids.to_pylist()
    unknown = [worker for worker in found if worker not in set(workers)]
    if unknown and len(unknown) == len(found):
        message = f"{files[0]}: none of its workers, such as {unknown[0]!r}, has answers. Use the same ids."
        raise UnknownIdError(message)
    if unknown:
        message = f"{files[0]}: left out {pluralise(len(unknown), 'worker')} without answers: {preview(unknown)}."
        warnings.warn(message, CrowdwiseWarning, stacklevel=2)
    return {worker: found[worker]["family"] for worker in workers if worker in found}


def _place(files: Sequence[Path], raws: Sequence[RawColumns], row: int) -> str:
    """Return where a row, counted over all files, stands."""
    for file, raw in zip(files, raws, strict=True):
        n_rows = len(raw.columns["worker"])
        if row < n_rows:
            where = f"row {row + 1}" if raw.lines is None else f"line {raw.lines([row])[0]}"
            return f"{where} of {file}"
        row -= n_rows
    raise AssertionError
