"""What stands beside the answers in the same files: the text or image of each task, and how long each answer took.

The readers of `read` are asked once more, for further columns; what they give is joined to the answers by task and
worker, never by row, so that answers left out or settled on the way in shift nothing. Texts are the user's data and
what is wrong with one asked for is an error; times are a bonus, and a cell that is none is counted and left unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.answers.columns import recognise
from crowdwise.answers.encoding import encode_dictionary, preview
from crowdwise.answers.rows import Array
from crowdwise.errors import DuplicateError, FormatError, MissingColumnError, ParameterError, UnknownIdError
from crowdwise.io.files import files, guard
from crowdwise.io.format_table import Format
from crowdwise.io.raw_columns import Raw, combine, encoded
from crowdwise.io.reader import Paths, cast_ids, format_of, load
from crowdwise.io.times import durations, moments, previous, sharing

BREAK = 30 * 60  # seconds between two answers of a worker after which there was a break in between
LONGEST = 24 * 60 * 60  # seconds an answer can take: more is a page left open

# Names of columns, in order of preference; compared in lower case with spaces and dashes as underscores.
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
_NO_REFERENCE = "^(data:|[0-9]+$)"  # the image itself, or its number
_TELLS_TEXT = ("label-studio", "argilla", "prodigy", "doccano")  # exports where a field called text is one


class SideColumns(NamedTuple):
    """What stood beside the answers; None for what did not."""

    texts: Array | None  # (tasks,) str, None where a task has none
    seconds: Array | None  # (answers,) float64, NaN where unknown
    images: Array | None  # (tasks,) str, a path or an address; None where a task has none
    notes: list[str]  # sentences: which columns were taken, and what could not be used


class _Rows(NamedTuple):
    """Whose row is whose, in the codes of the answers; -1 for what is not there."""

    task: Array  # (rows,)
    worker: Array  # (rows,)
    answer: Array  # (rows,)


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
) -> SideColumns:
    r"""Texts, images and times of answers, from the files they were read from.

    Parameters
    ----------
    path, format, question, task, worker, label
        As given to `read`.
    answers : Answers
        What `read` returned, or a part of it.
    text : str, optional
        The column of a long table, or the field of a task in an export, that holds the text. When not given, a field
        called `text` is taken from Label Studio, Argilla, Prodigy and doccano, and nothing elsewhere.

    Returns
    -------
    Beside
        `texts` and `images` in the order of `answers.tasks`, `seconds` in the order of the answers, and `notes`.

    Raises
    ------
    MissingColumnError, FormatError, DuplicateError
        When the text asked for is not there, is missing for most tasks, or is not the same in all rows of a task.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from crowdwise.io import read
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = file.write_text("task,worker,label,tweet,seconds\n7,bob,no,hello,3\n7,ann,yes,hello,2.5\n")
    >>> beside = read_side_columns(file, read(file), text="tweet")
    >>> beside.texts.tolist(), beside.seconds.tolist()
    (['hello'], [2.5, 3.0])
    >>> beside.notes
    ["The texts are those of 'tweet'.", "The times are those of 'seconds', known for 2 of 2 answers."]
    """
    if text is not None and (not isinstance(text, str) or not text):
        message = f"text={text!r}: give the name of a column or field."
        raise ParameterError(message)
    paths = files(path)
    with guard(paths[0]):
        form = format_of(paths[0], format)
        if form.inputs is None:
            if text is not None:
                message = f"text= means nothing in the format {form.name!r}, which holds answers and nothing else."
                raise ParameterError(message)
            return SideColumns(None, None, None, [])
    given = {"question": question, "task": task, "worker": worker, "label": label}
    raws = load(paths, form.name, {n: v for n, v in given.items() if v is not None}, partial(_choose, text))
    notes: list[str] = []
    with guard(paths[0]):
        rows = _rows(raws, answers)
        texts = _of_tasks(raws, "text", rows, answers, notes, asked=text)
        images = _of_tasks(raws, "image", rows, answers, notes)
        seconds = _seconds(raws, rows, answers.n_answers, notes)
    return SideColumns(texts, seconds, images, notes)


def _choose(text: str | None, form: Format, names: list[str], taken: Collection[str] = ()) -> dict[str, str]:
    """The column of each role beside the answers; `taken` are the ids, which are no times and images."""
    prefix, counts, found = form.inputs or "", Counter(names), {}
    known = {n.strip().lower().replace(" ", "_").replace("-", "_"): n for n in reversed(names) if counts[n] == 1}
    free = {key: name for key, name in known.items() if name not in taken}
    if text is not None:
        name = next((name for name in (text, prefix + text) if name in counts), None)
        if name is None:
            own = [name for name in names if name.startswith(prefix)] or names
            message = f"no column or field {text!r} for the text; there are {', '.join(map(repr, own))}."
            raise MissingColumnError(message)
        found = recognise(names, text=name)
    elif form.name in _TELLS_TEXT and f"{prefix}text" in counts:
        found = {"text": f"{prefix}text"}

    def first(candidates: Sequence[str]) -> str | None:
        return next((free[name] for name in candidates if name in free), None)

    image = first([prefix.lower() + name for name in IMAGE])
    if image is not None:
        found["image"] = image
    times = TIMES if form.long else EXPORTED_TIMES.get(form.name, {})
    there = {role: name for role, candidates in times.items() if (name := first(candidates)) is not None}
    for roles in (("seconds",), ("started", "ended"), ("at",)):
        if there.keys() >= {*roles}:
            return found | {role: there[role] for role in roles}
    return found


def _rows(raws: Sequence[Raw], answers: Answers) -> _Rows:
    """Which task, worker and answer each row of the files is about."""
    ids = combine([replace(raw, columns={role: raw.columns[role] for role in ("task", "worker")}) for raw in raws])

    def codes(role: str, table: pa.Array) -> Array:
        column = encode_dictionary(ids.columns[role])
        position = pc.index_in(cast_ids(column.dictionary, table, role), value_set=table).fill_null(-1)
        return np.append(position.to_numpy().astype(np.int64), -1)[column.indices.fill_null(-1).to_numpy()]

    task, worker = codes("task", answers.task_ids), codes("worker", answers.worker_ids)
    if not (task >= 0).any():
        message = f"none of its tasks is among those of the answers, {preview(answers.tasks)}: is it another file?"
        raise UnknownIdError(message)
    answered = np.concatenate([raw.columns["label"].is_valid().to_numpy(zero_copy_only=False) for raw in raws])
    pair = np.where(answered & (task >= 0) & (worker >= 0), task * answers.n_workers + worker, -1)
    of_answers = answers.task.astype(np.int64) * answers.n_workers + answers.worker
    answer = pc.index_in(pa.array(pair), value_set=pa.array(of_answers)).fill_null(-1)
    return _Rows(task, worker, answer.to_numpy(zero_copy_only=False))


def _of_tasks(
    raws: Sequence[Raw], role: str, rows: _Rows, answers: Answers, notes: list[str], asked: str | None = None
) -> Array | None:
    """The text or image of each task, from a column that may say it in any of the task's rows."""
    names = {raw.names[role]: None for raw in raws if role in raw.columns}
    if asked is not None and any(role not in raw.columns and len(raw.columns["task"]) for raw in raws):
        message = f"the column {asked!r} holds lists, objects or bytes, not text. Name another with text=."
        raise FormatError(message)
    if not names:
        return None
    column = encoded(pa.chunked_array([_as_text(raw, role) for raw in raws]))
    code = _usable(column, role, notes)  # (rows,)
    filled = np.flatnonzero((rows.task >= 0) & (code >= 0))
    task, code = rows.task[filled], code[filled]
    chosen = np.full(answers.n_tasks, -1)  # (tasks,)
    chosen[task] = code
    clash = np.flatnonzero(chosen[task] != code)
    if len(clash):
        twice = np.unique(task[clash])
        if asked is not None:
            first = clash[0]
            both = preview([column.dictionary[int(c)].as_py()[:60] for c in (chosen[task[first]], code[first])])
            message = (
                f"task {preview(answers.tasks[task[first : first + 1]])} has two texts in {asked!r}: {both} "
                f"({len(twice)} tasks have several). A task has one; mend the column."
            )
            raise DuplicateError(message)
        chosen[twice] = -1
        notes.append(f"Tasks with several {role}s, left without: {len(twice)} ({preview(answers.tasks[twice])}).")
    there, without = np.flatnonzero(chosen >= 0), np.flatnonzero(chosen < 0)
    if asked is not None:
        _refuse_gaps(rows, without, answers, asked)
    if not len(there):
        return None
    lack = f"; tasks without one: {len(without)} of {answers.n_tasks} ({preview(answers.tasks[without])})"
    notes.append(f"The {role}s are those of {_and(names)}{lack if len(without) else ''}.")
    out = np.full(answers.n_tasks, None, object)
    out[there] = column.dictionary.take(pa.array(chosen[there])).to_numpy(zero_copy_only=False)
    return out


def _usable(column: pa.Array, role: str, notes: list[str]) -> Array:
    """Which distinct value each row holds, -1 where it is blank or, for an image, no reference."""
    values = column.dictionary
    usable = pc.not_equal(pc.utf8_trim_whitespace(values), "").to_numpy(zero_copy_only=False)
    if role == "image":
        useless = usable & pc.match_substring_regex(values, _NO_REFERENCE).to_numpy(zero_copy_only=False)
        usable = usable & ~useless
        if useless.any():
            notes.append(f"Images that are no path or address, left out: {useless.sum()}.")
    code = column.indices.fill_null(-1).to_numpy().astype(np.int64)
    return np.where(np.append(usable, False)[code], code, -1)


def _refuse_gaps(rows: _Rows, without: Array, answers: Answers, asked: str) -> None:
    """An error when most of the tasks the files name have no text."""
    named = np.zeros(answers.n_tasks, bool)
    named[rows.task[rows.task >= 0]] = True
    bare = without[named[without]]
    if 2 * len(bare) > named.sum():
        message = (
            f"{asked!r} is empty for {len(bare)} of {named.sum()} tasks ({preview(answers.tasks[bare])}): is "
            f"it the text? "
            f"Fill it in, or name another column with text=."
        )
        raise FormatError(message)


def _as_text(raw: Raw, role: str) -> pa.Array:
    """The column as text, dictionary encoded; nulls where the file does not have it."""
    column = raw.columns.get(role)
    if column is None:
        column = pa.nulls(len(raw.columns["task"]), pa.large_string())
    elif pa.types.is_dictionary(column.type):
        values = column.dictionary.cast(pa.large_string())
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), values)
    return column.cast(pa.large_string()).dictionary_encode()


def _seconds(raws: Sequence[Raw], rows: _Rows, n_answers: int, notes: list[str]) -> Array | None:
    """How long each answer took, from whichever kind of time each file has."""
    times = [(raw.names[role], raw.columns[role]) for raw in raws for role in TIMES if role in raw.columns]
    names = {name: None for name, column in times if column.null_count < len(column)}
    if not names:
        return None
    bad = np.zeros(len(rows.task), bool)

    def parsed(role: str, parse: Callable[[pa.Array], Array]) -> Array:
        parts = []
        for raw in raws:
            column = raw.columns.get(role, pa.nulls(len(raw.columns["task"]), pa.float64()))
            unit = 1e-3 if role == "seconds" and raw.names.get(role, "").lower().endswith(("ms", "milliseconds")) else 1
            parts.append((unit * parse(column), column.is_valid().to_numpy(zero_copy_only=False)))
        values, written = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        bad[written & ~np.isfinite(values)] = True
        return np.where(np.isfinite(values), values, np.nan)

    spent = parsed("seconds", durations)  # (rows,)
    started, ended, at = (parsed(role, moments) for role in ("started", "ended", "at"))
    clock = np.flatnonzero(~np.isnan(at) & (rows.worker >= 0))
    started[clock], ended[clock] = previous(rows.worker[clock], at[clock]), at[clock]
    span = np.flatnonzero(~np.isnan(ended - started) & (rows.worker >= 0))
    shared = sharing(rows.worker[span], started[span], ended[span], rows.task[span])
    took = ended[span] - started[span]
    paused = ~np.isnan(at[span]) & (took > BREAK)
    spent[span] = np.where(paused, np.nan, took / shared)
    bad |= (spent < 0) | (spent > LONGEST)
    spent[bad] = np.nan

    known = np.flatnonzero((rows.answer >= 0) & ~np.isnan(spent))
    counts = np.bincount(rows.answer[known], minlength=n_answers)  # (answers,)
    totals = np.bincount(rows.answer[known], spent[known], minlength=n_answers)
    seconds = np.divide(totals, counts, out=np.full(n_answers, np.nan), where=counts > 0)
    of_answers = rows.answer >= 0
    how = "the gaps between a worker's answers by" if len(clock) else "those of"
    notes.append(f"The times are {how} {_and(names)}, known for {(counts > 0).sum()} of {n_answers} answers.")
    for words, count in (
        (f"Gaps over {BREAK // 60} minutes, taken for breaks", (paused & of_answers[span]).sum()),
        (f"Times not understood, negative or over {LONGEST // 3600} hours, left unknown", (bad & of_answers).sum()),
        ("Answers that share a span of time, an equal part each", ((shared > 1) & of_answers[span]).sum()),
        ("Answers given more than once, whose time is the mean", (counts > 1).sum()),
    ):
        if count:
            notes.append(f"{words}: {count}.")
    return seconds if (counts > 0).any() else None


def _and(names: Any) -> str:
    return " and ".join(map(repr, names))
