"""Fits that would fill the memory are refused before they begin, by every method, and no others are."""

import tracemalloc

import numpy as np
import pytest

from crowdwise import Answers
from crowdwise._core.registry import make, methods
from crowdwise.errors import TooLargeError
from crowdwise.truth import memory_check

NAMES = [method.name for method in methods() if not method.needs_features]


def crowd(n_tasks, n_classes):
    """Three answers a task, each label as likely as any other."""
    rng = np.random.default_rng(0)
    task, worker = np.divmod(np.arange(3 * n_tasks), 3)
    label = rng.integers(0, n_classes, 3 * n_tasks)
    return Answers.from_codes(task, worker, label, tasks=n_tasks, workers=3, classes=n_classes)


def gold_of(model, answers):
    return {"gold": np.zeros(answers.n_tasks, np.int32)} if model.needs_gold else {}


@pytest.mark.parametrize("name", NAMES)
def test_a_million_classes_are_refused_by_their_need(name, monkeypatch):
    answers, model = crowd(2000, 1_000_000), make(name)
    monkeypatch.setattr(memory_check, "available", lambda: 24e9)
    tracemalloc.start()
    try:
        said = r"1,000,000 classes needs about [0-9.]+ GB, with 24\.0 GB free.*rare classes"
        with pytest.raises(TooLargeError, match=said):
            model.fit(answers, **gold_of(model, answers))
        assert tracemalloc.get_traced_memory()[1] < 100e6  # of 48 GB
    finally:
        tracemalloc.stop()


def test_what_fits_is_fitted(monkeypatch):
    """Also where the count says that it only just does."""
    answers = crowd(20, 300_000)
    monkeypatch.setattr(memory_check, "available", lambda: 8 * 3 * 20 * 300_000)
    assert make("majority-vote").fit(answers).proba_.shape == (20, 300_000)
    monkeypatch.setattr(memory_check, "available", lambda: 8 * 3 * 20 * 300_000 - 1)
    with pytest.raises(TooLargeError):
        make("majority-vote").fit(answers)
