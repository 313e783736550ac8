"""What a JSON object must hold, as a table: each field, what it is, and whether it may be absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NUMBER = (int, float)


class Field(NamedTuple):
    """One field of an object."""

    kind: type | tuple[type, ...]
    what: str  # in words, for the error and for whoever reads the table
    needed: bool = True


def check(content: Any, fields: Mapping[str, Field], *, others: bool = False) -> None:
    """Raise a `ValueError` that names the field at fault.

    Parameters
    ----------
    content : any
        What was read.
    fields : mapping
        What it must hold.
    others : bool
        Whether fields that are not in the table may be there.

    Examples
    --------
    >>> check({"seed": "seven"}, {"seed": Field(int, "a whole number")})
    Traceback (most recent call last):
    ValueError: 'seed' is 'seven', not a whole number
    """
    if not isinstance(content, dict):
        message = f"{content!r:.60} stands where an object should"
        raise ValueError(message)
    for name, (kind, what, needed) in fields.items():
        if name not in content:
            if needed:
                message = f"{name!r} is missing: {what}"
                raise ValueError(message)
        elif not fits(content[name], kind):
            message = f"{name!r} is {content[name]!r:.60}, not {what}"
            raise ValueError(message)
    unknown = [] if others else [name for name in content if name not in fields]
    if unknown:
        message = f"{unknown[0]!r:.60} is no field of this format"
        raise ValueError(message)


def fits(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Whether a value is of a kind; true and false are no numbers.

    >>> fits(True, int), fits(True, (bool, int)), fits(None, (type(None), str))
    (False, True, True)
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return bool in kinds if isinstance(value, bool) else isinstance(value, kinds)
