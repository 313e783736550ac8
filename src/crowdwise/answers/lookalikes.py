"""Warn of distinct ids that look the same: accents, surrounding spaces, quotation marks, invisible characters.

Such ids stay distinct, since a reader cannot know which one is meant. But without a warning, users would hardly notice
that a task or a class has been split in two.
"""

from __future__ import annotations

import re
import warnings

import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.encoding import short_repr, text_buffers
from crowdwise.errors import LookalikeWarning

# Soft hyphen, zero-width characters, direction and byte order marks; and all spaces except the plain one.
_INVISIBLE = "[\\x{ad}\\x{61c}\\x{200b}-\\x{200f}\\x{202a}-\\x{202e}\\x{2060}-\\x{2064}\\x{2066}-\\x{2069}\\x{feff}]"
_SPACES = "[\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{202f}\\x{205f}\\x{3000}]"
_QUOTES = re.compile("[\"'`\u00ab\u00bb\u2018-\u201f]")  # a stray one makes another class
_SUSPECT = '^[\\x00- ]|[\\x00- ]$|[^\\x00-\\x7f]|"'  # only such ids can look like another one


def warn_of_lookalikes(ids: pa.Array, what: str) -> None:
    """Issue a `LookalikeWarning` that names the first two distinct ids that look alike."""
    pair = lookalikes(ids) or (_class_variants(ids) if what == "class" else None)
    if pair is not None:
        kind = "classes" if what == "class" else f"{what}s"
        remedy = ", for case and spaces with fold_case=True (--fold-case)" if what == "class" else ""
        message = (
            f"the {kind} {short_repr(pair[0])} and {short_repr(pair[1])} look alike but are different text "
            f"(case, surrounding spaces, quotation marks, invisible characters, or accents encoded differently), so "
            f"they are treated as distinct. If they are the same {what}, make the ids equal{remedy}."
        )
        warnings.warn(message, LookalikeWarning, stacklevel=2)


def lookalikes(ids: pa.Array) -> tuple[str, str] | None:
    """Return the first two distinct ids that look alike, or None.

    >>> lookalikes(pa.array(["x", "y", "x "], pa.large_string())), lookalikes(pa.array(["x", "y"], pa.large_string()))
    (('x', 'x '), None)
    """
    if not pa.types.is_large_string(ids.type) or not _has_suspects(ids):
        return None
    suspect = pc.match_substring_regex(ids, _SUSPECT)
    if not pc.any(suspect).as_py():
        return None
    appearance = _appearance(ids)
    counts = pc.value_counts(appearance.filter(suspect))  # among suspects, then with plain ids
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    plain = pc.and_(pc.invert(suspect), pc.is_in(appearance, value_set=counts.field("values")))
    shared = pa.concat_arrays([repeated, appearance.filter(plain)])
    if not len(shared):
        return None
    first, second = ids.filter(pc.equal(appearance, shared[0])).to_pylist()[:2]
    return first, second


def _class_variants(ids: pa.Array) -> tuple[str, str] | None:
    """Return the first two ids that differ only in case, surrounding spaces or quotation marks, or None."""
    if not pa.types.is_large_string(ids.type):
        return None
    first: dict[str, str] = {}
    for text in ids.to_pylist():  # classes are few
        other = first.setdefault(_QUOTES.sub("", text).strip().lower() or text, text)
        if other != text:
            return other, text
    return None


def _has_suspects(ids: pa.Array) -> bool:
    """Return quickly whether any id could be suspect, by the range of its bytes: nearly all id tables are plain."""
    ends, data = text_buffers(ids)
    used = data[ends[0] : ends[-1]]
    return bool(len(used)) and bool(used.min() <= 0x22 or used.max() >= 0x7F)


def _appearance(ids: pa.Array) -> pa.Array:
    """Return each id as it appears on the screen."""
    visible = pc.replace_substring_regex(pc.replace_substring_regex(ids, f'{_INVISIBLE}|"', ""), _SPACES, " ")
    return pc.utf8_trim_whitespace(pc.utf8_normalize(visible, form="NFC"))
