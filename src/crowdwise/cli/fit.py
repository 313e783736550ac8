"""`crowdwise fit`: train a classifier on features and answers.

A model is a folder with `model.safetensors` (written by `model.save`), `model.json` (facts about the fit) and
`labels.csv` (the inferred labels of the training tasks).
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
from crowdwise.cli.interruption import resume_hint
from crowdwise.cli.known_labels import known_labels
from crowdwise.cli.method_options import build, settings
from crowdwise.cli.options import read_answers, refuse_same_file, sizes
from crowdwise.cli.screen import as_json, fields, note, percent, progress, say, to_json
from crowdwise.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.answers import Answers
    from crowdwise.answers.rows import Array
    from crowdwise.learn.features import Features

FIT = "Example: crowdwise fit answers.csv --features X.npy --out model/"
MODEL, FACTS, LABELS = "model.safetensors", "model.json", "labels.csv"
FEATURES = "a .npy, .npz, .csv or .parquet file, or a folder of images"


class Networks(StrEnum):
    """Networks by name."""

    logistic = "logistic"
    mlp = "mlp"
    cnn = "cnn"


@options.with_reading_options
def fit(
    context: typer.Context,
    files: options.Files,
    features: Annotated[
        Path, typer.Option("--features", "-x", metavar="X", help=f"Features of the tasks: {FEATURES}.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the model.")],
    method: Annotated[
        str,
        typer.Option(
            "--method", "-m", metavar="METHOD", help="Method that uses features; `crowdwise methods` lists them."
        ),
    ] = "joint-em",
    network: Annotated[
        Networks | None,
        typer.Option(
            help="Architecture, for methods that train a network. Default: chosen by the shape of the features."
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of epochs, for methods that train a network. Default: set by the method."
        ),
    ] = None,
    set_: options.Set = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the state after each epoch to this file. Rerun the command to resume an interrupted fit.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of processes that train a network; each batch is split among them. Default: 1.",
        ),
    ] = None,
    truth: options.Truth = None,
    gold: options.Gold = None,
    pseudonymise: options.Pseudonymise = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: options.Reading,
) -> None:
    """Train a classifier on the features of the tasks and the answers of the workers."""
    from crowdwise.learn.features.sources import open_source
    from crowdwise.truth.tables import label_table

    targets = [out, *(out / name for name in (MODEL, FACTS, LABELS)), checkpoint]
    refuse_same_file([*files, features, truth, gold], targets, pseudonymise)
    check_folder(out)
    check_network_options(method, network=network, epochs=epochs, checkpoint=checkpoint)
    model = build(method, parameters(set_ or [], network, epochs, checkpoint), seed, features=True)
    answers = read_answers(
        files, **reading, pseudonymise=pseudonymise,
    )  # fmt: skip
    answers, known, fixed = known_labels(answers, truth, gold)
    chosen = settings(set_ or []).get("checkpoint", checkpoint)
    state = None if chosen is None else Path(chosen)
    if processes not in (None, 1) and distributed.size() == 1:
        distributed.check(model, method, processes, answers.n_tasks)  # find mistakes before processes start
        open_source(features)
        del answers, known, fixed  # each process reads its own
        with resume_hint(lambda: distributed.resume_message(state)):
            raise typer.Exit(distributed.launch(processes, context.meta["arguments"], state))
    with (
        resume_hint(lambda: distributed.resume_message(state)),
        distributed.process_group(model, method, processes, answers.n_tasks) as n_processes,
    ):
        seconds = train(model, method, match(features, answers), answers, fixed)
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
        facts["scores"] = scores(model, method, answers, known, fixed, seed)
    elif truth is not None:
        note("Nothing to score: every task with a known label is a gold task.")
    innermost = model
    while hasattr(innermost, "model_"):  # the learner inside a framework
        innermost = innermost.model_
    if epochs is not None and not any("epoch" in record for record in innermost.history_):
        note(f"{method} does not train in epochs, so --epochs was ignored.")
    labels = label_table(model)
    with resume_hint(lambda: distributed.resume_message(state)):
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


def check_network_options(method: str, **options: Any) -> None:
    """Reject options of network learners if the method is not one."""
    from crowdwise._core.registry import make
    from crowdwise.learn.wrapper import resolve_base

    known = {name.rpartition("__")[2] for name in resolve_base(make(method)).get_params()}
    for name, value in options.items():
        if value is not None and name not in known:
            message = f"--{name} is an option of network learners; {method} is not one. Choose --method crowdlayer, ..."
            raise ParameterError(message)


def parameters(
    pairs: list[str], network: Networks | None, epochs: int | None, checkpoint: Path | None
) -> dict[str, Any]:
    """Return the parameters of the method from `--set` and from the options that stand for one."""
    from crowdwise.learn.network.architectures import NAMED

    named = settings(pairs)
    short = {
        "network": None if network is None else NAMED[network](),
        "epochs": epochs,
        "checkpoint": None if checkpoint is None else str(checkpoint),
    }
    short = {name: value for name, value in short.items() if value is not None}
    if twice := short.keys() & named.keys():
        message = f"{min(twice)} is set twice. Remove --{min(twice)} or --set {min(twice)}=..."
        raise ParameterError(message)
    return {**short, **named}


def match(path: Path, answers: Answers) -> Features:
    """Open features matched to the tasks; print how, where the user should check it."""
    from crowdwise.learn.features import open_features

    features = open_features(path, answers)
    if features.match_note is not None:
        note(features.match_note)
    return features


def train(model: Any, name: str, X: Any, answers: Answers, gold: Array | None) -> float:
    """Fit with a progress bar over epochs; return the seconds it took."""
    start, epochs = time.perf_counter(), 0
    with progress(f"Fitting {name}") as step:

        def show_progress(record: Mapping[str, Any]) -> None:
            nonlocal epochs
            epochs += 1
            step(*progress_text(name, record, (time.perf_counter() - start) / epochs))

        model.fit(X, answers, gold=gold, callback=show_progress)
    return time.perf_counter() - start


def progress_text(name: str, record: Mapping[str, Any], pace: float) -> tuple[str, int | None, int | None]:
    """Return the text of the bar, the steps done and their total; `pace` is the seconds per step.

    >>> progress_text("crowdlayer", {"epoch": 3, "epochs": 10, "loss": 0.5123}, 2.0)
    ('Fitting crowdlayer, epoch 3, loss 0.512, 14 s left', 3, 10)
    >>> progress_text("raykar", {"iteration": 7, "bound": -321.0}, 2.0)
    ('Fitting raykar, iteration 7, bound -321', 7, None)
    >>> progress_text("dasc", {"iteration": 2, "iterations": 5, "epoch": 3, "epochs": 10, "loss": 0.5}, 1.0)
    ('Fitting dasc, iteration 2, epoch 3, loss 0.5, 37 s left', 23, 60)
    """
    units = [unit for unit in ("iteration", "epoch") if unit in record]
    if record.get("stage") == "search":  # it ends before the last epoch
        return f"Fitting {name}, searching how long to train, epoch {record['epoch']}", None, None
    words = [f"Fitting {name}", *(f"{unit} {record[unit]}" for unit in units)]
    words += [f"{figure} {record[figure]:.3g}" for figure in ("loss", "bound") if figure in record]
    if not units:
        return ", ".join(words), None, None
    done, total = record[units[-1]], record.get(f"{units[-1]}s")
    if len(units) == 2 and total is not None:  # epochs within iterations; iteration 0 is the first fit
        done += record["iteration"] * total
        total = None if "iterations" not in record else (record["iterations"] + 1) * total
    if total is not None:
        left = pace * (total - done)
        words.append(f"{left:.0f} s left" if left < 100 else f"{left / 60:.0f} min left")
    return ", ".join(words), done, total


def check_folder(folder: Path) -> None:
    """Reject a folder that cannot be written, or that holds files which are not a model."""
    if folder.exists() and not folder.is_dir():
        message = f"--out {folder} is a file; name a folder for the model."
        raise ParameterError(message)
    parent = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        message = f"--out {folder} cannot be written: {parent} is not a writable folder."
        raise ParameterError(message)
    taken = [name for name in (MODEL, FACTS, LABELS) if (folder / name).exists()]
    if taken and not _is_model(folder):
        message = f"--out {folder} holds {', '.join(taken)} that do not belong to a model. Name another folder."
        raise ParameterError(message)


def _is_model(folder: Path) -> bool:
    try:
        facts = jsons.loads((folder / FACTS).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and "crowdwise" in facts


def write_folder(folder: Path, model: Any, facts: Mapping[str, Any], labels: pa.Table) -> None:
    """Write all files of a model at once; other files in the folder stay."""
    from crowdwise._core.atomic_io import atomic_folder
    from crowdwise.io import write

    with atomic_folder(folder) as partial:
        (partial / FACTS).write_text(to_json(facts) + "\n", "utf-8")
        write(labels, partial / LABELS)
        model.save(partial / MODEL)


def show(result: Mapping[str, Any]) -> None:
    """Print the result as a few lines of text."""
    last = result["history"][-1] if result["history"] else {}
    effort = [result["method"]]
    if "epoch" in last:
        effort.append(f"{len(result['history'])} epochs")
    elif "iteration" in last:  # self-training: iteration 0 is the first fit
        effort.append(f"{last['iteration']} iterations" + (", the last one undone" if last.get("undone") else ""))
    shared = f" on {result['processes']} processes" if result["processes"] > 1 else ""
    effort += [f"{figure} {last[figure]:.4g}" for figure in ("loss", "bound") if figure in last]
    lines = [
        ("answers", f"{result['answers']:,} by {result['workers']:,} workers to {result['tasks']:,} tasks, "
                    f"{result['classes']} classes, {result['answers'] / max(result['tasks'], 1):.1f} per task"),
        *(("dropped", f"{count:,} {why}") for why, count in result["removed"].items()),
        ("features", " x ".join(map(str, result["features"]))),
        ("method", ", ".join([*effort, f"{result['seconds']:.2f} s{shared}"])),
        ("confident", f"{percent(result['confident_share'])} of the tasks (confidence above {CONFIDENT})"),
        *((f"{what} in", path) for what, path in result["written"].items()),
    ]  # fmt: skip
    fields(lines)
    if "scores" in result:
        say()
        score_table(result["scores"])
