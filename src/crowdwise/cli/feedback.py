"""`crowdwise feedback`: what to tell the workers of a run."""

from __future__ import annotations

import json as jsons
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options
from crowdwise.cli.screen import as_json, note, say, table, to_json
from crowdwise.errors import FormatError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.run import Feedback

EXAMPLE = "Example: crowdwise feedback runs/today --worker 7"
KINDS = (".csv", ".txt", ".json")
SHOWN = 10  # workers in the list of those in need


def feedback(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that `crowdwise run` wrote.")],
    worker: Annotated[str | None, typer.Option("--worker", "-w", metavar="ID", help="Whom to tell.")] = None,
    pseudonymise: Annotated[
        Path | None,
        typer.Option(metavar="KEYFILE", help="The key of the run: --worker is the id, not the name in the run."),
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Feedback to every worker.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where it goes: .txt to send, .csv (a row a confusion), .json.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Say what a worker confuses with what, against the crowd, with tasks to look at again.

    Without --worker and --all: who needs feedback most.
    """
    from crowdwise.run.feedback import feedback_all, workers_below_crowd
    from crowdwise.run.folder import Run

    if worker is not None and everybody:
        message = "--worker and --all: give one of the two."
        raise ParameterError(message)
    if pseudonymise is not None and worker is None:
        message = "--pseudonymise is the key that tells who --worker is: give that too."
        raise ParameterError(message)
    one_or_all = worker is not None or everybody
    if out is not None:
        check_out(out, run)
        if not one_or_all:
            message = "--out: say whose feedback to write, with --worker ID or --all."
            raise ParameterError(message)
    opened = Run(run)
    if pseudonymise is not None and worker is not None:
        worker = name_of(worker, pseudonymise, opened.answers.workers.tolist())
    if not one_or_all:
        listed = workers_below_crowd(opened)
        if json:
            as_json({"run": str(run), "workers": listed.to_pylist()})
        else:
            show_need(listed)
        return
    told = feedback_all(opened, None if everybody else [worker])
    if out is not None:
        write_all(told, out)
    if json:
        as_json({"run": str(run), "workers": [each.as_dict() for each in told]})
    elif out is None:
        say("\n\n".join(map(str, told)))
    else:
        say(f"feedback to {len(told):,} {'worker' if len(told) == 1 else 'workers'} in {out}")


def name_of(worker: str, key: Path, known: list[Any]) -> str:
    """The name of a worker in a run, by the id; the id itself is said nowhere."""
    import pyarrow as pa

    from crowdwise.answers.pseudonyms import key_of, names

    forms: list[Any] = [worker, *([int(worker)] if worker.lstrip("-").isdecimal() else [])]
    found = [names(pa.array([form]), key_of(key, make=False))[0].as_py() for form in forms]
    return next((name for name in found if name in known), found[-1])


def check_out(out: Path, run: Path) -> None:
    """Refuse a file that could not be written, or that is part of the run."""
    if out.suffix not in KINDS:
        message = f"--out {out}: the name ends in {', '.join(KINDS[:-1])} or {KINDS[-1]}."
        raise FormatError(message)
    if not out.parent.is_dir():
        message = f"--out {out}: there is no folder {str(out.parent)!r}. Make it first."
        raise FormatError(message)
    if out.parent.resolve() == run.resolve() and out.exists():
        message = f"--out {out} is a file of the run, which would be lost: choose another name."
        raise ParameterError(message)


def write_all(told: list[Feedback], out: Path) -> None:
    """Write the feedback in the format its name asks for."""
    from crowdwise._core.atomic_io import atomic_write
    from crowdwise.io import write

    if out.suffix == ".csv":
        write(rows_of(told), out)
        return
    plain = out.suffix == ".txt"
    text = "\n\n".join(map(str, told)) if plain else to_json({"workers": [each.as_dict() for each in told]})
    with atomic_write(out) as beside:
        beside.write_text(text + "\n", encoding="utf-8")


def rows_of(told: list[Feedback]) -> pa.Table:
    """A row for each confusion of each worker; examples are ids in one cell, as JSON."""
    import pyarrow as pa

    rows: list[dict[str, Any]] = [
        {
            "worker": each.worker,
            "truth": confusion.truth,
            "said": confusion.said,
            "count": confusion.count,
            "of": confusion.of,
            "share": confusion.share,
            "crowd_share": confusion.crowd_share,
            "examples": jsons.dumps([example.task for example in confusion.examples], ensure_ascii=False),
            "words": str(confusion),
        }
        for each in told
        for confusion in each.confusions
    ]
    names = ("worker", "truth", "said", "count", "of", "share", "crowd_share", "examples", "words")
    kind = None if rows else pa.string()  # no row shows what the columns hold
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name in names})


def show_need(listed: pa.Table) -> None:
    """The workers who need feedback most, as a table."""
    if listed.num_rows == 0:
        say("No worker is worse than the crowd beyond doubt.")
        return
    rows = [
        [str(row["worker"]), row["worst_confusion"] or "", f"{row['answers']:,}",
         f"{row['quality']:.0%} ({row['quality_low']:.0%} to {row['quality_high']:.0%})", f"{row['lost']:.0f}",
         "yes" if row["spammer"] else ""]
        for row in listed.slice(0, SHOWN).to_pylist()
    ]  # fmt: skip
    table(["worker", "worst confusion", "answers", "quality", "lost", "spammer"], rows, left=2)
    if listed.num_rows > SHOWN:
        note(f"{listed.num_rows - SHOWN:,} more are worse than the crowd: --json lists them all.")
    note("lost: right answers the crowd would have given. Feedback to one: --worker ID; to everybody: --all.")
