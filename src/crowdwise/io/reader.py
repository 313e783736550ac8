"""`read` and `read_truth`: find the files, tell the format, let its reader read, and build Answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.answers.columns import recognise
from crowdwise.answers.encoding import check_no_nulls, preview
from crowdwise.errors import (
    CrowdwiseError,
    DuplicateError,
    FormatError,
    IdTypeError,
    MissingColumnError,
    NullError,
    ParameterError,
)
from crowdwise.io.files import files, guard
from crowdwise.io.format_detection import detect_format
from crowdwise.io.format_table import FORMATS, Format
from crowdwise.io.raw_columns import Choose, Raw, combine, plain

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
ChooseBeside = Callable[..., dict[str, str]]  # (format, names of the columns[, those taken]) -> the column of each role

FILES = 10  # whose rows an error tells apart
_TRUTH = ("truth", "gold", "label", "ground_truth", "true_label")  # names of the known label, in order of preference


def read(
    path: Paths,
    format: str | None = None,
    *,
    question: str | None = None,
    truth: str | None = None,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    **options: Any,
) -> Answers:
    """Read answers from a file, several, a folder or a glob of them.

    Parameters
    ----------
    path : path, folder, glob or list of these
        `answers.csv`, `answers/`, `part-*.parquet`, ... All files are of one format and are read one after the other,
        those of a folder in order of name, without the ones whose name begins with a dot or an underscore (as Spark's
        `_SUCCESS`). Text files may be gzipped.
    format : str, optional
        A name in `crowdwise.io.FORMATS`; told from the name and content of the (first) file when not given.
    question : str, optional
        Which question of an export that holds several.
    task, worker, label : str, optional
        Names of columns; recognised by themselves when not given (`item`, `annotator`, `answer`, ...).
    truth, weight : str, optional
        Columns with the known class of the row's task, and with the weight of the answer. A column of a long table
        that is called exactly `truth`, `weight` or `pseudo` (whether a model made it) is taken by itself.
    **options
        As in `Answers.from_frame`: classes, tasks, workers, duplicates, nulls, max_classes.

    Returns
    -------
    Answers
        `answers.removed` counts what was left out, by reason.

    Notes
    -----
    In text files a column whose every value is an integer, or a boolean, as Python prints it becomes such; `001` stays
    text, and so does `true`. An empty cell is missing; `NA` is a value. Lines in errors are counted from 1.
    """
    given = {"question": question, "task": task, "worker": worker, "label": label, "truth": truth, "weight": weight}
    paths = files(path)
    raws = load(paths, format, {name: value for name, value in given.items() if value is not None})
    if options.get("nulls", "error") == "error":
        for file, raw in zip(paths, raws, strict=True):
            with guard(file):
                _check_nulls(raw)
    counted = "" if options.get("nulls") == "drop" else _counting(paths, raws)
    with guard(paths[0]):
        raw = combine(raws, paths)
    del raws
    for name in ("tasks", "workers"):
        if getattr(raw, name) is not None:
            options.setdefault(name, getattr(raw, name))
    try:
        answers = Answers.from_columns(raw.columns, raw.names, removed=raw.removed, **options)
    except CrowdwiseError as error:
        note = counted if "row" in str(error) else ""
        message = f"{paths[0]}{' and others' if len(paths) > 1 else ''}: {error}{note}"
        raise type(error)(message) from None
    del raw
    pa.default_memory_pool().release_unused()
    return answers


def read_truth(
    path: Paths,
    format: str | None = None,
    *,
    task: str | None = None,
    truth: str | None = None,
    like: Answers | None = None,
) -> pa.Table:
    """Read known labels: a table with the columns `task` and `label`, for `answers.with_truth((task, label))`.

    Parameters
    ----------
    path, format
        As in `read`, for long tables: CSV, TSV, Parquet, JSONL. Rows without a label are left out.
    task, truth : str, optional
        Names of the columns; the known label is recognised as `truth`, `gold` or `label`.
    like : Answers, optional
        Give ids the types they have here. A file of a few labels may look like numbers when they are text.
    """

    def choose(names: list[str]) -> dict[str, str]:
        plain_names = {name.strip().lower(): name for name in reversed(names)}
        known = truth or next((plain_names[name] for name in _TRUTH if name in plain_names), None)
        if known is None:
            message = f"no column for the known label among {preview(names)}. Name it: truth='...'."
            raise MissingColumnError(message)
        return recognise([name for name in names if name != known], task=task) | recognise(names, label=known)

    paths, raws = files(path), []
    for file in paths:
        with guard(file):
            form = format_of(file, format)
            if not form.long:
                message = f"known labels are read from CSV, TSV, Parquet or JSONL, not from {form.name!r}."
                raise FormatError(message)
            raws.append(form.load()(file, choose))
    with guard(paths[0]):
        columns = combine(raws, paths).columns
        tables = {"task": None, "label": None} if like is None else {"task": like.task_ids, "label": like.class_ids}
        return _known_labels({role: cast_ids(plain(columns[role]), ids, role) for role, ids in tables.items()})


def load(
    paths: Sequence[Path], format: str | None, given: Mapping[str, str], beside: ChooseBeside | None = None
) -> list[Raw]:
    """Each file as it is, all in the format of the first; with `beside`, the further columns it chooses."""
    with guard(paths[0]):
        form = format_of(paths[0], format)
        strange = [name for name in given if name not in form.takes]
        if strange:
            takes = ", ".join(f"{name}=" for name in form.takes) or "none of these"
            message = f"{strange[0]}= means nothing in the format {form.name!r}, which takes {takes}."
            raise ParameterError(message)
        reader, more = form.load(), partial(beside, form) if beside else None
    raws: list[Raw] = []
    for file in paths:
        try:
            with guard(file):
                if form.long:
                    raws.append(reader(file, _chooser(given, more)))
                else:
                    raws.append(reader(file, **given, **({"beside": more} if more else {})))
        except CrowdwiseError:
            if format is None:
                _check_format(file, form.name, paths[0])
            raise
    return raws


def _counting(paths: Sequence[Path], raws: Sequence[Raw]) -> str:
    """Where the rows that an error names are to be found."""
    if len(raws) > 1:
        starts = np.cumsum([0, *(len(raw.columns["task"]) for raw in raws)]).tolist()
        listed = ", ".join(f"{path.name} from {start}" for path, start in zip(paths[:FILES], starts, strict=False))
        return f" Rows are counted over all files: {listed}{', ...' if len(paths) > FILES else ''}."
    line = raws[0].first_line
    return "" if line is None else f" Row r is line r + {line} of the file, if no cell holds a line break."


def _check_format(file: Path, name: str, first: Path) -> None:
    """Whether a file that could not be read is of another format than the first, which is then the reason.

    Not asked of every file: exports often do not show what they are until far into them.
    """
    own = name
    with suppress(CrowdwiseError), guard(file):
        own = detect_format(file)
    if own != name:
        message = (
            f"{first} and {file} are of different formats, {name} and {own}. Read them one by one; or, if both are of "
            f"one, say format= (--format)."
        )
        raise FormatError(message)


def format_of(file: Path, name: str | None) -> Format:
    """The format of a file, as named or as it looks."""
    name = detect_format(file) if name is None else name
    if name not in FORMATS:
        message = f"no format {name!r}; known are {', '.join(FORMATS)}."
        raise ParameterError(message)
    return FORMATS[name]


def _chooser(given: Mapping[str, str], beside: ChooseBeside | None) -> Choose:
    """Which column of a long table has which role: as named, else by its own name."""

    def choose(names: list[str]) -> dict[str, str]:
        try:
            found = recognise(names, **{role: given.get(role) for role in ("task", "worker", "label")})
        except MissingColumnError as error:
            message = f"{error} A table with a column for each worker is read with format='cleanlab'."
            raise MissingColumnError(message) from None
        for role in ("truth", "weight", "pseudo"):
            if role in given or (role in names and role not in found.values()):
                found |= recognise(names, **{role: given.get(role, role)})
        return found | (beside(names, found.values()) if beside else {})

    return choose


def _check_nulls(raw: Raw) -> None:
    """Refuse missing ids by the lines of the file, where it has lines."""
    for role in ("task", "worker", "label"):
        column = raw.columns[role]
        if raw.lines is not None and column.null_count:
            rows = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
            shown = preview(raw.lines(rows[:3].tolist()), len(rows))
            message = (
                f"column {raw.names[role]!r} is empty in {len(rows)} of {len(column)} rows (lines {shown}). Fill them "
                f"in, or leave those rows out with nulls='drop' (--nulls drop), which counts them."
            )
            raise NullError(message)


def cast_ids(ids: pa.Array, table: pa.Array | None, what: str) -> pa.Array:
    """Ids in the type of a table."""
    if table is None:
        return ids
    try:
        return ids.cast(table.type)
    except pa.ArrowInvalid:
        message = f"the {what} ids are {preview(ids.to_pylist())} where the answers have {preview(table.to_pylist())}."
        raise IdTypeError(message) from None


def _known_labels(columns: dict[str, pa.Array]) -> pa.Table:
    """One row a task; two different labels of one are an error."""
    table = pa.table(columns)
    table = table.filter(table.column("label").is_valid())
    check_no_nulls(table.column("task").combine_chunks(), "task")
    table = table.group_by(["task", "label"], use_threads=False).aggregate([])
    counts = table.group_by("task", use_threads=False).aggregate([("label", "count")])
    twice = counts.filter(pc.greater(counts.column("label_count"), 1)).column("task").to_pylist()
    if twice:
        message = f"two known labels are given for {preview(twice)}; a task has one."
        raise DuplicateError(message)
    return table.select(["task", "label"])
