import numpy as np
import scipy.optimize

import crowdwise as cw
from crowdwise.kinds.comparisons import strengths
from crowdwise.kinds.comparisons.next_pairs import choose_pairs
from crowdwise.kinds.comparisons.strengths import Pairs, Strengths, bound, item_pairs, outcome_counts, outcome_logs


def example(ties=0.7):
    answers = cw.simulate.comparisons(n_items=7, n_comparisons=200, ties=ties, seed=3)
    pairs, of_task = item_pairs(answers)
    weight = np.random.default_rng(0).uniform(0.5, 2, answers.n_answers)
    return pairs._replace(counts=outcome_counts(of_task[answers.task], answers.label, weight, len(pairs.left)))


def unpacked(x):
    return Strengths(x[:7], x[7], x[8], 1.3)


def test_derivatives_equal_finite_differences():
    pairs, x = example(), np.random.default_rng(1).normal(size=9)
    gradient, hessian = strengths._derivatives(pairs, unpacked(x), position=True, ties=True)

    def slope(x):
        return scipy.optimize.approx_fprime(x, lambda x: bound(pairs, unpacked(x)), 1e-6)

    np.testing.assert_allclose(gradient, slope(x), atol=1e-3)
    columns = [(slope(x + step) - slope(x - step)) / 2e-3 for step in 1e-3 * np.eye(9)]
    np.testing.assert_allclose(hessian, -np.array(columns), atol=2e-2)


def test_a_sparse_solution_equals_a_dense_one(monkeypatch):
    pairs, start = example(), Strengths(np.zeros(7), 0.0, -1.0, 1.0)
    options = {"position": True, "max_iter": 50, "tol": 1e-10}
    dense, _ = strengths.maximise(pairs, start, **options)
    monkeypatch.setattr(strengths, "DENSE", 0)
    sparse, history = strengths.maximise(pairs, start, **options)
    np.testing.assert_allclose(sparse.score, dense.score, atol=1e-6)
    np.testing.assert_allclose([sparse.advantage, sparse.log_nu], [dense.advantage, dense.log_nu], atol=1e-6)
    assert (np.diff(history) >= -1e-9).all()


def test_outcomes_are_probabilities_and_swap_with_the_sides():
    at = Strengths(np.array([0.0, 1.0]), 0.0, 0.3, 1.0)
    p = np.exp(outcome_logs(Pairs(np.array([0, 1]), np.array([1, 0]), np.zeros((2, 3)), 2), at))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(p[0], p[1][[1, 0, 2]])
    assert np.isclose(p[0, 1] / p[0, 0], np.e)


def test_next_pairs_are_the_close_and_uncertain_ones():
    scores, covariance = np.array([3.0, 1.0, 0.9, -4.0]), np.diag([0.1, 0.1, 0.1, 0.1])
    left, right, worth = choose_pairs(scores, covariance, 3)
    assert {left[0], right[0]} == {1, 2} and (np.diff(worth) <= 0).all()
    uncertain = np.diag([0.1, 0.1, 0.1, 50.0])
    left, right, _ = choose_pairs(scores, uncertain, 1)
    assert 3 in (left[0], right[0])
