"""Checks of what a model file holds: results that other code relies on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.answers import Answers

SHAPES = {  # of results that other code relies on; other results are specific to a method
    "proba_": ("tasks", "classes"),
    "codes_": ("tasks",),
    "confusion_": ("workers", "classes", "classes"),
}


def expect(condition: bool, problem: str) -> None:
    """Raise ValueError with the problem unless the condition is true."""
    if not condition:
        raise ValueError(problem)


def check_results(results: Mapping[str, Any], answers: Answers) -> None:
    """Reject results that no fit can produce, since other code relies on them."""
    sizes = {name: getattr(answers, f"n_{name}") for name in ("tasks", "workers", "classes")}
    for name, value in results.items():
        expect(name.endswith("_") and not name.startswith("_") and name != "answers_", f"{name!r} is not a result")
        if name in SHAPES and value is not None:
            shape = tuple(sizes[axis] for axis in SHAPES[name])
            expect(isinstance(value, np.ndarray) and value.shape == shape, f"{name} is not an array of shape {shape}")
            integral, most = value.dtype.kind == "i", sizes["classes"] - 1 if name == "codes_" else 1 + 1e-6
            expect(integral == (name == "codes_"), f"{name} has the type {value.dtype}")
            inside = bool(((value >= -1e-6) & (value <= most)).all())  # False for NaN
            expect(inside, f"{name} contains a value that is not a {'class' if integral else 'probability'}")
