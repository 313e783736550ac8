"""Votes weighted by Dawid-Skene accuracy on the class voted for."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.simulate import simulate


@pytest.fixture(scope="module")
def answers():
    return simulate(200, n_workers=12, n_classes=4, answers_per_task=4, seed=0)


@pytest.mark.parametrize("base", [None, cw.DawidSkene(prior=0.3), cw.IBCC(), cw.EBCC(num_groups=2)])
def test_votes_match_the_formula_on_dense_matrices(answers, base):
    model = cw.WDS(base).fit(answers)
    found = (base or cw.DawidSkene()).fit(answers)
    np.testing.assert_array_equal(model.confusion_, found.confusion_)
    expected = np.zeros((200, 4))
    for t, w, c in zip(answers.task, answers.worker, answers.label, strict=True):
        expected[t, c] += found.confusion_[w, c, c]
    np.testing.assert_allclose(model.proba_, expected / expected.sum(axis=1, keepdims=True))
    assert model.history_ == found.history_


def test_the_base_is_not_modified(answers):
    base = cw.DawidSkene()
    cw.WDS(base).fit(answers)
    assert not hasattr(base, "answers_")


def test_gold_weights_and_callback_are_used(answers):
    gold = np.where(np.arange(200) < 50, answers.truth, -1)
    seen = []
    model = cw.WDS().fit(answers, gold, callback=lambda i, bound: seen.append(bound))
    assert seen == model.history_
    assert (model.codes_[:50] == answers.truth[:50]).all()
    doubled = cw.Answers.from_codes(
        answers.task, answers.worker, answers.label, tasks=200, workers=12, classes=4,
        weight=np.where(answers.worker == 0, 2.0, 1.0),
    )  # fmt: skip
    weighted = cw.WDS().fit(doubled)
    expected = np.zeros((200, 4))
    for t, w, c, weight in zip(doubled.task, doubled.worker, doubled.label, doubled.weight, strict=True):
        expected[t, c] += weight * weighted.confusion_[w, c, c]
    np.testing.assert_allclose(weighted.proba_, expected / expected.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("seed", range(4))
def test_beats_the_vote_when_workers_differ(seed):
    answers = simulate(1000, n_workers=30, workers={"hammer": 0.3, "uniform-guess": 0.7}, answers_per_task=4, seed=seed)
    model, vote = cw.WDS().fit(answers), cw.MajorityVote().fit(answers)
    assert (model.codes_ == answers.truth).mean() > (vote.codes_ == answers.truth).mean() + 0.03


def test_is_closer_to_the_votes_than_dawid_skene(answers):
    shares = cw.NaiveSoft().fit(answers).proba_
    weighted, posterior = cw.WDS().fit(answers).proba_, cw.DawidSkene().fit(answers).proba_
    assert np.abs(weighted - shares).mean() < np.abs(posterior - shares).mean()


def test_refuses_a_base_without_confusion(answers):
    with pytest.raises(ParameterError, match="confusion"):
        cw.WDS(cw.MajorityVote()).fit(answers)
