"""Max-MIG: a classifier of features and an aggregator of answers, trained to maximise their mutual information.

    f(x)      class probabilities of the network
    g(y)      softmax(sum over a task's answers a of B[worker[a], :, label[a]] + log p)
    M[i, j]   sum over c of f(x_i)[c] g(y_j)[c] / p[c], i and j tasks of the batch

    loss      -mean_i (1 + log M[i, i]) + mean_{i != j} M[i, j]      (minus a bound on their mutual information: KL)

    truth     f g / p, normalised, from features and answers

B starts from log(confusion + 0.01), with the confusion counted from vote shares; p is uniform or learnt. Workers may
err together: g is free to give them little weight.

Cao, Xu, Kong and Wang, "Max-MIG: an information theoretic approach for joint learning from crowds", ICLR 2019. The sum
of M over pairs factors into sums over tasks, so M is never formed. Weights of tasks multiply the terms of i and of j.
B need not be normalised; we define P(worker says l | truth c) as the softmax of B[worker, c, :].
"""

from __future__ import annotations

from typing import ClassVar, Unpack

import numpy as np
from scipy.special import softmax

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.joint_em.engine import ConfusionWorkers
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.prediction import predict_members
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch
from crowdwise.learn.network.training import CrowdModule
from crowdwise.truth.base import fix_gold, vote_shares

SMOOTHING = 0.01


class MaxMIG(NetworkLearner):
    """A classifier and an aggregator of answers, trained to maximise their mutual information.

    As in the paper, the learning rate is a tenth of that of the other learners.

    Parameters
    ----------
    learn_prior : bool
        Whether the class shares are learnt; otherwise they are equal.
    **training
        See `TrainingOptions`.

    Examples
    --------
    >>> from crowdwise import MaxMIG, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> MaxMIG(epochs=5).fit(X, answers).predict(X[:3]).shape
    (3,)
    """

    defaults: ClassVar[TrainingOptions] = {"lr": 1e-4}
    answer_loss: ClassVar[bool] = False

    def __init__(self, *, learn_prior: bool = False, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(**training)
        self.learn_prior = learn_prior

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        return MaxMIGModule(network, answers.n_workers, learn_prior=self.learn_prior)

    def _prepare(
        self, module: CrowdModule, features: Features, answers: Answers, weight: Array | None, gold: Array | None
    ) -> None:
        assert isinstance(module, MaxMIGModule)
        workers, shares = ConfusionWorkers(answers, None, weight), fix_gold(vote_shares(answers), gold)
        workers.fit(shares, shares)
        module.set_confusion(workers.confusion())
        if gold is not None:
            module.gold = torch.from_numpy(gold.astype(np.int64)).to(self.device)

    def _infer_truth(self, features: Features, answers: Answers, gold: Array | None) -> Array:
        assert isinstance(self.module_, MaxMIGModule)
        f = predict_members(self.module_, features, self.device)  # (models, tasks, classes)
        log_f = np.log(np.maximum(f, 1e-300))
        return fix_gold(softmax(log_f + self.module_.task_evidence(answers), axis=2).mean(axis=0), gold)

    @property
    def confusion_(self) -> Array:
        """P(worker w says l | truth c) as [w, c, l], from the aggregator; the mean over models."""
        module = self._aggregator()
        with torch.no_grad():
            by_label = module.table.softmax(1).view(module.n_models, -1, module.n_classes, module.n_classes).mean(0)
        return np.asarray(by_label.transpose(1, 2).cpu().double().numpy())

    @property
    def class_prior_(self) -> Array:
        """Share of each class, (classes,); the mean over models."""
        with torch.no_grad():
            return np.asarray(self._aggregator().log_prior().exp().mean(0)[0].cpu().double().numpy())

    def _aggregator(self) -> MaxMIGModule:
        self._fitted  # noqa: B018 (raises if the model is not fitted)
        assert isinstance(self.module_, MaxMIGModule)
        return self.module_


class MaxMIGModule(CrowdModule):
    """The classifier and the aggregator."""

    gold: Tensor | None = None  # (tasks,): gold classes, -1 where unknown, which the aggregator returns

    prior: nn.Parameter
    table: nn.Parameter

    def __init__(self, network: Network, n_workers: int, *, learn_prior: bool) -> None:
        super().__init__(network, n_workers)
        n, c = self.n_models * n_workers, self.n_classes
        self.table = nn.Parameter(torch.zeros(n, c, c))  # (models * workers, labels, classes): an answer reads one row
        self.prior = nn.Parameter(torch.zeros(self.n_models, 1, c), requires_grad=learn_prior)

    def set_confusion(self, confusion: Array) -> None:
        """Initialise the aggregator with confusion matrices (workers, classes, labels)."""
        first = torch.from_numpy(np.log(confusion + SMOOTHING)).transpose(1, 2)
        with torch.no_grad():
            self.table.copy_(first.repeat(self.n_models, 1, 1))

    def loss(self, batch: Batch) -> Tensor:  # noqa: D102
        log_p = self.log_prior()  # (models, 1, classes)
        log_f = batch.gather_rows(self.class_log_proba(batch.x))  # (models, rows, classes)
        worker, label = batch.tensor(batch.worker), batch.tensor(batch.label)
        evidence = self._evidence(len(batch.task), batch.tensor(batch.row), worker, label, _own_weight(batch))
        log_g = functional.log_softmax(evidence.view_as(log_f) + log_p, dim=2)
        if self.gold is not None:
            known = self.gold[batch.tensor(batch.task)].view(log_f.shape[:2])  # (models, rows)
            certain = functional.one_hot(known.clamp_min(0), self.n_classes).to(log_g).log()
            log_g = torch.where(known[..., None] >= 0, certain, log_g)
        log_m = torch.logsumexp(log_f + log_g - log_p, dim=2)  # (models, rows): log M[i, i]
        f, g, same, n = log_f.exp(), log_g.exp(), log_m.exp(), log_m.shape[1]
        if batch.task_weight is not None:
            weight = batch.tensor(batch.task_weight).view_as(log_m).to(f.dtype)
            f, g, same = f * weight[..., None], g * weight[..., None], same * weight**2
        all_pairs = (f.sum(1) * g.sum(1) / log_p[:, 0].exp()).sum(1)  # (models,): sum of M over all i and j
        others = (all_pairs - same.sum(1)) / max(n * (n - 1), 1)
        return batch.task_loss(-(1 + log_m.flatten())) + others.sum()

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        log_proba = functional.log_softmax(self.table[worker], dim=1)  # (answers, labels, classes)
        return torch.logsumexp(log_proba + log_f[row, None], dim=2)

    def log_prior(self) -> Tensor:
        """Return log p, (models, 1, classes)."""
        return functional.log_softmax(self.prior, dim=2)

    def task_evidence(self, answers: Answers) -> Array:
        """Return log g - log p of each task, up to a constant, (models, tasks, classes)."""
        weight = None if answers.weight is None else torch.from_numpy(answers.weight / answers.weight.mean())
        at = [torch.from_numpy(column.astype(np.int64)) for column in (answers.task, answers.worker, answers.label)]
        device, out = self.table.device, np.empty((self.n_models, answers.n_tasks, self.n_classes))
        task, worker, label = (column.to(device) for column in at)
        with torch.no_grad():
            for m in range(self.n_models):
                evidence = self._evidence(answers.n_tasks, task, worker + m * self.n_workers, label, weight)
                out[m] = evidence.cpu().numpy()
        return out

    def _evidence(self, n_rows: int, row: Tensor, worker: Tensor, label: Tensor, weight: Tensor | None) -> Tensor:
        """Return the sums of B over the answers of each row, (rows, classes)."""
        entries = self.table.flatten(0, 1).index_select(0, worker * self.n_classes + label)  # (answers, classes)
        if weight is not None:
            entries = entries * weight[:, None].to(entries)
        return entries.new_zeros(n_rows, self.n_classes).index_add(0, row, entries)


def _own_weight(batch: Batch) -> Tensor | None:
    """Return the weights of the answers without the weights of their tasks."""
    if batch.weight is None:
        return None
    weight = batch.tensor(batch.weight)
    if batch.task_weight is None:
        return weight
    return weight / batch.tensor(batch.task_weight)[batch.tensor(batch.row)].clamp_min(1e-12)
