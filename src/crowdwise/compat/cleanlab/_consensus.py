"""CROWDLAB as cleanlab computes it for a given consensus; `crowdwise.learn.methods.crowdlab` explains the equations."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crowdwise.answers.encoding import preview
from crowdwise.compat.cleanlab._label_scores import LEAST, label_scores
from crowdwise.compat.cleanlab._votes import Votes, warn
from crowdwise.truth.base import Array

SMALL = 1e-30  # lower limit of a probability before its logarithm is taken
TEMPERATURES = (0.1, 0.2, 0.5, 0.8, 1.0, 2.0, 3.0, 5.0, 8.0)
FINE_STEPS = 4  # between two of these


class Consensus(NamedTuple):
    """A consensus and what follows from it."""

    label: Array  # (tasks,)
    agreement: Array  # (tasks,): share of the answers that equal the label
    quality: Array  # (tasks,)
    proba: Array  # (tasks, classes): of the classifier and the answers together
    model_weight: float  # 0 if quality is agreement
    worker_weight: Array  # (workers,); empty if quality is agreement


def agreement_with_others(votes: Votes, n_classes: int, verbose: bool) -> Array:
    """Return the share of the others' answers that equal the worker's, (workers,); the mean for who shares no task."""
    same = votes.counts(n_classes)[votes.task, votes.label] - 1
    others = votes.per_worker(votes.n_answers[votes.task] - 1)
    rate = np.divide(votes.per_worker(same), others, out=np.zeros(votes.n_workers), where=others > 0)
    alone = others == 0
    if alone.any():
        rate[alone] = rate[~alone].mean()
        if verbose:
            warn(f"Annotators {preview(np.flatnonzero(alone))} share no example with others; they get the mean weight.")
    return rate


def evaluate_consensus(votes: Votes, proba: Array, label: Array, rate: Array, options: dict[str, Any]) -> Consensus:
    """Return the quality of a consensus by CROWDLAB.

    Parameters
    ----------
    votes : Votes
    proba : (tasks, classes) array
        Probabilities by the classifier.
    label : (tasks,) int array
        The consensus.
    rate : (workers,) array
        Agreement of each worker with the others.
    options : dict
        Arguments of `label_scores`.
    """
    agreement = agreement_with(votes, label, proba.shape[1])
    shared = votes.shared
    likely = agreement[shared].mean()
    unlikely = (1 - likely) / (proba.shape[1] - 1)
    base_error = max(1 - np.bincount(label[shared]).max() / shared.sum(), LEAST)
    worker_weight = np.maximum(1 - (1 - rate) / base_error, LEAST)
    model_error = np.mean(proba[shared].argmax(axis=1) != label[shared])
    model_weight = float(max(1 - model_error / base_error, LEAST) * np.sqrt(votes.n_answers.mean()))
    cell = votes.task * proba.shape[1] + votes.label
    weight = np.bincount(cell, worker_weight[votes.worker], proba.size).reshape(proba.shape)  # behind each class
    total = weight.sum(axis=1, keepdims=True)
    mixed = (proba * model_weight + likely * weight + unlikely * (total - weight)) / (total + model_weight)
    quality = label_scores(label, mixed, **options)
    return Consensus(label, agreement, quality, mixed, model_weight, worker_weight)


def agreement_with(votes: Votes, label: Array, n_classes: int) -> Array:
    """Return the share of each task's answers that equal its consensus, (tasks,)."""
    return votes.counts(n_classes)[np.arange(len(label)), label] / votes.n_answers


def most_probable(proba: Array, vote: Array) -> Array:
    """Return the most probable class of each task; the majority vote if several are."""
    tied = (proba == proba.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return np.where(tied, vote, proba.argmax(axis=1))


def best_temperature(share: Array, proba: Array) -> float:
    """Return the temperature at which the probabilities predict the shares of the votes best."""
    with np.errstate(divide="ignore"):
        log_proba = np.log(np.maximum(proba, 0))

    def best_of(temperatures: Array) -> int:
        losses = []
        for temperature in temperatures:
            scaled = np.exp(log_proba / temperature)
            scaled /= scaled.sum(axis=1, keepdims=True)
            losses.append(-(share * np.log(np.maximum(scaled, SMALL))).sum(axis=1).mean())
        return int(np.argmin(losses))

    at = best_of(np.array(TEMPERATURES))
    below = np.linspace(TEMPERATURES[max(at - 1, 0)], TEMPERATURES[at], FINE_STEPS, endpoint=False)
    above = np.linspace(TEMPERATURES[at], TEMPERATURES[min(at + 1, len(TEMPERATURES) - 1)], FINE_STEPS + 1)
    fine = np.concatenate([below if at else [], above if at < len(TEMPERATURES) - 1 else []])
    return float(fine[best_of(fine)])


def at_temperature(proba: Array, temperature: float) -> Array:
    """Return the probabilities raised to the power of 1 / temperature, and normalised."""
    proba = np.maximum(proba, SMALL)
    scaled = np.exp(np.log(proba / proba.sum(axis=1, keepdims=True)) / temperature)
    return scaled / scaled.sum(axis=1, keepdims=True)
