"""GeoCrowdNet: a confusion matrix per worker after the classifier, identified by a geometric regularisation.

    f(x)     class probabilities of the network; F = those of the rows of a batch, (rows, classes)
    S_w      confusion matrix of worker w, [c, l] = P(w says l | truth c): the softmax of each row of free logits
    p        = f(x) S_w, the distribution of worker w's answer to x

    loss     mean over answers of -log p[label]  -  lam * volume
    F        volume = log det F' F                      spreads f to the corners: some tasks are certain
    W        volume = log det sum over w of S_w S_w'    spreads the rows of the matrices: some workers separate classes

Ibrahim, Nguyen and Fu, "Deep learning from crowdsourced labels: coupled cross-entropy minimization, identifiability,
and regularization", ICLR 2023. f and S_w are not unique, as (f A)(A^-1 S_w) = f S_w; the largest volume selects one.
The paper stacks the S_w' to W and writes W' W, which is the sum above. The logits start at the identity, as in their
code.

A batch with fewer rows than classes has no volume, and neither has one in which two classes have the same
probabilities. The term is then left out for that model.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Unpack

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.learn.methods.annoreg import ConfusionLearner, ConfusionModule
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.torch_support import Tensor, torch
from crowdwise.learn.network.training import CrowdModule

Kind = Literal["F", "W"] | None


class GeoCrowdNet(ConfusionLearner):
    """A confusion matrix per worker, trained with the classifier, with a reward for volume.

    Parameters
    ----------
    kind : {"F", "W", None}
        Whose volume is rewarded: the classifier's probabilities ("F"), the confusion matrices ("W"), or none.
    lam : float
        Weight of the volume.
    start : float
        The initial logits are this times the identity.
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
    >>> model = GeoCrowdNet("W", epochs=2).fit(X, answers)
    >>> model.confusion_.shape
    (40, 10, 10)
    """

    separate_answers: ClassVar[bool] = True

    def __init__(
        self, kind: Kind = "F", *, lam: float = 1e-3, start: float = 1.0, **training: Unpack[TrainingOptions]
    ) -> None:
        super().__init__(**training)
        self.kind = kind
        self.lam = lam
        self.start = start

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(self.kind in ("F", "W", None), "kind", self.kind, "'F', 'W' or None")
        require(self.lam >= 0, "lam", self.lam, "a number, 0 or more")

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        return GeoCrowdNetModule(network, answers, self.start, self.kind, self.lam)


class GeoCrowdNetModule(ConfusionModule):
    """A `ConfusionModule` with the volume term."""

    lam: float

    def __init__(self, network: Network, answers: Answers, start: float, kind: Kind, lam: float) -> None:
        super().__init__(network, answers, start)
        self.kind, self.lam = kind, lam

    def confusion_penalty(self, log_f: Tensor, log_s: Tensor) -> Tensor | float:  # noqa: D102
        if self.kind is None or not self.lam:
            return 0.0
        # (models * rows, classes), or (models * workers, labels, classes)
        rows = log_f.exp() if self.kind == "F" else log_s.exp() * self.seen[:, None, None]
        rows = rows.view(self.n_models, -1, self.n_classes)
        return -self.lam * log_volume(rows.mT @ rows).sum()


def log_volume(gram: Tensor) -> Tensor:
    """Return the log determinant of each symmetric matrix (models, n, n); 0, without a gradient, if it is singular.

    >>> log_volume(torch.stack([2 * torch.eye(2), torch.ones(2, 2)]))
    tensor([1.3863, 0.0000])
    """
    if not gram.isfinite().all():  # LAPACK would fail; the training loop reports the loss
        return gram.sum((1, 2))
    value = torch.linalg.eigvalsh(gram)  # (models, n): ascending
    tiny = gram.shape[-1] * torch.finfo(gram.dtype).eps
    regular = value[:, :1] > tiny * value[:, -1:]
    return torch.where(regular, value, 1).log().sum(1)
