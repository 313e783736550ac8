"""`crowdwise rank`: the most ambiguous tasks, and the answers without them."""

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
LISTS = ("workers", "labels", "aum", "trust")  # columns of the ranking with one value per answer


class Rankers(StrEnum):
    """Methods that rank tasks."""

    waum = "waum"
    aum = "aum"


@options.with_reading_options
def rank(
    files: options.Files,
    features: Annotated[
        Path, typer.Option("--features", "-x", metavar="X", help=f"Features of the tasks: {FEATURES}.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the ranking: .csv or .parquet.")],
    method: Annotated[
        Rankers,
        typer.Option("--method", "-m", help="waum scores every answer to a task; aum scores its majority vote."),
    ] = Rankers.waum,
    alpha: Annotated[
        float,
        typer.Option(metavar="N", min=0, help="Fraction of the tasks, the most ambiguous ones, left out of --kept."),
    ] = 0.01,
    kept: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the answers without the most ambiguous tasks: .csv or .parquet."),
    ] = None,
    random: Annotated[
        bool,
        typer.Option("--random", metavar="", help="Leave out as many random tasks instead, as a control."),
    ] = False,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Number of tasks to print.")] = 10,
    network: Annotated[
        Networks | None, typer.Option(help="Architecture. Default: chosen by the shape of the features.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of epochs. Default: set by the method.")
    ] = None,
    set_: options.Set = None,
    pseudonymise: options.Pseudonymise = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: options.Reading,
) -> None:
    """Rank the tasks, most ambiguous first.

    A network is trained on the answers. A task gets a low score if the network struggles to learn the answers of
    trusted workers. To explain the score, the ranking lists the answers to each task, with the margin of each answer
    (aum) and the trust in its worker.
    """
    from crowdwise.io import check_target, write

    for target in filter(None, (out, kept)):
        check_target(target)
    refuse_same_file([*files, features], [out, kept], pseudonymise)
    if alpha >= 1:
        message = f"--alpha {alpha:g}: expected a share of the tasks, at least 0 and below 1."
        raise ParameterError(message)
    if random and kept is None:
        message = "--random needs --kept FILE, the file for the remaining answers."
        raise ParameterError(message)
    model = build(method, parameters(set_ or [], network, epochs, None), seed)
    answers = read_answers(
        files, **reading, pseudonymise=pseudonymise,
    )  # fmt: skip
    seconds = train(model, method, match(features, answers), answers, None)
    ranking, pruned = model.ranking(), model.prune(alpha, random=random)
    write(ranking if out.suffix == ".parquet" else lists_to_json(ranking), out)
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


def build(method: Rankers, settings: dict[str, Any], seed: int) -> Any:
    """Build the ranking method with these parameters, nested ones such as `network__hidden` included."""
    from crowdwise.ambiguity.aum import AUM
    from crowdwise.ambiguity.waum import WAUM

    nested = {name: value for name, value in settings.items() if "__" in name}
    plain = {name: value for name, value in settings.items() if name not in nested}
    model = (AUM if method == Rankers.aum else WAUM)(**{"random_state": seed, **plain})
    known = model.get_params()
    for name in nested:
        if name not in known:
            message = f"{method} has no parameter {name!r}. Its parameters are {', '.join(known)}."
            raise ParameterError(message)
    return model.set_params(**nested)


def lists_to_json(ranking: pa.Table) -> pa.Table:
    """Return the ranking with each list as JSON in one cell, for text formats.

    >>> import pyarrow as pa
    >>> lists_to_json(pa.table({"labels": [["cat", "dog"]], "aum": [[0.25, -1 / 3]]})).to_pylist()
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
    """Print the result and the most ambiguous tasks."""
    if result["most_ambiguous"]:
        rows = [
            [str(row["task"]), answers_text(row), "" if row["score"] is None else f"{row['score']:.3f}"]
            for row in result["most_ambiguous"]
        ]
        table(["most ambiguous", "answers (trust)", "score"], rows, left=2)
        say()
    what = "are dropped"
    if result["random"]:
        what += ", chosen at random"
    elif len(result["left_out"]):
        what += f" (score {result['threshold']:.3g} or less)"
    lines = [
        ("answers", f"{result['answers']:,} by {result['workers']:,} workers to {result['tasks']:,} tasks, "
                    f"{result['classes']} classes"),
        *(("dropped", f"{count:,} {why}") for why, count in result["removed"].items()),
        ("method", f"{result['method']}, {result['seconds']:.2f} s"),
        (f"at {result['alpha']:g}", f"{len(result['left_out']):,} of the tasks {what}"),
        *((f"{what} in", path) for what, path in result["written"].items()),
    ]  # fmt: skip
    fields(lines)


def answers_text(row: dict[str, Any]) -> str:
    """Return the answers to a task as text, with the trust in each worker.

    >>> answers_text({"workers": ["ann", "bob"], "labels": ["cat", "dog"], "trust": [0.9, 0.5]})
    'ann: cat (0.90), bob: dog (0.50)'
    """
    parts = zip(row["workers"], row["labels"], row["trust"], strict=True)
    return ", ".join(f"{worker}: {label} ({trust:.2f})" for worker, label, trust in parts)
