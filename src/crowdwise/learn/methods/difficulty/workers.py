"""The worker model of the difficulty models: errors depend on the easiness of the task (equations in `models`)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.joint_em.engine import task_posteriors
from crowdwise.truth.base import vote_shares
from crowdwise.truth.kernels.shared import FLOOR

StrengthUpdate = Literal["newton"] | tuple[int, float] | None

LARGEST = 100.0  # upper limit of lambda, which would be infinite for a worker who never errs


def easiness(p: Array) -> Array:
    """Return the easiness of each task, (tasks,), from class probabilities (tasks, classes).

    >>> easiness(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [0.0, 0.25]
    """
    return (np.square(p).sum(axis=1) - 1 / p.shape[1]) / 2


class DifficultyWorkers:
    """How workers answer, given the truth and the easiness of the task; see `engine.Workers`.

    Parameters
    ----------
    answers : Answers
    source : {"classifier", "posterior", "votes"}
        Whose uncertainty defines the difficulty.
    prior : {"classifier", "votes"}
        The prior of each task in the E-step. "votes" counts the answers twice, as in the paper's Algorithm 3.
    signed : bool
        Whether lambda may be negative, for workers worse than chance.
    pseudo : (right, wrong) or None
        Pseudo-answers per worker and class, on a task of average easiness.
    weight : (tasks,) array or None
    climb : "newton", (steps, rate) or None
        How lambda is updated in a round: to its optimum, by some steps of gradient ascent, or never.
    """

    answers: Answers
    mean_easiness: float
    prior_easiness: float
    signed: bool
    task_weight: Array | None
    weight: Array | Array

    def __init__(
        self,
        answers: Answers,
        *,
        source: Literal["classifier", "posterior", "votes"],
        prior: Literal["classifier", "votes"],
        signed: bool,
        pseudo: tuple[float, float] | None,
        weight: Array | None,
        climb: StrengthUpdate = None,
    ) -> None:
        self.answers, self.source, self.prior, self.signed, self.pseudo = answers, source, prior, signed, pseudo
        self.task_weight, self.climb = weight, climb
        self.votes: Array = vote_shares(answers)
        self.belief: Array = self.votes  # the last posterior
        self.weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
        self.strength: Array | None = None  # lambda, (workers, classes)
        self.right: Any = answers.label[:, None] == np.arange(answers.n_classes)  # (answers, classes)
        self.mean_easiness = self.prior_easiness = 0.0

    def easiness(self, f: Array) -> Array:
        """Return the easiness of each training task."""
        return easiness({"classifier": f, "posterior": self.belief, "votes": self.votes}[self.source])

    def fit(self, proba: Array, f: Array) -> None:  # noqa: D102
        self.belief = proba
        a, easy = self.answers, self.easiness(f)[self.answers.task]  # (answers,)
        mass = self._mass(proba)
        self.mean_easiness = float(max(easy.mean(), 1e-6))
        if self.strength is None:
            self.strength = self._initial_strength(mass)
            # set once: otherwise the bound would refer to a different prior in each round
            self.prior_easiness = self.mean_easiness
        data = a.worker, easy, self.right, mass, a.n_classes
        options: Any = {"signed": self.signed, "pseudo": self.pseudo, "at": self.prior_easiness}
        if self.climb == "newton":
            self.strength = newton_strength(self.strength, *data, **options)
        elif self.climb is not None:
            self.strength = gradient_strength(self.strength, *data, **options, steps=self.climb[0], rate=self.climb[1])

    def skill(self, proba: Array) -> Array:
        """Return the accuracy of each worker on the easiest tasks, (workers, classes), given the final posteriors.

        A lambda that does not climb belongs to the votes, which are wrong more often on hard tasks. The optimal lambda
        is then computed once, with the difficulty from the posteriors: that from the votes overrates all workers.
        """
        assert self.strength is not None
        if self.climb is not None:
            return skill_from_strength(self.strength)
        a, easy = self.answers, easiness(proba)[self.answers.task]
        best = newton_strength(
            self.strength, a.worker, easy, self.right, self._mass(proba), a.n_classes, signed=self.signed,
            pseudo=self.pseudo, at=float(max(easy.mean(), 1e-6)),
        )  # fmt: skip
        return skill_from_strength(best)

    def _mass(self, proba: Array) -> Array:
        """Return how much each answer counts under each class, (answers, classes)."""
        mass = proba[self.answers.task] * self.weight[:, None]
        return mass if self.task_weight is None else mass * self.task_weight[self.answers.task, None]

    def _initial_strength(self, mass: Array) -> Array:
        """Return the first lambda, from each worker's accuracy, as if all tasks had the largest easiness."""
        a = self.answers
        hits = _by_worker(a.worker, mass * self.right, a.n_workers)
        share = (hits + 0.5) / (_by_worker(a.worker, mass, a.n_workers) + 1)
        return strength_from_skill(np.clip(share, 1 / a.n_classes + 0.01, 0.99))  # better than a guess

    def log_likelihoods(self, easy: Array) -> Array:
        """Return log P(label[a] | worker[a], truth c), (answers, classes), given the easiness of each answer's task."""
        assert self.strength is not None
        return answer_log_proba(self.strength[self.answers.worker] * easy[:, None], self.right, self.answers.n_classes)

    def posterior(self, f: Array, gold: Array | None) -> tuple[Array, float]:  # noqa: D102
        start = f if self.prior == "classifier" else np.maximum(self.votes, FLOOR)

        def infer(easy: Array) -> tuple[Array, float]:
            each = self.log_likelihoods(easy[self.answers.task]) * self.weight[:, None]
            return task_posteriors(each, start, self.answers, gold, self.task_weight)

        easy = self.easiness(f)
        if (
            self.source == "posterior"
        ):  # half way to the new one: some tasks would switch between easy and hard for ever
            easy = (easy + easiness(infer(easy)[0])) / 2
        return infer(easy)

    def log_likelihood(self, f: Array, gold: Array | None) -> Array:  # noqa: D102
        each = self.log_likelihoods(self.easiness(f)[self.answers.task]) * self.weight[:, None]
        with np.errstate(divide="ignore"):  # classes excluded by gold have probability 0
            return np.log(task_posteriors(each, np.ones_like(f), self.answers, gold, None)[0])

    def log_prior(self) -> float:  # noqa: D102
        if self.pseudo is None:
            return 0.0
        assert self.strength is not None
        right, wrong = (
            answer_log_proba(self.strength * self.prior_easiness, hit, self.answers.n_classes) for hit in (True, False)
        )
        return float((self.pseudo[0] * right + self.pseudo[1] * wrong).sum())

    def confusion(self) -> Array:
        """Return P(worker w says l | truth c) as [w, c, l], on a task of average easiness."""
        assert self.strength is not None
        return confusion_at(self.strength, np.array(self.mean_easiness), self.answers.n_classes)


def strength_from_skill(skill: Array) -> Array:
    """Return lambda (workers, classes) from the accuracy on the easiest tasks: 4 logit(skill) for two classes.

    >>> strength_from_skill(np.array([[0.5, 0.8]])).round(3).tolist()
    [[0.0, 5.545]]
    """
    n_classes = skill.shape[1]
    return (np.log(skill / (1 - skill)) + np.log(n_classes - 1)) / _max_easiness(n_classes)


def skill_from_strength(strength: Array) -> Array:
    """Return the accuracy on the easiest tasks, (workers, classes): sigmoid(lambda / 4) for two classes.

    >>> skill_from_strength(strength_from_skill(np.array([[0.5, 0.8]]))).round(3).tolist()
    [[0.5, 0.8]]
    """
    n_classes = strength.shape[1]
    return np.exp(answer_log_proba(strength * _max_easiness(n_classes), True, n_classes))


def _max_easiness(n_classes: int) -> float:
    """Return the easiness of a task whose truth is certain."""
    return 0.5 * (1 - 1 / n_classes)


def answer_log_proba(pull: Array, right: Any, n_classes: int) -> Array:
    """Return log P of the right label, or of one wrong label, where pull = lambda * d."""
    total = np.logaddexp(pull, np.log(n_classes - 1))
    return np.where(right, pull - total, -total)


def confusion_at(strength: Array, easy: Array, n_classes: int) -> Array:
    """Return P(label l | truth c) as [..., c, l] for lambda [..., c] and an easiness [...]."""
    pull = strength * easy[..., None]
    wrong = np.exp(answer_log_proba(pull, np.array(False), n_classes))  # (..., classes)
    out = np.repeat(wrong[..., None], n_classes, axis=-1)
    diagonal = np.arange(n_classes)
    out[..., diagonal, diagonal] = np.exp(answer_log_proba(pull, np.array(True), n_classes))
    return out


def newton_strength(
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
    """Maximise the expected log-likelihood by Newton's method, for all workers and classes at once.

    A step is halved until it improves the value, and skipped if it never does.
    """
    n_workers = len(strength)
    lowest = -LARGEST if signed else 0.0

    def value(s: Array) -> Array:
        out = _by_worker(worker, mass * answer_log_proba(s[worker] * easy[:, None], right, n_classes), n_workers)
        if pseudo is not None:
            out += pseudo[0] * answer_log_proba(s * at, True, n_classes) + pseudo[1] * answer_log_proba(
                s * at, False, n_classes
            )
        return out

    best = value(strength)  # (workers, classes): each cell has its own maximum
    for _ in range(steps):
        slope, curve = _slope(strength, worker, easy, right, mass, n_classes, pseudo, at)
        step = np.clip(slope / np.maximum(curve, 1e-9), -20, 20)
        step = np.clip(strength + step, lowest, LARGEST) - strength
        open_cells = np.abs(step) > 1e-6 * (1 + np.abs(strength))  # cells that have not converged
        if not open_cells.any():
            break
        for _ in range(20):  # halve steps that overshoot
            trial = np.where(open_cells, strength + step, strength)
            trial_value = value(trial)
            better = open_cells & (trial_value > best)
            strength, best = np.where(better, trial, strength), np.where(better, trial_value, best)
            open_cells &= ~better
            if not open_cells.any():
                break
            step /= 2
            open_cells &= np.abs(step) > 1e-6 * (1 + np.abs(strength))
    return strength


def gradient_strength(
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
    """Take some steps of gradient ascent on the expected log-likelihood of all answers (Algorithm 1 of the paper)."""
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
    """Return the first and minus the second derivative of the expected log-likelihood, (workers, classes) each."""
    n_workers = len(strength)
    hit = np.exp(answer_log_proba(strength[worker] * easy[:, None], True, n_classes))  # (answers, classes)
    slope = _by_worker(worker, mass * easy[:, None] * (right - hit), n_workers)
    curve = _by_worker(worker, mass * np.square(easy)[:, None] * hit * (1 - hit), n_workers)
    if pseudo is not None:
        hit = np.exp(answer_log_proba(strength * at, True, n_classes))
        slope += at * (pseudo[0] - (pseudo[0] + pseudo[1]) * hit)
        curve += at**2 * (pseudo[0] + pseudo[1]) * hit * (1 - hit)
    return slope, curve


def _by_worker(worker: Array, values: Array, n_workers: int) -> Array:
    """Return sums of values (answers, classes) over each worker's answers, (workers, classes)."""
    return np.stack([np.bincount(worker, column, minlength=n_workers) for column in values.T], axis=1)
