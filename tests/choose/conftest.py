"""Small crowds for the tests of `choose`."""

from __future__ import annotations

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.choose import temperature


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(300, n_workers=12, n_classes=3, answers_per_task=4, seed=3)


@pytest.fixture(scope="module")
def featured():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 100)
    X = rng.normal(size=(100, 3)) + 3 * truth[:, None]
    return X, cw.simulate.simulate(truth=truth, n_workers=8, answers_per_task=2, accuracy=(0.6, 0.7), seed=1)


@pytest.fixture
def tiny():
    """Eight tasks, two answers each, by two workers."""
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 0])
    return cw.Answers.from_codes(
        np.repeat(np.arange(8), 2), np.tile([0, 1], 8), labels, tasks=8, workers=2, classes=["no", "yes"]
    )


@pytest.fixture
def no_temperatures(monkeypatch):
    """Skip the temperatures, which take longest, in tests with many small crowds."""
    monkeypatch.setattr(temperature, "MOST_ANSWERS", 0)
