"""`CrowdClassifier`, the base class of models that learn a classifier from features and answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from crowdwise._core.blas_threads import one_blas_thread
from crowdwise._core.validation import require
from crowdwise.answers import Answers, as_answers
from crowdwise.answers.rows import Duplicates
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
# Called after each epoch or iteration with a mapping: "epoch", "epochs" and "loss", or "iteration", "iterations" and
# "bound"; and "seconds", the time it took. Networks add "module", the `CrowdModule` after the epoch: it is the one in
# training, not a copy, and must not be changed (`network.prediction` predicts with it and leaves it unchanged); and
# "phase", which counts the trainings of a method that trains more than once. Records of the search for the length of
# the training have "stage": "search" and come first.
Callback = Callable[[Mapping[str, Any]], None]

MAX_CELLS = 200_000_000  # largest result of `answer_proba`: tasks x workers x classes


class FitInput(NamedTuple):
    """The checked arguments of `fit`."""

    features: Features
    answers: Answers
    weight: Array | None  # (tasks,)
    gold: Array | None  # (tasks,) codes of known labels, -1 where unknown
    validation: tuple[Any, Any] | None  # (X, labels)
    callback: Callback | None


class CrowdClassifier(FittedModel, BaseEstimator):
    """A classifier of tasks by their features, learned from the answers of many workers.

    Answers take the place of scikit-learn's `y`, so `cross_val_score`, `GridSearchCV` and `clone` work. The class does
    not declare itself a scikit-learn classifier: scikit-learn would then expect one label per task and stratify by it.

    A task without answers does not affect the fit, and gets a row of `proba_` like any other. A worker without answers
    keeps the model's prior assumptions.

    A subclass implements three methods:

    * `_fit(inputs)` fits the model and sets `proba_`.
    * `_predict_proba(features)` returns class probabilities (rows, classes).
    * `_proba_of_answers(features, rows, row, worker)` returns P(label) of task-worker pairs (answers, classes);
      `answer_proba`, `answer_log_likelihood` and `score` call it.

    It may override `_check_parameters` (constructor arguments), `_takes_validation` (whether `fit` uses `validation`),
    and, if fitted attributes do not hold all of its state, `_tensors` and `_restore` (arrays to save and load).

    Attributes
    ----------
    proba_ : (tasks, classes) float64 array
        Class probabilities of the training tasks: from features and answers if the model combines them, otherwise
        from features alone.
    labels_ : (tasks,) array
        Most probable class of each training task.
    tasks_, workers_, classes_ : arrays of ids
        Ids of the training answers.
    history_ : list of dict
        Measurements after each epoch or iteration.
    """

    # Capabilities, which the generic checks and the command line read.
    binary_only: ClassVar[bool] = False
    class_equivariant: ClassVar[bool] = True  # permuted classes permute the result
    infers_labels_first: ClassVar[bool] = False  # from all answers, whatever the weights of their tasks

    codes_: Array
    n_features_in_: int
    shape_in_: tuple[int, ...]
    columns_in_: list[str] | None
    history_: list[dict[str, Any]]
    _resume_from: Any = None  # where `partial_fit` makes the next fit start

    def fit(
        self,
        X: Any,
        answers: Any,
        *,
        sample_weight: Any = None,
        gold: Any = None,
        validation: tuple[Any, Any] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit the classifier to features and answers.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame, path, or torch Dataset or DataLoader
            Features, one row per task in the order of `answers.tasks`. Tables with task ids and folders of images are
            matched to the tasks by id; `open_features` describes all kinds.
        answers : Answers or data frame
            The workers' answers. A pandas, polars or Arrow table is read as `Answers.from_frame` reads it. An answer of
            weight 0 is the same as none, and is left out of `answers_`.
        sample_weight : (tasks,) array, optional
            Weight of each task; 0 excludes it. Only ratios matter.
        gold : mapping of task to class, or codes in task order (-1 unknown), optional
            Known labels, which stay fixed. For models that infer labels (`truth`-based and EM models).
        validation : (X, labels), optional
            Tasks with known labels, used to choose an epoch with `select="validation"`.
        callback : callable, optional
            Called after each epoch or iteration with a mapping of measurements and, for networks, the "module".
        """
        answers = check_answers(answers)
        if answers.n_classes < 2:
            message = f"all answers are {answers.classes.tolist()[0]!r}. A classifier needs at least two classes."
            raise SingleClassError(message)
        if self.binary_only and answers.n_classes > 2:
            message = f"{self} supports two classes; the answers have {answers.n_classes}. Choose another method."
            raise ParameterError(message)
        if answers.weight is not None and not answers.weight.all():  # else they would count for batches and folds
            answers = answers.take(np.flatnonzero(answers.weight))
        self._check_flags()
        self._check_parameters()
        if validation is not None and not self._takes_validation():
            message = "validation=(X, labels) is used only with select='validation'. Set select, or omit validation."
            raise ParameterError(message)
        features = open_features(X, answers)
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)  # attributes of an earlier fit must not be mistaken for results of this one
        self.n_features_in_: int = int(np.prod(features.shape))
        self.shape_in_: tuple[int, ...] = tuple(features.shape)
        self.columns_in_: list[str] | None = None if features.columns is None else list(features.columns)
        self.answers_ = answers
        self.history_ = []
        known = None if gold is None else answers.codes_of_truth(gold)
        inputs = FitInput(features, answers, task_weights(sample_weight, answers.n_tasks), known, validation, callback)
        with self._lock_checkpoint(), one_blas_thread():
            self._before_fit(inputs)
            self._fit(inputs)
        self.codes_ = pick(self.proba_, np.random.default_rng(getattr(self, "random_state", 0)))
        self._after_fit(inputs)
        return self

    def partial_fit(
        self,
        X: Any,
        answers: Any,
        *,
        sample_weight: Any = None,
        gold: Any = None,
        callback: Callback | None = None,
        duplicates: Duplicates = "error",
        restart: bool = False,
    ) -> Self:
        """Add answers that arrived later, by known or new workers to known or new tasks.

        JointEM and Raykar continue from what they believe. CrowdLayer, CoNAL, AnnoReg, MaxMIG, UnionNet and GeoCrowdNet
        continue from their weights, for as many epochs as the last fit took times the share of the answers that are
        new. All of them use all answers; they may end elsewhere than a fit. Other learners, and all of them if a class
        is new, are fitted again.

        Parameters
        ----------
        X : as in `fit`
            Features of all tasks, since features are not stored: first those of `tasks_`, in this order, then those of
            new tasks, in the order of `answers.tasks`. Tables with task ids are matched by id.
        answers : Answers or data frame
            The answers to add.
        sample_weight, gold, callback : optional
            As in `fit`, for all tasks. They are not remembered.
        duplicates : {"error", "first", "last", "vote"}
            Which answer counts if a worker has answered a task before ("last": the new one).
        restart : bool
            Whether to fit on all answers from the start.

        Examples
        --------
        >>> from crowdwise import Raykar, simulate
        >>> X, answers = simulate.digits_crowd()
        >>> early = answers.take(range(1200))  # answers to all images arrive later
        >>> model = Raykar(tol=1e-3).fit(X, early).partial_fit(X, answers.take(range(1200, 1845)))
        >>> model.answers_.n_answers
        1845
        """
        options = {"sample_weight": sample_weight, "gold": gold, "callback": callback}
        if "answers_" not in vars(self):
            return self.fit(X, answers, **options)
        merged = self.answers_.merge(as_answers(answers), duplicates=duplicates)
        features = open_features(X, merged)
        if not restart and merged.n_classes == self.answers_.n_classes:
            self._resume_from = self._find_start(features, merged)
        try:
            return self.fit(features, merged, **options)
        finally:
            self._resume_from = None

    def _find_start(self, features: Features, answers: Answers) -> Any:
        """Return where a fit of more answers can start, or None."""
        return None

    def _before_fit(self, inputs: FitInput) -> None:
        """Choose what a fit needs to know first, such as how long to train."""

    def _after_fit(self, inputs: FitInput) -> None:
        """Check the result; warn if it should not be used."""

    def _lock_checkpoint(self) -> AbstractContextManager[None]:
        """Lock the checkpoint file, if there is one, so that no other fit uses it."""
        if getattr(self, "checkpoint", None) is None:
            return nullcontext()
        from crowdwise.learn.network.checkpoint import lock_checkpoint  # imports torch

        return lock_checkpoint(self.checkpoint)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, (tasks, classes), from features alone."""
        answers = self._fitted
        features = self._open_features(X)
        if features.n_rows == 0:
            return np.empty((0, answers.n_classes))
        return self._predict_proba(features)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each task, from features alone."""
        return self._fitted.classes[self.predict_proba(X).argmax(axis=1)]

    def answer_proba(self, X: Any, worker: Any = None) -> Array:
        """Return P(worker gives each label | features).

        Parameters
        ----------
        X : features
            As in `predict`.
        worker : id, sequence of ids, or None
            One id returns (tasks, classes). Several ids, or None for all workers, return (tasks, workers, classes).
        """
        answers = self._fitted
        one = worker is not None and np.ndim(worker) == 0
        require(np.ndim(worker) < 2, "worker", np.shape(worker), "one id, or a sequence of ids")
        codes = np.arange(answers.n_workers) if worker is None else self._worker_codes([worker] if one else worker)
        features = self._open_features(X)
        cells = features.n_rows * len(codes) * answers.n_classes
        if cells > MAX_CELLS:
            message = (
                f"the result has {features.n_rows:,} tasks x {len(codes):,} workers x {answers.n_classes} classes, "
                f"too many for memory. Pass fewer tasks or workers at a time."
            )
            raise TooLargeError(message)
        proba = self._answer_proba(features, codes)  # (tasks, workers, classes)
        return proba[:, 0] if one else proba

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return a score of the predictions; higher is better.

        For `Answers` it is the mean log-likelihood of the answers given the features, which suits cross-validation
        without known labels: ground truth is not used, even if the answers carry it. For labels it is the accuracy.
        """
        if isinstance(y, Answers):
            return float(self.answer_log_likelihood(X, y).mean())
        labels, predicted = np.asarray(y), self.predict(X)
        require(labels.shape == predicted.shape, "y", labels.shape, f"{len(predicted)} labels, one per row of X")
        require_known_labels(labels, self.classes_)
        return float(np.average(predicted == labels, weights=sample_weight))

    def answer_log_likelihood(self, X: Any, answers: Answers) -> Array:
        """Return the log probability of each answer, (answers,), given features; rows of X follow `answers.tasks`."""
        workers = self._worker_codes(answers.workers)
        labels = _positions(answers.classes, self._fitted.classes, "class")
        features = open_features(X, answers)
        out = np.empty(answers.n_answers)
        starts, size = answers.task_starts, features.block_size(1024)
        for first in range(0, answers.n_tasks, size):  # in blocks of tasks, to bound memory
            end = min(first + size, answers.n_tasks)
            part = slice(starts[first], starts[end])
            if part.start == part.stop:
                continue
            proba = self._proba_of_answers(
                features, np.arange(first, end), answers.task[part] - first, workers[answers.worker[part]]
            )
            out[part] = np.log(np.maximum(proba[np.arange(len(proba)), labels[answers.label[part]]], 1e-12))
        return out

    # What a subclass implements

    @abstractmethod
    def _fit(self, inputs: FitInput) -> None:
        """Fit the model; set `proba_` and other fitted attributes."""

    @abstractmethod
    def _predict_proba(self, features: Features) -> Array:
        """Return class probabilities (rows, classes), float64."""

    @abstractmethod
    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        """Return P(label), (answers, classes); answer a is by worker[a] to the task in features row rows[row[a]]."""

    def _answer_proba(self, features: Features, workers: Array) -> Array:
        """Return answer probabilities (rows, workers, classes) for these worker codes."""
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
        """Raise ParameterError if a constructor argument is invalid."""

    def _takes_validation(self) -> bool:
        """Whether `fit` uses `validation` to choose an epoch."""
        return getattr(self, "select", None) == "validation"

    def _tensors(self) -> dict[str, Array]:
        """Return arrays that `save` must store in addition to the fitted attributes."""
        return {}

    def _restore(self, tensors: dict[str, Array]) -> None:
        """Restore the arrays that `_tensors` returned."""

    # Helpers

    def _open_features(self, X: Any) -> Features:
        """Open features to predict from; check that they have the shape and columns of the training features."""
        features = open_features(X)
        if tuple(features.shape) != tuple(self.shape_in_):
            message = f"X has rows of shape {tuple(features.shape)}; the model was fitted on {tuple(self.shape_in_)}."
            raise ParameterError(message)
        if self.columns_in_ is not None and features.columns not in (None, tuple(self.columns_in_)):
            pairs = zip(self.columns_in_, features.columns or (), strict=False)
            expected, actual = next(pair for pair in pairs if pair[0] != pair[1])
            message = (
                f"X has column {actual!r} where the model was fitted on {expected!r}. Pass the same columns in the "
                f"same order."
            )
            raise FeaturesError(message)
        return features

    def _worker_codes(self, workers: Any) -> Array:
        return _positions(np.asarray(workers), self._fitted.workers, "worker")


def require_known_labels(labels: Array, classes: Array) -> None:
    """Raise UnknownIdError if none of the labels is a class, for example because they have another type."""
    if len(labels) and not np.isin(labels, classes).any():
        message = f"none of the labels ({labels.tolist()[0]!r}, ...) is a class. Classes are {classes.tolist()[:5]}."
        raise UnknownIdError(message)


def training_mask(answers: Answers, weight: Array | None, gold: Array | None) -> Array:
    """Return which tasks to train on, (tasks,) bool: those with answers or gold, and a weight above zero."""
    mask = np.diff(answers.task_starts) > 0
    if gold is not None:
        mask |= gold >= 0
    return mask if weight is None else mask & (np.atleast_2d(weight) > 0).any(axis=0)


def task_weights(weight: Any, n_tasks: int) -> Array | None:
    """Check the weights of tasks and scale the positive ones to mean one."""
    if weight is None:
        return None
    try:
        out = np.asarray(weight, dtype=float)
    except (TypeError, ValueError):
        out = np.empty(0)
    valid = out.shape == (n_tasks,) and bool(np.isfinite(out).all() and (out >= 0).all() and out.any())
    shown = f"array of shape {out.shape}, from {out.min():g} to {out.max():g}" if out.size else weight
    require(valid, "sample_weight", shown, f"{n_tasks} finite weights, one per task, at least 0 and not all 0")
    out = out / out.max()  # keeps the sum finite
    return out / out[out > 0].mean()


def _positions(ids: Array, table: Array, what: str) -> Array:
    """Return the positions of ids in a table; raise UnknownIdError that names a missing one."""
    if len(ids) == 0:
        return np.empty(0, np.int64)
    order = np.argsort(table, kind="stable")
    try:
        at = np.minimum(np.searchsorted(table, ids, sorter=order), len(table) - 1)
        position = order[at]
        bad = np.flatnonzero(table[position] != ids)
    except TypeError:  # for example numbers looked up among strings
        bad, position = np.arange(len(ids)), np.empty(0, np.int64)
    if len(bad):
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        message = f"unknown {what} {ids.tolist()[bad[0]]!r}{more}: not in the answers the model was fitted on."
        raise UnknownIdError(message)
    return position.astype(np.int64)
