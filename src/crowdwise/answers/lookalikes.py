"""Ids that look the same and are not: composed and decomposed accents, spaces around, characters of no width.

They are kept apart, as they were written: which of them is meant is not for a reader to guess. But a task or a class
that has become two is found by its user only if it is said.
"""

from __future__ import annotations

import warnings

import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.encoding import named, text_buffers
from crowdwise.errors import LookalikeWarning

# Soft hyphen, what has no width, marks of direction and of byte order; and all spaces but the plain one.
_UNSEEN = "[\\x{ad}\\x{61c}\\x{200b}-\\x{200f}\\x{202a}-\\x{202e}\\x{2060}-\\x{2064}\\x{2066}-\\x{2069}\\x{feff}]"
_SPACES = "[\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{202f}\\x{205f}\\x{3000}]"
_SUSPECT = "^[\\x00- ]|[\\x00- ]$|[^\\x00-\\x7f]"  # what can look like another id at all


def warn_of_lookalikes(ids: pa.Array, what: str) -> None:
    """Warn of distinct ids that look alike, naming the first two."""
    found = lookalikes(ids)
    if found is not None:
        kind = "classes" if what == "class" else f"{what}s"
        message = (
            f"the {kind} {named(found[0])} and {named(found[1])} look alike but are not the same text (spaces around, "
            f"characters of no width, or accents composed in another way): they are kept apart. Make them one if one "
            f"is meant."
        )
        warnings.warn(message, LookalikeWarning, stacklevel=2)


def lookalikes(ids: pa.Array) -> tuple[str, str] | None:
    """The first two distinct ids that look alike, or None.

    >>> lookalikes(pa.array(["x", "y", "x "], pa.large_string())), twins(pa.array(["x", "y"], pa.large_string()))
    (('x', 'x '), None)
    """
    if not pa.types.is_large_string(ids.type) or not _has_suspects(ids):
        return None
    suspect = pc.match_substring_regex(ids, _SUSPECT)
    if not pc.any(suspect).as_py():
        return None
    look = _look(ids)
    counts = pc.value_counts(look.filter(suspect))  # of these alone, then with the plain ids that look like one
    many = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    plain = pc.and_(pc.invert(suspect), pc.is_in(look, value_set=counts.field("values")))
    shared = pa.concat_arrays([many, look.filter(plain)])
    if not len(shared):
        return None
    first, second = ids.filter(pc.equal(look, shared[0])).to_pylist()[:2]
    return first, second


def _has_suspects(ids: pa.Array) -> bool:
    """Whether any byte of the texts could be part of one: a glance, as nearly all tables of ids are plain."""
    ends, letters = text_buffers(ids)
    used = letters[ends[0] : ends[-1]]
    return bool(len(used)) and bool(used.min() <= 0x20 or used.max() >= 0x7F)


def _look(ids: pa.Array) -> pa.Array:
    """What is seen of each id."""
    seen = pc.replace_substring_regex(pc.replace_substring_regex(ids, _UNSEEN, ""), _SPACES, " ")
    return pc.utf8_trim_whitespace(pc.utf8_normalize(seen, form="NFC"))
