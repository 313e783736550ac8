"""Verdicts and ambiguity of tasks."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from crowdwise import Answers, DawidSkene, simulate
from crowdwise.errors import ParameterError
from crowdwise.report.source import VERDICTS
from crowdwise.run.tables.labels import (
    ASKED,
    CHEAP,
    GOLD,
    HOPELESS,
    MINORITY,
    TINY,
    UNANSWERED,
    UNFLAGGED,
    UNNAMED,
    Labelling,
    ambiguity,
    answers_needed,
    average_worker,
    label_table,
)
from crowdwise.run.tables.tasks import Disagreement


@pytest.fixture(scope="module")
def labelling():
    model = DawidSkene().fit(simulate.simulate(300, n_workers=12, n_classes=3, answers_per_task=4, seed=3))
    return Labelling(model.answers_, model.proba_, model.codes_)


def ranking(labelling):
    return Disagreement(labelling, np.linspace(0.6, 0.9, labelling.answers.n_workers))


def test_the_first_rule_that_applies_gives_the_verdict(labelling):
    table = label_table(labelling, ranking(labelling), 0.9, quality=np.full(labelling.answers.n_workers, 0.95))
    verdict = np.array(table.column("verdict").to_pylist())
    sure = table.column("confidence").to_numpy() >= 0.9
    majority = table.column("agreement").to_numpy() >= 0.5
    assert set(verdict) <= set(VERDICTS)
    assert (verdict[sure & majority] == "accept").all() and not (verdict[~sure | ~majority] == "accept").any()
    hopeless = verdict == "hopeless"
    assert hopeless.any() and (table.column("confidence").to_numpy()[hopeless] < HOPELESS).all()
    rest = ~sure & ~hopeless
    needed = answers_needed(labelling, 0.9)
    assert (verdict[rest & (needed <= CHEAP)] == "needs more answers").all()
    assert (verdict[rest & (needed > CHEAP)] == "review").all()


def verdicts(says, confidence, accept=0.9, low=0.9, **options):
    """Verdicts and reasons of tasks with these answers, whose label is x; further tasks settle the class shares."""
    says = [*says, *["xxxxxx", "yyyyyy"] * 20]
    task = np.repeat(np.arange(len(says)), [len(labels) for labels in says])
    worker = np.concatenate([np.arange(len(labels)) for labels in says])
    answers = Answers.from_arrays(task, worker, list("".join(says)), tasks=np.arange(len(says)), classes="xyz")
    sure = np.concatenate([confidence, np.full(len(says) - len(confidence), 0.99)])
    proba = np.stack([sure, 0.9 * (1 - sure), 0.1 * (1 - sure)], axis=1)
    part = Labelling(answers, proba, np.zeros(len(says), int))
    ranks = SimpleNamespace(scores_=np.arange(len(says), dtype=float))
    quality = np.full(answers.n_workers, low)
    table = label_table(part, ranks, accept, quality=quality, **options).slice(0, len(confidence))
    return table.column("verdict").to_pylist(), table.column("reason").to_pylist()


def test_hopeless_needs_four_trusted_answers_that_contradict_each_other():
    says = ["xxyy", "xxy", "xxxy", "xxxyyy", "xxyy"]
    found, _ = verdicts(says, [0.55, 0.55, 0.55, 0.55, 0.7])
    assert [verdict == "hopeless" for verdict in found] == [True, False, False, True, False]
    guessing, _ = verdicts(says, [0.55] * 5, low=0.2)  # answers of workers who may guess are no evidence
    assert "hopeless" not in guessing
    often_wrong, _ = verdicts(says, [0.55] * 5, low=0.45)  # their contradictions are ordinary errors
    assert "hopeless" not in often_wrong


def test_a_task_that_every_worker_has_answered_needs_an_expert_or_new_workers():
    found, reason = verdicts(["xxxyyx", "xxxy", "xxxyyx"], [0.88, 0.88, 0.95])
    assert found == ["review", "needs more answers", "accept"]
    assert reason == [ASKED, None, None]
    spammers = np.array([False] * 4 + [True] * 2)
    found, reason = verdicts(["xxxyyx", "xxxy", "xxx"], [0.88] * 3, flagged=spammers)
    assert found == ["review", "review", "needs more answers"] and reason == [ASKED, ASKED, None]


def test_identical_tasks_get_identical_verdicts_at_any_rank():
    found, reason = verdicts(["xxxyyy"] * 30, [0.55] * 30)
    assert set(found) == {"hopeless"} and len(set(reason)) == 1


def test_a_label_that_few_or_no_answers_name_is_not_accepted():
    found, reason = verdicts(["xyyz", "yyyy", "xxyy", "", "xxxx"], [0.95] * 5)
    assert found == ["review", "review", "accept", "needs more answers", "accept"]
    assert reason == [MINORITY, UNNAMED, None, UNANSWERED, None]


def test_answers_of_flagged_workers_do_not_keep_a_label_from_being_accepted():
    flagged = np.array([False, True, True, False, False, False])
    found, reason = verdicts(["xyyyx", "xyyyy"], [0.95, 0.95], flagged=flagged)
    assert found == ["accept", "review"] and reason == [UNFLAGGED, MINORITY]
    many, _ = verdicts(["xyyyx"], [0.95], flagged=np.array([False, True, True, True, False, False]))
    assert many == ["review"], "flagged workers gave half of the answers, so the flags themselves are in doubt"


def test_features_may_speak_for_a_label_that_few_answers_name_and_the_reason_says_so():
    found, reason = verdicts(["xyyz", "yyyy"], [0.95, 0.95], by_features=True)
    assert found == ["accept", "accept"] and reason == [MINORITY, UNNAMED]
    assert verdicts(["xyyz"], [0.95], by_features=True, checked=False)[0] == ["review"]


def test_gold_is_always_accepted_and_replaces_the_label():
    gold = np.full(42, -1)
    gold[0] = 2
    found, reason = verdicts(["xxyy", "xxyy"], [0.55, 0.55], gold=gold)
    assert found == ["accept", "hopeless"] and reason[0] == GOLD
    with pytest.raises(ParameterError, match="from -1 to 2"):
        verdicts(["xxyy"], [0.55], gold=np.full(41, 3))


def test_a_confidence_equal_to_the_limit_is_accepted():
    below = np.nextafter(0.9, 0)
    found, _ = verdicts(["xx", "xx"], [0.9, below])
    assert [verdict == "accept" for verdict in found] == [True, False]
    assert verdicts(["xx"], [0.75], accept=0.75)[0] == ["accept"]


def test_one_answer_is_accepted_only_if_answers_could_be_held_out():
    assert verdicts(["x"], [0.95])[0] == ["accept"]
    found, reason = verdicts(["x"], [0.95], checked=False)
    assert found == ["needs more answers"] and "only one answer" in reason[0]


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
