"""Tools for readers of JSON exports: iterate over the records and collect answers from them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

import pyarrow as pa

from crowdwise.answers.encoding import as_arrow, preview
from crowdwise.errors import DuplicateError, FormatError, IdTypeError, QuestionError
from crowdwise.io.files import open_text, read_head, read_lines
from crowdwise.io.raw_columns import NO_LABEL, ChooseColumns, RawColumns

T = TypeVar("T")
ABSTENTIONS = "verdicts that could not be parsed (abstentions)"


def load_json(path: Path, *, keys_are_ids: bool = False) -> Any:
    """Load a JSON document. With `keys_are_ids`, a key that occurs twice in an object is an error."""
    read_head(path)  # rejects an empty file, and text in another encoding
    try:
        with open_text(path) as stream:
            return json.load(stream, object_pairs_hook=_unique_keys if keys_are_ids else None)
    except json.JSONDecodeError as error:
        message = f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}. Is the file truncated?"
        raise FormatError(message) from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        repeated, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        message = (
            f"the key {repeated!r:.80} occurs twice in one object, so its first value would be lost. Merge the two."
        )
        raise DuplicateError(message)
    return out


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSON lines file with their line numbers, which start at 1."""
    read_head(path)
    with open_text(path) as stream:
        yield from parse_json_lines(stream)


def parse_json_lines(stream: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of an open JSON lines file with their line numbers."""
    for number, line in enumerate(read_lines(stream), start=1):
        if line.strip():
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                message = f"line {number} is not JSON at column {error.colno}: {error.msg}."
                raise FormatError(message) from None
            yield number, check_type(record, dict, f"line {number}")


def read_json_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSON list, of JSON lines, or a single object, each with its position in words."""
    text = read_head(path).lstrip()
    first = text.split("\n", 1)[0]  # other line separators are allowed inside texts
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
    """Return the value if it has this type, else raise an error that names `what`."""
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a string"}
    if not isinstance(value, kind):
        message = f"{what}: expected {names[kind]}, found {json.dumps(value, default=str)[:60]}."
        raise FormatError(message)
    return value


def choose_question(questions: Iterable[str], requested: str | None, prefix: str = "") -> str:
    """Return the question asked for, or the only one; its name may include the prefix it has in the file."""
    names = list(dict.fromkeys(questions))
    listed = ", ".join(map(repr, names)) if names else "none"
    if requested is not None:
        name = requested.removeprefix(prefix)
        if name not in names:
            message = f"no question {requested!r}; the file has {listed}."
            raise QuestionError(message)
        return name
    if not names:
        message = "the file contains no question whose answers are labels."
        raise QuestionError(message)
    if len(names) > 1:
        message = (
            f"the file contains {len(names)} questions: {listed}. Choose one with question= (--question), for example "
            f"{names[0]!r}."
        )
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
        self.known_is_gold: bool = False
        self.removed: dict[str, int] = {}
        self.abstentions: Counter[Any] = Counter()

    def skip(self, reason: str, count: int = 1) -> None:
        """Count something that is left out, by reason."""
        self.removed[reason] = self.removed.get(reason, 0) + count

    def answer(self, task: Any, worker: Any, value: Any, fields: Mapping[str, Any] | None = None) -> None:
        """Add an answer: a label, or a list of labels."""
        if worker is None:
            self.skip("answers without a worker")
            return
        labels = self._labels(value)
        if labels is None:
            self.add_other(worker, fields)
        else:
            self._row(check_id(task, "task"), check_id(worker, "worker"), labels, fields)

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

    def abstain(self, worker: Any) -> None:
        """Count a task for which no verdict of this worker could be parsed."""
        self.abstentions[check_id(worker, "worker")] += 1
        self.skip(ABSTENTIONS)

    def verdict(self, task: Any, worker: Any, value: Any, fields: Mapping[str, Any] | None = None) -> None:
        """Add the verdict of a judge as text; one that is empty, or is not a value at all, is an abstention."""
        label = as_label(value)
        if label is None:
            self.abstain(worker)
        else:
            self.answer(task, worker, label, fields)

    def gold(self, task: Any, value: Any) -> None:
        """Add the known label of a task, to be used as gold."""
        self.known_is_gold = True
        self.target(task, value)

    def target(self, task: Any, value: Any) -> None:
        """Add the known label of a task, to score against."""
        labels = self._labels(value)
        if labels is not None and self.known.setdefault(check_id(task, "task"), labels) != labels:
            shown = preview(self.known[task] + labels)
            message = f"task {task!r} has two known labels: {shown}. Keep one per task."
            raise DuplicateError(message)

    def _labels(self, value: Any) -> list[Any] | None:
        """Return the labels of an answer; None, after counting it, if it holds something else."""
        values = value if isinstance(value, list) else [value]
        if values in ([None], [""]):
            self.skip("empty answers")
        elif not all(isinstance(label, (str, int, float)) for label in values):
            self.skip("answers that are objects, not labels")
        else:
            return values
        return None

    def raw(self, **rest: Any) -> RawColumns:
        """Return what was collected.

        If any answer has several labels, the question takes sets of labels: each distinct set is written as one label,
        and an answer without a label is the empty set. `RawColumns.n_sets` counts the answers with several. If none
        has, the question may take one label or several; `RawColumns.n_empty` counts the answers without any.
        """
        n_sets = sum(len(labels) > 1 for labels in self.label)

        def written(labels: list[Any]) -> Any:
            if n_sets:
                return " + ".join(sorted(map(str, labels))) or NO_LABEL
            return labels[0] if labels else None

        kinds = {type(worker) for worker in self.worker}
        n_answers = len(self.task)
        for worker, fields in self.other_records:
            if type(worker) in kinds:  # ids of another type cannot be workers of these answers
                self._row(None, worker, [], fields)
        columns = {"task": as_arrow(self.task, "task"), "worker": as_arrow(self.worker, "worker")}
        labels = [written(each) for each in self.label[:n_answers]] + [None] * (len(self.label) - n_answers)
        columns["label"] = as_arrow(labels, "class")
        if self.known:
            columns["truth"] = as_arrow(
                [written(self.known[task]) if task in self.known else None for task in self.task], "class"
            )
            unanswered = len(self.known.keys() - set(self.task))
            if unanswered and self.known_is_gold:  # targets of an evaluation are known for all tasks
                self.skip("known labels of unanswered tasks", unanswered)
        names: dict[str, str] = {}
        if self.choose_side is not None and self.fields:
            names = self.choose_side(list(dict.fromkeys(name for fields in self.fields for name in fields)))
            for role, name in names.items():
                columns[role] = text_cells((fields.get(name) for fields in self.fields), role)
        return RawColumns(
            columns, removed=self.removed, names=names, n_extra=len(self.task) - n_answers, n_sets=n_sets,
            n_empty=0 if n_sets else self.label[:n_answers].count([]), abstentions=self.abstentions,
            gold=self.known_is_gold, **rest,
        )  # fmt: skip


def as_label(value: Any) -> str | None:
    """Return a verdict as text, or None if there is none.

    >>> as_label(" yes "), as_label(True), as_label(0.5), as_label(2.0), as_label(float("nan")), as_label({})
    ('yes', 'true', '0.5', '2', None, None)
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return None if not math.isfinite(value) else str(int(value) if value.is_integer() else value)
    if isinstance(value, int):
        return str(value)
    return value.strip() or None if isinstance(value, str) else None


def text_cells(values: Iterable[Any], role: str) -> pa.Array:
    """Convert values of any type to text cells; lists and objects become JSON.

    An image that is not a string, but the data itself, is left out.
    """

    def cell(value: Any) -> str | None:
        if value is None or (role == "image" and not isinstance(value, str)):
            return None
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        return text.encode("utf-8", "replace").decode()  # JSON may contain a lone surrogate, Arrow text may not

    return pa.array(map(cell, values), pa.large_string()).dictionary_encode()


def check_id(value: Any, what: str) -> Any:
    """Return an id if it is valid."""
    if not isinstance(value, (str, int, float)):
        message = f"the {what} is {json.dumps(value, default=str)[:60]}, but ids must be strings, integers or booleans."
        raise FormatError(message)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        message = f"the {what} is {str(value)[:60]}, which exceeds 64 bits. Write it as text."
        raise IdTypeError(message)
    return value


def first_field(record: Mapping[str, Any], names: Iterable[str], what: str, where: str) -> Any:
    """Return the first of these fields that is set."""
    for name in names:
        if record.get(name) is not None:
            return record[name]
    message = (
        f"{where} has no field {' or '.join(map(repr, names))} for the {what}; its fields are {preview(list(record))}."
    )
    raise FormatError(message)
