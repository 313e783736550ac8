import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.linear_model import LogisticRegression

from crowdwise.learn.joint_em.logistic import _value_and_slope, fit_logistic, predict_logistic


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    target = rng.dirichlet(np.ones(3), size=120)
    return x, target, rng.uniform(0, 2, 120)


def test_the_gradient_matches_finite_differences(problem):
    x, target, weight = problem
    soft = target * weight[:, None]
    start = np.random.default_rng(1).normal(size=15)
    error = check_grad(
        lambda w: _value_and_slope(x, soft, 0.7, w.reshape(5, 3))[0],
        lambda w: _value_and_slope(x, soft, 0.7, w.reshape(5, 3))[1],
        start,
    )
    assert error < 1e-4


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_hard_labels_give_the_fit_of_scikit_learn(problem, solver):
    x, _, weight = problem
    label = np.random.default_rng(2).integers(0, 3, 120)
    coef, _ = fit_logistic(x, np.eye(3)[label], weight=weight, ridge=0.5, solver=solver, max_iter=500)
    theirs = LogisticRegression(C=2.0, tol=1e-10, max_iter=5000).fit(x, label, sample_weight=weight)
    np.testing.assert_allclose(predict_logistic(x, coef), theirs.predict_proba(x), atol=1e-5)


def test_both_solvers_agree_and_never_lower_the_objective(problem):
    x, target, weight = problem
    newton, cost = fit_logistic(x, target, weight=weight, solver="newton")
    lbfgs, _ = fit_logistic(x, target, weight=weight, solver="lbfgs", max_iter=1000)
    np.testing.assert_allclose(predict_logistic(x, newton), predict_logistic(x, lbfgs), atol=1e-5)
    assert cost > 0
    soft = target * weight[:, None]
    start = np.random.default_rng(3).normal(size=(5, 3)) * 5
    for solver in ("newton", "lbfgs"):
        better, _ = fit_logistic(x, target, weight=weight, coef=start, solver=solver, max_iter=2)
        assert _value_and_slope(x, soft, 1.0, better)[0] <= _value_and_slope(x, soft, 1.0, start)[0]


def test_separable_and_constant_features_stay_finite():
    x = np.column_stack([np.repeat([-1.0, 1.0], 20), np.zeros(40)])
    for solver in ("newton", "lbfgs"):
        coef, _ = fit_logistic(x, np.eye(2)[np.repeat([0, 1], 20)], ridge=0.0, solver=solver, max_iter=50)
        assert np.isfinite(coef).all()
