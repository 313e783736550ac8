"""Simulated crowds match their parameters and are determined by the seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.errors import ParameterError
from crowdwise.evaluate import imbalance_ratio, krippendorff_alpha
from crowdwise.simulate import answer, assign, crowd, digits_crowd, draw_truth, shares, simulate, split
from crowdwise.simulate.workers import KINDS


@given(
    n_tasks=st.integers(1, 60),
    n_workers=st.integers(1, 12),
    n_classes=st.integers(1, 5),
    mean=st.floats(1, 12),
    activity=st.sampled_from(["even", "long-tail", 1e6]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_sizes_match_the_parameters(n_tasks, n_workers, n_classes, mean, activity, seed):
    mean = min(mean, n_workers)
    answers = simulate(
        n_tasks, n_workers=n_workers, n_classes=n_classes, answers_per_task=mean, activity=activity, seed=seed
    )
    assert (answers.n_tasks, answers.n_workers, answers.n_classes) == (n_tasks, n_workers, n_classes)
    assert answers.n_answers == round(mean * n_tasks)
    per_task = np.bincount(answers.task, minlength=n_tasks)
    assert per_task.min() >= 1 and per_task.max() - per_task.min() <= 1
    pairs = answers.task.astype(int) * n_workers + answers.worker
    assert len(np.unique(pairs)) == len(pairs)  # no worker answers a task twice
    assert answers.truth.min() >= 0


@given(st.integers(0, 500), st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda s: sum(s) > 0))
def test_split_is_within_one_of_the_shares(n, balance):
    share = shares(np.array(balance), len(balance))
    counts = split(n, share)
    assert counts.sum() == n
    assert (np.abs(counts - n * share) < 1 + 1e-9).all()


@pytest.mark.parametrize(("balance", "ratio"), [("even", 1), ("long-tail", 10), (5.0, 5), (np.array([6, 3, 1]), 6)])
def test_class_balance_matches_the_ratio(balance, ratio):
    truth = draw_truth(6000, 3, balance)
    assert imbalance_ratio(np.bincount(truth)) == pytest.approx(ratio, rel=0.01)
    assert (np.diff(truth) < 0).any()  # in random order


def test_same_seed_repeats_and_another_differs():
    options = {"difficulty": 0.3, "together": 0.4, "class_balance": "long-tail"}
    assert simulate(200, seed=5, **options) == simulate(200, seed=5, **options)
    assert simulate(200, seed=5, **options) != simulate(200, seed=6, **options)
    np.testing.assert_array_equal(crowd(9, 3, seed=1), crowd(9, 3, seed=1))


def test_global_random_state_is_neither_used_nor_changed():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = simulate(50, seed=1)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert simulate(50, seed=1) == first


def test_each_step_has_its_own_random_stream():
    plain = simulate(300, seed=3)
    other = simulate(300, seed=3, workers="spammer", difficulty=0.5, together=0.5)
    np.testing.assert_array_equal(plain.truth, other.truth)
    np.testing.assert_array_equal(plain.worker, other.worker)


@pytest.mark.parametrize("kind", [*KINDS, "mixed"])
@pytest.mark.parametrize("n_classes", [1, 2, 6])
def test_every_kind_has_valid_confusion_matrices(kind, n_classes):
    confusion = crowd(30, n_classes, kind, accuracy=(0.0, 1.0))
    assert confusion.shape == (30, n_classes, n_classes)
    assert confusion.min() >= 0
    np.testing.assert_allclose(confusion.sum(axis=2), 1)


def test_kinds_match_their_description():
    k, diagonal = 4, np.arange(4)
    np.testing.assert_array_equal(crowd(3, k, "hammer"), np.tile(np.eye(k), (3, 1, 1)))
    np.testing.assert_allclose(crowd(3, k, "uniform-guess"), 1 / k)
    coin = crowd(50, k, "one-coin", accuracy=(0.6, 0.8))
    assert np.ptp(coin[:, diagonal, diagonal], axis=1).max() < 1e-12
    assert 0.6 <= coin[:, 0, 0].min() < coin[:, 0, 0].max() <= 0.8
    dependent = crowd(400, k, "class-dependent", accuracy=(0.6, 0.8))
    assert np.ptp(dependent[:, diagonal, diagonal], axis=1).mean() > 0.2
    assert dependent[:, diagonal, diagonal].mean() == pytest.approx(0.7, abs=0.02)
    adversary = crowd(50, k, "adversary", accuracy=(0.6, 0.8))
    assert adversary[:, diagonal, diagonal].max() < 1 / k
    assert adversary.max(axis=2).min() >= 0.6
    assert np.ptp(crowd(50, k, "spammer"), axis=1).max() == 0  # independent of the truth


def test_mixtures_match_their_shares():
    confusion = crowd(40, 3, {"hammer": 3, "uniform-guess": 1})
    assert (confusion[:, 0, 0] == 1).sum() == 30
    assert not (confusion[:30, 0, 0] == 1).all()  # kinds are shuffled, not in blocks


def test_similar_classes_are_confused_more_often():
    similar = np.array([[0, 9.0, 1], [9, 0, 1], [1, 1, 0]])
    mean = crowd(500, 3, "class-dependent", similar=similar).mean(axis=0)
    assert mean[0, 1] / mean[0, 2] == pytest.approx(9, rel=0.3)
    assert mean[2, 0] / mean[2, 1] == pytest.approx(1, rel=0.3)


def test_confusion_is_recovered_by_counting():
    confusion = crowd(4, 3, "class-dependent", seed=2)
    answers = answer(draw_truth(60_000, 3), confusion, 2, seed=1)
    counts = np.zeros_like(confusion)
    np.add.at(counts, (answers.worker, answers.truth[answers.task], answers.label), 1)
    total = counts.sum(axis=2, keepdims=True)
    error = np.abs(counts / total - confusion)
    assert (error < 4.5 * np.sqrt(confusion * (1 - confusion) / total) + 1e-12).all()


def test_activity_matches_the_shares():
    activity = shares(8.0, 20)
    _, worker = assign(100_000, 20, 1, activity=activity)
    np.testing.assert_allclose(np.bincount(worker) / 100_000, activity, rtol=0.08)
    _, worker = assign(1000, 5, 2, activity=np.array([1.0, 0, 0, 1, 1]))
    assert set(worker) == {0, 3, 4}  # workers without activity give no answers


def test_workers_are_drawn_without_replacement_in_proportion():
    # Two of three workers: P(pair) = p1 p2 / (1 - p1) + p1 p2 / (1 - p2), successive sampling.
    p = np.array([0.6, 0.3, 0.1])
    _, worker = assign(60_000, 3, 2, activity=p)
    missing = 3 - worker.reshape(-1, 2).sum(axis=1)
    for i, j, other in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        expected = p[i] * p[j] * (1 / (1 - p[i]) + 1 / (1 - p[j]))
        assert np.mean(missing == other) == pytest.approx(expected, abs=0.008)


def test_number_of_answers_may_be_given_per_task():
    task, _ = assign(3, 5, np.array([1, 5, 2]))
    assert np.bincount(task).tolist() == [1, 5, 2]


def share_correct(answers, tasks=slice(None)):
    correct = answers.label == answers.truth[answers.task]
    return correct[np.isin(answers.task, np.arange(answers.n_tasks)[tasks])].mean()


def test_difficulty_lowers_accuracy():
    confusion = crowd(10, 4, "one-coin", accuracy=(0.9, 0.9))
    truth = draw_truth(20_000, 4)
    hard = np.where(np.arange(20_000) < 10_000, 0.8, 0.0)
    answers = answer(truth, confusion, 2, difficulty=hard)
    assert share_correct(answers, slice(0, 10_000)) == pytest.approx(0.2 * 0.9 + 0.8 / 4, abs=0.015)
    assert share_correct(answers, slice(10_000, None)) == pytest.approx(0.9, abs=0.015)
    drawn = answer(truth, confusion, 2, difficulty=0.4)
    assert share_correct(drawn) == pytest.approx(0.6 * 0.9 + 0.4 / 4, abs=0.015)
    assert share_correct(answer(truth, confusion, 2, difficulty=1.0)) == pytest.approx(0.25, abs=0.015)


def test_shared_errors_make_wrong_answers_agree():
    truth, confusion = draw_truth(5000, 4), crowd(30, 4, "one-coin", accuracy=(0.7, 0.7))

    def agreement_of_wrong_pairs(answers):
        first, second = answers.label.reshape(-1, 2).T
        wrong = (first != truth) & (second != truth)
        return np.mean(first[wrong] == second[wrong])

    independent, misled = (answer(truth, confusion, 2, together=together) for together in (0.0, 0.6))
    assert agreement_of_wrong_pairs(independent) == pytest.approx(1 / 3, abs=0.06)
    assert agreement_of_wrong_pairs(misled) > 0.7
    assert share_correct(misled) < share_correct(independent) - 0.1
    assert krippendorff_alpha(misled) > 0.2  # although workers agree


def test_digits_have_imbalanced_classes_and_workers():
    X, answers = digits_crowd()
    assert X.shape == (answers.n_tasks, 64)
    counts = np.bincount(answers.truth)
    assert (np.diff(counts) < 0).all()
    assert imbalance_ratio(counts) == pytest.approx(10, rel=0.1)
    assert answers.n_workers == 40
    assert answers.n_answers / answers.n_tasks == pytest.approx(2.5, abs=0.01)
    per_worker = np.bincount(answers.worker, minlength=40)
    assert imbalance_ratio(per_worker) > 5
    assert 0.6 < share_correct(answers) < 0.8
    again = digits_crowd()
    np.testing.assert_array_equal(X, again[0])
    assert answers == again[1]
    assert answers != digits_crowd(seed=1)[1]


def test_digits_images_match_their_truth():
    from sklearn.datasets import load_digits

    X, answers = digits_crowd()
    images, digit = load_digits(return_X_y=True)
    digit_by_image = {image.tobytes(): d for image, d in zip(images, digit, strict=True)}
    assert [digit_by_image[image.tobytes()] for image in X] == answers.truth.tolist()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"answers_per_task": 0.5}, "from 1 to 40"),
        ({"answers_per_task": 41}, "from 1 to 40"),
        ({"answers_per_task": float("nan")}, "from 1 to 40"),
        ({"answers_per_task": np.full(1000, 2.5)}, "1000 integers"),
        ({"class_balance": "skewed"}, "'even', 'long-tail'"),
        ({"class_balance": 0.5}, "1 or more"),
        ({"class_balance": np.array([1, 2])}, "pass 4 shares"),
        ({"workers": "expert"}, "unknown kind of worker 'expert'"),
        ({"accuracy": (0.9, 0.5)}, "range"),
        ({"workers": np.ones((3, 2, 2))}, "rows that sum to one"),
        ({"difficulty": 1.5}, "between 0 and 1"),
        ({"together": -1}, "0 to 1"),
        ({"truth": [0, 1, 9], "n_classes": 4}, "0..3"),
        ({"truth": [0.5, 1.0]}, "integers"),
        ({"truth": [0, 1], "n_tasks": 3}, "pass only one"),
    ],
)
def test_invalid_parameters_are_rejected(options, error):
    with pytest.raises(ParameterError, match=error):
        simulate(**options)
