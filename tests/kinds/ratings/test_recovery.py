"""Simulated truth is recovered: values, workers, and the rate at which intervals hold."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.kinds.ratings.methods.gaussian import GaussianWorkers
from crowdwise.simulate import rating_crowd


def error(method, ratings):
    return abs(method.fit(ratings).value_ - ratings.truth).mean()


@pytest.mark.parametrize("options", [{}, {"careless": 0.3}, {"bias": 1.0}, {"skew": 1.0}])
def test_the_ordinal_model_beats_vote_median_and_mean(options):
    ratings = rating_crowd(400, 30, seed=5, **options)
    ours = abs(cw.OrdinalDawidSkene().fit(ratings).labels_ - ratings.truth).mean()
    for other in (cw.Median(), cw.MeanRounded()):
        assert ours < 0.85 * abs(other.fit(ratings).labels_ - ratings.truth).mean()


def test_ordinal_workers_are_recovered():
    ratings = rating_crowd(1500, 10, spread=0.6, bias=0.8, seed=2)
    away = ratings.value - ratings.truth[ratings.task]
    bias = np.bincount(ratings.worker, away) / np.bincount(ratings.worker)
    assert np.corrcoef(cw.OrdinalDawidSkene().fit(ratings).bias_, bias)[0, 1] > 0.95


def test_careless_workers_have_the_largest_spread():
    ratings = rating_crowd(500, 20, careless=0.25, seed=4)
    random = np.bincount(ratings.worker, abs(ratings.value - ratings.truth[ratings.task])) > 1.2 * 500 * 5 / 20
    model = cw.OrdinalDawidSkene().fit(ratings)
    assert 0 < random.sum() < 10
    assert model.spread_[random].min() > np.median(model.spread_)


def test_a_hard_task_has_a_high_difficulty():
    ratings = rating_crowd(400, 30, answers_per_task=10, difficulty=0.8, bias=0.2, seed=1)
    away = np.bincount(ratings.task, abs(ratings.value - ratings.truth[ratings.task]))
    assert np.corrcoef(cw.OrdinalGLAD().fit(ratings).difficulty_, away)[0, 1] > 0.5


@pytest.mark.parametrize("model", [cw.GaussianWorkers(), cw.StudentWorkers()])
def test_models_of_workers_beat_the_mean_and_recover_workers(model):
    ratings = rating_crowd(500, 20, None, seed=6)
    assert error(model, ratings) < 0.8 * error(cw.Mean(), ratings)
    away = ratings.value - ratings.truth[ratings.task]
    bias = np.bincount(ratings.worker, away) / np.bincount(ratings.worker)
    assert np.corrcoef(model.bias_, bias)[0, 1] > 0.95


def test_an_outlier_moves_the_robust_model_less():
    ratings = rating_crowd(200, 20, None, seed=7)
    spoilt = ratings.value.copy()
    rows = np.flatnonzero(np.random.default_rng(0).random(len(spoilt)) < 0.03)
    spoilt[rows] += 500
    broken = cw.Ratings.from_arrays(ratings.task, ratings.worker, spoilt, tasks=np.arange(200), numeric=True)
    broken = broken.with_truth(ratings.truth)
    assert error(cw.StudentWorkers(), broken) < 0.7 * error(cw.GaussianWorkers(), broken)


@pytest.mark.parametrize("model", [cw.GaussianWorkers(), cw.StudentWorkers(), cw.GTM(), cw.Mean()])
def test_intervals_of_numbers_hold(model):
    held = []
    for seed in range(4):
        ratings = rating_crowd(300, 20, None, bias=0.3, seed=seed)
        low, high = model.fit(ratings).interval(0.9).T
        held.append(((low <= ratings.truth) & (ratings.truth <= high)).mean())
    assert 0.85 < np.mean(held) < 0.97


def test_a_worker_with_few_ratings_is_an_average_one():
    ratings = rating_crowd(300, 10, None, bias=0.2, seed=8)
    extra = cw.Ratings.from_arrays([0], [99], [float(ratings.truth[0]) + 60], numeric=True)
    model = GaussianWorkers().fit(ratings.merge(extra))
    new = int(np.flatnonzero(model.workers_ == 99)[0])
    assert abs(model.bias_[new]) < 45
    spread = np.sort(model.spread_)
    assert spread[0] < model.spread_[new] < spread[-1] * 1.3


def test_an_expert_with_a_scale_of_their_own_needs_wider_intervals():
    ratings = rating_crowd(300, 20, None, bias=0.8, scale=0.3, seed=9)
    model = cw.GaussianWorkers().fit(ratings)
    reference = 50 + 1.3 * (ratings.truth - 50) + 15
    covered = [
        ((low <= reference) & (reference <= high)).mean()
        for low, high in (model.interval(0.9, of=of).T for of in ("crowd", "expert"))
    ]
    assert covered[0] < 0.6 < 0.85 < covered[1]
    with pytest.raises(cw.CrowdwiseError, match="Mean does not estimate how much workers differ"):
        cw.Mean().fit(ratings).interval(of="expert")
