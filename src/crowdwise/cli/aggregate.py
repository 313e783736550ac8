"""`crowdwise aggregate`: answers in, labels out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options, spark
from crowdwise.cli.options import build, known_labels, read_answers, refuse_same_file, settings, sizes
from crowdwise.cli.screen import as_json, fields, note, percent, progress, say, table

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.answers.rows import Array
    from crowdwise.truth.base import TruthModel

EXAMPLE = "Example: crowdwise aggregate answers.csv -o labels.csv --workers workers.csv"
CONFIDENT = 0.9
_CHECK_UP_TO = 3_000_000  # answers: beyond this the second fit is left out unless asked for
SCORES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced",
    "macro_f1": "macro F1",
    "log_loss": "log loss",
    "ece": "ECE",
}


def aggregate(
    ctx: typer.Context,
    files: options.Sources,
    method: Annotated[str, typer.Option("--method", "-m", help="See `crowdwise methods`.")] = "dawid-skene",
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Where the labels go: .csv or .parquet; for Spark, a folder.")
    ] = None,
    workers: Annotated[Path | None, typer.Option(help="Where a table of the workers goes.")] = None,
    truth: options.Truth = None,
    gold: options.Gold = None,
    set_: options.Set = None,
    check: Annotated[
        bool | None,
        typer.Option("--check/--no-check", help="Ask held-out answers whether the method beats majority vote."),
    ] = None,
    pseudonymise: options.Pseudonymise = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    format: options.Format = None,
    question: options.Question = None,
    task: options.Task = None,
    worker: options.Worker = None,
    label: options.Label = None,
    duplicates: options.TwiceAnswered = options.Duplicates.error,
    nulls: options.Missing = options.Nulls.error,
    max_classes: options.MaxClasses = options.MAX_CLASSES,
    engine: spark.Where = spark.Engine.local,
    master: spark.Master = None,
    checkpoint: spark.Checkpoint = None,
    resume: spark.Resume = False,
    bad: spark.Unusable = spark.Bad.aside,
    parts: spark.Parts = None,
    broadcast_limit: spark.Limit = None,
    overwrite: spark.Overwrite = False,
    spark_conf: spark.SparkConf = None,
) -> None:
    """Infer the label of each task from the answers of many workers.

    On a cluster: `crowdwise aggregate 's3a://lake/answers/*.parquet' --engine spark --master spark://HOST:7077
    -o s3a://lake/labels --checkpoint state/ --resume`
    """
    spark.refuse_others(ctx, engine)
    if engine is spark.Engine.spark:
        result = spark.aggregate(
            files, method, out, truth, gold, set_, seed, format=format,
            columns={"task": task, "worker": worker, "label": label}, duplicates=duplicates, max_classes=max_classes,
            master=master, checkpoint=checkpoint, resume=resume, bad=bad, parts=parts,
            broadcast_limit=broadcast_limit, overwrite=overwrite, spark_conf=spark_conf, pseudonymise=pseudonymise,
        )  # fmt: skip
    else:
        paths, target = [Path(file) for file in files], None if out is None else Path(out)
        result = locally(
            paths, method, target, workers, truth, gold, set_, check, seed, format=format, question=question,
            task=task, worker=worker, label=label, duplicates=duplicates, nulls=nulls, max_classes=max_classes,
            pseudonymise=pseudonymise,
        )  # fmt: skip
    if json:
        as_json(result)
    else:
        show(result)


def locally(
    files: list[Path], method: str, out: Path | None, workers: Path | None, truth: Path | None, gold: Path | None,
    set_: list[str] | None, check: bool | None, seed: int, **reading: Any,
) -> dict[str, Any]:  # fmt: skip
    """Fit on this machine and write the tables; what is to be said about it."""
    from crowdwise.io import check_target, write
    from crowdwise.truth.tables import label_table, worker_table

    targets = [target for target in (out, workers) if target is not None]
    for target in targets:
        check_target(target)
    refuse_same_file([*files, truth, gold], targets, reading.get("pseudonymise"))
    model = build(method, settings(set_ or []), seed)
    answers = read_answers(files, **reading)
    answers, known, held_fixed = known_labels(answers, truth, gold)
    seconds = fit(model, method, answers, held_fixed)
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
        result["scores"] = scores(model, method, answers, known, held_fixed, seed)
    elif truth is not None:
        note("No task is left to score: the fit was told all known labels.")
    if method != "majority-vote" and check is not False:
        result["check"] = ask_held_out(model, answers, held_fixed, insist=bool(check))
    return result


def fit(model: TruthModel, name: str, answers: Answers, gold: Array | None) -> float:
    """Fit with a bar that counts iterations; returns the seconds it took."""
    start = time.perf_counter()
    with progress(f"Fitting {name}; a first run compiles") as step:
        most = getattr(model, "max_iter", None)
        model.fit(answers, gold, callback=lambda i, _: step(f"Fitting {name}, iteration {i + 1}", i + 1, most))
    return time.perf_counter() - start


def scores(
    model: TruthModel, name: str, answers: Answers, truth: Array, gold: Array | None, seed: int
) -> dict[str, dict[str, Any]]:
    """Scores against the truth, majority vote's first."""
    import numpy as np

    from crowdwise import MajorityVote
    from crowdwise.evaluate import evaluate

    models = {"majority-vote": MajorityVote(random_state=seed).fit(answers, gold), name: model}
    unnamed = max(int(truth.max()) + 1 - answers.n_classes, 0)  # classes that only the truth knows: never inferred
    if unnamed:
        return {n: evaluate(np.pad(m.proba_, ((0, 0), (0, unnamed))), truth).as_dict() for n, m in models.items()}
    return {n: evaluate(m, truth).as_dict() for n, m in models.items()}


def ask_held_out(model: TruthModel, answers: Answers, gold: Array | None, *, insist: bool) -> dict[str, Any] | None:
    """Whether held-out answers support the model over majority vote; None when they cannot be asked."""
    from crowdwise.errors import ConvergenceWarning, CrowdwiseError

    if answers.n_answers > _CHECK_UP_TO and not insist:
        note(f"Not checked against majority vote, as there are over {_CHECK_UP_TO:,} answers; --check does it.")
        return None
    with progress("Checking against majority vote on held-out answers"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the fit itself has said so
        try:
            verdict = model.check_against_vote(answers, gold)
        except CrowdwiseError as error:
            if insist:
                raise
            note(f"Not checked against majority vote: {error}")
            return None
    figures = {name: getattr(verdict, name) for name in ("supported", "difference", "standard_error")}
    return figures | {"says": str(verdict)}


def show(result: Mapping[str, Any]) -> None:
    """The result as a few lines of text."""
    per_task = result["answers"] / max(result["tasks"], 1)
    where = "where the " if result.get("engine") == "spark" else ""  # reasons there are clauses
    lines = [
        ("answers", f"{result['answers']:,} by {result['workers']:,} workers to {result['tasks']:,} tasks, "
                    f"{result['classes']} classes, {per_task:.1f} a task"),
        *(("left out", f"{count:,} {where}{why}") for why, count in result["removed"].items()),
        ("method", f"{result['method']}, {_effort(result)}, {result['seconds']:.2f} s"),
        ("sure of", f"{percent(result['confident_share'])} of the tasks (confidence above {CONFIDENT})"),
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
        keeps = "results/" if result.get("engine") == "spark" else "labels.csv"
        note(f"The labels were not written: --out {keeps} keeps them.")


def _effort(result: Mapping[str, Any]) -> str:
    if not result["iterations"]:
        return "no iterations"
    return f"{result['iterations']} iterations, {'converged' if result['converged'] else 'not converged'}"


def score_table(scores: Mapping[str, Mapping[str, Any]]) -> None:
    """Scores of some methods, a row each."""
    rows = [
        [name, *("-" if values[key] is None else f"{values[key]:.3f}" for key in SCORES)]
        for name, values in scores.items()
    ]
    table(["method", *SCORES.values()], rows)
