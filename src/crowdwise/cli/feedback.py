"""`crowdwise feedback`: feedback for the workers of a run."""

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
SUFFIXES = (".csv", ".txt", ".json")
MAX_SHOWN = 10  # workers in the list of those who need feedback


def feedback(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder written by `crowdwise run`.")],
    worker: Annotated[
        str | None, typer.Option("--worker", "-w", metavar="ID", help="Worker to give feedback to.")
    ] = None,
    pseudonymise: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE",
            help="Key file used for the run. With it, --worker takes the original id instead of the pseudonym.",
        ),
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", metavar="", help="Give feedback to every worker.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File for the feedback: .txt (messages to send), .csv (one row per confusion) or .json.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show which classes a worker confuses more often than other workers do, with example tasks.

    Without --worker or --all, list the workers who need feedback most.
    """
    from crowdwise.run.feedback import feedback_all, workers_below_crowd
    from crowdwise.run.folder import Run

    if worker is not None and everybody:
        message = "Use either --worker or --all, not both."
        raise ParameterError(message)
    if pseudonymise is not None and worker is None:
        message = "--pseudonymise needs --worker ID, the worker to look up."
        raise ParameterError(message)
    one_or_all = worker is not None or everybody
    if out is not None:
        check_out(out, run)
        if not one_or_all:
            message = "--out needs --worker ID or --all."
            raise ParameterError(message)
    result = Run(run)
    if pseudonymise is not None and worker is not None:
        worker = pseudonym_of(worker, pseudonymise)
    if not one_or_all:
        listed = workers_below_crowd(result)
        if json:
            as_json({"run": str(run), "workers": listed.to_pylist()})
        else:
            show_list(listed, result.tables.workers.to_pylist())
        return
    messages = feedback_all(result, None if everybody else [worker])
    if out is not None:
        write_messages(messages, out)
    if json:
        as_json({"run": str(run), "workers": [each.as_dict() for each in messages]})
    elif out is None:
        say("\n\n".join(map(str, messages)))
    else:
        say(f"feedback for {len(messages):,} {'worker' if len(messages) == 1 else 'workers'} in {out}")


def pseudonym_of(worker: str, key: Path) -> str:
    """Return the pseudonym of a worker id in a run."""
    import pyarrow as pa

    from crowdwise.answers.pseudonyms import hash_ids, read_key

    return str(hash_ids(pa.array([worker]), read_key(key, make=False))[0].as_py())


def check_out(out: Path, run: Path) -> None:
    """Reject a file that cannot be written, or that is part of the run."""
    if out.suffix not in SUFFIXES:
        message = f"--out {out}: the file name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
        raise FormatError(message)
    if not out.parent.is_dir():
        message = f"--out {out}: the folder {str(out.parent)!r} does not exist. Create it first."
        raise FormatError(message)
    if out.parent.resolve() == run.resolve() and out.exists():
        message = f"--out {out} would overwrite a file of the run. Choose another name."
        raise ParameterError(message)


def write_messages(messages: list[Feedback], out: Path) -> None:
    """Write the feedback in the format of the file name."""
    from crowdwise._core.atomic_io import atomic_write
    from crowdwise.io import write

    if out.suffix == ".csv":
        write(confusion_rows(messages), out)
        return
    plain = out.suffix == ".txt"
    text = "\n\n".join(map(str, messages)) if plain else to_json({"workers": [each.as_dict() for each in messages]})
    with atomic_write(out) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def confusion_rows(messages: list[Feedback]) -> pa.Table:
    """Return one row per confusion of each worker; the example tasks are JSON in one cell."""
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
        for each in messages
        for confusion in each.confusions
    ]
    columns = ("worker", "truth", "said", "count", "of", "share", "crowd_share", "examples", "words")
    kind = None if rows else pa.string()  # without rows the type cannot be inferred
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name in columns})


def show_list(listed: pa.Table, workers: list[dict[str, Any]]) -> None:
    """Print the workers who need feedback most: the flagged ones, then those who are clearly worse than the crowd."""
    from crowdwise.run.messages import flag_words

    flagged = flag_words(workers) if workers and "flag" in workers[0] else []
    for sentence in flagged:
        say(sentence)
    if listed.num_rows == 0:
        say(f"No {'other ' if flagged else ''}worker is clearly worse than the crowd.")
        return
    if flagged:
        say()
    rows = [
        [str(row["worker"]), row["worst_confusion"] or "", f"{row['answers']:,}",
         f"{row['quality']:.0%} ({row['quality_low']:.0%} to {row['quality_high']:.0%})", f"{row['lost']:.0f}",
         "yes" if row["spammer"] else ""]
        for row in listed.slice(0, MAX_SHOWN).to_pylist()
    ]  # fmt: skip
    table(["worker", "worst confusion", "answers", "quality", "lost", "spammer"], rows, left=2)
    if listed.num_rows > MAX_SHOWN:
        note(f"{listed.num_rows - MAX_SHOWN:,} more workers are worse than the crowd; --json lists all of them.")
    note(
        "lost: how many more correct answers an average worker would have given. Use --worker ID or --all for feedback."
    )
