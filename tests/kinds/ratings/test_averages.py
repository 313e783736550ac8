import numpy as np
import pytest

import crowdwise as cw
from crowdwise import Ratings


def numbers(seed=0, n_tasks=60, weights=False):
    """Return ratings of tasks by 2 to 7 workers, and the values of each task with their weights."""
    rng = np.random.default_rng(seed)
    rows = [(t, w, rng.normal(t, 5)) for t in range(n_tasks) for w in rng.permutation(9)[: rng.integers(2, 8)]]
    task, worker, value = (list(column) for column in zip(*rows, strict=True))
    weight = rng.integers(1, 4, len(task)).astype(float) if weights else None
    return Ratings.from_arrays(task, worker, value, weight)


def per_task(ratings, function):
    weight = np.ones(ratings.n_answers) if ratings.weight is None else ratings.weight
    parts = (slice(a, b) for a, b in zip(ratings.task_starts[:-1], ratings.task_starts[1:], strict=True))
    return [function(np.sort(np.repeat(ratings.value[part], weight[part].astype(int)))) for part in parts]


def cut(values, share=0.2):
    """Return the trimmed mean of values by its definition: the mean of the quantile function over the middle."""
    grid = (np.arange(100_000) + 0.5) / 100_000
    middle = grid[(grid > share) & (grid < 1 - share)]
    return values[(middle * len(values)).astype(int)].mean()


@pytest.mark.parametrize("weights", [False, True])
def test_averages_equal_their_definitions(weights):
    ratings = numbers(weights=weights)
    np.testing.assert_allclose(cw.Mean().fit(ratings).value_, per_task(ratings, np.mean))
    np.testing.assert_allclose(cw.Median().fit(ratings).value_, per_task(ratings, np.median))
    np.testing.assert_allclose(cw.TrimmedMean().fit(ratings).value_, per_task(ratings, cut), atol=2e-3)


def test_a_tie_between_two_levels_is_broken_at_random():
    ratings = Ratings.from_arrays(np.repeat(np.arange(400), 2), ["a", "b"] * 400, [2, 3] * 400)
    for method in (cw.Median(), cw.MeanRounded()):
        assert 150 < (method.fit(ratings).labels_ == 2).sum() < 250


@pytest.mark.parametrize("method", [cw.Mean(), cw.Median()])
def test_intervals_contain_the_truth_at_their_rate(method):
    rng = np.random.default_rng(1)
    truth = rng.normal(50, 20, 2000)
    task = np.repeat(np.arange(2000), 5)
    ratings = Ratings.from_arrays(task, np.tile(np.arange(5), 2000), truth[task] + rng.normal(0, 8, 10_000))
    low, high = method.fit(ratings).interval(0.9).T
    assert 0.87 < ((low <= truth) & (truth <= high)).mean() < 0.95  # wider for the median


def test_gold_is_kept_and_a_task_without_ratings_has_the_mean():
    ratings = Ratings.from_arrays([1, 1, 2], ["a", "b", "a"], [1, 3, 5], tasks=[1, 2, 3])
    model = cw.Mean().fit(ratings, {1: 4.0})
    assert model.value_.tolist() == [4.0, 5.0, 3.5]
    assert model.interval()[0].tolist() == [4.0, 4.0]
    assert np.isfinite(model.standard_error_).all()
