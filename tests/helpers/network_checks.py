"""Checks shared by the tests of network learners: gradients, and several networks trained at once."""

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise import simulate
from crowdwise.learn.features import open_features
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.modules import Dense

# Six of ten workers answer mostly 0 regardless of the class: they win most votes, and a network trained on votes errs.
GOOD = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
SPAM = np.array([GOOD] * 4 + [np.tile([0.8, 0.1, 0.1], (3, 1))] * 6)
QUICK = {"network": "logistic", "lr": 2e-2, "epochs": 30}


def gaussian_crowd(confusion, seed, n_tasks=600, per_task=3.0, spread=2.5):
    """Return X and answers of tasks with Gaussian features by class, and X and truth of as many test tasks."""
    rng = np.random.default_rng(seed)
    n_classes = confusion.shape[-1]
    truth = rng.integers(0, n_classes, 2 * n_tasks)
    X = spread * np.eye(n_classes)[truth] + rng.normal(size=(2 * n_tasks, n_classes))
    answers = simulate.answer(truth[:n_tasks], confusion, per_task, seed=rng)
    return X[:n_tasks], answers, X[n_tasks:], truth[n_tasks:]


def small(n_models=2, weight=False, gamma=0.0, seed=0):
    """Return answers and one batch: 12 tasks, 4 features, 3 classes, 4 workers of whom the last has no answers."""
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
    """Convert to double precision and perturb the parameters, so that nothing is equal by symmetry."""
    rng = np.random.default_rng(seed)
    module.double().eval()
    with torch.no_grad():
        for p in module.parameters():
            p += 0.5 * torch.from_numpy(rng.normal(size=p.shape))
    return module


def dense(n_models=2, n_features=4):
    return Dense(n_features, [5], 3, n_models, 0)


def assert_gradients(module, batch, n_directions=3, step=1e-5):
    """Compare the gradient of each parameter along random directions with finite differences."""
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
    """Check that the gradient of one model does not depend on the others."""
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
