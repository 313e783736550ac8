"""Platt scaling with a prior."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from crowdwise.errors import ParameterError
from crowdwise.trust import platt_scaling
from crowdwise.truth.methods.pool import logit


def test_without_gold_nothing_changes():
    scaling = platt_scaling(np.empty(0), np.empty(0))
    assert (scaling.intercept, scaling.slope, scaling.n_gold) == (0, 1, 0)


def test_it_maximises_the_posterior():
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0.4, 0.999, 80)
    correct = rng.random(80) < expit(-0.5 + 0.6 * logit(confidence))

    def loss(theta):
        score = theta[0] + theta[1] * logit(confidence)
        return -log_expit(np.where(correct, score, -score)).sum() + theta[0] ** 2 / 2 + 2 * (theta[1] - 1) ** 2

    best = minimize(loss, [0, 1], tol=1e-10).x
    scaling = platt_scaling(confidence, correct)
    np.testing.assert_allclose([scaling.intercept, scaling.slope], best, atol=1e-4)


def test_mean_confidence_meets_accuracy_and_order_stays():
    rng = np.random.default_rng(2)
    confidence = rng.uniform(0.5, 0.999, 500)
    correct = rng.random(500) < 0.5
    scaled = platt_scaling(confidence, correct)(confidence)
    assert abs(scaled.mean() - correct.mean()) < 0.03
    assert (np.diff(scaled[np.argsort(confidence)]) >= 0).all()


def test_shapes_are_checked():
    with pytest.raises(ParameterError, match="equal length"):
        platt_scaling(np.ones(3), np.ones(2))
