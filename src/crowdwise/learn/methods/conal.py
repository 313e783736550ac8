"""CoNAL: an answer comes from a common confusion matrix or from the worker's own, in shares set by task and worker.

    f(x)     class probabilities of the network (after the softmax: the bottleneck)
    W_g      the matrix of the common confusion; W_k that of worker k
    v_x      vector of the task: two linear maps of its features, to `task_hidden` and on to `width`
    u_k      vector of the worker: an embedding; both have length one with `normalise`
    w        = sigmoid(<v_x, u_k>), the share of the common confusion

    logits   w f W_g + (1 - w) f W_k
    loss     mean over answers of -log softmax(logits)[label]  -  lam * sum over workers of |W_k - W_g|  (Frobenius)

Chu, Ma and Wang, "Learning from crowds by modeling common confusions", AAAI 2021. The penalty rewards distance, so that
only W_g holds what is common. With v and u of length one, w lies between 0.27 and 0.73. As in CrowdLayer, nothing ties
the matrices to probabilities.
"""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.fused_losses import conal_gradients
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Linear, Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch
from crowdwise.learn.network.training import CrowdModule

SEED = 1_000_000  # offset of the seeds, above those of the layers of any network


class CoNAL(NetworkLearner):
    """A common confusion matrix and one per worker, mixed by task and worker.

    The authors train with lr=1e-2 and batch_size=1024; on Music with width=80 and normalise=False.

    Parameters
    ----------
    lam : float
        Weight of the reward for distance between own and common matrices.
    width : int
        Size of the vectors of tasks and workers.
    task_hidden : int
        Size of the hidden layer from features to the vector of a task.
    start : float
        Initial value of the diagonal of all matrices.
    normalise : bool
        Whether to scale the vectors to length one.
    **training
        See `TrainingOptions`.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        P(worker w says l | class c is certain, own confusion) as [w, c, l].
    common_ : (classes, classes) array
        The same for the common confusion.

    Examples
    --------
    >>> from crowdwise import simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = CoNAL(epochs=2).fit(X, answers)
    >>> model.confusion_.shape, model.common_.shape
    ((40, 10, 10), (10, 10))
    """

    separate_answers: ClassVar[bool] = True

    def __init__(
        self,
        lam: float = 1e-5,
        *,
        width: int = 20,
        task_hidden: int = 128,
        start: float = 2.0,
        normalise: bool = True,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(**training)
        self.lam = lam
        self.width = width
        self.task_hidden = task_hidden
        self.start = start
        self.normalise = normalise

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(self.lam >= 0, "lam", self.lam, "a number, 0 or more")
        for name in ("width", "task_hidden"):
            value = getattr(self, name)
            require(isinstance(value, int) and value >= 1, name, value, "an integer, 1 or more")

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        return CoNALModule(
            network, answers, int(np.prod(self.shape_in_)), lam=self.lam, width=self.width, hidden=self.task_hidden,
            start=self.start, normalise=self.normalise, seed=self.random_state,
        )  # fmt: skip

    @property
    def confusion_(self) -> Array:
        """P(worker w says l | class c is certain, own confusion) as [w, c, l]; the mean over models."""
        return self._mean_softmax(self._conal.matrix)

    @property
    def common_(self) -> Array:
        """P(any worker says l | class c is certain, common confusion) as [c, l]; the mean over models."""
        return self._mean_softmax(self._conal.common)[0]

    @property
    def _conal(self) -> CoNALModule:
        self._fitted  # noqa: B018 (raises if the model is not fitted)
        return self.module_  # type: ignore[return-value]

    def _mean_softmax(self, matrix: Tensor) -> Array:
        """Return the softmax of the rows of matrices (models * n, classes, labels), averaged over models."""
        rows = matrix.detach().double().softmax(2)
        return np.asarray(rows.view(self._conal.n_models, -1, *rows.shape[1:]).mean(0).cpu().numpy())


class CoNALModule(CrowdModule):
    """The classifier, the common and the own matrices, and the task and worker vectors that mix them."""

    seen: Tensor

    common: nn.Parameter
    lam: float
    matrix: nn.Parameter
    normalise: bool
    task: nn.Sequential
    worker: nn.Parameter

    def __init__(
        self,
        network: Network,
        answers: Answers,
        n_features: int,
        *,
        lam: float,
        width: int,
        hidden: int,
        start: float,
        normalise: bool,
        seed: int,
    ) -> None:
        super().__init__(network, answers.n_workers)
        m, n, c = self.n_models, self.n_workers, self.n_classes
        self.lam, self.normalise = lam, normalise
        self.common = nn.Parameter(start * torch.eye(c).repeat(m, 1, 1))  # (models, classes, labels): W_g
        self.matrix = nn.Parameter(start * torch.eye(c).repeat(m * n, 1, 1))  # (models * workers, classes, labels): W_k
        self.task = nn.Sequential(
            Linear(m, n_features, hidden, seed=[seed, SEED]), Linear(m, hidden, width, seed=[seed, SEED + 1])
        )
        # Initialised like the weights of a layer whose inputs are one-hot workers.
        self.worker = nn.Parameter(Linear(m, n, width, seed=[seed, SEED + 2]).weight.detach().reshape(-1, width))
        # Only workers with answers enter the penalty: Adam would move the others as far as these.
        seen = torch.from_numpy(np.bincount(answers.worker, minlength=n) > 0)
        self.register_buffer("seen", seen.repeat(m), persistent=False)  # (models * workers,)

    def share(self, tasks: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Return the share of the common confusion, (answers, 1), from the output of `task_layers`."""
        v, u = self.vectors(tasks)
        return (v.index_select(0, row) * u.index_select(0, worker)).sum(1, keepdim=True).sigmoid()

    def task_layers(self, x: Tensor) -> Tensor:
        """Return the vectors of tasks from their features, (models, rows, width), not normalised."""
        network: Any = self.network
        x = x.flatten(2)
        if getattr(network, "wants_scale", False):  # scale the features as the network does
            x = (x - network.mean) * network.scale
        return self.task(x)

    def vectors(self, tasks: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors of tasks (models * rows, width) and workers (models * workers, width)."""
        v = tasks.flatten(0, 1)
        if self.normalise:
            return functional.normalize(v, dim=1), functional.normalize(self.worker, dim=1)
        return v, self.worker

    def backward(self, batch: Batch) -> Tensor:
        """Compute the gradients with a fused kernel."""
        if not batch.supports_fused:
            return super().backward(batch)
        logits, (v, u) = batch.logits(self.network), self.vectors(batch.gather_rows(self.task_layers(batch.x)))
        inputs = [logits, v, self.common, self.matrix, u]
        loss, slopes = conal_gradients(logits, v, self.common, self.matrix, u, batch)
        penalty = self.penalty(logits)
        if isinstance(penalty, Tensor):
            inputs, slopes = [*inputs, penalty], [*slopes, torch.ones(())]
            loss = loss + penalty.detach()
        torch.autograd.backward(inputs, slopes)
        return loss

    def label_log_proba(self, log_f: Tensor, batch: Batch) -> Tensor:  # noqa: D102
        row, worker, label = batch.tensor(batch.row), batch.tensor(batch.worker), batch.tensor(batch.label)
        tasks = batch.gather_rows(self.task_layers(batch.x))
        return self.mix(tasks, log_f, row, worker).gather(1, label[:, None])[:, 0]

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        return self.mix(self.task_layers(x), log_f, row, worker)

    def mix(self, tasks: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Return log P(label), (answers, labels), from both confusions by their shares."""
        w = self.share(tasks, row, worker)
        f = log_f.exp()
        common = (f.view(self.n_models, -1, self.n_classes) @ self.common).flatten(0, 1)  # (models * rows, labels)
        own = torch.bmm(f.index_select(0, row)[:, None], self.matrix.index_select(0, worker))[:, 0]  # (answers, labels)
        return functional.log_softmax(w * common.index_select(0, row) + (1 - w) * own, dim=1)

    def penalty(self, log_f: Tensor) -> Tensor | float:  # noqa: D102
        if not self.lam:
            return 0.0
        c = self.n_classes
        own = self.matrix.view(self.n_models, -1, c, c)  # (models, workers, classes, labels)
        difference = own - self.common[:, None]
        # The square root has no gradient at 0, where all matrices start; the small constant makes it 0.
        distance = (difference.square().sum((2, 3)) + 1e-12).sqrt().flatten()  # (models * workers,)
        return -self.lam * (distance * self.seen).sum()
