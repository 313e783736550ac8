"""Class shares, accuracy of labels and accuracy of workers, estimated from gold and answers, with intervals.

    g[t]     gold label of task t, known for a random sample of the tasks
    V, M     vote shares and the model's probabilities, (tasks, classes)
    q        = b[0] V + b[1] M, the combined prediction of the truth; b by least squares of [g[t] = c] on the gold
               tasks, for all classes together with one intercept per class

    figure                     gold value y of a task                       its prediction f, known for all tasks
    share of class c           [g[t] = c]                                   q[t, c]
    accuracy of the labels     [label[t] = g[t]]                            q[t, label[t]]
    accuracy of worker w       [answer[w, t] = g[t]]                        q[t, answer[w, t]]
    worker v minus worker w    the difference of the two, on tasks that both answered

Each figure is the mean of y over all tasks it is about, by prediction-powered inference (`crowdwise.trust.ppi`), beside
the estimate from gold alone. Shares use one common weight of the predictions, so that they add up to 1.

Assumptions. Gold tasks are a random sample of all tasks: drawn uniformly, or uniformly within `strata`, or with known
`inclusion` probabilities, or by `plan_gold`. The model has not seen the gold labels. Nothing is assumed about workers:
if they share mistakes, predictions are poor, and the interval is that of gold alone. Each interval holds on its own
with probability 1 - alpha; of many, some miss. A worker's accuracy needs `MIN_GOLD` gold tasks that they answered. The
gain is small where answers say little about the truth: the width relative to gold alone is the square root of the
unexplained share of the variance of y.

Time and memory grow with the number of answers, and with tasks x classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise._core.validation import is_number, require
from crowdwise.answers import Answers
from crowdwise.errors import GoldError, UnknownIdError
from crowdwise.trust.gold_design import design_sample
from crowdwise.trust.gold_sample import GoldSample, task_sample
from crowdwise.trust.ppi import MIN_GOLD, Array, IntervalEstimate, Population, rectified_mean
from crowdwise.truth.base import check_answers, vote_shares
from crowdwise.truth.fitted import FittedModel
from crowdwise.truth.methods.dawid_skene import DawidSkene
from crowdwise.truth.methods.majority_vote import MajorityVote

GOLD_PER_PREDICTION = 20  # gold tasks needed to weight one more source of predictions


@dataclass(frozen=True)
class Figures:
    """What estimates are computed from; private to this module."""

    answers: Answers  # without those that a model made for a worker
    gold: Array  # (tasks,) codes, -1 unknown
    prediction: Array  # (tasks, classes)
    sample: GoldSample
    position: Array  # (tasks,), of a gold task among the gold tasks
    alpha: float
    population: Population


@dataclass(frozen=True)
class TrustEstimates:
    """Estimates with confidence intervals; made by `estimate`.

    Attributes
    ----------
    shares : dict of class to IntervalEstimate
        Share of each class among all tasks. The values add up to 1.
    accuracy : IntervalEstimate
        Share of labels that are right.
    workers : dict of worker to IntervalEstimate
        Share of right answers of each worker with enough gold tasks.
    too_few_gold : tuple
        Workers with fewer than `ppi.MIN_GOLD` gold tasks, for whom no interval is given.
    n_gold, n_tasks : int
        Number of gold tasks and of all tasks.
    alpha : float
        One minus the confidence level.
    """

    shares: dict[Any, IntervalEstimate]
    accuracy: IntervalEstimate
    workers: dict[Any, IntervalEstimate]
    too_few_gold: tuple[Any, ...]
    n_gold: int
    n_tasks: int
    alpha: float
    _figures: Figures = field(repr=False, compare=False)

    def difference(self, one: Any, other: Any) -> IntervalEstimate:
        """Return the accuracy of worker `one` minus that of worker `other`, on the tasks that both answered.

        Paired: tasks that are easy or hard for both cancel out, so that the interval is much narrower than that of two
        separate accuracies.
        """
        figures, answers = self._figures, self._figures.answers
        first, second = (_rows_of(answers, worker) for worker in (one, other))
        task, i, j = np.intersect1d(answers.task[first], answers.task[second], return_indices=True)
        a, b = answers.label[first][i], answers.label[second][j]  # (common tasks,)
        f = figures.prediction[task, a] - figures.prediction[task, b]
        rows = np.flatnonzero(figures.gold[task] >= 0)
        if len(rows) < MIN_GOLD:
            message = (
                f"workers {one!r} and {other!r} have answered {len(rows)} gold tasks in common; at least {MIN_GOLD} "
                f"are needed to compare them."
            )
            raise GoldError(message)
        known = figures.gold[task[rows]]
        y = (a[rows] == known).astype(float) - (b[rows] == known)
        return rectified_mean(
            y, f, rows, _part_sample(figures, task, rows),
            alpha=figures.alpha, population=figures.population, signed=True,
        )  # fmt: skip

    def gain(self, new: Array, old: Array) -> IntervalEstimate:
        """Return the accuracy of the labels `new` minus that of `old`, for example with and without some workers.

        Labels are given as shares, (tasks, classes); a label that is certain is a row with a single 1. Estimated from
        gold alone.
        """
        figures = self._figures
        rows = np.flatnonzero(figures.gold >= 0)
        known = figures.gold[rows]
        y, f = np.asarray(new)[rows, known] - np.asarray(old)[rows, known], np.zeros(figures.answers.n_tasks)
        return rectified_mean(
            y, f, rows, figures.sample, lam=0.0, alpha=figures.alpha, population=figures.population, signed=True
        )

    def to_arrow(self) -> pa.Table:
        """Return a table with one row per figure: `figure`, `of` (class or worker), and the fields of the estimate."""
        parts: list[tuple[str, str | None, IntervalEstimate]] = [("accuracy", None, self.accuracy)]
        parts += [("share", str(name), part) for name, part in self.shares.items()]
        parts += [("worker", str(name), part) for name, part in self.workers.items()]
        return pa.Table.from_pylist([{"figure": figure, "of": of, **vars(part)} for figure, of, part in parts])

    def __str__(self) -> str:
        level = f"{100 * (1 - self.alpha):g} % intervals from {self.n_gold} gold labels and {self.n_tasks:,} tasks"
        lines = [level, f"labels right: {self.accuracy}"]
        lines += [f"share of {name}: {part}" for name, part in self.shares.items()]
        lines += [f"worker {name}: {part}" for name, part in self.workers.items()]
        if self.too_few_gold:
            lines.append(f"{len(self.too_few_gold)} workers answered fewer than {MIN_GOLD} gold tasks")
        return "\n".join(lines)


def estimate(
    answers_or_model: Any,
    gold: Any,
    *,
    proba: Array | None = None,
    alpha: float = 0.05,
    strata: Any = None,
    inclusion: Any = None,
    design: pa.Table | None = None,
    population: Population = "tasks",
) -> TrustEstimates:
    """Estimate class shares, the accuracy of labels and the accuracy of workers, with confidence intervals.

    Parameters
    ----------
    answers_or_model : Answers or fitted model
        A model fitted without the gold labels, whose labels are judged. For answers, the labels of majority vote are
        judged, and Dawid-Skene's probabilities are used as predictions too.
    gold : mapping of task to class, or codes in task order (-1 unknown)
        Known labels of a random sample of the tasks; at least `ppi.MIN_GOLD`.
    proba : (tasks, classes) array, optional
        Probabilities to use as predictions instead of the model's, for example of a pool of models. With answers, their
        most probable classes are the labels that are judged. They must not depend on the gold labels.
    alpha : float
        One minus the confidence level of each interval.
    strata : mapping of task to stratum, or one stratum per task, optional
        If gold was drawn separately from groups of tasks, the group of every task. Each group needs two gold tasks.
    inclusion : mapping of task to probability, or one probability per task, optional
        If some tasks were more likely than others to be drawn as gold, the probability of each task.
    design : pyarrow.Table, optional
        If gold tasks were drawn by `plan_gold`, the columns that it wrote (`crowdwise.trust.gold_design`).
    population : {"tasks", "source"}
        "tasks" estimates the figures of these tasks. "source" estimates those of the process that the tasks are a
        random sample of; its intervals are wider.

    Returns
    -------
    TrustEstimates

    Examples
    --------
    >>> from crowdwise import simulate
    >>> from crowdwise.trust import estimate
    >>> answers = simulate.simulate(2000, n_workers=8, n_classes=2, answers_per_task=4, seed=1)
    >>> sample = np.random.default_rng(0).choice(2000, 100, replace=False)
    >>> found = estimate(answers, {int(t): int(answers.truth[t]) for t in sample})
    >>> print(found.accuracy)  # .782 are right
    0.785 [0.747, 0.819], gold alone 0.730 [0.638, 0.806], 100 gold
    >>> found.shares[0].width < found.shares[0].gold_width
    True
    """
    require(is_number(alpha) and 0 < alpha < 0.5, "alpha", alpha, "a number between 0 and 0.5")
    require(population in ("tasks", "source"), "population", population, "'tasks' or 'source'")
    answers, model = _answers_and_model(answers_or_model)
    known = answers.codes_of_truth(gold)
    rows = np.flatnonzero(known >= 0)  # (gold,) tasks
    if len(rows) < MIN_GOLD:
        message = f"{len(rows)} gold labels are too few for an interval; label at least {MIN_GOLD} random tasks."
        raise GoldError(message)
    labels, sources = _labels_and_predictions(answers, model, proba, known)
    if design is None:
        sample = task_sample(answers, rows, strata, inclusion)
    else:
        require(strata is None and inclusion is None, "design", "a table", "None with strata or inclusion")
        sample = design_sample(answers, rows, design)
    prediction = _combine(sources, known, rows, sample.weight)
    human = answers if answers.pseudo is None else answers.take(np.flatnonzero(~answers.pseudo))
    figures = Figures(human, known, prediction, sample, np.cumsum(known >= 0) - 1, alpha, population)
    share = {
        name: rectified_mean(
            known[rows] == c, prediction[:, c], rows, sample,
            lam=1.0, alpha=alpha, population=population,
        )
        for c, name in enumerate(answers.class_ids.to_pylist())
    }  # fmt: skip
    f = prediction[np.arange(answers.n_tasks), labels]  # (tasks,)
    is_right = labels[rows] == known[rows]
    accuracy = rectified_mean(is_right, f, rows, sample, alpha=alpha, population=population)
    workers, too_few = _worker_estimates(figures)
    return TrustEstimates(share, accuracy, workers, too_few, len(rows), answers.n_tasks, alpha, figures)


def _answers_and_model(source: Any) -> tuple[Answers, Any]:
    """Return the answers, and the model if there is one."""
    if isinstance(source, FittedModel):
        return source._fitted, source
    return check_answers(source), None


def _labels_and_predictions(
    answers: Answers, model: Any, proba: Array | None, known: Array
) -> tuple[Array, list[Array]]:
    """Return the label codes to judge, (tasks,), and the sources of predictions, (tasks, classes) each."""
    votes = vote_shares(answers)
    if proba is not None:
        proba = np.asarray(proba, dtype=float)
        shape = (answers.n_tasks, answers.n_classes)
        require(proba.shape == shape and bool(np.isfinite(proba).all()), "proba", proba.shape, f"finite, shape {shape}")
        labels = proba.argmax(axis=1) if model is None else model.codes_
    elif model is None:
        labels, proba = MajorityVote().fit(answers).codes_, DawidSkene().fit(answers).proba_
    else:
        labels, proba = model.codes_, model.proba_
    is_known = known >= 0
    certain = proba[np.arange(len(proba)), known] >= 1  # only read where the label is known
    fitted_with_gold = getattr(model, "gold_", None) is not None and bool((model.gold_[is_known] >= 0).any())
    copies_gold = bool(certain[is_known].all()) and bool((proba[~is_known].max(axis=1, initial=0) < 1).mean() > 0.5)
    if fitted_with_gold or copies_gold:
        message = (
            "the probabilities of the gold tasks are their gold labels, so they cannot show how good the others are. "
            "Fit the model without these gold labels."
        )
        raise GoldError(message)
    return labels, [proba] if np.allclose(proba, votes) else [proba, votes]


def _combine(sources: list[Array], known: Array, rows: Array, weight: Array) -> Array:
    """Return the combined prediction q, (tasks, classes)."""
    if len(rows) < GOLD_PER_PREDICTION * len(sources):
        sources = [np.mean(sources, axis=0)]
    truth = (known[rows, None] == np.arange(sources[0].shape[1])).astype(float)  # (gold, classes)
    scale = np.sqrt(weight)[:, None]
    columns = [(scale * (each[rows] - weight @ each[rows])).ravel() for each in sources]
    b, *_ = np.linalg.lstsq(np.column_stack(columns), (scale * (truth - weight @ truth)).ravel(), rcond=1e-6)
    return np.tensordot(b, np.stack(sources), axes=1)


def _worker_estimates(figures: Figures) -> tuple[dict[Any, IntervalEstimate], tuple[Any, ...]]:
    """Return the accuracy of each worker with enough gold tasks, and the other workers."""
    answers, found, too_few = figures.answers, {}, []
    has_gold = figures.gold[answers.task] >= 0  # (answers,)
    count = np.bincount(answers.worker[has_gold], minlength=answers.n_workers)
    for w, name in enumerate(answers.worker_ids.to_pylist()):
        if count[w] < MIN_GOLD:
            too_few.append(name)
            continue
        own = answers.by_worker[answers.worker_starts[w] : answers.worker_starts[w + 1]]
        task, label = answers.task[own], answers.label[own]
        f, rows = figures.prediction[task, label], np.flatnonzero(has_gold[own])
        found[name] = rectified_mean(
            label[rows] == figures.gold[task[rows]], f, rows, _part_sample(figures, task, rows),
            alpha=figures.alpha, population=figures.population,
        )  # fmt: skip
    return found, tuple(too_few)


def _part_sample(figures: Figures, task: Array, rows: Array) -> GoldSample:
    """Return the design for a part of the tasks: `task` are its tasks, and `task[rows]` the gold ones among them."""
    return figures.sample.part(figures.position[task[rows]], len(task))


def _rows_of(answers: Answers, worker: Any) -> Array:
    """Return the rows of one worker's answers."""
    code = next(iter(np.flatnonzero(answers.workers == worker).tolist()), None)
    if code is None:
        message = f"no worker {worker!r} in these answers."
        raise UnknownIdError(message)
    return answers.by_worker[answers.worker_starts[code] : answers.worker_starts[code + 1]]
