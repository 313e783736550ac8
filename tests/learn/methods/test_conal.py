import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise import simulate
from crowdwise.errors import NotFittedError, ParameterError
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.conal import CoNAL, CoNALModule
from crowdwise.learn.methods.crowdlayer import CrowdLayerModule
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


def conal(answers, n_models=2, lam=0.5, normalise=True):
    options = {"width": 3, "hidden": 6, "start": 2.0, "seed": 0}
    return CoNALModule(dense(n_models), answers, 4, lam=lam, normalise=normalise, **options)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_gradients_match_finite_differences(gamma, weight, normalise):
    answers, batch = small(gamma=gamma, weight=weight)
    assert_gradients(shaken(conal(answers, normalise=normalise)), batch)


def test_initial_gradients_are_finite():
    answers, batch = small()
    module = conal(answers).double()
    module.loss(batch).backward()
    assert all(p.grad.isfinite().all() for p in module.parameters())


def test_the_loss_equals_its_formula():
    answers, batch = small(n_models=1, weight=True)
    module = shaken(conal(answers, 1))
    own, common = module.matrix.detach().numpy(), module.common.detach().numpy()[0]
    f = module.class_log_proba(batch.x)[0].exp().detach().numpy()
    first, second = module.task
    x = batch.x[0].numpy()
    v = (x @ first.weight.detach().numpy() + first.bias[0].detach().numpy()) @ second.weight.detach().numpy()
    v += second.bias[0].detach().numpy()
    u = module.worker.detach().numpy()
    total = 0.0
    for i, k, label, weight in zip(batch.row, batch.worker, batch.label, weights_of(batch), strict=True):
        w = 1 / (1 + np.exp(-v[i] @ u[k] / np.linalg.norm(v[i]) / np.linalg.norm(u[k])))
        z = w * f[i] @ common + (1 - w) * f[i] @ own[k]
        total -= weight * (z[label] - np.log(np.exp(z).sum()))
    distance = sum(np.linalg.norm(own[k] - common) for k in range(3))  # without the worker who has no answers
    assert module.loss(batch).item() == pytest.approx(total / len(batch.row) - 0.5 * distance, rel=1e-6)


def all_answers(module, batch):
    row, worker = batch.tensor(batch.row), batch.tensor(batch.worker)
    return module.answer_log_proba(batch.x, module.class_log_proba(batch.x).flatten(0, 1), row, worker).detach()


def test_without_a_common_confusion_it_equals_crowdlayer(monkeypatch):
    answers, batch = small()
    module = shaken(conal(answers))
    monkeypatch.setattr(CoNALModule, "share", lambda self, x, row, worker: torch.zeros(len(row), 1).double())
    layer = CrowdLayerModule(module.network, 4, "mw", 2.0).double().eval()
    layer.matrix.data = module.matrix.data
    np.testing.assert_allclose(all_answers(module, batch), all_answers(layer, batch), atol=1e-12)


def test_with_only_the_common_confusion_all_workers_are_equal(monkeypatch):
    answers, batch = small(n_models=1)
    module = shaken(conal(answers, 1))
    monkeypatch.setattr(CoNALModule, "share", lambda self, x, row, worker: torch.ones(len(row), 1).double())
    shared = (module.class_log_proba(batch.x)[0].exp() @ module.common[0]).log_softmax(1).detach()
    np.testing.assert_allclose(all_answers(module, batch), shared[batch.row], atol=1e-12)


def test_normalised_vectors_limit_the_share():
    answers, batch = small()
    row, worker = batch.tensor(batch.row), batch.tensor(batch.worker)
    bound = 1 / (1 + np.exp(-1))
    with torch.no_grad():
        modules = shaken(conal(answers)), shaken(conal(answers, normalise=False))
        tied, free = (module.share(module.task_layers(batch.x), row, worker) for module in modules)
    assert 1 - bound <= tied.min() < tied.max() <= bound
    assert free.min() < 1 - bound or free.max() > bound


@pytest.mark.parametrize("seed", range(3))
def test_recovers_confusion_matrices(seed):
    confusion = simulate.crowd(8, 3, "class-dependent", accuracy=(0.4, 0.9), seed=seed)
    X, answers, X_test, truth = gaussian_crowd(confusion, seed, spread=3.0)
    model = CoNAL(**QUICK).fit(X, answers)
    proba = model.answer_proba(X_test)  # (tasks, workers, labels)
    by_class = np.stack([proba[truth == c].mean(axis=0) for c in range(3)], axis=1)
    assert np.abs(by_class - confusion).mean() < 0.06  # the distance of the identity is 0.18 to 0.21
    assert np.corrcoef(model.confusion_.ravel(), confusion.ravel())[0, 1] > 0.8
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_recovers_the_common_confusion(seed):
    """All workers mistake class 0 for 1 in a third of cases and are alike otherwise: the common matrix shows it."""
    confusion = np.tile([[0.62, 0.33, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]], (8, 1, 1))
    X, answers, _, _ = gaussian_crowd(confusion, seed, spread=3.0)
    common = CoNAL(**QUICK).fit(X, answers).common_
    assert common.shape == (3, 3)
    assert common[0, 1] > 2 * max(common[0, 2], common[1, 0], common[1, 2], common[2, 0], common[2, 1])


@pytest.mark.parametrize("seed", range(3))
def test_beats_training_on_votes(seed):
    X, answers, X_test, truth = gaussian_crowd(SPAM, seed)
    votes = Aggregated("majority-vote", soft=False, **QUICK).fit(X, answers)
    assert CoNAL(**QUICK).fit(X, answers).score(X_test, truth) > votes.score(X_test, truth) + 0.2


def test_the_penalty_separates_own_and_common_matrices():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=200)

    def distance(lam):
        module = CoNAL(lam, **QUICK).fit(X, answers).module_
        return (module.matrix - module.common).norm(dim=(1, 2)).mean().item()

    assert distance(0.1) > 1.2 * distance(0)


def test_a_worker_without_answers_keeps_the_initial_matrix():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    more = cw.Answers.from_codes(answers.task, answers.worker, answers.label, tasks=100, workers=11, classes=3)
    model = CoNAL(0.1, **QUICK).fit(X, more)
    start = np.exp(2 * np.eye(3))
    np.testing.assert_allclose(model.confusion_[10], start / start.sum(axis=1), rtol=1e-6)


def test_images_are_accepted():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=50)
    model = CoNAL(network="cnn", epochs=1).fit(np.tile(X[:, None, :, None], (1, 1, 1, 4)), answers)
    assert np.isfinite(model.proba_).all()


def test_models_trained_together_equal_models_trained_alone():
    answers, batch = small(n_models=3)
    assert_members_stand_alone(shaken(conal(answers, 3)), batch)
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    model = CoNAL(n_models=3, epochs=2).fit(X, answers)
    assert_members_differ(model, X)
    assert model.confusion_.shape == (10, 3, 3)


def test_the_same_seed_gives_the_same_result():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    first, again, other = (CoNAL(epochs=2, random_state=s).fit(X, answers).proba_ for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


@pytest.mark.parametrize(("parameters", "message"), [({"lam": -1}, "lam=-1"), ({"width": 0}, "width=0")])
def test_invalid_use_is_rejected(parameters, message):
    with pytest.raises(ParameterError, match=message):
        CoNAL(**parameters).fit(*gaussian_crowd(SPAM, 0, n_tasks=20)[:2])


def test_attributes_raise_before_the_fit():
    with pytest.raises(NotFittedError):
        CoNAL().common_  # noqa: B018


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_the_fused_loss_equals_the_plain_one(n_models, normalise, gamma, weight):
    """The compiled kernel and torch give the same loss and gradients."""
    answers, batch = small(n_models=n_models, gamma=gamma, weight=weight)
    batch.x = batch.x.float()
    fused, plain = (shaken(conal(answers, n_models, normalise=normalise)).float() for _ in range(2))
    expected = plain.loss(batch)
    expected.backward()
    assert fused.backward(batch).item() == pytest.approx(expected.item(), rel=1e-5)
    for a, b in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)
