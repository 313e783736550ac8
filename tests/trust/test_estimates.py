"""Estimates of shares, labels, workers and differences: known truth, designs of gold, refusals."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import GoldError, ParameterError, UnknownIdError
from crowdwise.trust import estimate

N = 1500


@pytest.fixture(scope="module")
def answers():
    return cw.simulate.simulate(N, n_workers=8, n_classes=3, answers_per_task=4, accuracy=(0.5, 0.9), seed=5)


@pytest.fixture(scope="module")
def vote(answers):
    return cw.MajorityVote().fit(answers)


def gold_codes(answers, rows):
    gold = np.full(answers.n_tasks, -1)
    gold[rows] = answers.truth[rows]
    return gold


def draw(answers, n, seed):
    return gold_codes(answers, np.random.default_rng(seed).choice(N, n, replace=False))


def test_intervals_cover(answers, vote):
    """A coarse check; `python -m benchmarks intervals` is the fine one."""
    right = answers.label == answers.truth[answers.task]
    accuracy = np.bincount(answers.worker, right) / np.bincount(answers.worker)
    inside, widths = [], []
    for seed in range(30):
        found = estimate(vote, draw(answers, 100, 5000 + seed))
        pairs = [(part, (answers.truth == c).mean()) for c, part in enumerate(found.shares.values())]
        pairs += [(found.accuracy, (vote.codes_ == answers.truth).mean())]
        pairs += [(part, accuracy[w]) for w, part in found.workers.items()]
        inside += [part.low <= true <= part.high for part, true in pairs]
        widths += [part.width / part.gold_width for part, _ in pairs]
    assert 0.92 < np.mean(inside) < 0.99
    assert np.mean(widths) < 0.95


def test_shares_add_up(answers):
    found = estimate(answers, draw(answers, 60, 1))
    assert sum(part.value for part in found.shares.values()) == pytest.approx(1)
    assert sum(part.gold_value for part in found.shares.values()) == pytest.approx(1)


def test_gold_of_every_task_gives_the_exact_figures(answers, vote):
    found = estimate(vote, answers.truth)
    assert found.accuracy.low == found.accuracy.high == pytest.approx((vote.codes_ == answers.truth).mean())
    both = np.intersect1d(answers.task[answers.worker == 0], answers.task[answers.worker == 1])
    right = [
        (answers.label == answers.truth[answers.task])[(answers.worker == w) & np.isin(answers.task, both)].mean()
        for w in (0, 1)
    ]
    assert found.difference(0, 1).value == pytest.approx(right[0] - right[1])


def test_difference_is_signed_and_paired(answers, vote):
    found = estimate(vote, draw(answers, 400, 2))
    one, other = found.difference(0, 1), found.difference(1, 0)
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert found.difference(2, 2).value == 0


def test_ids_and_order_do_not_matter(answers, vote):
    gold = draw(answers, 80, 3)
    mapping = {answers.tasks[t]: answers.classes[gold[t]] for t in np.flatnonzero(gold >= 0)[::-1]}
    assert estimate(vote, mapping) == estimate(vote, gold)


def test_equal_probabilities_and_one_stratum_are_the_uniform_design(answers, vote):
    gold = draw(answers, 100, 4)
    plain = estimate(vote, gold).accuracy
    for options in ({"strata": np.zeros(N)}, {"inclusion": np.full(N, 100 / N)}):
        other = estimate(vote, gold, **options).accuracy
        assert other.value == pytest.approx(plain.value)
        assert other.width == pytest.approx(plain.width, rel=0.02)


def test_stated_design_removes_the_bias_of_gold_on_hard_tasks(answers, vote):
    """Gold from disputed tasks three times as often: ignoring this is biased, stating it is not."""
    disputed = (vote.proba_.max(axis=1) < 0.6).astype(int)
    true, plain, stated, drawn = (vote.codes_ == answers.truth).mean(), [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = [rng.choice(np.flatnonzero(disputed == h), n, replace=False) for h, n in ((0, 50), (1, 150))]
        gold = gold_codes(answers, np.concatenate(rows))
        plain.append(estimate(vote, gold).accuracy.gold_value - true)
        stated.append(estimate(vote, gold, strata=disputed).accuracy.value - true)
        chance = np.where(disputed, 150 / disputed.sum(), 50 / (1 - disputed).sum())
        drawn.append(
            estimate(vote, gold, inclusion=dict(zip(answers.tasks, chance, strict=True))).accuracy.value - true
        )
    assert np.mean(plain) < -0.05
    assert abs(np.mean(stated)) < 0.02 and abs(np.mean(drawn)) < 0.02


def test_source_is_wider(answers, vote):
    gold = draw(answers, 300, 5)
    assert estimate(vote, gold, population="source").accuracy.width > estimate(vote, gold).accuracy.width


def test_workers_with_little_gold_are_named(answers, vote):
    found = estimate(vote, draw(answers, 12, 6))
    assert set(found.workers) | set(found.too_few_gold) == set(range(8)) and found.too_few_gold
    assert "fewer than 10 gold tasks" in str(found)
    assert found.to_arrow().num_rows == 4 + len(found.workers)


def test_refusals(answers, vote):
    gold = draw(answers, 50, 7)
    with pytest.raises(GoldError, match="3 gold labels are too few"):
        estimate(vote, {0: 0, 1: 1, 2: 2})
    with pytest.raises(GoldError, match="without these gold labels"):
        estimate(cw.DawidSkene().fit(answers, gold), gold)
    with pytest.raises(GoldError, match="without these gold labels"):
        estimate(answers, gold, proba=cw.DawidSkene().fit(answers, gold).proba_)
    with pytest.raises(GoldError, match="each stratum needs two"):
        estimate(vote, gold, strata=np.where(np.arange(N) == np.flatnonzero(gold < 0)[0], 1, 0) + (gold < 0) * 2)
    with pytest.raises(ParameterError, match="not both"):
        estimate(vote, gold, strata=np.zeros(N), inclusion=np.ones(N))
    with pytest.raises(ParameterError, match="Every task needs a chance"):
        estimate(vote, gold, inclusion=np.zeros(N))
    with pytest.raises(UnknownIdError, match="no worker 'x'"):
        estimate(vote, gold).difference("x", 1)
    with pytest.raises(ParameterError, match="list is not a table of answers"):
        estimate([1, 2], gold)
