"""Escaping of cells that a spreadsheet would run as a formula.

A spreadsheet runs a cell as a formula if it begins with `=`, `+`, `-`, `@` (also in full width), or with a tab, line
break or NUL that hides one of these. A leading apostrophe marks it as text. The escape is a bijection, so that ids are
restored exactly: it puts one apostrophe before every text of the form

    '''...'core     zero or more apostrophes, followed by a core, which is
                    a formula that is not a plain number,
                    or empty (an empty cell would be a missing value),
                    or an integer, True or False (after an apostrophe always; without one only if every text of the
                    column is an integer, or every one a boolean, since a reader would convert the column)

and reading removes one. Other texts are unchanged.
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
    """Put an apostrophe before those distinct texts of a column that need one.

    >>> escape(pa.array(["=1+1", "-3", "cat", "'@x", ""])).to_pylist()
    ["'=1+1", '-3', 'cat', "''@x", "'"]
    """
    bare = pa.scalar(False)
    for pattern in (INTEGER, BOOLEAN):
        typed = _matches(values, pattern)
        bare = pc.or_(bare, pc.and_not(typed, pa.scalar(pc.all(typed, min_count=0).as_py())))
    return pc.if_else(pc.and_not(_special(values), bare), join_text("'", values), values)


def unescape(values: pa.Array) -> pa.Array:
    """Undo `escape` on the distinct cells of a column; a column that `escape` cannot have written is unchanged.

    >>> unescape(pa.array(["'=1+1", "cat"])).to_pylist(), unescape(pa.array(["'=1", "=1"])).to_pylist()
    (['=1+1', 'cat'], ["'=1", '=1'])
    """
    escaped = pc.and_(_special(values), pc.starts_with(values, "'"))
    if not pc.any(escaped).as_py():
        return values
    plain = pc.if_else(escaped, pc.utf8_slice_codeunits(values, 1), values)
    return plain if escape(plain).equals(values) else values


def join_text(*parts: str | pa.Array) -> pa.Array:
    """Join texts row by row; a plain string is repeated in every row."""
    kind = next(part.type for part in parts if not isinstance(part, str))
    return pc.binary_join_element_wise(*(pa.scalar(p, kind) if isinstance(p, str) else p for p in (*parts, "")))


def _special(values: pa.Array) -> pa.Array:
    formula = pc.and_not(_matches(values, _FORMULA), _matches(values, _NUMBER))
    return pc.or_(formula, _matches(values, _TYPED_OR_EMPTY))


def _matches(values: pa.Array, pattern: str) -> Any:
    return pc.match_substring_regex(values, pattern)
