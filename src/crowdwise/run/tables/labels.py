"""The table of labels: label, confidence, ambiguity, verdict and reason of each task.

    needed[t]   answers of average workers until the confidence reaches `accept`, if the label is right
                = ceil((log odds of accept - log(p[label] / p[runner-up])) / D[label, runner-up])
    D[c, d]     = KL(average[c] || average[d])        nats that an average answer adds to the odds of c over d
    average[c]  = distribution of the crowd's answers to tasks of class c

The verdict is the first of these that applies:

    accept              the label is gold
    needs more answers  nobody has answered the task
    accept              confidence >= accept; if no answer could be held out to check it, also two answers or more
    review              the same, but fewer than half of the answers name the label, and neither features nor the
                        answers of workers without a flag support it: with features, held-out answers have checked the
                        model that contradicts the answers; flags count if they concern less than half of all answers
    hopeless            confidence < `HOPELESS`, and trusted answers contradict each other (`verdict_evidence`), as more
                        answers would: rewrite the question, or drop the task
    review              every worker who can be asked has answered the task already: more answers need new workers
    needs more answers  needed <= `CHEAP`: a few more answers should settle it
    review              needed > `CHEAP`: an expert should decide

The verdict of a task depends on its own answers and confidence, never on its rank among the tasks. `reason` explains
unusual labels and verdicts, and is empty otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.stats import rankdata

from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.report.source import VERDICTS
from crowdwise.run.stored_files import PROBA
from crowdwise.run.tables.verdict_evidence import contradicted, quality_bounds
from crowdwise.truth.tables import label_columns

Array = np.ndarray[Any, np.dtype[Any]]

ACCEPT = 0.9  # confidence from which a label is accepted
HOPELESS = 0.6  # confidence from which a task is not hopeless
CHEAP = 3  # further answers per task that are worth buying
TINY = 1e-12
GOLD = "gold label"
UNANSWERED = "nobody has answered this task"
UNNAMED = "nobody gave this label"
MINORITY = "fewer than half of the answers name it"
UNFLAGGED = "only flagged workers keep it from half of the answers"
SPLIT = "trusted answers contradict each other"
ASKED = "every worker has answered it: ask new workers or an expert"
SINGLE = "only one answer, and no other answers to check it"


class Labelling(NamedTuple):
    """Labels of all tasks, with class probabilities."""

    answers: Answers
    proba: Array  # (tasks, classes), calibrated
    codes: Array  # (tasks,)

    @property
    def confidence(self) -> Array:
        """Probability of each label, (tasks,)."""
        return self.proba[np.arange(len(self.codes)), self.codes]


def label_table(
    labelling: Labelling,
    ranking: TaskRanker,
    accept: float,
    *,
    checked: bool = True,
    by_features: bool = False,
    quality: Array | None = None,
    gold: Array | None = None,
    flagged: Array | None = None,
) -> pa.Table:
    """Return the table of labels.parquet.

    Parameters
    ----------
    labelling : Labelling
    ranking : TaskRanker
        Source of the column `ambiguity`. Verdicts do not depend on it.
    accept : float
        Confidence from which a label is accepted.
    checked : bool
        Whether held-out answers checked the confidence.
    by_features : bool
        Whether the model also uses features, which may speak for a label that few answers name.
    quality : (workers,) array, optional
        Lower 95 % bound of each worker's share of right answers, such as `quality_low` of the table of workers. The
        default is the bound from the probabilities (`quality_bounds`).
    gold : (tasks,) int array, optional
        Codes of known labels, -1 unknown. They replace the inferred labels, with confidence 1.
    flagged : (workers,) bool array, optional
        Workers who should not be asked again.
    """
    labelling = labelling if gold is None else with_gold(labelling, gold)
    answers, proba, _ = labelling
    columns = label_columns(*labelling)
    share = ambiguity(ranking.scores_)
    verdict, reason = verdicts(
        labelling, columns, accept, checked=checked, by_features=by_features, quality=quality, gold=gold,
        flagged=flagged,
    )  # fmt: skip
    return pa.table(
        {
            **columns,
            "ambiguity": pa.array(share, mask=np.isnan(share)),
            "verdict": pa.DictionaryArray.from_arrays(verdict, VERDICTS).dictionary_decode(),
            "reason": pa.array(reason, pa.string(), mask=reason == ""),
            **{f"{PROBA}{name}": proba[:, c] for c, name in enumerate(answers.classes.tolist())},
        }
    )


def with_gold(labelling: Labelling, gold: Array) -> Labelling:
    """Return the labelling with gold labels in place of inferred ones."""
    answers, proba, codes = labelling
    gold = np.asarray(gold)
    if gold.shape != codes.shape or gold.min(initial=-1) < -1 or gold.max(initial=-1) >= answers.n_classes:
        message = (
            f"gold has shape {gold.shape} and codes up to {gold.max(initial=-1)}; it needs one code from -1 to "
            f"{answers.n_classes - 1} for each of the {answers.n_tasks} tasks."
        )
        raise ParameterError(message)
    known = gold >= 0  # (tasks,)
    certain = (gold[:, None] == np.arange(answers.n_classes)).astype(float)  # (tasks, classes)
    return Labelling(answers, np.where(known[:, None], certain, proba), np.where(known, gold, codes))


def ambiguity(scores: Array) -> Array:
    """Return the share of ranked tasks that are at most as ambiguous, (tasks,): 1 is the most ambiguous, NaN unranked.

    >>> ambiguity(np.array([0.5, -1.0, np.inf, 0.5])).round(2).tolist()
    [0.67, 1.0, nan, 0.67]
    """
    ranked = np.isfinite(scores)
    out = np.full(len(scores), np.nan)
    out[ranked] = rankdata(-scores[ranked], method="max") / max(ranked.sum(), 1)
    return out


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
    return np.ceil(np.round(np.maximum(gap, 0) / np.maximum(divergence, TINY), 9))  # equal tasks stay equal


def average_worker(labelling: Labelling) -> Array:
    """Return the crowd's distribution of answers per class, (classes, labels), smoothed by one answer per class."""
    answers, proba, _ = labelling
    k = answers.n_classes
    counts = np.stack([np.bincount(answers.label, proba[answers.task, c], minlength=k) for c in range(k)]) + 1 / k
    return counts / counts.sum(axis=1, keepdims=True)


def verdicts(
    labelling: Labelling,
    columns: dict[str, Any],
    accept: float,
    *,
    checked: bool,
    by_features: bool,
    quality: Array | None,
    gold: Array | None,
    flagged: Array | None,
) -> tuple[Array, Array]:
    """Return positions in `VERDICTS` and reasons, (tasks,) each."""
    count = np.asarray(columns["answers"])
    agreement = columns["agreement"].fill_null(0.0).to_numpy(zero_copy_only=False)
    confidence = np.asarray(columns["confidence"])
    known = np.zeros(len(count), bool) if gold is None else np.asarray(gold) >= 0
    minority = agreement < 0.5
    single = (count == 1) & (not checked)
    sure = (confidence >= accept) & ~single
    bound = quality_bounds(labelling.answers, labelling.proba) if quality is None else np.asarray(quality, float)
    hopeless = (confidence < min(HOPELESS, accept)) & contradicted(labelling.answers, labelling.proba, bound)
    cheap = (answers_needed(labelling, accept) <= CHEAP) | single
    asked = nobody_left(labelling.answers, flagged)
    backed = minority & (unflagged_share(labelling, flagged) >= 0.5)
    supported = ~minority | backed | (by_features and checked)
    rules = [known, count == 0, sure & supported, sure, hopeless, asked, cheap]
    verdict = np.select(rules, [0, 2, 0, 1, 3, 1, 2], 1).astype(np.int32)
    reasons = [known, count == 0, hopeless, agreement == 0, backed, minority, asked & (verdict == 1), single]
    return verdict, np.select(reasons, [GOLD, UNANSWERED, SPLIT, UNNAMED, UNFLAGGED, MINORITY, ASKED, SINGLE], "")


def unflagged_share(labelling: Labelling, flagged: Array | None) -> Array:
    """Return which share of the answers by workers without a flag name the label, (tasks,).

    It is 0 without such answers, and everywhere if flagged workers gave half of all answers: the wrong ones may be.
    """
    answers, _, codes = labelling
    trusted = np.zeros(answers.n_answers, bool) if flagged is None else ~flagged[answers.worker]
    if trusted.sum() <= answers.n_answers / 2:
        return np.zeros(answers.n_tasks)
    names = np.bincount(answers.task, trusted & (answers.label == codes[answers.task]), answers.n_tasks)
    return np.asarray(names / np.maximum(np.bincount(answers.task, trusted, answers.n_tasks), 1))


def nobody_left(answers: Answers, flagged: Array | None = None) -> Array:
    """Return which tasks (tasks,) every worker with answers who is not `flagged` has answered.

    >>> answers = Answers.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "x", "y"])
    >>> nobody_left(answers).tolist(), nobody_left(answers, np.array([False, True])).tolist()
    ([True, False], [True, True])
    """
    able = np.diff(answers.worker_starts) > 0
    able = able if flagged is None else able & ~flagged
    return np.asarray(np.bincount(answers.task, able[answers.worker], answers.n_tasks) >= able.sum())
