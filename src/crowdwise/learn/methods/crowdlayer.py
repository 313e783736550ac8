"""CrowdLayer: a layer per worker on top of the classifier, trained with it and left out for prediction.

    f(x)        class probabilities of the network (after the softmax: the bottleneck)
    logits_w    logits of worker w's answer to x

    mw      f W_w              a matrix per worker, initially the identity
    vw      f * v_w            a weight per class, initially one
    vb      f + b_w            a bias per class, initially zero
    vw+b    f * v_w + b_w
    sw      f * s_w            one weight, initially one

    loss    mean over answers of -log softmax(logits_w)[label]

Rodrigues and Pereira, "Deep learning from crowds", AAAI 2018.

Fails with few answers per worker: nothing ties W_w to probabilities but its start, so it may swap classes, and then the
classifier does too. AnnoReg or an EM learner is safer there.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Unpack

import numpy as np

from crowdwise._core.validation import is_number, require
from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.fused_losses import matrix_gradients
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch
from crowdwise.learn.network.training import CrowdModule

Kind = Literal["mw", "vw", "vb", "vw+b", "sw"]


class CrowdLayer(NetworkLearner):
    """A linear map per worker on top of the classifier's softmax.

    Parameters
    ----------
    kind : {"mw", "vw", "vb", "vw+b", "sw"}
        The map of each worker: a matrix, weights, biases, weights and biases, or one weight.
    scale : float
        Initial value of the weights (the diagonal of the matrices); 2 in CoNAL's code.
    **training
        See `TrainingOptions`.

    Examples
    --------
    >>> from crowdwise import CrowdLayer, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> CrowdLayer(epochs=5).fit(X, answers).predict(X[:3]).shape
    (3,)
    """

    separate_answers: ClassVar[bool] = True

    def __init__(self, kind: Kind = "mw", *, scale: float = 1.0, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(**training)
        self.kind = kind
        self.scale = scale

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(is_number(self.scale), "scale", self.scale, "a number")
        require(self.kind in ("mw", "vw", "vb", "vw+b", "sw"), "kind", self.kind, "'mw', 'vw', 'vb', 'vw+b' or 'sw'")

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        return CrowdLayerModule(network, answers.n_workers, self.kind, self.scale)

    @property
    def confusion_(self) -> Array:
        """P(worker w says l | class c is certain) as [w, c, l]; the mean over models."""
        self._fitted  # noqa: B018 (raises if the model is not fitted)
        module: CrowdLayerModule = self.module_  # type: ignore[assignment]
        n, c = module.n_models * module.n_workers, module.n_classes
        certain = torch.eye(c).repeat(n, 1)  # (models * workers * classes, classes)
        with torch.no_grad():
            worker = torch.arange(n, device=self.device).repeat_interleave(c)
            confusion = module.map(certain.to(self.device), worker).softmax(1)
        return np.asarray(confusion.view(module.n_models, -1, c, c).mean(0).cpu().double().numpy())


class CrowdLayerModule(CrowdModule):
    """The classifier and the workers' maps."""

    bias: nn.Parameter
    matrix: nn.Parameter
    weight: nn.Parameter

    def __init__(self, network: Network, n_workers: int, kind: Kind, scale: float) -> None:
        super().__init__(network, n_workers)
        n, c = self.n_models * n_workers, self.n_classes
        self.kind = kind
        if kind == "mw":
            self.matrix = nn.Parameter(scale * torch.eye(c).repeat(n, 1, 1))  # (models * workers, classes, labels)
        if kind in ("vw", "vw+b", "sw"):
            self.weight = nn.Parameter(torch.full((n, 1 if kind == "sw" else c), float(scale)))
        if kind in ("vb", "vw+b"):
            self.bias = nn.Parameter(torch.zeros(n, c))

    def map(self, f: Tensor, worker: Tensor) -> Tensor:
        """Return logits (answers, labels) of each answer's worker, from class probabilities (answers, classes)."""
        if self.kind == "mw":
            return torch.bmm(f[:, None], self.matrix[worker])[:, 0]
        if self.kind in ("vw", "vw+b", "sw"):
            f = f * self.weight[worker]
        return f + self.bias[worker] if self.kind in ("vb", "vw+b") else f

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        return functional.log_softmax(self.map(log_f.exp()[row], worker), dim=1)

    def backward(self, batch: Batch) -> Tensor:
        """Compute the gradients, for matrices with a fused kernel."""
        if self.kind != "mw" or not batch.supports_fused:
            return super().backward(batch)
        logits = batch.logits(self.network)
        loss, d_logits, self.matrix.grad = matrix_gradients(logits, self.matrix, batch)
        logits.backward(d_logits)  # type: ignore[no-untyped-call]
        return loss
