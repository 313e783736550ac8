"""Probabilities are calibrated on crowds drawn from the model: a small part of `python -m benchmarks statistics`."""

import numpy as np
import pytest

from benchmarks import statistical_checks as checks

TINY = {"n_tasks": 6, "n_workers": 4, "k": 2, "per_task": 3}


def test_ranks_in_the_exact_posterior_are_uniform():
    found = checks.rank_check(checks.exact_draws, **TINY, replicates=250)
    assert found["accuracy"]["p"] > 0.01
    assert found["share"]["p"] > 0.01
    assert abs(found["classes"]["confidence"] - found["classes"]["accuracy"]) < 0.02
    assert found["classes"]["ece"] < 0.04


def test_a_posterior_that_is_too_sure_is_found_out():
    """The same posterior, told that each answer was given three times."""

    def sure(answers, rng, prior, n):
        pi, matrices, proba = checks.exact_draws(answers, rng, prior, n)
        centre = matrices.mean(axis=0)
        return pi, centre + (matrices - centre) / np.sqrt(3), proba

    assert checks.rank_check(sure, **TINY, replicates=200)["accuracy"]["p"] < 1e-4


def test_the_exact_posterior_is_bayes():
    """Oracle: truths weighed by the frequency of simulated crowds that gave just these answers."""
    rng = np.random.default_rng(0)
    prior, seen = (1.0, 3.0, 0.5), np.zeros(2)
    task, worker = np.array([0, 0, 1]), np.array([0, 1, 0])
    label = np.array([0, 1, 0])
    answers = checks.cw.Answers.from_codes(task, worker, label, tasks=2, workers=2, classes=2)
    proba = checks.exact_draws(answers, rng, prior, 1)[2]
    n = 40_000
    shares = checks.dirichlet_rows(rng, np.ones((n, 2)))
    confusion = checks.dirichlet_rows(rng, np.broadcast_to(checks.diagonal(2, 2, 3.0, 0.5), (n, 2, 2, 2)))
    truth = (rng.random((n, 2)) < shares[:, 1:]).astype(int)  # (crowds, tasks)
    says = confusion[np.arange(n)[:, None], worker, truth[:, task], 1]  # P(1)
    alike = ((rng.random(says.shape) < says) == label).all(axis=1)
    seen = np.bincount(truth[alike, 0], minlength=2) / alike.sum()
    np.testing.assert_allclose(proba[0], seen, atol=0.02)


def test_ibccs_posterior_is_calibrated_where_answers_are_many():
    found = checks.rank_check(checks.variational_draws, 60, 12, 3, 6, replicates=60)
    assert found["accuracy"]["p"] > 0.01
    assert 0.85 <= found["accuracy"]["cover"]["0.95"] <= 1
    assert found["classes"]["ece"] < 0.03


@pytest.mark.parametrize("name", ["majority-vote", "dawid-skene"])
@pytest.mark.parametrize(("k", "shares", "per_task"), [(2, [0.9, 0.1], 3), (4, None, 2), (10, None, 5)])
def test_intervals_of_worker_accuracy_cover(name, k, shares, per_task):
    found = checks.interval_check(name, k, shares, per_task, 40, 3, levels=(0.95,), kinds=("peers", "run"))
    for kind in ("peers", "run"):
        assert found[kind]["cover"]["0.95"] >= 0.9
        assert found[kind]["width"] < 0.75  # not by saying nothing


def test_interval_is_total_for_a_worker_without_shared_tasks():
    for name in ("majority-vote", "ibcc"):
        found = checks.interval_check(name, 3, None, 1, 40, 1, levels=(0.95,), kinds=("peers", "belief", "run"))
        assert {kind: each["cover"]["0.95"] for kind, each in found.items()} == dict.fromkeys(found, 1.0)


def test_the_interval_by_belief_covers_where_the_model_fits():
    """As on Spark; it is too narrow where answers are fewer or classes many."""
    found = checks.interval_check("dawid-skene", 2, None, 3, 50, 4, levels=(0.95,), kinds=("belief",))
    assert found["belief"]["cover"]["0.95"] >= 0.9
