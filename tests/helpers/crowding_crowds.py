"""A small crowd, and quick settings of CrowdInG."""

import numpy as np

import crowdwise as cw

FEW = {"network": cw.MLP(8, dropout=0.2), "epochs": 8, "lr": 0.02, "batch_size": 32, "generator_epochs": 2,
       "discriminator_epochs": 1, "adversarial_epochs": 2, "steps": 2}  # fmt: skip


def crowd(n_tasks=90, n_workers=8, n_classes=3, per_task=3, distance=3.0, seed=0):
    """Gaussian blobs and workers of different accuracy."""
    rng = np.random.default_rng([seed, n_tasks])
    centre = np.random.default_rng(99).normal(size=(n_classes, 6))
    centre *= distance / np.linalg.norm(centre, axis=1, keepdims=True)
    truth = rng.integers(0, n_classes, n_tasks)
    X = (centre[truth] + rng.normal(size=(n_tasks, 6))).astype(np.float32)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :per_task].ravel()
    right = rng.random(len(task)) < rng.uniform(0.5, 0.95, n_workers)[worker]
    label = np.where(right, truth[task], rng.integers(0, n_classes, len(task)))
    answers = cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return X, answers, truth
