"""Votes weighted by accuracy on gold tasks."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import GoldError, ParameterError
from crowdwise.simulate import simulate


@pytest.fixture
def answers():
    """Worker c answers no gold task (0 and 1)."""
    return cw.Answers.from_arrays([0, 0, 1, 1, 2, 2, 2], list("ababaec"), list("xyxxxyy"))


GOLD = {0: "x", 1: "x"}


def test_skills_and_votes_match_manual_calculation(answers):
    model = cw.GoldVote(smoothing=0).fit(answers, GOLD)
    assert model.workers_.tolist() == ["a", "b", "c", "e"]
    np.testing.assert_allclose(model.skill_, [1, 1 / 2, 3 / 4, 3 / 4])  # all workers together: 3 of 4 right
    np.testing.assert_allclose(model.proba_[2], [1 / 2.5, 1.5 / 2.5])
    np.testing.assert_allclose(model.proba_[:2], [[1, 0], [1, 0]])


def test_smoothing_pulls_skills_towards_the_average(answers):
    model = cw.GoldVote(smoothing=2).fit(answers, GOLD)
    np.testing.assert_allclose(model.skill_, [(2 + 1.5) / 4, (1 + 1.5) / 4, 3 / 4, 3 / 4])


def test_answer_weights_are_used():
    answers = cw.Answers.from_arrays([0, 1, 2, 2], list("aaab"), list("xyxy"), weight=[3, 1, 2, 5])
    model = cw.GoldVote(smoothing=0).fit(answers, {0: "x", 1: "x"})
    np.testing.assert_allclose(model.skill_, [3 / 4, 3 / 4])
    np.testing.assert_allclose(model.proba_[2], [2 / 7, 5 / 7])


def test_gold_without_answers_raises(answers):
    assert cw.GoldVote.needs_gold
    with pytest.raises(GoldError, match="pass gold="):
        cw.GoldVote().fit(answers)
    with pytest.raises(GoldError, match="pass gold="):
        cw.GoldVote().fit(answers, np.full(3, -1))
    more = cw.Answers.from_arrays(answers.task, answers.worker, answers.label, tasks=range(4))
    with pytest.raises(GoldError, match="none of the 1 gold tasks has answers"):
        cw.GoldVote().fit(more, {3: 0})


def test_if_all_gold_answers_are_wrong_plain_votes_decide(answers):
    model = cw.GoldVote().fit(answers, {1: "y"})
    np.testing.assert_array_equal(model.skill_, 0)
    np.testing.assert_allclose(model.proba_[2], [1 / 3, 2 / 3])


@pytest.mark.parametrize("seed", range(4))
def test_recovers_skill_and_beats_the_vote(seed):
    answers = simulate(1500, n_workers=20, workers="one-coin", accuracy=(0.2, 0.95), activity="even",
                       answers_per_task=5, seed=seed)  # fmt: skip
    gold = np.where(np.arange(1500) < 500, answers.truth, -1)
    model, vote = cw.GoldVote().fit(answers, gold), cw.MajorityVote().fit(answers)
    rest = gold < 0
    assert (model.codes_ == answers.truth)[rest].mean() > (vote.codes_ == answers.truth)[rest].mean()
    accuracy = [(answers.label == answers.truth[answers.task])[answers.worker == w].mean() for w in range(20)]
    assert np.abs(model.skill_ - accuracy).max() < 0.15


def test_invalid_parameters_raise(answers):
    with pytest.raises(ParameterError, match="smoothing"):
        cw.GoldVote(smoothing=-1).fit(answers, GOLD)
