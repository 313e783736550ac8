"""Which tasks to label: probabilities, rounds, files with missing labels, expected intervals."""

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.errors import GoldError
from crowdwise.trust import estimate, plan_gold
from crowdwise.trust.gold_design import design_sample
from crowdwise.trust.gold_plan import FLOOR

N = 1200


@pytest.fixture(scope="module")
def crowd():
    """Answers, and probabilities that are calibrated by construction: the truth is drawn from them."""
    answers = cw.simulate.simulate(N, n_workers=8, n_classes=2, answers_per_task=4, seed=5)
    rng = np.random.default_rng(0)
    top = 1 - 0.5 * rng.beta(0.4, 1.2, N)
    proba = np.where(rng.random((N, 1)) < 0.7, np.column_stack([top, 1 - top]), np.column_stack([1 - top, top]))
    return answers.with_truth((rng.random(N) < proba[:, 1]).astype(np.int32)), proba


def label(answers, table, n=None):
    """Fill in the labels of the first n rows that have none, as codes."""
    gold = np.full(N, -1)
    rows = table.column("task").to_numpy()[:n]
    gold[rows] = answers.truth[rows]
    return gold


def test_probabilities_are_those_of_the_draw(crowd):
    answers, proba = crowd
    times, drawn = np.zeros(N), 150
    for seed in range(drawn):
        table = plan_gold(answers, proba, 120, seed=seed).table
        times[table.column("task").to_numpy()] += 1
        assert table.num_rows == len(set(table.column("task").to_pylist())) == 120
        assert sum(1 / p for p in table.column("probability").to_pylist()) == pytest.approx(N)
    sure = np.argsort(-proba.max(axis=1))
    assert times.min() > 0 and times[sure[:300]].mean() / drawn > FLOOR * 120 / N
    assert times[sure[-300:]].mean() > 1.3 * times[sure[:300]].mean()


def test_estimates_are_unbiased_cover_and_are_narrower_than_from_a_random_draw(crowd):
    answers, proba = crowd
    true, found = (proba.argmax(axis=1) == answers.truth).mean(), {"planned": [], "random": []}
    for seed in range(60):
        table = plan_gold(answers, proba, 100, seed=seed).table
        found["planned"].append(estimate(answers, label(answers, table), proba=proba, design=table).accuracy)
        gold = np.full(N, -1)
        gold[rows] = answers.truth[rows := np.random.default_rng(seed).choice(N, 100, replace=False)]
        found["random"].append(estimate(answers, gold, proba=proba).accuracy)
    for each in found.values():
        assert abs(np.mean([part.value for part in each]) - true) < 0.015
        assert np.mean([part.low <= true <= part.high for part in each]) > 0.88
    planned, random = (np.mean([part.width for part in each]) for each in found.values())
    expected = plan_gold(answers, proba, 100).accuracy
    assert planned < 0.99 * random
    assert expected.planned.high - expected.planned.low == pytest.approx(planned, rel=0.12)
    assert expected.random.high - expected.random.low == pytest.approx(random, rel=0.12)
    assert expected.before is None


def test_rounds_combine_whatever_the_second_depends_on(crowd):
    """The second round is drawn where the first one found errors; the combined estimate stays unbiased."""
    answers, proba = crowd
    true, values, inside = (proba.argmax(axis=1) == answers.truth).mean(), [], []
    for seed in range(60):
        first = plan_gold(answers, proba, 40, seed=seed).table
        gold = label(answers, first)
        wrong = (proba.argmax(axis=1) != answers.truth)[gold >= 0].mean()
        bolder = proba ** (3 * (1 - wrong))
        plan = plan_gold(answers, bolder / bolder.sum(axis=1, keepdims=True), 60, gold=gold, design=first, seed=seed)
        assert plan.table.num_rows == 100 and plan.accuracy.before is not None
        assert plan.table.column("round").to_pylist() == [1] * 40 + [2] * 60
        part = estimate(answers, label(answers, plan.table), proba=proba, design=plan.table).accuracy
        values.append(part.value)
        inside.append(part.low <= true <= part.high)
    assert abs(np.mean(values) - true) < 0.015 and np.mean(inside) > 0.88


def test_gold_that_was_drawn_at_random_is_the_first_round(crowd):
    answers, proba = crowd
    gold = np.where(np.arange(N) < 50, answers.truth, -1)
    table = plan_gold(answers, proba, 50, gold=gold).table
    assert table.column("label").to_pylist()[:50] == answers.truth[:50].tolist()
    assert table.column("label").null_count == 50
    sample = design_sample(answers, np.sort(table.column("task").to_numpy()), table)
    assert sample.weight.sum() == pytest.approx(1) and not sample.uniform
    assert sample.weight[:50].sum() == pytest.approx(0.5, abs=0.05)


def test_a_file_that_is_labelled_in_part_can_be_used(crowd):
    answers, proba = crowd
    true, values = (proba.argmax(axis=1) == answers.truth).mean(), []
    for seed in range(40):
        table = plan_gold(answers, proba, 100, seed=seed).table
        gold = label(answers, table, 60)
        values.append(estimate(answers, gold, proba=proba, design=table).accuracy.value)
        sample = design_sample(answers, np.flatnonzero(gold >= 0), table)
        assert sample.weight.sum() == pytest.approx(1) and np.bincount(sample.stratum).min() >= 2
    assert abs(np.mean(values) - true) < 0.02


def test_gold_of_all_tasks_leaves_no_doubt(crowd):
    answers, proba = crowd
    table = plan_gold(answers, proba, 2 * N).table
    part = estimate(answers, label(answers, table), proba=proba, design=table).accuracy
    assert part.low == pytest.approx(part.high) == pytest.approx((proba.argmax(axis=1) == answers.truth).mean())
    with pytest.raises(GoldError, match="nothing left to label"):
        plan_gold(answers, proba, 5, gold=answers.truth)


def test_refusals(crowd):
    answers, proba = crowd
    with pytest.raises(GoldError, match="ask for at least 10"):
        plan_gold(answers, proba, 5)
    gold = np.where(np.arange(N) < 20, answers.truth, -1)
    rows, task = np.flatnonzero(gold >= 0), np.arange(20)
    with pytest.raises(GoldError, match="more labels than stratum_tasks"):
        design_sample(answers, rows, pa.table({"task": task, "round": task * 0 + 1, "stratum_tasks": task * 0 + 3}))
    with pytest.raises(GoldError, match="without a probability"):
        design_sample(answers, rows, pa.table({"task": task, "round": task * 0 + 1, "probability": task * 0.0}))
    with pytest.raises(GoldError, match="not numbers"):
        design_sample(answers, rows, pa.table({"task": task, "round": ["x"] * 20, "probability": task * 0 + 0.5}))


def test_stated_probabilities_are_used(crowd):
    answers, _ = crowd
    gold = np.where(np.arange(N) < 20, answers.truth, -1)
    table = pa.table(
        {"task": np.arange(20), "round": np.ones(20), "probability": np.where(np.arange(20) < 10, 0.1, 0.2)}
    )
    weight = design_sample(answers, np.flatnonzero(gold >= 0), table).weight
    assert weight[0] == pytest.approx(2 * weight[-1])
