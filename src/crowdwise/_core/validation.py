"""Checks of arguments, with errors that name the argument and the values it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.errors import ParameterError


def is_integer(value: Any, least: int) -> bool:
    """Whether a value is a whole number, no smaller than `least`."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))


def require(condition: bool, name: str, value: Any, allowed: str) -> None:
    """Raise ParameterError unless the condition holds."""
    if not condition:
        message = f"{name}={value!r}: use {allowed}."
        raise ParameterError(message)
