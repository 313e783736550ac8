"""`Subject`: the method that is checked, with crowds to fit it to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.parameters import unfitted
from crowdwise.answers import Answers
from crowdwise.learn.adapter import LearnerAdapter, as_model
from crowdwise.truth.adapter import fit_options
from crowdwise.truth.base import Array, TruthModel

N_TASKS, N_WORKERS, N_CLASSES = 90, 8, 3  # of the crowd that learners are fitted to


class Votes(NamedTuple):
    """Codes of answers, (answers,), and the true class of each task, (tasks,)."""

    task: Array
    worker: Array
    label: Array
    truth: Array

    def answers(self, **options: Any) -> Answers:
        """Return the answers."""
        return Answers.from_arrays(self.task, self.worker, self.label, **options)


class Subject:
    """A method under test.

    Parameters
    ----------
    method : str, truth model, learner, or object with their main methods
        Not changed: copies are fitted.
    """

    def __init__(self, method: Any) -> None:
        self.model: Any = as_model(method)

    def new(self, **parameters: Any) -> Any:
        """Return an unfitted copy, with these parameters if it has them."""
        model = unfitted(self.model)
        known = model.get_params(deep=False)
        return model.set_params(**{name: value for name, value in parameters.items() if name in known})

    def fit(self, answers: Answers, **parameters: Any) -> Any:
        """Return a copy of a truth model, fitted. If it needs gold, the first quarter of the tasks is in class 0."""
        model = self.new(**parameters)
        return model.fit(answers, gold_of(answers) if model.needs_gold else None)

    @cached_property
    def data(self) -> tuple[Array, Answers, Array]:
        """Features, answers and true classes of the crowd that learners are fitted to."""
        X, truth = blobs(N_TASKS)
        return X, answers_of(truth), truth

    @cached_property
    def fitted(self) -> Any:
        """A learner fitted to `data`, once; checks do not change it."""
        return self.new().fit(*self.data[:2])

    @property
    def inner(self) -> Any:
        """The learner inside a framework, or the model itself."""
        return as_model(getattr(self.model, "base", None) or self.model)

    @property
    def is_symmetric(self) -> bool:
        """Whether permuted classes must permute the result: not if networks start at random, or ties are broken so."""
        return bool(self.inner.class_equivariant) and not self.trains_networks

    @property
    def infers_labels_first(self) -> bool:
        """Whether labels are inferred from all answers before the learner is trained."""
        return any(isinstance(model, TruthModel) or model.infers_labels_first for model in (self.model, self.inner))

    @property
    def trains_networks(self) -> bool:
        """Whether the learner, or the learner inside a framework, trains networks with a random start."""
        parameters = self.inner.get_params()
        return "n_models" in parameters and parameters.get("network") != "logistic"

    @property
    def takes_task_weights(self) -> bool:
        """Whether `fit` takes the weights of tasks; an object of another class may not."""
        return not isinstance(self.model, LearnerAdapter) or "sample_weight" in fit_options(self.model.model)

    @property
    def takes_answer_weights(self) -> bool:
        """Whether the weights of answers are used."""
        if isinstance(self.model, TruthModel):
            return bool(self.model.uses_weights)
        return not isinstance(self.model, LearnerAdapter) or bool(getattr(self.model.model, "uses_weights", False))


def votes(n_classes: int = 3, n_tasks: int = 60, n_workers: int = 8, per_task: int = 4, seed: int = 0) -> Votes:
    """Return the votes of a small crowd of unequal workers."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_tasks)
    accuracy = rng.uniform(0.5, 0.95, n_workers)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.concatenate([rng.permutation(n_workers)[:per_task] for _ in range(n_tasks)])
    right = rng.random(len(task)) < accuracy[worker]
    label = np.where(right, truth[task], rng.integers(0, n_classes, len(task)))
    return Votes(task, worker, label, truth)


def gold_of(answers: Answers) -> Array:
    """Return gold that puts the first quarter of the tasks into the first class, for methods that need gold."""
    gold = np.full(answers.n_tasks, -1, np.int32)
    gold[: max(1, answers.n_tasks // 4)] = 0
    return gold


def blobs(n_tasks: int, distance: float = 3.0, seed: int = 0) -> tuple[Array, Array]:
    """Return features (tasks, 6), float32, in a Gaussian blob per class, and the true classes."""
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(99).normal(size=(N_CLASSES, 6))
    centre *= distance / np.linalg.norm(centre, axis=1, keepdims=True)
    truth = rng.choice(N_CLASSES, n_tasks)
    return (centre[truth] + rng.normal(size=(n_tasks, 6))).astype(np.float32), truth


def answers_of(truth: Array, good: tuple[float, float] = (0.55, 0.95)) -> Answers:
    """Return three answers per task, by workers of different accuracies with unevenly distributed errors."""
    rng, classes = np.random.default_rng([0, 2]), np.arange(N_CLASSES)
    confusion = rng.dirichlet(np.ones(N_CLASSES), size=(N_WORKERS, N_CLASSES))  # (workers, classes, labels)
    right = rng.uniform(*good, size=(N_WORKERS, N_CLASSES))
    confusion[:, classes, classes] = 0
    confusion *= ((1 - right) / confusion.sum(axis=2))[:, :, None]
    confusion[:, classes, classes] = right
    rng = np.random.default_rng([0, 1])
    task = np.repeat(np.arange(len(truth)), 3)
    worker = np.argsort(rng.random((len(truth), N_WORKERS)), axis=1)[:, :3].ravel()
    cumulative = confusion[worker, truth[task]].cumsum(axis=1)
    label = np.minimum((rng.random((len(task), 1)) > cumulative).sum(axis=1), N_CLASSES - 1)
    return Answers.from_codes(task, worker, label, tasks=len(truth), workers=N_WORKERS, classes=N_CLASSES)


def expect(condition: Any, message: str) -> None:
    """Raise AssertionError unless the condition is true."""
    if not condition:
        raise AssertionError(message)


def expect_probabilities(proba: Any, shape: tuple[int, ...], what: str, atol: float = 1e-6) -> None:
    """Raise AssertionError unless an array has this shape and holds probabilities."""
    expect(np.shape(proba) == shape, f"{what} has shape {np.shape(proba)} instead of {shape}")
    expect(np.isfinite(proba).all(), f"{what} contains NaN or infinity")
    expect((np.asarray(proba) >= 0).all(), f"{what} contains negative numbers")
    np.testing.assert_allclose(np.sum(proba, axis=-1), 1, atol=atol, err_msg=f"the rows of {what} do not sum to 1")


def expect_equal(found: Any, wanted: Any, what: str, atol: float = 0.0) -> None:
    """Raise AssertionError unless arrays are equal, to `atol`."""
    if atol:
        np.testing.assert_allclose(found, wanted, atol=atol, err_msg=what)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=what)


@contextmanager
def expect_error(kind: type[Exception], where: str, text: str = "") -> Iterator[None]:
    """Raise AssertionError unless the block raises an error of this kind with this text."""
    try:
        yield
    except kind as error:
        expect(text in str(error), f"the error for {where} does not contain {text!r}: {error}")
        return
    message = f"{where} must raise {kind.__name__}"
    raise AssertionError(message)
