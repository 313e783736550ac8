"""Cells a spreadsheet would run as a formula, made harmless and restored.

A cell that begins with `=`, `+`, `-`, `@` (or one of these in full width), or with a tab, line break or NUL that hides
one, is a formula to a spreadsheet; a leading apostrophe says "this is text". To get ids back exactly, the escape is a
bijection: one apostrophe is put before every text of the form

    '''...'core     any number of apostrophes, none included, then a core, which is
                    a formula that is no plain number,
                    or nothing at all (an empty cell would be a missing value),
                    or an integer, True or False (when every text of the column is an integer, or every one a
                    boolean, which a reader would take for such; after an apostrophe, always)

and one is taken off on reading. Every other text stays as it is.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"
BOOLEAN = r"^(True|False)$"
_FORMULA = r"^'*[=+\-@\t\r\n\x00\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"  # the last four in full width
_NUMBER = r"^'*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TYPED_OR_EMPTY = r"^'*(0|-?[1-9][0-9]{0,18}|True|False)?$"


def escape(values: pa.Array) -> pa.Array:
    """Put an apostrophe before the distinct texts of a column that need one.

    >>> escape(pa.array(["=1+1", "-3", "cat", "'@x", ""])).to_pylist()
    ["'=1+1", '-3', 'cat', "''@x", "'"]
    """
    bare = pa.scalar(False)
    for pattern in (INTEGER, BOOLEAN):
        typed = _matches(values, pattern)
        bare = pc.or_(bare, pc.and_not(typed, pa.scalar(pc.all(typed, min_count=0).as_py())))
    return pc.if_else(pc.and_not(_special(values), bare), join_text("'", values), values)


def unescape(values: pa.Array) -> pa.Array:
    """Take the apostrophes of `escape` off the distinct cells of a column; one it cannot have written is left alone.

    >>> unescape(pa.array(["'=1+1", "cat"])).to_pylist(), unescape(pa.array(["'=1", "=1"])).to_pylist()
    (['=1+1', 'cat'], ["'=1", '=1'])
    """
    escaped = pc.and_(_special(values), pc.starts_with(values, "'"))
    if not pc.any(escaped).as_py():
        return values
    plain = pc.if_else(escaped, pc.utf8_slice_codeunits(values, 1), values)
    return plain if escape(plain).equals(values) else values


def join_text(*parts: str | pa.Array) -> pa.Array:
    """Texts end to end, row by row; a string is the same in every row."""
    kind = next(part.type for part in parts if not isinstance(part, str))
    return pc.binary_join_element_wise(*(pa.scalar(p, kind) if isinstance(p, str) else p for p in (*parts, "")))


def _special(values: pa.Array) -> pa.Array:
    formula = pc.and_not(_matches(values, _FORMULA), _matches(values, _NUMBER))
    return pc.or_(formula, _matches(values, _TYPED_OR_EMPTY))


def _matches(values: pa.Array, pattern: str) -> Any:
    return pc.match_substring_regex(values, pattern)
