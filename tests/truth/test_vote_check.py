import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import CrowdwiseError
from crowdwise.truth.vote_check import VoteCheck, log_likelihood, mean_and_error, split_answers


def test_supports_a_model_where_its_assumption_holds():
    workers = {"class-dependent": 0.5, "spammer": 0.5}
    for seed in range(3):
        answers = cw.simulate.simulate(2000, n_workers=30, n_classes=4, answers_per_task=6, workers=workers, seed=seed)
        verdict = cw.DawidSkene().check_against_vote(answers)
        assert verdict.supported
        assert verdict.difference > 2 * verdict.standard_error
        assert "support" in str(verdict)


def test_rejects_a_model_with_too_many_parameters():
    """Equal workers, few answers each: without a prior every worker gets a matrix made of noise."""
    for seed in range(3):
        answers = cw.simulate.simulate(
            400, n_workers=200, n_classes=6, answers_per_task=3, workers="one-coin", accuracy=(0.8, 0.8),
            activity="even", seed=seed,
        )  # fmt: skip
        assert not cw.DawidSkene(prior=None).check_against_vote(answers).supported
        assert cw.OneCoin().check_against_vote(answers).difference > -0.02


def test_split_leaves_every_task_an_answer():
    answers = cw.simulate.simulate(100, n_workers=10, answers_per_task=2.5)
    kept, held = split_answers(answers, 0.2, seed=0)
    assert kept.n_answers + held.n_answers == answers.n_answers
    assert (np.diff(kept.task_starts) > 0).all()
    assert kept.n_workers == held.n_workers == answers.n_workers


def test_likelihood_by_hand():
    kept = cw.Answers.from_codes(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), tasks=2, workers=2, classes=2)
    held = cw.Answers.from_codes(np.array([0, 1]), np.array([1, 0]), np.array([0, 0]), tasks=2, workers=2, classes=2)
    proba = np.array([[1.0, 0.0], [0.0, 1.0]])
    pooled = np.array([[1.05, 0.05], [0.05, 1.05]]) / 1.1  # one answer of each class, all right, a little smoothed
    new = pooled[0, 0]  # worker 1 has not been seen: an average worker
    old = 5 * pooled[0, 1] / (5 + 1)  # worker 0 said 1 once when the truth was 1
    np.testing.assert_allclose(log_likelihood(kept, held, proba), np.log([new, old]))


def test_nothing_to_hide():
    answers = cw.Answers.from_arrays([1, 2, 3], ["a", "a", "a"], ["x", "y", "x"])
    with pytest.raises(CrowdwiseError, match="nothing can be checked"):
        cw.DawidSkene().check_against_vote(answers)


def test_too_few_to_say_anything():
    answers = cw.Answers.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "y", "x"])
    with pytest.raises(CrowdwiseError, match="too few"):
        cw.DawidSkene().check_against_vote(answers)


def test_the_vote_is_no_better_than_itself():
    verdict = cw.MajorityVote().check_against_vote(cw.simulate.simulate(200, answers_per_task=3))
    assert not verdict.supported
    assert "do not support" in str(verdict) or "the same as majority vote" in str(verdict)


def test_sentences():
    assert "the same as majority vote" in str(VoteCheck("X", 0.0, 0.0, 10))
    assert "support X over" in str(VoteCheck("X", 0.1, 0.01, 10))
    assert "not clearly" in str(VoteCheck("X", 0.1, 0.2, 10))
    assert "do not support" in str(VoteCheck("X", -0.1, 0.2, 10))


def test_the_error_of_a_gain_is_clustered_by_task():
    now, before = np.array([-1.0, -1.0, -2.0, -2.0]), np.array([-2.0, -2.0, -1.0, -2.0])
    # gains 1, 1, -1, 0, mean 1/4; of tasks 0 and 1: 3/2 and -3/2 about the mean
    change, error = mean_and_error(now - before, np.array([0, 0, 1, 1]))
    assert (change, error) == pytest.approx((0.25, np.sqrt(2 * 1.5**2) / 4))
