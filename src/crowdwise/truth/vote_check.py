"""Does a model do better than majority vote? Asked of held-out answers, so no ground truth is needed.

Some answers are hidden, the model and majority vote are fitted on the rest, and each says how likely the hidden answers
are:

    p(label l of worker w on task t) = sum over c of proba[t, c] * confusion[w, c, l]

`proba` is the model's or the vote's; `confusion` is estimated from it and the answers that were kept, in the same way
for both, so that only the inferred truth is compared. The vote is taken as shares and as hard labels, whichever
predicts better.

It measures how well answers are predicted, which is not the same as how often labels are right: when workers err
together, the better predictor of their answers can be the worse judge of the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseError
from crowdwise.truth.base import Array, vote_shares
from crowdwise.truth.kernels.confusion import ConfusionWork
from crowdwise.truth.kernels.shared import FLOOR

if TYPE_CHECKING:
    from crowdwise.truth.base import TruthModel


LEAST_HIDDEN = 10  # answers; fewer say nothing


@dataclass(frozen=True)
class VoteCheck:
    """How much better, per hidden answer, the model predicts than majority vote does."""

    method: str
    difference: float  # nats per answer; positive: the model predicts better
    standard_error: float  # of the difference, tasks taken as independent
    n_answers: int  # how many answers were hidden

    @property
    def supported(self) -> bool:
        """Whether hidden answers speak for the model."""
        return self.difference > 0

    def __str__(self) -> str:
        figure = f"{self.difference:+.4f} +- {self.standard_error:.4f} nats per answer, {self.n_answers:,} hidden"
        if self.difference == 0:
            return f"{self.method} infers the same as majority vote, as far as held-out answers can tell ({figure})."
        if self.difference > 2 * self.standard_error:
            return f"Held-out answers support {self.method} over majority vote ({figure})."
        if self.supported:
            return f"Held-out answers lean towards {self.method} over majority vote, not clearly ({figure})."
        return (
            f"Held-out answers do not support {self.method} over majority vote ({figure}): prefer the vote, a stronger "
            f"prior, or a model with fewer parameters such as one-coin."
        )


def check_against_vote(
    model: TruthModel, answers: Answers, gold: Any = None, *, hidden: float = 0.2, seed: int = 0
) -> VoteCheck:
    """Fit a copy of the model without a share of the answers and see whether it predicts them better than the vote."""
    kept, held = split_answers(answers, hidden, seed)
    fitted = clone(model).fit(kept, None if gold is None else answers.codes_of_truth(gold))
    shares = vote_shares(kept)
    winners = (shares == shares.max(axis=1, keepdims=True)).astype(float)
    vote = max(
        (log_likelihood(kept, held, proba) for proba in (shares, winners / winners.sum(axis=1, keepdims=True))),
        key=np.sum,
    )
    gain = log_likelihood(kept, held, fitted.proba_) - vote  # (held,)
    return VoteCheck(type(model).__name__, *mean_and_error(gain, held.task), len(gain))


def mean_and_error(gain: Array, task: Array, weight: Array | None = None) -> tuple[float, float]:
    """Mean of what is gained on answers (answers,) to these tasks, and its standard error, tasks taken as independent.

    >>> mean_and_error(np.array([1.0, 1.0, 2.0, 4.0]), np.array([0, 0, 1, 2]))
    (2.0, 0.7071067811865476)
    """
    weight = np.ones(len(gain)) if weight is None else weight
    mean = float(np.average(gain, weights=weight))
    by_task = np.bincount(task, weight * (gain - mean))
    return mean, float(np.sqrt(np.square(by_task).sum()) / weight.sum())


def split_answers(answers: Answers, hidden: float, seed: int) -> tuple[Answers, Answers]:
    """Hide a share of the answers, leaving each task at least one; both parts keep all tables."""
    rows = np.arange(answers.n_answers)
    kept_rows = answers.thinned(hidden, seed=seed)
    held_rows = np.setdiff1d(rows, kept_rows, assume_unique=True)
    if len(held_rows) < LEAST_HIDDEN:
        message = "too few tasks have two answers to hold some out: nothing can be checked without known labels."
        raise CrowdwiseError(message)
    return answers.take(kept_rows), answers.take(held_rows)


def log_likelihood(kept: Answers, held: Answers, proba: Array) -> Array:
    """Log probability of each held answer under `proba` and the workers' confusion estimated on the kept ones."""
    says = said_given_truth(kept, held, proba)
    return np.log(np.maximum((says * proba[held.task]).sum(axis=1), FLOOR))


def log_likelihood_of_tasks(kept: Answers, held: Answers, proba: Array) -> Array:
    """The same of all held answers to a task together, in equal parts to each of them, (held,).

    Answers to one task share its truth: the second is likelier after the first, and a belief that is right about the
    task gains by each of them.
    """
    weight = np.ones(held.n_answers) if held.weight is None else held.weight
    says = weight[:, None] * np.log(np.maximum(said_given_truth(kept, held, proba), FLOOR))  # (held, classes)
    logs = np.log(np.maximum(proba, FLOOR))  # (tasks, classes)
    for c in range(proba.shape[1]):
        logs[:, c] += np.bincount(held.task, says[:, c], minlength=len(proba))
    share = np.maximum(np.bincount(held.task, weight, minlength=len(proba)), FLOOR)
    return np.asarray((np.logaddexp.reduce(logs, axis=1) / share)[held.task])


def said_given_truth(kept: Answers, held: Answers, proba: Array) -> Array:
    """P(label | worker, truth c) of each held answer, (held, classes): one worker model, from a belief and answers."""
    n_classes = kept.n_classes
    work = ConfusionWork(kept.task_starts, kept.pairs, kept.weight, n_classes)
    counts = work.count(proba)  # (pairs, classes)
    pooled = np.zeros((n_classes, n_classes))  # (labels, classes): the crowd as one worker
    np.add.at(pooled, kept.pairs.label, counts)
    pooled += 0.1 / n_classes
    prior = 5 * pooled / pooled.sum(axis=0)  # as if each worker had given five average answers to each class
    worker = np.repeat(np.arange(kept.n_workers), np.diff(kept.pairs.worker_starts))
    total = np.full((kept.n_workers, n_classes), 5.0)
    np.add.at(total, worker, counts)
    pair_code = worker * n_classes + kept.pairs.label  # increasing
    code = held.worker.astype(np.int64) * n_classes + held.label
    at = np.minimum(np.searchsorted(pair_code, code), len(pair_code) - 1)
    seen = np.where((pair_code[at] == code)[:, None], counts[at], 0.0)  # (held, classes)
    return np.asarray((seen + prior[held.label]) / total[held.worker])
