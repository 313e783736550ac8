"""`crowdwise inspect`, `convert` and `simulate`: describe answers, convert their format, simulate a crowd."""

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


@options.with_reading_options
def inspect(
    files: options.Files,
    json: options.Json = False,
    *,
    reading: options.Reading,
) -> None:
    """Describe a set of answers: sizes, sparsity, imbalance and agreement."""
    answers = read_answers(
        files, **reading,
    )  # fmt: skip
    from crowdwise.evaluate import summarise

    with progress("Counting"):
        summary = summarise(answers)
    if json:
        as_json(summary.as_dict())
    else:
        fields(summary.rows())
        say("\n" + str(summary).partition("\n\n")[2])  # the classes


@options.with_reading_options
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Answers in any supported format.")],
    target: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="File for the table with columns task, worker and label: .csv or .parquet."),
    ],
    truth: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the known labels. Default: column `truth` of OUT.")
    ] = None,
    pseudonymise: options.Pseudonymise = None,
    json: options.Json = False,
    *,
    reading: options.Reading,
) -> None:
    """Convert answers from any supported format to a plain table."""
    refuse_same_file([source], [target, truth], pseudonymise)
    answers = read_answers(
        [source], **reading, pseudonymise=pseudonymise,
    )  # fmt: skip
    _save(answers, target, truth, json)


def simulate(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the answers: .csv or .parquet.")],
    truth: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the true labels. Default: column `truth` of --out.")
    ] = None,
    tasks: Annotated[int, typer.Option(metavar="N", min=1, help="Number of tasks.")] = 1000,
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="Number of workers.")] = 40,
    classes: Annotated[int, typer.Option(metavar="N", min=1, help="Number of classes.")] = 4,
    answers_per_task: Annotated[float, typer.Option(metavar="N", min=1, help="Mean number of answers per task.")] = 2.5,
    balance: Annotated[
        str,
        typer.Option(
            metavar="NAME|N", help="Class balance: even, long-tail, or the ratio of the largest class to the smallest."
        ),
    ] = "even",
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Kind of workers: mixed, hammer (always correct), one-coin, class-dependent, adversary, spammer or "
            "uniform-guess.",
        ),
    ] = "mixed",
    difficulty: Annotated[
        float,
        typer.Option(
            metavar="N",
            min=0,
            max=1,
            help="Mean probability that a worker does not recognise the class of a task and guesses.",
        ),
    ] = 0.0,
    together: Annotated[
        float,
        typer.Option(
            metavar="N",
            min=0,
            max=1,
            help="Probability that a worker gives the shared wrong answer; half of the tasks have one.",
        ),
    ] = 0.0,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Simulate the answers of a crowd, with known true labels."""
    refuse_same_file([], [out, truth])
    from crowdwise.simulate import simulate as simulate_answers

    with progress("Simulating"):
        answers = simulate_answers(
            tasks, n_workers=workers, n_classes=classes, answers_per_task=answers_per_task,
            class_balance=_balance(balance), workers=kind, difficulty=difficulty, together=together, seed=seed,
        )  # fmt: skip
    _save(answers, out, truth, json)


def _balance(text: str) -> Any:
    """Parse a ratio; a name is checked by the library."""
    try:
        return float(text)
    except ValueError:
        return text


def _save(answers: Answers, out: Path, truth: Path | None, json: bool) -> None:
    """Write answers, and known labels to their own file if one is named, and print what was written."""
    from crowdwise.errors import GoldError
    from crowdwise.io import write

    known = None
    if truth is not None:
        if answers.truth is None:
            message = f"The input has no known labels to write to {truth}. Remove --truth."
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
    lines += [("dropped", f"{count:,} {why}") for why, count in answers.removed.items()]
    lines += [("written to", str(out))]
    if known is not None:
        lines += [("truth in", f"{truth} ({known.num_rows:,} tasks)")]
    fields(lines)


def truth_table(answers: Answers) -> pa.Table:
    """Return the known labels as a table with columns task and label."""
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
