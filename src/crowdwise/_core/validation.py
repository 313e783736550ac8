"""Checks of arguments, with errors that name the argument and the values it accepts."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.errors import ParameterError


def is_integer(value: Any, least: int) -> bool:
    """Return whether a value is an integer of at least `least`. Booleans are not integers."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number. Booleans are not numbers."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))


def require(condition: bool, name: str, value: Any, allowed: str) -> None:
    """Raise a `ParameterError` that names the argument and the allowed values, unless the condition is true."""
    if not condition:
        message = f"{name}={value!r}: use {allowed}."
        raise ParameterError(message)
