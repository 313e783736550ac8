"""Validation of JSON objects against a table of fields: the type of each one, and whether it is required."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NUMBER = (int, float)


class Field(NamedTuple):
    """One field of an object."""

    kind: type | tuple[type, ...]
    description: str  # of a valid value, for error messages
    needed: bool = True


def check(content: Any, fields: Mapping[str, Field], *, allow_unknown: bool = False) -> None:
    """Raise a `ValueError` that names the first invalid field.

    Parameters
    ----------
    content : any
        The parsed JSON.
    fields : mapping
        The fields of a valid object.
    allow_unknown : bool
        Whether the object may have fields that are not in `fields`.

    Examples
    --------
    >>> check({"seed": "seven"}, {"seed": Field(int, "an integer")})
    Traceback (most recent call last):
    ValueError: 'seed' is 'seven', not an integer
    """
    if not isinstance(content, dict):
        message = f"expected a JSON object, found {content!r:.60}"
        raise ValueError(message)
    for name, (kind, description, needed) in fields.items():
        if name not in content:
            if needed:
                message = f"{name!r} is missing: {description}"
                raise ValueError(message)
        elif not is_instance(content[name], kind):
            message = f"{name!r} is {content[name]!r:.60}, not {description}"
            raise ValueError(message)
    unknown = [] if allow_unknown else [name for name in content if name not in fields]
    if unknown:
        message = f"{unknown[0]!r:.60} is not a field of this format"
        raise ValueError(message)


def is_instance(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Return whether a value is of a type. Unlike `isinstance`, booleans are not integers.

    >>> is_instance(True, int), is_instance(True, (bool, int)), is_instance(None, (type(None), str))
    (False, True, True)
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return bool in kinds if isinstance(value, bool) else isinstance(value, kinds)
