"""Notices when the game of CrowdInG went astray: an adversarial training fails without a word unless one looks.

collapse    nearly all generated answers say the same, and the real ones do not
drift       the mean of G / G0 is far from one: the multiplier mu pays for leaving, or for repeating, what was drawn
forgetting  the generator, or the classifier through its crowd layer, fits the real answers far worse than before
"""

from __future__ import annotations

import warnings

import numpy as np

from crowdwise.errors import DivergenceWarning
from crowdwise.learn.base import Array

SAME, REAL_SAME = 0.99, 0.9  # share of the most frequent label: generated, and of the real answers
ENOUGH = 50  # answers, to speak of a share
DRIFT = 0.5  # of the mean of G / G0 from one
FORGOTTEN = 0.5  # nats an answer


def warn_if_astray(first: dict[str, Array], last: dict[str, Array], real_share: float) -> None:
    """Warn about what the figures (models,) of the first and the last epoch show, with the remedy."""
    found: list[str] = []
    same = float(last.get("same", np.zeros(1)).max())
    if same >= SAME and real_share < REAL_SAME:
        found.append(
            f"the generator collapsed: {same:.0%} of its answers name one class, of the real ones {real_share:.0%}; "
            f"lower adversarial_lr, or raise information"
        )
    ratio = last.get("ratio", np.ones(1))
    worst = float(ratio[np.abs(ratio - 1).argmax()])
    if abs(worst - 1) > DRIFT:
        found.append(f"the mean of G / G0 is {worst:.2f}, not near one; use multiplier='mean', or lower adversarial_lr")
    for who, rate in (("generator", "adversarial_lr"), ("classifier", "classifier_lr")):
        lost = float((first[f"{who}_fit"] - last[f"{who}_fit"]).max())
        if lost > FORGOTTEN:
            found.append(
                f"the {who} fits the real answers {lost:.2f} nats worse than before the game; lower {rate}, "
                f"adversarial_epochs or steps"
            )
    if found:
        warnings.warn(f"CrowdInG went astray: {'; '.join(found)}.", DivergenceWarning, stacklevel=2)


def most_frequent(label: Array) -> float:
    """Share of the label that is said most."""
    return float(np.bincount(label).max() / len(label))
