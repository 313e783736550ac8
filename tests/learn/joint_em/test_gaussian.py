import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from crowdwise.learn.joint_em.gaussian import GaussianClassifier
from tests.helpers.crowds import blobs as drawn


def blobs(**options):
    """Return centred blobs, as views are centred."""
    X, truth = drawn(**options)
    return X - X.mean(axis=0), truth


def soft(truth, n_classes=3, seed=0):
    """Return soft labels (1, tasks, classes)."""
    noise = np.random.default_rng(seed).dirichlet(np.ones(n_classes), len(truth))
    return (0.8 * np.eye(n_classes)[truth] + 0.2 * noise)[None]


def test_lda_equals_scikit_learn():
    X, truth = blobs(n_tasks=300, n_classes=3, distance=1.5)
    ours = GaussianClassifier(X, None, None, shrinkage=0.0)
    ours.fit(np.eye(3)[truth][None])
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(X, truth)
    both = ours.predict(X) * np.bincount(truth)  # our classifier leaves out the class shares
    np.testing.assert_allclose(both / both.sum(axis=1, keepdims=True), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("own", [0.3, 1.0])
def test_qda_follows_bayes_rule(own):
    X, truth = blobs(n_tasks=200, n_classes=3, distance=1.5)
    target = soft(truth)[0]
    ours = GaussianClassifier(X, None, None, shrinkage=0.1, own=own)
    ours.fit(target[None])
    n = target.sum(axis=0)
    mean = target.T @ X / n[:, None]
    scatter = [(X - mean[c]).T * target[:, c] @ (X - mean[c]) for c in range(3)]
    ridge = 0.1 * (X - X.mean(axis=0)).var(axis=0).mean() * np.eye(X.shape[1])
    shared = 0.9 * sum(scatter) / len(X) + ridge
    joint = np.stack(
        [
            multivariate_normal(mean[c], (1 - own) * shared + own * (0.9 * scatter[c] / n[c] + ridge)).pdf(X)
            for c in range(3)
        ],
        axis=1,
    )
    np.testing.assert_allclose(ours.predict(X), joint / joint.sum(axis=1, keepdims=True), atol=1e-3)


@pytest.mark.parametrize("own", [0.0, 0.4])
def test_fold_classifiers_equal_fits_without_the_fold(own):
    X, truth = blobs(n_tasks=120, n_classes=3, distance=1.5)
    folds, target = np.arange(120) % 4, soft(truth)
    weight = np.random.default_rng(1).uniform(0.5, 2, 120)
    ours = GaussianClassifier(X, weight, folds, shrinkage=0.0, own=own)
    ours.fit(target)
    for k in range(4):
        kept = folds != k
        alone = GaussianClassifier(X[kept], weight[kept], None, shrinkage=0.0, own=own)
        alone.fit(target[:, kept])
        np.testing.assert_allclose(ours.proba()[0][~kept], alone.predict(X[~kept]), atol=1e-4)


def test_a_weight_of_two_equals_a_repeated_task():
    X, truth = blobs(n_tasks=60, n_classes=3, distance=1.5)
    target, weight = soft(truth), np.where(np.arange(60) < 20, 2.0, 1.0)
    twice = np.concatenate([np.arange(60), np.arange(20)])
    by_weight, by_rows = GaussianClassifier(X, weight, None, own=0.2), GaussianClassifier(X[twice], None, None, own=0.2)
    by_weight.fit(target)
    by_rows.fit(target[:, twice])
    np.testing.assert_allclose(by_weight.predict(X), by_rows.predict(X), atol=1e-8)


def test_empty_classes_and_constant_features_give_finite_probabilities():
    X, truth = blobs(n_tasks=40, n_classes=3)
    for own in (0.0, 0.2):
        for x in (X, np.zeros_like(X)):
            model = GaussianClassifier(x, None, np.arange(40) % 5, own=own)
            model.fit(np.eye(4)[truth][None])
            assert np.isfinite(model.proba()).all()


def test_probabilities_do_not_depend_on_class_shares():
    X, truth = blobs(n_tasks=600, n_classes=2, distance=1.0)
    rare = np.concatenate([np.flatnonzero(truth == 0), np.flatnonzero(truth == 1)[:60]])
    few, all_ = GaussianClassifier(X[rare], None, None), GaussianClassifier(X, None, None)
    few.fit(np.eye(2)[truth[rare]][None])
    all_.fit(np.eye(2)[truth][None])
    assert abs(few.predict(X)[:, 1].mean() - all_.predict(X)[:, 1].mean()) < 0.05


def test_the_penalty_uses_learned_or_equal_shares():
    X, truth = blobs(n_tasks=200, n_classes=2, distance=1.0)
    rare = np.concatenate([np.flatnonzero(truth == 0), np.flatnonzero(truth == 1)[:10]])
    learned, equal = (GaussianClassifier(X[rare], None, None, equal_shares=equal) for equal in (False, True))
    for model in (learned, equal):
        model.fit(np.eye(2)[truth[rare]][None])
    np.testing.assert_array_equal(learned.proba(), equal.proba())
    densities = learned._densities()
    share = np.bincount(truth[rare]) / len(rare)
    gap = np.logaddexp.reduce(densities + np.log(share), axis=1) - np.logaddexp.reduce(densities - np.log(2), axis=1)
    assert equal.penalty() - learned.penalty() == pytest.approx(gap.sum())
