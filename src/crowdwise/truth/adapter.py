"""`TruthAdapter`: any object with `fit(answers)` as a truth model, so that it can be used wherever one can."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np

from crowdwise._core.own_classes import remember
from crowdwise._core.parameters import is_model, unfitted
from crowdwise._core.registry import make
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold

SUMS = 1e-3  # by how much the sum of probabilities may differ from 1


class TruthAdapter(TruthModel):
    """A truth model around an object of another class.

    Parameters
    ----------
    model : object
        `fit(answers)`, or `fit(answers, gold)`, sets `proba_` (tasks, classes) or `labels_` (tasks,), in the order of
        `answers.tasks` and `answers.classes`. `confusion_` (workers, classes, classes) and `skill_` (workers,) are used
        if they are set; so are the class attributes `uses_weights` (default False) and `needs_gold`. Answers with
        weights are rejected if `uses_weights` is False. A copy is fitted, not the object itself.

    Examples
    --------
    >>> class AnyAnswer:
    ...     def fit(self, answers):
    ...         self.labels_ = answers.classes[answers.label[answers.task_starts[:-1]]]
    >>> answers = Answers.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "y", "y"])
    >>> TruthAdapter(AnyAnswer()).fit(answers).proba_.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    confusion_: Array
    skill_: Array

    proba_: Array

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def uses_weights(self) -> bool:  # type: ignore[override]
        """Whether the model uses the weights of answers."""
        return bool(getattr(self.model, "uses_weights", False))

    @property
    def class_equivariant(self) -> bool:  # type: ignore[override]
        """Whether permuted classes permute the result, as the class says."""
        return bool(getattr(self.model, "class_equivariant", True))

    @property
    def needs_gold(self) -> bool:  # type: ignore[override]
        """Whether the model cannot be fitted without known labels."""
        return bool(getattr(self.model, "needs_gold", False))

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        remember(type(self.model))
        model = fresh(self.model)
        options = {"gold": gold} if gold is not None and "gold" in fit_options(model) else {}
        model.fit(answers, **options)
        name, sizes = type(model).__name__, (answers.n_tasks, answers.n_classes)
        if (proba := getattr(model, "proba_", None)) is None:
            proba = one_hot(getattr(model, "labels_", None), answers, name)
        self.proba_ = fix_gold(as_probabilities(proba, sizes, f"{name}.proba_"), gold)
        confusion, skill = getattr(model, "confusion_", None), getattr(model, "skill_", None)
        if confusion is not None:
            shape = (answers.n_workers, answers.n_classes, answers.n_classes)
            self.confusion_ = as_probabilities(confusion, shape, f"{name}.confusion_")
        if skill is not None:
            self.skill_ = np.asarray(skill, dtype=float)

    def __repr__(self) -> str:
        return display(self.model)


def as_truth_model(model: Any, what: str = "model") -> TruthModel:
    """Return a truth model from one, its name, or an object with `fit(answers)`; `what` names it in the error."""
    found = make(model) if isinstance(model, str) else model
    if isinstance(found, TruthModel):
        return found
    if is_own(found) and not hasattr(found, "predict_proba"):
        return TruthAdapter(found)
    message = f"{what}={model!r:.80}: use a truth model such as DawidSkene(), its name, or an object with fit(answers)."
    raise ParameterError(message)


def is_own(model: Any) -> bool:
    """Return whether this is an object that can be fitted."""
    return not isinstance(model, type) and callable(getattr(model, "fit", None))


def fresh(model: Any) -> Any:
    """Return a copy to fit."""
    return unfitted(model) if is_model(model) else copy.deepcopy(model)


def fit_options(model: Any) -> set[str]:
    """Return the names of the arguments that `model.fit` takes."""
    return set(inspect.signature(model.fit).parameters)


def one_hot(labels: Any, answers: Answers, name: str) -> Array:
    """Return labels, class ids (tasks,), as probabilities (tasks, classes)."""
    if labels is None:
        message = f"after {name}.fit, neither proba_ nor labels_ is set."
        raise ParameterError(message)
    if np.shape(labels) != (answers.n_tasks,):
        message = f"{name}.labels_ has shape {np.shape(labels)}; it needs one label per task, {answers.n_tasks}."
        raise ParameterError(message)
    return np.eye(answers.n_classes)[answers.codes_of_truth((answers.tasks, labels))]


def as_probabilities(values: Any, shape: tuple[int, ...], what: str) -> Array:
    """Return an array of probabilities whose rows sum to exactly 1; `what` names it in errors."""
    array = np.asarray(values, dtype=float)
    if array.shape != shape:
        message = f"{what} has shape {array.shape}; it needs {shape}, in the order of the answers."
        raise ParameterError(message)
    total = array.sum(axis=-1, keepdims=True)
    if not (np.isfinite(array).all() and (array >= 0).all() and (np.abs(total - 1) < SUMS).all()):
        message = f"{what} does not hold probabilities: each row must be 0 or more and sum to 1."
        raise ParameterError(message)
    return array / total


def display(model: Any) -> str:
    """Return the display of an object, without the address that Python shows by default."""
    own = getattr(type(model), "__repr__", None) is not object.__repr__
    return repr(model) if own else f"{type(model).__name__}()"
