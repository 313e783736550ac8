import numpy as np
import pytest

import crowdwise as cw
from crowdwise.augment import pairs
from crowdwise.simulate.answers import draw_labels


@pytest.fixture
def answers():
    return cw.simulate.simulate(50, n_workers=7, n_classes=3, answers_per_task=2.5, seed=1)


def all_missing(answers):
    given = set(zip(answers.task.tolist(), answers.worker.tolist(), strict=True))
    return {(t, w) for t in range(answers.n_tasks) for w in range(answers.n_workers)} - given


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_blocks_hold_each_missing_pair_once(answers, size):
    found = [(t, w) for tasks, row, worker in pairs.missing_blocks(answers, size)
             for t, w in zip(tasks[row].tolist(), worker.tolist(), strict=True)]  # fmt: skip
    assert len(found) == len(set(found)) == pairs.n_missing(answers)
    assert set(found) == all_missing(answers)


def of_each(blocks, n_pools):
    """The pairs of each pool, one by one."""
    found = [[] for _ in range(n_pools)]
    for tasks, row, worker, whose in blocks:
        for mine, which in zip(found, whose, strict=True):
            mine += zip(tasks[row][which].tolist(), worker[which].tolist(), strict=True)
    return found


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_blocks_mark_what_each_pool_lacks(answers, size):
    rng = np.random.default_rng(0)
    keep = [np.sort(rng.permutation(answers.n_answers)[:n]) for n in (40, 90)]
    shared = answers.take(np.intersect1d(*keep))
    pools = [shared, *(answers.take(each) for each in keep)]
    for pool, mine in zip(pools, of_each(pairs.missing_blocks_by_pool(shared, pools, size), 3), strict=True):
        assert len(mine) == len(set(mine))
        assert set(mine) == all_missing(pool)


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_each_pool_samples_its_own_pairs(answers, size):
    pools = [answers, answers.take(np.arange(60))]
    rngs = [np.random.default_rng(seed) for seed in (0, 1)]
    found = of_each(pairs.sampled_blocks(pools, [30, 50], rngs, size), 2)
    for seed, (pool, mine, n) in enumerate(zip(pools, found, (30, 50), strict=True)):
        drawn = pairs.draw_missing(pool, n, np.random.default_rng(seed))
        assert mine == list(zip(*(column.tolist() for column in drawn), strict=True))


@pytest.mark.parametrize("drawn", [7, 40])
def test_large_samples_are_drawn_range_by_range_and_uniform(answers, monkeypatch, drawn):
    """Equivalent to one draw: the requested number, distinct, missing, and uniform."""
    monkeypatch.setattr(pairs, "DRAWN", drawn)
    pools = [answers, answers.take(np.arange(60))]
    missing = [sorted(all_missing(pool)) for pool in pools]
    count = [dict.fromkeys(each, 0) for each in missing]
    for seed in range(300):
        rngs = [np.random.default_rng([seed, member]) for member in (0, 1)]
        for mine, times, n in zip(
            of_each(pairs.sampled_blocks(pools, [60, 100], rngs), 2), count, (60, 100), strict=True
        ):
            assert mine == sorted(set(mine))
            assert len(mine) == n
            for pair in mine:
                times[pair] += 1
    for times, n in zip(count, (60, 100), strict=True):
        found, expected = np.array(list(times.values())), 300 * n / len(times)
        assert ((found - expected) ** 2 / expected).sum() < 1.3 * len(times)


def test_all_pairs_range_by_range(answers, monkeypatch):
    monkeypatch.setattr(pairs, "DRAWN", 10)
    blocks = pairs.sampled_blocks([answers], [10**6], [np.random.default_rng(0)])
    assert of_each(blocks, 1)[0] == sorted(all_missing(answers))


def test_a_complete_task_has_no_missing_pairs():
    answers = cw.Answers.from_codes([0, 0, 1], [0, 1, 0], [0, 1, 1], tasks=2, workers=2, classes=2)
    assert [tasks[row].tolist() for tasks, row, _ in pairs.missing_blocks(answers, 1)] == [[1]]


def test_samples_are_missing_distinct_and_uniform(answers):
    rng = np.random.default_rng(0)
    missing = sorted(all_missing(answers))
    count = dict.fromkeys(missing, 0)
    for _ in range(400):
        task, worker = pairs.draw_missing(answers, 30, rng)
        drawn = list(zip(task.tolist(), worker.tolist(), strict=True))
        assert len(set(drawn)) == 30
        for pair in drawn:
            count[pair] += 1  # a KeyError is a pair that has an answer
    expected = 400 * 30 / len(missing)
    times = np.array(list(count.values()))
    assert ((times - expected) ** 2 / expected).sum() < 1.3 * len(missing)  # chi-squared: its mean is their number


def test_asking_for_too_many_returns_all(answers):
    task, worker = pairs.draw_missing(answers, 10**6, np.random.default_rng(0))
    assert set(zip(task.tolist(), worker.tolist(), strict=True)) == all_missing(answers)


def test_no_table_of_all_pairs():
    """Ten thousand million pairs: a table of them would not fit."""
    n = 10**6
    answers = cw.Answers.from_codes(np.arange(n), np.arange(n) % 10_000, np.arange(n) % 2, tasks=n, workers=10_000,
                                    classes=2)  # fmt: skip
    task, worker = pairs.draw_missing(answers, 1000, np.random.default_rng(0))
    assert len(task) == 1000
    assert not (task % 10_000 == worker).any()
    assert next(pairs.missing_blocks(answers))[0].tolist() == list(range(20))


def test_pairs_are_split_into_blocks(answers):
    task, worker = pairs.draw_missing(answers, 40, np.random.default_rng(1))
    parts = list(pairs.pair_blocks(task, worker, 7))
    assert max(len(row) for _, row, _ in parts) == 7
    assert np.concatenate([tasks[row] for tasks, row, _ in parts]).tolist() == task.tolist()
    assert np.concatenate([w for *_, w in parts]).tolist() == worker.tolist()


@pytest.mark.parametrize("waiting", [0, 10**6])
def test_lowest_scores_per_group(monkeypatch, waiting):
    monkeypatch.setattr(pairs, "PAIRS", waiting)
    rng = np.random.default_rng(0)
    group, score = rng.integers(0, 3, 500), rng.integers(0, 60, 500) / 7  # many ties
    best = pairs.LowestScores(4, 20)
    for part in np.array_split(np.arange(500), 13):
        best.add(group[part], score[part], part)
    n = np.array([20, 3, 0, 5])
    (found,) = best.first(n)
    expected = [sorted(np.flatnonzero(group == g), key=lambda i: score[i])[: n[g]] for g in range(3)]  # stable
    assert found.tolist() == [i for part in expected for i in part]


def test_memory_of_the_lowest_is_bounded(monkeypatch):
    monkeypatch.setattr(pairs, "PAIRS", 100)
    best = pairs.LowestScores(2, 30)
    for score in np.linspace(1, 0, 200):  # always better than before: the hardest order
        best.add(np.array([0, 1] * 25), np.full(50, score), np.arange(50))
        assert sum(len(part[0]) for part in best._parts) <= 60 + 100 + 50


def test_labels_are_drawn_by_their_probability():
    proba = np.tile([0.2, 0.0, 0.5, 0.3], (4000, 1))
    label = draw_labels(proba, np.random.default_rng(0).random(4000))
    np.testing.assert_allclose(np.bincount(label, minlength=4) / 4000, proba[0], atol=0.03)
    assert draw_labels(proba[:2], np.array([0.0, 1 - 1e-16])).tolist() == [0, 3]
