"""Workers whose errors depend on the task: the piece of joint EM behind the difficulty models (see `difficulty`)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.joint_em.engine import posterior_of
from crowdwise.truth.base import vote_shares
from crowdwise.truth.kernels.shared import FLOOR

Climb = Literal["newton"] | tuple[int, float] | None

LARGEST = 100.0  # of lambda: a worker who never errs would have it infinite


def easiness(p: Array) -> Array:
    """How clear each task is, (tasks,), from class probabilities (tasks, classes).

    >>> easiness(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [0.0, 0.25]
    """
    return (np.square(p).sum(axis=1) - 1 / p.shape[1]) / 2


class DifficultyWorkers:
    """How workers answer, given the truth and the easiness of the task: a piece of joint EM (see `em.Workers`).

    Parameters
    ----------
    answers : Answers
    source : {"classifier", "posterior", "votes"}
        Whose doubts make a task difficult.
    prior : {"classifier", "votes"}
        What the E-step starts from. "votes" counts the answers twice, as the paper's Algorithm 3 prints it.
    signed : bool
        Whether lambda may be negative: workers worse than chance.
    pseudo : (right, wrong) or None
        Pseudo-answers added for each worker and class on a task of average easiness.
    weight : (tasks,) array or None
    climb : "newton", (steps, rate) or None
        How lambda is fitted in a round: to its best, by some steps of gradient ascent, or never after its start.
    """

    def __init__(
        self,
        answers: Answers,
        *,
        source: Literal["classifier", "posterior", "votes"],
        prior: Literal["classifier", "votes"],
        signed: bool,
        pseudo: tuple[float, float] | None,
        weight: Array | None,
        climb: Climb = "newton",
    ) -> None:
        self.answers, self.source, self.prior, self.signed, self.pseudo = answers, source, prior, signed, pseudo
        self.task_weight, self.climb = weight, climb
        self.votes = vote_shares(answers)
        self.belief = self.votes  # the last posterior
        self.weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
        self.strength: Array | None = None  # lambda, (workers, classes)
        self.right = answers.label[:, None] == np.arange(answers.n_classes)  # (answers, classes)
        self.mean_easiness = self.prior_easiness = 0.0

    def easiness(self, f: Array) -> Array:
        """Easiness of each training task."""
        return easiness({"classifier": f, "posterior": self.belief, "votes": self.votes}[self.source])

    def fit(self, proba: Array, f: Array) -> None:  # noqa: D102
        self.belief = proba
        a, easy = self.answers, self.easiness(f)[self.answers.task]  # (answers,)
        mass = proba[a.task] * self.weight[:, None]  # (answers, classes)
        if self.task_weight is not None:
            mass *= self.task_weight[a.task, None]
        self.mean_easiness = float(max(easy.mean(), 1e-6))
        if self.strength is None:
            self.strength = self._first(mass)
            # fixed once, or the bound would be that of another prior each time
            self.prior_easiness = self.mean_easiness
        given = a.worker, easy, self.right, mass, a.n_classes
        options: Any = {"signed": self.signed, "pseudo": self.pseudo, "at": self.prior_easiness}
        if self.climb == "newton":
            self.strength = climb_strength(self.strength, *given, **options)
        elif self.climb is not None:
            self.strength = ascend_strength(self.strength, *given, **options, steps=self.climb[0], rate=self.climb[1])

    def _first(self, mass: Array) -> Array:
        """First lambda, from each worker's accuracy, were all tasks as easy as can be."""
        a = self.answers
        hits = _by_worker(a.worker, mass * self.right, a.n_workers)
        share = (hits + 0.5) / (_by_worker(a.worker, mass, a.n_workers) + 1)
        return strength_of(np.clip(share, 0.51, 0.99))

    def log_likelihoods(self, easy: Array) -> Array:
        """Log P(label[a] | worker[a], truth c), (answers, classes), at this easiness of each answer's task."""
        assert self.strength is not None
        return said(self.strength[self.answers.worker] * easy[:, None], self.right, self.answers.n_classes)

    def posterior(self, f: Array, gold: Array | None) -> tuple[Array, float]:  # noqa: D102
        a = self.answers
        start = f if self.prior == "classifier" else np.maximum(self.votes, FLOOR)
        each = self.log_likelihoods(self.easiness(f)[a.task]) * self.weight[:, None]
        return posterior_of(each, start, a, gold, self.task_weight)

    def log_likelihood(self, f: Array, gold: Array | None) -> Array:  # noqa: D102
        each = self.log_likelihoods(self.easiness(f)[self.answers.task]) * self.weight[:, None]
        with np.errstate(divide="ignore"):  # what is known, or cannot be, has no chance at all
            return np.log(posterior_of(each, np.ones_like(f), self.answers, gold, None)[0])

    def log_prior(self) -> float:  # noqa: D102
        if self.pseudo is None:
            return 0.0
        assert self.strength is not None
        right, wrong = (said(self.strength * self.prior_easiness, hit, self.answers.n_classes) for hit in (True, False))
        return float((self.pseudo[0] * right + self.pseudo[1] * wrong).sum())

    def confusion(self) -> Array:
        """P(worker w says l | truth c) as [w, c, l], on a task of average easiness."""
        assert self.strength is not None
        return confusion_at(self.strength, np.array(self.mean_easiness), self.answers.n_classes)


def strength_of(skill: Array) -> Array:
    """Lambda (workers, classes) of workers right this often on the clearest tasks: 4 logit(skill) for two classes.

    >>> strength_of(np.array([[0.5, 0.8]])).round(3).tolist()
    [[0.0, 5.545]]
    """
    n_classes = skill.shape[1]
    return (np.log(skill / (1 - skill)) + np.log(n_classes - 1)) / _clearest(n_classes)


def skill_of(strength: Array) -> Array:
    """How often workers are right on the clearest tasks, (workers, classes): sigmoid(lambda / 4) for two classes.

    >>> skill_of(strength_of(np.array([[0.5, 0.8]]))).round(3).tolist()
    [[0.5, 0.8]]
    """
    n_classes = strength.shape[1]
    return np.exp(said(strength * _clearest(n_classes), True, n_classes))


def _clearest(n_classes: int) -> float:
    """Easiness of a task that is certain."""
    return 0.5 * (1 - 1 / n_classes)


def said(pull: Array, right: Any, n_classes: int) -> Array:
    """Log P of an answer that is right, or one wrong label, where pull = lambda * d."""
    total = np.logaddexp(pull, np.log(n_classes - 1))
    return np.where(right, pull - total, -total)


def confusion_at(strength: Array, easy: Array, n_classes: int) -> Array:
    """P(label l | truth c) as [..., c, l] for lambda [..., c] at some easiness."""
    pull = strength * easy[..., None]
    wrong = np.exp(said(pull, np.array(False), n_classes))  # (..., classes)
    out = np.repeat(wrong[..., None], n_classes, axis=-1)
    diagonal = np.arange(n_classes)
    out[..., diagonal, diagonal] = np.exp(said(pull, np.array(True), n_classes))
    return out


def climb_strength(
    strength: Array,
    worker: Array,
    easy: Array,
    right: Array,
    mass: Array,
    n_classes: int,
    *,
    signed: bool,
    pseudo: tuple[float, float] | None,
    at: float,
    steps: int = 20,
) -> Array:
    """Newton's method on the expected log-likelihood, for all workers and classes at once; never downhill."""
    n_workers = len(strength)
    lowest = -LARGEST if signed else 0.0

    def value(s: Array) -> Array:
        out = _by_worker(worker, mass * said(s[worker] * easy[:, None], right, n_classes), n_workers)
        if pseudo is not None:
            out += pseudo[0] * said(s * at, True, n_classes) + pseudo[1] * said(s * at, False, n_classes)
        return out

    best = value(strength)  # (workers, classes): each has its own maximum
    for _ in range(steps):
        slope, curve = _slope(strength, worker, easy, right, mass, n_classes, pseudo, at)
        step = np.clip(slope / np.maximum(curve, 1e-9), -20, 20)
        step = np.clip(strength + step, lowest, LARGEST) - strength
        open_ = np.abs(step) > 1e-6 * (1 + np.abs(strength))  # cells that are not at their best yet
        if not open_.any():
            break
        for _ in range(20):  # halve what overshoots
            trial = np.where(open_, strength + step, strength)
            found = value(trial)
            better = open_ & (found > best)
            strength, best = np.where(better, trial, strength), np.where(better, found, best)
            open_ &= ~better
            if not open_.any():
                break
            step /= 2
            open_ &= np.abs(step) > 1e-6 * (1 + np.abs(strength))
    return strength


def ascend_strength(
    strength: Array,
    worker: Array,
    easy: Array,
    right: Array,
    mass: Array,
    n_classes: int,
    *,
    signed: bool,
    pseudo: tuple[float, float] | None,
    at: float,
    steps: int,
    rate: float,
) -> Array:
    """Some steps of gradient ascent on the expected log-likelihood of all answers: the paper's Algorithm 1."""
    for _ in range(steps):
        slope, _ = _slope(strength, worker, easy, right, mass, n_classes, pseudo, at)
        strength = np.clip(strength + rate * slope, -LARGEST if signed else 0.0, LARGEST)
    return strength


def _slope(
    strength: Array,
    worker: Array,
    easy: Array,
    right: Array,
    mass: Array,
    n_classes: int,
    pseudo: tuple[float, float] | None,
    at: float,
) -> tuple[Array, Array]:
    """First and minus second derivatives of the expected log-likelihood by lambda, (workers, classes) each."""
    n_workers = len(strength)
    hit = np.exp(said(strength[worker] * easy[:, None], True, n_classes))  # (answers, classes)
    slope = _by_worker(worker, mass * easy[:, None] * (right - hit), n_workers)
    curve = _by_worker(worker, mass * np.square(easy)[:, None] * hit * (1 - hit), n_workers)
    if pseudo is not None:
        hit = np.exp(said(strength * at, True, n_classes))
        slope += at * (pseudo[0] - (pseudo[0] + pseudo[1]) * hit)
        curve += at**2 * (pseudo[0] + pseudo[1]) * hit * (1 - hit)
    return slope, curve


def _by_worker(worker: Array, values: Array, n_workers: int) -> Array:
    """Sums of values (answers, classes) over each worker's answers, (workers, classes)."""
    return np.stack([np.bincount(worker, column, minlength=n_workers) for column in values.T], axis=1)
