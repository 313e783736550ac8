"""UnionNet: all workers as one. The answer to a task is one draw from all (worker, label) pairs.

    f(x)     class probabilities of the network
    T        transition matrix, (classes, workers * labels): the softmax of each row of free logits over ALL its columns
    p        = f(x) T, one distribution over all (worker, label) pairs

    loss     mean over tasks of the mean over a task's answers of -log p[worker, label]

Every task has the same weight, whatever its number of answers: the target is the concatenated one-hot vectors of its
answers, scaled to sum one. Only the columns of T that the answers need are gathered; the softmax costs workers x
classes^2.

    P(w says l | truth c)  = T[c, (w, l)] / sum over l' of T[c, (w, l')]        `confusion_`
    P(w says l | x)        = p[w, l] / sum over l' of p[w, l']                  `answer_proba`

Wei, Xie, Feng, Han and An, "Deep learning from multiple noisy annotators as a union", TNNLS 2022, variant B. The
logits start at the identity per worker, as in public code. T also learns how often each worker answers tasks of each
class, which is noise if tasks are assigned at random.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.methods.annoreg import ConfusionLearner, ConfusionModule
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.torch_support import Tensor, functional
from crowdwise.learn.network.training import CrowdModule


class UnionNet(ConfusionLearner):
    """One transition matrix from classes to all (worker, label) pairs, trained with the classifier.

    Parameters
    ----------
    start : float
        The initial logits of each worker are this times the identity.
    **training
        See `TrainingOptions`.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        P(worker w says l | truth c) as [w, c, l].

    Examples
    --------
    >>> from crowdwise import simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = UnionNet(epochs=2).fit(X, answers)
    >>> model.confusion_.shape
    (40, 10, 10)
    """

    def __init__(self, *, start: float = 1.0, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(**training)
        self.start = start

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        return UnionNetModule(network, answers, self.start)


class UnionNetModule(ConfusionModule):
    """A `ConfusionModule` with one softmax over all workers."""

    def log_confusion(self) -> Tensor:
        """Return log T, (models * workers, labels, classes)."""
        by_model = self.logits.view(self.n_models, -1, self.n_classes)  # (models, workers * labels, classes)
        return functional.log_softmax(by_model, dim=1).view_as(self.logits)

    def answer_loss(self, batch: Batch, log_p: Tensor) -> Tensor:
        """Return the mean loss over tasks: the weight of an answer is one over the number of answers to its task."""
        count = np.bincount(batch.row, minlength=len(batch.task))  # (models * rows,)
        share = (len(batch.row) / len(batch.task) / count[batch.row]).astype(np.float32)  # (answers,): mean one
        weight = share if batch.weight is None else share * batch.weight
        return replace(batch, weight=weight).answer_loss(log_p)

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        return functional.log_softmax(super().answer_log_proba(x, log_f, row, worker), dim=1)
