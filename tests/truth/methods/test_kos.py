"""KOS: the paper's messages written out, crowds of spammers and hammers, and tasks without messages."""

import numpy as np
import pytest

from crowdwise import KOS, Answers, MajorityVote
from crowdwise.errors import ParameterError, WeightError
from crowdwise.truth.methods.kos import class_shares, next_messages, normalised


def spammers_and_hammers(rng, n_tasks=600, n_workers=120, n_classes=2, per_task=5, hammers=0.35):
    """Hammers are always right, spammers answer at random; tasks are assigned at random."""
    truth = rng.integers(n_classes, size=n_tasks)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :per_task].ravel()
    hammer = rng.random(n_workers) < hammers
    label = np.where(hammer[worker], truth[task], rng.integers(n_classes, size=len(task)))
    answers = Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return answers, truth, hammer


def paper(answers, y):
    """One round of the paper's messages: y[task, worker] -> y[task, worker], A = +1 or -1, 0 where there is none."""
    a = np.zeros((answers.n_tasks, answers.n_workers))
    a[answers.task, answers.worker] = 2 * answers.label - 1
    x, out = np.zeros_like(a), np.zeros_like(a)
    for i, j in zip(answers.task, answers.worker, strict=True):
        x[i, j] = sum(a[i, v] * y[i, v] for v in range(answers.n_workers) if v != j)
    for i, j in zip(answers.task, answers.worker, strict=True):
        out[i, j] = sum(a[t, j] * x[t, j] for t in range(answers.n_tasks) if t != i)
    return out


def test_two_classes_match_the_messages_of_the_paper():
    rng = np.random.default_rng(0)
    answers, *_ = spammers_and_hammers(rng, n_tasks=12, n_workers=6, per_task=4)
    messages = rng.normal(1, 1, answers.n_answers)
    dense = np.zeros((12, 6))
    dense[answers.task, answers.worker] = messages
    theirs = paper(answers, dense)[answers.task, answers.worker]
    np.testing.assert_allclose(2 * next_messages(answers, messages, average=False), theirs)
    others = np.bincount(answers.worker)[answers.worker] - 1
    np.testing.assert_allclose(2 * next_messages(answers, messages, average=True), theirs / others)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("average", [True, False])
def test_beats_the_vote_on_spammers_and_hammers(n_classes, average):
    answers, truth, hammer = spammers_and_hammers(np.random.default_rng(1), n_classes=n_classes)
    model = KOS(average=average).fit(answers)
    ours, vote = (model.codes_ == truth).mean(), (MajorityVote().fit(answers).codes_ == truth).mean()
    assert ours > vote + 0.05
    assert (model.skill_[hammer, None] > model.skill_[~hammer]).mean() > 0.97  # AUC
    assert model.converged_ and model.n_iter_ == len(model.history_)


def test_busy_workers_get_no_extra_weight():
    rng = np.random.default_rng(2)
    answers, truth, _ = spammers_and_hammers(rng, n_tasks=400, n_workers=60, per_task=7, hammers=0.6)
    # Two workers answer every task with 1.
    task, worker = np.tile(np.arange(400), 2), np.repeat([60, 61], 400)
    both = Answers.from_codes(
        np.r_[answers.task, task], np.r_[answers.worker, worker], np.r_[answers.label, np.ones(800, np.int32)],
        tasks=400, workers=62, classes=2,
    )  # fmt: skip
    assert (KOS().fit(both).codes_ == truth).mean() > 0.9
    assert (KOS(average=False).fit(both).codes_ == truth).mean() < 0.6


def test_messages_do_not_overflow():
    answers, truth, _ = spammers_and_hammers(np.random.default_rng(3))
    model = KOS(average=False, max_iter=800, tol=0).fit(answers)  # sums grow by more than 10 per round: past 1e308
    assert np.isfinite(model.skill_).all() and (model.codes_ == truth).mean() > 0.8
    assert model.n_iter_ == 800 and model.converged_
    np.testing.assert_allclose(np.mean(normalised(np.array([1e-200, -3e-200, 0.0])) ** 2), 1)


def test_permuted_classes_permute_the_result():
    answers, *_ = spammers_and_hammers(np.random.default_rng(4), n_classes=3, n_tasks=80, n_workers=12)
    order = np.array([2, 0, 1])
    moved = Answers.from_codes(
        answers.task, answers.worker, order[answers.label].astype(np.int32), tasks=80, workers=12, classes=3
    )
    np.testing.assert_allclose(KOS().fit(moved).proba_[:, order], KOS().fit(answers).proba_, atol=1e-6)


def test_negative_messages_count_for_the_other_classes():
    answers = Answers.from_arrays([1, 1, 1], ["a", "b", "c"], ["x", "y", "z"])
    found = class_shares(answers, np.array([3.0, 1.0, -2.0]))
    np.testing.assert_allclose(found, [[5 / 8, 3 / 8, 0]])  # z has a negative message: 2 for each of x and y


def test_votes_decide_where_there_are_no_messages():
    answers = Answers.from_arrays([1, 1, 1, 2], ["a", "b", "c", "d"], ["x", "x", "y", "y"])
    np.testing.assert_allclose(KOS().fit(answers).proba_, [[2 / 3, 1 / 3], [0, 1]])


def test_gold_is_kept():
    answers, truth, _ = spammers_and_hammers(np.random.default_rng(5), n_tasks=50, n_workers=10)
    gold = np.where(np.arange(50) < 5, 1 - truth, -1)
    np.testing.assert_array_equal(KOS().fit(answers, gold).codes_[:5], gold[:5])


def test_callback_is_called_in_every_round():
    answers, *_ = spammers_and_hammers(np.random.default_rng(6), n_tasks=50, n_workers=10)
    heard = []
    model = KOS(max_iter=5, tol=0).fit(answers, callback=lambda i, change: heard.append((i, change)))
    assert heard == list(enumerate(model.history_)) and len(heard) == 5


def test_invalid_parameters_and_weights_raise():
    answers = Answers.from_arrays([1, 1], ["a", "b"], ["x", "y"], weight=[1.0, 2.0])
    with pytest.raises(WeightError):
        KOS().fit(answers)
    for wrong in ({"max_iter": 0}, {"tol": -1}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            KOS(**wrong).fit(Answers.from_arrays([1], ["a"], ["x"]))
