"""The base class of every model that learns a classifier from features and answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.errors import (
    FeaturesError,
    ParameterError,
    SingleClassError,
    TooLargeError,
    UnknownIdError,
)
from crowdwise.learn.features import Features, open_features
from crowdwise.truth.base import check_answers, pick
from crowdwise.truth.fitted import FittedModel

Array = np.ndarray[Any, np.dtype[Any]]
# Called after each epoch or iteration with what is known: "epoch", "epochs" and "loss", or "iteration", "iterations"
# and "bound"; "seconds" it took; and where a network is trained, "module": the `CrowdModule` as the epoch left it. That
# is the one in training, not a copy: it must not be changed. `predicting.predict_members` and `predict_answers` say
# what it predicts, and leave it as it was. "phase" counts the trainings of a method that has more than one.
Callback = Callable[[Mapping[str, Any]], None]

MAX_CELLS = 200_000_000  # of answer_proba: tasks x workers x classes


class FitInput(NamedTuple):
    """What `fit` was given, checked."""

    features: Features
    answers: Answers
    weight: Array | None  # (tasks,)
    gold: Array | None  # (tasks,) codes of known labels, -1 unknown
    validation: tuple[Any, Any] | None  # X and labels
    callback: Callback | None


class CrowdClassifier(FittedModel):
    """Learns to classify tasks by their features from the answers of many workers.

    A model supplies `_fit`, `_predict_proba` and `_answer_proba`; the rest is here. Answers stand for scikit-learn's
    `y`, so `cross_val_score`, `GridSearchCV` and `clone` work; scikit-learn is not told that this is a classifier, or
    it would look for one label a task and split by it.

    A task without answers adds nothing to the fit and gets a row of `proba_` like the others. A worker without answers
    keeps what the model assumes before it has seen any.

    Attributes
    ----------
    proba_ : (tasks, classes) float64 array
        What the model believes of the training tasks: from features and answers where it joins both, otherwise from
        features alone.
    labels_ : (tasks,) array
        The class believed for each training task.
    tasks_, workers_, classes_ : arrays of ids
        The tables of the answers fitted on.
    history_ : list of dict
        What was measured after each epoch or iteration.
    """

    # What the model can do; the generic tests and the command line read these.
    binary_only: ClassVar[bool] = False

    history_: list[dict[str, Any]]

    def fit(
        self,
        X: Any,
        answers: Answers,
        *,
        sample_weight: Any = None,
        gold: Any = None,
        validation: tuple[Any, Any] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from features and answers.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame, path, or torch Dataset
            Features; rows follow `answers.tasks`.
        answers : Answers
            What the workers said.
        sample_weight : (tasks,) array, optional
            How much each task counts beside the others; 0 leaves it out.
        gold : mapping of task to class, or codes in task order (-1 unknown), optional
            Known labels, held fixed, for the models that infer labels (`truth`-based and EM models).
        validation : (X, labels), optional
            Tasks of known label, to choose an epoch with `select="validation"`.
        callback : callable, optional
            Called after each epoch or iteration with a mapping of what was measured, and of the "module" in training.
        """
        check_answers(answers)
        if answers.n_classes < 2:
            message = f"all answers say {answers.classes.tolist()[0]!r}: a classifier needs two classes or more."
            raise SingleClassError(message)
        if self.binary_only and answers.n_classes > 2:
            message = f"{self} takes two classes, the answers hold {answers.n_classes}."
            raise ParameterError(message)
        self._check_flags()
        self._check_parameters()
        if validation is not None and not self._takes_validation():
            message = "validation=(X, labels) is used with select='validation' only: set it, or leave them out."
            raise ParameterError(message)
        features = open_features(X, answers)
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)  # nothing of an earlier fit may be taken for this one's
        self.n_features_in_ = int(np.prod(features.shape))
        self.shape_in_ = tuple(features.shape)
        self.columns_in_ = None if features.columns is None else list(features.columns)
        self.answers_ = answers
        self.history_ = []
        known = None if gold is None else answers.codes_of_truth(gold)
        with self._lock_checkpoint():
            self._fit(
                FitInput(features, answers, task_weights(sample_weight, answers.n_tasks), known, validation, callback)
            )
        self.codes_ = pick(self.proba_, np.random.default_rng(getattr(self, "random_state", 0)))
        return self

    def _lock_checkpoint(self) -> AbstractContextManager[None]:
        """Have the checkpoint, where there is one, to this fit alone."""
        if getattr(self, "checkpoint", None) is None:
            return nullcontext()
        from crowdwise.learn.network.checkpoint import lock_checkpoint  # which imports torch

        return lock_checkpoint(self.checkpoint)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, (tasks, classes), from features alone."""
        answers = self._fitted
        features = self._open_features(X)
        if features.n_rows == 0:
            return np.empty((0, answers.n_classes))
        return self._predict_proba(features)

    def predict(self, X: Any) -> Array:
        """Most probable class of each task, from features alone."""
        return self._fitted.classes[self.predict_proba(X).argmax(axis=1)]

    def answer_proba(self, X: Any, worker: Any = None) -> Array:
        """P(worker gives each label | features).

        Parameters
        ----------
        X : features
            As in `predict`.
        worker : id, sequence of ids, or None
            One worker gives (tasks, classes); several, or all of them when None, give (tasks, workers, classes).
        """
        answers = self._fitted
        one = worker is not None and np.ndim(worker) == 0
        require(np.ndim(worker) < 2, "worker", np.shape(worker), "one id, or a sequence of them")
        codes = np.arange(answers.n_workers) if worker is None else self._worker_codes([worker] if one else worker)
        features = self._open_features(X)
        cells = features.n_rows * len(codes) * answers.n_classes
        if cells > MAX_CELLS:
            message = (
                f"{features.n_rows:,} tasks x {len(codes):,} workers x {answers.n_classes} classes do not fit in "
                f"memory: ask for fewer tasks or workers at a time."
            )
            raise TooLargeError(message)
        proba = self._answer_proba(features, codes)  # (tasks, workers, classes)
        return proba[:, 0] if one else proba

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """How good predictions are: higher is better.

        Against `Answers` it is the mean log-likelihood of the answers given the features (no ground truth is used, even
        where the answers carry it): what cross-validation without labels needs. Against labels it is the accuracy.
        """
        if isinstance(y, Answers):
            return float(self.answer_log_likelihood(X, y).mean())
        labels, predicted = np.asarray(y), self.predict(X)
        require(labels.shape == predicted.shape, "y", labels.shape, f"{len(predicted)} labels, one for each row of X")
        require_known_labels(labels, self.classes_)
        return float(np.average(predicted == labels, weights=sample_weight))

    def answer_log_likelihood(self, X: Any, answers: Answers) -> Array:
        """Log probability of each answer, (answers,), given the features of its task; rows of X follow its tasks."""
        workers = self._worker_codes(answers.workers)
        labels = _positions(answers.classes, self._fitted.classes, "class")
        features = open_features(X, answers)
        out = np.empty(answers.n_answers)
        starts, size = answers.task_starts, features.block_size(1024)
        for first in range(0, answers.n_tasks, size):  # blocks of tasks: never all tasks x workers at once
            end = min(first + size, answers.n_tasks)
            part = slice(starts[first], starts[end])
            if part.start == part.stop:
                continue
            proba = self._proba_of_answers(
                features, np.arange(first, end), answers.task[part] - first, workers[answers.worker[part]]
            )
            out[part] = np.log(np.maximum(proba[np.arange(len(proba)), labels[answers.label[part]]], 1e-12))
        return out

    # What a model supplies

    @abstractmethod
    def _fit(self, inputs: FitInput) -> None:
        """Set `proba_`, and what else the model has to show."""

    @abstractmethod
    def _predict_proba(self, features: Features) -> Array:
        """Class probabilities (rows, classes), float64."""

    @abstractmethod
    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        """P(label) of some answers, (answers, classes): answer a is that of worker[a] to the task rows[row[a]]."""

    def _answer_proba(self, features: Features, workers: Array) -> Array:
        """Answer probabilities (rows, workers, classes) of these worker codes."""
        n_rows, n_workers = features.n_rows, len(workers)
        out = np.empty((n_rows, n_workers, self._fitted.n_classes))
        if n_workers == 0:
            return out
        size = features.block_size(max(1, 20_000_000 // max(n_workers * self._fitted.n_classes**2, 1)))
        for first in range(0, n_rows, size):
            rows = np.arange(first, min(first + size, n_rows))
            row, worker = np.repeat(np.arange(len(rows)), n_workers), np.tile(workers, len(rows))
            out[rows] = self._proba_of_answers(features, rows, row, worker).reshape(len(rows), n_workers, -1)
        return out

    def _check_parameters(self) -> None:
        """Refuse constructor arguments that make no sense."""

    def _takes_validation(self) -> bool:
        """Whether tasks of known label are used to choose an epoch."""
        return getattr(self, "select", None) == "validation"

    def _tensors(self) -> dict[str, Array]:
        """Arrays, beside the fitted attributes, that `save` must keep."""
        return {}

    def _restore(self, tensors: dict[str, Array]) -> None:
        """Take back what `_tensors` gave."""

    # Small things

    def _open_features(self, X: Any) -> Features:
        features = open_features(X)
        if tuple(features.shape) != tuple(self.shape_in_):
            message = f"X has rows of shape {tuple(features.shape)}, the model was fitted on {tuple(self.shape_in_)}."
            raise ParameterError(message)
        if self.columns_in_ is not None and features.columns not in (None, tuple(self.columns_in_)):
            pairs = zip(self.columns_in_, features.columns or (), strict=False)
            theirs, ours = next(pair for pair in pairs if pair[0] != pair[1])
            message = (
                f"X has a column {ours!r} where the model was fitted on {theirs!r}: give the same columns in order."
            )
            raise FeaturesError(message)
        return features

    def _worker_codes(self, workers: Any) -> Array:
        return _positions(np.asarray(workers), self._fitted.workers, "worker")


def require_known_labels(labels: Array, classes: Array) -> None:
    """Refuse labels of which none is a class: they are written in another way."""
    if len(labels) and not np.isin(labels, classes).any():
        message = f"none of the labels ({labels.tolist()[0]!r}, ...) is a class; classes are {classes.tolist()[:5]}."
        raise UnknownIdError(message)


def training_mask(answers: Answers, weight: Array | None, gold: Array | None) -> Array:
    """Which tasks are trained on, (tasks,): those with answers, or known, and of a weight above zero."""
    known = np.diff(answers.task_starts) > 0
    if gold is not None:
        known |= gold >= 0
    return known if weight is None else known & (np.atleast_2d(weight) > 0).any(axis=0)


def task_weights(weight: Any, n_tasks: int) -> Array | None:
    """Checked weights of tasks, those above zero with mean one; None when there are none."""
    if weight is None:
        return None
    try:
        out = np.asarray(weight, dtype=float)
    except (TypeError, ValueError):
        out = np.empty(0)
    fits = out.shape == (n_tasks,) and bool(np.isfinite(out).all() and (out >= 0).all() and out.any())
    shown = f"array of shape {out.shape}, from {out.min():g} to {out.max():g}" if out.size else weight
    require(fits, "sample_weight", shown, f"{n_tasks} finite weights, one a task, none below 0 and some above")
    out = out / out.max()  # so that the sum is finite
    return out / out[out > 0].mean()


def _positions(ids: Array, table: Array, what: str) -> Array:
    """Positions of ids in a table; one that is not there is named."""
    if len(ids) == 0:
        return np.empty(0, np.int64)
    order = np.argsort(table, kind="stable")
    try:
        at = np.minimum(np.searchsorted(table, ids, sorter=order), len(table) - 1)
        found = order[at]
        bad = np.flatnonzero(table[found] != ids)
    except TypeError:  # numbers looked up among strings, or the like
        bad, found = np.arange(len(ids)), np.empty(0, np.int64)
    if len(bad):
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        message = f"{what} {ids.tolist()[bad[0]]!r}{more} was not there when the model was fitted."
        raise UnknownIdError(message)
    return found.astype(np.int64)
