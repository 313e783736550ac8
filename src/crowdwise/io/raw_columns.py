"""The columns that a format reader returns, and how those of several files become one table.

Text files have no types. The rule here: a column holds integers if every value is written as Python prints an integer
(`7`, `-3`). `007`, `+1` and `1.0` may be distinct ids, so a column that contains them stays text. Likewise, a column
holds booleans if every value is `True` or `False`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.encoding import as_arrow, combine_chunks, type_name
from crowdwise.errors import FormatError, IdTypeError
from crowdwise.io.csv_escaping import BOOLEAN, INTEGER, unescape

ChooseColumns = Callable[[list[str]], dict[str, str]]  # names of a table's columns -> the column of each role

ID_ROLES = ("task", "worker", "label", "truth")
NO_LABEL = "(none)"  # the empty set, where answers are sets of labels
SIDE_ROLES = ("text", "image", "seconds", "started", "ended", "at")  # read only for SideColumns


@dataclass(frozen=True)
class RawColumns:
    """The columns of one file by role, with the number of rows left out, by reason."""

    columns: dict[str, pa.Array]  # task, worker, label [, truth][, weight][, pseudo], and the side roles asked for
    removed: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)  # what the file calls each role, for messages
    numeric: frozenset[str] = frozenset()  # roles read as text in which every value is an integer
    boolean: frozenset[str] = frozenset()  # ... in which every value is True or False
    tasks: Any = None  # all tasks in file order, where the file lists them: features follow that order
    workers: Any = None
    lines: Callable[[Sequence[int]], list[int]] | None = None  # line numbers of rows; the first line is 1
    first_line: int | None = None  # line of row 0, where each row is a line
    abstentions: Mapping[Any, int] = field(default_factory=dict)  # of each worker, where no verdict could be parsed
    gold: bool = False  # whether the known labels are marked as gold
    scope: str | None = None  # what the task ids belong to: those of different scopes are different tasks
    n_sets: int = 0  # answers with several labels
    n_empty: int = 0  # answers without a label, which are null: nobody knows whether the empty set is an answer
    n_extra: int = 0  # rows at the end that are not answers: they are there only for their times

    @property
    def n_answers(self) -> int:
        """Number of rows that are answers."""
        return len(self.columns["task"]) - self.n_extra

    def with_empty_sets(self) -> RawColumns:
        """Return the columns with the empty choice as a class."""
        text = {
            role: decode(self.columns[role]).cast(pa.large_string())
            for role in ("label", "truth")
            if role in self.columns
        }
        return replace(self, columns=self.columns | text | {"label": pc.fill_null(text["label"], NO_LABEL)})

    def without_side_columns(self) -> RawColumns:
        """Return the rows and columns that make up the answers."""
        columns = {role: array for role, array in self.columns.items() if role not in SIDE_ROLES}
        if self.n_extra:
            columns = {role: array.slice(0, self.n_answers) for role, array in columns.items()}
        return replace(self, columns=columns, n_extra=0)


def from_text(columns: Mapping[str, pa.Array], **rest: Any) -> RawColumns:
    """Build RawColumns from dictionary-encoded text cells: undo formula escapes and find integer columns."""
    out, numeric, boolean = dict(columns), set(), set()
    for role in out.keys() & set(ID_ROLES):
        cells = out[role].dictionary
        if is_integers(cells):
            numeric.add(role)
        elif pc.all(pc.match_substring_regex(cells, BOOLEAN)).as_py():
            boolean.add(role)
        else:
            out[role] = pa.DictionaryArray.from_arrays(out[role].indices, unescape(cells))
    for role in out.keys() & {"text", "image"}:
        out[role] = pa.DictionaryArray.from_arrays(out[role].indices, unescape(out[role].dictionary))
    return RawColumns(out, numeric=frozenset(numeric), boolean=frozenset(boolean), **rest)


def is_integers(cells: pa.Array) -> bool:
    """Return whether every cell is an integer as Python prints it and fits 64 bits.

    >>> is_integers(pa.array(["7", "-3"])), is_integers(pa.array(["7", "007"]))
    (True, False)
    """
    if not pc.all(pc.match_substring_regex(cells, INTEGER), min_count=0).as_py():
        return False
    try:
        cells.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def text_ids(cells: Sequence[str]) -> pa.Array:
    """Convert text ids to integers if all of them are integers."""
    ids = pa.array(cells, pa.large_string())
    return ids.cast(pa.int64()) if is_integers(ids) else ids


def is_text(kind: pa.DataType) -> bool:
    """Return whether this is one of Arrow's text types."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def encode_column(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; strings are dictionary encoded, which takes the least memory."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if is_text(column.type):
        column = column.dictionary_encode()
    array = combine_chunks(column)
    if pa.types.is_dictionary(array.type) and is_text(array.type.value_type):
        return pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(pa.large_string()))
    return array


def concat_files(raws: Sequence[RawColumns], files: Sequence[Path] = ()) -> RawColumns:
    """Concatenate the rows of all files, in their final types and without unused ids.

    `files` are the names of the files, for messages.
    """
    places = [str(file) for file in files] or [f"file {i + 1}" for i in range(len(raws))]
    if len(raws) > 1 and any(raw.tasks is not None for raw in raws):
        message = "this format numbers tasks by row, so the tasks of several files would be confused. Pass one file."
        raise FormatError(message)
    roles = list(dict.fromkeys(role for raw in raws for role in raw.columns))
    columns = {}
    numeric = {role for role in roles if all(role in raw.numeric for raw in raws if role in raw.columns)}
    boolean = {role for role in roles if all(role in raw.boolean for raw in raws if role in raw.columns)}
    for typed in (numeric, boolean):  # labels and known labels have one type
        if "truth" in roles and not {"label", "truth"} <= typed:
            typed -= {"label", "truth"}
    for role in roles:
        parts = [raw.columns[role] if role in raw.columns else pa.nulls(len(raw.columns["task"])) for raw in raws]
        if role == "weight":
            columns[role] = pa.concat_arrays([part.cast(pa.float64()) for part in parts])
        elif role == "pseudo":
            columns[role] = pa.concat_arrays([part.cast(pa.bool_()) for part in parts])
        else:
            kind = pa.int64() if role in numeric else pa.bool_() if role in boolean else None
            columns[role] = _compact(concat_columns(parts, role, places), kind)
    removed = dict(sum((Counter(raw.removed) for raw in raws), Counter()))
    abstentions = dict(sum((Counter(raw.abstentions) for raw in raws), Counter()))
    gold = any(raw.gold for raw in raws)
    if "truth" in columns:
        columns |= {role: decode(columns[role]) for role in ("label", "truth")}
        label, truth = (columns[role].type for role in ("label", "truth"))
        if label != truth and not (pa.types.is_null(label) or pa.types.is_null(truth)):
            message = (
                f"labels are {type_name(label)}, but known labels are {type_name(truth)}. Convert one of the columns."
            )
            raise IdTypeError(message)
    first = raws[0]
    names = {role: first.names.get(role, role) for role in roles}
    return RawColumns(
        columns, removed, names, tasks=first.tasks, workers=first.workers, abstentions=abstentions, gold=gold
    )


def concat_columns(parts: Sequence[pa.Array], role: str, places: Sequence[str]) -> pa.Array:
    """Concatenate arrays of one type; an all-null part fits any type. `places` names their sources, for messages."""
    parts = [part if _keeps_type(part, role) else as_arrow(part, role) for part in parts]
    typed = [(part.type, place) for part, place in zip(parts, places, strict=True) if not pa.types.is_null(part.type)]
    if not typed:
        return pa.concat_arrays(parts)
    kind, place = typed[0]
    for other_kind, other_place in typed[1:]:
        if kind != other_kind:
            message = (
                f"{place} has {type_name(kind)} as {role} ids, but {other_place} has {type_name(other_kind)}. Convert "
                f"one of the columns."
            )
            raise IdTypeError(message)
    parts = [pa.nulls(len(part), kind) if pa.types.is_null(part.type) else part for part in parts]
    if len(parts) > 1 and pa.types.is_dictionary(kind):
        parts = pa.chunked_array(parts).unify_dictionaries().chunks
    return pa.concat_arrays(parts) if len(parts) > 1 else parts[0]


def _keeps_type(part: pa.Array, role: str) -> bool:
    """Return whether a column is not converted to ids: it is encoded already, or may hold numbers."""
    return pa.types.is_dictionary(part.type) or (role in ("label", "truth") and pa.types.is_floating(part.type))


def _compact(array: pa.Array, kind: pa.DataType | None) -> pa.Array:
    """Drop unused dictionary values, and cast the others to `kind` if given."""
    if not pa.types.is_dictionary(array.type):
        return array
    values, indices = array.dictionary, array.indices
    used = np.zeros(len(values), bool)
    used[indices.drop_null().to_numpy()] = True
    if not used.all():
        position = np.cumsum(used, dtype=np.int32) - 1
        indices = pa.array(position).take(indices)
        values = values.filter(pa.array(used))
    values.validate(full=True)  # Arrow's JSON and Parquet readers accept text that is not UTF-8
    return pa.DictionaryArray.from_arrays(indices, values if kind is None else values.cast(kind))


def decode(array: pa.Array) -> pa.Array:
    """Return an array without dictionary encoding."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
