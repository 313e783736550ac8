"""Iterative weighted majority vote."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.simulate import simulate
from crowdwise.truth.methods.naive_soft import vote_sums
from crowdwise.truth.methods.wawa import agreement_rates, winner_shares


def test_one_iteration_matches_manual_calculation():
    answers = cw.Answers.from_arrays([0, 0, 0, 1, 1, 1], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    model = cw.IWMV(max_iter=1).fit(answers)
    np.testing.assert_allclose(model.skill_, [1, 1, 0.5])
    weight = 2 * model.skill_ - 1  # 1, 1, 0
    odds = 2 * (weight[0] + weight[1] - weight[2])  # K / (K - 1) = 2
    np.testing.assert_allclose(model.proba_[0, 0], 1 / (1 + np.exp(-odds)))


def test_ends_at_a_fixed_point():
    answers = simulate(500, n_workers=20, n_classes=4, seed=3)
    seen = []
    model = cw.IWMV().fit(answers, callback=lambda i, changed: seen.append((i, changed)))
    assert model.converged_
    assert seen == list(enumerate(model.history_))
    won = winner_shares(vote_sums(answers, 4 * model.skill_[answers.worker] - 1))
    np.testing.assert_allclose(agreement_rates(answers, won), model.skill_)
    np.testing.assert_allclose(winner_shares(model.proba_), won)


def test_answers_of_adversaries_count_against_their_label():
    answers = simulate(1000, n_workers=20, n_classes=2, workers={"one-coin": 0.6, "adversary": 0.4},
                       accuracy=(0.8, 0.95), answers_per_task=7, seed=0)  # fmt: skip
    model = cw.IWMV().fit(answers)
    vote = cw.MajorityVote().fit(answers)
    assert (model.skill_ < 0.3).sum() == 8
    assert (model.codes_ == answers.truth).mean() > (vote.codes_ == answers.truth).mean() + 0.1


def test_weight_is_the_log_odds_near_chance():
    """K / (K - 1) * (K p - 1) is log((K - 1) p / (1 - p)) to first order at p = 1 / K."""
    for n_classes in (2, 5):
        p = 1 / n_classes + 1e-4
        linear = n_classes / (n_classes - 1) * (n_classes * p - 1)
        assert linear == pytest.approx(np.log((n_classes - 1) * p / (1 - p)), rel=1e-3)


def test_gold_is_used_for_skill():
    answers = cw.Answers.from_arrays([0, 0, 0], list("abc"), ["x", "x", "y"])
    model = cw.IWMV().fit(answers, gold={0: "y"})
    np.testing.assert_allclose(model.skill_, [0, 0, 1])
    np.testing.assert_allclose(model.proba_, [[0, 1]])


@pytest.mark.parametrize("seed", range(4))
def test_beats_the_vote_on_its_own_model(seed):
    answers = simulate(1000, n_workers=30, workers="one-coin", accuracy=(0.3, 0.95), answers_per_task=5, seed=seed)
    model = cw.IWMV().fit(answers)
    vote = cw.MajorityVote().fit(answers)
    assert (model.codes_ == answers.truth).mean() > (vote.codes_ == answers.truth).mean()
    accuracy = [(answers.label == answers.truth[answers.task])[answers.worker == w].mean() for w in range(30)]
    assert np.abs(model.skill_ - accuracy).max() < 0.15


def test_invalid_parameters_raise():
    with pytest.raises(ParameterError, match="max_iter"):
        cw.IWMV(max_iter=0).fit(cw.Answers.from_arrays([0], [0], [0]))
