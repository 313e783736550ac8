"""`read`, `read_truth` and `attach_truth`: find the files, detect the format, parse each file once, build Answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.display import pluralise
from crowdwise._core.validation import require
from crowdwise.answers import TABLES, Answers, Ratings
from crowdwise.answers.columns import recognise
from crowdwise.answers.encoding import check_no_nulls, preview, type_name
from crowdwise.answers.kinds import folded_text
from crowdwise.answers.scales import ratings_reason
from crowdwise.errors import (
    AnswerKindError,
    AnswerKindWarning,
    CrowdwiseError,
    DuplicateError,
    FormatError,
    GoldError,
    IdTypeError,
    LookalikeWarning,
    MissingColumnError,
    NullError,
    ParameterError,
)
from crowdwise.io.csv_escaping import BOOLEAN, INTEGER
from crowdwise.io.files import file_errors, find_files
from crowdwise.io.format_detection import detect_format
from crowdwise.io.format_table import FORMATS, Format
from crowdwise.io.raw_columns import ChooseColumns, RawColumns, concat_files, decode, is_text

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
ChooseSide = Callable[..., dict[str, str]]  # (format, column names[, names in use]) -> the column of each side role

CLASS_OPTIONS = ("classes", "max_classes", "as_classes", "fold_case")  # that only `Answers` takes
MAX_LISTED_FILES = 10  # files an error lists with the row each one starts at
_TRUTH_NAMES = ("truth", "gold", "label", "ground_truth", "true_label")  # in order of preference


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
    multiline: bool = False,
    kind: str = "auto",
    **options: Any,
) -> Any:
    """Read answers from one file, several files, a folder or a glob.

    Parameters
    ----------
    path : path, folder, glob or list of these
        `answers.csv`, `answers/`, `part-*.parquet`, ... All files must have the same format; they are read one after
        the other. The files of a folder are sorted by name, and names that begin with a dot or an underscore (such as
        Spark's `_SUCCESS`) are skipped. Text files may be gzipped.
    format : str, optional
        A name in `crowdwise.io.FORMATS`. By default it is detected from the name and content of the first file.
    question : str, optional
        The question to read, for exports that contain several.
    task, worker, label : str, optional
        Column names. By default common names are recognised (`item`, `annotator`, `answer`, ...).
    truth, weight : str, optional
        Columns with the known class of the row's task and with the weight of the answer. In a long table, columns named
        exactly `truth`, `weight` or `pseudo` (whether a model made the answer) are used by default.
    multiline : bool
        Accept ids and labels that contain line breaks. In CSV and TSV files they are an error by default, since a stray
        quotation mark makes one cell of many lines.
    kind : {"auto", "classes", "ratings"}
        What an answer is: one of several unordered classes (`Answers`), or a level of a scale or a number (`Ratings`).
        "auto" tells from the values, with a warning if they are taken for ratings: fractional numbers; integers in a
        column named like ratings; and integers that are a usual scale, if different answers to a task are mostly
        neighbours.
    **options
        As in `Answers.from_frame`: classes, tasks, workers, duplicates, nulls, max_classes, as_classes, fold_case; or
        as in `Ratings.from_columns`: levels, numeric.

    Returns
    -------
    Answers or Ratings
        `answers.removed` counts the rows that were left out, by reason.

    Notes
    -----
    In text files, a column becomes integers (or booleans) only if every value is written as Python prints an integer
    (or a boolean). `001` stays text, and so does `true`. An empty cell is missing; `NA` is a value. Line numbers in
    error messages start at 1.
    """
    columns = column_options(question=question, truth=truth, task=task, worker=worker, label=label, weight=weight)
    paths = find_files(path)
    form = choose_format(paths[0], format, columns)
    paths = form.select(paths)
    raws = load(paths, form, columns, detected=format is None, multiline=multiline)
    answers = build_answers(paths, raws, {**options, "kind": kind})
    pa.default_memory_pool().release_unused()
    return answers


def read_truth(
    path: Paths,
    format: str | None = None,
    *,
    task: str | None = None,
    truth: str | None = None,
    like: Answers | None = None,
    multiline: bool = False,
) -> pa.Table:
    """Read known labels as a table with the columns `task` and `label`, for `answers.with_truth((task, label))`.

    Parameters
    ----------
    path, format
        As in `read`, for long tables: CSV, TSV, Parquet, JSONL. Rows without a label are left out.
    task, truth : str, optional
        Column names. By default the known label is the column `truth`, `gold` or `label`.
    multiline : bool
        As in `read`.
    like : Answers, optional
        Convert the ids to the types they have in these answers. In a short file, text ids may look like integers.
    """

    def choose(names: list[str]) -> dict[str, str]:
        normalised = {name.strip().lower(): name for name in reversed(names)}
        column = truth or next((normalised[name] for name in _TRUTH_NAMES if name in normalised), None)
        if column is None:
            message = f"no column for the known label among {preview(names)}. Name it with truth='...'."
            raise MissingColumnError(message)
        return recognise([name for name in names if name != column], task=task) | recognise(names, label=column)

    paths, raws = find_files(path), []
    for file in paths:
        with file_errors(file):
            form = _find_format(file, format)
            if not form.long:
                message = f"known labels are read from CSV, TSV, Parquet or JSONL files, not from {form.name!r}."
                raise FormatError(message)
            raws.append(form.load()(file, choose, **({"multiline": True} if multiline and form.quoted else {})))
    with file_errors(paths[0]):
        columns = concat_files(raws, paths).columns
        tables = {"task": None, "label": None} if like is None else {"task": like.task_ids, "label": like.class_ids}
        if isinstance(like, Ratings):  # known values need not be levels
            tables["label"] = None
        return _known_labels({role: cast_ids(decode(columns[role]), ids, role) for role, ids in tables.items()})


def read_numbers(path: Paths, names: Sequence[str], *, like: Answers) -> pa.Table | None:
    """Read columns of numbers that stand next to known labels, with the column `task`; None if there are none of them.

    Parameters
    ----------
    path : as in `read_truth`
    names : sequence of str
        The columns. Those that the file does not have are left out.
    like : Answers
        Convert the task ids to the type they have in these answers.
    """
    found: dict[str, Any] = {}
    for name in names:

        def choose(columns: list[str], name: str = name) -> dict[str, str]:
            return recognise(columns, task=None) | ({"weight": name} if name in columns else {})

        raws = []
        for file in find_files(path):
            with file_errors(file):
                raws.append(_find_format(file, None).load()(file, choose))
        columns = concat_files(raws).columns
        if "weight" in columns:
            found |= {"task": cast_ids(decode(columns["task"]), like.task_ids, "task"), name: columns["weight"]}
    return pa.table(found) if found else None


def attach_truth(answers: Any, file: str | PathLike[str]) -> Any:
    """Return the answers with the known labels of a file; labels of unanswered tasks are left out and counted."""
    multiline = _has_line_breaks(answers.class_ids) or _has_line_breaks(answers.task_ids)
    table = read_truth(Path(file), like=answers, multiline=multiline)
    table = table if isinstance(answers, Ratings) else _match_case(table, answers, file)
    out = answers.with_truth((table.column("task"), table.column("label")), ignore_unknown=True)
    if out.truth is None or not out.is_known(out.truth).any():
        message = f"{file}: none of its {table.num_rows:,} tasks occurs in the answers. Use the same task ids."
        raise GoldError(message)
    if not isinstance(answers, Ratings) and (out.truth[out.truth >= 0] >= answers.n_classes).all():
        classes = answers.classes.tolist()[:5]
        message = f"{file}: none of its labels occurs in the answers ({classes}, ...). Use the same labels."
        raise GoldError(message)
    return out


def gold_notes(answers: Answers) -> list[str]:
    """Return a note if known labels are used as gold because they were marked as such where they were read."""
    if answers.marked_gold is None:
        return []
    known = pluralise(int(answers.is_known(answers.marked_gold).sum()), "task")
    return [f"The answers contain the known label of {known}, marked as ground truth. It is used as gold."]


def _match_case(table: pa.Table, answers: Answers, file: str | PathLike[str]) -> pa.Table:
    """Replace known labels that differ from a class only in case or surrounding spaces by the class, with a warning."""
    labels, classes = table.column("label").combine_chunks(), answers.class_ids
    if not is_text(labels.type):
        return table
    position = pc.index_in(folded_text(labels), value_set=folded_text(classes))
    differs = pc.and_(pc.is_valid(position), pc.invert(pc.is_in(labels, value_set=classes)))
    if not pc.any(differs).as_py():
        return table
    shown = preview(pc.unique(labels.filter(differs)).to_pylist())
    message = f"{file}: the labels {shown} differ from classes of the answers only in case or spaces; they are matched."
    warnings.warn(message, LookalikeWarning, stacklevel=3)
    return table.set_column(1, "label", pc.if_else(differs, classes.take(position), labels))


def column_options(**names: str | None) -> dict[str, str]:
    """Return the options that name a column or a question, without those left at None."""
    return {option: name for option, name in names.items() if name is not None}


def choose_format(file: Path, name: str | None, columns: Mapping[str, str]) -> Format:
    """Return the format of the first file, and reject column options that the format does not have."""
    with file_errors(file):
        form = _find_format(file, name)
        unknown = next((option for option in columns if option not in form.takes), None)
        if unknown is not None:
            takes = ", ".join(f"{option}=" for option in form.takes) or "none of these options"
            message = f"the format {form.name!r} has no option {unknown}=; it takes {takes}."
            raise ParameterError(message)
        return form


def load(
    paths: Sequence[Path],
    form: Format,
    columns: Mapping[str, str],
    *,
    detected: bool,
    choose_side: ChooseSide | None = None,
    multiline: bool = False,
) -> list[RawColumns]:
    """Parse each file once.

    `detected` says that the format was detected from the first file rather than named by the user. `choose_side` picks
    further columns to read from the same files: texts, images and times. `multiline` accepts line breaks in ids.
    """
    side = partial(choose_side, form) if choose_side else None
    reader = partial(form.load(), multiline=multiline) if form.quoted else form.load()
    raws: list[RawColumns] = []
    for file in paths:
        try:
            with file_errors(file):
                if form.long:
                    raws.append(reader(file, _long_columns(columns, side)))
                else:
                    raws.append(reader(file, **columns, **({"choose_side": side} if side else {})))
        except CrowdwiseError:
            if detected:
                _check_same_format(file, form.name, paths[0])
            raise
    return with_scopes(raws)


def with_scopes(raws: list[RawColumns]) -> list[RawColumns]:
    """Put the scope before the ids of tasks if there are several, since equal ids are different tasks then."""
    if len({raw.scope for raw in raws}) < 2:
        return raws
    return [
        raw
        if raw.scope is None
        else replace(raw, columns=raw.columns | {"task": _scoped(raw.columns["task"], raw.scope)})
        for raw in raws
    ]


def _scoped(ids: pa.Array, scope: str) -> pa.Array:
    return pc.binary_join_element_wise(
        pa.scalar(scope, pa.large_string()), decode(ids).cast(pa.large_string()), pa.scalar("/", pa.large_string())
    )


def build_answers(paths: Sequence[Path], raws: list[RawColumns], options: Mapping[str, Any]) -> Any:
    """Build the table from the parsed files. Empties `raws` once its rows are copied, to save memory.

    `options["kind"]` is as in `read`; without it, answers are classes.
    """
    options = dict(options)
    kind = options.pop("kind", Answers.kind)
    known = ("auto", Answers.kind, Ratings.kind)
    require(kind in known, "kind", kind, "one of " + ", ".join(map(repr, known)))
    n_sets, n_answers = sum(raw.n_sets for raw in raws), sum(raw.n_answers for raw in raws)
    if n_sets and not options.get("as_classes"):
        message = (
            f"{paths[0]}: {n_sets:,} of {n_answers:,} answers have several labels at once, but a task has one label "
            "here. To treat each distinct set of labels as a class, pass as_classes=True (--as-classes)."
        )
        raise AnswerKindError(message)
    nulls = options.get("nulls", "error")
    if n_empty := sum(raw.n_empty for raw in raws):
        if options.get("as_classes"):
            raws[:] = [raw.with_empty_sets() for raw in raws]
        elif nulls == "error":
            message = (
                f"{paths[0]}: {n_empty:,} of {n_answers:,} answers choose no label. Leave them out with nulls='drop' "
                "(--nulls drop), or, if the question allows several labels, make the empty choice a class with "
                "as_classes=True (--as-classes)."
            )
            raise AnswerKindError(message)
    if nulls == "error":
        _check_nulls(paths, raws)
    row_hint = "" if nulls == "drop" else _row_hint(paths, raws)
    with file_errors(paths[0]):
        table = concat_files([raw.without_side_columns() for raw in raws], paths)
    raws.clear()
    for name in ("tasks", "workers"):
        if getattr(table, name) is not None:
            options.setdefault(name, getattr(table, name))
    if kind == "auto":
        kind = _recognise_kind(paths, table, options)
    if kind == Ratings.kind:
        options = {name: value for name, value in options.items() if name not in CLASS_OPTIONS}
    try:
        return TABLES[kind].from_columns(
            table.columns, table.names, removed=table.removed, abstentions=table.abstentions,
            truth_is_gold=table.gold and "truth" in table.columns, **options,
        )  # fmt: skip
    except CrowdwiseError as error:
        hint = row_hint if "row" in str(error) else ""
        message = f"{paths[0]}{' and others' if len(paths) > 1 else ''}: {error}{hint}"
        raise type(error)(message) from None


def _recognise_kind(paths: Sequence[Path], table: RawColumns, options: Mapping[str, Any]) -> str:
    """Return the kind of the answers by their values; a warning says if they are not classes."""
    if options.get("levels") is not None or options.get("numeric"):
        return Ratings.kind
    if options.get("as_classes") or options.get("classes") is not None:
        return Answers.kind
    name = table.names.get("label", "label")
    reason = ratings_reason(table.columns["label"], name, table.columns["task"])
    if reason is None:
        return Answers.kind
    message = (
        f"{paths[0]}: column {name!r} {reason}, so the answers are read as ratings. If they are unordered classes, "
        "pass kind='classes' (--kind classes)."
    )
    warnings.warn(message, AnswerKindWarning, stacklevel=4)
    return Ratings.kind


def _row_hint(paths: Sequence[Path], raws: Sequence[RawColumns]) -> str:
    """Explain where to find the row numbers that an error names."""
    if len(raws) > 1:
        starts = np.cumsum([0, *(raw.n_answers for raw in raws)]).tolist()
        listed = ", ".join(
            f"{path.name} from {start}" for path, start in zip(paths[:MAX_LISTED_FILES], starts, strict=False)
        )
        more = ", ..." if len(paths) > MAX_LISTED_FILES else ""
        return f" Rows are counted over all files: {listed}{more}."
    line = raws[0].first_line
    return "" if line is None else f" Row r is line r + {line} of the file, unless a cell contains a line break."


def _check_same_format(file: Path, name: str, first: Path) -> None:
    """If a file that could not be read has another format than the first one, report that as the reason.

    Only done after a failure: an export often does not show its format until far into the file.
    """
    own = name
    with suppress(CrowdwiseError), file_errors(file):
        own = detect_format(file)
    if own != name:
        message = (
            f"{first} and {file} have different formats, {name} and {own}. Read them separately or, if both have the "
            f"same format, name it with format= (--format)."
        )
        raise FormatError(message)


def _find_format(file: Path, name: str | None) -> Format:
    name = detect_format(file) if name is None else name
    if name not in FORMATS:
        message = f"unknown format {name!r}; choose one of {', '.join(FORMATS)}."
        raise ParameterError(message)
    return FORMATS[name]


def _long_columns(columns: Mapping[str, str], choose_side: ChooseSide | None) -> ChooseColumns:
    """Return a function that assigns the columns of a long table to roles: as named by the user, else recognised."""

    def choose(names: list[str]) -> dict[str, str]:
        try:
            found = recognise(names, **{role: columns.get(role) for role in ("task", "worker", "label")})
        except MissingColumnError as error:
            message = f"{error} For a table with one column per worker, use format='cleanlab'."
            raise MissingColumnError(message) from None
        for role in ("truth", "weight", "pseudo"):
            if role in columns or (role in names and role not in found.values()):
                found |= recognise(names, **{role: columns.get(role, role)})
        return found | (choose_side(names, found.values()) if choose_side else {})

    return choose


def _check_nulls(paths: Sequence[Path], raws: Sequence[RawColumns]) -> None:
    """Reject missing ids and name their lines, for formats that have lines."""
    for file, raw in zip(paths, raws, strict=True):
        for role in ("task", "worker", "label"):
            column = raw.columns[role]
            if raw.lines is not None and column.null_count:
                rows = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
                with file_errors(file):
                    shown = preview(raw.lines(rows[:3].tolist()), len(rows))
                    message = (
                        f"column {raw.names[role]!r} is empty in {len(rows)} of {len(column)} rows (lines {shown}). "
                        f"Fill in the cells, or leave the rows out with nulls='drop' (--nulls drop), which counts them."
                    )
                    raise NullError(message)


def cast_ids(ids: pa.Array, table: pa.Array | None, what: str) -> pa.Array:
    """Convert ids to the type of an id table, without changing what they say.

    Text becomes an integer or a boolean only if it is written as Python prints one: `001` and `0x1` are not 1.
    """
    if table is None or ids.type == table.type or pa.types.is_null(ids.type):
        return ids if table is None else ids.cast(table.type)
    if is_text(table.type):
        if pa.types.is_boolean(ids.type):
            ids = pc.if_else(ids, "True", "False")
        return ids.cast(table.type)
    pattern = INTEGER if pa.types.is_integer(table.type) else BOOLEAN
    differs = pc.invert(pc.match_substring_regex(ids, pattern)) if is_text(ids.type) else pc.is_valid(ids)
    if pc.any(differs).as_py():
        known = f"{type_name(table.type)}{f' ({preview(table.to_pylist())})' if len(table) else ''}"
        message = (
            f"the {what} ids {preview(pc.unique(ids.filter(differs)).to_pylist())} differ in type from those of the "
            f"answers, which are {known}. Use the same ids in both files."
        )
        raise IdTypeError(message)
    return ids.cast(table.type)


def _has_line_breaks(ids: pa.Array) -> bool:
    return pa.types.is_large_string(ids.type) and bool(pc.any(pc.match_substring_regex(ids, "[\r\n]")).as_py())


def _known_labels(columns: dict[str, pa.Array]) -> pa.Table:
    """Return one row per task, and reject a task with two different labels."""
    table = pa.table(columns)
    table = table.filter(table.column("label").is_valid())
    check_no_nulls(table.column("task").combine_chunks(), "task")
    table = table.group_by(["task", "label"], use_threads=False).aggregate([])
    counts = table.group_by("task", use_threads=False).aggregate([("label", "count")])
    repeated = counts.filter(pc.greater(counts.column("label_count"), 1)).column("task").to_pylist()
    if repeated:
        message = f"task {preview(repeated)} has two known labels; keep one label per task."
        raise DuplicateError(message)
    return table.select(["task", "label"])
