"""Problems: sizes as in the papers, test tasks disjoint from training tasks; real data from CROWDWISE_DATA."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from crowdwise.datasets import load
from crowdwise.errors import ParameterError
from reproduction import problems
from reproduction.cells import VERSIONS
from reproduction.problems import PROBLEMS, Problem, load_problem
from reproduction.runner import data_of

# Tasks to train on, workers, answers, classes, tasks to test on.
SIZES = {
    "digits": (500, 40, 1246, 10, 238),
    "labelme": (1000, 59, 2547, 8, 1188),
    "music": (700, 44, 2945, 10, 300),
    "cifar10h": (2837, 49, 4370, 10, 1000),
    "cifar10h-103": (8687, 103, 20_600, 10, 1313),
    "product": (7715, 176, 23_145, 2, 600),
    "usps": (734, 9, 734 * 9, 2, 332),
    "gas_drift": (2575, 11, 2575 * 11, 2, 1170),
    "gisette_like": (3080, 7, 3080 * 7, 2, 1400),
    "product-folds": (6652, 176, 19_956, 2, 1663),
    "leaves-folds": (307, 83, 3070, 6, 77),
    "cifar10n": (8000, 747, 24_000, 10, 2000),
    "digits-tail": (490, 40, 1225, 10, 500),
    "usps-tail": (2044, 40, 5110, 10, 2000),
    "gas_drift-tail": (1014, 40, 2535, 6, 900),
    "labelme-valid": (1000, 59, 2547, 8, 500),
}
BALANCED = ("cifar10h", "product", "heavy-1", "heavy-2", "heavy-3", "usps", "gas_drift", "gisette_like")
TAILS = ("digits-tail", "usps-tail", "gas_drift-tail")
DIGESTS = {
    "digits": "4a18c4635601",
    "labelme": "87d7021b56fe",
    "music": "2849f9e7d1c1",
    "cifar10h": "8b33d1c78e04",
    "cifar10h-103": "390e8b011f30",
    "product": "7aa8898a5c5f",
    "heavy-1": "340f933ac4e3",
    "heavy-2": "24db054d4621",
    "heavy-3": "89a1b37bf61c",
    "usps": "b0693e0c4211",
    "gas_drift": "4ffd68c5956b",
    "gisette_like": "9b51658313d3",
    "product-folds": "ef63837a3f0c",
    "leaves-folds": "36f64c0be920",
    "cifar10n": "d31fed27e508",
    "digits-tail": "4d37faa05a26",
    "usps-tail": "d4d3d37af428",
    "gas_drift-tail": "787943c24273",
    "labelme-valid": "f20dfce2e9d0",
}
EQUAL = {
    "labelme": 2,
    "music": 1,
    "product": 11,
    "product-folds": 18,
}  # test rows that equal a training row in the original data
NEEDS = {"digits": None, "digits-tail": None, "cifar10h-103": "cifar10h", "gisette_like": "usps"}


@cache
def problem(name: str, seed: int = 0) -> Problem:
    """Return a problem, built once; skip the test if its data are missing."""
    data = name.partition("@")[0]
    folder = NEEDS.get(data, data_of(data))
    if folder is not None and not (Path(os.environ.get("CROWDWISE_DATA", "")) / folder).is_dir():
        pytest.skip(f"{name} needs {folder} in the folder CROWDWISE_DATA")
    return load_problem(name, seed)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_papers(name: str) -> None:
    found = problem(name)
    answers = found.answers
    sizes = (answers.n_tasks, answers.n_workers, answers.n_answers, answers.n_classes, len(found.y_test))
    assert sizes == SIZES[name]


@pytest.mark.parametrize("name", PROBLEMS)
def test_features_follow_tasks_and_codes_follow_classes(name: str) -> None:
    found = problem(name)
    assert len(found.X) == found.answers.n_tasks == len(found.answers.truth)
    assert len(found.X_test) == len(found.y_test)
    assert found.X.shape[1:] == found.X_test.shape[1:]
    n_classes = found.answers.n_classes
    assert set(np.unique(found.y_test)) == set(range(n_classes)) == set(np.unique(found.answers.truth))
    if found.valid is not None:
        assert len(found.valid[0]) == len(found.valid[1])
        assert found.valid[0].shape[1:] == found.X.shape[1:]


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_test_task_is_trained_on(name: str) -> None:
    """Except for rows that are equal in the original data."""
    found = problem(name)
    rows = {row.tobytes() for row in found.X}
    shared = sum(row.tobytes() in rows for row in found.X_test)
    assert shared == EQUAL.get(name, 0)


@pytest.mark.parametrize(("name", "data"), [("product", "product"), ("cifar10h-103", "cifar10h")])
def test_training_and_test_tasks_together_are_all_tasks(name: str, data: str) -> None:
    found, full = problem(name), load(data)
    X = full.extra["X_all"] if data == "cifar10h" else full.X
    assert sorted(row.tobytes() for row in X) == sorted(row.tobytes() for row in [*found.X, *found.X_test])


@pytest.mark.parametrize("name", [*BALANCED, *TAILS])
def test_drawn_test_sets_are_balanced(name: str) -> None:
    assert np.ptp(np.bincount(problem(name).y_test)) == 0


@pytest.mark.parametrize("name", ["usps", "gas_drift", "gisette_like"])
def test_sets_of_iced_are_ten_to_one_and_redrawn_for_each_seed(name: str) -> None:
    one, other = problem(name, 0), problem(name, 1)
    major, minor = np.bincount(one.answers.truth)
    assert major / minor == pytest.approx(10, abs=0.2)
    assert not np.array_equal(one.answers.label, other.answers.label)
    assert not np.array_equal(one.X, other.X)


@pytest.mark.parametrize("name", TAILS)
def test_long_tails_fall_to_a_tenth_and_are_redrawn_for_each_seed(name: str) -> None:
    one, other = problem(name, 0), problem(name, 1)
    sizes = np.bincount(one.answers.truth)
    assert (np.diff(sizes) < 0).all()
    assert sizes[0] / sizes[-1] == 10
    assert not np.array_equal(one.X, other.X)
    assert set(np.diff(one.answers.task_starts)) == {2, 3}


@pytest.mark.parametrize("name", ["product-folds", "leaves-folds"])
def test_five_seeds_test_on_every_task_once(name: str) -> None:
    folds = [problem(name, seed) for seed in range(6)]
    complete = load("product" if name.startswith("product") else "truth/leaves")
    rows = sorted(row.tobytes() for fold in folds[:5] for row in fold.X_test)
    assert rows == sorted(row.tobytes() for row in complete.X)
    np.testing.assert_array_equal(folds[5].X_test, folds[0].X_test)
    assert sum(fold.answers.n_answers for fold in folds[:5]) == 4 * complete.answers.n_answers


@pytest.mark.parametrize("name", ["digits", "labelme", "cifar10h", "heavy-1", "product", "cifar10n"])
def test_other_problems_are_the_same_for_all_seeds(name: str) -> None:
    one, other = problem(name, 0), problem(name, 1)
    assert one.answers == other.answers
    np.testing.assert_array_equal(one.X_test, other.X_test)


@pytest.mark.parametrize("name", ["digits", "labelme"])
def test_removed_answers_follow_the_seed_and_keep_all_tasks(name: str) -> None:
    complete, again = problem(name), problem(f"{name}@40", 1)
    one, other = problem(f"{name}@40"), load_problem(f"{name}@40", 0)
    assert one.answers == other.answers != again.answers
    assert one.answers.n_answers == pytest.approx(0.6 * complete.answers.n_answers, abs=1)
    assert one.answers.n_tasks == complete.answers.n_tasks
    np.testing.assert_array_equal(one.X_test, complete.X_test)
    given = set(zip(complete.answers.task.tolist(), complete.answers.worker.tolist(), strict=True))
    assert set(zip(one.answers.task.tolist(), one.answers.worker.tolist(), strict=True)) < given


def test_every_task_can_keep_one_answer() -> None:
    kept, bare = problem("digits@60, one left").answers, problem("digits@60").answers
    assert (np.diff(kept.task_starts) > 0).all()
    assert not (np.diff(bare.task_starts) > 0).all()


def test_true_answers_are_one_per_task() -> None:
    found = problem("digits")
    true = found.with_true_answers()
    assert (true.answers.n_workers, true.answers.n_answers) == (1, found.answers.n_tasks)
    np.testing.assert_array_equal(true.answers.label, found.answers.truth)
    assert true.answers.classes.tolist() == found.answers.classes.tolist()


def test_codes_follow_classes_in_any_order() -> None:
    codes: Callable[..., np.ndarray] = problems._codes
    assert codes(["b", "c", "a"], np.array(["c", "a", "b"])).tolist() == [2, 0, 1]


def test_unknown_problem_is_rejected_with_the_list() -> None:
    with pytest.raises(ParameterError, match=r"no problem named 'labelmee'\. Choose from digits, labelme"):
        load_problem("labelmee@40")


def digest(made: Problem) -> str:
    """Return a digest of all training and test data."""
    answers = made.answers
    arrays = (answers.task, answers.worker, answers.label, answers.truth, made.X, made.X_test, made.y_test)
    parts = [np.ascontiguousarray(array).astype(np.float32).tobytes() for array in arrays]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_are_those_of_the_saved_results(name: str) -> None:
    """If one was changed on purpose, raise its number in `cells.VERSIONS` and enter the new digest here."""
    assert (VERSIONS.get(name, 1), digest(problem(name))) == (1, DIGESTS[name])
