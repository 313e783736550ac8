"""Attributes that every fitted model has, truth model or learner: its labels, and the ids it was fitted on."""

from __future__ import annotations

import inspect
import os
from typing import Any, ClassVar

import numpy as np

from crowdwise._core.own_classes import remember
from crowdwise.answers import Answers
from crowdwise.errors import NotFittedError, ParameterError

Array = np.ndarray[Any, np.dtype[Any]]


class FittedModel:
    """Labels and ids of a fitted model, and saving to disk."""

    answer_kind: ClassVar[str] = "classes"  # kind of the answers that it takes
    answers_: Answers
    proba_: Array  # (tasks, classes)
    codes_: Array  # labels_ as positions in classes_

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        remember(cls)

    @property
    def labels_(self) -> Array:
        """The class of each task the model was fitted on."""
        return self._fitted.classes[self.codes_]

    @property
    def tasks_(self) -> Array:
        """Ids of the tasks, in the order of the rows of `proba_`."""
        return self._fitted.tasks

    @property
    def workers_(self) -> Array:
        """Ids of the workers."""
        return self._fitted.workers

    @property
    def classes_(self) -> Array:
        """The classes, in the order of the columns of `proba_`."""
        return self._fitted.classes

    @property
    def _fitted(self) -> Answers:
        """The answers the model was fitted on; raises NotFittedError before a fit."""
        return self.answers_

    def __getattr__(self, name: str) -> Any:
        """Raise NotFittedError for a fitted attribute before a fit, AttributeError otherwise."""
        is_fitted_attribute = name == "_fitted" or (name.endswith("_") and not name.startswith("_"))
        if is_fitted_attribute and "answers_" not in self.__dict__:
            message = f"this {type(self).__name__} is not fitted yet; call fit first."
            raise NotFittedError(message)
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message)

    def _check_flags(self) -> None:
        """Require True or False for boolean arguments: any text, even "no", would count as true."""
        for name, parameter in inspect.signature(type(self).__init__).parameters.items():
            value = getattr(self, name, parameter.default)
            if isinstance(parameter.default, bool) and not isinstance(value, (bool, np.bool_)):
                message = f"{name}={value!r}: use True or False."
                raise ParameterError(message)

    def __sklearn_is_fitted__(self) -> bool:
        return "answers_" in self.__dict__

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; `crowdwise.load` reads it without executing any code."""
        from crowdwise.io.model_files import save

        save(self, path)
