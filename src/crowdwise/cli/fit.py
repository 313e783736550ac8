"""`crowdwise fit` and `crowdwise predict`: a classifier from features and answers, and what it says of other tasks.

A model is a folder: `model.safetensors` (as `model.save` writes it), `model.json` to read, and `labels.csv`: what the
model believes of the tasks it was fitted on.
"""

from __future__ import annotations

import json as jsons
import os
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise import __version__
from crowdwise.cli import distributed, options
from crowdwise.cli.aggregate import CONFIDENT, score_table, scores
from crowdwise.cli.interruption import goes_on
from crowdwise.cli.options import build, known_labels, read_answers, refuse_same_file, settings, sizes
from crowdwise.cli.screen import as_json, fields, note, percent, progress, say, to_json
from crowdwise.errors import ModelFileError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.answers import Answers
    from crowdwise.answers.rows import Array
    from crowdwise.learn.features import Features

FIT = "Example: crowdwise fit answers.csv --features X.npy --method crowdlayer --out model/"
PREDICT = "Example: crowdwise predict model/ X.npy --out predictions.csv"
MODEL, FACTS, LABELS = "model.safetensors", "model.json", "labels.csv"
SHOWN = 10  # classes whose counts are shown
FEATURES = "a .npy, .npz, .csv or .parquet file, or a folder of images"


class Networks(StrEnum):
    """Networks that have a name."""

    logistic = "logistic"
    mlp = "mlp"
    cnn = "cnn"


def fit(
    context: typer.Context,
    files: options.Files,
    features: Annotated[Path, typer.Option("--features", "-x", metavar="X", help=f"Features: {FEATURES}.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the model goes.")],
    method: Annotated[str, typer.Option("--method", "-m", help="See `crowdwise methods`.")] = "crowdlayer",
    network: Annotated[Networks | None, typer.Option(help="The classifier; by the shape of X if not given.")] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", min=1, help="How long to train.")] = None,
    set_: options.Set = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keeps the state after each epoch; a killed fit goes on from it."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Share each batch of the network among so many processes."),
    ] = None,
    truth: options.Truth = None,
    gold: options.Gold = None,
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
) -> None:
    """Learn to classify tasks by their features from the answers of many workers."""
    from crowdwise.learn.features.sources import open_source
    from crowdwise.truth.tables import label_table

    targets = [out, *(out / name for name in (MODEL, FACTS, LABELS)), checkpoint]
    refuse_same_file([*files, features, truth, gold], targets, pseudonymise)
    check_folder(out)
    model = build(method, parameters(set_ or [], network, epochs, checkpoint), seed, features=True)
    answers = read_answers(
        files, format=format, question=question, task=task, worker=worker, label=label,
        duplicates=duplicates, nulls=nulls, max_classes=max_classes, pseudonymise=pseudonymise,
    )  # fmt: skip
    answers, known, held_fixed = known_labels(answers, truth, gold)
    given = settings(set_ or []).get("checkpoint", checkpoint)
    kept = None if given is None else Path(given)
    if processes not in (None, 1) and distributed.size() == 1:
        distributed.check(
            model, method, processes, answers.n_tasks
        )  # and all above: before others start, to find it too
        open_source(features)
        del answers, known, held_fixed  # each process reads its own
        with goes_on(lambda: distributed.kept(kept)):
            raise typer.Exit(distributed.lead(processes, context.meta["arguments"], kept))
    with (
        goes_on(lambda: distributed.kept(kept)),
        distributed.joined(model, method, processes, answers.n_tasks) as n_processes,
    ):
        seconds = train(model, method, match(features, answers), answers, held_fixed)
    if distributed.rank() > 0:
        return
    facts: dict[str, Any] = {
        "crowdwise": __version__,
        "method": method,
        "parameters": model.get_params(),
        **sizes(answers),
        "class_names": answers.classes,
        "features": model.shape_in_,
        "history": model.history_,
    }
    if known is not None and (known >= 0).any():
        facts["scores"] = scores(model, method, answers, known, held_fixed, seed)
    elif truth is not None:
        note("No task is left to score: the fit was told all known labels.")
    innermost = model
    while hasattr(innermost, "model_"):  # of a framework around a learner
        innermost = innermost.model_
    if epochs is not None and not any("epoch" in record for record in innermost.history_):
        note(f"{method} is fitted by a solver, not by epochs: --epochs was not used.")
    labels = label_table(model)
    with goes_on(lambda: distributed.kept(kept)):
        write_folder(out, model, facts, labels)
    result = {
        "files": [str(file) for file in files],
        **facts,
        "removed": dict(answers.removed),
        "processes": n_processes,
        "seconds": seconds,
        "confident_share": float((labels.column("confidence").to_numpy() > CONFIDENT).mean()),
        "written": {"model": str(out), "labels": str(out / LABELS)},
    }
    if json:
        as_json(result)
    else:
        show(result)


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that `crowdwise fit` wrote.")],
    features: Annotated[Path, typer.Argument(metavar="X", help=f"Features of the tasks: {FEATURES}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the predictions go: .csv or .parquet.")],
    proba: Annotated[bool, typer.Option("--proba", help="A column more for the probability of each class.")] = False,
    class_prior: Annotated[
        str | None,
        typer.Option(
            help="How frequent the classes are among these tasks, if not as among those that were answered, for "
            "joint-em: balanced, cat=0.3,dog=0.7, or a JSON file."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Classify tasks by their features."""
    from crowdwise.io import check_target, write
    from crowdwise.io.model_files import load
    from crowdwise.learn.features import open_features

    check_target(out)
    refuse_same_file([model, features], [out])
    with progress(f"Predicting {features.name}"):
        fitted = load(model)
        if not hasattr(fitted, "predict_proba"):
            message = f"{model} holds {fitted}, which labels the tasks it has answers of and has no classifier."
            raise ModelFileError(message)
        if class_prior is not None:
            if "new_class_prior" not in fitted.get_params():
                message = f"{fitted} does not know how frequent classes were: --class-prior is for joint-em."
                raise ParameterError(message)
            fitted.set_params(new_class_prior=options.class_prior(class_prior, fitted.classes_.tolist()))
        X = open_features(features)
        table = prediction_table(fitted, X, fitted.predict_proba(X), every_class=proba)
        write(table, out)
    count = dict.fromkeys(map(str, fitted.classes_), 0)
    for row in table.column("label").value_counts().to_pylist():
        count[str(row["values"])] = row["counts"]
    confident = float((table.column("confidence").to_numpy() > CONFIDENT).mean()) if table.num_rows else None
    if json:
        as_json({"model": str(model), "features": str(features), "tasks": table.num_rows, "labels": count,
                 "class_prior": class_prior,
                 "confident_share": confident, "written": {"predictions": str(out)}})  # fmt: skip
        return
    most = sorted(count.items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{name}: {n:,}" for name, n in most[:SHOWN]) + (", ..." if len(most) > SHOWN else "")
    lines = [("tasks", f"{table.num_rows:,}"), ("labels", shown)]
    if confident is not None:
        lines.append(("sure of", f"{percent(confident)} of the tasks (confidence above {CONFIDENT})"))
    fields([*lines, ("written to", str(out))])


def parameters(
    pairs: list[str], network: Networks | None, epochs: int | None, checkpoint: Path | None
) -> dict[str, Any]:
    """Parameters of the method from `--set` and the options that stand for one."""
    from crowdwise.learn.network.architectures import NAMED

    given = settings(pairs)
    short = {
        "network": None if network is None else NAMED[network](),
        "epochs": epochs,
        "checkpoint": None if checkpoint is None else str(checkpoint),
    }
    short = {name: value for name, value in short.items() if value is not None}
    if twice := short.keys() & given.keys():
        message = f"{min(twice)} is given twice: leave out --{min(twice)} or --set {min(twice)}=..."
        raise ParameterError(message)
    return {**short, **given}


def match(path: Path, answers: Answers) -> Features:
    """Open features matched to the tasks; print how, where the user should check it."""
    from crowdwise.learn.features import open_features

    features = open_features(path, answers)
    if features.match_note is not None:
        note(features.match_note)
    return features


def train(model: Any, name: str, X: Any, answers: Answers, gold: Array | None) -> float:
    """Fit with a bar that counts epochs; returns the seconds it took."""
    start, seen = time.perf_counter(), 0
    with progress(f"Fitting {name}") as step:

        def told(record: Mapping[str, Any]) -> None:
            nonlocal seen
            seen += 1
            step(*bar(name, record, (time.perf_counter() - start) / seen))

        model.fit(X, answers, gold=gold, callback=told)
    return time.perf_counter() - start


def bar(name: str, record: Mapping[str, Any], pace: float) -> tuple[str, int | None, int | None]:
    """What the bar says, how much is done, and of how much, after an epoch or iteration; `pace` is seconds for each.

    >>> bar("crowdlayer", {"epoch": 3, "epochs": 10, "loss": 0.5123}, 2.0)
    ('Fitting crowdlayer, epoch 3, loss 0.512, 14 s left', 3, 10)
    >>> bar("raykar", {"iteration": 7, "bound": -321.0}, 2.0)
    ('Fitting raykar, iteration 7, bound -321', 7, None)
    >>> bar("dasc", {"iteration": 2, "iterations": 5, "epoch": 3, "epochs": 10, "loss": 0.5}, 1.0)
    ('Fitting dasc, iteration 2, epoch 3, loss 0.5, 37 s left', 23, 60)
    """
    units = [unit for unit in ("iteration", "epoch") if unit in record]
    words = [f"Fitting {name}", *(f"{unit} {record[unit]}" for unit in units)]
    words += [f"{figure} {record[figure]:.3g}" for figure in ("loss", "bound") if figure in record]
    if not units:
        return ", ".join(words), None, None
    done, total = record[units[-1]], record.get(f"{units[-1]}s")
    if len(units) == 2 and total is not None:  # epochs within iterations, which count from 0: the first fit
        done += record["iteration"] * total
        total = None if "iterations" not in record else (record["iterations"] + 1) * total
    if total is not None:
        left = pace * (total - done)
        words.append(f"{left:.0f} s left" if left < 100 else f"{left / 60:.0f} min left")
    return ", ".join(words), done, total


def prediction_table(model: Any, X: Features, proba: Array, *, every_class: bool) -> pa.Table:
    """A row for each task: its id or number, the most probable class, and how sure that is."""
    import numpy as np
    import pyarrow as pa

    codes = proba.argmax(axis=1)
    columns = {
        "task": np.arange(len(proba)) if X.tasks is None else pa.array(_written(X.tasks, model.tasks_)),
        "label": model.answers_.class_ids.take(pa.array(codes)),
        "confidence": proba[np.arange(len(proba)), codes],
    }
    if every_class:
        columns |= {f"proba_{name}": proba[:, c] for c, name in enumerate(model.classes_)}
    return pa.table(columns)


def _written(names: Array, known: Array) -> list[Any]:
    """Ids of rows as the model's own tasks are written: numbers as numbers, files without ending where those have none.

    >>> import numpy as np
    >>> _written(np.array(["7.png", "8.png"]), np.array([1, 2])), _written(np.array(["a.b"]), np.array(["x.y"]))
    ([7, 8], ['a.b'])
    """
    from crowdwise.learn.features.pictures import SUFFIXES

    own = {Path(str(task)).suffix for task in known[:1000].tolist()}
    plain = [str(name) for name in names]
    if own == {""}:
        plain = [
            name.removesuffix(Path(name).suffix) if Path(name).suffix.lower() in SUFFIXES else name for name in plain
        ]
    if known.dtype.kind in "iu" and all(name.lstrip("-").isdecimal() for name in plain):
        return [int(name) for name in plain]
    return plain


def check_folder(folder: Path) -> None:
    """Refuse a place where no model could be written, or where it would replace files that are no model's."""
    if folder.exists() and not folder.is_dir():
        message = f"{folder} is a file: --out names a folder for the model."
        raise ParameterError(message)
    near = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not (near.is_dir() and os.access(near, os.W_OK)):
        message = f"{folder} cannot be written: {near} is not a folder you may write to."
        raise ParameterError(message)
    taken = [name for name in (MODEL, FACTS, LABELS) if (folder / name).exists()]
    if taken and not _is_model(folder):
        message = f"{folder} holds {', '.join(taken)} of something else, which the model would replace: name another."
        raise ParameterError(message)


def _is_model(folder: Path) -> bool:
    try:
        facts = jsons.loads((folder / FACTS).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and "crowdwise" in facts


def write_folder(folder: Path, model: Any, facts: Mapping[str, Any], labels: pa.Table) -> None:
    """Write a model, all files at once: what else is in the folder stays."""
    from crowdwise._core.atomic_io import atomic_folder
    from crowdwise.io import write

    with atomic_folder(folder) as beside:
        (beside / FACTS).write_text(to_json(facts) + "\n", "utf-8")
        write(labels, beside / LABELS)
        model.save(beside / MODEL)


def show(result: Mapping[str, Any]) -> None:
    """The result as a few lines of text."""
    last = result["history"][-1] if result["history"] else {}
    effort = [result["method"]]
    if "epoch" in last:
        effort.append(f"{len(result['history'])} epochs")
    elif "iteration" in last:  # self-training counts from 0: the first fit
        effort.append(f"{last['iteration']} iterations" + (", the last undone" if last.get("undone") else ""))
    shared = f" on {result['processes']} processes" if result["processes"] > 1 else ""
    effort += [f"{figure} {last[figure]:.4g}" for figure in ("loss", "bound") if figure in last]
    lines = [
        ("answers", f"{result['answers']:,} by {result['workers']:,} workers to {result['tasks']:,} tasks, "
                    f"{result['classes']} classes, {result['answers'] / max(result['tasks'], 1):.1f} a task"),
        *(("left out", f"{count:,} {why}") for why, count in result["removed"].items()),
        ("features", " x ".join(map(str, result["features"]))),
        ("method", ", ".join([*effort, f"{result['seconds']:.2f} s{shared}"])),
        ("sure of", f"{percent(result['confident_share'])} of the tasks (confidence above {CONFIDENT})"),
        *((f"{what} in", path) for what, path in result["written"].items()),
    ]  # fmt: skip
    fields(lines)
    if "scores" in result:
        say()
        score_table(result["scores"])
