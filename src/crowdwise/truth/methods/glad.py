"""GLAD, Whitehill et al. (2009): EM estimates the ability of each worker, the difficulty of each task, and the truth.

    truth[t] ~ Categorical(class_prior)                                   t = task
    P(label[a] right) = sigmoid(x[a]),  x[a] = ability[w] * exp(b[t])     a = answer, by worker w to task t
    P(label[a] = one particular wrong class) = (1 - sigmoid(x[a])) / (classes - 1)
    ability[w] ~ N(1, 1),  b[t] ~ N(1, 1)

    paper   alpha_i = ability      beta_j = exp(b) = easiness (the text calls it difficulty, which is 1 / beta)

    E   proba[t, c] proportional to class_prior[c] * exp(sum over a to t that say c of x[a] + log(classes - 1)),
        since an answer favours only the class it names;  right[a] = proba[task[a], label[a]]
    M   raise Q = sum over a of  right[a] * x[a] - log(1 + exp(x[a]))  + log priors:
        dQ / d ability[w] = sum over w's answers of (right[a] - sigmoid(x[a])) * exp(b[t])  - (ability[w] - 1)
        dQ / d b[t]       = sum over t's answers of (right[a] - sigmoid(x[a])) * x[a]       - (b[t] - 1)

    bound = log-likelihood of the answers + log priors (up to a constant)

Whitehill, Ruvolo, Wu, Bergsma and Movellan, "Whose vote should count more", NIPS 2009. The gradient printed in its
appendix carries a stray log(classes - 1); the one above is checked against finite differences. Given the abilities, Q
is a sum of functions of one b each, and the other way round. So the M-step takes one safe Newton step in every b, then
in every ability, instead of the paper's conjugate gradient over all of them; each pass costs as much as an E-step.
Difficulty is hard to estimate from few answers: with two or three per task it mostly reflects their agreement.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, weights_of
from crowdwise.truth.em import EMModel
from crowdwise.truth.kernels import shared
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.kernels.threads import compiled, run


class Work(NamedTuple):
    """Arrays of one fit."""

    answers: Answers
    weight: Array  # (answers,), empty if answers have no weights
    gold: Array | None
    log_wrong: float  # log of the number of wrong classes
    means: tuple[Array, Array]  # prior means of ability (workers,) and log-easiness (tasks,)
    scores: Array  # (tasks, classes): log weights, then posteriors


class Parameters(NamedTuple):
    """The parameters that EM estimates."""

    class_prior: Array  # (classes,)
    ability: Array  # (workers,)
    log_easiness: Array  # (tasks,): b


class GLAD(EMModel):
    """Worker ability and task difficulty, estimated together with the truth by EM.

    Parameters
    ----------
    class_prior : {"uniform", "estimated"} or (classes,) array
        Share of each class before any answer; "uniform" as in the paper.
    ability_mean, log_easiness_mean : float or array
        Means of the normal priors (of variance 1) on each worker's ability and each task's log-easiness.
    max_iter, tol, n_init, warm_start, random_state
        As in `DawidSkene`.

    Attributes
    ----------
    ability_ : (workers,) array
        Ability of each worker: 0 is guessing, below 0 is adversarial.
    easiness_, difficulty_ : (tasks,) arrays
        exp(b) and its inverse.
    class_prior_ : (classes,) array

    Examples
    --------
    >>> from crowdwise import GLAD, Answers
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> glad = GLAD().fit(answers)
    >>> glad.labels_.tolist(), bool(glad.difficulty_[0] > glad.difficulty_[1])
    (['x', 'y'], True)
    """

    def __init__(
        self,
        class_prior: Literal["uniform", "estimated"] | Array = "uniform",
        *,
        ability_mean: float | Array = 1.0,
        log_easiness_mean: float | Array = 1.0,
        max_iter: int = 500,
        tol: float = 1e-6,
        n_init: int = 1,
        warm_start: bool = False,
        random_state: int = 0,
    ) -> None:
        self.class_prior = class_prior
        self.ability_mean = ability_mean
        self.log_easiness_mean = log_easiness_mean
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state

    ability_: Array
    easiness_: Array
    class_prior_: Array

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.class_prior, str):
            known = self.class_prior in ("uniform", "estimated")
            require(known, "class_prior", self.class_prior, "'uniform', 'estimated' or shares of the classes")

    def _prepare(self, answers: Answers, gold: Array | None) -> Work:
        means = (
            _means("ability_mean", self.ability_mean, answers.n_workers),
            _means("log_easiness_mean", self.log_easiness_mean, answers.n_tasks),
        )
        log_wrong = float(np.log(max(answers.n_classes - 1, 1)))  # one class: wrong is a class no worker chose
        return Work(
            answers, weights_of(answers), gold, log_wrong, means, np.empty((answers.n_tasks, answers.n_classes))
        )

    def _initialise(self, work: Work, proba: Array) -> Parameters:
        start = Parameters(self._first_class_prior(work.answers.n_classes), work.means[0], work.means[1])
        return self._m_step(work, proba, start)

    def _first_class_prior(self, n_classes: int) -> Array:
        if isinstance(self.class_prior, str):
            return np.full(n_classes, 1 / n_classes)
        shares = np.asarray(self.class_prior, dtype=float)
        fits = shares.shape == (n_classes,) and bool((shares >= 0).all() and np.isfinite(shares).all())
        require(fits and shares.sum() > 0, "class_prior", self.class_prior, f"{n_classes} shares, none below 0")
        return np.maximum(shares / shares.sum(), FLOOR)

    def _e_step(self, work: Work, parameters: Parameters) -> tuple[Array, float]:
        log_likelihood = posteriors(work, parameters)
        return work.scores, log_likelihood + log_prior(work, parameters)

    def _m_step(self, work: Work, statistics: Array, parameters: Parameters) -> Parameters:
        answers, proba = work.answers, statistics
        right = np.empty(answers.n_answers)  # probability that each answer is right
        run(answer_probabilities, answers.n_tasks, answers.task_starts, answers.label, proba, right)
        ability, log_easiness = parameters.ability.copy(), parameters.log_easiness.copy()
        in_order = np.empty(0, np.int64)  # no row index needed: answers are sorted by task
        run(
            newton, answers.n_tasks, answers.task_starts, in_order, answers.worker, ability, work.weight, right,
            work.means[1], True, log_easiness,
        )  # fmt: skip
        run(
            newton, answers.n_workers, answers.worker_starts, answers.by_worker, answers.task, np.exp(log_easiness),
            work.weight, right, work.means[0], False, ability,
        )  # fmt: skip
        class_prior = parameters.class_prior
        if isinstance(self.class_prior, str) and self.class_prior == "estimated":
            class_prior = np.maximum(proba.mean(axis=0), FLOOR)
        return Parameters(class_prior, ability, log_easiness)

    def _posterior(self, work: Work, parameters: Parameters) -> Array:
        posteriors(work, parameters)
        return work.scores

    def _store(self, work: Work, parameters: Parameters) -> None:
        self.class_prior_, self.ability_ = parameters.class_prior, parameters.ability
        self.easiness_ = np.exp(parameters.log_easiness)

    @property
    def difficulty_(self) -> Array:
        """How hard each task is: the inverse of `easiness_`."""
        return 1 / self.easiness_


def _means(name: str, mean: float | Array, n: int) -> Array:
    values = np.asarray(mean, dtype=float)
    fits = values.shape in ((), (n,)) and bool(np.isfinite(values).all())
    require(fits, name, mean, f"a finite number, or an array of {n}")
    return np.ascontiguousarray(np.broadcast_to(values, (n,)))


def posteriors(work: Work, parameters: Parameters) -> float:
    """Set `work.scores` to the posteriors (tasks, classes) and return the log-likelihood of the answers."""
    answers = work.answers
    rest = np.empty(answers.n_tasks)
    run(
        task_scores, answers.n_tasks, answers.task_starts, answers.worker, answers.label, work.weight,
        parameters.ability, np.exp(parameters.log_easiness), work.log_wrong, work.scores, rest,
    )  # fmt: skip
    work.scores[:] += np.log(parameters.class_prior)
    if work.gold is not None:
        known = np.flatnonzero(work.gold >= 0)
        right = work.gold[known, None] == np.arange(answers.n_classes)
        work.scores[known] = np.where(right, work.scores[known], -np.inf)
    log_sum = np.empty(answers.n_tasks)
    shared.softmax_rows(work.scores, log_sum)
    return float(log_sum.sum() + rest.sum())


def log_prior(work: Work, parameters: Parameters) -> float:
    """Return the log prior density of abilities and log-easiness, up to a constant."""
    ability, log_easiness = parameters.ability - work.means[0], parameters.log_easiness - work.means[1]
    return float(-0.5 * (ability @ ability + log_easiness @ log_easiness))


@compiled
def softplus(x: float) -> float:
    """log(1 + exp(x)), for any x."""
    return max(x, 0.0) + np.log1p(np.exp(-abs(x)))


@compiled
def answer_probabilities(first: int, end: int, starts: Array, label: Array, proba: Array, right: Array) -> None:
    """Set right[a] = proba[task[a], label[a]] for the answers to tasks first to end."""
    for t in range(first, end):
        for a in range(starts[t], starts[t + 1]):
            right[a] = proba[t, label[a]]


@compiled
def task_scores(
    first: int, end: int, starts: Array, worker: Array, label: Array, weight: Array, ability: Array, easiness: Array,
    log_wrong: float, scores: Array, rest: Array,
) -> None:  # fmt: skip
    """Set the log weights that a task's answers add to the classes they name (`scores`) and to every class (`rest`)."""
    for t in range(first, end):
        scores[t, :] = 0.0
        total = 0.0
        for a in range(starts[t], starts[t + 1]):
            x = ability[worker[a]] * easiness[t]
            w = weight[a] if weight.shape[0] else 1.0
            scores[t, label[a]] += w * (x + log_wrong)
            total -= w * (softplus(x) + log_wrong)
        rest[t] = total


@compiled
def newton(
    first: int, end: int, starts: Array, rows: Array, partner: Array, factor: Array, weight: Array, right: Array,
    mean: Array, exponential: bool, value: Array,
) -> None:  # fmt: skip
    """Take one Newton step in each value z, halved until the terms of Q in z do not fall.

    No term of Q contains two of the values, so all can move at once. z is a log-easiness with x = factor * exp(z)
    (`exponential`), or an ability with x = factor * z. Its answers are `rows[starts[i]:starts[i + 1]]` (or the range
    itself, if `rows` is empty), each with the factor of its partner.
    """
    for i in range(first, end):
        z = value[i]
        scale = np.exp(z) if exponential else z
        before = -0.5 * (z - mean[i]) ** 2
        slope, curve = mean[i] - z, 1.0
        for r in range(starts[i], starts[i + 1]):
            a = rows[r] if rows.shape[0] else r
            w = weight[a] if weight.shape[0] else 1.0
            x = factor[partner[a]] * scale
            p = 1.0 / (1.0 + np.exp(-x))
            dx = x if exponential else factor[partner[a]]
            before += w * (right[a] * x - softplus(x))
            slope += w * (right[a] - p) * dx
            curve += w * p * (1.0 - p) * dx * dx  # expected curvature: above zero, unlike that of Q in b
        step = min(max(slope / curve, -1.0), 1.0)
        for _ in range(30):  # halve until Q does not fall; mostly the first step is accepted
            tried = z + step
            scale = np.exp(tried) if exponential else tried
            after = -0.5 * (tried - mean[i]) ** 2
            for r in range(starts[i], starts[i + 1]):
                a = rows[r] if rows.shape[0] else r
                x = factor[partner[a]] * scale
                after += (weight[a] if weight.shape[0] else 1.0) * (right[a] * x - softplus(x))
            if after >= before:
                value[i] = tried
                break
            step *= 0.5
