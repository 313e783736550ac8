"""Whatever is changed in a data set, its check says so by name: on a made-up one and, where they are, on real ones."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crowdwise import Answers, datasets
from crowdwise.datasets import facts
from crowdwise.datasets.base import Dataset
from crowdwise.errors import FormatError

CLASSES = np.array(["cat", "cow", "dog"])


def made_up() -> Dataset:
    """Every kind of array that is checked: 30 tasks to train on, 8 workers, votes on 40; columns of many units."""
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
        "made up", answers, CLASSES[y[:30]], CLASSES, X, X_valid, CLASSES[y[30:42]], X_test, CLASSES[y[42:]],
        extra=extra,
    )  # fmt: skip


@pytest.fixture(params=["made up", "music", "labelme", "cifar10h"])
def data(request, monkeypatch):
    """A data set whose figures are right."""
    if request.param == "made up":
        whole = made_up()
        monkeypatch.setitem(facts.FACTS, "made up", facts.measure(whole))
    else:
        if not Path(os.environ.get("CROWDWISE_DATA", "nowhere"), request.param).is_dir():
            pytest.skip(f"needs real data: set CROWDWISE_DATA to a folder that holds {request.param}")
        whole = datasets.load(request.param)
    facts.check(whole, "here")
    return whole


def told(answers: Answers, *, worker: np.ndarray | None = None, workers: np.ndarray | None = None) -> Answers:
    """The same answers given by others, or by the same of other names."""
    return Answers.from_codes(
        answers.task, answers.worker if worker is None else worker, answers.label, tasks=answers.tasks,
        workers=answers.workers if workers is None else workers, classes=answers.classes, truth=answers.truth,
    )  # fmt: skip


def two_change_workers(answers: Answers) -> Answers:
    """Two answers of two workers to two tasks change hands: nobody answers a task twice, or more often than before."""
    given = set(zip(answers.task.tolist(), answers.worker.tolist(), strict=True))
    i, j = next(
        (i, j)
        for i in range(answers.n_answers)
        for j in range(i)
        if (answers.task[i], answers.worker[j]) not in given and (answers.task[j], answers.worker[i]) not in given
    )
    worker = answers.worker.copy()
    worker[[i, j]] = worker[[j, i]]
    return told(answers, worker=worker)


def changed(array: np.ndarray, rows, value) -> np.ndarray:
    out = array.copy()
    out[rows] = value
    return out


def one_vote_moved(counts: np.ndarray) -> np.ndarray:
    """From the second of a task's classes to its third, so that the vote stays."""
    order = np.argsort(counts, axis=1)[:, ::-1]  # (tasks, classes)
    first, second, third = np.take_along_axis(counts, order, axis=1).T[:3]
    row = np.flatnonzero((first > second) & (second > 0) & (first > third + 1))[0]
    return changed(counts, (row, order[row, 1:3]), counts[row, order[row, 1:3]] + [-1, 1])


def other(truth: np.ndarray) -> int:
    """The first task of another class than that of the first."""
    return int((truth != truth[0]).argmax())


# What is done to an array, and the figure that tells.
TO_FEATURES = {
    "all zero": (np.zeros_like, "projection"),
    "columns lost": (lambda X: X[:, :5], "shape"),
    "rows lost": (lambda X: X[: 2 * len(X) // 3], "shape"),
    "no rows": (lambda X: X[:0], "shape"),
    "rows shuffled": (lambda X: X[np.random.default_rng(0).permutation(len(X))], "projection"),
    "two rows swapped": (lambda X: changed(X, [0, 9], X[[9, 0]]), "projection"),
    "two columns swapped": (lambda X: X[:, [1, 0, *range(2, X.shape[1])]], "projection"),
    "smallest column doubled": (lambda X: X * (1 + (X.std(axis=0) == X.std(axis=0).min())), "projection"),
    "one value lost": (lambda X: changed(X, (3, 2), np.nan), "projection"),
    "one value endless": (lambda X: changed(X, (3, 2), np.inf), "projection"),
}
TO_TRUTH = {
    "reversed": lambda truth: truth[::-1],
    "two tasks swapped": lambda truth: changed(truth, [0, other(truth)], truth[[other(truth), 0]]),
}
# The arrays each data set has.
FEATURES = [("made up", "X"), ("made up", "X_valid"), ("made up", "X_test"), ("music", "X"), ("music", "X_test")]
FEATURES += [("labelme", "X"), ("labelme", "X_valid"), ("labelme", "X_test"), ("cifar10h", "X")]


def refused(data: Dataset, figure: str) -> None:
    with pytest.raises(FormatError, match=rf"^{data.name} in here is not the data it should be: {figure}.*, expected"):
        facts.check(data, "here")


@pytest.mark.parametrize("damage", TO_FEATURES)
@pytest.mark.parametrize(("data", "array"), FEATURES, indirect=["data"])
def test_damaged_features_are_refused(data, array, damage):
    damaged, figure = TO_FEATURES[damage]
    refused(replace(data, **{array: damaged(getattr(data, array))}), rf"{figure}.* of {array} is")


@pytest.mark.parametrize("damage", TO_TRUTH)
@pytest.mark.parametrize(("data", "array"), [(d, X.replace("X", "truth")) for d, X in FEATURES], indirect=["data"])
def test_damaged_truth_is_refused(data, array, damage):
    refused(replace(data, **{array: TO_TRUTH[damage](getattr(data, array))}), rf"digest of {array} is")


def test_who_answered_is_told_but_not_by_name(data):
    refused(replace(data, answers=two_change_workers(data.answers)), "digest of answers is")
    order = np.random.default_rng(0).permutation(data.answers.n_workers)
    names = np.array([f"other {w}" for w in range(data.answers.n_workers)])
    facts.check(replace(data, answers=told(data.answers, worker=order[data.answers.worker], workers=names)), "here")


@pytest.mark.parametrize("data", ["made up", "cifar10h"], indirect=True)
def test_one_vote_or_one_image_of_the_counts_is_told(data):
    moved = one_vote_moved(data.extra["counts"])
    assert moved.sum() == data.extra["counts"].sum() and (moved != data.extra["counts"]).sum() == 2
    refused(replace(data, extra={**data.extra, "counts": moved}), "digest of counts is")
    swapped = TO_TRUTH["two tasks swapped"](data.extra["truth_all"])
    refused(replace(data, extra={**data.extra, "truth_all": swapped}), "(vote of counts|digest of truth_all) is")


def test_an_array_that_is_not_there_is_told(data):
    refused(replace(data, X=None), "shape of X is None")


def test_float_noise_and_types_pass(data):
    noise = 1 + 1e-6 * np.random.default_rng(0).uniform(-1, 1, data.X.shape)
    facts.check(replace(data, X=data.X.astype(np.float64) * noise), "here")
    facts.check(replace(data, truth=data.truth.astype("<U40")), "here")


@pytest.mark.parametrize(
    ("name", "figure", "passes", "fails"),
    [
        ("made up", "answer_accuracy", 0.9e-4, 2e-4),
        ("made up", "majority_vote", 0.9e-4, 2e-4),
        ("made up", "truth_imbalance", 0.9e-4, 2e-4),
        ("made up", "projection", 0.9e-3, 2e-3),
        ("usps", "projection", 0.19, 0.4),
    ],
)
def test_tolerances(monkeypatch, name, figure, passes, fails):
    """A little less than they are passes, twice as much does not."""
    whole = replace(made_up(), name=name)
    found = facts.measure(whole)

    def moved(by):
        value = getattr(found, figure)
        value = {array: np.add(sums, by) for array, sums in value.items()} if figure == "projection" else value + by
        monkeypatch.setitem(facts.FACTS, name, found._replace(**{figure: value}))

    for sign in (-1, 1):
        moved(sign * passes)
        facts.check(whole, "here")
        moved(sign * fails)
        refused(whole, re.escape(figure.replace("_", " ")))


def test_figures_of_the_table_go_together():
    for name, expected in facts.FACTS.items():
        shape = expected.shape or {}
        for array, n in (("X", expected.train), ("X_valid", expected.valid), ("X_test", expected.test)):
            assert array not in shape or shape[array] == (n, shape["X"][1]), name
        if datasets._ENTRIES[name].needs:  # what is made may change with numpy
            assert (expected.projection or {}).keys() == shape.keys() and "truth" in expected.digest, name
            assert ("answers" in expected.digest) == (expected.answers is not None), name


def test_pixels_of_usps_may_be_rounded_either_way_but_not_shuffled():
    if not Path(os.environ.get("CROWDWISE_DATA", "nowhere"), "usps").is_dir():
        pytest.skip("needs real data: set CROWDWISE_DATA to a folder that holds usps")
    whole = datasets.load("usps")
    rng, inner = np.random.default_rng(0), (whole.X > 0) & (whole.X < 255)
    for step in (-1, 1):
        facts.check(replace(whole, X=whole.X + step * (inner & (rng.random(inner.shape) < 0.5))), "here")
    for _ in range(3):
        refused(replace(whole, X=rng.permutation(whole.X)), "projection of X")
