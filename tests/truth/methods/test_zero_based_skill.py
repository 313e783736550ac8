"""Skills learned step by step from the weighted vote."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.simulate import simulate
from crowdwise.truth.methods.naive_soft import to_shares, vote_sums
from crowdwise.truth.methods.wawa import agreement_rates, winner_shares

# 12 tasks x 5 workers with gaps (-1); three tasks tie.
WIDE = [
    [2, 0, 2, -1, -1], [-1, 2, 2, 2, -1], [0, -1, 1, -1, 2], [2, 2, -1, 2, 0], [1, 1, 1, 1, -1], [1, 2, -1, 1, 1],
    [1, 1, 1, 1, 1], [0, 0, 2, 2, 1], [2, 2, 2, 2, 1], [2, 0, 0, -1, -1], [0, 0, 0, -1, 0], [1, 1, -1, -1, 0],
]  # fmt: skip


def test_crowd_kit_gives_the_same_skills():
    """Skills of crowd-kit 1.4.2's ZeroBasedSkill on these answers, with its defaults and with smaller steps."""
    answers = cw.Answers.from_wide(WIDE, missing=-1)
    np.testing.assert_allclose(
        cw.ZeroBasedSkill(ties="first").fit(answers).skill_, [10 / 11, 9 / 11, 7 / 9, 6 / 7, 3 / 8]
    )
    slow = cw.ZeroBasedSkill(max_iter=6, lr_init=0.3, lr_steps_to_reduce=2, ties="first").fit(answers)
    expected = [0.669289233644926, 0.6162442228139602, 0.592668662444642, 0.638977798884374, 0.35764979501300126]
    np.testing.assert_allclose(slow.skill_, expected, rtol=1e-12)


def test_one_step_matches_manual_calculation():
    answers = cw.Answers.from_arrays([0, 0, 0, 1, 1, 1], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    model = cw.ZeroBasedSkill(max_iter=1, lr_init=0.5, eps=0).fit(answers)
    np.testing.assert_allclose(model.skill_, [0.75, 0.75, 0.5])
    np.testing.assert_allclose(model.proba_[0], [1.5 / 2, 0.5 / 2])
    assert not model.converged_


def test_converged_skills_agree_with_their_own_vote():
    answers = simulate(500, n_workers=20, n_classes=3, seed=1)
    seen = []
    model = cw.ZeroBasedSkill().fit(answers, callback=lambda i, distance: seen.append((i, distance)))
    assert model.converged_
    vote = winner_shares(to_shares(answers, vote_sums(answers, model.skill_[answers.worker])))
    np.testing.assert_allclose(model.skill_, agreement_rates(answers, vote), atol=1e-9)
    assert seen == list(enumerate(model.history_))
    assert model.history_[-1] < 1e-12


def test_the_learning_rate_is_reduced():
    answers = simulate(200, n_workers=10, n_classes=3, seed=2)
    model = cw.ZeroBasedSkill(max_iter=8, lr_init=0.5, lr_steps_to_reduce=1, lr_reduce_factor=1e-3, eps=0).fit(answers)
    np.testing.assert_allclose(model.skill_, 1 / 3, atol=1e-3)  # the first step is reduced too


@pytest.mark.parametrize("seed", range(4))
def test_beats_the_vote_when_workers_differ(seed):
    answers = simulate(1000, n_workers=30, workers={"hammer": 0.3, "uniform-guess": 0.7}, answers_per_task=4, seed=seed)
    model = cw.ZeroBasedSkill().fit(answers)
    vote = cw.MajorityVote().fit(answers)
    assert (model.codes_ == answers.truth).mean() > (vote.codes_ == answers.truth).mean() + 0.03


@pytest.mark.parametrize(
    "parameters",
    [{"max_iter": 0}, {"lr_init": 0}, {"lr_steps_to_reduce": 0}, {"lr_reduce_factor": 2}, {"eps": -1}, {"ties": "no"}],
)
def test_invalid_parameters_raise(parameters):
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        cw.ZeroBasedSkill(**parameters).fit(cw.Answers.from_arrays([0], [0], [0]))
