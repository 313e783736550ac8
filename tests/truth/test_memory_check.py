"""A fit that needs more memory than is free is refused before it starts, by every method."""

import numpy as np
import pytest

from crowdwise import Answers
from crowdwise._core.registry import make, methods
from crowdwise.errors import TooLargeError
from crowdwise.truth import memory_check

NAMES = [method.name for method in methods("classes") if not method.needs_features]


def crowd(n_tasks, n_classes):
    """Three answers per task with uniformly random labels."""
    rng = np.random.default_rng(0)
    task, worker = np.divmod(np.arange(3 * n_tasks), 3)
    label = rng.integers(0, n_classes, 3 * n_tasks)
    return Answers.from_codes(task, worker, label, tasks=n_tasks, workers=3, classes=n_classes)


@pytest.mark.parametrize("name", NAMES)
def test_a_million_classes_are_refused_before_the_fit(name, monkeypatch):
    answers, model = crowd(2000, 1_000_000), make(name)
    monkeypatch.setattr(memory_check, "available", lambda: 24e9)
    monkeypatch.setattr(type(model), "_fit", lambda *_: pytest.fail("the fit has started"))
    with pytest.raises(
        TooLargeError, match=r"1,000,000 classes needs about [0-9.]+ GB.*24\.0 GB are free.*rare classes"
    ):
        model.fit(answers, np.zeros(answers.n_tasks, np.int32) if model.needs_gold else None)


def test_a_fit_that_just_fits_is_not_refused(monkeypatch):
    answers = crowd(20, 300_000)
    needed = 8 * 3 * 20 * 300_000
    monkeypatch.setattr(memory_check, "available", lambda: needed)
    assert make("majority-vote").fit(answers).proba_.shape == (20, 300_000)
    monkeypatch.setattr(memory_check, "available", lambda: needed - 1)
    with pytest.raises(TooLargeError):
        make("majority-vote").fit(answers)
