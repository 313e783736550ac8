"""Warnings when CrowdInG's training diverged. Adversarial training fails silently unless it is checked.

collapse    nearly all generated answers are the same class, and the real ones are not
drift       the mean of G / G0 is far from one: the multiplier mu rewards leaving, or repeating, the logged answers
worthless   the generator, or the classifier through its crowd layer, fits the real answers worse than a uniform guess
forgetting  or far worse than before the game
moving      the classifier predicts another class for many tasks than before the game
judging     the loss of discriminator and auxiliary network is far above the loss at chance
untrained   the generator, or the classifier, had no task to learn from in the entire game
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from crowdwise.errors import CrowdwiseWarning, DivergenceWarning
from crowdwise.learn.base import Array

SAME, REAL_SAME = 0.99, 0.9  # share of the most frequent label among generated and among real answers
ENOUGH = 50  # answers needed to estimate a share
DRIFT = 0.5  # distance of the mean of G / G0 from one
WORTHLESS = 0.25  # nats per answer below a uniform guess
FORGOTTEN = 0.5  # nats per answer
MOVED = 0.3  # share of the tasks
MAX_LOSS = 3.0  # in units of the loss at chance


class ReferenceLevels(NamedTuple):
    """Reference values for the figures of a game."""

    real_share: float  # of the most frequent label among real answers
    uniform: float  # mean log-likelihood of a uniform guess
    judges: float  # loss of discriminator and auxiliary network at chance


def warn_on_divergence(before: dict[str, Array], after: dict[str, Array], level: ReferenceLevels) -> None:
    """Warn of divergence, with a remedy, from the figures (models,) before and after the game."""
    found: list[str] = []
    same = float(after.get("same", np.zeros(1)).max())
    if same >= SAME and level.real_share < REAL_SAME:
        found.append(
            f"the generator collapsed: {same:.0%} of its answers are one class, against {level.real_share:.0%} of the "
            f"real ones; lower adversarial_lr, or raise information"
        )
    ratio = after.get("ratio", np.ones(1))
    worst = float(ratio[np.abs(ratio - 1).argmax()])
    if not abs(worst - 1) <= DRIFT:
        found.append(f"the mean of G / G0 is {worst:.2f}, not near one; use multiplier='mean', or lower adversarial_lr")
    for who, first_rate, rate in (
        ("generator", "generator_lr", "adversarial_lr"), ("classifier", "lr", "classifier_lr")
    ):  # fmt: skip
        first, last = before[f"{who}_fit"], after[f"{who}_fit"]
        lost, least = float((first - last).max()), level.uniform - WORTHLESS
        fits = f"the {who} fits the real answers"
        if not first.min() >= least:  # "not >=" is also true of NaN
            found.append(f"{fits} at {first.min():.3g} nats after pre-training, a uniform guess at "
                         f"{level.uniform:.3g}; lower {first_rate}")  # fmt: skip
        elif not last.min() >= least:
            found.append(f"{fits} at {last.min():.3g} nats after the game, a uniform guess at {level.uniform:.3g}; "
                         f"lower {rate}")  # fmt: skip
        elif lost > FORGOTTEN:
            found.append(f"{fits} {lost:.2f} nats worse than before the game; lower {rate}, adversarial_epochs or "
                         f"steps")  # fmt: skip
    moved = 1 - float(after["agreement"].min())
    if moved > MOVED:
        found.append(
            f"the classifier changed its class for {moved:.0%} of the tasks during the game; lower classifier_lr, "
            f"adversarial_epochs or steps"
        )
    loss = float(after.get("loss_d", np.zeros(1)).max())
    if not loss <= MAX_LOSS * level.judges:
        found.append(
            f"the loss of discriminator and auxiliary network reached {loss:.3g}; at chance it is "
            f"{level.judges:.3g}; lower discriminator_lr"
        )
    if found:
        warnings.warn(f"CrowdInG diverged: {'; '.join(found)}.", DivergenceWarning, stacklevel=2)


def warn_if_untrained(sure: Array, threshold: float) -> None:
    """Warn if the classifier was confident on no task, or on all, in every epoch: shares (epochs, models)."""
    idle, where, remedy = "generator", "at most", "raise"
    if not (sure.max(axis=0) == 0).any():
        if not (sure.min(axis=0) == 1).any():
            return
        idle, where, remedy = "classifier", "above", "lower"
    message = (
        f"the {idle} of CrowdInG did not train in the game: the classifier's entropy was {where} "
        f"threshold={threshold:g} on no task in any epoch; {remedy} it, or set two_step=False."
    )
    warnings.warn(message, CrowdwiseWarning, stacklevel=2)


def most_frequent(label: Array) -> float:
    """Return the share of the most frequent label."""
    return float(np.bincount(label).max() / len(label))
