"""Doctor Net: one head per worker on shared layers, then one weight per worker; the weighted mixture is the classifier.

    h(x)     the network's last hidden layer, shared
    p_w(x)   softmax(h(x) H_w + b_w): the prediction of worker w's answer

    first    mean over answers of -log p_w(x)[label]; the imbalance losses act here
    then     all else frozen, weights v: mean over tasks of -sum_c share[c] log f(x)[c], share = the votes of the task

    f(x)     sum over workers of s_w p_w(x), s = softmax(v) (WDN), or equal weights (DN)

Guan, Gulshan, Dai and Hinton, "Who said what: modeling individual labelers improves classification", AAAI 2018. The
softmax is inside the loss.

Weights are fitted to the votes, so a worker's weight reflects their share of the votes. This suppresses the heads of
workers with few answers, which are near random, but not a spammer who answers as much as others. Heads overfit the
tasks their worker answered: `exclude_self` leaves them out there while weights are learnt, if other heads remain. Sharp
heads then lose weight where votes are poor.

The mixture costs tasks x workers. For large crowds it has only `max_heads` heads. Prediction uses those of largest
weight (evenly spaced ones while all weights are equal); learning the weights draws other heads for each batch.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal, Unpack

import numpy as np

from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Dropout, Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch
from crowdwise.learn.network.training import CrowdModule, Trainer
from crowdwise.truth.base import vote_shares

TINY = 1e-12
CELLS = 1_000_000  # size of the largest array outside training
MAX_CACHE = 20_000_000  # numbers cached while weights are learnt: models x tasks x workers x classes
# Up to this number of (row, worker) pairs per answer, all heads on all rows in one matrix product are cheaper than one
# head per answer: measured with 40 to 200 workers and 3 to 10 classes.
DENSE = 20
HEADS = 101  # part of the seed of the heads, distinct from those of the network's layers


class DoctorNet(NetworkLearner):
    """One head per worker on shared layers, mixed with learnt weights.

    A worker without answers has no weight; the model takes them to answer as the mixture does.

    Parameters
    ----------
    weighted : bool
        Whether the weights of the workers are learnt; otherwise they are equal.
    exclude_self : bool
        While weights are learnt, leave out a worker's head on the tasks they answered.
    votes : {"all", "given"}
        The answers that weights are fitted to: all, or without pseudo-answers of a model (`answers.pseudo`) if the task
        has others.
    weight_epochs, weight_lr
        Epochs and learning rate of the second stage, which learns the weights. `select` chooses among epochs of the
        first.
    max_heads : int
        Maximum number of heads in the mixture; larger crowds use only a part of their workers.
    **training
        See `TrainingOptions`.

    Examples
    --------
    >>> from crowdwise import DoctorNet, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = DoctorNet(epochs=5, weight_epochs=5).fit(X, answers)
    >>> model.predict(X[:3]).shape, model.weight_.shape
    ((3,), (40,))
    """

    separate_answers: ClassVar[bool] = True

    def __init__(
        self,
        *,
        weighted: bool = True,
        exclude_self: bool = False,
        votes: Literal["all", "given"] = "all",
        weight_epochs: int = 50,
        weight_lr: float = 1e-2,
        max_heads: int = 1000,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(**training)
        self.weighted = weighted
        self.exclude_self = exclude_self
        self.votes: Literal["all", "given"] = votes
        self.weight_epochs = weight_epochs
        self.weight_lr = weight_lr
        self.max_heads = max_heads

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("weight_epochs", "max_heads"):
            require(is_integer(getattr(self, name), 1), name, getattr(self, name), "an integer, 1 or more")
        require(self.votes in ("all", "given"), "votes", self.votes, "'all' or 'given'")
        require(self.weight_lr > 0, "weight_lr", self.weight_lr, "a number above 0")

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        shares = np.array([self._shares(pool) for pool in self._pools or [answers]])  # (1 or models, tasks, classes)
        return DoctorModule(
            network, answers, self.random_state, shares, exclude_self=self.exclude_self, max_heads=self.max_heads
        )

    def _shares(self, answers: Answers) -> Array:
        """Return the vote shares of each task, (tasks, classes)."""
        shares = vote_shares(answers)
        if self.votes == "given" and answers.pseudo is not None:
            real = answers.take(np.flatnonzero(~answers.pseudo))
            answered = np.diff(real.task_starts) > 0
            shares[answered] = vote_shares(real)[answered]
        return shares

    def _prepare(
        self, module: CrowdModule, features: Features, answers: Answers, weight: Array | None, gold: Array | None
    ) -> None:
        assert isinstance(module, DoctorModule)
        by_answer = None if weight is None else weight[answers.task]
        count = np.bincount(answers.worker, by_answer, minlength=answers.n_workers)
        module.silent.copy_(torch.from_numpy(count == 0))

    def _train(self, trainer: Trainer) -> None:
        trainer.run()
        if not self.weighted:
            return
        trainer.finish()  # weights belong to the heads of the selected epoch
        trainer.best_state = {}
        module = trainer.module
        assert isinstance(module, DoctorModule)
        module.zero_grad()  # frozen parameters must not enter the norm that `clip` limits
        settings = replace(trainer.settings, epochs=self.weight_epochs, lr=self.weight_lr)
        weight_trainer = Trainer(
            module, trainer.batches, settings, history=trainer.history, callback=trainer.callback,
            checkpoint_file=trainer.checkpoint_file, phase=1, parameters=[module.weight], loss=module.weight_loss,
        )  # fmt: skip
        module.cache_heads(trainer.batches.features)
        weight_trainer.run()
        module.cache = None

    @property
    def weight_(self) -> Array:
        """Weight of each worker in the mixture, (workers,), summing to one; the mean over models."""
        self._fitted  # noqa: B018 (raises if the model is not fitted)
        assert isinstance(self.module_, DoctorModule)
        with torch.no_grad():
            return np.asarray(self.module_.log_weight().exp().mean(0).cpu().double().numpy())


class DoctorModule(CrowdModule):
    """The shared layers, the workers' heads and their weights."""

    silent: Tensor
    votes: Tensor
    cache: tuple[Tensor, Tensor] | None = None  # the result of `_scaled` on all tasks, while heads are frozen

    bias: nn.Parameter
    draws: Dropout
    exclude_self: bool
    heads: nn.Parameter
    max_heads: int
    weight: nn.Parameter

    def __init__(
        self, network: Network, answers: Answers, seed: int, shares: Array, *, exclude_self: bool, max_heads: int = 1000
    ) -> None:
        super().__init__(network, answers.n_workers)
        self.exclude_self, self.max_heads = exclude_self, max_heads
        self.draws = Dropout(0.0)  # drops nothing; the training loop seeds its generator
        shape, bound = (self.n_workers, network.width + 1, self.n_classes), 1 / math.sqrt(network.width)
        draws = [np.random.default_rng([seed, HEADS, m]).uniform(-bound, bound, shape) for m in range(self.n_models)]
        values = torch.tensor(np.concatenate(draws), dtype=torch.float32)  # (models * workers, width + 1, classes)
        self.heads, self.bias = nn.Parameter(values[:, :-1].contiguous()), nn.Parameter(values[:, -1].contiguous())
        self.weight = nn.Parameter(torch.zeros(self.n_models, self.n_workers))
        self.register_buffer("silent", torch.zeros(self.n_workers, dtype=torch.bool))
        votes = torch.tensor(shares, dtype=torch.float32).view(-1, *shares.shape[-2:])  # (1 or models, tasks, classes)
        self.register_buffer("votes", votes, persistent=False)

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean loss over answers, each by its worker's head."""
        hidden = batch.gather_rows(self.network.embed(batch.x))  # (models, rows, width)
        dense = len(batch.task) * self.n_workers <= DENSE * len(batch.row)
        log_p = (self._dense if dense else self._sparse)(hidden, batch.tensor(batch.row), batch.tensor(batch.worker))
        return batch.answer_loss(log_p.gather(1, batch.tensor(batch.label)[:, None])[:, 0])

    def weight_loss(self, batch: Batch) -> Tensor:
        """Return the loss of the mixture against the votes, by which only weights are learnt."""
        task = batch.tensor(batch.task).view(self.n_models, -1)  # (models, rows)
        model = torch.arange(self.n_models, device=task.device)[:, None]
        who = self._random_heads()
        if self.cache is None:
            self.network.eval()  # frozen: no dropout, no running means
            with torch.no_grad():
                p, top = self._scaled(batch.gather_rows(self.network.embed(batch.x)), who)
        else:
            p, top = (cached[model, task] for cached in self.cache)
        if self.exclude_self:
            mixed = (p @ self._log_weight_of_others(batch, who).exp()[..., None])[..., 0]  # (models, rows, classes)
        else:
            mixed = (p.flatten(1, 2) @ self.log_weight(who).exp()[..., None]).view_as(top)
        log_f = top + mixed.clamp_min(1e-30).log()
        votes = self.votes[model % len(self.votes), task]
        return batch.task_loss(-(votes * log_f).sum(2).flatten())

    def cache_heads(self, features: Features) -> None:
        """Cache the output of the frozen heads on all tasks, if it fits, while weights are learnt."""
        if self._large or features.n_rows * self.weight.numel() * self.n_classes > MAX_CACHE:
            return
        self.network.eval()
        size = max(1, CELLS // (self.weight.numel() * self.n_classes))
        with torch.no_grad():
            rows = (torch.from_numpy(block).to(self.weight.device) for block in features.blocks(size))
            hidden = (self.network.embed(x.expand(self.n_models, *x.shape)) for x in rows)
            p, top = zip(*map(self._scaled, hidden), strict=True)
        self.cache = torch.cat(p, dim=1), torch.cat(top, dim=1)

    def class_log_proba(self, x: Tensor) -> Tensor:
        """Return the log of the mixture, in blocks of rows: all heads on all rows would not fit in memory."""
        who = self._largest_heads()
        weight = self.log_weight(who).exp()  # (models, heads)
        size = max(1, CELLS // (weight.numel() * self.n_classes))
        parts = torch.split(self.network.embed(x), size, dim=1)
        mixed = [torch.einsum("mrwc,mw->mrc", self._logits(part, who).softmax(3), weight) for part in parts]
        return torch.cat(mixed, dim=1).clamp_min(TINY).log()

    def predict_answer_log_proba(self, x: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Skip the mixture, unless there is a worker without answers."""
        if self.silent[worker % self.n_workers].any():
            return super().predict_answer_log_proba(x, row, worker)
        return self.answer_log_proba(x, x.new_zeros(self.n_models * x.shape[1], self.n_classes), row, worker)

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        hidden = self.network.embed(x)
        size = max(1, CELLS // self.heads[0].numel())
        if len(log_f) * self.n_workers <= 2 * len(row):  # most pairs: at most twice the memory of the result
            log_p = self._dense(hidden, row, worker)
        else:
            parts = zip(torch.split(row, size), torch.split(worker, size), strict=True)
            log_p = torch.cat([self._sparse(hidden, r, w) for r, w in parts])
        return torch.where(self.silent[worker % self.n_workers, None], log_f[row], log_p)

    def log_weight(self, who: Tensor | None = None) -> Tensor:
        """Return log weights (models, workers), or those of the workers in `who` (models, some), normalised."""
        weight = self.weight.masked_fill(self.silent, -math.inf)
        return functional.log_softmax(weight if who is None else weight.gather(1, who), dim=1)

    @property
    def _large(self) -> bool:
        """Whether there are more heads than `max_heads`."""
        return self.n_workers > self.max_heads

    def _largest_heads(self) -> Tensor | None:
        """Return the workers (models, heads) in the mixture for prediction; None for all."""
        if not self._large:
            return None
        speaking = torch.where(~self.silent)[0]
        n = min(self.max_heads, len(speaking))
        if self.weight.any():
            return self.log_weight().argsort(dim=1, descending=True, stable=True)[:, :n]
        spaced = speaking[torch.linspace(0, len(speaking) - 1, n, device=speaking.device).long()]
        return spaced.expand(self.n_models, -1)

    def _random_heads(self) -> Tensor | None:
        """Draw the workers (models, heads) in the mixture of a batch while weights are learnt; None for all."""
        if not self._large:
            return None
        speaking = torch.where(~self.silent)[0].cpu().numpy()
        n = min(self.max_heads, len(speaking))
        drawn = [np.sort(self.draws.generator.choice(speaking, n, replace=False)) for _ in range(self.n_models)]
        return torch.from_numpy(np.array(drawn)).to(self.silent.device)

    def _log_weight_of_others(self, batch: Batch, who: Tensor | None = None) -> Tensor:
        """Return log weights (models, rows, workers) without those who answered the task, or of all if none is left."""
        row, worker = batch.tensor(batch.row), batch.tensor(batch.worker)
        answered = torch.zeros(len(batch.task), self.n_workers, dtype=torch.bool, device=row.device)
        answered[row, worker % self.n_workers] = True
        answered, silent = answered.view(self.n_models, -1, self.n_workers), self.silent
        weight: Tensor = self.weight
        if who is not None:
            answered = answered.gather(2, who[:, None].expand(-1, answered.shape[1], -1))
            silent, weight = silent[who][:, None], weight.gather(1, who)
        left_out = answered & ~(answered | silent).all(dim=2, keepdim=True) | silent
        return functional.log_softmax(weight[:, None].masked_fill(left_out, -math.inf), dim=2)

    def _sparse(self, hidden: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Return log probabilities (answers, classes) of each answer by its worker's head, fetched per answer."""
        heads = self.heads.index_select(0, worker)  # (answers, width, classes)
        own = hidden.flatten(0, 1).index_select(0, row)[:, None]  # (answers, 1, width)
        return functional.log_softmax(torch.bmm(own, heads)[:, 0] + self.bias.index_select(0, worker), dim=1)

    def _dense(self, hidden: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Return the same from all heads on all rows."""
        logits = self._logits(hidden).flatten(0, 2)  # (models * rows * workers, classes)
        return functional.log_softmax(logits.index_select(0, row * self.n_workers + worker % self.n_workers), dim=1)

    def _scaled(self, hidden: Tensor, who: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return P(class) by head, (models, rows, classes, workers), over its maximum; and the log of the maximum."""
        log_p = functional.log_softmax(self._logits(hidden, who), dim=3).transpose(2, 3)
        top = log_p.amax(3)
        return (log_p - top[..., None]).exp().contiguous(), top

    def _logits(self, hidden: Tensor, who: Tensor | None = None) -> Tensor:
        """Return logits (models, rows, workers, classes) of every worker on every row, or of those in `who`."""
        heads = self.heads.view(self.n_models, self.n_workers, -1, self.n_classes)
        bias = self.bias.view(self.n_models, self.n_workers, self.n_classes)
        if who is not None:
            model = torch.arange(self.n_models, device=who.device)[:, None]
            heads, bias = heads[model, who], bias[model, who]
        flat = heads.transpose(1, 2).flatten(2)
        logits = torch.baddbmm(bias.flatten(1)[:, None], hidden, flat)  # (models, rows, workers * classes)
        return logits.view(*hidden.shape[:2], -1, self.n_classes)
