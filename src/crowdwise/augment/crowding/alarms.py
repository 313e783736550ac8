"""Notices when CrowdInG went astray: an adversarial training fails without a word unless one looks.

collapse    nearly all generated answers say the same, and the real ones do not
drift       the mean of G / G0 is far from one: the multiplier mu pays for leaving, or for repeating, what was drawn
worthless   the generator, or the classifier through its crowd layer, fits the real answers worse than an even guess
forgetting  or far worse than before the game
moving      the classifier says another class of many tasks than before the game
judging     the loss of the judges is far above that of judges who know nothing
sitting out the generator, or the classifier, had no task to learn on in the whole game
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from crowdwise.errors import CrowdwiseWarning, DivergenceWarning
from crowdwise.learn.base import Array

SAME, REAL_SAME = 0.99, 0.9  # share of the most frequent label: generated, and of the real answers
ENOUGH = 50  # answers, to speak of a share
DRIFT = 0.5  # of the mean of G / G0 from one
WORTHLESS = 0.25  # nats an answer below an even guess
FORGOTTEN = 0.5  # nats an answer
MOVED = 0.3  # of the tasks
ASTRAY = 3.0  # times the loss of judges who know nothing


class Level(NamedTuple):
    """What the figures of a game are held against."""

    real_share: float  # of the most frequent label among real answers
    even: float  # mean log-likelihood of an even guess
    judges: float  # loss of judges who know nothing


def warn_if_astray(before: dict[str, Array], after: dict[str, Array], level: Level) -> None:
    """Warn about what the figures (models,) before the game and after it show, with the remedy."""
    found: list[str] = []
    same = float(after.get("same", np.zeros(1)).max())
    if same >= SAME and level.real_share < REAL_SAME:
        found.append(
            f"the generator collapsed: {same:.0%} of its answers name one class, of the real ones "
            f"{level.real_share:.0%}; lower adversarial_lr, or raise information"
        )
    ratio = after.get("ratio", np.ones(1))
    worst = float(ratio[np.abs(ratio - 1).argmax()])
    if not abs(worst - 1) <= DRIFT:
        found.append(f"the mean of G / G0 is {worst:.2f}, not near one; use multiplier='mean', or lower adversarial_lr")
    for who, first_rate, rate in (
        ("generator", "generator_lr", "adversarial_lr"), ("classifier", "lr", "classifier_lr")
    ):  # fmt: skip
        first, last = before[f"{who}_fit"], after[f"{who}_fit"]
        lost, least = float((first - last).max()), level.even - WORTHLESS
        fits = f"the {who} fits the real answers"
        if not first.min() >= least:  # so written, what is not a number counts
            found.append(f"{fits} at {first.min():.3g} nats after pre-training, an even guess at {level.even:.3g}; "
                         f"lower {first_rate}")  # fmt: skip
        elif not last.min() >= least:
            found.append(f"{fits} at {last.min():.3g} nats after the game, an even guess at {level.even:.3g}; "
                         f"lower {rate}")  # fmt: skip
        elif lost > FORGOTTEN:
            found.append(f"{fits} {lost:.2f} nats worse than before the game; lower {rate}, adversarial_epochs or "
                         f"steps")  # fmt: skip
    moved = 1 - float(after["agreement"].min())
    if moved > MOVED:
        found.append(
            f"the classifier says another class of {moved:.0%} of the tasks than before the game; lower classifier_lr, "
            f"adversarial_epochs or steps"
        )
    loss = float(after.get("loss_d", np.zeros(1)).max())
    if not loss <= ASTRAY * level.judges:
        found.append(
            f"the loss of discriminator and auxiliary network reached {loss:.3g}, that of judges who know nothing is "
            f"{level.judges:.3g}; lower discriminator_lr"
        )
    if found:
        warnings.warn(f"CrowdInG went astray: {'; '.join(found)}.", DivergenceWarning, stacklevel=2)


def warn_if_sat_out(sure: Array, threshold: float) -> None:
    """Warn when the classifier was sure of no task, or of all, in every epoch: shares (epochs, models)."""
    idle, where, remedy = "generator", "at most", "raise"
    if not (sure.max(axis=0) == 0).any():
        if not (sure.min(axis=0) == 1).any():
            return
        idle, where, remedy = "classifier", "above", "lower"
    message = (
        f"the {idle} of CrowdInG learnt nothing in the game: the classifier's entropy was {where} "
        f"threshold={threshold:g} on no task in any epoch; {remedy} it, or set two_step=False."
    )
    warnings.warn(message, CrowdwiseWarning, stacklevel=2)


def most_frequent(label: Array) -> float:
    """Share of the label that is said most."""
    return float(np.bincount(label).max() / len(label))
