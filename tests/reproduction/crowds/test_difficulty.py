"""The difficulty paper's simulations: measured error rates agree with its equations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm

from crowdwise.errors import ParameterError
from crowdwise.evaluate import sensitivity, specificity
from reproduction.crowds.difficulty import SKILL, gaussian_mixture, structural_answers, unstructured_answers


def fits(counts, expected):
    """Whether counts of independent binary cells (cells, 2) are as expected: a chi-squared test at 0.1 %."""
    statistic = ((counts - expected) ** 2 / expected).sum()
    return statistic < chi2.ppf(0.999, len(counts))


def test_points_of_the_paper_are_reproduced():
    """The authors drew class 1 before class 0, x1 before x2, training before test, from numpy's old stream 1228."""
    X, truth, p, X_test, truth_test = gaussian_mixture(seed="paper", constant=True)
    old = np.random.RandomState(1228).normal(size=4000)
    np.testing.assert_allclose(X[:500, 0], old[:500] + 1)
    np.testing.assert_allclose(X[:500, 1], old[500:1000] + 1)
    np.testing.assert_allclose(X[500:, 0], old[1000:1500] - 1)
    np.testing.assert_allclose(X_test[500:, 1], old[3500:] - 1)
    assert (X[:, 2] == 1).all() and (X_test[:, 2] == 1).all()
    assert truth.tolist() == truth_test.tolist() == [1] * 500 + [0] * 500
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-X[:, 0] - X[:, 1])))
    assert np.mean((X_test[:, :2].sum(axis=1) > 0) == truth_test) == 0.941  # the ceiling of the paper's Table 1


def test_mixture_has_the_documented_moments():
    X, truth, _, X_test, truth_test = gaussian_mixture(40_000, 40_001, seed=3)
    assert np.bincount(truth).tolist() == [20_000, 20_000] and np.bincount(truth_test).tolist() == [20_000, 20_001]
    for c, mean in ((1, 1.0), (0, -1.0)):
        np.testing.assert_allclose(X[truth == c].mean(axis=0), mean, atol=0.03)
        np.testing.assert_allclose(np.cov(X[truth == c].T), np.eye(2), atol=0.05)
    best = np.mean((X_test.sum(axis=1) > 0) == truth_test)
    assert abs(best - norm.cdf(np.sqrt(2))) < 4 * np.sqrt(0.92 * 0.08 / 40_001)
    again = gaussian_mixture(40_000, 10, seed=3)
    np.testing.assert_array_equal(again.X, X)
    assert not np.array_equal(gaussian_mixture(seed=4).X, gaussian_mixture(seed=5).X)


def test_structural_answers_have_the_error_rates_of_the_equations():
    """Every cell of (p, truth, worker), with the paper's formula written out."""
    levels, each = np.array([0.0, 0.1, 0.35, 0.5, 0.8, 1.0]), 4000
    p, truth = (a.ravel() for a in np.meshgrid(np.repeat(levels, each), [0, 1]))
    answers = structural_answers(truth, p, seed=1)
    right = answers.label == truth[answers.task]
    counts, expected = [], []
    for level in levels:
        for c in (0, 1):
            for w in range(5):
                own = (answers.worker == w) & (p[answers.task] == level) & (truth[answers.task] == c)
                lam = 4 * np.log(SKILL[w, c] / (1 - SKILL[w, c]))
                rate = 1 / (1 + np.exp(-lam * (level - 0.5) ** 2))
                assert own.sum() == each
                counts.append([right[own].sum(), each - right[own].sum()])
                expected.append([each * rate, each * (1 - rate)])
    assert fits(np.array(counts), np.array(expected))
    assert not fits(np.array(counts), np.roll(expected, 10, axis=0))  # the check can fail
    clear = (p == 0) | (p == 1)  # where skill itself is reached: column 0 is the specificity
    known = np.where(clear, truth, -1)
    np.testing.assert_allclose(specificity(answers, known), SKILL[:, 0], atol=0.025)
    np.testing.assert_allclose(sensitivity(answers, known), SKILL[:, 1], atol=0.025)


def test_equations_hold_for_more_than_two_classes():
    """Certain tasks reach the skill, uniform ones a guess; errors are uniform."""
    skill = np.array([[0.9, 0.6, 0.7]])
    p = np.repeat([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]], 6000, axis=0)
    truth = np.tile([0, 1, 2], 4000)
    answers = structural_answers(truth, p, skill, seed=2)
    for hard, expected in ((False, skill[0]), (True, np.full(3, 1 / 3))):
        for c in range(3):
            said = np.bincount(answers.label[((p[:, 0] < 1) == hard) & (truth == c)], minlength=3)
            want = np.full(3, (1 - expected[c]) / 2)
            want[c] = expected[c]
            assert ((said - 2000 * want) ** 2 / (2000 * want)).sum() < chi2.ppf(0.999, 2)


def test_unstructured_answers_have_the_same_error_rate_everywhere():
    """Summed over k, each answer errs independently at the mean rate: the paper's second crowd."""
    truth = np.repeat([0, 1], 10_000)
    answers = unstructured_answers(truth, 3, seed=5)
    wrong = (answers.label != truth[answers.task]).reshape(-1, 3)  # answers are sorted by task, then worker
    rate = np.mean([1 / (3 + k) for k in range(6)])
    assert rate == pytest.approx(0.203, abs=5e-4)
    for c in (0, 1):
        for w in range(3):
            n = wrong[truth == c, w].sum()
            assert fits(np.array([[n, 10_000 - n]]), 10_000 * np.array([[rate, 1 - rate]]))
    patterns = np.bincount(wrong @ [4, 2, 1], minlength=8)  # of the three workers' errors on a task
    bits = (np.arange(8)[:, None] >> np.array([2, 1, 0])) & 1
    expected = len(truth) * np.prod(np.where(bits, rate, 1 - rate), axis=1)
    assert ((patterns - expected) ** 2 / expected).sum() < chi2.ppf(0.999, 7)
    code = unstructured_answers(truth, 3, errors=1 / np.arange(3, 8), seed=5)
    assert np.mean(code.label != truth[code.task]) == pytest.approx(0.2186, abs=0.006)


def test_errors_of_a_task_are_dependent_if_its_rate_is_shared():
    """Oracle: enumeration over the k of a task, which all its workers share."""
    errors = np.array([0.05, 0.5])
    truth = np.repeat([0, 1, 2], 5000)
    answers = unstructured_answers(truth, 2, 3, errors=errors, per="task", seed=6)
    wrong = (answers.label != truth[answers.task]).reshape(-1, 2)
    patterns = np.bincount(wrong @ [2, 1], minlength=4)
    expected = len(truth) * np.array(
        [np.mean((1 - errors) ** 2), np.mean(errors * (1 - errors)), np.mean(errors * (1 - errors)), np.mean(errors**2)]
    )
    assert ((patterns - expected) ** 2 / expected).sum() < chi2.ppf(0.999, 3)
    shift = ((answers.label - truth[answers.task]) % 3)[wrong.ravel()]  # which of the two wrong classes
    assert abs(np.mean(shift == 1) - 0.5) < 4 * 0.5 / np.sqrt(len(shift))


def test_answers_follow_the_seed_and_the_number_per_task():
    truth, p = np.tile([0, 1], 50), np.linspace(0, 1, 100)
    answers = structural_answers(truth, p, answers_per_task=2, classes=["cat", "dog"], seed=7)
    assert (answers.n_answers, answers.n_workers, answers.classes.tolist()) == (200, 5, ["cat", "dog"])
    assert np.bincount(answers.task).tolist() == [2] * 100
    assert answers == structural_answers(truth, p, answers_per_task=2, classes=["cat", "dog"], seed=7)
    assert answers != structural_answers(truth, p, answers_per_task=2, classes=["cat", "dog"], seed=8)
    assert structural_answers(truth, 1 - p, seed=7) == structural_answers(
        truth, p, seed=7
    )  # only the distance from uniform matters
    both = np.column_stack([1 - p, p])
    assert structural_answers(truth, both, seed=7) == structural_answers(truth, p, seed=7)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: gaussian_mixture(seed="Paper"), "seed"),
        (lambda: gaussian_mixture(500, seed="paper"), "1000 tasks"),
        (lambda: gaussian_mixture(seed=-1), "seed=-1: use an integer"),
        (lambda: gaussian_mixture(-5), "n_train=-5"),
        (lambda: gaussian_mixture(n_test=2.5), "n_test=2.5"),
        (lambda: gaussian_mixture(constant="no"), "True or False"),
        (lambda: structural_answers([0, 1], [0.5, 0.5], seed=-1), "seed=-1"),
        (lambda: unstructured_answers([0, 1], seed=0.5), "seed=0.5"),
        (lambda: structural_answers([0, 2], [0.5, 0.5]), "0..1"),
        (lambda: structural_answers([0, 1], [0.5, 1.5]), "probabilities"),
        (lambda: structural_answers([0, 1], [0.5]), "2 x 2"),
        (lambda: structural_answers([0, 1], [0.5, 0.5], [[1.0, 0.5]]), "below 1"),
        (lambda: unstructured_answers([0, 1], errors=[1.2]), "errors"),
        (lambda: unstructured_answers([0, 1], per="worker"), "per"),
        (lambda: unstructured_answers([0.5]), "codes"),
    ],
)
def test_impossible_settings_are_rejected(call, word):
    with pytest.raises(ParameterError, match=word):
        call()
