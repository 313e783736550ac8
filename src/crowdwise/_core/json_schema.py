"""Validation of JSON objects against a table of fields: the type of each one, and whether it is required."""

from __future__ import annotations

from collections.abc import Mapping
from sys import float_info
from typing import Any, NamedTuple

NUMBER = (int, float)
LARGEST = float_info.max  # JSON may hold larger integers, which cannot become floats


class Field(NamedTuple):
    """One field of an object. `inside` describes the values in a list or object: all alike, or the fields of each."""

    kind: type | tuple[type, ...]
    description: str  # of a valid value, for error messages
    needed: bool = True
    inside: Field | Mapping[str, Field] | None = None


def check(content: Any, fields: Mapping[str, Field], *, allow_unknown: bool = False, place: str = "") -> None:
    """Raise a `ValueError` that names the first invalid field.

    Parameters
    ----------
    content : any
        The parsed JSON.
    fields : mapping
        The fields of a valid object.
    allow_unknown : bool
        Whether the object, and objects in it, may have fields that are not in `fields`.
    place : str
        The field of an outer object that holds this one, with a dot.

    Examples
    --------
    >>> check({"seed": "seven"}, {"seed": Field(int, "an integer")})
    Traceback (most recent call last):
    ValueError: 'seed' is 'seven', not an integer
    >>> rows = Field(list, "rows", inside={"n": Field(int, "an integer")})
    >>> check({"rows": [{"n": 1}, {}]}, {"rows": rows})
    Traceback (most recent call last):
    ValueError: 'rows[1].n' is missing: an integer
    """
    if not isinstance(content, dict):
        where = repr(place.rstrip(".")) + ": " if place else ""
        message = f"{where}expected a JSON object, found {content!r:.60}"
        raise ValueError(message)
    for name, field in fields.items():
        if name in content:
            _check_value(content[name], field, f"{place}{name}", allow_unknown=allow_unknown)
        elif field.needed:
            message = f"{place + name!r} is missing: {field.description}"
            raise ValueError(message)
    unknown = [] if allow_unknown else [name for name in content if name not in fields]
    if unknown:
        message = f"{place + unknown[0]!r:.60} is not a field of this format"
        raise ValueError(message)


def _check_value(value: Any, field: Field, place: str, *, allow_unknown: bool) -> None:
    too_large = isinstance(value, NUMBER) and not abs(value) <= LARGEST  # also NaN
    if not is_instance(value, field.kind) or too_large:
        message = f"{place!r} is {value!r:.60}, not {field.description}"
        raise ValueError(message)
    inside = field.inside
    if isinstance(inside, Field):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value or ()):
            inner = f"{place}.{key}" if isinstance(value, dict) else f"{place}[{key}]"
            _check_value(part, inside, inner, allow_unknown=allow_unknown)
    elif inside is not None and isinstance(value, dict):
        check(value, inside, allow_unknown=allow_unknown, place=f"{place}.")
    elif inside is not None:
        for number, part in enumerate(value or ()):
            check(part, inside, allow_unknown=allow_unknown, place=f"{place}[{number}].")


def is_instance(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Return whether a value is of a type. Unlike `isinstance`, booleans are not integers.

    >>> is_instance(True, int), is_instance(True, (bool, int)), is_instance(None, (type(None), str))
    (False, True, True)
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return bool in kinds if isinstance(value, bool) else isinstance(value, kinds)
