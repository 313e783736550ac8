"""Check whether a model does better than majority vote, on held-out answers: no ground truth is needed.

Some answers are held out, the model and majority vote are fitted on the rest (the training answers), and both predict
the held-out answers:

    p(label l of worker w on task t) = sum over c of proba[t, c] * confusion[w, c, l]

`proba` is the model's or the vote's. `confusion` is estimated from it and the training answers, in the same way for
both, so only the inferred truth is compared. The vote counts as shares or as hard labels, whichever predicts better.

The check measures how well answers are predicted, which is not how often labels are right: when workers err together,
the better predictor of their answers can be worse at finding the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise._core.parameters import unfitted
from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseError
from crowdwise.truth.base import Array, vote_shares
from crowdwise.truth.kernels.confusion import ConfusionWork
from crowdwise.truth.kernels.shared import FLOOR

if TYPE_CHECKING:
    from crowdwise.truth.base import TruthModel


MIN_HELD_OUT = 10  # answers; fewer are too few to compare methods


@dataclass(frozen=True)
class VoteCheck:
    """How much better the model predicts held-out answers than majority vote does."""

    method: str
    difference: float  # mean log-likelihood gain per answer, in nats; positive if the model predicts better
    standard_error: float  # of the difference, with tasks as independent units
    n_answers: int  # number of held-out answers

    @property
    def supported(self) -> bool:
        """Whether the model predicts held-out answers better than majority vote."""
        return self.difference > 0

    def __str__(self) -> str:
        figure = (
            f"log-likelihood per answer {self.difference:+.4f} +- {self.standard_error:.4f}, "
            f"{self.n_answers:,} answers held out"
        )
        if self.difference == 0:
            return f"Held-out answers show no difference between {self.method} and majority vote ({figure})."
        if self.difference > 2 * self.standard_error:
            return f"Held-out answers support {self.method} over majority vote ({figure})."
        if self.supported:
            return f"Held-out answers slightly favour {self.method} over majority vote ({figure})."
        return (
            f"Held-out answers do not support {self.method} over majority vote ({figure}). Prefer majority vote, "
            f"a stronger prior, or a model with fewer parameters such as one-coin."
        )


def check_against_vote(
    model: TruthModel, answers: Answers, gold: Any = None, *, hidden: float = 0.2, seed: int = 0
) -> VoteCheck:
    """Fit a copy of the model without a share `hidden` of the answers and compare its predictions with the vote's."""
    training, held_out = split_answers(answers, hidden, seed)
    fitted = unfitted(model).fit(training, None if gold is None else answers.codes_of_truth(gold))
    shares = vote_shares(training)
    winners = (shares == shares.max(axis=1, keepdims=True)).astype(float)
    vote = max(
        (log_likelihood(training, held_out, proba) for proba in (shares, winners / winners.sum(axis=1, keepdims=True))),
        key=np.sum,
    )
    gain = log_likelihood(training, held_out, fitted.proba_) - vote  # (held out,)
    return VoteCheck(str(model).partition("(")[0], *mean_and_error(gain, held_out.task), len(gain))


def mean_and_error(gain: Array, task: Array, weight: Array | None = None) -> tuple[float, float]:
    """Return the mean of a gain per answer (answers,) and its standard error, with tasks as independent units.

    >>> mean_and_error(np.array([1.0, 1.0, 2.0, 4.0]), np.array([0, 0, 1, 2]))
    (2.0, 0.7071067811865476)
    """
    weight = np.ones(len(gain)) if weight is None else weight
    mean = float(np.average(gain, weights=weight))
    by_task = np.bincount(task, weight * (gain - mean))
    return mean, float(np.sqrt(np.square(by_task).sum()) / weight.sum())


def split_answers(answers: Answers, hidden: float, seed: int) -> tuple[Answers, Answers]:
    """Hold out a share of the answers, leaving each task at least one; both parts keep all ids."""
    rows = np.arange(answers.n_answers)
    training_rows = answers.thinned(hidden, seed=seed)
    held_out_rows = np.setdiff1d(rows, training_rows, assume_unique=True)
    if len(held_out_rows) < MIN_HELD_OUT:
        message = (
            f"too few tasks have two answers: only {len(held_out_rows)} answers can be held out, {MIN_HELD_OUT} are "
            f"needed. Collect more answers per task, or check against known labels."
        )
        raise CrowdwiseError(message)
    return answers.take(training_rows), answers.take(held_out_rows)


def log_likelihood(training: Answers, held_out: Answers, proba: Array) -> Array:
    """Return the log probability of each held-out answer.

    It follows from `proba` and the workers' confusion matrices as estimated on the training answers.
    """
    likelihood = label_likelihood(training, held_out, proba)
    return np.log(np.maximum((likelihood * proba[held_out.task]).sum(axis=1), FLOOR))


def log_likelihood_of_tasks(training: Answers, held_out: Answers, proba: Array) -> Array:
    """Return the joint log probability of all held-out answers to a task, split equally among them, (held out,).

    Answers to one task share its truth: the second is more probable given the first, and a model that is right about
    the task gains from each of them.
    """
    weight = np.ones(held_out.n_answers) if held_out.weight is None else held_out.weight
    likelihood = label_likelihood(training, held_out, proba)
    log_label = weight[:, None] * np.log(np.maximum(likelihood, FLOOR))  # (held out, classes)
    logs = np.log(np.maximum(proba, FLOOR))  # (tasks, classes)
    for c in range(proba.shape[1]):
        logs[:, c] += np.bincount(held_out.task, log_label[:, c], minlength=len(proba))
    share = np.maximum(np.bincount(held_out.task, weight, minlength=len(proba)), FLOOR)
    return np.asarray((np.logaddexp.reduce(logs, axis=1) / share)[held_out.task])


def label_likelihood(training: Answers, held_out: Answers, proba: Array) -> Array:
    """Return P(label | worker, truth c) of each held-out answer, (held out, classes).

    The workers' confusion matrices are estimated from `proba` and the training answers, with a prior of five answers
    by the average worker per class.
    """
    n_classes = training.n_classes
    work = ConfusionWork(training.task_starts, training.pairs, training.weight, n_classes)
    counts = work.count(proba)  # (pairs, classes)
    pooled = np.zeros((n_classes, n_classes))  # (labels, classes): all workers together
    np.add.at(pooled, training.pairs.label, counts)
    pooled += 0.1 / n_classes
    prior = 5 * pooled / pooled.sum(axis=0)
    worker = np.repeat(np.arange(training.n_workers), np.diff(training.pairs.worker_starts))
    total = np.full((training.n_workers, n_classes), 5.0)
    np.add.at(total, worker, counts)
    pair_code = worker * n_classes + training.pairs.label  # increasing
    code = held_out.worker.astype(np.int64) * n_classes + held_out.label
    at = np.minimum(np.searchsorted(pair_code, code), len(pair_code) - 1)
    count = np.where((pair_code[at] == code)[:, None], counts[at], 0.0)  # (held out, classes)
    return np.asarray((count + prior[held_out.label]) / total[held_out.worker])
