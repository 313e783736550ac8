"""Uses of scores: the table, pruning, weights."""

import numpy as np
import pytest

from crowdwise.ambiguity.ranking import TaskRanker, predict_in_blocks, weighted_means
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.learn.features import open_features


def ranked(scores, per_task=2, seed=0):
    """Tasks with these scores; a task of infinite score has no answers."""
    out = TaskRanker()
    scores = np.asarray(scores, dtype=float)
    task = np.repeat(np.flatnonzero(np.isfinite(scores)), per_task)
    worker = np.tile(np.arange(per_task), len(task) // per_task)
    out.answers_ = Answers.from_codes(task, worker, task % 2, tasks=len(scores), workers=per_task + 1, classes=3)
    out.scores_, out.random_state = scores, seed
    out.aum_ = np.arange(len(task)) / 10
    out.trust_ = np.where(worker == 0, 1.0, 0.5)
    return out


def test_means_by_hand():
    # task 0: (0.8 * 0.9 + 0.2 * -0.5) / 1.0; task 1: weights of zero, so (0.4 + 0.2) / 2; task 2: no answers
    values, weight = np.array([0.9, -0.5, 0.4, 0.2]), np.array([0.8, 0.2, 0.0, 0.0])
    np.testing.assert_allclose(weighted_means(values, weight, np.array([0, 0, 1, 1]), 3), [0.62, 0.3, np.inf])


def test_equal_weights_give_the_unweighted_mean():
    rng = np.random.default_rng(0)
    task, values = np.repeat(np.arange(20), 3), rng.normal(size=60)
    np.testing.assert_allclose(weighted_means(values, np.full(60, 0.3), task, 20), values.reshape(20, 3).mean(1))


@pytest.mark.parametrize(
    ("n_tasks", "alpha", "n_removed"), [(1000, 0.01, 10), (1000, 0.1, 100), (40, 0.05, 2), (7, 0, 0)]
)
def test_prune_removes_the_lowest(n_tasks, alpha, n_removed):
    scores = np.random.default_rng(0).permutation(n_tasks) / n_tasks
    kept = ranked(scores).prune(alpha)
    assert scores[kept.removed].tolist() == sorted(scores)[:n_removed]
    assert sorted([*kept.rows, *kept.removed]) == list(range(n_tasks))
    assert kept.answers == ranked(scores).answers_[kept.rows]
    assert (kept.answers.n_workers, kept.answers.n_classes) == (
        3,
        3,
    )  # even those without answers
    if alpha:
        assert kept.threshold == pytest.approx(np.quantile(scores, alpha))
        assert (scores[kept.rows] > kept.threshold).all()


def test_strict_keeps_tasks_at_the_quantile():
    scores = [0.1, 0.1, 0.1, 0.2, 0.3, 0.4, 0.5]  # the quantile 0.1 is a score
    assert sorted(ranked(scores).prune(0.1).removed) == [0, 1, 2]
    assert len(ranked(scores).prune(0.1, strict=True).removed) == 0
    scores = np.arange(11) / 10
    assert ranked(scores).prune(0.5).removed.tolist() == [0, 1, 2, 3, 4, 5]
    assert ranked(scores).prune(0.5, strict=True).removed.tolist() == [0, 1, 2, 3, 4]


def test_equal_scores_remove_nothing():
    assert len(ranked([0.5] * 10).prune(0.1).removed) == 0
    assert len(ranked([0.5]).prune(0.1).removed) == 0
    assert len(ranked([np.inf, np.inf]).prune(0.1).removed) == 0


def test_tasks_without_answers_are_kept_and_do_not_change_the_quantile():
    scores = np.arange(100) / 100
    padded = np.concatenate([scores, np.full(300, np.inf)])
    assert ranked(padded).prune(0.1).threshold == ranked(scores).prune(0.1).threshold
    assert ranked(padded).prune(0.1).removed.tolist() == list(range(10))
    for random in (False, True):
        kept = ranked(padded).prune(0.5, random=random)
        assert len(kept.removed) == 50
        assert (kept.removed < 100).all()
    weights = ranked(padded).weights()
    assert (weights[100:] == 1).all()
    np.testing.assert_allclose(weights[:100], ranked(scores).weights())


def test_the_control_removes_equally_many_at_random():
    scores = np.arange(500) / 500
    one, same, other = (ranked(scores, seed=s).prune(0.1, random=True) for s in (0, 0, 1))
    assert len(one.removed) == len(other.removed) == 50
    assert one.removed.tolist() == same.removed.tolist() != other.removed.tolist()
    assert 150 < scores[one.removed].mean() * 500 < 350  # not the lowest: their mean is 24.5
    dealt = ranked(scores).weights(random=True)
    np.testing.assert_allclose(np.sort(dealt), np.sort(ranked(scores).weights()))
    assert np.abs(dealt - ranked(scores).weights()).max() > 0.5


def test_weights_grow_with_the_score_and_have_mean_one():
    scores = np.random.default_rng(0).normal(size=200)
    weights = ranked(scores).weights(0.1)
    assert weights.mean() == pytest.approx(1)
    assert (weights > 0).all()
    assert (np.diff(weights[np.argsort(scores)]) > 0).all()
    # By hand: the k-th of 200 stands at r = (k - 0.5) / 200; its odds are r^2 / (1 - r^2) to 0.01 / 0.99.
    r = (np.arange(200) + 0.5) / 200
    odds = r**2 / (1 - r**2) * 99
    np.testing.assert_allclose(np.sort(weights), odds / (1 + odds) / (odds / (1 + odds)).mean())
    assert np.unique(ranked([1.0, 1.0, 2.0]).weights()).size == 2  # ties have equal weights
    np.testing.assert_allclose(ranked(scores * 7 + 3).weights(), ranked(scores).weights())  # depends only on ranks


@pytest.mark.parametrize("alpha", [0.0001, 0.1, 0.5, 0.9])
def test_half_the_weight_at_the_quantile(alpha):
    n = 100_001
    weights = ranked(np.arange(n)).weights(alpha)
    assert weights[round(alpha * n)] / weights[-1] == pytest.approx(0.5, rel=0.06 if alpha < 0.001 else 0.001)


def test_a_tiny_quantile_gives_equal_weights():
    assert ranked(np.arange(50)).weights(1e-200).tolist() == [1.0] * 50


def test_ranking_has_the_components_of_scores():
    table = ranked([0.3, np.inf, -0.2]).ranking()
    assert table.to_pylist() == [
        {"task": 2, "rank": 1, "score": -0.2, "answers": 2,
         "workers": [0, 1], "labels": [0, 0], "aum": [0.2, 0.3], "trust": [1.0, 0.5]},
        {"task": 0, "rank": 2, "score": 0.3, "answers": 2,
         "workers": [0, 1], "labels": [0, 0], "aum": [0.0, 0.1], "trust": [1.0, 0.5]},
        {"task": 1, "rank": None, "score": None, "answers": 0, "workers": [], "labels": [], "aum": [], "trust": []},
    ]  # fmt: skip
    assert ranked([0.3, np.inf, -0.2]).ranking(2).equals(table.slice(0, 2))
    assert ranked([0.3]).ranking(0).num_rows == 0
    assert table.to_pandas().shape == (3, 8)


def test_worker_trust_is_a_mean_over_answers():
    assert ranked([0.1, 0.2]).worker_trust_.tolist() == [1.0, 0.5, 0.75]  # the last worker has no answers: overall mean


def test_prediction_in_blocks_equals_direct_prediction():
    X = np.random.default_rng(0).normal(size=(9000, 2)).astype(np.float32)
    tasks = np.arange(0, 9000, 2)
    np.testing.assert_array_equal(predict_in_blocks(lambda x: x * 2, open_features(X), tasks, 2), (X * 2)[tasks])
    assert predict_in_blocks(lambda x: x, open_features(X), tasks[:0], 2).shape == (0, 2)


def test_invalid_arguments_are_rejected():
    for alpha in (-0.1, 1, np.nan, "a"):
        with pytest.raises(ParameterError, match="alpha"):
            ranked([0.1, 0.2]).prune(alpha)
    for alpha in (0, -1, 1, 50, None):
        with pytest.raises(ParameterError, match="alpha"):
            ranked([0.1, 0.2]).weights(alpha)
    for answer in ("no", 1, None):
        with pytest.raises(ParameterError, match="random"):
            ranked([0.1, 0.2]).prune(random=answer)
        with pytest.raises(ParameterError, match="random"):
            ranked([0.1, 0.2]).weights(random=answer)
        with pytest.raises(ParameterError, match="strict"):
            ranked([0.1, 0.2]).prune(strict=answer)
    with pytest.raises(ParameterError, match="n="):
        ranked([0.1, 0.2]).ranking(-1)
