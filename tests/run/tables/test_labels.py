"""Verdicts and ambiguity of tasks."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from crowdwise import Answers, DawidSkene, simulate
from crowdwise.report.source import VERDICTS
from crowdwise.run.tables.labels import (
    CHEAP,
    HOPELESS,
    TINY,
    Labelling,
    ambiguity,
    answers_needed,
    average_worker,
    label_table,
    most_ambiguous,
)
from crowdwise.run.tables.tasks import Disagreement


@pytest.fixture(scope="module")
def labelling():
    model = DawidSkene().fit(simulate.simulate(300, n_workers=12, n_classes=3, answers_per_task=4, seed=3))
    return Labelling(model.answers_, model.proba_, model.codes_)


def ranking(labelling):
    return Disagreement(labelling, np.linspace(0.6, 0.9, labelling.answers.n_workers))


def test_the_first_rule_that_applies_gives_the_verdict(labelling):
    table = label_table(labelling, ranking(labelling), 0.9)
    verdict = np.array(table.column("verdict").to_pylist())
    sure = table.column("confidence").to_numpy() >= 0.9
    assert set(verdict) <= set(VERDICTS)
    assert (verdict[sure] == "accept").all() and not (verdict[~sure] == "accept").any()
    hopeless = verdict == "hopeless"
    assert (table.column("ambiguity").to_numpy()[hopeless] > 1 - HOPELESS).all() and hopeless.any()
    assert (table.column("agreement").to_numpy()[hopeless] < 1).all()
    rest = ~sure & ~hopeless
    needed = answers_needed(labelling, 0.9)
    assert (verdict[rest & (needed <= CHEAP)] == "needs more answers").all()
    assert (verdict[rest & (needed > CHEAP)] == "review").all()


def verdicts(confidence, says, scores, accept=0.9):
    """Verdicts of tasks with two answers each; the last value is used for all further tasks."""
    n, named = len(scores), np.arange(len(scores)).clip(max=len(says) - 1)
    answers = Answers.from_arrays(
        np.repeat(np.arange(n), 2), np.tile(["a", "b"], n), [label for i in named for label in says[i]], classes="xy"
    )
    sure = np.array(confidence)[np.arange(n).clip(max=len(confidence) - 1)]
    labelling = Labelling(answers, np.stack([sure, 1 - sure], axis=1), np.zeros(n, int))
    return label_table(labelling, SimpleNamespace(scores_=np.array(scores)), accept).column("verdict").to_pylist()


def test_a_confident_label_is_accepted_even_if_its_task_is_ambiguous():
    scores = [-2.0, -1.0, *np.arange(98.0)]
    assert verdicts([0.95, 0.55, 0.55], ["xy"], scores)[:2] == ["accept", "hopeless"]


def test_tasks_whose_answers_agree_are_not_hopeless():
    scores = [-2.0, -1.0, *np.arange(98.0)]
    found = verdicts([0.55], ["xx", "xy"], scores)
    assert found[0] != "hopeless" and found[1] == "hopeless"


def test_a_confidence_equal_to_the_limit_is_accepted():
    below = np.nextafter(0.9, 0)
    assert [verdict == "accept" for verdict in verdicts([0.9, below], ["xx"], [0.0, 0.0])] == [True, False]
    assert verdicts([0.75], ["xx"], [0.0], accept=0.75) == ["accept"]


@pytest.mark.parametrize(("n_lowest", "n_hopeless"), [(1, 5), (4, 5), (5, 5), (6, 0), (40, 0)])
def test_at_most_a_twentieth_is_hopeless_with_any_ties(n_lowest, n_hopeless):
    scores = np.concatenate([np.full(n_lowest, -1.0), np.arange(100.0 - n_lowest)])
    assert verdicts([0.55], ["xy"], scores).count("hopeless") == n_hopeless
    np.testing.assert_array_equal(ambiguity(scores)[:n_lowest], 1)


def test_only_ranked_tasks_count_for_the_twentieth():
    scores = np.concatenate([np.arange(40.0), np.full(60, np.inf)])
    np.testing.assert_array_equal(np.flatnonzero(most_ambiguous(scores)), [0, 1])
    assert not most_ambiguous(np.full(3, np.inf)).any() and not most_ambiguous(np.arange(19.0)).any()


def test_a_higher_limit_accepts_fewer_labels(labelling):
    counts = [
        label_table(labelling, ranking(labelling), bar).column("verdict").to_pylist().count("accept")
        for bar in (0.6, 0.8, 0.95)
    ]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]


def test_answers_needed_equal_those_computed_by_hand(monkeypatch):
    # A crowd that is right 8 times in 10: an answer adds .8 log 4 + .2 log(1/4) = .6 log 4 nats on average.
    answers = Answers.from_arrays(np.arange(2000) // 2, np.arange(2000) % 2, np.tile(["x", "y"], 1000))
    proba = np.full((1000, 2), 0.5)
    proba[0] = [0.6, 0.4]
    labelling = Labelling(answers, proba, np.zeros(1000, int))
    average = np.array([[0.8, 0.2], [0.2, 0.8]])
    gap = np.log(9) - np.log(1.5)

    monkeypatch.setattr("crowdwise.run.tables.labels.average_worker", lambda _: average)
    assert answers_needed(labelling, 0.9)[0] == np.ceil(gap / (0.6 * np.log(4)))


@pytest.mark.parametrize("n_classes", [2, 3, 30])
def test_answers_needed_equal_the_dense_formula(n_classes):
    answers = simulate.simulate(200, n_workers=12, n_classes=n_classes, answers_per_task=3, seed=n_classes)
    proba = np.random.default_rng(0).dirichlet(np.full(n_classes, 0.5), answers.n_tasks)
    part = Labelling(answers, proba, proba.argmax(axis=1))
    average = average_worker(part)
    divergence = rel_entr(average[:, None], average[None]).sum(axis=2)  # (classes, classes)
    first, second = np.argsort(-proba, axis=1, kind="stable")[:, :2].T
    odds = np.log(proba.max(axis=1)) - np.log(np.maximum(proba[np.arange(len(proba)), second], TINY))
    gap = np.maximum(np.log(9) - odds, 0)
    needed = answers_needed(part, 0.9)
    np.testing.assert_array_equal(needed, np.ceil(gap / divergence[first, second]))
    assert len(np.unique(needed)) > 2


def test_tasks_without_answers_need_more_answers():
    answers = Answers.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "y", "x"], tasks=[1, 2, 3])
    proba = np.array([[0.5, 0.5], [0.8, 0.2], [0.55, 0.45]])
    labelling = Labelling(answers, proba, proba.argmax(axis=1))
    table = label_table(labelling, ranking(labelling), 0.9)
    assert table.column("verdict").to_pylist()[2] == "needs more answers"
    assert table.column("ambiguity").to_pylist()[1:] == [None, None]  # with one answer or none there is no disagreement


def test_rows_of_the_average_worker_sum_to_one(labelling):
    average = average_worker(labelling)
    np.testing.assert_allclose(average.sum(axis=1), 1)
    assert (np.diag(average) > 1 / 3).all()


@given(st.lists(st.floats(-5, 5) | st.just(np.inf), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_ambiguity_is_a_share_of_ranked_tasks(scores):
    scores = np.array(scores)
    share = ambiguity(scores)
    known = np.isfinite(scores)
    assert np.isnan(share[~known]).all() and (share[known] > 0).all() and (share[known] <= 1).all()
    assert not known.any() or (share[known][scores[known] == scores[known].min()] == 1).all()
    for low in scores[known]:
        assert (share[known][scores[known] < low] > share[known][scores[known] == low][0]).all()


def test_the_order_of_answers_does_not_matter(labelling):
    answers, proba, codes = labelling
    table = answers.to_arrow()
    shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
    other = Answers.from_frame(shuffled, classes=answers.classes)
    again = Labelling(other, proba, codes)
    first, second = (label_table(part, ranking(part), 0.9) for part in (labelling, again))
    for name in ("task", "verdict", "label"):
        assert first.column(name).to_pylist() == second.column(name).to_pylist()
