"""`crowdwise inspect`, `convert` and `simulate`: look at answers, change their format, make some up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options
from crowdwise.cli.options import read_answers, refuse_same_file, sizes
from crowdwise.cli.screen import as_json, fields, progress, say

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.answers import Answers

INSPECT = "Example: crowdwise inspect answers.csv"
CONVERT = "Example: crowdwise convert export.json answers.csv --truth gold.csv"
SIMULATE = "Example: crowdwise simulate --out answers.csv --truth truth.csv --balance 5"


def inspect(
    files: options.Files,
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
    """Describe a set of answers: sizes, sparsity, imbalance and agreement."""
    answers = read_answers(
        files, format=format, question=question, task=task, worker=worker, label=label,
        duplicates=duplicates, nulls=nulls, max_classes=max_classes,
    )  # fmt: skip
    from crowdwise.evaluate import summarise

    with progress("Counting"):
        summary = summarise(answers)
    if json:
        as_json(summary.as_dict())
    else:
        fields(summary.rows())
        say("\n" + str(summary).partition("\n\n")[2])  # the classes


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Answers in any format that can be read.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A long table task, worker, label: .csv or .parquet.")],
    truth: Annotated[Path | None, typer.Option(help="Where known labels go, if not into a column `truth`.")] = None,
    pseudonymise: options.Pseudonymise = None,
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
    """Turn answers of any format into a plain table."""
    refuse_same_file([source], [target, truth], pseudonymise)
    answers = read_answers(
        [source], format=format, question=question, task=task, worker=worker, label=label,
        duplicates=duplicates, nulls=nulls, max_classes=max_classes, pseudonymise=pseudonymise,
    )  # fmt: skip
    _save(answers, target, truth, json)


def simulate(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the answers go: .csv or .parquet.")],
    truth: Annotated[Path | None, typer.Option(help="Where the truth goes, if not into a column `truth`.")] = None,
    tasks: Annotated[int, typer.Option(metavar="N", min=1, help="Number of tasks.")] = 1000,
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="Number of workers.")] = 40,
    classes: Annotated[int, typer.Option(metavar="N", min=1, help="Number of classes.")] = 4,
    answers_per_task: Annotated[float, typer.Option(metavar="N", min=1, help="Mean number of answers a task.")] = 2.5,
    balance: Annotated[
        str, typer.Option(metavar="NAME|N", help="Of the classes: even, long-tail, or largest over smallest.")
    ] = "even",
    kind: Annotated[str, typer.Option(help="Of workers: mixed, hammer, one-coin, spammer, adversary, ...")] = "mixed",
    difficulty: Annotated[
        float, typer.Option(metavar="N", min=0, max=1, help="Mean chance that a task leaves one guessing.")
    ] = 0.0,
    together: Annotated[float, typer.Option(metavar="N", min=0, max=1, help="Chance that workers err together.")] = 0.0,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Make answers of a crowd whose truth is known."""
    refuse_same_file([], [out, truth])
    from crowdwise import simulate as room

    with progress("Simulating"):
        answers = room.simulate(
            tasks, n_workers=workers, n_classes=classes, answers_per_task=answers_per_task,
            class_balance=_balance(balance), workers=kind, difficulty=difficulty, together=together, seed=seed,
        )  # fmt: skip
    _save(answers, out, truth, json)


def _balance(text: str) -> Any:
    """A ratio, or the name of a balance for the library to judge."""
    try:
        return float(text)
    except ValueError:
        return text


def _save(answers: Answers, out: Path, truth: Path | None, json: bool) -> None:
    """Write answers, and their known labels to a file of their own if one is named; then say so."""
    from crowdwise.errors import GoldError
    from crowdwise.io import write

    known = None
    if truth is not None:
        if answers.truth is None:
            message = f"there are no known labels in the source, so nothing to write to {truth}; leave out --truth."
            raise GoldError(message)
        known = truth_table(answers)
        answers = answers.with_truth(None)
    with progress(f"Writing {out}"):
        write(answers, out)
        if truth is not None:
            write(known, truth)
    if json:
        as_json(
            {
                **sizes(answers),
                "removed": dict(answers.removed),
                "written": {"answers": str(out)} | ({} if known is None else {"truth": str(truth)}),
            }
        )
        return
    lines = [("answers", f"{answers.n_answers:,} by {answers.n_workers:,} workers to {answers.n_tasks:,} tasks, "
                         f"{answers.n_classes} classes")]  # fmt: skip
    lines += [("left out", f"{count:,} {why}") for why, count in answers.removed.items()]
    lines += [("written to", str(out))]
    if known is not None:
        lines += [("truth in", f"{truth} ({known.num_rows:,} tasks)")]
    fields(lines)


def truth_table(answers: Answers) -> pa.Table:
    """Known labels as a table task, label."""
    import numpy as np
    import pyarrow as pa

    assert answers.truth is not None
    rows = np.flatnonzero(answers.truth >= 0)
    return pa.table(
        {
            "task": answers.task_ids.take(pa.array(rows)),
            "label": answers.class_ids.take(pa.array(answers.truth[rows])),
        }
    )
