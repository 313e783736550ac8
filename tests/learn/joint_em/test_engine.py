import numpy as np
import pytest

import crowdwise as cw
from crowdwise.learn.joint_em.classifiers import draw_folds
from crowdwise.learn.joint_em.engine import ConfusionWorkers, Joint
from crowdwise.learn.joint_em.experts import make_experts, together
from crowdwise.learn.joint_em.pooling import answer_count
from crowdwise.truth.base import vote_shares
from tests.helpers.crowds import answers_of, blobs, copied, uneven


@pytest.mark.parametrize("weighed", [False, True])
def test_leaving_one_out_counts_the_worker_s_other_answers(weighed):
    _, truth = blobs(n_tasks=25)
    answers = answers_of(truth, uneven())
    weight = np.random.default_rng(1).uniform(0.5, 2, answers.n_answers) if weighed else np.ones(answers.n_answers)
    if weighed:
        answers = cw.Answers.from_codes(
            answers.task, answers.worker, answers.label, tasks=25, workers=8, classes=3, weight=weight
        )
    believed = np.random.default_rng(0).dirichlet(np.ones(3), 25)
    prior = np.full((3, 3), 0.7)
    workers = ConfusionWorkers(answers, prior, None, leave_one_out=True)
    workers.fit(believed, believed)
    f = np.full((25, 3), 1 / 3)
    posterior, total = workers.posterior(f, None)
    expected = np.zeros(25)
    for t in range(25):
        logs = np.log(f[t])
        for a in np.flatnonzero(answers.task == t):
            others = (answers.worker == answers.worker[a]) & (answers.task != t)
            counts = prior.copy()  # (truth, label)
            for b in np.flatnonzero(others):
                counts[:, answers.label[b]] += weight[b] * believed[answers.task[b]]
            logs += weight[a] * np.log(counts[:, answers.label[a]] / counts.sum(axis=1))
        expected[t] = np.logaddexp.reduce(logs)
        np.testing.assert_allclose(posterior[t], np.exp(logs - expected[t]), atol=1e-10)
    np.testing.assert_allclose(workers.evidence(f), expected, atol=1e-10)
    assert total == pytest.approx(expected.sum())


def test_known_labels_say_nothing_of_how_much_answers_count():
    _, truth = blobs(n_tasks=200)
    answers = copied(answers_of(truth, uneven()), 3)
    workers = ConfusionWorkers(answers, "hierarchical", None)
    workers.fit(np.eye(3)[truth], np.eye(3)[truth])
    f = np.full((200, 3), 1 / 3)
    gold = np.where(np.arange(200) < 150, truth, -1).astype(np.int32)
    unknown = (gold[answers.task] < 0).astype(float)
    assert workers.count(f, gold) == answer_count(np.log(f), workers.each(), answers, unknown)
    assert workers.count(f, gold) != workers.count(f, None)


def test_the_crowd_s_prior_is_made_anew_in_each_round_where_it_may():
    _, truth = blobs(n_tasks=100)
    answers = answers_of(truth, uneven())
    sure, unsure = np.eye(3)[truth], np.full((100, 3), 1 / 3)
    for renew in (True, False):
        workers = ConfusionWorkers(answers, "hierarchical", None, renew=renew)
        workers.fit(unsure, unsure)
        first = workers.prior.copy()
        workers.fit(sure, sure)
        assert np.allclose(workers.prior, first) is not renew


def test_workers_are_first_judged_by_what_cross_fitted_classifiers_say():
    X, truth = blobs(n_tasks=90)
    answers = answers_of(truth, uneven(), per_task=1)
    gold = np.where(np.arange(90) < 20, truth, -1).astype(np.int32)
    made = []
    for by_features in (True, False):
        workers = ConfusionWorkers(answers, "hierarchical", None)
        experts = make_experts(
            X, answers, None, draw_folds(90, 5, 0), classifier="lda", features="plain", even=True, apart=True
        )
        joint = Joint(answers, gold, [workers], together(experts), max_iter=1, tol=0.0, calibrate=True, shares="even")
        joint.start(vote_shares(answers), by_features=by_features)
        made.append(joint)
    judged, voted = made
    np.testing.assert_array_equal(judged.workers[0].believed[:20], np.eye(3)[truth[:20]])
    np.testing.assert_allclose(judged.workers[0].believed[20:], judged.f[0, 20:])
    np.testing.assert_allclose(voted.workers[0].believed[20:], vote_shares(answers)[20:])
    np.testing.assert_array_equal(voted.workers[0].believed[:20], np.eye(3)[truth[:20]])
    np.testing.assert_allclose(judged.says, voted.says)  # the classifiers have learned from the votes, either way
