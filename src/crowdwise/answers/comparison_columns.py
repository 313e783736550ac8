"""Turn the columns of comparisons into codes: which items were compared, and which of the two won."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.columns import COLUMN_NAMES, normalise, recognise
from crowdwise.answers.encoding import decode_dictionary, encode, preview, short_repr
from crowdwise.answers.rows import Array
from crowdwise.errors import AnswerKindError, FormatError, MissingColumnError

OUTCOMES = ("left", "right", "tie")
LEFT, RIGHT, TIE = range(3)

# Column names in common use, in order of preference.
_SIDES = {
    "left": ("left", "left_item", "left_id", "item_a", "model_a", "option_a", "response_a", "candidate_a", "a",
             "item_1", "item1", "first"),
    "right": ("right", "right_item", "right_id", "item_b", "model_b", "option_b", "response_b", "candidate_b", "b",
              "item_2", "item2", "second"),
}  # fmt: skip
_WINNERS = ("winner", "preferred", "preference", "outcome", "result", *COLUMN_NAMES["label"])
# What a winner is called if not by its id, compared in lower case.
_WORDS = {
    **dict.fromkeys(("left", "a", "model_a", "option_a", "response_a", "item_a", "candidate_a", "first"), LEFT),
    **dict.fromkeys(("right", "b", "model_b", "option_b", "response_b", "item_b", "candidate_b", "second"), RIGHT),
    **dict.fromkeys(("tie", "tie (bothbad)", "both", "both_bad", "draw", "equal", "same", "neither", "none"), TIE),
}  # fmt: skip


def holds_comparisons(names: Sequence[str]) -> bool:
    """Return whether a table has a column for the left and one for the right item.

    >>> holds_comparisons(["judge", "model_a", "model_b", "winner"]), holds_comparisons(["task", "worker", "label"])
    (True, False)
    """
    plain = {normalise(name) for name in names}
    return any(left in plain and right in plain for left, right in zip(*_SIDES.values(), strict=True))


def find_columns(
    names: Sequence[str], left: str | None, right: str | None, winner: str | None, worker: str | None, task: str | None
) -> dict[str, str]:
    """Return the column of each role. The worker and the task may be absent; the task is only used if it is named.

    >>> find_columns(["judge", "model_a", "model_b", "winner"], None, None, None, None, None)
    {'left': 'model_a', 'right': 'model_b', 'label': 'winner', 'worker': 'judge'}
    """
    by_name = {normalise(name): name for name in reversed(names)}
    sides = {"left": left, "right": right}
    for role, column in sides.items():
        if column is None:
            sides[role] = next((by_name[name] for name in _SIDES[role] if name in by_name), None)
            if sides[role] is None:
                message = (
                    f"no column for the {role} item among {preview(names)}. Name it with {role}='...' (--{role}). "
                    f"Recognised names: {', '.join(_SIDES[role][:5])}, ..."
                )
                raise MissingColumnError(message)
    rest = [name for name in names if name not in sides.values()]
    plain = {normalise(name): name for name in reversed(rest)}
    found = recognise(names, **sides)
    winner = winner or next((plain[name] for name in _WINNERS if name in plain), None)
    found |= recognise(rest, label=winner)
    if worker is not None or any(name in plain for name in COLUMN_NAMES["worker"]):
        found |= recognise([name for name in rest if name != found["label"]], worker=worker)
    return found if task is None else found | recognise(rest, task=task)


def encode_items(left: pa.Array, right: pa.Array, names: Mapping[str, str]) -> tuple[Array, Array, pa.Array]:
    """Return the codes of the left and of the right items, (rows,) each, -1 where missing, and the table of items."""
    sides = [decode_dictionary(column) for column in (left, right)]
    if sides[0].type != sides[1].type:
        sides = [column.cast(pa.large_string()) for column in sides]
    known = [column.drop_null() for column in sides]
    codes, items = encode(pa.concat_arrays(known), "item")
    out = []
    for column, part in zip(sides, np.split(codes, [len(known[0])]), strict=True):
        full = np.full(len(column), -1, np.int32)
        full[column.is_valid().to_numpy(zero_copy_only=False)] = part
        out.append(full)
    same = np.flatnonzero((out[0] == out[1]) & (out[0] >= 0))
    if len(same):
        item = short_repr(items[int(out[0][same[0]])].as_py())
        message = (
            f"columns {names['left']!r} and {names['right']!r} both hold {item} at row {same[0]} (and {len(same) - 1} "
            "more; counted from 0): an item cannot be compared with itself. Remove these rows."
        )
        raise FormatError(message)
    return out[0], out[1], items


def encode_outcomes(
    winner: pa.Array, left: Array, right: Array, items: pa.Array, name: str, words: Mapping[Any, str] | None
) -> pa.Array:
    """Return the outcome of each row, "left", "right" or "tie" (null where missing).

    A winner is an item of its row, a word such as `model_a` or `tie`, or a key of `words`, which says what it means.
    """
    column = decode_dictionary(winner)
    own = {str(key).strip().lower(): _code_of(value) for key, value in (words or {}).items()}
    texts = column.cast(pa.large_string()).dictionary_encode()
    word_codes, item_codes = [], []
    shown = {str(item): code for code, item in enumerate(items.to_pylist())}
    for text in texts.dictionary.to_pylist():
        plain = text.strip().lower()
        word_codes.append(own.get(plain, _WORDS.get(plain, -1)))
        item_codes.append(-2 if plain in own else shown.get(text, shown.get(text.strip(), -2)))
    index = texts.indices.fill_null(0).to_numpy(zero_copy_only=False)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    by_item = np.append(item_codes, -2)[index] if item_codes else np.full(len(index), -2)
    by_word = np.append(word_codes, -1)[index] if word_codes else np.full(len(index), -1)
    outcome = np.where(by_item == left, LEFT, np.where(by_item == right, RIGHT, by_word))
    wrong = np.flatnonzero(valid & (outcome < 0))
    if len(wrong):
        row = int(wrong[0])
        compared = " and ".join(short_repr(items[int(side[row])].as_py()) for side in (left, right))
        message = (
            f"column {name!r}: {short_repr(column[row].as_py())} at row {row} (and {len(wrong) - 1} more; counted from "
            f"0) is neither of the items {compared}, nor left, right or tie. Say what it means, for example "
            f"outcomes={{{short_repr(column[row].as_py())}: 'left'}}."
        )
        raise AnswerKindError(message)
    codes = pa.array(np.where(valid, outcome, 0), pa.int32(), mask=~valid)
    return pc.take(pa.array(OUTCOMES, pa.large_string()), codes)


def _code_of(outcome: str) -> int:
    if outcome not in OUTCOMES:
        message = f"outcomes: {outcome!r} is not an outcome; use 'left', 'right' or 'tie'."
        raise AnswerKindError(message)
    return OUTCOMES.index(outcome)


def pair_ids(
    task: pa.Array | None, left: Array, right: Array, items: pa.Array, worker: Array, *, number: bool
) -> pa.Array:
    """Return the id of each row's pair as dictionary codes: `left | right`, after `task: ` if there are tasks.

    If `number`, the second comparison of a pair by the same worker is a pair of its own, `left | right #2`.
    """
    n_items = max(len(items), 1)
    key = left.astype(np.int64) * n_items + right
    tasks = None
    if task is not None:
        encoded = task if pa.types.is_dictionary(task.type) else task.dictionary_encode()
        tasks = encoded.dictionary.cast(pa.large_string())
        key += encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) * n_items * n_items
    distinct, code = np.unique(key, return_inverse=True)
    repeat = np.zeros(len(key), np.int64)
    if number and len(key):
        order = np.lexsort((np.arange(len(key)), worker, code))
        new = np.ones(len(key), bool)
        new[1:] = (np.diff(code[order]) != 0) | (np.diff(worker[order]) != 0)
        first = np.maximum.accumulate(np.where(new, np.arange(len(key)), 0))
        repeat[order] = np.arange(len(key)) - first
        if repeat.any():
            n_repeats = int(repeat.max()) + 1
            both, code = np.unique(code * n_repeats + repeat, return_inverse=True)
            distinct, repeat = distinct[both // n_repeats], both % n_repeats
    rest, right_code = np.divmod(distinct, n_items)
    task_code, left_code = np.divmod(rest, n_items)
    names = items.cast(pa.large_string())
    texts = _joined(names.take(pa.array(left_code)), " | ", names.take(pa.array(right_code)))
    if tasks is not None:
        texts = _joined(tasks.take(pa.array(task_code)), ": ", texts)
    if repeat.any():
        numbered = pa.array([f" #{k + 1}" if k else "" for k in repeat[: len(distinct)].tolist()], pa.large_string())
        texts = _joined(texts, "", numbered)
    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), texts)


def _joined(first: pa.Array, separator: str, second: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(first, second, pa.scalar(separator, pa.large_string()))
