"""The base class of every model that infers the truth from answers alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from crowdwise._core.parameters import HasParameters
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers, as_answers, as_kind
from crowdwise.answers.rows import Duplicates
from crowdwise.errors import EmptyError, WeightError
from crowdwise.truth.fitted import FittedModel
from crowdwise.truth.kernels import shared
from crowdwise.truth.kernels.threads import threads_for
from crowdwise.truth.memory_check import check_memory

if TYPE_CHECKING:
    from crowdwise.truth.vote_check import VoteCheck

Array = np.ndarray[Any, np.dtype[Any]]
Callback = Callable[[int, float], None]


class TruthModel(FittedModel, HasParameters):
    """Infer the true class of each task from the workers' answers.

    A subclass implements `_fit`, which sets `proba_`. This class does the rest.

    Attributes
    ----------
    labels_ : (tasks,) array
        The inferred class of each task. Ties are broken at random with `random_state`.
    proba_ : (tasks, classes) float64 array
        Probability of each class; rows follow `tasks_`, columns follow `classes_`.
    tasks_, workers_, classes_ : arrays of ids
        The ids in the answers the model was fitted on.
    history_ : list of float
        The bound after each iteration; empty for models that do not iterate.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within `max_iter` iterations.
    """

    # Capabilities, which the generic checks and the command line read.
    uses_weights: ClassVar[bool] = True
    class_equivariant: ClassVar[bool] = True  # permuted classes permute the result
    needs_gold: ClassVar[bool] = False
    has_matrices: ClassVar[bool] = False  # one confusion matrix per worker; counted in the memory check

    codes_: Array
    gold_: Array | None
    history_: list[float]
    n_iter_: int
    converged_: bool

    def fit(self, answers: Any, gold: Any = None, *, callback: Callback | None = None) -> Self:
        """Infer the truth.

        Parameters
        ----------
        answers : Answers or data frame
            The workers' answers. A pandas, polars or Arrow table is read as `Answers.from_frame` reads it. An answer of
            weight 0 is the same as none, and is left out of `answers_`.
        gold : mapping of task to class, or codes in task order (-1 unknown), optional
            Known labels, kept fixed. `answers.truth` is used only if it is passed here.
        callback : callable, optional
            Called after each iteration with its number and the bound.
        """
        answers = check_table(answers, self.answer_kind, type(self).__name__)
        if answers.weight is not None and not self.uses_weights:
            name = str(self).partition("(")[0]
            message = f"{name} does not support answer weights; fit it on answers without weights."
            raise WeightError(message)
        self._check_flags()
        self._check_common_parameters()
        self._check_parameters()
        groups = getattr(self, "num_groups", 1)
        check_memory(type(self).__name__, answers, matrices=self.has_matrices, groups=groups)
        if answers.weight is not None and not answers.weight.all():  # else they would count for convergence and priors
            answers = answers.take(np.flatnonzero(answers.weight))
        self.answers_ = answers
        self.gold_ = None if gold is None else answers.truth_per_task(gold)
        self.history_, self.n_iter_, self.converged_ = [], 0, True
        rng = np.random.default_rng(getattr(self, "random_state", 0))
        with threads_for(answers.n_answers):
            self._fit(answers, self.gold_, rng, callback)
            self._choose_labels(rng)
        return self

    def fit_predict(self, answers: Any, gold: Any = None) -> Array:
        """Fit and return `labels_`."""
        return self.fit(answers, gold).labels_

    def partial_fit(
        self, answers: Any, gold: Any = None, *, duplicates: Duplicates = "error", restart: bool = False
    ) -> Self:
        """Add answers that arrived later, by known or new workers to known or new tasks.

        EM models continue from their present estimates, which takes few iterations. They may then end in another
        optimum than a fit on all answers, which starts from the votes: labels of uncertain tasks can differ.
        `restart=True` gives exactly the result of that fit.

        Parameters
        ----------
        answers : Answers or data frame
            The answers to add.
        gold : optional
            Further known labels, as in `fit`.
        duplicates : {"error", "first", "last", "vote"}
            Which answer counts if a worker has answered a task before ("last": the new one).
        restart : bool
            Whether to fit on all answers from the start. Use it from time to time if answers keep arriving.

        Examples
        --------
        >>> from crowdwise import Answers, DawidSkene
        >>> old = Answers.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "x", "y"])
        >>> new = Answers.from_arrays([2, 3], ["b", "a"], ["y", "x"])
        >>> DawidSkene().fit(old).partial_fit(new, restart=True).labels_.tolist()
        ['x', 'y', 'x']
        """
        if not hasattr(self, "answers_"):
            return self.fit(answers, gold)
        merged = self.answers_.merge(as_kind(answers, self.answer_kind, type(self).__name__), duplicates=duplicates)
        known = np.full(merged.n_tasks, merged.unknown, np.int32 if isinstance(merged.unknown, int) else np.float64)
        if self.gold_ is not None:
            known[: len(self.gold_)] = self.gold_
        if gold is not None:
            added = merged.truth_per_task(gold)
            known = np.where(merged.is_known(added), added, known)
        refit = self._fit_from_votes if restart else self._refit
        return refit(merged, known if merged.is_known(known).any() else None)

    def check_against_vote(self, answers: Any, gold: Any = None, *, hidden: float = 0.2, seed: int = 0) -> VoteCheck:
        """Check whether this model predicts held-out answers better than majority vote does.

        A share `hidden` of the answers is held out; the check needs no ground truth. See `crowdwise.truth.vote_check`.

        >>> from crowdwise import DawidSkene, simulate
        >>> print(DawidSkene().check_against_vote(simulate.simulate(n_tasks=500, n_workers=10, n_classes=3, seed=1)))
        Held-out answers ...
        """
        from crowdwise.truth.vote_check import check_against_vote

        return check_against_vote(self, as_answers(answers), gold, hidden=hidden, seed=seed)

    def _refit(self, answers: Answers, gold: Array | None) -> Self:
        return self.fit(answers, gold)

    def _fit_from_votes(self, answers: Answers, gold: Array | None) -> Self:
        return self.fit(answers, gold)

    @abstractmethod
    def _fit(
        self,
        answers: Answers,
        gold: Array | None,
        rng: np.random.Generator,
        callback: Callback | None,
    ) -> None:
        """Set `proba_` and the model's other fitted attributes."""

    def _choose_labels(self, rng: np.random.Generator) -> None:
        """Set `codes_`, the labels as positions in `classes_`, from what `_fit` has set."""
        self.codes_ = pick(self.proba_, rng)

    def _check_common_parameters(self) -> None:
        """Validate the constructor arguments that many models share."""
        parameters = self.get_params(deep=False)
        for name, least in (("max_iter", 1), ("n_init", 1), ("random_state", 0)):
            value = parameters.get(name, least)
            require(is_integer(value, least), name, value, f"an integer, {least} or more")
        tol = parameters.get("tol", 0.0)
        require(is_number(tol) and tol >= 0, "tol", tol, "a number, 0 or more (0 runs all max_iter iterations)")

    def _check_parameters(self) -> None:
        """Validate the model's own constructor arguments."""


def check_answers(answers: Any) -> Answers:
    """Return answers, or a table of them, as `Answers`; raise unless at least one answer has a positive weight."""
    checked: Answers = check_table(answers, Answers.kind)
    return checked


def check_table(answers: Any, kind: str, taker: str = "this function") -> Any:
    """Return a table of answers of a kind; raise unless at least one answer has a positive weight."""
    answers = as_kind(answers, kind, taker)
    if answers.n_answers == 0:
        message = "there are no answers to fit on."
        raise EmptyError(message)
    if answers.weight is not None and not answers.weight.any():
        message = f"there are no answers to fit on: all {answers.n_answers:,} have weight 0."
        raise EmptyError(message)
    return answers


def pick(proba: Array, rng: np.random.Generator) -> Array:
    """Return the most probable class of each row; ties (within 1e-12) are broken at random.

    >>> pick(np.array([[0.2, 0.8], [1.0, 0.0]]), np.random.default_rng(0)).tolist()
    [1, 0]
    """
    codes, n_tied = np.empty(len(proba), np.int32), np.empty(len(proba), np.int32)
    shared.best_classes(proba, 1e-12, codes, n_tied)
    rows = np.flatnonzero(n_tied > 1)
    if len(rows):
        tied = proba[rows] >= proba[rows].max(axis=1, keepdims=True) - 1e-12  # (rows, classes)
        which = (rng.random(len(rows)) * n_tied[rows]).astype(np.int32)
        codes[rows] = (tied.cumsum(axis=1) > which[:, None]).argmax(axis=1)
    return codes


def vote_shares(answers: Answers) -> Array:
    """Return each task's vote shares, (tasks, classes); equal shares for a task without answers."""
    shares = np.empty((answers.n_tasks, answers.n_classes))
    shared.vote_shares(answers.task_starts, answers.label, weights_of(answers), shares)
    return shares


def weights_of(answers: Answers) -> Array:
    """Return the weights in the kernels' form: an empty array means no weights."""
    return np.empty(0) if answers.weight is None else answers.weight


def fix_gold(proba: Array, gold: Array | None) -> Array:
    """Give each gold task probability 1 for its known class, in place."""
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        proba[known] = 0.0
        proba[known, gold[known]] = 1.0
    return proba
