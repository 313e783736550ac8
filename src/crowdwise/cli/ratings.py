"""What `crowdwise run` and `crowdwise aggregate` do with ratings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from crowdwise.cli.known_labels import NO_GOLD
from crowdwise.cli.method_options import build
from crowdwise.cli.screen import as_json, fields, progress, say, table

DEFAULTS = {True: "gaussian-workers", False: "ordinal-pool"}  # of `aggregate`, for numbers and for scales


def run(answers: Any, folder: Any, gold: Path | None, truth: Path | None, callback: Any, **options: Any) -> Any:
    """Run the pipeline for ratings."""
    from crowdwise.run.ratings import run_ratings

    gold = None if gold == NO_GOLD else gold
    return run_ratings(answers, folder, gold=gold, truth=truth, callback=callback, **options)


def show_run(result: Any, *, json: bool) -> None:
    """Print a run of ratings."""
    if json:
        as_json({**result.metrics, "written": {"run": str(result.path)}})
        return
    for sentence in result.metrics["words"]:
        say(sentence)
    say()
    rows = [
        [entry["candidate"] + (" *" if entry["candidate"] == result.metrics["method"] else ""),
         "" if entry["score"] is None else f"{entry['score']:.3f}",
         entry["failure"] or ("" if entry["lead"] is None else f"{entry['lead']:+.3f} ± {entry['error']:.3f}")]
        for entry in result.metrics["methods"]
    ]  # fmt: skip
    table(["method", "held-out score", "vs. the first"], rows)
    say()
    paths = {"run": result.path, "labels": result.path / "labels.csv", "report": result.path / "report.html"}
    fields([(f"{what} in", str(path)) for what, path in paths.items()])


def aggregate(
    answers: Any, method: str | None, parameters: dict[str, Any], seed: int, out: Path | None, workers: Path | None,
    gold: Path | None, truth: Path | None,
) -> dict[str, Any]:  # fmt: skip
    """Fit a method for ratings, write the tables, and return a summary."""
    import numpy as np

    from crowdwise.evaluate.ratings import evaluate_ratings
    from crowdwise.io import write
    from crowdwise.io.reader import attach_truth
    from crowdwise.run.ratings import label_table, worker_table

    method = method or DEFAULTS[answers.numeric]
    model = build(method, parameters, seed)
    fixed = None if gold in (None, NO_GOLD) else attach_truth(answers, gold).truth
    known = answers.truth if truth is None else attach_truth(answers, truth).truth
    start = time.perf_counter()
    with progress(f"Fitting {method}"):
        model.fit(answers.with_truth(None), fixed)
    seconds = time.perf_counter() - start
    result: dict[str, Any] = {
        "kind": "ratings", "tasks": answers.n_tasks, "workers": answers.n_workers, "answers": answers.n_answers,
        "removed": dict(answers.removed), "method": method, "parameters": model.get_params(),
        "iterations": model.n_iter_, "converged": model.converged_, "seconds": seconds, "written": {},
    }  # fmt: skip
    for what, target, made in (
        ("labels", out, label_table(model, fixed, 0.9)),
        ("workers", workers, worker_table(model)),
    ):
        if target is not None:
            write(made, target)
            result["written"][what] = str(target)
    if known is not None and np.isfinite(known).any():
        result["scores"] = evaluate_ratings(model, known)
    return result


def show_aggregate(result: dict[str, Any]) -> None:
    """Print the summary of a fit."""
    lines = [
        ("ratings", f"{result['answers']:,} by {result['workers']:,} workers of {result['tasks']:,} tasks"),
        ("method", f"{result['method']}, {result['seconds']:.2f} s"),
        *((f"{what} in", path) for what, path in result["written"].items()),
    ]
    for name, value in result.get("scores", {}).items():
        lines.append((name.replace("_", " "), "-" if value is None else f"{value:.3f}"))
    fields(lines)
