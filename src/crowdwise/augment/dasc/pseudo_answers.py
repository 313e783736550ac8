"""Answers that a model made up: kept apart until they join the others, and judged where truth is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.evaluate.metrics import imbalance_ratio
from crowdwise.learn.base import Array


class PseudoAnswers(NamedTuple):
    """Pseudo-answers, in the order in which they were added."""

    task: Array
    worker: Array
    label: Array
    proba: Array  # of the label
    iteration: Array  # in which it was added
    member: Array  # the network that it was made for, where each has its own; 0 otherwise

    @classmethod
    def none(cls) -> PseudoAnswers:
        """None yet."""
        empty = np.empty(0, np.int64)
        return cls(empty, empty, empty, np.empty(0), empty, empty)

    def and_(self, more: PseudoAnswers) -> PseudoAnswers:
        """These and more."""
        return PseudoAnswers(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))

    def of(self, member: int) -> PseudoAnswers:
        """Those of one network."""
        return PseudoAnswers(*(column[self.member == member] for column in self))

    def before(self, iteration: int) -> PseudoAnswers:
        """Those added before an iteration."""
        return PseudoAnswers(*(column[self.iteration < iteration] for column in self))


def joined(answers: Answers, pseudo: PseudoAnswers, *, soft: bool = False) -> Answers:
    """Answers and pseudo-answers; a pseudo-answer weighs as much as an answer on average, if `soft` times its proba."""
    weight = None
    if soft or answers.weight is not None:
        unit = 1.0 if answers.weight is None else answers.weight.mean()
        weight = unit * (pseudo.proba if soft else np.ones(len(pseudo.task)))
    more = Answers.from_codes(
        pseudo.task, pseudo.worker, pseudo.label, weight=weight,
        tasks=answers.task_ids, workers=answers.worker_ids, classes=answers.class_ids,
    )  # fmt: skip
    return answers.merge(more, pseudo=True)


def eligible(pool: Answers, weight: Array | None) -> tuple[Answers, Array, Array]:
    """The pool of the tasks that count and the workers who answered, and which tasks and workers those are."""
    tasks = np.arange(pool.n_tasks) if weight is None else np.flatnonzero(weight)
    part = pool[tasks]
    workers = np.flatnonzero(np.diff(part.worker_starts))
    place = np.zeros(pool.n_workers, np.int32)
    place[workers] = np.arange(len(workers))
    part = Answers.from_codes(
        part.task, place[part.worker], part.label, tasks=len(tasks), workers=len(workers), classes=pool.n_classes
    )
    return part, tasks, workers


def facts(answers: Answers, pseudo: PseudoAnswers, iteration: int) -> dict[str, Any]:
    """Size and imbalance of the pool, and what was added in an iteration; how good that is, where truth is known."""
    n_classes = answers.n_classes
    given = np.bincount(answers.label, minlength=n_classes)
    last = pseudo.iteration == iteration
    label = pseudo.label[last]
    out: dict[str, Any] = {
        "answers": answers.n_answers + len(last),
        "imbalance": imbalance_ratio(given + np.bincount(pseudo.label, minlength=n_classes)),
        "chosen": np.bincount(label, minlength=n_classes).tolist(),
    }
    if answers.truth is not None and len(label):
        out |= quality(label, answers.truth[pseudo.task[last]], given)
    return out


def mean_facts(members: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of the facts of several members, and all of them as `members`; a member without a figure has no part in it.

    >>> mean_facts([{"answers": 3, "chosen": [1, 0]}, {"answers": 4, "chosen": [2, 0], "accuracy": 0.5}])
    {'answers': 3.5, 'chosen': [1.5, 0.0], 'accuracy': 0.5, 'members': [{...}, {...}]}
    """
    out: dict[str, Any] = {}
    for name in {name: None for facts in members for name in facts}:
        known = [facts[name] for facts in members if facts.get(name) is not None]
        out[name] = np.mean(known, axis=0).tolist() if known else None
    return {**out, "members": members}


def quality(label: Array, truth: Array, given: Array) -> dict[str, float | None]:
    """How good pseudo-answers are (figure 5): accuracy, precision on the majority half, recall on the minority half.

    Classes are halved by how many answers name them, `given`; the middle one of an odd number is in the majority. Each
    class counts alike. None where nothing of the kind was chosen, or its truth is unknown (-1).

    >>> quality(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), np.array([30, 10]))
    {'accuracy': 0.75, 'precision_majority': 0.6666666666666666, 'recall_minority': 0.5}
    """
    label, truth = label[truth >= 0], truth[truth >= 0]
    right = np.bincount(label[label == truth], minlength=len(given))  # (classes,)
    rarest_first = np.argsort(given, kind="stable")
    minority, majority = np.split(rarest_first, [len(given) // 2])

    def mean_share(of: Array, classes: Array) -> float | None:
        total = np.bincount(of, minlength=len(given))
        classes = classes[total[classes] > 0]
        return float((right[classes] / total[classes]).mean()) if len(classes) else None

    return {
        "accuracy": float((label == truth).mean()) if len(label) else None,
        "precision_majority": mean_share(label, majority),
        "recall_minority": mean_share(truth, minority),
    }
