"""Side columns of a file of answers: the text or image of each task, and the time each answer took.

They are parsed together with the answers and joined to them by task and worker, never by row, so that dropped or merged
answers cannot shift them. A problem with a text column that the user asked for is an error. Times are optional: a cell
that cannot be parsed is counted and left unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.answers.columns import recognise
from crowdwise.answers.encoding import encode_dictionary, preview
from crowdwise.answers.rows import Array
from crowdwise.errors import DuplicateError, FormatError, MissingColumnError, ParameterError, UnknownIdError
from crowdwise.io.files import file_errors, find_files
from crowdwise.io.format_table import Format
from crowdwise.io.raw_columns import RawColumns, concat_files, encode_column
from crowdwise.io.reader import Paths, build_answers, cast_ids, choose_format, column_options, load
from crowdwise.io.times import parse_durations, parse_times, previous_times, tasks_per_span

BREAK = 30 * 60  # seconds: a longer gap between two answers of a worker is taken as a break
LONGEST = 24 * 60 * 60  # seconds: a longer time means that the page was left open

# Column names in order of preference; compared in lower case, with spaces and dashes as underscores.
IMAGE = ("image", "image_url", "image_path", "image_file", "image_uri", "img", "img_url", "img_path")
TIMES = {
    "seconds": ("seconds", "duration", "duration_seconds", "lead_time", "time_spent", "work_time", "time_taken",
                "elapsed", "response_time", "worktimeinseconds", "duration_ms", "response_time_ms", "milliseconds"),
    "started": ("started_at", "start_time", "started", "accepted_at", "accept_time"),
    "ended": ("submitted_at", "ended_at", "end_time", "completed_at", "finished_at", "submit_time", "submitted"),
    "at": ("timestamp", "answered_at", "submitted_at", "completed_at", "finished_at", "submit_time", "created_at"),
}  # fmt: skip
EXPORTED_TIMES = {
    "label-studio": {"seconds": ("lead_time",)},
    "prodigy": {"at": ("_timestamp",)},
    "mturk": {"seconds": ("worktimeinseconds",)},
    "toloka": {"started": ("assignment:started",), "ended": ("assignment:submitted",)},
    "ground-truth": {"seconds": ("timespentinseconds",)},
}
_NOT_A_REFERENCE = "^(data:|[0-9]+$)"  # the image itself, or its number
_TEXT_FORMATS = (  # exports whose field `text` is the task's text
    "label-studio", "argilla", "prodigy", "doccano", "inspect", "promptfoo", "deepeval", "lm-eval",
)  # fmt: skip


class SideColumns(NamedTuple):
    """What a file holds besides its answers; None for what it does not hold."""

    texts: Array | None  # (tasks,) str, None where a task has no text
    seconds: Array | None  # (answers,) float64, NaN where unknown
    images: Array | None  # (tasks,) str, a path or URL; None where a task has no image
    notes: list[str]  # sentences: which columns were used, and what could not be used


class _Rows(NamedTuple):
    """The task, worker and answer of each row, as codes of the answers; -1 where there is none."""

    task: Array  # (rows,)
    worker: Array  # (rows,)
    answer: Array  # (rows,)


def read_with_side_columns(
    path: Paths,
    format: str | None = None,
    *,
    text: str | None = None,
    question: str | None = None,
    truth: str | None = None,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    multiline: bool = False,
    **options: Any,
) -> tuple[Answers, SideColumns]:
    r"""Read answers together with the texts, images and times in the same files. Each file is parsed once.

    Parameters
    ----------
    path, format, question, truth, task, worker, label, weight, multiline, **options
        As in `read`.
    text : str, optional
        The column of a long table, or the field of a task in an export, that holds the text. By default the field
        `text` is used in exports of Label Studio, Argilla, Prodigy and doccano, and no column elsewhere.

    Returns
    -------
    Answers
        The same as `read` returns.
    SideColumns
        `texts` and `images` in the order of `answers.tasks`, `seconds` in the order of the answers, and `notes`.

    Raises
    ------
    MissingColumnError, FormatError, DuplicateError
        If the text column named does not exist, is empty for most tasks, or differs between rows of one task.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = file.write_text("task,worker,label,tweet,seconds\n7,bob,no,hello,3\n7,ann,yes,hello,2.5\n")
    >>> answers, side = read_with_side_columns(file, text="tweet")
    >>> answers
    Answers(1 tasks, 2 workers, 2 answers, 2 classes)
    >>> side.texts.tolist(), side.seconds.tolist()
    (['hello'], [2.5, 3.0])
    >>> side.notes
    ["Texts come from 'tweet'.", "Times come from 'seconds', known for 2 of 2 answers."]
    """
    columns = column_options(question=question, truth=truth, task=task, worker=worker, label=label, weight=weight)
    paths, form, raws = _load(path, format, text, columns, multiline=multiline)
    answers = build_answers(paths, list(raws), options)
    side = _side_columns(paths, form, raws, answers, text)
    del raws
    pa.default_memory_pool().release_unused()
    return answers, side


def read_side_columns(
    path: Paths,
    answers: Answers,
    *,
    format: str | None = None,
    text: str | None = None,
    question: str | None = None,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    multiline: bool = False,
) -> SideColumns:
    r"""Read the texts, images and times of answers that were read before.

    `read_with_side_columns` reads both at once, which is faster.

    Parameters
    ----------
    path, format, question, task, worker, label, multiline
        As passed to `read`.
    answers : Answers
        What `read` returned, or a part of it.
    text : str, optional
        As in `read_with_side_columns`.

    Returns
    -------
    SideColumns
        `texts` and `images` in the order of `answers.tasks`, `seconds` in the order of the answers, and `notes`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from crowdwise.io import read
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = file.write_text("task,worker,label,tweet,seconds\n7,bob,no,hello,3\n7,ann,yes,hello,2.5\n")
    >>> read_side_columns(file, read(file), text="tweet").texts.tolist()
    ['hello']
    """
    columns = column_options(question=question, task=task, worker=worker, label=label)
    paths, form, raws = _load(path, format, text, columns, multiline=multiline)
    return _side_columns(paths, form, raws, answers, text)


def _load(
    path: Paths, format: str | None, text: str | None, columns: dict[str, str], *, multiline: bool
) -> tuple[list[Path], Format, list[RawColumns]]:
    """Parse the files of `path`, side columns included."""
    if text is not None and (not isinstance(text, str) or not text):
        message = f"text={text!r} is not the name of a column or field."
        raise ParameterError(message)
    paths = find_files(path)
    form = choose_format(paths[0], format, columns)
    if form.inputs is None and text is not None:
        message = f"{paths[0]}: the format {form.name!r} contains no texts; leave out text= (--text)."
        raise ParameterError(message)
    choose_side = None if form.inputs is None else partial(_choose_side, text)
    paths = form.select(paths)
    return (
        paths,
        form,
        load(paths, form, columns, detected=format is None, choose_side=choose_side, multiline=multiline),
    )


def _side_columns(
    paths: Sequence[Path], form: Format, raws: Sequence[RawColumns], answers: Answers, text: str | None
) -> SideColumns:
    if form.inputs is None:
        return SideColumns(None, None, None, [])
    notes: list[str] = []
    with file_errors(paths[0]):
        rows = _match_rows(raws, answers)
        texts = _task_values(raws, "text", rows, answers, notes, required=text)
        images = _task_values(raws, "image", rows, answers, notes)
        seconds = _seconds(raws, rows, answers.n_answers, notes)
    return SideColumns(texts, seconds, images, notes)


def _choose_side(text: str | None, form: Format, names: list[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Return the column of each side role; `taken` are the columns of ids, which cannot be times or images."""
    prefix, counts, found = form.inputs or "", Counter(names), {}
    normalised = {n.strip().lower().replace(" ", "_").replace("-", "_"): n for n in reversed(names) if counts[n] == 1}
    free = {key: name for key, name in normalised.items() if name not in taken}
    if text is not None:
        name = next((name for name in (text, prefix + text) if name in counts), None)
        if name is None:
            inputs = [name for name in names if name.startswith(prefix)] or names
            message = f"no column or field {text!r} for the text; the file has {', '.join(map(repr, inputs))}."
            raise MissingColumnError(message)
        found = recognise(names, text=name)
    elif form.name in _TEXT_FORMATS and f"{prefix}text" in counts:
        found = {"text": f"{prefix}text"}

    def first(candidates: Sequence[str]) -> str | None:
        return next((free[name] for name in candidates if name in free), None)

    image = first([prefix.lower() + name for name in IMAGE])
    if image is not None:
        found["image"] = image
    times = TIMES if form.long else EXPORTED_TIMES.get(form.name, {})
    present = {role: name for role, candidates in times.items() if (name := first(candidates)) is not None}
    for roles in (("seconds",), ("started", "ended"), ("at",)):
        if present.keys() >= {*roles}:
            return found | {role: present[role] for role in roles}
    return found


def _match_rows(raws: Sequence[RawColumns], answers: Answers) -> _Rows:
    """Find the task, worker and answer that each row of the files belongs to."""
    ids = concat_files([replace(raw, columns={role: raw.columns[role] for role in ("task", "worker")}) for raw in raws])

    def codes(role: str, table: pa.Array) -> Array:
        column = encode_dictionary(ids.columns[role])
        position = pc.index_in(cast_ids(column.dictionary, table, role), value_set=table).fill_null(-1)
        return np.append(position.to_numpy().astype(np.int64), -1)[column.indices.fill_null(-1).to_numpy()]

    task, worker = codes("task", answers.task_ids), codes("worker", answers.worker_ids)
    if not (task >= 0).any():
        message = f"the file contains none of the tasks of the answers ({preview(answers.tasks)}). Is it another file?"
        raise UnknownIdError(message)
    labelled = np.concatenate([raw.columns["label"].is_valid().to_numpy(zero_copy_only=False) for raw in raws])
    row_pair = np.where(labelled & (task >= 0) & (worker >= 0), task * answers.n_workers + worker, -1)
    answer_pair = answers.task.astype(np.int64) * answers.n_workers + answers.worker
    answer = pc.index_in(pa.array(row_pair), value_set=pa.array(answer_pair)).fill_null(-1)
    return _Rows(task, worker, answer.to_numpy(zero_copy_only=False))


def _task_values(
    raws: Sequence[RawColumns],
    role: str,
    rows: _Rows,
    answers: Answers,
    notes: list[str],
    required: str | None = None,
) -> Array | None:
    """Return the text or image of each task, which may be in any of the task's rows.

    `required` is the column that the user named: problems with it are errors. Otherwise they are only noted.
    """
    names = {raw.names[role]: None for raw in raws if role in raw.columns}
    if required is not None and any(role not in raw.columns and len(raw.columns["task"]) for raw in raws):
        message = f"the column {required!r} contains lists, objects or bytes, not text. Name another with text=."
        raise FormatError(message)
    if not names:
        return None
    column = encode_column(pa.chunked_array([_as_text(raw, role) for raw in raws]))
    code = _usable_codes(column, role, notes)  # (rows,)
    filled = np.flatnonzero((rows.task >= 0) & (code >= 0))
    task, code = rows.task[filled], code[filled]
    chosen = np.full(answers.n_tasks, -1)  # (tasks,)
    chosen[task] = code
    conflicts = np.flatnonzero(chosen[task] != code)
    if len(conflicts):
        ambiguous = np.unique(task[conflicts])
        if required is not None:
            first = conflicts[0]
            both = preview([column.dictionary[int(c)].as_py()[:60] for c in (chosen[task[first]], code[first])])
            message = (
                f"task {preview(answers.tasks[task[first : first + 1]])} has two texts in {required!r}: {both} "
                f"({len(ambiguous)} tasks have several). Keep one text per task."
            )
            raise DuplicateError(message)
        chosen[ambiguous] = -1
        notes.append(
            f"Tasks with several {role}s, which are ignored: {len(ambiguous)} ({preview(answers.tasks[ambiguous])})."
        )
    present, missing = np.flatnonzero(chosen >= 0), np.flatnonzero(chosen < 0)
    if required is not None:
        _check_mostly_filled(rows, missing, answers, required)
    if not len(present):
        return None
    gaps = f"; missing for {len(missing)} of {answers.n_tasks} tasks ({preview(answers.tasks[missing])})"
    notes.append(f"{role.capitalize()}s come from {_listed(names)}{gaps if len(missing) else ''}.")
    out = np.full(answers.n_tasks, None, object)
    out[present] = column.dictionary.take(pa.array(chosen[present])).to_numpy(zero_copy_only=False)
    return out


def _usable_codes(column: pa.Array, role: str, notes: list[str]) -> Array:
    """Return the dictionary code of each row, -1 where the value is blank or, for an image, not a path or URL."""
    values = column.dictionary
    usable = pc.not_equal(pc.utf8_trim_whitespace(values), "").to_numpy(zero_copy_only=False)
    if role == "image":
        invalid = usable & pc.match_substring_regex(values, _NOT_A_REFERENCE).to_numpy(zero_copy_only=False)
        usable = usable & ~invalid
        if invalid.any():
            notes.append(f"Images that are not a path or URL, ignored: {invalid.sum()}.")
    code = column.indices.fill_null(-1).to_numpy().astype(np.int64)
    return np.where(np.append(usable, False)[code], code, -1)


def _check_mostly_filled(rows: _Rows, missing: Array, answers: Answers, column: str) -> None:
    """Reject a text column that is empty for most of the tasks in the files."""
    in_files = np.zeros(answers.n_tasks, bool)
    in_files[rows.task[rows.task >= 0]] = True
    empty = missing[in_files[missing]]
    if 2 * len(empty) > in_files.sum():
        message = (
            f"the text column {column!r} is empty for {len(empty)} of {in_files.sum()} tasks "
            f"({preview(answers.tasks[empty])}). Fill it in, or name another column with text=."
        )
        raise FormatError(message)


def _as_text(raw: RawColumns, role: str) -> pa.Array:
    """Return a column as dictionary-encoded text, all null where the file does not have it."""
    column = raw.columns.get(role)
    if column is None:
        column = pa.nulls(len(raw.columns["task"]), pa.large_string())
    elif pa.types.is_dictionary(column.type):
        values = column.dictionary.cast(pa.large_string())
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), values)
    return column.cast(pa.large_string()).dictionary_encode()


def _seconds(raws: Sequence[RawColumns], rows: _Rows, n_answers: int, notes: list[str]) -> Array | None:
    """Return the time each answer took, from whichever kind of time each file has."""
    times = [(raw.names[role], raw.columns[role]) for raw in raws for role in TIMES if role in raw.columns]
    names = {name: None for name, column in times if column.null_count < len(column)}
    if not names:
        return None
    invalid = np.zeros(len(rows.task), bool)

    def parsed(role: str, parse: Callable[[pa.Array], Array]) -> Array:
        parts = []
        for raw in raws:
            column = raw.columns.get(role, pa.nulls(len(raw.columns["task"]), pa.float64()))
            unit = 1e-3 if role == "seconds" and raw.names.get(role, "").lower().endswith(("ms", "milliseconds")) else 1
            parts.append((unit * parse(column), column.is_valid().to_numpy(zero_copy_only=False)))
        values, filled = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        invalid[filled & ~np.isfinite(values)] = True
        return np.where(np.isfinite(values), values, np.nan)

    spent = parsed("seconds", parse_durations)  # (rows,)
    started, ended, at = (parsed(role, parse_times) for role in ("started", "ended", "at"))
    clock = np.flatnonzero(~np.isnan(at) & (rows.worker >= 0))
    started[clock], ended[clock] = previous_times(rows.worker[clock], at[clock]), at[clock]
    span = np.flatnonzero(~np.isnan(ended - started) & (rows.worker >= 0))
    shared = tasks_per_span(rows.worker[span], started[span], ended[span], rows.task[span])
    took = ended[span] - started[span]
    paused = ~np.isnan(at[span]) & (took > BREAK)
    spent[span] = np.where(paused, np.nan, took / shared)
    invalid |= (spent < 0) | (spent > LONGEST)
    spent[invalid] = np.nan

    known = np.flatnonzero((rows.answer >= 0) & ~np.isnan(spent))
    counts = np.bincount(rows.answer[known], minlength=n_answers)  # (answers,)
    totals = np.bincount(rows.answer[known], spent[known], minlength=n_answers)
    seconds = np.divide(totals, counts, out=np.full(n_answers, np.nan), where=counts > 0)
    is_answer = rows.answer >= 0
    source = "are the gaps between a worker's answers in" if len(clock) else "come from"
    notes.append(f"Times {source} {_listed(names)}, known for {(counts > 0).sum()} of {n_answers} answers.")
    for what, count in (
        (f"Gaps over {BREAK // 60} minutes, taken as breaks", (paused & is_answer[span]).sum()),
        (
            f"Times that are invalid, negative or over {LONGEST // 3600} hours, left unknown",
            (invalid & is_answer).sum(),
        ),
        ("Answers that share one time span, which is divided equally", ((shared > 1) & is_answer[span]).sum()),
        ("Answers given more than once, with the mean of their times", (counts > 1).sum()),
    ):
        if count:
            notes.append(f"{what}: {count}.")
    return seconds if (counts > 0).any() else None


def _listed(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))
