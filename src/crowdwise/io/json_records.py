"""Readers of JSON exports: getting at the records, and collecting answers from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

import pyarrow as pa

from crowdwise.answers.encoding import as_arrow, preview
from crowdwise.errors import DuplicateError, FormatError, IdTypeError, QuestionError
from crowdwise.io.files import open_text, read_head, read_lines
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

T = TypeVar("T")


def load_json(path: Path, *, keys_are_ids: bool = False) -> Any:
    """A whole JSON document. Where its keys are ids, one that stands twice in an object is refused."""
    read_head(path)  # refuses an empty file, and text in another encoding
    try:
        with open_text(path) as stream:
            return json.load(stream, object_pairs_hook=_each_once if keys_are_ids else None)
    except json.JSONDecodeError as error:
        message = f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}. Is the file cut short?"
        raise FormatError(message) from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        repeated, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        message = f"the key {repeated!r:.80} stands twice in one object: what stands under the first would be lost."
        raise DuplicateError(message)
    return out


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON lines file, each with its line number, the first line being 1."""
    read_head(path)
    with open_text(path) as stream:
        yield from parse_json_lines(stream)


def parse_json_lines(stream: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of an open JSON lines file."""
    for number, line in enumerate(read_lines(stream), start=1):
        if line.strip():
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                message = f"line {number} is not JSON at column {error.colno}: {error.msg}."
                raise FormatError(message) from None
            yield number, check_type(record, dict, f"line {number}")


def read_json_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON list, of JSON lines, or a lone one; each with words for where it stands."""
    text = read_head(path).lstrip()
    first = text.splitlines()[0]
    if text.startswith("[") or not _is_json(first):
        document = load_json(path)
        for number, record in enumerate(document if isinstance(document, list) else [document]):
            where = f"record {number} (counted from 0)"
            yield where, check_type(record, dict, where)
    else:
        for number, record in read_json_lines(path):
            yield f"line {number}", record


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def check_type(value: Any, kind: type[T], what: str) -> T:
    """The value, if it is of this kind."""
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a string"}
    if not isinstance(value, kind):
        message = f"{what}: expected {names[kind]}, found {json.dumps(value, default=str)[:60]}."
        raise FormatError(message)
    return value


def choose_question(questions: Iterable[str], wanted: str | None, prefix: str = "") -> str:
    """The question asked for, or the only one there is; it may be named with its prefix in the file."""
    names = list(dict.fromkeys(questions))
    listed = ", ".join(map(repr, names)) if names else "none"
    if wanted is not None:
        name = wanted.removeprefix(prefix)
        if name not in names:
            message = f"there is no question {wanted!r}; the file has {listed}."
            raise QuestionError(message)
        return name
    if not names:
        message = "no question with labels to choose from was found in the file."
        raise QuestionError(message)
    if len(names) > 1:
        message = f"the file holds {len(names)} questions: {listed}. Choose one, for example question={names[0]!r}."
        raise QuestionError(message)
    return names[0]


class AnswerCollector:
    """Collects answers, known labels and the reasons for skipped records while a reader walks through an export.

    With `choose_side`, which picks side fields (text, image, times) by name, those are collected too.
    """

    def __init__(self, choose_side: ChooseColumns | None = None) -> None:
        self.choose_side = choose_side
        self.task: list[Any] = []
        self.worker: list[Any] = []
        self.label: list[Any] = []
        self.fields: list[Mapping[str, Any]] = []  # the fields of each answer's record, if `choose_side` is given
        self.other_records: list[tuple[Any, Mapping[str, Any]]] = []
        self.known: dict[Any, Any] = {}
        self.removed: dict[str, int] = {}

    def skip(self, why: str, count: int = 1) -> None:
        """Leave something out, and say so."""
        self.removed[why] = self.removed.get(why, 0) + count

    def answer(self, task: Any, worker: Any, value: Any, fields: Mapping[str, Any] | None = None) -> None:
        """One answer; one that is empty or more than a single label is left out."""
        if worker is None:
            self.skip("answers of no named worker")
            return
        labels = self._single(value)
        for label in labels:
            self._row(check_id(task, "task"), check_id(worker, "worker"), label, fields)
        if not labels:
            self.add_other(worker, fields)

    def add_other(self, worker: Any, fields: Mapping[str, Any] | None) -> None:
        """Add a record that is not an answer: the worker spent time on it, which must not count for the next answer."""
        if self.choose_side is not None:
            self.other_records.append((worker, fields or {}))

    def _row(self, task: Any, worker: Any, label: Any, fields: Mapping[str, Any] | None) -> None:
        self.task.append(task)
        self.worker.append(worker)
        self.label.append(label)
        if self.choose_side is not None:
            self.fields.append(fields or {})

    def gold(self, task: Any, value: Any) -> None:
        """The known label of a task."""
        for label in self._single(value):
            if self.known.setdefault(check_id(task, "task"), label) != label:
                message = f"task {task!r} has two known labels: {preview([self.known[task], label])}. Mend the export."
                raise DuplicateError(message)

    def _single(self, value: Any) -> list[Any]:
        """The label in a list of its own, or nothing, and why."""
        values = value if isinstance(value, list) else [value]
        if values in ([], [None], [""]):
            self.skip("answers left empty")
        elif len(values) > 1:
            self.skip("answers of several labels at once")
        elif not isinstance(values[0], (str, int, float)):
            self.skip("answers that are not a label but something with parts")
        else:
            return values
        return []

    def raw(self, **rest: Any) -> RawColumns:
        """What was collected."""
        kinds = {type(worker) for worker in self.worker}
        n_answers = len(self.task)
        for worker, fields in self.other_records:
            if type(worker) in kinds:  # ids of another type cannot be workers of these answers
                self._row(None, worker, None, fields)
        columns = {"task": as_arrow(self.task, "task"), "worker": as_arrow(self.worker, "worker")}
        columns["label"] = as_arrow(self.label, "class")
        if self.known:
            columns["truth"] = as_arrow([self.known.get(task) for task in self.task], "class")
            unanswered = len(self.known.keys() - set(self.task))
            if unanswered:
                self.skip("known labels of tasks nobody answered", unanswered)
        names: dict[str, str] = {}
        if self.choose_side is not None and self.fields:
            names = self.choose_side(list(dict.fromkeys(name for fields in self.fields for name in fields)))
            for role, name in names.items():
                columns[role] = text_cells((fields.get(name) for fields in self.fields), role)
        return RawColumns(columns, removed=self.removed, names=names, n_extra=len(self.task) - n_answers, **rest)


def text_cells(values: Iterable[Any], role: str) -> pa.Array:
    """Values of any type as the cells of a table would hold them: as text, lists and objects as JSON.

    A picture that is no text, but the bytes themselves, is left out.
    """

    def cell(value: Any) -> str | None:
        if value is None or (role == "image" and not isinstance(value, str)):
            return None
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        return text.encode("utf-8", "replace").decode()  # JSON can hold half a character, Arrow cannot

    return pa.array(map(cell, values), pa.large_string()).dictionary_encode()


def check_id(value: Any, what: str) -> Any:
    """An id, if it is one."""
    if not isinstance(value, (str, int, float)):
        message = f"the {what} is {json.dumps(value, default=str)[:60]}; ids are strings, integers or booleans."
        raise FormatError(message)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        message = f"the {what} is {str(value)[:60]}, over 64 bits. Write it as text."
        raise IdTypeError(message)
    return value


def first_field(record: Mapping[str, Any], names: Iterable[str], what: str, where: str) -> Any:
    """The first of these fields that is there."""
    for name in names:
        if record.get(name) is not None:
            return record[name]
    message = (
        f"{where} has no {' or '.join(map(repr, names))} to tell the {what}; its fields are {preview(list(record))}."
    )
    raise FormatError(message)
