"""Votes weighted by agreement with the majority."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.simulate import simulate
from crowdwise.truth.methods.wawa import agreement_rates, agreement_sums, answer_weights, winner_shares

# 12 tasks x 5 workers with gaps (-1); three tasks tie.
WIDE = [
    [2, 0, 2, -1, -1], [-1, 2, 2, 2, -1], [0, -1, 1, -1, 2], [2, 2, -1, 2, 0], [1, 1, 1, 1, -1], [1, 2, -1, 1, 1],
    [1, 1, 1, 1, 1], [0, 0, 2, 2, 1], [2, 2, 2, 2, 1], [2, 0, 0, -1, -1], [0, 0, 0, -1, 0], [1, 1, -1, -1, 0],
]  # fmt: skip


def test_crowd_kit_gives_the_same_skills():
    """Skills of crowd-kit 1.4.2's Wawa on these answers, which breaks ties by the order of classes."""
    model = cw.Wawa(ties="first").fit(cw.Answers.from_wide(WIDE, missing=-1))
    np.testing.assert_allclose(model.skill_, [10 / 11, 9 / 11, 7 / 9, 6 / 7, 3 / 8])


def test_skills_and_votes_match_manual_calculation():
    answers = cw.Answers.from_arrays([0, 0, 0, 1, 1, 1], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    model = cw.Wawa().fit(answers)
    np.testing.assert_allclose(model.skill_, [1, 1, 0.5])
    np.testing.assert_allclose(model.proba_, [[2 / 2.5, 0.5 / 2.5], [0, 1]])


def test_tied_classes_share_the_win():
    answers = cw.Answers.from_arrays([0, 0, 1], list("aba"), ["x", "y", "x"])
    np.testing.assert_allclose(cw.Wawa().fit(answers).skill_, [0.75, 0.5])
    np.testing.assert_allclose(cw.Wawa(ties="first").fit(answers).skill_, [1, 0])


def test_gold_replaces_the_majority():
    answers = cw.Answers.from_arrays([0, 0, 0], list("abc"), ["x", "x", "y"])
    np.testing.assert_allclose(cw.Wawa().fit(answers, gold={0: "y"}).skill_, [0, 0, 1])


def test_agreement_rate_is_the_weighted_mean_probability():
    rng = np.random.default_rng(0)
    answers = simulate(300, n_workers=12, n_classes=4, seed=0)
    answers = cw.Answers.from_codes(
        answers.task, answers.worker, answers.label, tasks=300, workers=13, classes=4,
        weight=rng.uniform(0, 2, answers.n_answers),
    )  # fmt: skip
    proba = rng.dirichlet(np.ones(4), size=300)
    belief = answers.weight * proba[answers.task, answers.label]
    right = np.array([belief[answers.worker == w].sum() for w in range(13)])
    total = np.array([answers.weight[answers.worker == w].sum() for w in range(13)])
    np.testing.assert_allclose(agreement_sums(answers, proba), right)
    np.testing.assert_allclose(answer_weights(answers), total)
    np.testing.assert_allclose(agreement_rates(answers, proba)[:12], right[:12] / total[:12])
    assert agreement_rates(answers, proba)[12] == pytest.approx(right.sum() / total.sum())  # no answers


def test_winner_shares_split_ties():
    scores = np.array([[1.0, 3.0, 3.0 + 1e-14], [-2.0, -1.0, -3.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(winner_shares(scores), [[0, 0.5, 0.5], [0, 1, 0], [1 / 3] * 3])
    np.testing.assert_allclose(winner_shares(scores[1:], "first"), [[0, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize("seed", range(4))
def test_beats_the_vote_when_workers_differ(seed):
    answers = simulate(1000, n_workers=30, workers={"hammer": 0.3, "uniform-guess": 0.7}, answers_per_task=4, seed=seed)
    model = cw.Wawa().fit(answers)
    vote = cw.MajorityVote().fit(answers)
    assert (model.codes_ == answers.truth).mean() > (vote.codes_ == answers.truth).mean() + 0.03


def test_invalid_parameters_raise():
    with pytest.raises(ParameterError, match="ties"):
        cw.Wawa(ties="last").fit(cw.Answers.from_arrays([0], [0], [0]))
