"""Crowds and learners for the tests of self-training, and its selection by hand."""

import itertools

import numpy as np
from scipy.special import entr

import crowdwise as cw
from crowdwise.augment.dasc.dasc import DASC
from crowdwise.augment.dasc.selection import quotas


def crowd(seed=0, n_tasks=120, n_classes=3, n_workers=6, imbalance=6.0, distance=2.5):
    """Imbalanced blobs with sparse answers by workers of different accuracy, and balanced new tasks."""
    rng = np.random.default_rng([seed, 3])
    centre = rng.normal(size=(n_classes, 6))
    centre *= distance / np.linalg.norm(centre, axis=1, keepdims=True)
    truth = cw.simulate.draw_truth(n_tasks, n_classes, imbalance, seed=seed)
    answers = cw.simulate.simulate(
        truth=truth, n_workers=n_workers, n_classes=n_classes, answers_per_task=2.2, seed=seed
    )
    new = np.repeat(np.arange(n_classes), 150)
    X, X_new = (centre[y] + rng.normal(size=(len(y), 6)) for y in (truth, new))
    return X.astype(np.float32), answers, X_new.astype(np.float32), new


def plain(base="crowdlayer", **options):
    """DASC without hidden answers by default."""
    return DASC(base, **{"hidden": 0.0, **options})


def tiny(**options):
    return cw.CrowdLayer(**{"network": cw.MLP(8), "epochs": 3, "lr": 0.01, **options})


def chosen_by_hand(model, X, answers, m, select, counts=None):
    """Task, worker, label and entropy of every missing pair of workers with answers; then the selection rule."""
    q = model.answer_proba(X)
    given = set(zip(answers.task.tolist(), answers.worker.tolist(), strict=True))
    pairs = [p for p in itertools.product(range(answers.n_tasks), range(answers.n_workers)) if p not in given]
    rows = sorted((entr(q[t, w]).sum(), t, w, int(q[t, w].argmax())) for t, w in pairs)
    if select == "confidence":
        return {(t, w, c) for _, t, w, c in rows[:m]}
    found = np.bincount([c for *_, c in rows], minlength=answers.n_classes)
    n = quotas(found, m, counts)
    return {(t, w, c) for k in range(answers.n_classes) for _, t, w, c in [r for r in rows if r[3] == k][: n[k]]}


def added(model):
    pool = model.model_.answers_
    made = np.flatnonzero(pool.pseudo)
    return {tuple(map(int, row)) for row in np.column_stack([pool.task, pool.worker, pool.label])[made]}
