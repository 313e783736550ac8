"""Anchor labels and their confidence to gold: what a few known labels say about workers, classes and the pool.

    score[t, c] = slope log q[t, c] + own 1[c = y[t]] + weight e[t, c] + share[c]            t = task, c = class
    proba[t, :] = softmax(score[t, :])

    q[t, c]     probability by a fit that did not know the gold labels, and y[t] its label
    e[t, c]     what the answers say if each worker is as good as they are on gold:
                e[t, c] = sum over answers a to t of  log C[w, c, l]              w = worker and l = label of a
                C[w, c, l] = (n[w, c, l] + `OWN` B[c, l]) / (n[w, c] + `OWN`)     n = gold answers
                B[c, l]    = (n[c, l] + `CROWD` R[c, l]) / (n[c] + `CROWD`)       the same for all workers
                R[c, l]    = the crowd's matrix by q
                minus its mean over classes, on the scale of log q

Gold that enters a fit as labels of a few tasks among thousands changes nothing. Here it has parameters of its own,
which maximise the posterior of the gold labels:

    slope ~ Normal(1, 0.5^2)    own ~ Normal(0, 0.5^2)    weight ~ Normal(0, 0.5^2)    share[c] ~ Normal(0, (0.15 s)^2)

with s the standard deviation of log q between classes. Without gold, `proba` is q. `slope` and `own` correct the
confidence as Platt scaling does; `weight` is one for all answers, so workers who share mistakes count as little as gold
says; `share` moves class shares that the pool has wrong. For a gold task, e leaves out its own label, and `held_out`
has parameters fitted without its fold.

Labels change only with `MIN_GOLD` gold labels or more, and if at least as many held-out gold labels become right as
wrong. Otherwise they stay those of the fit, with the confidence that `proba` gives them.

Fails when the gold tasks are not a random sample of the tasks, nor weighted as they were drawn. Time and memory grow
with the number of answers times the number of classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax

from crowdwise.answers import Answers
from crowdwise.trust.gold_folds import FOLDS, MIN_GOLD
from crowdwise.trust.tempering import temper_to
from crowdwise.truth.base import Array, fix_gold, weights_of
from crowdwise.truth.peer_quality import crowd_counts, pair_counts, smoothed, tasks_per_class, workers_of_pairs

OWN = 5.0  # gold answers' worth of the crowd's matrix in each worker's
CROWD = 6.0  # the same of the pool's matrix in the crowd's
MEAN = np.array([1.0, 0.0, 0.0])  # slope, own, weight
DEVIATION = np.array([0.5, 0.5, 0.5])
SHARE_DEVIATION = 0.15  # of the class shares, in standard deviations of log q
MIN_PROBABILITY = 1e-6


class Anchored(NamedTuple):
    """Labels anchored to gold."""

    codes: Array  # (tasks,); of gold tasks their gold label
    proba: Array  # (tasks, classes); gold tasks have their gold label with probability 1
    held_out: Array  # (gold tasks, classes), by parameters that did not know the label
    held_out_codes: Array  # (gold tasks,)
    changed: bool  # whether labels were allowed to change
    n_gold: int


def anchor(
    answers: Answers, proba: Array, codes: Array, gold: Array, weight: Array | None = None, *, seed: int = 0
) -> Anchored:
    """Anchor the labels of a fit that did not know the gold labels.

    Parameters
    ----------
    answers : Answers
    proba : (tasks, classes) array
        Calibrated probabilities by that fit.
    codes : (tasks,) int array
        Its labels.
    gold : (tasks,) int array
        Known labels as codes, -1 unknown.
    weight : (gold tasks,) array, optional
        Relative weights, if tasks were not drawn uniformly: `trust.gold_sample`. Together they count as the number of
        uniformly drawn tasks that would be worth as much.
    seed : int
        Seed of the folds.

    Returns
    -------
    Anchored

    Examples
    --------
    >>> import crowdwise as cw
    >>> answers = cw.simulate.simulate(300, n_workers=9, n_classes=2, answers_per_task=5, class_balance=8, seed=1)
    >>> vote = cw.MajorityVote().fit(answers)
    >>> gold = np.where(np.arange(300) < 80, answers.truth, -1)
    >>> found = anchor(answers, vote.proba_, vote.codes_, gold)
    >>> before, after = ((labels == answers.truth)[80:].mean() for labels in (vote.codes_, found.codes))
    >>> found.changed, bool(after > before)
    (True, True)
    """
    tasks = np.flatnonzero(gold >= 0)
    known, n = gold[tasks], len(tasks)
    count = np.ones(n) if weight is None else np.asarray(weight) * np.sum(weight) / np.sum(np.square(weight))
    model = _Model(answers, proba, codes, gold)
    fold = np.random.default_rng(seed).permutation(n) % min(FOLDS, n)  # (gold tasks,)
    held_out = np.empty((n, answers.n_classes))
    for number in range(fold.max() + 1):
        rest, part = fold != number, fold == number
        held_out[part] = np.exp(model.log_proba(model.fit(tasks[rest], known[rest], count[rest]), tasks[part]))
    anchored = np.exp(model.log_proba(model.fit(tasks, known, count)))
    old = codes[tasks]
    gain = float(count @ ((held_out.argmax(axis=1) == known).astype(float) - (old == known)))
    changed = n >= MIN_GOLD and gain >= 0
    if not changed:
        anchored = temper_to(proba, codes, anchored[np.arange(len(codes)), codes])
        held_out = temper_to(proba[tasks], old, held_out[np.arange(n), old])
    new, out = (anchored.argmax(axis=1), held_out.argmax(axis=1)) if changed else (codes, old)
    return Anchored(np.where(gold >= 0, gold, new), fix_gold(anchored, gold), held_out, out, changed, n)


class _Model:
    """The terms of the score of all tasks, and the fit of its parameters."""

    def __init__(self, answers: Answers, proba: Array, codes: Array, gold: Array) -> None:
        answered = np.diff(answers.task_starts) > 0
        log = np.log(np.maximum(proba, MIN_PROBABILITY))
        scale = _spread(log[answered])
        own = np.zeros_like(log)
        own[np.flatnonzero(answered), codes[answered]] = 1.0
        evidence = gold_evidence(answers, proba, gold)
        evidence *= scale / max(_spread(evidence[answered]), 1e-9)
        self.terms = np.stack([log, own, evidence])  # (terms, tasks, classes)
        k = answers.n_classes
        self.mean = np.concatenate([MEAN, np.zeros(k)])
        self.precision = np.concatenate([DEVIATION, np.full(k, max(SHARE_DEVIATION * scale, 1e-3))]) ** -2.0

    def log_proba(self, theta: Array, tasks: Array | slice = slice(None)) -> Array:
        """Return log probabilities (tasks, classes)."""
        return np.asarray(log_softmax(np.tensordot(theta[:3], self.terms[:, tasks], 1) + theta[3:], axis=1))

    def fit(self, tasks: Array, known: Array, count: Array) -> Array:
        """Return the parameters that maximise the posterior of the known labels."""
        terms, rows = self.terms[:, tasks], np.arange(len(tasks))
        hit = np.concatenate([terms[:, rows, known] @ count, np.bincount(known, count, len(self.mean) - 3)])

        def loss(theta: Array) -> tuple[float, Array]:
            log = self.log_proba(theta, tasks)
            p = np.exp(log) * count[:, None]  # (gold tasks, classes)
            off = theta - self.mean
            gradient = np.concatenate([np.tensordot(terms, p, 2), p.sum(axis=0)]) - hit + self.precision * off
            return float(0.5 * self.precision @ off**2 - count @ log[rows, known]), gradient

        return np.asarray(minimize(loss, self.mean, jac=True, method="L-BFGS-B", options={"ftol": 1e-12}).x)


def gold_evidence(answers: Answers, proba: Array, gold: Array) -> Array:
    """Return e, (tasks, classes): zeros for tasks without answers; for gold tasks without their own label."""
    k, label, of_answer = answers.n_classes, answers.pairs.label, answers.pairs.of_answer
    pair_worker, weights = workers_of_pairs(answers), weights_of(answers)
    weights = weights if len(weights) else np.ones(answers.n_answers)
    counts = pair_counts(answers, fix_gold(np.zeros((answers.n_tasks, k)), gold))  # (pairs, classes)
    seen = tasks_per_class(answers, counts)  # (workers, classes)
    crowd = crowd_counts(answers, counts)  # (classes, labels)
    pool = smoothed(crowd_counts(answers, pair_counts(answers, proba)))
    base = (crowd + CROWD * pool) / (crowd.sum(axis=1, keepdims=True) + CROWD)
    log = np.log((counts + OWN * base[:, label].T) / (seen[pair_worker] + OWN))  # (pairs, classes)
    by_task = sparse.csr_array((weights, of_answer, answers.task_starts), shape=(answers.n_tasks, len(label)))
    evidence = np.asarray(by_task @ log)
    mine = np.flatnonzero(gold[answers.task] >= 0)  # answers to gold tasks
    if len(mine):
        task, said, pair = answers.task[mine], answers.label[mine], of_answer[mine]
        true = gold[task]
        _, cell, size = np.unique(task * np.int64(k) + said, return_inverse=True, return_counts=True)
        others = np.diff(answers.task_starts)[task]
        without = (crowd[true, said] - size[cell] + CROWD * pool[true, said]) / (
            crowd[true].sum(axis=1) - others + CROWD
        )
        alone = np.log((counts[pair, true] - 1 + OWN * without) / (seen[answers.worker[mine], true] - 1 + OWN))
        tasks = np.unique(task)
        evidence[tasks, gold[tasks]] = np.bincount(task, weights[mine] * alone, answers.n_tasks)[tasks]
    return np.asarray(evidence - evidence.mean(axis=1, keepdims=True))


def _spread(log: Array) -> float:
    """Return the standard deviation between classes."""
    return float(np.sqrt(np.mean((log - log.mean(axis=1, keepdims=True)) ** 2))) if log.size else 1.0
