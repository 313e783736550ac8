"""CROWDLAB: a classifier's probabilities and the workers' answers, averaged with estimated weights.

    p[t]      probabilities of a classifier that did not see the answers to task t
    label[t]  the consensus: at first majority vote, ties to the classifier
    A[w]      share of the others' answers, on w's tasks, that agree with w's
    P         share of a task's answers that agree with its consensus, mean over tasks
    base      error of always predicting the most frequent consensus class

    weight[w] = max(1 - (1 - A[w]) / base, 1e-6)
    weight_f  = max(1 - (share of tasks where argmax p is not the consensus) / base, 1e-6) * sqrt(answers per task)

    proba[t]  = ( weight_f * p[t] + sum over answers a to t of weight[worker[a]] * q[label[a]] ) / sum of the weights
    q[l]      = P for class l, (1 - P) / (classes - 1) for the others

The most probable class is the next consensus, and everything is computed once more with it. A, P, base and the
classifier's error use only tasks with two answers or more; a worker who shares no task gets the mean A of the others.
If no task has two answers, workers cannot be compared: A and P are the share of answers that the classifier predicts.

    quality[w] = s * mean over w's answers of proba[task, label] + (1 - s) * share of them that are the consensus
    s          = weight_f / (weight_f + mean weight of a worker * answers per task)

Goh, Tkachenko and Mueller, "CROWDLAB: Supervised learning to infer consensus labels and quality scores for data with
multiple annotators", 2022. The results equal those of cleanlab, the authors' package, with three exceptions: a tie that
the classifier cannot break goes to the first class; `quality` is that of the final class, where cleanlab keeps the
consensus of the first round; and a worker who shares no task has a quality, not NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.learn.base import Array, CrowdClassifier, FitInput
from crowdwise.learn.features import Features, open_features
from crowdwise.learn.features.base import SomeRows
from crowdwise.learn.features.scaling import mean_and_scale
from crowdwise.learn.joint_em.classifiers import predict_soft
from crowdwise.learn.joint_em.logistic import fit_logistic, predict_logistic
from crowdwise.truth.base import fix_gold, pick, vote_shares

LEAST = 1e-6  # lower limit of a weight, and of the error of always predicting one class


class Consensus(NamedTuple):
    """The result of `crowdlab`."""

    proba: Array  # (tasks, classes)
    quality: Array  # (tasks,): probability of the most probable class
    worker_quality: Array  # (workers,): roughly the share of right answers
    worker_weight: Array  # (workers,)
    model_weight: float


class CrowdLab(CrowdClassifier):
    """Consensus of the workers and a classifier that judges each task without having seen its answers.

    `proba_` is the consensus. `predict` uses the classifier trained again: on the consensus labels of all answered
    tasks, or on all answers if it is a crowd classifier. `answer_proba` takes a worker to be right with probability
    `worker_quality_`, and to err evenly otherwise.

    Parameters
    ----------
    classifier : None, scikit-learn classifier or CrowdClassifier
        Trained on majority-vote labels, or on answers if it is a crowd classifier. None is logistic regression on
        standardised features.
    cross_fit : int
        Number of folds. Each is judged by a classifier trained on the others. Limited to the number of tasks.
    ridge : float
        Penalty of the logistic regression.
    random_state : int
        Seed of the folds and for breaking ties.

    Attributes
    ----------
    quality_ : (tasks,) array
        Confidence of the consensus of each task.
    worker_quality_ : (workers,) array
        Roughly the share of right answers of each worker.
    worker_weight_ : (workers,) array
    model_weight_ : float
        Weights of the workers and of the classifier in the consensus.
    classifier_ : estimator or tuple
        The final classifier; for `classifier=None` a tuple of coefficients, means and scales.

    Examples
    --------
    >>> from crowdwise import CrowdLab, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = CrowdLab().fit(X, answers)
    >>> model.quality_.shape, model.worker_quality_.shape
    ((738,), (40,))
    """

    class_equivariant = False  # ties of the vote it trains on are broken at random
    infers_labels_first = True

    proba_: Array

    def __init__(
        self, classifier: Any = None, *, cross_fit: int = 5, ridge: float = 10.0, random_state: int = 0
    ) -> None:
        self.classifier = classifier
        self.cross_fit = cross_fit
        self.ridge = ridge
        self.random_state = random_state

    quality_: Array
    worker_quality_: Array
    worker_weight_: Array
    model_weight_: float
    classifier_: Any

    def _check_parameters(self) -> None:
        require(is_integer(self.cross_fit, 2), "cross_fit", self.cross_fit, "an integer, 2 or more")
        require(self.ridge >= 0, "ridge", self.ridge, "a number, 0 or more")
        usable = self.classifier is None or hasattr(self.classifier, "predict_proba")
        require(usable, "classifier", self.classifier, "a classifier with predict_proba, or None")

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, _, callback = inputs
        rng = np.random.default_rng(self.random_state)
        known = np.diff(answers.task_starts) > 0  # tasks without answers or gold are not trained on
        if gold is not None:
            known |= gold >= 0
        if weight is not None:
            known &= weight > 0
        n_folds = min(self.cross_fit, int(known.sum()))
        if n_folds < 2:
            message = (
                "CrowdLab scores each task by a classifier trained on other tasks: pass at least two answered tasks."
            )
            raise ParameterError(message)
        vote = _with_gold(pick(vote_shares(answers), rng), gold)
        fold = stratified_folds(np.where(known, vote, answers.n_classes), n_folds, rng)
        proba = np.empty((answers.n_tasks, answers.n_classes))
        for k in range(n_folds):
            train, held_out = np.flatnonzero(known & (fold != k)), np.flatnonzero(fold == k)
            classifier = self._train(features, answers, vote, weight, train)
            proba[held_out] = _predict_blocks(classifier, SomeRows(features, held_out), answers.n_classes)
            if callback is not None:
                callback({"iteration": k + 1, "iterations": n_folds})
        consensus = crowdlab(answers, proba, weight=weight, gold=gold)
        self.proba_, self.quality_, self.worker_quality_, self.worker_weight_, self.model_weight_ = consensus
        label = consensus.proba.argmax(axis=1)
        self.classifier_ = self._train(features, answers, label, weight, np.flatnonzero(known))

    def _train(self, features: Features, answers: Answers, label: Array, weight: Array | None, rows: Array) -> Any:
        """Return a classifier trained on these rows; logistic regression as coefficients, means and scales."""
        some, part = SomeRows(features, rows), None if weight is None else weight[rows]
        if isinstance(self.classifier, CrowdClassifier):
            return clone(self.classifier).fit(some, answers[rows], sample_weight=part)
        x = some.matrix()
        if self.classifier is None:
            mean, scale = mean_and_scale(open_features(x))
            one_hot = np.eye(answers.n_classes)[label[rows]]
            return fit_logistic((x - mean) * scale, one_hot, weight=part, ridge=self.ridge)[0], mean, scale
        options = {} if part is None else {"sample_weight": part}
        return clone(self.classifier).fit(x, label[rows], **options)

    def _predict_proba(self, features: Features) -> Array:
        n_classes = self._fitted.n_classes
        return _predict_blocks(self.classifier_, features, n_classes)

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        f = _predict(self.classifier_, features.rows(rows), self._fitted.n_classes)[row]  # (answers, classes)
        right = self.worker_quality_[worker, None]
        return right * f + (1 - right) * (1 - f) / (f.shape[1] - 1)


def crowdlab(answers: Answers, proba: Any, *, weight: Array | None = None, gold: Array | None = None) -> Consensus:
    """Return the consensus of the answers and the probabilities of a classifier.

    Parameters
    ----------
    answers : Answers
        The answers; their weights are used.
    proba : (tasks, classes) array
        Out-of-sample class probabilities: of a classifier that was not trained on the answers to the task.
    weight : (tasks,) array, optional
        Weight of each task in judging workers and classifier.
    gold : (tasks,) int array, optional
        Codes of gold labels, -1 where unknown; they stay fixed.

    Examples
    --------
    >>> answers = Answers.from_arrays([1, 1, 2, 2, 3, 3], list("abacab"), list("xxyxyy"))
    >>> crowdlab(answers, [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]).proba.round(2).tolist()
    [[0.87, 0.13], [0.2, 0.8], [0.24, 0.76]]
    """
    p = np.asarray(proba, dtype=float)
    shape = (answers.n_tasks, answers.n_classes)
    if p.shape != shape or not (p >= 0).all() or not np.allclose(p.sum(axis=1), 1, atol=1e-3):
        message = f"proba has shape {p.shape}. Pass class probabilities of shape {shape}, rows as in answers.tasks."
        raise ParameterError(message)
    votes = answers.counts(dense=True)  # (tasks, classes)
    task_weight = np.ones(len(p)) if weight is None else weight
    tied = votes >= votes.max(axis=1, keepdims=True) - 1e-12
    label = _with_gold(np.where(tied, p, -1).argmax(axis=1), gold)
    for _ in range(2):
        worker_weight, model_weight, likely = _estimate_weights(answers, p, votes, label, task_weight)
        mixed = _mix(answers, p, worker_weight, model_weight, likely)
        consensus = label
        stays = mixed[np.arange(len(p)), label] >= mixed.max(axis=1)  # a tie keeps the vote
        label = _with_gold(np.where(stays, label, mixed.argmax(axis=1)), gold)
    side = model_weight / (model_weight + worker_weight.mean() * _answers_per_task(votes))
    worker_quality = _worker_quality(answers, mixed, consensus, side)
    mixed = fix_gold(mixed, gold)
    return Consensus(mixed, mixed.max(axis=1), worker_quality, worker_weight, model_weight)


def _estimate_weights(
    answers: Answers, p: Array, votes: Array, label: Array, task_weight: Array
) -> tuple[Array, float, float]:
    """Return the weights of the workers and of the classifier, and P, given the consensus."""
    task, worker, vote = answers.task, answers.worker, _votes(answers)
    total = votes.sum(axis=1)  # (tasks,)
    mass = vote * task_weight[task]  # (answers,)
    others = np.bincount(worker, mass * (total[task] - vote), answers.n_workers)
    agreeing = np.bincount(worker, mass * (votes[task, answers.label] - vote), answers.n_workers)
    overlaps = others > 1e-12
    guess = p.argmax(axis=1)
    if overlaps.any():
        used_weight = task_weight * (np.diff(answers.task_starts) > 1)
        share = votes[np.arange(len(p)), label] / np.maximum(total, LEAST)
        likely, wrong = np.average(share, weights=used_weight), np.average(guess != label, weights=used_weight)
        agreement = np.divide(agreeing, others, out=np.zeros(len(others)), where=overlaps)
        agreement[~overlaps] = agreement[overlaps].mean()
    else:
        used_weight = task_weight * (total > 0)
        likely = np.average(guess[task] == answers.label, weights=mass)
        agreement, wrong = np.full(answers.n_workers, likely), 1 - likely
    base = max(1 - np.bincount(label, used_weight).max() / used_weight.sum(), LEAST)
    model_weight = max(1 - wrong / base, LEAST) * np.sqrt(_answers_per_task(votes))
    return np.maximum(1 - (1 - agreement) / base, LEAST), float(model_weight), float(likely)


def _mix(answers: Answers, p: Array, worker_weight: Array, model_weight: float, likely: float) -> Array:
    """Return the weighted mean of the classifier and the answers, (tasks, classes)."""
    cell = answers.task.astype(np.int64) * p.shape[1] + answers.label
    votes = np.bincount(cell, _votes(answers) * worker_weight[answers.worker], p.size).reshape(p.shape)
    total = votes.sum(axis=1, keepdims=True)
    mixed = model_weight * p + likely * votes + (1 - likely) / (p.shape[1] - 1) * (total - votes)
    return mixed / (model_weight + total)


def _worker_quality(answers: Answers, mixed: Array, consensus: Array, side: float) -> Array:
    """Return the quality of each worker, (workers,)."""
    task, vote = answers.task, _votes(answers)
    shared = vote * (np.diff(answers.task_starts) > 1)[task]
    confidence = _mean(answers.worker, mixed[task, answers.label], vote, answers.n_workers)
    agreement = _mean(answers.worker, answers.label == consensus[task], shared, answers.n_workers)
    quality = np.where(np.isnan(agreement), confidence, side * confidence + (1 - side) * agreement)
    return np.where(np.isnan(quality), np.nanmean(quality), quality)  # a worker without answers gets the mean


def stratified_folds(label: Array, n_folds: int, rng: np.random.Generator) -> Array:
    """Return the fold of each task, drawn so that each fold has its share of every class.

    >>> folds = stratified_folds(np.repeat([0, 1], [6, 3]), 3, np.random.default_rng(0))
    >>> np.bincount(folds[:6]).tolist(), np.bincount(folds[6:]).tolist()
    ([2, 2, 2], [1, 1, 1])
    """
    order = rng.permutation(len(label))
    order = order[np.argsort(label[order], kind="stable")]
    folds = np.empty(len(label), np.int64)
    folds[order] = np.arange(len(label)) % n_folds
    return folds


def _predict_blocks(classifier: Any, features: Features, n_classes: int) -> Array:
    """Return class probabilities (rows, classes) of all rows of features, block by block; see `_predict`."""
    if isinstance(classifier, CrowdClassifier):
        return classifier.predict_proba(features)
    return np.concatenate([_predict(classifier, block, n_classes) for block in features.blocks()])


def _predict(classifier: Any, x: Array, n_classes: int) -> Array:
    """Return class probabilities (rows, classes) by a classifier that `CrowdLab._train` returned."""
    if isinstance(classifier, CrowdClassifier):
        return classifier.predict_proba(x)
    x = x.reshape(len(x), -1)
    if isinstance(classifier, tuple):
        coef, mean, scale = classifier
        return predict_logistic((x - mean) * scale, coef)
    return predict_soft(classifier, x, n_classes)


def _with_gold(label: Array, gold: Array | None) -> Array:
    return label if gold is None else np.where(gold >= 0, gold, label)


def _votes(answers: Answers) -> Array:
    return np.ones(answers.n_answers) if answers.weight is None else answers.weight


def _answers_per_task(votes: Array) -> float:
    total = votes.sum(axis=1)
    return float(total[total > 0].mean())


def _mean(group: Array, value: Array, weight: Array, n: int) -> Array:
    """Return the weighted mean of the values of each group, (n,); NaN for an empty group."""
    mass = np.bincount(group, weight, n)
    return np.divide(np.bincount(group, weight * value, n), mass, out=np.full(n, np.nan), where=mass > 0)
