"""MBEM, model bootstrapped EM: the classifier's predictions serve as the truth when workers are judged.

    f              trained on the vote shares
    repeat:
      t            argmax f(x)
      confusion    counted from the answers as if t were the truth; class_prior likewise, or uniform
      T[t, c]      proportional to class_prior[c] * prod over a to t of confusion[worker[a], c, label[a]]
      f            trained again from its initial weights on the soft labels T

The classifier enters T only through the workers: unlike in AggNet, its own prediction for a task is not part of T. The
gain over Dawid-Skene: with one answer per task workers cannot be compared with each other, but similar tasks have
answers of many workers.

Khetan, Lipton and Anandkumar, "Learning from noisy singly-labeled data", ICLR 2018. Each training starts from the same
initial weights. Workers are judged once more after the last one, for `proba_`, `confusion_` and `answer_proba`. The
authors' code uses a uniform class prior.

Fails with an estimated class prior, which reinforces itself: soft labels carry it, f learns it and predicts the larger
class where it is uncertain, and the prior grows. Rare classes can vanish in two rounds.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Unpack

import numpy as np

from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.joint_em.engine import ConfusionWorkers
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.prediction import predict_members
from crowdwise.learn.network.soft_targets import TargetModule
from crowdwise.learn.network.torch_support import Tensor, torch
from crowdwise.learn.network.training import CrowdModule, Trainer
from crowdwise.truth.base import fix_gold, vote_shares
from crowdwise.truth.kernels.confusion import ConfusionWork
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.dawid_skene import Prior, check_prior


class MBEM(NetworkLearner):
    """Workers judged by the classifier's predictions, and the classifier retrained on the resulting labels, in turn.

    Parameters
    ----------
    rounds : int
        How often to judge the workers and retrain the classifier, each time for all `epochs`.
    prior : as `DawidSkene` takes
        Pseudo-counts of the confusion matrices; use "diagonal" if workers gave only a few answers each.
    class_prior : {"uniform", "estimated"}
        Class shares: equal, or counted from the classifier's predictions.
    **training
        See `TrainingOptions`.

    Examples
    --------
    >>> from crowdwise import MBEM, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> MBEM(epochs=5).fit(X, answers).predict(X[:3]).shape
    (3,)
    """

    answer_loss: ClassVar[bool] = False
    infers_labels_first: ClassVar[bool] = True

    def __init__(
        self,
        rounds: int = 2,
        *,
        prior: Prior = 0.01,
        class_prior: Literal["uniform", "estimated"] = "uniform",
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(**training)
        self.rounds = rounds
        self.prior = prior
        self.class_prior = class_prior

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(is_integer(self.rounds, 1), "rounds", self.rounds, "an integer, 1 or more")
        check_prior(self.prior)
        require(self.class_prior in ("uniform", "estimated"), "class_prior", self.class_prior,
                "'uniform' or 'estimated'")  # fmt: skip

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        return MBEMModule(network, answers, estimates_prior=self.class_prior == "estimated")

    def _prepare(
        self, module: CrowdModule, features: Features, answers: Answers, weight: Array | None, gold: Array | None
    ) -> None:
        assert isinstance(module, MBEMModule)
        self._workers, self._gold = ConfusionWorkers(answers, self.prior, weight), gold
        shares = fix_gold(vote_shares(answers), gold)  # (tasks, classes)
        module.set_target(shares)
        module.fit_workers(self._workers, np.repeat(shares[None], self.n_models, axis=0))

    def _train(self, trainer: Trainer) -> None:
        module, features, answers = trainer.module, trainer.batches.features, trainer.batches.answers
        assert isinstance(module, MBEMModule)
        for phase in range(self.rounds + 1):
            if phase > 0:
                module.set_target(module.posterior(answers, self._gold))
                module.network.load_state_dict(self._network(features, answers.n_classes).state_dict())
                trainer = Trainer(  # resumes from a checkpoint of this phase or a later one
                    module, trainer.batches, trainer.settings, monitor=trainer.monitor, history=trainer.history,
                    callback=trainer.callback, checkpoint_file=trainer.checkpoint_file, phase=phase,
                )  # fmt: skip
            trainer.run()
            trainer.finish()
            trainer.best_state = {}  # belongs to this phase only
            label = predict_members(module, features, self.device).argmax(axis=2)  # (models, tasks)
            if self._gold is not None:
                label = np.where(self._gold >= 0, self._gold, label)
            module.fit_workers(self._workers, np.eye(answers.n_classes)[label])
        del self._workers, self._gold

    def _infer_truth(self, features: Features, answers: Answers, gold: Array | None) -> Array:
        assert isinstance(self.module_, MBEMModule)
        return self.module_.posterior(answers, gold).mean(axis=0)

    @property
    def confusion_(self) -> Array:
        """P(worker w says l | truth c) as [w, c, l]; the mean over models."""
        return self._fitted_module().matrices().mean(axis=0)

    @property
    def class_prior_(self) -> Array:
        """Share of each class, (classes,); the mean over models."""
        return np.asarray(self._fitted_module().class_prior.cpu().numpy().mean(axis=0))

    def _fitted_module(self) -> MBEMModule:
        self._fitted  # noqa: B018 (raises if the model is not fitted)
        assert isinstance(self.module_, MBEMModule)
        return self.module_


class MBEMModule(TargetModule):
    """The classifier, its soft labels, the workers' confusion matrices and the class prior (models, classes)."""

    class_prior: Tensor

    def __init__(self, network: Network, answers: Answers, *, estimates_prior: bool) -> None:
        super().__init__(network, answers)
        self.estimates_prior = estimates_prior
        uniform = torch.full((self.n_models, self.n_classes), 1 / self.n_classes, dtype=torch.float64)
        self.register_buffer("class_prior", uniform)

    def fit_workers(self, workers: ConfusionWorkers, truth: Array) -> None:
        """Set confusion matrices and class prior of each model from its own labels (models, tasks, classes)."""
        confusion: list[Array] = []
        for proba in truth:
            workers.fit(proba, proba)
            confusion.append(workers.confusion())
        self.set_confusion(np.array(confusion))
        if self.estimates_prior:
            shares = [np.average(proba, axis=0, weights=workers.weight) for proba in truth]
            self.class_prior.copy_(torch.from_numpy(np.maximum(shares, FLOOR)))

    def posterior(self, answers: Answers, gold: Array | None) -> Array:
        """Return T, (models, tasks, classes), of these answers."""
        work = ConfusionWork(answers.task_starts, answers.pairs, answers.weight, answers.n_classes)
        worker = np.repeat(np.arange(self.n_workers), np.diff(answers.pairs.worker_starts))  # (pairs,)
        out = np.empty((self.n_models, answers.n_tasks, self.n_classes))
        for m, matrices in enumerate(self.matrices()):
            work.set_table(np.maximum(matrices[worker, :, answers.pairs.label], FLOOR))
            work.e_step(self.class_prior[m].cpu().numpy(), gold, counts=False, proba=out[m])
        return out

    def matrices(self) -> Array:
        """Return the confusion matrices (models, workers, classes, labels), float64."""
        shape = (self.n_models, self.n_workers, self.n_classes, self.n_classes)
        return np.asarray(self.confusion.view(shape).cpu().double().numpy())
