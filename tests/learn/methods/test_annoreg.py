import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise import simulate
from crowdwise.errors import NotFittedError, ParameterError
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.annoreg import AnnoReg, AnnoRegModule
from crowdwise.learn.network.training import CrowdModule

# Six of ten workers answer class 0 blindly: they win most votes, so a network trained on the vote learns class 0.
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
    assert_gradients(shaken(AnnoRegModule(dense(), answers, 2.0, 0.5)), batch)


@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_the_loss_equals_its_formula(gamma, weight):
    answers, batch = small(n_models=1, gamma=gamma, weight=weight)
    module = shaken(AnnoRegModule(dense(1), answers, 2.0, 0.5))
    f = module.class_log_proba(batch.x)[0].exp().detach().numpy()
    S = module.logits.softmax(1).mT.detach().numpy()  # (workers, classes, labels)
    p = np.einsum("ac,ac->a", f[batch.row], S[batch.worker, :, batch.label])
    mean = np.mean(weights_of(batch) * (1 - p) ** gamma * -np.log(p))
    trace = np.mean([np.trace(S[w]) for w in range(3)])  # without the worker who has no answers
    assert module.loss(batch).item() == pytest.approx(mean + 0.5 * trace, rel=1e-6)


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_the_fused_loss_equals_the_plain_one(n_models, gamma, weight):
    """The compiled kernel and torch give the same loss and gradients."""
    answers, batch = small(n_models=n_models, gamma=gamma, weight=weight)
    batch.x = batch.x.float()
    fused, plain = (shaken(AnnoRegModule(dense(n_models), answers, 2.0, 0.5)).float() for _ in range(2))
    expected = plain.loss(batch)
    expected.backward()
    assert fused.backward(batch).item() == pytest.approx(expected.item(), rel=1e-5)
    for a, b in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)


def test_the_loss_agrees_with_answer_log_proba():
    answers, batch = small()
    module = shaken(AnnoRegModule(dense(), answers, 2.0, 0.0))
    assert module.loss(batch).item() == pytest.approx(CrowdModule.loss(module, batch).item(), rel=1e-12)
    row, worker = batch.tensor(batch.row), batch.tensor(batch.worker)
    log_f = module.class_log_proba(batch.x).flatten(0, 1)
    total = module.answer_log_proba(batch.x, log_f, row, worker).exp().sum(1).detach()
    np.testing.assert_allclose(total, 1, atol=1e-12)


def test_perfect_workers_equal_supervised_training():
    answers, batch = small(n_models=1)
    module = AnnoRegModule(dense(1), answers, 50.0, 0.0).double().eval()  # softmax(50 I) is the identity
    loss = module.loss(batch)
    loss.backward()
    plain = torch.nn.functional.cross_entropy(module.network(batch.x)[0][batch.row], batch.tensor(batch.label))
    assert loss.item() == pytest.approx(plain.item(), rel=1e-12)
    wanted = torch.autograd.grad(plain, list(module.network.parameters()))
    for p, gradient in zip(module.network.parameters(), wanted, strict=True):
        np.testing.assert_allclose(p.grad, gradient, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_recovers_confusion_matrices(seed):
    confusion = simulate.crowd(8, 3, "class-dependent", accuracy=(0.4, 0.9), seed=seed)
    X, answers, _, _ = gaussian_crowd(confusion, seed)
    model = AnnoReg(network="logistic", lr=5e-2, epochs=60).fit(X, answers)  # leaves the initial logits
    assert np.abs(model.confusion_ - confusion).mean() < 0.06  # the distance of the identity is 0.18 to 0.21
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_beats_training_on_votes(seed):
    X, answers, X_test, truth = gaussian_crowd(SPAM, seed)
    votes = Aggregated("majority-vote", soft=False, **QUICK).fit(X, answers)
    assert AnnoReg(**QUICK).fit(X, answers).score(X_test, truth) > votes.score(X_test, truth) + 0.2


def test_the_penalty_lowers_the_trace():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=200)
    low, high = (AnnoReg(lam, **QUICK).fit(X, answers).confusion_ for lam in (0, 1.0))
    assert np.trace(high, axis1=1, axis2=2).mean() < np.trace(low, axis1=1, axis2=2).mean() - 0.1


def test_a_worker_without_answers_keeps_the_initial_matrix():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    more = cw.Answers.from_codes(answers.task, answers.worker, answers.label, tasks=100, workers=11, classes=3)
    model = AnnoReg(0.1, n_models=2, **QUICK).fit(X, more)
    start = np.exp(6 * np.eye(3))
    np.testing.assert_allclose(model.confusion_[10], start / start.sum(axis=1), rtol=1e-6)


def test_models_trained_together_equal_models_trained_alone():
    answers, batch = small(n_models=3)
    assert_members_stand_alone(shaken(AnnoRegModule(dense(3), answers, 2.0, 0.5)), batch)
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    model = AnnoReg(n_models=3, epochs=2).fit(X, answers)
    assert_members_differ(model, X)
    assert model.confusion_.shape == (10, 3, 3)


def test_the_same_seed_gives_the_same_result():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    first, again, other = (AnnoReg(epochs=2, random_state=s).fit(X, answers).proba_ for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


def test_invalid_use_is_rejected():
    with pytest.raises(ParameterError, match="lam=-1"):
        AnnoReg(-1).fit(*gaussian_crowd(SPAM, 0, n_tasks=20)[:2])
    with pytest.raises(NotFittedError):
        AnnoReg().confusion_  # noqa: B018
