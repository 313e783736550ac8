"""`run_ratings`: from ratings to values with intervals, workers, tasks, ratings to buy and a report, in one folder.

The folder, its config and its progress are those of `run`; a run of ratings is short, so that an interrupted one starts
again. Files:

    labels.csv   task, label, value, standard_error, lower, upper, confidence (on a scale), ratings, gold
    workers.csv  worker, ratings, bias, spread, distance (mean distance from the labels), flag
    tasks.csv    the least certain tasks first: task, label, lower, upper, range of the ratings
    next.csv     ratings to buy: task, worker, the least certain tasks first, by the most precise workers
    metrics.json, config.json, model.safetensors, report.html
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise._core.atomic_io import atomic_write, exclusive_access, remove_partial_files
from crowdwise._core.display import html_table
from crowdwise._core.fingerprints import fingerprint
from crowdwise._core.registry import make
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Ratings
from crowdwise.choose.ratings import RatingChoice, choose_for_ratings
from crowdwise.io import write
from crowdwise.io.reader import attach_truth
from crowdwise.run.progress import OutputFolder, RunProgress, make_config
from crowdwise.truth.base import Array

STEPS = 4
MAX_BUDGET = 1000
CARELESS = 2.0  # times the median distance from the labels, from which a worker is flagged
MIN_RATINGS = 5  # of a worker who is flagged
SHOWN = 20  # rows of each table in the report


class RatingRun(NamedTuple):
    """A finished run of ratings."""

    path: Path
    labels: pa.Table
    workers: pa.Table
    tasks: pa.Table
    next: pa.Table
    metrics: dict[str, Any]
    model: Any


def run_ratings(
    ratings: Ratings, out: str | os.PathLike[str], *, gold: Any = None, truth: Any = None,
    method: str | Sequence[str] = "auto", level: float = 0.9, budget: int | None = None, folds: int = 5, seed: int = 0,
    inputs: Sequence[Mapping[str, Any]] = (), callback: Callable[..., None] | None = None,
) -> RatingRun:  # fmt: skip
    """Infer the values of the tasks, rate the workers, and write everything to a folder.

    Parameters
    ----------
    ratings : Ratings
    out : path
        A new folder.
    gold, truth : as in `Ratings.with_truth`, or path, optional
        Known values to use, and values to score against only; the default of `truth` is that of the ratings.
    method : str or sequence of str
        "auto" chooses by held-out ratings, see `choose.ratings`; a name uses that method; several names compare these.
    level : float
        Probability that the interval of a task contains its value.
    budget : int, optional
        Number of ratings to propose. The default is a tenth of the number of tasks, at most 1,000.
    folds, seed : int
        Number of folds of held-out ratings, and the random seed.
    inputs : sequence of mappings, optional
        Where the data came from, for config.json.
    callback : callable, optional
        Called with a `Progress`.

    Examples
    --------
    >>> import tempfile
    >>> from crowdwise.simulate import rating_crowd
    >>> result = run_ratings(rating_crowd(100, seed=1), tempfile.mkdtemp() + "/run", method="ordinal-dawid-skene")
    >>> result.labels.column_names[:6]
    ['task', 'label', 'value', 'standard_error', 'lower', 'upper']
    """
    require(is_number(level) and 0 < level < 1, "level", level, "a probability between 0 and 1")
    require(budget is None or is_integer(budget, 1), "budget", budget, "an integer, 1 or more")
    known = None if ratings.truth_is_gold else ratings.truth
    fixed = ratings.marked_gold if gold is None else _values(ratings, gold)
    known = known if truth is None else _values(ratings, truth)
    if known is not None and fixed is not None:
        known = np.where(np.isfinite(fixed), np.nan, known)
    ratings = ratings.with_truth(None)
    names = None if method == "auto" else [method] if isinstance(method, str) else list(method)
    target = out if isinstance(out, OutputFolder) else OutputFolder(out)
    options = {"kind": Ratings.kind, "method": names or "auto", "level": level, "budget": budget, "folds": folds}
    config = make_config({"answers": fingerprint(ratings)}, options, inputs, seed)
    with exclusive_access(target.path):
        remove_partial_files(target.path)
        progress = RunProgress(target.path, config, resume=False, steps=STEPS, callback=callback)
        with progress.step("Comparing methods on held-out ratings"):
            choice = choose_for_ratings(ratings, names, folds=folds, random_state=seed)
        with progress.step("Fitting the method on all ratings"):
            model = make(choice.best, random_state=seed).fit(ratings, fixed)
        with progress.step("Labelling tasks and rating workers"):
            labels, workers = label_table(model, fixed, level), worker_table(model)
            tasks, proposals = task_table(model, labels), next_table(model, workers, budget)
            result = RatingRun(
                target.path, labels, workers, tasks, proposals,
                figures(model, choice, labels, workers, known, level), model,
            )  # fmt: skip
            for name in ("labels", "workers", "tasks", "next"):
                write(getattr(result, name), target.path / f"{name}.csv")
            model.save(target.path / "model.safetensors")
        with progress.step("Writing the report"):
            with atomic_write(target.path / "report.html") as partial:
                partial.write_text(report_page(result), encoding="utf-8")
            progress.write_json("metrics.json", result.metrics)
        progress.clear()
    return result


def _values(ratings: Ratings, known: Any) -> Array:
    """Return known values per task from a file, or as `Ratings.with_truth` takes them."""
    if isinstance(known, (str, os.PathLike)):
        values = attach_truth(ratings, known).truth
    else:
        values = ratings.with_truth(known, ignore_unknown=True).truth
    assert values is not None
    return np.asarray(values)


def label_table(model: Any, gold: Array | None, level: float) -> pa.Table:
    """Return the label, value and interval of each task."""
    ratings = model.answers_
    low, high = model.interval(level).T
    columns = {
        "task": ratings.task_ids, "label": model.labels_, "value": model.value_,
        "standard_error": model.standard_error_,
        "lower": _as_written(ratings, low), "upper": _as_written(ratings, high),
    }  # fmt: skip
    if not ratings.numeric:
        columns["confidence"] = model.confidence_
    columns["ratings"] = np.diff(ratings.task_starts)
    columns["gold"] = np.zeros(ratings.n_tasks, bool) if gold is None else np.isfinite(gold)
    return pa.table(columns)


def _as_written(ratings: Ratings, values: Array) -> Array:
    """Return the ends of intervals as users write them: levels on a scale, else numbers."""
    return values if ratings.numeric else ratings.levels[ratings.nearest(values)]


def worker_table(model: Any) -> pa.Table:
    """Return the number of ratings, bias and spread of each worker, and a flag."""
    ratings = model.answers_
    n = np.diff(ratings.worker_starts)
    away = ratings.value - model.value_[ratings.task]
    mean = np.bincount(ratings.worker, away, ratings.n_workers) / np.maximum(n, 1)
    distance = np.bincount(ratings.worker, abs(away), ratings.n_workers) / np.maximum(n, 1)
    variance = np.bincount(ratings.worker, (away - mean[ratings.worker]) ** 2, ratings.n_workers) / np.maximum(n, 1)
    usual = float(np.median(distance[n > 0]))
    flagged = (distance > CARELESS * max(usual, 1e-12)) & (n >= MIN_RATINGS)
    return pa.table({
        "worker": ratings.worker_ids, "ratings": n, "bias": mean, "spread": np.sqrt(variance), "distance": distance,
        "flag": pa.array(["far from the others" if flag else None for flag in flagged], pa.string()),
    })  # fmt: skip


def task_table(model: Any, labels: pa.Table) -> pa.Table:
    """Return the tasks, the least certain first."""
    ratings = model.answers_
    starts, n = ratings.task_starts[:-1], np.diff(ratings.task_starts)
    lowest, highest = (np.full(ratings.n_tasks, np.nan) for _ in range(2))
    answered = np.flatnonzero(n)
    if len(answered):
        lowest[answered] = np.minimum.reduceat(ratings.value, starts[answered])
        highest[answered] = np.maximum.reduceat(ratings.value, starts[answered])
    order = np.argsort(-model.standard_error_, kind="stable")
    table = labels.select(["task", "label", "lower", "upper", "standard_error", "ratings"])
    spread = pa.array(highest - lowest, from_pandas=True)
    return table.append_column("range", spread).take(pa.array(order))


def next_table(model: Any, workers: pa.Table, budget: int | None) -> pa.Table:
    """Return ratings to buy: for the least certain tasks, the most precise worker who has not rated the task."""
    ratings = model.answers_
    budget = min(MAX_BUDGET, max(1, ratings.n_tasks // 10)) if budget is None else budget
    spread = workers.column("spread").to_numpy() + 1e3 * (workers.column("ratings").to_numpy() < MIN_RATINGS)
    best = np.argsort(spread, kind="stable")[: max(1, ratings.n_workers // 2)]
    load = np.zeros(len(best))
    rows: list[tuple[int, int]] = []
    for task in np.argsort(-model.standard_error_, kind="stable"):
        has = set(ratings.worker[ratings.task_starts[task] : ratings.task_starts[task + 1]].tolist())
        free = [i for i, worker in enumerate(best) if int(worker) not in has]
        if free and len(rows) < budget:
            chosen = min(free, key=lambda i: (load[i], i))  # in turn, so that no worker gets them all
            load[chosen] += 1
            rows.append((int(task), int(best[chosen])))
    task_rows, worker_rows = (pa.array([row[i] for row in rows], pa.int32()) for i in (0, 1))
    return pa.table({"task": ratings.task_ids.take(task_rows), "worker": ratings.worker_ids.take(worker_rows)})


def figures(
    model: Any, choice: RatingChoice, labels: pa.Table, workers: pa.Table, known: Array | None, level: float
) -> dict[str, Any]:
    """Return every figure of the report, as JSON."""
    ratings = model.answers_
    low, high = model.interval(level).T
    n_flagged = workers.num_rows - workers.column("flag").null_count
    out: dict[str, Any] = {
        "kind": Ratings.kind, "tasks": ratings.n_tasks, "workers": ratings.n_workers, "ratings": ratings.n_answers,
        "scale": None if ratings.numeric else [str(name) for name in ratings.levels], "level": level,
        "method": choice.best, "why": choice.words, "methods": [entry._asdict() for entry in choice.entries],
        "mean_width": float((high - low).mean()), "flagged_workers": n_flagged, "removed": dict(ratings.removed),
        "expected_accuracy": None if ratings.numeric else float(model.confidence_.mean()), "truth": None,
    }  # fmt: skip
    words = [f"{ratings.n_answers:,} ratings by {ratings.n_workers:,} workers of {ratings.n_tasks:,} tasks."]
    if not ratings.numeric:
        words.append(f"About {out['expected_accuracy']:.0%} of the labels are expected to be exactly right.")
    words.append(f"Intervals that contain the value with probability {level:.0%} are {out['mean_width']:.3g} wide.")
    words.append(choice.words)
    if n_flagged:
        words.append(f"{n_flagged} workers rate far from the others: see workers.csv.")
    if known is not None and np.isfinite(known).any():
        rows = np.flatnonzero(np.isfinite(known))
        value = model.value_ if ratings.numeric else ratings.values[model.codes_]
        error = abs(value - known)[rows]
        inside = ((low <= known) & (known <= high))[rows]
        out["truth"] = {"tasks": len(rows), "mae": float(error.mean()), "inside": float(inside.mean()),
                        "rmse": float(np.sqrt((error**2).mean())), "exact": float((error < 1e-9).mean())}  # fmt: skip
        words.append(
            f"On {len(rows):,} tasks of known value, the mean error is {error.mean():.3g}, and {inside.mean():.0%} of "
            "the intervals contain the value."
        )
    return out | {"words": words}


def report_page(result: RatingRun) -> str:
    """Return the report as one HTML page."""
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><title>Ratings</title>",
             "<style>body{font:15px system-ui;max-width:70em;margin:2em auto;padding:0 1em}td,th{padding:.2em .8em;"
             "text-align:left}table{border-collapse:collapse}tr:nth-child(even){background:#8881}</style><h1>Ratings</h1>",
             *(f"<p>{_escape(sentence)}</p>" for sentence in result.metrics["words"])]  # fmt: skip
    methods = pa.Table.from_pylist(result.metrics["methods"])
    sections = (("Methods", methods), ("Least certain tasks", result.tasks), ("Workers", result.workers),
                ("Labels", result.labels), ("Ratings to buy", result.next))  # fmt: skip
    for title, table in sections:
        rows = [[_shown(value) for value in row.values()] for row in table.slice(0, SHOWN).to_pylist()]
        more = f"<p>{table.num_rows - SHOWN:,} more in the folder.</p>" if table.num_rows > SHOWN else ""
        parts += [f"<h2>{title}</h2>", html_table(rows, table.column_names, []), more]
    return "\n".join(parts) + "</html>\n"


def _escape(text: str) -> str:
    from html import escape

    return escape(text)


def _shown(value: Any) -> Any:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else value
