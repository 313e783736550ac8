"""Probabilities are calibrated on crowds drawn from the model: a small part of `python -m benchmarks statistics`."""

import numpy as np
import pytest

from benchmarks import statistical_checks as checks

TINY = {"n_tasks": 6, "n_workers": 4, "k": 2, "per_task": 3}


def test_ranks_in_the_exact_posterior_are_uniform():
    result = checks.rank_check(checks.exact_draws, **TINY, replicates=250)
    assert result["accuracy"]["p"] > 0.01
    assert result["share"]["p"] > 0.01
    assert abs(result["classes"]["confidence"] - result["classes"]["accuracy"]) < 0.02
    assert result["classes"]["ece"] < 0.04


def test_overconfident_posterior_is_detected():
    """The spread of the confusion matrices is that of three times as many answers."""

    def overconfident(answers, rng, prior, n):
        pi, matrices, proba = checks.exact_draws(answers, rng, prior, n)
        centre = matrices.mean(axis=0)
        return pi, centre + (matrices - centre) / np.sqrt(3), proba

    assert checks.rank_check(overconfident, **TINY, replicates=200)["accuracy"]["p"] < 1e-4


def test_exact_posterior_follows_bayes_rule():
    """Oracle: the frequency of each truth among simulated crowds that gave exactly these answers."""
    rng = np.random.default_rng(0)
    prior = (1.0, 3.0, 0.5)
    task, worker = np.array([0, 0, 1]), np.array([0, 1, 0])
    label = np.array([0, 1, 0])
    answers = checks.cw.Answers.from_codes(task, worker, label, tasks=2, workers=2, classes=2)
    proba = checks.exact_draws(answers, rng, prior, 1)[2]
    n = 40_000
    shares = checks.dirichlet_rows(rng, np.ones((n, 2)))
    confusion = checks.dirichlet_rows(rng, np.broadcast_to(checks.diagonal(2, 2, 3.0, 0.5), (n, 2, 2, 2)))
    truth = (rng.random((n, 2)) < shares[:, 1:]).astype(int)  # (crowds, tasks)
    p = confusion[np.arange(n)[:, None], worker, truth[:, task], 1]  # P(label 1)
    same = ((rng.random(p.shape) < p) == label).all(axis=1)
    frequency = np.bincount(truth[same, 0], minlength=2) / same.sum()
    np.testing.assert_allclose(proba[0], frequency, atol=0.02)


def test_posterior_of_ibcc_is_calibrated_with_many_answers():
    result = checks.rank_check(checks.variational_draws, 60, 12, 3, 6, replicates=60)
    assert result["accuracy"]["p"] > 0.01
    assert 0.85 <= result["accuracy"]["cover"]["0.95"] <= 1
    assert result["classes"]["ece"] < 0.03


@pytest.mark.parametrize("name", ["majority-vote", "dawid-skene"])
@pytest.mark.parametrize(("k", "shares", "per_task"), [(2, [0.9, 0.1], 3), (4, None, 2), (10, None, 5)])
def test_intervals_of_worker_accuracy_cover(name, k, shares, per_task):
    result = checks.interval_check(name, k, shares, per_task, 40, 3, levels=(0.95,), kinds=("peers", "run"))
    for kind in ("peers", "run"):
        assert result[kind]["cover"]["0.95"] >= 0.9
        assert result[kind]["width"] < 0.75  # not trivially wide


def test_interval_covers_everything_for_a_worker_without_shared_tasks():
    for name in ("majority-vote", "ibcc"):
        result = checks.interval_check(name, 3, None, 1, 40, 1, levels=(0.95,), kinds=("peers", "belief", "run"))
        assert {kind: each["cover"]["0.95"] for kind, each in result.items()} == dict.fromkeys(result, 1.0)


def test_interval_from_beliefs_covers_if_the_model_fits():
    """As on Spark; it is too narrow with fewer answers or many classes."""
    result = checks.interval_check("dawid-skene", 2, None, 3, 50, 4, levels=(0.95,), kinds=("belief",))
    assert result["belief"]["cover"]["0.95"] >= 0.9
