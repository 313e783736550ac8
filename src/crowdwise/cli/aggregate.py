"""`crowdwise aggregate`: labels from answers alone."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options, ratings, spark
from crowdwise.cli.known_labels import NO_GOLD, known_labels
from crowdwise.cli.method_options import build, settings
from crowdwise.cli.options import read_answers, refuse_same_file, sizes
from crowdwise.cli.screen import as_json, fields, note, percent, progress, say, table

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.answers.rows import Array
    from crowdwise.truth.base import TruthModel

EXAMPLE = "Example: crowdwise aggregate answers.csv -o labels.csv --workers workers.csv"
DEFAULT = "dawid-skene"
CONFIDENT = 0.9
_CHECK_UP_TO = 3_000_000  # answers: with more, the check needs --check, because it fits a second time
SCORES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced",
    "macro_f1": "macro F1",
    "log_loss": "log loss",
    "ece": "calib. error",
}


@options.with_reading_options
def aggregate(
    ctx: typer.Context,
    files: options.Sources,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            metavar="METHOD",
            help="Method that does not use features; `crowdwise methods` lists them. Default: dawid-skene; for ratings "
            "ordinal-pool on a scale and gaussian-workers for numbers.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File for the labels: .csv or .parquet. With Spark, a folder for all tables.",
        ),
    ] = None,
    workers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the quality of each worker: .csv or .parquet.")
    ] = None,
    truth: options.Truth = None,
    gold: options.Gold = None,
    set_: options.Set = None,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            metavar="",
            help="Compare the method with majority vote on held-out answers. "
            f"Default: only if there are at most {_CHECK_UP_TO:,} answers.",
        ),
    ] = None,
    pseudonymise: options.Pseudonymise = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    engine: spark.Where = spark.Engine.local,
    master: spark.Master = None,
    checkpoint: spark.Checkpoint = None,
    resume: spark.Resume = False,
    bad: spark.Unusable = spark.Bad.aside,
    parts: spark.Parts = None,
    broadcast_limit: spark.Limit = None,
    overwrite: spark.Overwrite = False,
    spark_conf: spark.SparkConf = None,
    *,
    reading: options.Reading,
) -> None:
    """Infer the label of each task from the answers of several workers, without features.

    On a cluster: `crowdwise aggregate 's3a://lake/answers/*.parquet' --engine spark --master spark://HOST:7077
    -o s3a://lake/labels --checkpoint state/ --resume`
    """
    spark.reject_unsupported(ctx, engine)
    if engine is spark.Engine.spark:
        columns = {name: reading[name] for name in ("task", "worker", "label")}
        result = spark.aggregate(
            files, method or DEFAULT, out, truth, None if gold == NO_GOLD else gold, set_, seed,
            format=reading["format"], columns=columns, duplicates=reading["duplicates"],
            max_classes=reading["max_classes"], master=master, checkpoint=checkpoint, resume=resume, bad=bad,
            parts=parts, broadcast_limit=broadcast_limit, overwrite=overwrite, spark_conf=spark_conf,
            pseudonymise=pseudonymise,
        )  # fmt: skip
    else:
        paths, target = [Path(file) for file in files], None if out is None else Path(out)
        result = aggregate_locally(
            paths, method, target, workers, truth, gold, set_, check, seed, pseudonymise=pseudonymise, **reading
        )
    if json:
        as_json(result)
    elif result.get("kind") == "ratings":
        ratings.show_aggregate(result)
    else:
        show(result)


def aggregate_locally(
    files: list[Path], method: str | None, out: Path | None, workers: Path | None, truth: Path | None,
    gold: Path | None, set_: list[str] | None, check: bool | None, seed: int, **reading: Any,
) -> dict[str, Any]:  # fmt: skip
    """Fit on this machine, write the tables, and return a summary."""
    from crowdwise.io import check_target, write
    from crowdwise.truth.tables import label_table, worker_table

    targets = [target for target in (out, workers) if target is not None]
    for target in targets:
        check_target(target)
    refuse_same_file([*files, truth, gold], targets, reading.get("pseudonymise"))
    parameters = settings(set_ or [])
    if method is not None:
        build(method, parameters, seed)  # an unknown method or parameter is an error before anything is read
    answers = read_answers(files, **{**reading, "kind": reading.get("kind") or _kind_of(method)})
    if answers.kind == "ratings":
        return ratings.aggregate(answers, method, parameters, seed, out, workers, gold, truth)
    method = method or DEFAULT
    model = build(method, parameters, seed)
    answers, known, fixed = known_labels(answers, truth, gold)
    seconds = fit(model, method, answers, fixed)
    labels = label_table(model)
    result: dict[str, Any] = {
        "files": [str(file) for file in files],
        **sizes(answers),
        "removed": dict(answers.removed),
        "method": method,
        "parameters": model.get_params(),
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "seconds": seconds,
        "confident_share": float((labels.column("confidence").to_numpy() > CONFIDENT).mean()),
        "written": {},
    }
    if out is not None:
        write(labels, out)
        result["written"]["labels"] = str(out)
    if workers is not None:
        write(worker_table(model), workers)
        result["written"]["workers"] = str(workers)
    if known is not None and (known >= 0).any():
        result["scores"] = scores(model, method, answers, known, fixed, seed)
    elif truth is not None:
        note("Nothing to score: every task with a known label is a gold task.")
    if method != "majority-vote" and check is not False:
        result["check"] = check_held_out(model, answers, fixed, required=bool(check))
    return result


def _kind_of(method: str | None) -> str:
    """Return the kind of answers that a method takes; "auto" without a method."""
    from crowdwise._core.registry import find_method

    return "auto" if method is None else find_method(method).kind


def fit(model: TruthModel, name: str, answers: Answers, gold: Array | None) -> float:
    """Fit with a progress bar over iterations; return the seconds it took."""
    start = time.perf_counter()
    with progress(f"Fitting {name} (the first run compiles)") as step:
        max_iter = getattr(model, "max_iter", None)
        model.fit(answers, gold, callback=lambda i, _: step(f"Fitting {name}, iteration {i + 1}", i + 1, max_iter))
    return time.perf_counter() - start


def scores(
    model: TruthModel, name: str, answers: Answers, truth: Array, gold: Array | None, seed: int
) -> dict[str, dict[str, Any]]:
    """Score majority vote and the model against the truth."""
    import numpy as np

    from crowdwise import MajorityVote
    from crowdwise.evaluate import evaluate

    models = {"majority-vote": MajorityVote(random_state=seed).fit(answers, gold), name: model}
    extra = max(int(truth.max()) + 1 - answers.n_classes, 0)  # classes that only the truth has, never inferred
    if extra:
        return {n: evaluate(np.pad(m.proba_, ((0, 0), (0, extra))), truth).as_dict() for n, m in models.items()}
    return {n: evaluate(m, truth).as_dict() for n, m in models.items()}


def check_held_out(model: TruthModel, answers: Answers, gold: Array | None, *, required: bool) -> dict[str, Any] | None:
    """Compare the model with majority vote on held-out answers; None if there are too many or too few of them."""
    from crowdwise.errors import ConvergenceWarning, CrowdwiseError

    if answers.n_answers > _CHECK_UP_TO and not required:
        note(f"Not compared with majority vote, because there are over {_CHECK_UP_TO:,} answers. Use --check to do it.")
        return None
    with progress("Comparing with majority vote on held-out answers"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the fit itself has warned
        try:
            verdict = model.check_against_vote(answers, gold)
        except CrowdwiseError as error:
            if required:
                raise
            note(f"Not compared with majority vote: {error}")
            return None
    figures = {name: getattr(verdict, name) for name in ("supported", "difference", "standard_error")}
    return figures | {"says": str(verdict)}


def show(result: Mapping[str, Any]) -> None:
    """Print the result as a few lines of text."""
    per_task = result["answers"] / max(result["tasks"], 1)
    where = "where the " if result.get("engine") == "spark" else ""  # Spark gives the reasons as clauses
    lines = [
        ("answers", f"{result['answers']:,} by {result['workers']:,} workers to {result['tasks']:,} tasks, "
                    f"{result['classes']} classes, {per_task:.1f} per task"),
        *(("dropped", f"{count:,} {where}{why}") for why, count in result["removed"].items()),
        ("method", f"{result['method']}, {_effort(result)}, {result['seconds']:.2f} s"),
        ("confident", f"{percent(result['confident_share'])} of the tasks (confidence above {CONFIDENT}, "
                      "not calibrated: `crowdwise run` does that)"),
        *((f"{what} in", path) for what, path in result["written"].items()),
    ]  # fmt: skip
    fields(lines)
    if "scores" in result:
        say()
        score_table(result["scores"])
    if check := result.get("check"):
        say()
        say(check["says"], "" if check["supported"] else "yellow")
    if "labels" not in result["written"]:
        target = "results/" if result.get("engine") == "spark" else "labels.csv"
        note(f"The labels were not written. Use --out {target} to save them.")


def _effort(result: Mapping[str, Any]) -> str:
    if not result["iterations"]:
        return "no iterations"
    return f"{result['iterations']} iterations, {'converged' if result['converged'] else 'not converged'}"


def score_table(scores: Mapping[str, Mapping[str, Any]]) -> None:
    """Print scores, one row per method."""
    rows = [
        [name, *("-" if values[key] is None else f"{values[key]:.3f}" for key in SCORES)]
        for name, values in scores.items()
    ]
    table(["method", *SCORES.values()], rows)
