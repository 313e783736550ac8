"""AnnoReg: a confusion matrix per worker after the classifier, with as small a diagonal as the answers allow.

    f(x)     class probabilities of the network
    S_w      confusion matrix of worker w, [c, l] = P(w says l | truth c): the softmax of each row of free logits
    p        = f(x) S_w, the distribution of worker w's answer to x; no second softmax

    loss     mean over answers of -log p[label]  +  lam * mean over workers of trace(S_w)

Tanno, Saeedi, Sankaranarayanan, Alexander and Silberman, "Learning from noisy labels by regularized estimation of
annotator confusion", CVPR 2019. The plus sign is intended: f S_w = (f A)(A^-1 S_w) for many A, and among those that
explain the answers the least diagonal S_w belong to the most certain f. Rows start at softmax(6 I), as theirs
(6 I - 5).

Fails in a short training with a small learning rate: Adam moves a logit by about lr per step, so lr * steps must reach
several units before the matrices leave their start. Until then the method is little more than training on all answers.
"""

from __future__ import annotations

from typing import ClassVar, Unpack

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.fused_losses import backpropagate_confusion, confusion_from_logits, confusion_gradients
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch
from crowdwise.learn.network.training import CrowdModule


class ConfusionLearner(NetworkLearner):
    """The base of learners whose module is a `ConfusionModule`."""

    @property
    def confusion_(self) -> Array:
        """P(worker w says l | truth c) as [w, c, l]; the mean over models."""
        self._fitted  # noqa: B018 (raises if the model is not fitted)
        module: ConfusionModule = self.module_  # type: ignore[assignment]
        with torch.no_grad():
            by_label = functional.softmax(module.logits.double(), dim=1)  # (models * workers, labels, classes)
        mean = by_label.view(module.n_models, -1, *by_label.shape[1:]).mean(0)  # (workers, labels, classes)
        return np.asarray(mean.transpose(1, 2).cpu().numpy())


class AnnoReg(ConfusionLearner):
    """A confusion matrix per worker with a trace penalty, trained with the classifier.

    Parameters
    ----------
    lam : float
        Weight of the mean trace in the loss.
    start : float
        The initial logits are this times the identity; 6 gives odds of e^6 to 1 against each wrong label.
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
    >>> model = AnnoReg(epochs=2).fit(X, answers)
    >>> model.confusion_.shape
    (40, 10, 10)
    """

    separate_answers: ClassVar[bool] = True

    def __init__(self, lam: float = 0.01, *, start: float = 6.0, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(**training)
        self.lam = lam
        self.start = start

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(self.lam >= 0, "lam", self.lam, "a number, 0 or more")

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        return AnnoRegModule(network, answers, self.start, self.lam)


class ConfusionModule(CrowdModule):
    """The classifier and a row-stochastic confusion matrix per worker."""

    seen: Tensor

    logits: nn.Parameter

    def __init__(self, network: Network, answers: Answers, start: float) -> None:
        super().__init__(network, answers.n_workers)
        n, c = self.n_models * self.n_workers, self.n_classes
        # Transposed, (models * workers, labels, classes): the column that an answer needs is contiguous.
        self.logits = nn.Parameter(start * torch.eye(c).repeat(n, 1, 1))
        # Only workers with answers enter a penalty: Adam would move the others as far as these.
        seen = torch.from_numpy(np.bincount(answers.worker, minlength=self.n_workers) > 0)
        self.register_buffer("seen", seen.repeat(self.n_models), persistent=False)  # (models * workers,)
        self.n_seen: int = int(seen.sum())

    def log_confusion(self) -> Tensor:
        """Return the log of the matrices, (models * workers, labels, classes)."""
        return functional.log_softmax(self.logits, dim=1)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a batch; the matrices are computed once for answers and penalty."""
        log_f = batch.gather_rows(self.class_log_proba(batch.x)).flatten(0, 1)  # (models * rows, classes)
        log_s = self.log_confusion()
        index = batch.tensor(batch.worker * self.n_classes + batch.label)
        column = log_s.flatten(0, 1).index_select(0, index)  # (answers, classes): log P(label | class)
        log_p = torch.logsumexp(log_f.index_select(0, batch.tensor(batch.row)) + column, dim=1)
        return self.answer_loss(batch, log_p) + self.confusion_penalty(log_f, log_s)

    def answer_loss(self, batch: Batch, log_p: Tensor) -> Tensor:
        """Return the mean loss over the answers of a batch."""
        return batch.answer_loss(log_p)

    def confusion_penalty(self, log_f: Tensor, log_s: Tensor) -> Tensor | float:
        """Return the penalty, from log class probabilities (models * rows, classes) and log matrices."""
        return 0.0

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        log_s = self.log_confusion()[worker]  # (answers, labels, classes)
        return torch.logsumexp(log_f[row][:, None] + log_s, dim=2)


class AnnoRegModule(ConfusionModule):
    """A `ConfusionModule` with the trace penalty."""

    def __init__(self, network: Network, answers: Answers, start: float, lam: float) -> None:
        super().__init__(network, answers, start)
        self.lam = lam

    def backward(self, batch: Batch) -> Tensor:
        """Compute the gradients with a fused kernel, and that of the trace in closed form."""
        if not batch.supports_fused:
            return super().backward(batch)
        logits = batch.logits(self.network)
        confusion = confusion_from_logits(self.logits)  # (models * workers, labels, classes)
        loss, d_logits, slope = confusion_gradients(logits, confusion, batch)
        # The trace of every worker has a gradient in every batch, which makes large crowds expensive.
        penalty = backpropagate_confusion(slope, confusion, self.lam / self.n_seen * self.seen)
        self.logits.grad = slope
        logits.backward(d_logits)  # type: ignore[no-untyped-call]
        return loss + penalty

    def confusion_penalty(self, log_f: Tensor, log_s: Tensor) -> Tensor | float:  # noqa: D102
        if not self.lam:
            return 0.0
        trace = log_s.diagonal(dim1=1, dim2=2).exp().sum(1)  # (models * workers,)
        return (self.lam / self.n_seen) * (trace * self.seen).sum()
