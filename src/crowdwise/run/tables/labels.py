"""The table of labels: label, confidence, ambiguity and verdict of each task.

    needed[t]   answers of average workers until the confidence reaches `accept`, if the label is right
                = ceil((log odds of accept - log(p[label] / p[runner-up])) / D[label, runner-up])
    D[c, d]     = KL(average[c] || average[d])        nats that an average answer adds to the odds of c over d
    average[c]  = distribution of the crowd's answers to tasks of class c

The verdict is the first of these that applies:

    accept              confidence >= accept; if no answer could be held out to check it, also two answers or more
    hopeless            among the share `HOPELESS` of most ambiguous tasks, and its answers contradict each other, as
                        more answers would: rewrite the question, or drop the task
    needs more answers  no answer yet, or needed <= `CHEAP`: a few more answers should settle it
    review              needed > `CHEAP`: an expert should decide
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.stats import rankdata

from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.answers import Answers
from crowdwise.report.source import VERDICTS
from crowdwise.run.folder import PROBA
from crowdwise.truth.tables import label_columns

Array = np.ndarray[Any, np.dtype[Any]]

ACCEPT = 0.9  # confidence from which a label is accepted
HOPELESS = 0.05  # largest share of the ranked tasks that may be hopeless
CHEAP = 3  # further answers per task that are worth buying
TINY = 1e-12


class Labelling(NamedTuple):
    """Labels of all tasks, with class probabilities."""

    answers: Answers
    proba: Array  # (tasks, classes), calibrated
    codes: Array  # (tasks,)

    @property
    def confidence(self) -> Array:
        """Probability of each label, (tasks,)."""
        return self.proba[np.arange(len(self.codes)), self.codes]


def label_table(labelling: Labelling, ranking: TaskRanker, accept: float, *, checked: bool = True) -> pa.Table:
    """Return the table of labels.parquet; `checked` says whether held-out answers checked the confidence."""
    answers, proba, _ = labelling
    columns = label_columns(*labelling)
    share = ambiguity(ranking.scores_)
    worst = most_ambiguous(ranking.scores_)
    verdict = verdict_codes(columns, worst, answers_needed(labelling, accept), accept, checked=checked)
    return pa.table(
        {
            **columns,
            "ambiguity": pa.array(share, mask=np.isnan(share)),
            "verdict": pa.DictionaryArray.from_arrays(verdict, VERDICTS).dictionary_decode(),
            **{f"{PROBA}{name}": proba[:, c] for c, name in enumerate(answers.classes.tolist())},
        }
    )


def ambiguity(scores: Array) -> Array:
    """Return the share of ranked tasks that are at most as ambiguous, (tasks,): 1 is the most ambiguous, NaN unranked.

    >>> ambiguity(np.array([0.5, -1.0, np.inf, 0.5])).round(2).tolist()
    [0.67, 1.0, nan, 0.67]
    """
    ranked = np.isfinite(scores)
    out = np.full(len(scores), np.nan)
    out[ranked] = rankdata(-scores[ranked], method="max") / max(ranked.sum(), 1)
    return out


def most_ambiguous(scores: Array) -> Array:
    """Return whether each task is among the share `HOPELESS` of most ambiguous ranked tasks, (tasks,) bools.

    Ties are treated alike: if too many tasks share the lowest score, none of them is among the most ambiguous.
    """
    return rankdata(scores, method="max") <= HOPELESS * np.isfinite(scores).sum()


def answers_needed(labelling: Labelling, accept: float) -> Array:
    """Return how many answers of average workers would raise each confidence to `accept`, (tasks,)."""
    answers, proba, codes = labelling
    rows = np.arange(answers.n_tasks)
    others = proba.copy()  # (tasks, classes)
    others[rows, codes] = -1.0
    runner_up, average = others.argmax(axis=1), average_worker(labelling)
    cross = average @ np.log(average).T  # (classes, classes); D[c, d] = cross[c, c] - cross[c, d]
    divergence = cross[codes, codes] - cross[codes, runner_up]  # (tasks,)
    odds = np.log(np.maximum(proba[rows, codes], TINY)) - np.log(np.maximum(proba[rows, runner_up], TINY))
    gap = np.log(accept / (1 - accept)) - odds
    return np.ceil(np.maximum(gap, 0) / np.maximum(divergence, TINY))


def average_worker(labelling: Labelling) -> Array:
    """Return the crowd's distribution of answers per class, (classes, labels), smoothed by one answer per class."""
    answers, proba, _ = labelling
    k = answers.n_classes
    counts = np.stack([np.bincount(answers.label, proba[answers.task, c], minlength=k) for c in range(k)]) + 1 / k
    return counts / counts.sum(axis=1, keepdims=True)


def verdict_codes(columns: dict[str, Any], worst: Array, needed: Array, accept: float, *, checked: bool) -> Array:
    """Return positions in `VERDICTS`, (tasks,)."""
    count = np.asarray(columns["answers"])
    agreement = columns["agreement"].fill_null(1.0).to_numpy(zero_copy_only=False)
    accepted = (np.asarray(columns["confidence"]) >= accept) & (checked | (count > 1))
    hopeless = worst & (agreement < 1) & (count > 1)
    cheap = (count == 0) | (needed <= CHEAP) | ~(checked | (count > 1))
    return np.select([accepted, hopeless, cheap], [0, 3, 2], 1).astype(np.int32)
