"""The base class of every model that infers the true value of a task from ratings."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from scipy import special

from crowdwise._core.registry import methods
from crowdwise._core.validation import is_number, require
from crowdwise.answers import Ratings
from crowdwise.errors import AnswerKindError, ParameterError
from crowdwise.truth.base import Array, TruthModel, check_table

LEAST_ERROR = 1e-9  # standard error of a known value, relative to the range of the ratings


class RatingModel(TruthModel):
    """Infer the true value of each task from ratings: levels of a scale, or numbers.

    A subclass implements `_fit`, which sets `value_` and `standard_error_`, and `proba_` if it has the probability of
    each level; otherwise, on a scale, this class derives `proba_` from the two.

    Attributes
    ----------
    labels_ : (tasks,) array
        The inferred value: a level of the scale, or a number.
    value_ : (tasks,) float64 array
        The estimated value; on a scale, it need not be a level.
    standard_error_ : (tasks,) float64 array
        Standard error of `value_`.
    proba_ : (tasks, levels) float64 array
        Probability of each level, on a scale only.
    """

    answer_kind: ClassVar[str] = "ratings"
    levels_only: ClassVar[bool] = False  # True if it needs the levels of a scale
    degrees_: Array | None = None  # (tasks,) degrees of freedom of the intervals; None means normal
    value_: Array
    standard_error_: Array

    codes_: Array
    proba_: Array

    def fit(self, answers: Any, gold: Any = None, **options: Any) -> Any:
        """Infer the truth; see `TruthModel.fit`. Gold is a value per task."""
        answers = check_table(answers, self.answer_kind, type(self).__name__)
        if self.levels_only and answers.numeric:
            fitting = ", ".join(method.name for method in methods("ratings") if not method.load().levels_only)  # type: ignore[attr-defined]
            message = (
                f"{type(self).__name__} takes levels of a scale, but these ratings are numbers. Methods for numbers: "
                f"{fitting}. If they are a scale, name its levels: levels=[...] (--levels)."
            )
            raise AnswerKindError(message)
        self.__dict__.pop("proba_", None)
        return super().fit(answers, gold, **options)

    @property
    def labels_(self) -> Array:
        """The inferred value of each task: a level of the scale, or a number."""
        return self.value_ if self._ratings.numeric else self._ratings.levels[self.codes_]

    @property
    def _ratings(self) -> Ratings:
        ratings: Any = self._fitted
        assert isinstance(ratings, Ratings)
        return ratings

    @property
    def confidence_(self) -> Array:
        """Probability of each label, (tasks,); for ratings on a scale."""
        if self._ratings.numeric:
            message = "numbers have no confidence, since no number is exactly right. Use `interval()`."
            raise ParameterError(message)
        return self.proba_[np.arange(len(self.codes_)), self.codes_]

    def interval(self, level: float = 0.9, *, of: Literal["crowd", "expert"] = "crowd") -> Array:
        """Return an interval that contains the true value with this probability, (tasks, 2): lower and upper end.

        On a scale, the ends are levels (positions of named ones): those below and above are excluded with at most half
        of the remaining probability each.

        Parameters
        ----------
        level : float
            Probability that the interval contains the value.
        of : {"crowd", "expert"}
            For numbers: whether the value is on the scale of the average worker, or on that of somebody else, whose
            bias and stretch are as unknown as those of one more worker. "expert" needs `GaussianWorkers` or
            `StudentWorkers`, which estimate how much workers differ.
        """
        require(is_number(level) and 0 < level < 1, "level", level, "a probability between 0 and 1")
        require(of in ("crowd", "expert"), "of", of, "'crowd' or 'expert'")
        tail = (1 - level) / 2
        if not self._ratings.numeric:
            below = self.proba_.cumsum(axis=1)  # (tasks, levels)
            low = (below > tail).argmax(axis=1)
            high = (below >= 1 - tail - 1e-12).argmax(axis=1)
            return np.stack([self._ratings.values[low], self._ratings.values[high]], axis=1)
        width = -special.ndtri(tail) if self.degrees_ is None else -special.stdtrit(self.degrees_, tail)
        half = width * np.hypot(self.standard_error_, self._error_of_expert() if of == "expert" else 0)
        return np.stack([self.value_ - half, self.value_ + half], axis=1)

    # For subclasses

    def _error_of_expert(self) -> Array:
        """Return the standard deviation over people of how they would rate each task without noise, (tasks,)."""
        message = f"{type(self).__name__} does not estimate how much workers differ. Use GaussianWorkers."
        raise ParameterError(message)

    def _choose_labels(self, rng: np.random.Generator) -> None:
        """Set `codes_`: on a scale the median of `proba_`, which has the least expected error; else the nearest."""
        ratings = self._ratings
        if ratings.numeric:
            self.codes_ = ratings.nearest(self.value_)
            return
        if "proba_" not in self.__dict__:
            self.proba_ = level_probabilities(self.value_, self.standard_error_, ratings.values)
            self.codes_ = _nearest_level(self.value_, ratings, rng)
        else:
            self.codes_ = (self.proba_.cumsum(axis=1) > 0.5 - 1e-9).argmax(axis=1).astype(np.int32)

    def _fix_gold(self, gold: Array | None) -> None:
        """Give each gold task its known value."""
        if gold is not None:
            known = np.isfinite(gold)
            span = float(np.ptp(self._ratings.values)) or 1.0
            self.value_[known], self.standard_error_[known] = gold[known], LEAST_ERROR * span


def level_probabilities(value: Array, error: Array, levels: Array) -> Array:
    """Return the probability of each level, (tasks, levels), of a normal distribution cut halfway between levels.

    >>> level_probabilities(np.array([2.0]), np.array([0.5]), np.array([1.0, 2.0, 3.0])).round(2)
    array([[0.16, 0.68, 0.16]])
    """
    edges = (levels[1:] + levels[:-1]) / 2
    below = special.ndtr((edges - value[:, None]) / np.maximum(error, 1e-12)[:, None])  # (tasks, levels - 1)
    return np.diff(below, prepend=0.0, append=1.0, axis=1)


def _nearest_level(value: Array, ratings: Ratings, rng: np.random.Generator) -> Array:
    """Return the code of the level closest to each value; of two equally close ones, a random one."""
    edges = (ratings.values[1:] + ratings.values[:-1]) / 2
    low, high = (np.searchsorted(edges, value + shift, side="left") for shift in (-1e-9, 1e-9))
    return np.where(rng.random(len(value)) < 0.5, low, high).astype(np.int32)


def task_weights(ratings: Ratings) -> Array:
    """Return the weight of each answer, (answers,)."""
    return np.ones(ratings.n_answers) if ratings.weight is None else ratings.weight
