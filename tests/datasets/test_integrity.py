"""Any change to a data set is detected and named: on a synthetic data set and, where available, on real ones."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crowdwise import Answers, datasets
from crowdwise.datasets import integrity
from crowdwise.datasets.base import Dataset
from crowdwise.errors import FormatError

CLASSES = np.array(["cat", "cow", "dog"])


def synthetic() -> Dataset:
    """Every kind of array that is checked: 30 training tasks, 8 workers, votes on 40 images, columns of many units."""
    rng = np.random.default_rng(1)
    units = 10.0 ** np.arange(-3, 4)  # (features,)
    X, X_valid, X_test = (rng.normal(1, 2, size=(n, 7)) * units for n in (30, 12, 20))
    y = np.arange(62) % 3
    task, worker = np.nonzero(rng.random((30, 8)) < 0.5)
    label = np.where(rng.random(len(task)) < 0.7, y[task], 0)
    answers = Answers.from_codes(
        task, worker, label, tasks=30, workers=8, classes=CLASSES, truth=y[:30].astype(np.int32)
    )
    extra = {"counts": rng.multinomial(20, np.full(3, 1 / 3), size=40), "truth_all": CLASSES[y[:40]]}
    return Dataset(
        "synthetic", answers, CLASSES[y[:30]], CLASSES, X, X_valid, CLASSES[y[30:42]], X_test, CLASSES[y[42:]],
        extra=extra,
    )  # fmt: skip


@pytest.fixture(params=["synthetic", "music", "labelme", "cifar10h"])
def data(request, monkeypatch):
    """An intact data set."""
    if request.param == "synthetic":
        intact = synthetic()
        monkeypatch.setitem(integrity.EXPECTED, "synthetic", integrity.measure(intact))
    else:
        if not Path(os.environ.get("CROWDWISE_DATA", "nowhere"), request.param).is_dir():
            pytest.skip(f"needs real data: set CROWDWISE_DATA to a folder that holds {request.param}")
        intact = datasets.load(request.param)
    integrity.check(intact, "here")
    return intact


def reassigned(answers: Answers, *, worker: np.ndarray | None = None, workers: np.ndarray | None = None) -> Answers:
    """Return the same answers with other workers, or with other names for the workers."""
    return Answers.from_codes(
        answers.task, answers.worker if worker is None else worker, answers.label, tasks=answers.tasks,
        workers=answers.workers if workers is None else workers, classes=answers.classes, truth=answers.truth,
    )  # fmt: skip


def swap_two_workers(answers: Answers) -> Answers:
    """Swap the workers of two answers, such that each worker still has the same number of answers and no duplicates."""
    pairs = set(zip(answers.task.tolist(), answers.worker.tolist(), strict=True))
    i, j = next(
        (i, j)
        for i in range(answers.n_answers)
        for j in range(i)
        if (answers.task[i], answers.worker[j]) not in pairs and (answers.task[j], answers.worker[i]) not in pairs
    )
    worker = answers.worker.copy()
    worker[[i, j]] = worker[[j, i]]
    return reassigned(answers, worker=worker)


def with_rows(array: np.ndarray, rows, value) -> np.ndarray:
    out = array.copy()
    out[rows] = value
    return out


def move_one_vote(counts: np.ndarray) -> np.ndarray:
    """Move a vote from a task's second class to its third, which leaves the majority unchanged."""
    order = np.argsort(counts, axis=1)[:, ::-1]  # (tasks, classes)
    first, second, third = np.take_along_axis(counts, order, axis=1).T[:3]
    row = np.flatnonzero((first > second) & (second > 0) & (first > third + 1))[0]
    return with_rows(counts, (row, order[row, 1:3]), counts[row, order[row, 1:3]] + [-1, 1])


def first_of_another_class(truth: np.ndarray) -> int:
    """Return the first task whose class differs from that of task 0."""
    return int((truth != truth[0]).argmax())


# Changes to an array, and the statistic that detects them.
TO_FEATURES = {
    "all zero": (np.zeros_like, "projection"),
    "columns lost": (lambda X: X[:, :5], "shape"),
    "rows lost": (lambda X: X[: 2 * len(X) // 3], "shape"),
    "no rows": (lambda X: X[:0], "shape"),
    "rows shuffled": (lambda X: X[np.random.default_rng(0).permutation(len(X))], "projection"),
    "two rows swapped": (lambda X: with_rows(X, [0, 9], X[[9, 0]]), "projection"),
    "two columns swapped": (lambda X: X[:, [1, 0, *range(2, X.shape[1])]], "projection"),
    "smallest column doubled": (lambda X: X * (1 + (X.std(axis=0) == X.std(axis=0).min())), "projection"),
    "one value missing": (lambda X: with_rows(X, (3, 2), np.nan), "projection"),
    "one value infinite": (lambda X: with_rows(X, (3, 2), np.inf), "projection"),
}
TO_TRUTH = {
    "reversed": lambda truth: truth[::-1],
    "two tasks swapped": lambda truth: with_rows(
        truth, [0, first_of_another_class(truth)], truth[[first_of_another_class(truth), 0]]
    ),
}
# The feature arrays of each data set.
FEATURES = [("synthetic", "X"), ("synthetic", "X_valid"), ("synthetic", "X_test"), ("music", "X"), ("music", "X_test")]
FEATURES += [("labelme", "X"), ("labelme", "X_valid"), ("labelme", "X_test"), ("cifar10h", "X")]


def assert_rejected(data: Dataset, statistic: str) -> None:
    with pytest.raises(FormatError, match=rf"^{data.name} in here is not the expected data: {statistic}.*, expected"):
        integrity.check(data, "here")


@pytest.mark.parametrize("damage", TO_FEATURES)
@pytest.mark.parametrize(("data", "array"), FEATURES, indirect=["data"])
def test_damaged_features_are_rejected(data, array, damage):
    damaged, statistic = TO_FEATURES[damage]
    assert_rejected(replace(data, **{array: damaged(getattr(data, array))}), rf"{statistic}.* of {array} is")


@pytest.mark.parametrize("damage", TO_TRUTH)
@pytest.mark.parametrize(("data", "array"), [(d, X.replace("X", "truth")) for d, X in FEATURES], indirect=["data"])
def test_damaged_truth_is_rejected(data, array, damage):
    assert_rejected(replace(data, **{array: TO_TRUTH[damage](getattr(data, array))}), rf"digest of {array} is")


def test_swapped_workers_are_detected_but_renamed_workers_pass(data):
    assert_rejected(replace(data, answers=swap_two_workers(data.answers)), "digest of answers is")
    order = np.random.default_rng(0).permutation(data.answers.n_workers)
    names = np.array([f"other {w}" for w in range(data.answers.n_workers)])
    integrity.check(
        replace(data, answers=reassigned(data.answers, worker=order[data.answers.worker], workers=names)), "here"
    )


@pytest.mark.parametrize("data", ["synthetic", "cifar10h"], indirect=True)
def test_a_moved_vote_or_swapped_image_is_detected(data):
    moved = move_one_vote(data.extra["counts"])
    assert moved.sum() == data.extra["counts"].sum() and (moved != data.extra["counts"]).sum() == 2
    assert_rejected(replace(data, extra={**data.extra, "counts": moved}), "digest of counts is")
    swapped = TO_TRUTH["two tasks swapped"](data.extra["truth_all"])
    assert_rejected(
        replace(data, extra={**data.extra, "truth_all": swapped}), "(vote of counts|digest of truth_all) is"
    )


def test_a_missing_array_is_detected(data):
    assert_rejected(replace(data, X=None), "shape of X is None")


def test_float_noise_and_types_pass(data):
    noise = 1 + 1e-6 * np.random.default_rng(0).uniform(-1, 1, data.X.shape)
    integrity.check(replace(data, X=data.X.astype(np.float64) * noise), "here")
    integrity.check(replace(data, truth=data.truth.astype("<U40")), "here")


@pytest.mark.parametrize(
    ("name", "statistic", "passes", "fails"),
    [
        ("synthetic", "answer_accuracy", 0.9e-4, 2e-4),
        ("synthetic", "majority_vote", 0.9e-4, 2e-4),
        ("synthetic", "truth_imbalance", 0.9e-4, 2e-4),
        ("synthetic", "projection", 0.9e-3, 2e-3),
        ("usps", "projection", 0.19, 0.4),
    ],
)
def test_tolerances(monkeypatch, name, statistic, passes, fails):
    """A deviation just below the tolerance passes, twice the tolerance does not."""
    intact = replace(synthetic(), name=name)
    found = integrity.measure(intact)

    def moved(by):
        value = getattr(found, statistic)
        value = {array: np.add(sums, by) for array, sums in value.items()} if statistic == "projection" else value + by
        monkeypatch.setitem(integrity.EXPECTED, name, found._replace(**{statistic: value}))

    for sign in (-1, 1):
        moved(sign * passes)
        integrity.check(intact, "here")
        moved(sign * fails)
        assert_rejected(intact, re.escape(statistic.replace("_", " ")))


def test_expected_statistics_are_consistent():
    for name, expected in integrity.EXPECTED.items():
        shape = expected.shape or {}
        for array, n in (("X", expected.train), ("X_valid", expected.valid), ("X_test", expected.test)):
            assert array not in shape or shape[array] == (n, shape["X"][1]), name
        if datasets._ENTRIES[name].needs:  # simulated data may change with numpy
            assert (expected.projection or {}).keys() == shape.keys() and "truth" in expected.digest, name
            assert ("answers" in expected.digest) == (expected.answers is not None), name


def test_usps_pixels_may_be_rounded_but_not_shuffled():
    if not Path(os.environ.get("CROWDWISE_DATA", "nowhere"), "usps").is_dir():
        pytest.skip("needs real data: set CROWDWISE_DATA to a folder that holds usps")
    intact = datasets.load("usps")
    rng, inner = np.random.default_rng(0), (intact.X > 0) & (intact.X < 255)
    for step in (-1, 1):
        integrity.check(replace(intact, X=intact.X + step * (inner & (rng.random(inner.shape) < 0.5))), "here")
    for _ in range(3):
        assert_rejected(replace(intact, X=rng.permutation(intact.X)), "projection of X")
