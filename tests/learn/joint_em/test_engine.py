import numpy as np
import pytest

import crowdwise as cw
from crowdwise.learn.joint_em.classifiers import ClassifierGroup, draw_folds
from crowdwise.learn.joint_em.engine import ConfusionWorkers, JointEMEngine
from crowdwise.learn.joint_em.experts import make_experts
from crowdwise.learn.joint_em.pooling import estimate_answer_weight
from crowdwise.truth.base import vote_shares
from tests.helpers.crowds import answers_of, blobs, copied, uneven


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_counts_the_other_answers_of_a_worker(weighted):
    _, truth = blobs(n_tasks=25)
    answers = answers_of(truth, uneven())
    weight = np.random.default_rng(1).uniform(0.5, 2, answers.n_answers) if weighted else np.ones(answers.n_answers)
    if weighted:
        answers = cw.Answers.from_codes(
            answers.task, answers.worker, answers.label, tasks=25, workers=8, classes=3, weight=weight
        )
    proba = np.random.default_rng(0).dirichlet(np.ones(3), 25)
    prior = np.full((3, 3), 0.7)
    workers = ConfusionWorkers(answers, prior, None, leave_one_out=True)
    workers.fit(proba, proba)
    f = np.full((25, 3), 1 / 3)
    posterior, total = workers.posterior(f, None)
    expected = np.zeros(25)
    for t in range(25):
        logs = np.log(f[t])
        for a in np.flatnonzero(answers.task == t):
            others = (answers.worker == answers.worker[a]) & (answers.task != t)
            counts = prior.copy()  # (truth, label)
            for b in np.flatnonzero(others):
                counts[:, answers.label[b]] += weight[b] * proba[answers.task[b]]
            logs += weight[a] * np.log(counts[:, answers.label[a]] / counts.sum(axis=1))
        expected[t] = np.logaddexp.reduce(logs)
        np.testing.assert_allclose(posterior[t], np.exp(logs - expected[t]), atol=1e-10)
    np.testing.assert_allclose(workers.evidence(f), expected, atol=1e-10)
    assert total == pytest.approx(expected.sum())


def test_answers_to_gold_tasks_do_not_affect_the_answer_weight():
    _, truth = blobs(n_tasks=200)
    answers = copied(answers_of(truth, uneven()), 3)
    workers = ConfusionWorkers(answers, "hierarchical", None)
    workers.fit(np.eye(3)[truth], np.eye(3)[truth])
    f = np.full((200, 3), 1 / 3)
    gold = np.where(np.arange(200) < 150, truth, -1).astype(np.int32)
    unknown = (gold[answers.task] < 0).astype(float)
    estimated = estimate_answer_weight(np.log(f), workers.answer_log_proba(), answers, unknown)
    assert workers.best_answer_weight(f, gold) == estimated
    assert workers.best_answer_weight(f, gold) != workers.best_answer_weight(f, None)


def test_the_hierarchical_prior_is_refreshed_in_each_round_on_request():
    _, truth = blobs(n_tasks=100)
    answers = answers_of(truth, uneven())
    sure, unsure = np.eye(3)[truth], np.full((100, 3), 1 / 3)
    for refresh in (True, False):
        workers = ConfusionWorkers(answers, "hierarchical", None, refresh_prior=refresh)
        workers.fit(unsure, unsure)
        first = workers.prior.copy()
        workers.fit(sure, sure)
        assert np.allclose(workers.prior, first) is not refresh


def test_workers_are_first_fitted_to_the_cross_fitted_classifiers():
    X, truth = blobs(n_tasks=90)
    answers = answers_of(truth, uneven(), per_task=1)
    gold = np.where(np.arange(90) < 20, truth, -1).astype(np.int32)
    engines = []
    for by_features in (True, False):
        workers = ConfusionWorkers(answers, "hierarchical", None)
        experts = make_experts(
            X, answers, None, draw_folds(90, 5, 0), classifier="lda", features="plain", equal_shares=True
        )
        group = ClassifierGroup([expert.classifier for expert in experts])
        engine = JointEMEngine(answers, gold, [workers], group, max_iter=1, tol=0.0, calibrate=True, shares="equal")
        engine.start(vote_shares(answers), by_features=by_features)
        engines.append(engine)
    judged, voted = engines
    np.testing.assert_array_equal(judged.workers[0].proba[:20], np.eye(3)[truth[:20]])
    np.testing.assert_allclose(judged.workers[0].proba[20:], judged.f[0, 20:])
    np.testing.assert_allclose(voted.workers[0].proba[20:], vote_shares(answers)[20:])
    np.testing.assert_array_equal(voted.workers[0].proba[:20], np.eye(3)[truth[:20]])
    np.testing.assert_allclose(judged.classifier_proba, voted.classifier_proba)  # both are fitted to the votes
