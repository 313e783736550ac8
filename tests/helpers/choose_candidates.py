"""Candidates for the tests of `choose`."""

from __future__ import annotations

import numpy as np

import crowdwise as cw
from crowdwise.errors import TrainingError
from crowdwise.truth.base import TruthModel

QUICK = ["one-coin", "dawid-skene"]


class Fixed(TruthModel):
    """A truth model with a fixed belief."""

    def __init__(self, belief=((0.9, 0.1),), says=None):
        self.belief = belief
        self.says = says

    def _fit(self, answers, gold, rng, callback):
        self.proba_ = np.resize(np.array(self.belief, dtype=float), (answers.n_tasks, answers.n_classes))
        if self.says is not None:
            self.confusion_ = np.resize(np.array(self.says), (answers.n_workers, answers.n_classes, answers.n_classes))


class Failing(cw.OneCoin):
    """A truth model that always fails."""

    def _fit(self, answers, gold, rng, callback):
        message = "the loss is not finite."
        raise TrainingError(message)
