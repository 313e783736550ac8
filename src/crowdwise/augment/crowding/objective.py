"""The losses of CrowdInG as functions of arrays.

    judged      D, the probability the discriminator gives to an answer of being real
    L_G         -log((D + e) / (1 + e)), e = 0.001 ("nonsaturating", the authors' code), or log(1 - D) ("printed")
    delta       L_G + lambda * CE: CE = -sum_c f(x)[c] log Q(c | x, worker, answer), the auxiliary network's loss
    risk        mu + mean of (delta - mu) * min(G / G0, clip) over answers logged from G0: eqs. (5) and (6)

An answer drawn from G0 and weighted by G / G0 represents one drawn from G, so G0's answers serve many steps. Over all
answers the mean of G / G0 is one, so mu adds only a constant. Over a sample it is not one, and a wrong mu rewards the
generator for leaving the sample (Joachims, Swaminathan and de Rijke, 2018). The mean of delta is neutral.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from crowdwise.learn.base import Array
from crowdwise.learn.network.torch_support import Tensor, functional, torch

Objective = Literal["nonsaturating", "printed"]
SMALL = 1e-3  # e in L_G, which bounds it by 7
LEAST_ENTROPY = 1e-6  # so that its reciprocal is finite
LEAST_MATCHED, MOST_MATCHED = 0.0065, 10.0  # least entropy in nats, and largest weight, of a matched answer


def unlikely(logit: Tensor, objective: Objective) -> Tensor:
    """Return L_G, high where the discriminator, with these logits, finds answers unlikely to be real.

    >>> unlikely(torch.zeros(1), "nonsaturating"), unlikely(torch.zeros(1), "printed")
    (tensor([0.6921]), tensor([-0.6931]))
    """
    if objective == "printed":
        return functional.logsigmoid(-logit)
    return -torch.log((torch.sigmoid(logit) + SMALL) / (1 + SMALL))


def risk(log_ratio: Tensor, delta: Tensor, mu: Tensor | float, clip: float) -> Tensor:
    """Return the terms of the counterfactual risk, (answers,), from log G / G0 and the loss delta of each answer."""
    return mu + (delta - mu) * log_ratio.exp().clamp_max(clip)


def by_model(values: Tensor, model: Tensor, n_models: int, weight: Tensor | None = None) -> Tensor:
    """Return the weighted mean of values (answers,) per model, (models,); 0 for a model without values.

    >>> by_model(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]), 3)
    tensor([2., 0., 5.])
    """
    weight = torch.ones_like(values) if weight is None else weight
    total = values.new_zeros(n_models).index_add(0, model, values * weight)
    return total / values.new_zeros(n_models).index_add(0, model, weight).clamp_min(1e-12)


def entropy(proba: Array) -> Array:
    """Return the entropy in nats of distributions along the last axis."""
    return -np.sum(proba * np.log(np.maximum(proba, 1e-12)), axis=-1)


def matched_weights(worker: Array, uncertainty: Array) -> Array:
    """Return weights of real answers, (answers,), by 1 / uncertainty, as generated ones are drawn by `choose_pairs`.

    Without them, generated answers are for clear pairs and real ones for all, so that a discriminator learns to tell
    clear from unclear. Weights have mean one per worker, before the largest are lowered to `MOST_MATCHED`.

    >>> matched_weights(np.array([0, 0, 1]), np.array([0.1, 0.3, 0.5]))
    array([1.5, 0.5, 1. ])
    """
    weight = 1 / np.maximum(uncertainty, LEAST_MATCHED)
    mean = np.bincount(worker, weight) / np.maximum(np.bincount(worker), 1)  # (workers,)
    return np.minimum(weight / mean[worker], MOST_MATCHED)


def choose_pairs(worker: Array, uncertainty: Array | None, quota: Array, rng: np.random.Generator) -> Array:
    """Return which pairs are chosen, (pairs,) bool: quota[w] of worker w, or all they have, without replacement.

    Pairs are drawn with probability proportional to 1 / uncertainty (the generator's entropy: the more confident it is,
    the harder a generated answer is to recognise), or uniformly if `uncertainty` is None.
    """
    # Gumbel trick: the k largest of log weight + Gumbel noise are k weighted draws without replacement.
    key = rng.gumbel(size=len(worker))
    if uncertainty is not None:
        key -= np.log(np.maximum(uncertainty, LEAST_ENTROPY))
    order = np.lexsort((-key, worker))
    starts = np.concatenate([[0], np.cumsum(np.bincount(worker, minlength=len(quota)))])
    chosen = np.empty(len(worker), bool)
    ranked = worker[order]
    chosen[order] = np.arange(len(worker)) - starts[ranked] < quota[ranked]
    return chosen
