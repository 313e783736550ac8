import numpy as np
import pytest

import crowdwise as cw
from crowdwise import simulate
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.annoreg import AnnoReg
from crowdwise.learn.methods.unionnet import UnionNet, UnionNetModule
from tests.helpers.network_checks import (
    QUICK,
    SPAM,
    assert_gradients,
    assert_members_differ,
    assert_members_stand_alone,
    dense,
    gaussian_crowd,
    shaken,
    small,
    weights_of,
)


@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_gradients_match_finite_differences(gamma, weight):
    answers, batch = small(gamma=gamma, weight=weight)
    assert_gradients(shaken(UnionNetModule(dense(), answers, 1.0)), batch)


@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_the_loss_is_the_cross_entropy_with_concatenated_answers(gamma, weight):
    task = np.array([0, 0, 0, 1, 2, 2])  # three, one and two answers
    answers = cw.Answers.from_codes(task, [0, 1, 2, 3, 0, 2], [0, 0, 1, 2, 1, 1], tasks=3, workers=4, classes=3)
    _, batch = small(n_models=1, gamma=gamma)
    batch.x, batch.task = batch.x[:, :3], np.arange(3)
    batch.row, batch.worker, batch.label = task, answers.worker.astype(np.int64), answers.label.astype(np.int64)
    batch.weight = np.linspace(0.5, 1.5, 6, dtype=np.float32) if weight else None
    module = shaken(UnionNetModule(dense(1), answers, 1.0))
    f = module.class_log_proba(batch.x)[0].exp().detach().numpy()
    T = module.logits.detach().numpy().reshape(12, 3).T  # (classes, workers * labels)
    T = np.exp(T) / np.exp(T).sum(axis=1, keepdims=True)
    p = f @ T  # (tasks, workers * labels)
    target = np.zeros((3, 12))
    target[task, 3 * batch.worker + batch.label] = 1
    target /= target.sum(axis=1, keepdims=True)
    target[task, 3 * batch.worker + batch.label] *= weights_of(batch)
    wanted = (target * (1 - p) ** gamma * -np.log(p)).sum(axis=1).mean()
    assert module.loss(batch).item() == pytest.approx(wanted, rel=1e-6)


def test_one_worker_equals_annoreg_without_penalty():
    X, answers, _, _ = gaussian_crowd(SPAM[:1], 0, n_tasks=100, per_task=1)
    union, plain = UnionNet(epochs=3).fit(X, answers), AnnoReg(0, start=1.0, epochs=3).fit(X, answers)
    np.testing.assert_allclose(union.proba_, plain.proba_, atol=1e-6)
    np.testing.assert_allclose(union.confusion_, plain.confusion_, atol=1e-6)


def test_answer_proba_is_conditional_on_the_worker():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    model = UnionNet(epochs=3).fit(X, answers)
    proba = model.answer_proba(X[:5])
    np.testing.assert_allclose(proba.sum(axis=2), 1, atol=1e-6)
    # By definition: the probabilities of the worker's labels, normalised.
    T = model.module_.logits.detach().double().view(30, 3).softmax(0).numpy()  # (workers * labels, classes)
    union = (model.predict_proba(X[:5]) @ T.T).reshape(5, 10, 3)
    np.testing.assert_allclose(proba, union / union.sum(axis=2, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_recovers_confusion_matrices(seed):
    confusion = simulate.crowd(8, 3, "class-dependent", accuracy=(0.4, 0.9), seed=seed)
    X, answers, _, _ = gaussian_crowd(confusion, seed)
    model = UnionNet(**QUICK).fit(X, answers)
    assert np.abs(model.confusion_ - confusion).mean() < 0.06  # the distance of the identity is 0.18 to 0.21
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_beats_training_on_votes(seed):
    X, answers, X_test, truth = gaussian_crowd(SPAM, seed)
    votes = Aggregated("majority-vote", soft=False, **QUICK).fit(X, answers)
    assert UnionNet(**QUICK).fit(X, answers).score(X_test, truth) > votes.score(X_test, truth) + 0.2


def test_a_worker_without_answers_stays_near_the_initial_matrix():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    more = cw.Answers.from_codes(answers.task, answers.worker, answers.label, tasks=100, workers=11, classes=3)
    start = np.exp(np.eye(3))
    model = UnionNet(**QUICK).fit(X, more)
    np.testing.assert_allclose(model.confusion_[10], start / start.sum(axis=1), atol=0.1)


def test_models_trained_together_equal_models_trained_alone():
    answers, batch = small(n_models=3)
    assert_members_stand_alone(shaken(UnionNetModule(dense(3), answers, 1.0)), batch)
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    assert_members_differ(UnionNet(n_models=3, epochs=2).fit(X, answers), X)


def test_the_same_seed_gives_the_same_result():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    first, again, other = (UnionNet(epochs=2, random_state=s).fit(X, answers).proba_ for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0
