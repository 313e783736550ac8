"""What the players of CrowdInG minimise, as functions of arrays.

    judged      D, the probability the discriminator gives to an answer of being real
    L_G         -log((D + e) / (1 + e)), e = 0.001 ("nonsaturating", the authors' code), or log(1 - D) ("printed")
    delta       L_G + lambda * CE: CE = -sum_c f(x)[c] log Q(c | x, worker, answer), what the auxiliary network misses
    risk        mu + mean of (delta - mu) * min(G / G0, clip) over answers logged from G0: eqs. (5) and (6)

An answer drawn from G0 and weighed by G / G0 stands for one drawn from G, so G0's answers serve many steps. The mean of
G / G0 is one over all answers, so mu changes nothing but a constant; over those that were drawn it is not, and the
wrong mu pays the generator for leaving them (Joachims, Swaminathan and de Rijke, 2018). The mean of delta is neutral.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from crowdwise.learn.base import Array
from crowdwise.learn.network.torch_support import Tensor, functional, torch

Objective = Literal["nonsaturating", "printed"]
SMALL = 1e-3  # e of L_G: keeps it below 7
LEAST_ENTROPY = 1e-6  # one over it must be finite


def unlikely(logit: Tensor, objective: Objective) -> Tensor:
    """L_G: how little the discriminator, of these logits, takes answers for real.

    >>> unlikely(torch.zeros(1), "nonsaturating"), unlikely(torch.zeros(1), "printed")
    (tensor([0.6921]), tensor([-0.6931]))
    """
    if objective == "printed":
        return functional.logsigmoid(-logit)
    return -torch.log((torch.sigmoid(logit) + SMALL) / (1 + SMALL))


def risk(log_ratio: Tensor, delta: Tensor, mu: Tensor | float, clip: float) -> Tensor:
    """Terms of the counterfactual risk, (answers,), from log G / G0 and the loss delta of each."""
    return mu + (delta - mu) * log_ratio.exp().clamp_max(clip)


def by_model(values: Tensor, model: Tensor, n_models: int, weight: Tensor | None = None) -> Tensor:
    """Weighted mean of values (answers,) for each model, (models,); 0 where a model has none.

    >>> by_model(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]), 3)
    tensor([2., 0., 5.])
    """
    weight = torch.ones_like(values) if weight is None else weight
    total = values.new_zeros(n_models).index_add(0, model, values * weight)
    return total / values.new_zeros(n_models).index_add(0, model, weight).clamp_min(1e-12)


def entropy(proba: Array) -> Array:
    """Entropy in nats of distributions along the last axis."""
    return -np.sum(proba * np.log(np.maximum(proba, 1e-12)), axis=-1)


def choose_pairs(worker: Array, uncertainty: Array | None, quota: Array, rng: np.random.Generator) -> Array:
    """Which pairs are chosen, (pairs,) bool: quota[w] of worker w, or all he has, one after another without return.

    The next is drawn with probability in proportion to 1 / uncertainty (the entropy of the generator there: the surer
    it is, the harder a false answer is to tell), or evenly when there is none.
    """
    # The largest of log weight + Gumbel noise is a draw by weight, the two largest are two without return, and so on.
    key = rng.gumbel(size=len(worker))
    if uncertainty is not None:
        key -= np.log(np.maximum(uncertainty, LEAST_ENTROPY))
    order = np.lexsort((-key, worker))
    starts = np.concatenate([[0], np.cumsum(np.bincount(worker, minlength=len(quota)))])
    chosen = np.empty(len(worker), bool)
    ranked = worker[order]
    chosen[order] = np.arange(len(worker)) - starts[ranked] < quota[ranked]
    return chosen
