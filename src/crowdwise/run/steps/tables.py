"""Step 4: label the tasks with verdicts, rate the workers, propose answers to buy, and write the tables."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.acquire import propose
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.choose import Choice
from crowdwise.io import write
from crowdwise.learn.base import CrowdClassifier
from crowdwise.run import stored_files as files
from crowdwise.run.confidence import find_copies
from crowdwise.run.selection import Selected, fit_model
from crowdwise.run.steps.context import RunContext
from crowdwise.run.steps.fit import Fits
from crowdwise.run.tables.labels import Labelling, label_table
from crowdwise.run.tables.tasks import Disagreement, task_table, write_thumbnails
from crowdwise.run.tables.workers import rate_workers
from crowdwise.trust.gold_design import gold_table
from crowdwise.truth.base import TruthModel


class Results(NamedTuple):
    """The tables of step 4."""

    labels: pa.Table
    workers: pa.Table
    proposal: pa.Table
    ranking: TaskRanker


def make_tables(context: RunContext, fits: Fits, selected: Selected, *, checked: bool) -> Results:
    """Label the tasks, rate the workers and propose answers to buy."""
    labelling = selected.labelling
    copies = find_copies(fits.evidence.dependence)
    workers = rate_workers(
        *labelling, seconds=context.data.seconds, copies=copies, calibrated=fits.evidence.pool is not None,
        gold=context.data.gold,
    )  # fmt: skip
    quality = workers.column("quality").fill_null(0.5).to_numpy()
    ranking = Disagreement(labelling, quality) if fits.ranking is None else fits.ranking
    checked = checked or fits.evidence.pool is not None
    low = workers.column("quality_low").fill_null(0.0).to_numpy()
    labels = label_table(
        labelling, ranking, context.options.accept, checked=checked, by_features=selected.needs_features, quality=low,
        gold=context.data.gold, flagged=pc.is_valid(workers.column("flag")).to_numpy(),
    )  # fmt: skip
    proposal = _propose(context, fits.models[selected.method], labelling, labels, workers)
    return Results(_with_truth(context, labels), workers, proposal, ranking)


def _with_truth(context: RunContext, labels: pa.Table) -> pa.Table:
    """Return the labels with a column of known truth after the verdict, if any is known."""
    if context.data.truth is None:
        return labels
    names = context.data.class_names
    column = pa.array([names[code] if code >= 0 else None for code in context.data.truth.tolist()])
    return labels.add_column(labels.column_names.index("verdict") + 1, "truth", column)


def _propose(context: RunContext, model: Any, labelling: Labelling, labels: pa.Table, workers: pa.Table) -> pa.Table:
    """Propose answers to buy: none for hopeless tasks, and none by flagged workers if there are others."""
    proba, rows = labelling.proba.copy(), np.arange(len(labelling.codes))
    highest = labelling.proba.max(axis=1) * (1 + 1e-9)  # breaks ties in favour of the label
    proba[rows, labelling.codes] = np.maximum(proba[rows, labelling.codes], highest)
    hopeless = np.array([verdict == "hopeless" for verdict in labels.column("verdict").to_pylist()])
    budget = context.options.budget or 1
    trusted = workers.filter(pc.is_null(workers.column("flag"))).column("worker").to_pylist()
    return propose(
        model, budget, proba=proba, hopeless=hopeless, per_worker="fair", workers=trusted or None,
        random_state=context.options.seed,
    ).table  # fmt: skip


def write_tables(context: RunContext, results: Results, fits: Fits, best: str, choice: Choice | None) -> None:
    """Write the tables, the images and the models of the folder."""
    model = fits.models[best]
    place, data, labels = context.folder, context.data, results.labels
    write(labels, place / files.LABELS)
    plain = [name for name in labels.column_names if not name.startswith(files.PROBA)]
    write(labels.select(plain), place / files.LABELS_CSV)
    write(results.workers, place / files.WORKERS)
    order = np.argsort(results.ranking.scores_, kind="stable")
    images = {} if data.images is None else write_thumbnails(data.images, order.tolist(), place)
    write(task_table(results.ranking, data.texts, images), place / files.TASKS)
    write(results.proposal, place / files.NEXT)
    if data.gold is not None:
        write(gold_table(data.answers, data.gold, data.design), place / files.GOLD)
    model.save(place / files.MODEL)
    if isinstance(model, TruthModel) and data.X is not None:
        _best_classifier(context, fits, best, choice).save(place / files.CLASSIFIER)


def _best_classifier(context: RunContext, fits: Fits, best: str, choice: Choice | None) -> Any:
    """Return the learner that predicts held-out answers best, or a classifier of the labels if there is none."""
    ranking = [] if choice is None else choice.ranking_
    learners = [name for name in ranking if isinstance(fits.models.get(name), CrowdClassifier)]
    if learners:
        return fits.models[learners[0]]
    from crowdwise.learn.methods.aggregated import Aggregated

    classifier = Aggregated(copy.deepcopy(context.candidates.models[best]), random_state=context.options.seed)
    return fit_model(classifier, context.data.X, context.data.answers, context.data.gold)
