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
    """Equal workers with few answers each: without a prior every worker's matrix is noise."""
    for seed in range(3):
        answers = cw.simulate.simulate(
            400, n_workers=200, n_classes=6, answers_per_task=3, workers="one-coin", accuracy=(0.8, 0.8),
            activity="even", seed=seed,
        )  # fmt: skip
        assert not cw.DawidSkene(prior=None).check_against_vote(answers).supported
        assert cw.OneCoin().check_against_vote(answers).difference > -0.02


def test_split_leaves_every_task_an_answer():
    answers = cw.simulate.simulate(100, n_workers=10, answers_per_task=2.5)
    training, held_out = split_answers(answers, 0.2, seed=0)
    assert training.n_answers + held_out.n_answers == answers.n_answers
    assert (np.diff(training.task_starts) > 0).all()
    assert training.n_workers == held_out.n_workers == answers.n_workers


def test_likelihood_matches_manual_calculation():
    training = cw.Answers.from_codes(
        np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), tasks=2, workers=2, classes=2
    )
    held_out = cw.Answers.from_codes(
        np.array([0, 1]), np.array([1, 0]), np.array([0, 0]), tasks=2, workers=2, classes=2
    )
    proba = np.array([[1.0, 0.0], [0.0, 1.0]])
    pooled = np.array([[1.05, 0.05], [0.05, 1.05]]) / 1.1  # one right answer per class, smoothed
    new = pooled[0, 0]  # worker 1 has no training answers: the average worker
    old = 5 * pooled[0, 1] / (5 + 1)  # worker 0 answered 1 once when the truth was 1
    np.testing.assert_allclose(log_likelihood(training, held_out, proba), np.log([new, old]))


@pytest.mark.parametrize("task", [[1, 2, 3], [1, 1, 2]])
def test_too_few_tasks_with_two_answers_raise(task):
    answers = cw.Answers.from_arrays(task, ["a", "b", "a"], ["x", "y", "x"])
    with pytest.raises(CrowdwiseError, match=r"too few tasks have two answers: only [01] .*10 are needed"):
        cw.DawidSkene().check_against_vote(answers)


def test_majority_vote_does_not_beat_itself():
    verdict = cw.MajorityVote().check_against_vote(cw.simulate.simulate(200, answers_per_task=3))
    assert not verdict.supported
    assert "do not support" in str(verdict) or "show no difference" in str(verdict)


def test_the_text_follows_difference_and_standard_error():
    assert "no difference between X and majority vote" in str(VoteCheck("X", 0.0, 0.0, 10))
    assert "support X over" in str(VoteCheck("X", 0.1, 0.01, 10))
    assert "slightly favour X" in str(VoteCheck("X", 0.1, 0.2, 10))
    assert "do not support" in str(VoteCheck("X", -0.1, 0.2, 10))


def test_the_standard_error_is_clustered_by_task():
    now, before = np.array([-1.0, -1.0, -2.0, -2.0]), np.array([-2.0, -2.0, -1.0, -2.0])
    # gains 1, 1, -1, 0 with mean 1/4; sums over tasks 0 and 1 about the mean: 3/2 and -3/2
    change, error = mean_and_error(now - before, np.array([0, 0, 1, 1]))
    assert (change, error) == pytest.approx((0.25, np.sqrt(2 * 1.5**2) / 4))
