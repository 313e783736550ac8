import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from crowdwise.learn.joint_em.views import VIEWS, MainAxes, fit_view, n_axes, restore_view, signed_root, view_parameters


def features(n=200, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.gamma(2, size=(n, d)) * rng.uniform(0.1, 10, d)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_restored_from_its_parameters(name):
    X, new = features(), features(seed=1)
    view, transformed = fit_view(name, X)
    assert isinstance(view, Pipeline)
    np.testing.assert_allclose(view.transform(X), transformed, atol=1e-10)
    restored = restore_view(name, {key: value.copy() for key, value in view_parameters(view).items()})
    np.testing.assert_array_equal(restored.transform(new), view.transform(new))
    assert np.square(transformed).mean() == pytest.approx(1)
    np.testing.assert_allclose(transformed.mean(axis=0), 0, atol=1e-10)


@pytest.mark.parametrize("name", VIEWS)
def test_units_change_nothing_and_rank_ignores_monotone_transformations(name):
    X = features()
    _, transformed = fit_view(name, X)
    _, larger = fit_view(name, X * 1e3)
    np.testing.assert_allclose(np.abs(larger), np.abs(transformed), rtol=1e-5, atol=1e-8)
    if name in ("standard", "rank"):  # each feature may have its own unit
        _, other = fit_view(name, X * np.geomspace(1e-12, 1e3, 6))
        np.testing.assert_allclose(np.abs(other), np.abs(transformed), rtol=1e-4, atol=1e-6)
    if name == "rank":
        _, bent = fit_view(name, np.log(X + 1e-9))
        np.testing.assert_allclose(np.abs(bent), np.abs(transformed), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", VIEWS)
def test_constant_and_large_features_have_finite_views(name):
    X = features()
    X[:, 2] = 7
    for x in (X, np.full((30, 3), 4.0), (X * 1e28).astype(np.float32), X[:1], X + 1e7):
        view, transformed = fit_view(name, x)
        assert np.isfinite(transformed).all()
        assert np.isfinite(view.transform(np.asarray(x, float))).all()


def test_a_large_offset_loses_no_precision():
    X = features()
    _, transformed = fit_view("plain", X)
    _, shifted = fit_view("plain", X + 1e8)
    np.testing.assert_allclose(np.abs(shifted), np.abs(transformed), atol=1e-5)


def test_the_number_of_axes_grows_with_tasks_and_keeps_the_largest_variances():
    assert n_axes(10, 100) == 9
    assert n_axes(800, 512) == 100
    X = np.random.default_rng(0).normal(size=(300, 100)) * np.linspace(1, 5, 100)
    _, transformed = fit_view("plain", X)
    assert transformed.shape == (300, 64)
    assert (np.diff(transformed.var(axis=0)) <= 1e-9).all()
    assert transformed.var(axis=0)[0] > 1 > transformed.var(axis=0)[-1]


def test_principal_axes_are_the_same_with_more_features_than_tasks():
    X = np.random.default_rng(0).normal(size=(40, 60)) * np.linspace(1, 5, 60)
    wide = MainAxes().fit(X)
    _, axes = np.linalg.eigh(np.cov(X.T))
    expected = (X - X.mean(axis=0)) @ axes[:, ::-1][:, : wide.axes_.shape[0]]
    transformed = wide.transform(X)
    assert transformed.shape == (40, 39)
    np.testing.assert_allclose(np.abs(transformed), np.abs(expected / np.sqrt(np.square(expected).mean())), atol=1e-8)
    flat = MainAxes().fit(np.repeat(X[:, :1], 60, axis=1))  # a single direction
    assert np.isfinite(flat.axes_).all()
    assert np.square(flat.transform(np.repeat(X[:, :1], 60, axis=1)))[:, 1:].max() < 1e-12


def test_signed_root_is_odd():
    x = features() - 1
    np.testing.assert_allclose(signed_root(-x), -signed_root(x))
    np.testing.assert_allclose(np.square(signed_root(x)), np.abs(x))
