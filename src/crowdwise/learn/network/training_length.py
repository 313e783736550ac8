"""How long to train, with how much weight decay, on features of which scale: found on held-out answers.

    hold out    the answers to a fifth of the tasks
    train       a network per candidate (scale of the features), side by side, on the other answers
    score       at numbers of steps that grow geometrically: the log-likelihood of the held-out answers, see `score`
    choose      the candidate with the best score, and the fewest steps whose score is nearly as good (`NEARLY`)
    stop        after `PATIENCE` times as many steps

The fit then trains on all answers, with the chosen candidate, for that number of steps, rounded to epochs. The search
takes about `PATIENCE` times as many steps.

Weight decay is not searched, since a network per value made the search slow. On the sets tried, once each, 5e-4
predicted held-out answers about as well as 0 or better.

The score is not the likelihood under the learner's own model of the workers, which may take much longer to learn than
the classifier: on LabelMe the likelihood under CrowdLayer's matrices rises for 3,000 steps, and the classifier is best
after 150. The score counts the workers' errors from the classifier's predictions. It is the
same for every method, and follows the accuracy on true labels closely. Under other names of its classes a classifier
would score the same, so one whose names disagree with the answers scores as chance.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseWarning
from crowdwise.learn.base import Array, FitInput, training_mask
from crowdwise.learn.features import Features
from crowdwise.learn.network import distributed
from crowdwise.learn.network.architectures import MLP, Logistic, resolve_spec
from crowdwise.learn.network.prediction import predict_members
from crowdwise.learn.network.training import CrowdModule
from crowdwise.truth.base import pick, vote_shares
from crowdwise.truth.vote_check import log_likelihood

if TYPE_CHECKING:
    from crowdwise.learn.network.learner import NetworkLearner

Scaling = Literal["each", "common"]

HELD_OUT = 5  # the answers to one task in five are held out
FEWEST = 20  # held-out answers; with fewer, nothing is searched
LEAST_STEPS, MOST_STEPS = 100, 5000
MOST_EPOCHS = 10  # may exceed MOST_STEPS on large data
DEFAULT_STEPS = 1000  # if nothing is searched
GROWTH = 1.25  # number of steps from one score to the next; the first is after LEAST_STEPS
PATIENCE = 2.0
NEARLY = 0.99  # share of the best gain over chance
WEIGHT_DECAY = 5e-4
OWN_NAMES = 0.9  # least agreement of labels with answers, as a share of that under the best names of the classes
# Some losses keep the classifier from being certain, such as CrowdLayer's softmax of a softmax; a long training makes
# it too certain, while its classes may still become better.
POWERS = (0.5, 0.7, 1.0, 1.5, 2.5, 4.0, 8.0)


class Candidate(NamedTuple):
    """Settings of one network in a search."""

    weight_decay: float
    scaling: Scaling


@dataclass(frozen=True)
class TrainingPlan:
    """How to train: what a search found, or what was set by hand.

    Attributes
    ----------
    epochs : int
        Number of epochs.
    weight_decay : float
        Weight decay of the network.
    scaling : {"each", "common"}
        Whether each feature is divided by its own standard deviation, or all by a common one.
    """

    epochs: int
    weight_decay: float = 0.0
    scaling: Scaling = "each"


def search_plan(learner: NetworkLearner, inputs: FitInput) -> tuple[TrainingPlan, list[dict[str, Any]]]:
    """Find how to train a learner on these inputs. Return the plan, and a record per candidate."""
    features, answers, weight, gold, _, callback = inputs
    candidates = candidate_list(learner, features)
    n_batches = learner._n_batches(answers, weight, gold)
    training, held_out = hold_out_tasks(answers, training_mask(answers, weight, None), learner.random_state)
    if held_out.n_answers < FEWEST:
        return TrainingPlan(learner._round_epochs(epochs_for(DEFAULT_STEPS, n_batches)), *candidates[0]), []
    if gold is not None:  # known labels of held-out tasks would be trained on
        gold = np.where(np.isin(np.arange(answers.n_tasks), held_out.task), -1, gold)
    per_epoch = learner._n_batches(training, weight, gold)
    longest = learner._round_epochs(most_epochs(per_epoch))
    search = LengthSearch(candidates, features, training, held_out, per_epoch, longest, learner.device)

    def watch(record: Mapping[str, Any]) -> None:
        if callback is not None:
            callback({**record, "stage": "search"})
        if record["phase"] == 0:
            search(record)

    trial = learner._trial().set_params(epochs=longest, n_models=len(candidates))
    trial._candidates = candidates
    with suppress(SearchEnd), warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        trial.fit(features, training, sample_weight=weight, gold=gold, callback=watch)
    best, steps = search.best()
    return TrainingPlan(learner._round_epochs(epochs_for(steps, n_batches)), *best), search.trials()


def candidate_list(learner: NetworkLearner, features: Features) -> list[Candidate]:
    """Return the settings that a learner may choose from, the default first."""
    spec, decay = resolve_spec(learner.network, features.shape), learner.weight_decay
    searched = learner.epochs == "auto" and isinstance(spec, (Logistic, MLP))
    if decay == "auto":
        decay = WEIGHT_DECAY if searched and learner.optimizer != "adamw" else 0.0
    scalings: list[Scaling] = ["common" if getattr(spec, "standardise", True) == "common" else "each"]
    if searched and spec.standardise == "auto":
        scalings = ["each", "common"]
    return [Candidate(decay, scaling) for scaling in scalings]


class SearchEnd(Exception):
    """Ends the training of a search from its callback; not an error."""


class LengthSearch:
    """Scores the networks of a training as it goes on, from its callback, and ends it.

    Parameters
    ----------
    candidates : list of Candidate
        Settings of the networks, which are the models of the module (or equal groups of them), in this order.
    features : Features
    training, held_out : Answers
        The answers that the networks are trained on, and those they are scored on.
    n_batches : int
        Steps per epoch.
    most_epochs : int
        End after this number of epochs.
    device : str
    """

    device: str
    features: Features
    held_out: Answers
    most_epochs: int
    n_batches: int
    training: Answers

    def __init__(
        self, candidates: list[Candidate], features: Features, training: Answers, held_out: Answers, n_batches: int,
        most_epochs: int, device: str,
    ) -> None:  # fmt: skip
        self.candidates, self.features, self.training, self.held_out = candidates, features, training, held_out
        self.n_batches, self.most_epochs, self.device = n_batches, most_epochs, device
        self.chance: float = score(np.full((training.n_tasks, training.n_classes), 1.0), training, held_out)
        self.next: float = float(LEAST_STEPS)
        self.steps: list[int] = []
        self.scores: list[list[float]] = []  # [measurement][candidate]

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Score the networks if it is time to; raise `SearchEnd` when the best score lies well behind."""
        steps, last = record["epoch"] * self.n_batches, record["epoch"] >= self.most_epochs
        if steps < self.next and not last:
            return
        self.steps.append(steps)
        self.scores.append(self.measure(record["module"]))
        gain = np.max(self.scores, axis=1) - self.chance  # (measurements,): of the best candidate
        best = self.steps[int((gain >= NEARLY * gain.max()).argmax())]
        if last or steps >= PATIENCE * best:
            raise SearchEnd
        self.next = min(steps * GROWTH, PATIENCE * best)

    def measure(self, module: CrowdModule) -> list[float]:
        """Return the score of each candidate; in a process group, as measured by the first process."""
        group = distributed.current()
        if group is None:
            return self.scores_of(module)
        found = self.scores_of(module) if group.rank == 0 else [0.0] * len(self.candidates)
        return [group.measure_on_first(partial(float, value)) for value in found]

    def scores_of(self, module: CrowdModule) -> list[float]:
        """Return the score of each candidate."""
        members = predict_members(module, self.features, self.device)  # (models, tasks, classes)
        by_candidate = members.reshape(len(self.candidates), -1, *members.shape[1:]).mean(axis=1)
        return [score(proba, self.training, self.held_out) for proba in by_candidate]

    def best(self) -> tuple[Candidate, int]:
        """Return the best candidate and its number of steps; of nearly equal ones the first, and the fewest."""
        gain = np.maximum(np.array(self.scores) - self.chance, 0.0)  # (measurements, candidates)
        which = int((gain.max(axis=0) >= NEARLY * gain.max()).argmax())
        column = gain[:, which]
        return self.candidates[which], self.steps[int((column >= NEARLY * column.max()).argmax())]

    def trials(self) -> list[dict[str, Any]]:
        """Return a record per candidate: its settings, its best number of steps, and its score."""
        scores, chosen = np.array(self.scores), self.best()[0]
        return [
            {
                "scaling": candidate.scaling, "weight_decay": candidate.weight_decay,
                "steps": self.steps[int(column.argmax())], "held_out": float(column.max()),
                "chosen": candidate == chosen, "searched": self.steps[-1],
            }
            for candidate, column in zip(self.candidates, scores.T, strict=True)
        ]  # fmt: skip


def score(proba: Array, training: Answers, held_out: Answers) -> float:
    """Return how well class probabilities (tasks, classes) explain held-out answers: higher is better.

    It is their mean log-likelihood if the workers' confusion matrices are counted from the training answers, with the
    probabilities as the truth. The probabilities may be sharper or softer, p^T normalised: the best T counts.
    """
    if has_swapped_classes(proba, training):
        proba = np.full_like(proba, 1.0)
    log_p = np.log(np.maximum(proba, 1e-12))
    log_p -= log_p.max(axis=1, keepdims=True)

    def at(power: float) -> float:
        changed = np.exp(power * log_p)
        return float(log_likelihood(training, held_out, changed / changed.sum(axis=1, keepdims=True)).mean())

    middle = POWERS.index(1.0)
    best = at(1.0)
    for direction in (POWERS[middle + 1 :], POWERS[:middle][::-1]):
        for power in direction:
            if (found := at(power)) <= best:
                break
            best = found
    return best


def has_swapped_classes(proba: Array, answers: Answers) -> bool:
    """Return whether labels by class probabilities (tasks, classes) would agree with answers under other names only."""
    counts = np.zeros((answers.n_classes, answers.n_classes))  # (labels, answers)
    np.add.at(counts, (proba.argmax(axis=1)[answers.task], answers.label), 1.0)
    best = counts[linear_sum_assignment(counts, maximize=True)].sum()
    return bool(np.trace(counts) < OWN_NAMES * best)


def hold_out_tasks(answers: Answers, active: Array, seed: int) -> tuple[Answers, Answers]:
    """Hold out the answers to a fifth of the active tasks (tasks,) bool, equally many of each class by the vote."""
    rng = np.random.default_rng(seed)
    tasks = rng.permutation(np.flatnonzero(active & (np.diff(answers.task_starts) > 0)))
    vote = pick(vote_shares(answers), rng)
    by_class = tasks[np.argsort(vote[tasks], kind="stable")]
    held = np.zeros(answers.n_tasks, bool)
    held[by_class[HELD_OUT // 2 :: HELD_OUT]] = True
    of_held = held[answers.task]
    return answers.take(np.flatnonzero(~of_held)), answers.take(np.flatnonzero(of_held))


def epochs_for(steps: int, n_batches: int) -> int:
    """Return the number of epochs nearest to a number of steps, within the limits.

    >>> epochs_for(400, 16), epochs_for(10, 16), epochs_for(400, 1000)
    (25, 6, 1)
    """
    return max(round(max(steps, LEAST_STEPS) / n_batches), 1)


def most_epochs(n_batches: int) -> int:
    """Return the largest number of epochs that a search tries.

    >>> most_epochs(16), most_epochs(10_000)
    (313, 10)
    """
    return max(math.ceil(MOST_STEPS / n_batches), MOST_EPOCHS)
