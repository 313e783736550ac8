"""Pseudo-answers: answers predicted by a model, merged with the real ones and scored where the truth is known."""

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
    iteration: Array  # in which the pseudo-answer was added
    member: Array  # the network it was predicted for, if each has its own pseudo-answers; otherwise 0

    @classmethod
    def empty(cls) -> PseudoAnswers:
        """Return a table without rows."""
        codes = np.empty(0, np.int64)
        return cls(codes, codes, codes, np.empty(0), codes, codes)

    def append(self, more: PseudoAnswers) -> PseudoAnswers:
        """Return these pseudo-answers followed by `more`."""
        return PseudoAnswers(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))

    def for_member(self, member: int) -> PseudoAnswers:
        """Return the pseudo-answers of one network."""
        return PseudoAnswers(*(column[self.member == member] for column in self))

    def before(self, iteration: int) -> PseudoAnswers:
        """Return the pseudo-answers added before an iteration."""
        return PseudoAnswers(*(column[self.iteration < iteration] for column in self))


def merge_pseudo_answers(answers: Answers, pseudo: PseudoAnswers, *, soft: bool = False) -> Answers:
    """Return answers and pseudo-answers together.

    A pseudo-answer has the mean weight of the answers, multiplied by its probability if `soft`.
    """
    weight = None
    if soft or answers.weight is not None:
        unit = 1.0 if answers.weight is None else answers.weight.mean()
        weight = unit * (pseudo.proba if soft else np.ones(len(pseudo.task)))
    more = Answers.from_codes(
        pseudo.task, pseudo.worker, pseudo.label, weight=weight,
        tasks=answers.task_ids, workers=answers.worker_ids, classes=answers.class_ids,
    )  # fmt: skip
    return answers.merge(more, pseudo=True)


def restrict_to_eligible(pool: Answers, weight: Array | None) -> tuple[Answers, Array, Array]:
    """Return the pool restricted to tasks of positive weight and workers with answers, and these tasks and workers."""
    tasks = np.arange(pool.n_tasks) if weight is None else np.flatnonzero(weight)
    part = pool[tasks]
    workers = np.flatnonzero(np.diff(part.worker_starts))
    code = np.zeros(pool.n_workers, np.int32)
    code[workers] = np.arange(len(workers))
    part = Answers.from_codes(
        part.task, code[part.worker], part.label, tasks=len(tasks), workers=len(workers), classes=pool.n_classes
    )
    return part, tasks, workers


def pool_statistics(answers: Answers, pseudo: PseudoAnswers, iteration: int) -> dict[str, Any]:
    """Return size and imbalance of the pool, what an iteration added and, if the truth is known, how good that is."""
    n_classes = answers.n_classes
    counts = np.bincount(answers.label, minlength=n_classes)
    last = pseudo.iteration == iteration
    label = pseudo.label[last]
    out: dict[str, Any] = {
        "answers": answers.n_answers + len(last),
        "imbalance": imbalance_ratio(counts + np.bincount(pseudo.label, minlength=n_classes)),
        "chosen": np.bincount(label, minlength=n_classes).tolist(),
    }
    if answers.truth is not None and len(label):
        out |= quality(label, answers.truth[pseudo.task[last]], counts)
    return out


def mean_statistics(members: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of the statistics of several members, and the statistics of each as `members`.

    A mean is over the members that have the statistic.

    >>> mean_statistics([{"answers": 3, "chosen": [1, 0]}, {"answers": 4, "chosen": [2, 0], "accuracy": 0.5}])
    {'answers': 3.5, 'chosen': [1.5, 0.0], 'accuracy': 0.5, 'members': [{...}, {...}]}
    """
    out: dict[str, Any] = {}
    for name in {name: None for member in members for name in member}:
        known = [member[name] for member in members if member.get(name) is not None]
        out[name] = np.mean(known, axis=0).tolist() if known else None
    return {**out, "members": members}


def quality(label: Array, truth: Array, counts: Array) -> dict[str, float | None]:
    """Return accuracy, precision on the majority half of classes and recall on the minority half (figure 5).

    The halves are by `counts`, the number of answers per class; the middle class of an odd number is in the majority.
    Precision and recall are unweighted means over classes. None where the truth of all is unknown (-1).

    >>> quality(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), np.array([30, 10]))
    {'accuracy': 0.75, 'precision_majority': 0.6666666666666666, 'recall_minority': 0.5}
    """
    label, truth = label[truth >= 0], truth[truth >= 0]
    right = np.bincount(label[label == truth], minlength=len(counts))  # (classes,)
    rarest_first = np.argsort(counts, kind="stable")
    minority, majority = np.split(rarest_first, [len(counts) // 2])

    def mean_share(of: Array, classes: Array) -> float | None:
        total = np.bincount(of, minlength=len(counts))
        classes = classes[total[classes] > 0]
        return float((right[classes] / total[classes]).mean()) if len(classes) else None

    return {
        "accuracy": float((label == truth).mean()) if len(label) else None,
        "precision_majority": mean_share(label, majority),
        "recall_minority": mean_share(truth, minority),
    }
