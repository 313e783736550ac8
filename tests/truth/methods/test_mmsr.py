"""M-MSR: counts by brute force, exact rank one, adversaries and corrupted pairs."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from crowdwise import MMSR, Answers, MajorityVote
from crowdwise.errors import ParameterError, WeightError
from crowdwise.truth.methods.mmsr import shared_tasks, signs, trimmed_means, weighted_vote


def crowd(rng, accuracy, n_tasks=1000, n_classes=2, per_task=5):
    """Workers with these accuracies, errors spread evenly over the wrong classes, tasks assigned at random."""
    truth = rng.integers(n_classes, size=n_tasks)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.argsort(rng.random((n_tasks, len(accuracy))), axis=1)[:, :per_task].ravel()
    right = rng.random(len(task)) < accuracy[worker]
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, n_classes, len(task))) % n_classes)
    answers = Answers.from_codes(task, worker, label, tasks=n_tasks, workers=len(accuracy), classes=n_classes)
    return answers, truth


def everyone(n):
    """All pairs of n workers: starts, partner, and the first worker of each pair."""
    own, partner = np.nonzero(~np.eye(n, dtype=bool))
    return np.arange(n + 1) * (n - 1), partner.astype(np.int32), own


def test_shared_tasks_by_brute_force():
    answers, _ = crowd(np.random.default_rng(0), np.full(7, 0.6), n_tasks=8, n_classes=3, per_task=3)
    table = np.full((7, 8), -1)
    table[answers.worker, answers.task] = answers.label
    starts, partner, common, agreed = shared_tasks(answers)
    own = np.repeat(np.arange(7), np.diff(starts))
    found = {(int(w), int(v)): (c, a) for w, v, c, a in zip(own, partner, common, agreed, strict=True)}
    for w, v in product(range(7), repeat=2):
        met = (table[w] >= 0) & (table[v] >= 0)
        expected = (met.sum(), (met & (table[w] == table[v])).sum())
        assert found.pop((w, v), (0, 0)) == (expected if w != v else (0, 0))
    assert not found


def test_trimmed_mean_matches_scipy_with_equal_weights():
    rng = np.random.default_rng(1)
    starts, partner, own = everyone(11)
    covariance = rng.uniform(0.1, 0.5, len(own))
    found = trimmed_means(starts, partner, covariance, np.ones(len(own)), np.full(11, 0.5), 0.2, 1e-3)
    np.testing.assert_allclose(found, [stats.trim_mean(covariance[own == w] / 0.5, 0.2) for w in range(11)])


def test_signs_of_a_crowd_with_opponents():
    side = np.array([1, 1, 1, -1, 1, -1, 1, 1.0])
    starts, partner, own = everyone(8)
    affinity = side[own] * side[partner]
    np.testing.assert_array_equal(signs(starts, partner, affinity), side)
    affinity[[0, 9, 30]] *= -1  # outliers
    np.testing.assert_array_equal(signs(starts, partner, affinity), side)


def test_rank_one_with_corrupted_pairs_is_completed():
    rng = np.random.default_rng(2)
    skill = rng.uniform(0.3, 0.9, 30)
    starts, partner, own = everyone(30)
    covariance = skill[own] * skill[partner]
    covariance[(partner < 4) | (own < 4)] = 1.0  # four workers who agree with everyone
    size = np.full(30, 0.5)
    for _ in range(60):
        size = np.sqrt(size * trimmed_means(starts, partner, covariance, np.ones(len(own)), size, 0.4, 1e-3))
    np.testing.assert_allclose(size[4:], skill[4:], atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_is_robust_to_adversaries(n_classes):
    rng = np.random.default_rng(3)
    accuracy = np.r_[rng.uniform(0.6, 0.95, 26), rng.uniform(0, 0.08, 14)]  # 14 of 40 are adversarial
    answers, truth = crowd(rng, accuracy, n_classes=n_classes)
    model = MMSR().fit(answers)
    ours, vote = (model.codes_ == truth).mean(), (MajorityVote().fit(answers).codes_ == truth).mean()
    assert ours > 0.89 and ours > vote + 0.15
    assert (model.skill_[26:] < 0).all() and (model.skill_[:26] > 0).all()
    np.testing.assert_allclose(model.accuracy_, accuracy, atol=0.15)
    np.testing.assert_allclose(np.corrcoef(model.accuracy_, accuracy)[0, 1], 1, atol=0.03)
    assert model.converged_ and model.n_iter_ == len(model.history_)


def test_pairs_with_few_common_tasks_do_not_inflate_skills():
    rng = np.random.default_rng(4)
    accuracy = np.where(np.arange(150) < 75, 0.9, 0.55)
    answers, _ = crowd(rng, accuracy, n_tasks=900)
    _, _, common, _ = shared_tasks(answers)
    assert np.median(common) <= 1  # |C| is 1 for most pairs
    skill = MMSR().fit(answers).skill_
    assert skill[:75].mean() - skill[75:].mean() > 0.3


def test_disconnected_groups_of_workers_converge():
    rng = np.random.default_rng(5)
    one, truth_one = crowd(rng, np.full(8, 0.8), n_tasks=100)
    two, truth_two = crowd(rng, np.full(8, 0.8), n_tasks=100)
    both = Answers.from_codes(
        np.r_[one.task, two.task + 100], np.r_[one.worker, two.worker + 8], np.r_[one.label, two.label],
        tasks=200, workers=16, classes=2,
    )  # fmt: skip
    model = MMSR().fit(both)
    assert model.converged_
    assert (model.codes_ == np.r_[truth_one, truth_two]).mean() > 0.9


def test_posteriors_by_enumeration():
    answers, _ = crowd(np.random.default_rng(6), np.full(5, 0.7), n_tasks=4, n_classes=3, per_task=3)
    accuracy = np.linspace(0.2, 0.9, 5)
    likelihood = np.ones((4, 3))
    for t, w, label in zip(answers.task, answers.worker, answers.label, strict=True):
        likelihood[t] *= np.where(np.arange(3) == label, accuracy[w], (1 - accuracy[w]) / 2)
    expected = likelihood / likelihood.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weighted_vote(answers, accuracy), expected)


def test_a_worker_who_shares_no_task_gets_the_average_skill():
    rng = np.random.default_rng(7)
    answers, _ = crowd(rng, np.full(8, 0.85), n_tasks=100)
    alone = Answers.from_codes(
        np.r_[answers.task, np.arange(100, 200)], np.r_[answers.worker, np.full(100, 8)],
        np.r_[answers.label, rng.integers(2, size=100)], tasks=200, workers=9, classes=2,
    )  # fmt: skip
    model = MMSR().fit(alone)
    np.testing.assert_allclose(model.skill_[8], model.skill_[:8].mean(), atol=0.01)
    np.testing.assert_array_equal(model.codes_[100:], alone.label[-100:])


def test_gold_is_kept():
    answers, truth = crowd(np.random.default_rng(8), np.full(8, 0.9), n_tasks=50)
    gold = np.where(np.arange(50) < 5, 1 - truth, -1)
    np.testing.assert_array_equal(MMSR().fit(answers, gold).codes_[:5], gold[:5])


def test_one_class_is_fitted():
    answers = Answers.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "x", "x"])
    assert MMSR().fit(answers).proba_.tolist() == [[1.0], [1.0]]


def test_callback_is_called_in_every_round():
    answers, _ = crowd(np.random.default_rng(9), np.full(8, 0.7), n_tasks=50)
    heard = []
    model = MMSR(max_iter=4, tol=0).fit(answers, callback=lambda i, change: heard.append((i, change)))
    assert heard == list(enumerate(model.history_)) and len(heard) == 4


def test_invalid_parameters_and_weights_raise():
    with pytest.raises(WeightError):
        MMSR().fit(Answers.from_arrays([1, 1], ["a", "b"], ["x", "y"], weight=[1.0, 2.0]))
    for wrong in ({"trim": 0.5}, {"max_iter": 0}, {"tol": -1}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            MMSR(**wrong).fit(Answers.from_arrays([1], ["a"], ["x"]))
