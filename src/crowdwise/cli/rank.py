"""`crowdwise rank`: which tasks are ambiguous, and why; and the answers without them."""

from __future__ import annotations

import json as jsons
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options
from crowdwise.cli.fit import FEATURES, Networks, match, parameters, train
from crowdwise.cli.options import read_answers, refuse_same_file, sizes
from crowdwise.cli.screen import as_json, fields, say, table
from crowdwise.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

RANK = "Example: crowdwise rank answers.csv --features X.npy --out ranking.csv --alpha 0.01 --kept kept.csv"
LISTS = ("workers", "labels", "aum", "trust")  # columns of the ranking with a value for each answer


class Rankers(StrEnum):
    """What ranks tasks."""

    waum = "waum"
    aum = "aum"


def rank(
    files: options.Files,
    features: Annotated[Path, typer.Option("--features", "-x", metavar="X", help=f"Features: {FEATURES}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the ranking goes: .csv or .parquet.")],
    method: Annotated[
        Rankers, typer.Option("--method", "-m", help="waum looks at each answer, aum at the vote's label.")
    ] = Rankers.waum,
    alpha: Annotated[float, typer.Option(metavar="N", min=0, help="Share of the tasks that --kept leaves out.")] = 0.01,
    kept: Annotated[Path | None, typer.Option(help="Where the answers to the tasks kept go.")] = None,
    random: Annotated[
        bool, typer.Option("--random", help="The control: --kept leaves out as many tasks at random.")
    ] = False,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="How many of the most ambiguous tasks to show.")] = 10,
    network: Annotated[Networks | None, typer.Option(help="The classifier; by the shape of X if not given.")] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", min=1, help="How long to train.")] = None,
    set_: options.Set = None,
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
    """Rank tasks by how ambiguous they are, the most ambiguous first.

    A network learns the answers; a task scores low where it struggled to learn what trusted workers said. The ranking
    shows the workers, labels, margins (aum) and trust of each task, so that you can see why.
    """
    from crowdwise.io import check_target, write

    for target in filter(None, (out, kept)):
        check_target(target)
    refuse_same_file([*files, features], [out, kept], pseudonymise)
    if alpha >= 1:
        message = f"--alpha {alpha:g}: give the share of tasks to leave out, below 1."
        raise ParameterError(message)
    if random and kept is None:
        message = "--random: say with --kept where the answers that are left go."
        raise ParameterError(message)
    model = build(method, parameters(set_ or [], network, epochs, None), seed)
    answers = read_answers(
        files, format=format, question=question, task=task, worker=worker, label=label,
        duplicates=duplicates, nulls=nulls, max_classes=max_classes, pseudonymise=pseudonymise,
    )  # fmt: skip
    seconds = train(model, method, match(features, answers), answers, None)
    ranking, pruned = model.ranking(), model.prune(alpha, random=random)
    write(ranking if out.suffix == ".parquet" else joined(ranking), out)
    if kept is not None:
        write(pruned.answers, kept)
    result: dict[str, Any] = {
        "files": [str(file) for file in files],
        "method": str(method),
        "parameters": model.get_params(),
        **sizes(answers),
        "removed": dict(answers.removed),
        "seconds": seconds,
        "alpha": alpha,
        "random": random,
        "threshold": pruned.threshold,
        "left_out": answers.tasks[pruned.removed],
        "most_ambiguous": ranking.slice(0, top).to_pylist(),
        "written": {"ranking": str(out)} | ({} if kept is None else {"kept": str(kept)}),
    }
    if json:
        as_json(result)
    else:
        show(result)


def build(method: Rankers, given: dict[str, Any], seed: int) -> Any:
    """The ranker with these parameters, `network__hidden` among them."""
    from crowdwise.ambiguity.aum import AUM
    from crowdwise.ambiguity.waum import WAUM

    nested = {name: value for name, value in given.items() if "__" in name}
    plain = {name: value for name, value in given.items() if name not in nested}
    model = (AUM if method == Rankers.aum else WAUM)(**{"random_state": seed, **plain})
    known = model.get_params()
    for name in nested:
        if name not in known:
            message = f"{method} has no parameter {name!r}; it has {', '.join(known)}."
            raise ParameterError(message)
    return model.set_params(**nested)


def joined(ranking: pa.Table) -> pa.Table:
    """The ranking with each list in one cell, as JSON, for text formats.

    >>> import pyarrow as pa
    >>> joined(pa.table({"labels": [["cat", "dog"]], "aum": [[0.25, -1 / 3]]})).to_pylist()
    [{'labels': '["cat", "dog"]', 'aum': '[0.25, -0.3333]'}]
    """
    import pyarrow as pa

    for place, name in enumerate(ranking.column_names):
        if name in LISTS:
            short = (
                [round(v, 4) if isinstance(v, float) else v for v in row] for row in ranking.column(name).to_pylist()
            )
            cells = pa.array([jsons.dumps(row, ensure_ascii=False) for row in short], pa.string())
            ranking = ranking.set_column(place, name, cells)
    return ranking


def show(result: dict[str, Any]) -> None:
    """The result as a few lines and the most ambiguous tasks."""
    if result["most_ambiguous"]:
        rows = [
            [str(row["task"]), said(row), "" if row["score"] is None else f"{row['score']:.3f}"]
            for row in result["most_ambiguous"]
        ]
        table(["most ambiguous", "answers (trust)", "score"], rows, left=2)
        say()
    what = "are left out"
    if result["random"]:
        what += ", chosen at random"
    elif len(result["left_out"]):
        what += f": they score {result['threshold']:.3g} or less"
    lines = [
        ("answers", f"{result['answers']:,} by {result['workers']:,} workers to {result['tasks']:,} tasks, "
                    f"{result['classes']} classes"),
        *(("left out", f"{count:,} {why}") for why, count in result["removed"].items()),
        ("method", f"{result['method']}, {result['seconds']:.2f} s"),
        (f"at {result['alpha']:g}", f"{len(result['left_out']):,} of the tasks {what}"),
        *((f"{what} in", path) for what, path in result["written"].items()),
    ]  # fmt: skip
    fields(lines)


def said(row: dict[str, Any]) -> str:
    """Who said what of a task.

    >>> said({"workers": ["ann", "bob"], "labels": ["cat", "dog"], "trust": [0.9, 0.5]})
    'ann: cat (0.90), bob: dog (0.50)'
    """
    parts = zip(row["workers"], row["labels"], row["trust"], strict=True)
    return ", ".join(f"{worker}: {label} ({trust:.2f})" for worker, label, trust in parts)
