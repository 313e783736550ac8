import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise import simulate
from crowdwise.errors import NotFittedError, ParameterError
from crowdwise.learn.features import open_features
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.annoreg import AnnoReg, AnnoRegModule
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.modules import Dense
from crowdwise.learn.network.training import CrowdModule

# Six of ten do not look and mostly say class 0: they win most votes, and a network trained on votes learns it too.
GOOD = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
SPAM = np.array([GOOD] * 4 + [np.tile([0.8, 0.1, 0.1], (3, 1))] * 6)
QUICK = {"network": "logistic", "lr": 2e-2, "epochs": 30}


def gaussian_crowd(confusion, seed, n_tasks=600, per_task=3.0, spread=2.5):
    """A Gaussian for each class, answered by workers of known confusion: X, answers, and as many test tasks."""
    rng = np.random.default_rng(seed)
    n_classes = confusion.shape[-1]
    truth = rng.integers(0, n_classes, 2 * n_tasks)
    X = spread * np.eye(n_classes)[truth] + rng.normal(size=(2 * n_tasks, n_classes))
    answers = simulate.answer(truth[:n_tasks], confusion, per_task, seed=rng)
    return X[:n_tasks], answers, X[n_tasks:], truth[n_tasks:]


def small(n_models=2, weight=False, gamma=0.0, seed=0):
    """Twelve tasks of four features, four workers (the last is silent), three classes: answers, and a batch of all."""
    rng = np.random.default_rng(seed)
    task, worker = simulate.assign(12, 3, 2, seed=rng)
    label = rng.integers(0, 3, len(task))
    answers = cw.Answers.from_codes(task, worker, label, tasks=12, workers=4, classes=3)
    batches = Batches(
        open_features(rng.normal(size=(12, 4))), answers, batch_size=12, n_models=n_models, gamma=gamma,
        weight=rng.uniform(0.5, 2, len(task)) if weight else None,
    )  # fmt: skip
    (batch,) = batches.epoch(0)
    batch.x = batch.x.double()
    return answers, batch


def shaken(module, seed=0):
    """In double precision, and away from where it starts, so that nothing is equal by symmetry."""
    rng = np.random.default_rng(seed)
    module.double().eval()
    with torch.no_grad():
        for p in module.parameters():
            p += 0.5 * torch.from_numpy(rng.normal(size=p.shape))
    return module


def dense(n_models=2, n_features=4):
    return Dense(n_features, [5], 3, n_models, 0)


def assert_gradients(module, batch, n_directions=3, step=1e-5):
    """The gradient of each parameter along random directions, against finite differences."""
    rng = np.random.default_rng(1)
    module.zero_grad()
    module.loss(batch).backward()
    for name, p in module.named_parameters():
        for _ in range(n_directions):
            direction = torch.from_numpy(rng.normal(size=p.shape))
            with torch.no_grad():
                p += step * direction
                up = module.loss(batch).item()
                p -= 2 * step * direction
                down = module.loss(batch).item()
                p += step * direction
            slope = (p.grad * direction).sum().item()
            assert slope == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-7), name
    assert any(p.grad.abs().sum() > 0 for p in module.crowd_parameters())


def weights_of(batch):
    return np.ones(len(batch.row)) if batch.weight is None else batch.weight.astype(float)


def assert_members_stand_alone(module, batch):
    """What one model learns does not depend on the others."""
    n = len(module.logits if hasattr(module, "logits") else module.matrix) // module.n_models
    name = "logits" if hasattr(module, "logits") else "matrix"
    module.zero_grad()
    module.loss(batch).backward()
    before = getattr(module, name).grad[:n].clone()
    with torch.no_grad():
        getattr(module, name)[n:] += 1
        module.network.head.weight[1:] += 1
    module.zero_grad()
    module.loss(batch).backward()
    np.testing.assert_allclose(getattr(module, name).grad[:n], before, rtol=1e-12)


def assert_members_differ(model, X):
    members = model.member_proba(X)
    assert members.shape[0] == 3
    assert np.isfinite(members).all()
    assert np.abs(members[0] - members[1]).max() > 1e-3
    assert np.abs(members[1] - members[2]).max() > 1e-3


@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_gradients(gamma, weight):
    answers, batch = small(gamma=gamma, weight=weight)
    assert_gradients(shaken(AnnoRegModule(dense(), answers, 2.0, 0.5)), batch)


@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_loss_is_the_formula(gamma, weight):
    answers, batch = small(n_models=1, gamma=gamma, weight=weight)
    module = shaken(AnnoRegModule(dense(1), answers, 2.0, 0.5))
    f = module.class_log_proba(batch.x)[0].exp().detach().numpy()
    S = module.logits.softmax(1).mT.detach().numpy()  # (workers, classes, labels)
    p = np.einsum("ac,ac->a", f[batch.row], S[batch.worker, :, batch.label])
    mean = np.mean(weights_of(batch) * (1 - p) ** gamma * -np.log(p))
    trace = np.mean([np.trace(S[w]) for w in range(3)])  # not of the silent worker
    assert module.loss(batch).item() == pytest.approx(mean + 0.5 * trace, rel=1e-6)


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_the_fused_loss_is_the_plain_one(n_models, gamma, weight):
    """The compiled pass and torch's own operations: the same loss, the same gradients."""
    answers, batch = small(n_models=n_models, gamma=gamma, weight=weight)
    batch.x = batch.x.float()
    fused, plain = (shaken(AnnoRegModule(dense(n_models), answers, 2.0, 0.5)).float() for _ in range(2))
    expected = plain.loss(batch)
    expected.backward()
    assert fused.backward(batch).item() == pytest.approx(expected.item(), rel=1e-5)
    for a, b in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)


def test_the_label_said_and_all_labels_agree():
    answers, batch = small()
    module = shaken(AnnoRegModule(dense(), answers, 2.0, 0.0))
    assert module.loss(batch).item() == pytest.approx(CrowdModule.loss(module, batch).item(), rel=1e-12)
    row, worker = batch.tensor(batch.row), batch.tensor(batch.worker)
    log_f = module.class_log_proba(batch.x).flatten(0, 1)
    total = module.answer_log_proba(batch.x, log_f, row, worker).exp().sum(1).detach()
    np.testing.assert_allclose(total, 1, atol=1e-12)


def test_perfect_workers_are_plain_training():
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
    model = AnnoReg(network="logistic", lr=5e-2, epochs=60).fit(X, answers)  # long enough to leave a start of 6
    assert np.abs(model.confusion_ - confusion).mean() < 0.06  # the identity is 0.18 to 0.21 away
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_beats_training_on_votes(seed):
    X, answers, X_test, truth = gaussian_crowd(SPAM, seed)
    votes = Aggregated("majority-vote", soft=False, **QUICK).fit(X, answers)
    assert AnnoReg(**QUICK).fit(X, answers).score(X_test, truth) > votes.score(X_test, truth) + 0.2


def test_penalty_lowers_the_trace():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=200)
    low, high = (AnnoReg(lam, **QUICK).fit(X, answers).confusion_ for lam in (0, 1.0))
    assert np.trace(high, axis1=1, axis2=2).mean() < np.trace(low, axis1=1, axis2=2).mean() - 0.1


def test_a_silent_worker_keeps_the_start():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    more = cw.Answers.from_codes(answers.task, answers.worker, answers.label, tasks=100, workers=11, classes=3)
    model = AnnoReg(0.1, n_models=2, **QUICK).fit(X, more)
    start = np.exp(6 * np.eye(3))
    np.testing.assert_allclose(model.confusion_[10], start / start.sum(axis=1), rtol=1e-6)


def test_members():
    answers, batch = small(n_models=3)
    assert_members_stand_alone(shaken(AnnoRegModule(dense(3), answers, 2.0, 0.5)), batch)
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    model = AnnoReg(n_models=3, epochs=2).fit(X, answers)
    assert_members_differ(model, X)
    assert model.confusion_.shape == (10, 3, 3)


def test_seeds_repeat():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    first, again, other = (AnnoReg(epochs=2, random_state=s).fit(X, answers).proba_ for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


def test_bad_use():
    with pytest.raises(ParameterError, match="lam=-1"):
        AnnoReg(-1).fit(*gaussian_crowd(SPAM, 0, n_tasks=20)[:2])
    with pytest.raises(NotFittedError):
        AnnoReg().confusion_  # noqa: B018
