"""WAUM, the weighted area under the margin: ranks tasks by ambiguity, from features and answers.

    f            one network, trained on every answer as a label of its task (the stacked set)
    AUM[a]       mean over epochs of the margin of answer a's label in the training steps (see `margins`)
    pi_w         confusion matrix of worker w, by Dawid and Skene or another model
    trust[a]     = sum over c of pi_w[c, c] * f_T(x)[c]                 w answered a about x; f_T: at the last epoch

    WAUM(x) = sum over its answers a of trust[a] * AUM[a] / sum of trust[a]

It is low if the network struggled to learn the answers of trusted workers: prune these tasks, or review them. If all
trust is zero the mean is unweighted. Lefort, Charlier, Joly and Salmon, "Weighting areas under the margin in
crowdsourced datasets", JDS 2023 (eq. 2 to 4; the denominator of eq. 3 is printed without its summand), and TMLR 2024.
`trust=None` trusts all workers equally; `per_worker` trains a network per worker on their answers, which needs many
answers per worker.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from crowdwise._core.validation import require
from crowdwise.ambiguity.margins import StackedModule
from crowdwise.ambiguity.ranking import predict_in_blocks, weighted_means
from crowdwise.ambiguity.recorder import MarginRecorder
from crowdwise.answers import Answers
from crowdwise.learn.adapter import as_model
from crowdwise.learn.base import Array, CrowdClassifier, FitInput, training_mask
from crowdwise.learn.features import Features, open_features
from crowdwise.learn.features.base import SomeRows
from crowdwise.learn.joint_em.engine import ConfusionWorkers
from crowdwise.learn.network.architectures import Spec
from crowdwise.truth.base import TruthModel


class WAUM(MarginRecorder):
    """Ranks tasks by the margins of their answers, weighted by trust in them.

    Parameters
    ----------
    network : as in `TrainingOptions`
        Network to train. The model fitted on the kept tasks may have another.
    trust : truth model, learner, the name of one, (workers, classes, classes) array, or None
        Source of the workers' accuracies: the model's confusion matrices, or those that follow from the truth it infers
        if it has none. None trusts all workers equally. The paper uses `DawidSkene(prior=None, max_iter=60, tol=0)`.
    per_worker : bool
        Train a network per worker, each from the same initial weights, instead of one for all answers.
    margin : {"yang", "pleiss"}
        Score to compare a label with: the second largest of all, or the largest of the other classes.
    scale : {"probabilities", "logits"}
        Which scores to use.
    top_k : int
        Compare with the (k + 1)-th largest of all scores ("yang") or the k-th largest of the others ("pleiss").
    double_softmax : bool
        Apply a second softmax to the probabilities in training, as the authors' LabelMe network does.
    **training
        See `TrainingOptions`. The weight of an answer, if any, multiplies its trust.

    Attributes
    ----------
    scores_ : (tasks,) array
        The WAUM; +infinity for tasks without answers or of weight zero, which are never removed.
    aum_, trust_ : (answers,) arrays
        AUM and trust of each answer.
    worker_trust_ : (workers,) array
        Mean trust in each worker's answers.
    proba_ : (tasks, classes) array
        f_T of the tasks (with `per_worker`, the mean over the networks of the workers who answered).

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, answers = cw.simulate.digits_crowd()
    >>> waum = cw.WAUM(epochs=10).fit(X, answers)
    >>> waum.ranking(1).column_names
    ['task', 'rank', 'score', 'answers', 'workers', 'labels', 'aum', 'trust']
    >>> kept = waum.prune(alpha=0.01)
    >>> model = cw.CoNAL(epochs=2).fit(X[kept.rows], kept.answers)
    >>> len(kept.removed), len(kept.answers)
    (8, 730)
    """

    aum_: Array
    module_: StackedModule
    proba_: Array
    scores_: Array
    trust_: Array

    def __init__(
        self,
        network: Spec = None,
        *,
        trust: TruthModel | CrowdClassifier | str | Array | None = "dawid-skene",
        per_worker: bool = False,
        **training: Any,
    ) -> None:
        super().__init__(network, **training)
        self.trust = trust
        self.per_worker = per_worker

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.trust is not None and not isinstance(self.trust, (str, np.ndarray)):
            as_model(self.trust, "trust")
        if self.per_worker:
            for name, default in (("select", "last"), ("checkpoint", None)):
                value = getattr(self, name)
                require(value == default, name, value, f"{default!r} with per_worker=True, which trains many networks")

    def _trial(self) -> Self:
        return super()._trial().set_params(trust=None, per_worker=False)

    def _before_fit(self, inputs: FitInput) -> None:
        super()._before_fit(inputs._replace(gold=None))  # gold is for the model behind `trust`

    def _fit(self, inputs: FitInput) -> None:
        answers = inputs.answers
        accuracy = self._worker_accuracy(inputs)  # (workers, classes)
        inputs = inputs._replace(gold=None)
        if self.per_worker:
            self.aum_, seen, f = self._train_per_worker(inputs)  # f (answers, classes)
        else:
            super()._fit(inputs)
            assert isinstance(self.module_, StackedModule)
            table, known = self.module_.recorded(np.arange(answers.n_tasks))
            self.aum_, seen, f = table[answers.task, answers.label], known[answers.task], self.proba_[answers.task]
        self.trust_ = (accuracy[answers.worker] * f).sum(axis=1)
        weight = self.trust_ if answers.weight is None else self.trust_ * answers.weight
        self.scores_ = weighted_means(self.aum_[seen], weight[seen], answers.task[seen], answers.n_tasks)

    def _worker_accuracy(self, inputs: FitInput) -> Array:
        """Return the diagonals of the confusion matrices, (workers, classes)."""
        features, answers, weight, gold, _, _ = inputs
        if self.trust is None or isinstance(self.trust, np.ndarray):
            require(gold is None, "gold", "...", "None unless `trust` is a model, which can use gold labels")
            if self.trust is None:
                return np.ones((answers.n_workers, answers.n_classes))
            return _diagonals(np.asarray(self.trust, dtype=float), answers.n_workers, answers.n_classes)
        if weight is not None:  # tasks of weight zero do not count for workers either
            answers = answers.take(np.flatnonzero(weight[answers.task] > 0))
        model: Any = clone(as_model(self.trust, "trust"))
        if isinstance(model, TruthModel):
            model.fit(answers, gold)
        else:
            model.fit(features, answers, sample_weight=weight, gold=gold)
        confusion: Any = getattr(model, "confusion_", None)
        if confusion is None:
            workers = ConfusionWorkers(answers, "diagonal", weight)
            workers.fit(model.proba_, model.proba_)
            confusion = workers.confusion()
        return _diagonals(confusion, answers.n_workers, answers.n_classes)

    def _train_per_worker(self, inputs: FitInput) -> tuple[Array, Array, Array]:
        """Return AUM (answers,), whether recorded, and the worker's network's prediction, (answers, classes)."""
        features, answers, weight, _, _, callback = inputs
        n_classes = answers.n_classes
        self.module_ = self._module(self._network(features, n_classes), answers).to(self.device)
        network = self.module_.network
        start = {name: value.clone() for name, value in network.state_dict().items()}
        aum, seen = np.zeros(answers.n_answers), np.zeros(answers.n_answers, bool)
        f = np.full((answers.n_answers, n_classes), 1 / n_classes)
        for worker in np.flatnonzero(np.diff(answers.worker_starts)):  # one training per worker
            rows = answers.by_worker[slice(*answers.worker_starts[worker : worker + 2])]
            tasks = answers.task[rows]
            own = Answers.from_codes(  # only their tasks, so that memory does not grow with tasks x workers
                np.arange(len(rows)), np.zeros(len(rows), np.int64), answers.label[rows], tasks=len(rows), workers=1,
                classes=answers.class_ids, weight=None if answers.weight is None else answers.weight[rows],
            )  # fmt: skip
            counts = None if weight is None else weight[tasks]
            if not training_mask(own, counts, None).any():
                continue
            network.load_state_dict(start)
            module = self._module(network, own).to(self.device)
            trainer = self._trainer(
                module, SomeRows(features, tasks), own, counts, callback=callback, phase=int(worker)
            )
            trainer.run()
            trainer.finish()
            table, seen[rows] = module.recorded(own.task)
            aum[rows] = table[np.arange(len(rows)), own.label]
            f[rows] = predict_in_blocks(lambda x: self._predict_proba(open_features(x)), features, tasks, n_classes)
        by_task = [weighted_means(f[:, c], np.ones(len(f)), answers.task, answers.n_tasks) for c in range(n_classes)]
        proba = np.stack(by_task, axis=1)
        self.proba_ = np.where(np.isfinite(proba), proba, 1 / n_classes)
        return aum, seen, f

    def _open_features(self, X: Any) -> Features:
        self._require_one_network()
        return super()._open_features(X)

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        self._require_one_network()
        return super()._proba_of_answers(features, rows, row, worker)

    def _require_one_network(self) -> None:
        require(
            not self.per_worker, "per_worker", True, "False to predict: otherwise there is no network for all tasks"
        )


def _diagonals(confusion: Array, n_workers: int, n_classes: int) -> Array:
    """Validate confusion matrices (workers, classes, labels) and return their diagonals."""
    shape = (n_workers, n_classes, n_classes)
    require(confusion.shape == shape, "trust", confusion.shape, f"matrices [worker, truth, label] of shape {shape}")
    diagonals = confusion[:, np.arange(n_classes), np.arange(n_classes)]
    proper = bool(np.isfinite(diagonals).all() and (diagonals >= 0).all())
    require(proper, "trust", "...", "matrices of finite probabilities of 0 or more")
    return diagonals
