"""The table of the tasks: label, confidence, ambiguity, and what to do about it.

    needed[t]   answers of average workers until the label is as sure as `accept`, if it is right
                = ceil((log odds of accept - log(p[label] / p[runner-up])) / D[label, runner-up])
    D[c, d]     = KL(average[c] || average[d])        nats that an average answer adds to the odds of c over d
    average[c]  = what the crowd says of tasks of class c

Verdicts, the first that fits:

    accept              confidence >= accept; where no answer could be held out to check it, two answers or more too
    hopeless            no more than the share `HOPELESS` of the ranked tasks is as ambiguous or more so, and its
                        answers contradict each other: more answers will too. Mend the question, or leave the task out
    needs more answers  no answer yet, or needed <= `CHEAP`: a few more answers will settle it
    review              more than that would be needed: somebody who knows should look
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.stats import rankdata

from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.answers import Answers
from crowdwise.run.folder import PROBA
from crowdwise.truth.tables import label_columns

Array = np.ndarray[Any, np.dtype[Any]]

VERDICTS = ("accept", "review", "needs more answers", "hopeless")
ACCEPT = 0.9  # confidence of a label that is used as it is
HOPELESS = 0.05  # share of the ranked tasks that may be hopeless: the most ambiguous ones
CHEAP = 3  # answers that may still be bought for one task
TINY = 1e-12


class Labelled(NamedTuple):
    """What is believed of the tasks."""

    answers: Answers
    proba: Array  # (tasks, classes), calibrated
    codes: Array  # (tasks,)


class Disagreement(TaskRanker):
    """Tasks ranked by how much workers contradict each other, those who are trusted counting for more.

    The score of a task is one minus the entropy of its weighted vote, in units of that of an even vote: 1 where all
    answers agree, 0 where every class has the same weight. A task of one answer is not ranked.

    Parameters
    ----------
    labelled : Labelled
    trust : (workers,) array
        How much each worker is trusted, 0 to 1.
    """

    def __init__(self, labelled: Labelled, trust: Array) -> None:
        answers = self.answers_ = labelled.answers
        self.random_state = 0
        self.trust_ = trust[answers.worker]  # (answers,)
        self.aum_ = np.zeros(answers.n_answers)
        cell, inverse = np.unique(
            answers.task.astype(np.int64) * answers.n_classes + answers.label, return_inverse=True
        )
        weight = np.bincount(inverse, np.maximum(self.trust_, TINY))  # (cells,) of tasks x classes that were named
        task = cell // answers.n_classes
        share = weight / np.bincount(task, weight, minlength=answers.n_tasks)[task]
        entropy = np.bincount(task, -share * np.log(share), minlength=answers.n_tasks)
        ranked = np.diff(answers.task_starts) > 1
        self.scores_ = np.where(ranked, 1 - entropy / np.log(max(answers.n_classes, 2)), np.inf)


def label_table(labelled: Labelled, ranked: TaskRanker, accept: float, *, checked: bool = True) -> pa.Table:
    """The table of labels.parquet; `checked` is whether held-out answers had a say in how sure labels are."""
    answers, proba, _ = labelled
    columns = label_columns(*labelled)
    share = ambiguity(ranked.scores_)
    worst = most_ambiguous(ranked.scores_)
    verdict = judge(columns, worst, answers_needed(labelled, accept), accept, checked=checked)
    return pa.table(
        {
            **columns,
            "ambiguity": pa.array(share, mask=np.isnan(share)),
            "verdict": pa.DictionaryArray.from_arrays(verdict, VERDICTS).dictionary_decode(),
            **{f"{PROBA}{name}": proba[:, c] for c, name in enumerate(answers.classes.tolist())},
        }
    )


def ambiguity(scores: Array) -> Array:
    """Share of the ranked tasks that are no more ambiguous, (tasks,): 1 for the most ambiguous, NaN where not ranked.

    >>> ambiguity(np.array([0.5, -1.0, np.inf, 0.5])).round(2).tolist()
    [0.67, 1.0, nan, 0.67]
    """
    known = np.isfinite(scores)
    out = np.full(len(scores), np.nan)
    out[known] = rankdata(-scores[known], method="max") / max(known.sum(), 1)
    return out


def most_ambiguous(scores: Array) -> Array:
    """Whether at most the share `HOPELESS` of the ranked tasks is as ambiguous as this one or more so, (tasks,) bools.

    Tasks of the same score stand or fall together: where too many share the lowest, none is told from the others.
    """
    return rankdata(scores, method="max") <= HOPELESS * np.isfinite(scores).sum()


def answers_needed(labelled: Labelled, accept: float) -> Array:
    """How many answers of average workers would make each label as sure as `accept`, (tasks,)."""
    answers, proba, codes = labelled
    rows = np.arange(answers.n_tasks)
    others = proba.copy()  # (tasks, classes)
    others[rows, codes] = -1.0
    other, average = others.argmax(axis=1), crowd(labelled)
    cross = average @ np.log(average).T  # (classes, classes); D[c, d] = cross[c, c] - cross[c, d]
    apart = cross[codes, codes] - cross[codes, other]  # (tasks,)
    odds = np.log(np.maximum(proba[rows, codes], TINY)) - np.log(np.maximum(proba[rows, other], TINY))
    gap = np.log(accept / (1 - accept)) - odds
    return np.ceil(np.maximum(gap, 0) / np.maximum(apart, TINY))


def crowd(labelled: Labelled) -> Array:
    """What the crowd says of tasks of each class, (classes, labels): one answer a class is added, spread evenly."""
    answers, proba, _ = labelled
    k = answers.n_classes
    counts = np.stack([np.bincount(answers.label, proba[answers.task, c], minlength=k) for c in range(k)]) + 1 / k
    return counts / counts.sum(axis=1, keepdims=True)


def judge(columns: dict[str, Any], worst: Array, needed: Array, accept: float, *, checked: bool) -> Array:
    """Places in `VERDICTS`, (tasks,)."""
    count = np.asarray(columns["answers"])
    agreed = columns["agreement"].fill_null(1.0).to_numpy(zero_copy_only=False)
    sure = (np.asarray(columns["confidence"]) >= accept) & (checked | (count > 1))
    torn = worst & (agreed < 1) & (count > 1)
    cheap = (count == 0) | (needed <= CHEAP) | ~(checked | (count > 1))
    return np.select([sure, torn, cheap], [0, 3, 2], 1).astype(np.int32)
