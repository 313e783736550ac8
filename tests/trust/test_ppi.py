"""Prediction-powered means: the published formulas written out, survey sampling's exact results, and simple limits."""

import numpy as np
import pytest
from scipy.stats import norm

from crowdwise.errors import GoldError, ParameterError
from crowdwise.trust.gold_sample import uniform_sample, weighted_sample
from crowdwise.trust.ppi import _variance, ppi_mean, rectified_mean

# ppi_mean_ci of ppi-python 0.2.3 with alpha=0.05 for `draw()`.
PPI_PYTHON = {
    "tuned": (0.18912779170365218, 0.3630279855963981),
    "classical": (0.1869975536490489, 0.3636584520793571),
    "weighted": (0.18265499898597073, 0.3706126732183901),
}


def draw(n=60, rest=500, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n + rest) < 0.3).astype(float)
    f = np.clip(0.2 + 0.6 * y + rng.normal(0, 0.35, n + rest), 0, 1)
    return y[:n], f[:n], f[n:]


def published(y, f, rest, lam, alpha):
    """ppi-python's mean: rectifier and imputed variance with divisor n, normal quantiles."""
    value = lam * rest.mean() + (y - lam * f).mean()
    error = np.sqrt(np.var(lam * rest) / len(rest) + np.var(y - lam * f) / len(y))
    return value, value - norm.isf(alpha / 2) * error, value + norm.isf(alpha / 2) * error


@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
def test_published_interval(lam):
    y, f, rest = draw()
    np.testing.assert_allclose(ppi_mean(y, f, rest, lam=lam, alpha=0.1), published(y, f, rest, lam, 0.1))


def test_power_tuning_as_published():
    y, f, rest = draw()
    n, both = len(y), np.concatenate([f, rest])
    lam = np.cov(y, f, ddof=0)[0, 1] / both.var(ddof=1) / (1 + n / len(rest))
    assert 0 < lam < 1
    np.testing.assert_allclose(ppi_mean(y, f, rest), published(y, f, rest, lam, 0.05))


def test_values_of_ppi_python():
    y, f, rest = draw()
    np.testing.assert_allclose(ppi_mean(y, f, rest)[1:], PPI_PYTHON["tuned"], atol=1e-12)
    np.testing.assert_allclose(ppi_mean(y, f, rest, lam=1)[1:], PPI_PYTHON["classical"], atol=1e-12)
    weights = 1 + np.arange(60) % 3
    np.testing.assert_allclose(ppi_mean(y, f, rest, gold_weights=weights)[1:], PPI_PYTHON["weighted"], atol=1e-12)


def test_same_estimate_as_ppi_for_the_same_weight():
    """All tasks = gold and the rest: lam of all tasks is lam N / (n + N) of the rest."""
    y, f, rest = draw()
    everything = np.concatenate([f, rest])
    ours = rectified_mean(y, everything, np.arange(60), uniform_sample(60, 560), lam=0.7)
    assert ours.value == pytest.approx(ppi_mean(y, f, rest, lam=0.7 * 500 / 560).value)


def test_variance_is_exact_for_simple_random_samples():
    """The estimated variance, averaged over all samples, is the variance over all samples."""
    from itertools import combinations

    values = np.array([0.0, 0.3, 1.0, 0.2, 0.9, 0.4])
    samples = [values[list(rows)] for rows in combinations(range(6), 3)]
    estimated = np.mean([_variance(part, uniform_sample(3, 6)) for part in samples])
    assert estimated == pytest.approx(np.var([part.mean() for part in samples]))


def test_variance_of_strata():
    values, stratum = np.array([0.0, 1.0, 2.0, 5.0, 6.0]), np.array([0, 0, 0, 1, 1])
    sample = weighted_sample(np.array([0.3, 0.3, 0.3, 0.1, 0.1]), 30, stratum)  # 3 of 10 and 2 of 20
    expected = (1 / 3) ** 2 * 0.7 * 1.0 / 3 + (2 / 3) ** 2 * 0.9 * 0.5 / 2
    assert _variance(values, sample) == pytest.approx(expected)


def test_gold_alone_is_wilson():
    y = np.repeat([1.0, 0.0], [30, 70])
    found = rectified_mean(y, np.zeros(10**6), np.arange(100), uniform_sample(100, 10**6))
    assert found.value == pytest.approx(0.3)  # the last bit of a sum depends on the processor
    assert found.lam == 0.0
    assert (found.low, found.high) == (found.gold_low, found.gold_high) == pytest.approx((0.2189, 0.3958), abs=1e-4)


def test_useless_and_perfect_predictions():
    rng = np.random.default_rng(1)
    truth = (rng.random(3000) < 0.4).astype(float)
    rows, sample = np.arange(100), uniform_sample(100, 3000)
    useless = rectified_mean(truth[rows], rng.random(3000), rows, sample)
    assert useless.width == pytest.approx(useless.gold_width, rel=0.03) and useless.width <= useless.gold_width
    perfect = rectified_mean(truth[rows], truth, rows, sample)
    assert perfect.value == pytest.approx(truth.mean(), abs=1e-3) and perfect.width < 0.2 * perfect.gold_width


@pytest.mark.parametrize("signed", [False, True])
def test_constant_gold_still_has_an_interval(signed):
    value = 0.0 if signed else 1.0
    found = rectified_mean(
        np.full(20, value), np.linspace(0, 1, 500), np.arange(20), uniform_sample(20, 500), signed=signed
    )
    assert found.value == value and found.width > 0.05


def test_census_has_no_uncertainty():
    y = np.repeat([1.0, 0.0], [5, 15])
    found = rectified_mean(y, y, np.arange(20), uniform_sample(20, 20))
    assert (found.low, found.value, found.high) == pytest.approx((0.25, 0.25, 0.25))
    source = rectified_mean(y, y, np.arange(20), uniform_sample(20, 20), population="source")
    assert source.width > 0.3


def test_refusals():
    with pytest.raises(GoldError, match="9 gold values are too few"):
        rectified_mean(np.ones(9), np.ones(50), np.arange(9), uniform_sample(9, 50))
    with pytest.raises(ParameterError, match="gold_predictions"):
        ppi_mean([1, 0, 1], [1, 0], [1, 1])
    with pytest.raises(ParameterError, match="alpha"):
        ppi_mean([1, 0, 1], [1, 0, 1], [1, 1], alpha=0)
