import numpy as np
import pytest

from crowdwise import Answers, JointEM, MajorityVote
from crowdwise.evaluate.agreement import pairwise_agreement
from crowdwise.learn.joint_em.vote_prior import MIN_EQUAL_SHARE, denoise_shares, has_balanced_classes
from crowdwise.truth.base import vote_shares
from tests.helpers.crowds import answers_of, uneven


def one_coin(right, n_classes, n_workers=10):
    """Return confusion matrices of workers of one accuracy whose errors are spread evenly."""
    wrong = (1 - right) / (n_classes - 1)
    return np.tile(np.where(np.eye(n_classes, dtype=bool), right, wrong), (n_workers, 1, 1))


@pytest.mark.parametrize("right", [0.5, 0.7, 0.95])
def test_shares_of_simulated_crowds_are_recovered(right):
    shares = np.array([0.55, 0.25, 0.15, 0.05])
    truth = np.repeat(np.arange(4), (4000 * shares).astype(int))
    answers = answers_of(truth, one_coin(right, 4), per_task=4)
    vote = vote_shares(answers).mean(axis=0)
    found = denoise_shares(vote, pairwise_agreement(answers))
    np.testing.assert_allclose(found, shares, atol=0.03)
    assert np.abs(found - shares).max() < np.abs(vote - shares).max()


def test_noise_does_not_make_a_long_tail_balanced():
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    truth = np.repeat(np.arange(4), (1000 * shares).astype(int))
    answers = answers_of(truth, one_coin(0.5, 4), per_task=3)
    possible = np.ones(4, bool)
    assert vote_shares(answers).mean(axis=0).min() > MIN_EQUAL_SHARE / 4
    assert not has_balanced_classes(answers, None, possible)
    assert has_balanced_classes(answers_of(np.arange(1000) % 4, one_coin(0.5, 4), per_task=3), None, possible)


def test_task_weights_change_the_balance():
    truth = np.repeat([0, 1], [90, 10])
    answers = answers_of(truth, uneven(n_classes=2, good=(0.95, 0.99)))
    possible = np.ones(2, bool)
    assert not has_balanced_classes(answers, None, possible)
    assert has_balanced_classes(answers, np.where(truth == 1, 9.0, 1.0), possible)


def test_classes_are_not_balanced_if_agreement_does_not_tell_the_error_rate():
    possible = np.ones(2, bool)
    truth = np.arange(400) % 2
    assert has_balanced_classes(answers_of(truth, one_coin(0.9, 2), per_task=2), None, possible)
    assert not has_balanced_classes(answers_of(truth, one_coin(0.9, 2), per_task=1), None, possible)
    against = np.concatenate([one_coin(0.9, 2, 5), one_coin(0.1, 2, 5)])  # they agree less often than chance
    assert pairwise_agreement(answers_of(truth, against, per_task=10)) < 0.5
    assert not has_balanced_classes(answers_of(truth, against, per_task=10), None, possible)


def test_a_rare_class_with_one_answer_per_task_stays_rare():
    rng = np.random.default_rng(0)
    truth = (rng.random(1000) < 0.1).astype(int)
    X = rng.normal(size=(1000, 6))
    X[:, 0] += 3 * truth
    answers = answers_of(truth, one_coin(0.75, 2), per_task=1)
    vote = (MajorityVote().fit(answers).labels_ == truth).mean()
    assert (JointEM().fit(X, answers).labels_ == truth).mean() > vote - 0.01


def test_tasks_of_weight_zero_do_not_affect_agreement():
    truth = np.repeat(np.arange(4), [220, 60, 60, 60])
    answers = answers_of(truth, one_coin(0.9, 4), per_task=3)
    chance = answers_of(truth, one_coin(0.25, 4), per_task=3)
    both = Answers.from_codes(
        np.concatenate([answers.task, chance.task + 400]), np.concatenate([answers.worker, chance.worker]),
        np.concatenate([answers.label, chance.label]), tasks=800, workers=10, classes=4,
    )  # fmt: skip
    weight, possible = np.repeat([1.0, 0.0], 400), np.ones(4, bool)
    assert has_balanced_classes(answers, None, possible)
    assert has_balanced_classes(both, weight, possible)
    assert not has_balanced_classes(both, weight + 1e-9, possible)  # a higher error rate
