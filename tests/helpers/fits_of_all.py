"""Fit every method and write the results to a file: run by the tests in processes with other settings."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

from tests.helpers.every_method import FEWEST, LEARNERS, TRUTH, crowd, fitted, outcome

N_TASKS = 120


def fit_all() -> dict[str, np.ndarray]:
    """Return the results of each method on one crowd, by name of the method and of the array."""
    X, answers = crowd(N_TASKS)
    out = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in [*TRUTH, *LEARNERS]:
            arrays = outcome(fitted(name, X, answers, FEWEST), X)
            out |= {f"{name} {what}": np.asarray(array) for what, array in arrays.items()}
    return out


if __name__ == "__main__":
    np.savez(Path(sys.argv[1]), **fit_all())
