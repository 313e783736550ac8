"""`crowdwise run`: the main job. `crowdwise report` and `crowdwise compare`: what is done with a run afterwards."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options
from crowdwise.cli.fit import FEATURES, match
from crowdwise.cli.interruption import goes_on
from crowdwise.cli.options import read_answers, refuse_same_file, renamed, sizes, withheld
from crowdwise.cli.screen import as_json, console, fields, note, percent, progress, say, table
from crowdwise.errors import ParameterError

if TYPE_CHECKING:
    from crowdwise.run import Run
    from crowdwise.run.progress import Progress

RUN = "Example: crowdwise run answers.csv --out runs/today"
REPORT = "Example: crowdwise report runs/today"
SHOWN = 5  # changed labels
EVERY = 10  # seconds between lines where there is no terminal

Folder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `crowdwise run` wrote.")]


def run(
    files: options.Files,
    features: Annotated[
        Path | None, typer.Option("--features", "-x", metavar="X", help=f"Features of the tasks: {FEATURES}.")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Images named like the tasks: shown, and features when there are no others."
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of the tasks' texts: shown, and features when there are no others."
        ),
    ] = None,
    truth: options.Truth = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            autocompletion=options.method_names,
            help="auto tries a handful, joint-em the default; a name takes that one; repeat it to choose from some.",
        ),
    ] = None,
    class_prior: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES",
            help="How frequent the classes are, if you know, for joint-em: balanced, cat=0.3,dog=0.7, or a JSON file.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Where the run goes: runs/NAME if not given.")
    ] = None,
    accept: Annotated[float, typer.Option(metavar="N", help="How sure a label must be to be used as it is.")] = 0.9,
    budget: Annotated[
        int | None, typer.Option("--budget", "-b", metavar="N", min=1, help="How many answers to propose to buy.")
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=1, help="Time for choosing a method: what would take longer is left out."),
    ] = None,
    folds: Annotated[int, typer.Option(metavar="N", min=2, max=100, help="Parts of the answers held out in turn.")] = 5,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Fits at once.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was killed.")] = False,
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
    """Do the whole job: labels with confidence, workers, hard tasks, what to buy next, a model and a report.

    Methods are compared by how well they predict answers they have not seen; the result says which was chosen and why,
    and when nothing beats majority vote. With features, JointEM is taken unless another is better by its error.
    """
    from crowdwise.io import read_side_columns
    from crowdwise.run import run as run_pipeline
    from crowdwise.run.progress import OutputFolder

    place = default_folder(files[0]) if out is None else out
    refuse_same_file([*files, features, truth], [place], pseudonymise)
    folder = OutputFolder(place)  # rejects an unsuitable folder before data is read
    columns: dict[str, Any] = {"format": format, "question": question, "task": task, "worker": worker, "label": label}
    with withheld(files, really=pseudonymise is not None):
        answers = read_answers(files, **columns, duplicates=duplicates, nulls=nulls, max_classes=max_classes)
        beside = read_side_columns(files, answers, text=text, **columns)
    answers, row = renamed(answers, pseudonymise)
    seconds = None if beside.seconds is None else beside.seconds[row]
    for sentence in beside.notes:
        note(sentence)
    how = f"What is finished is kept in {place}: --resume goes on from there."
    with goes_on(lambda: how), shown() as told:
        made = run_pipeline(
            answers, folder, features=None if features is None else match(features, answers), images=images,
            texts=beside.texts, encode=text is not None or images is not None, seconds=seconds, truth=truth,
            method=method or "auto", class_prior=options.class_prior(class_prior, answers.classes.tolist()),
            accept=accept, budget=budget, folds=folds, time_budget=time_budget, seed=seed,
            n_jobs=jobs, resume=resume, callback=told,
            inputs=list(inputs(answers=files, features=features, images=images, truth=truth)),
        )  # fmt: skip
    if json:
        as_json({**sizes(answers), "removed": dict(answers.removed), **brief(made)})
    else:
        show(made)


def report(
    folder: Folder,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where it goes: report.html in the folder.")] = None,
    json: options.Json = False,
) -> None:
    """Write the report of a run again: one HTML file that needs no network."""
    from crowdwise.run import Run

    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        message = f"--out {out}: the report is an HTML file; give it a name that ends in .html."
        raise ParameterError(message)
    with progress("Writing the report"):
        place = Run(folder).report(out)
    if json:
        as_json({"written": {"report": str(place)}, "bytes": place.stat().st_size})
    else:
        fields([("report in", f"{place} ({place.stat().st_size / 1e6:.1f} MB)")])


def default_folder(file: Path) -> Path:
    """A new folder under runs/ named like the answers.

    >>> default_folder(Path("no-such/answers.csv.gz"))
    PosixPath('runs/answers')
    """
    first = Path("runs") / (file.name.partition(".")[0].strip("*?[]") or "answers")
    names = (first, *(first.with_name(f"{first.name}-{number}") for number in range(2, 10_000)))
    return next(name for name in names if not name.exists())


def inputs(answers: list[Path], **others: Path | None) -> Iterator[dict[str, Any]]:
    """Where the data came from, with checksums of files."""
    named = [("answers", file) for file in answers]
    named += [(role, path) for role, path in others.items() if path is not None]
    for role, path in named:
        entry: dict[str, Any] = {"role": role, "path": str(path)}
        if path.is_file():
            with path.open("rb") as stream:
                entry |= {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
        yield entry


@contextmanager
def shown() -> Iterator[Any]:
    """A bar that says which step it is, what is being done, and how long is left; lines where nobody looks."""
    screen = console(stderr=True)
    at_step, said = 0, 0.0

    def line(at: Progress) -> None:
        nonlocal at_step, said
        now = time.monotonic()
        if at.step != at_step or now - said > EVERY:
            count = "" if at.done is None else f", {at.done:,} of {at.total:,}"
            say(f"[{at.step}/{at.steps}] {at.what}{count}{time_left(at.left)}", stderr=True)
            at_step, said = at.step, now

    if not screen.is_terminal:
        yield line
        return
    with progress("Starting") as step:

        def told(at: Progress) -> None:
            step(f"[{at.step}/{at.steps}] {at.what}{time_left(at.left)}".replace("[", r"\["), at.done, at.total)

        yield told


def time_left(seconds: float | None) -> str:
    """How long is left, in words.

    >>> time_left(42.0), time_left(300.0), time_left(None)
    (', about 42 s left', ', about 5 min left', '')
    """
    if seconds is None:
        return ""
    return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"


def brief(made: Run) -> dict[str, Any]:
    """A run as one JSON object."""
    from crowdwise.run.folder import TIMES, read_json

    figures = made.metrics
    names = ("method", "why", "beats_vote", "words", "counts", "expected_accuracy", "truth", "calibration", "methods",
             "notes", "spammers")  # fmt: skip
    seconds = read_json(made.path / TIMES) if (made.path / TIMES).is_file() else {}
    return {name: figures[name] for name in names} | {"seconds": seconds, "written": {"run": str(made.path)}}


def show(made: Run) -> None:
    """A run on the screen: the headline, the methods, the verdicts, and where everything is."""
    figures = made.metrics
    for sentence in figures["words"]:
        say(sentence)
    for sentence in figures["notes"]:
        note(sentence)
    say()
    scored = figures["truth"] is not None
    headers = ["method", "held-out log-likelihood", "vs. vote", "same labels"] + (
        ["accuracy", "balanced", "calibration error"] if scored else []
    )
    table(headers, [method_row(line, scored) for line in figures["methods"]])
    say()
    counts, n_tasks = figures["counts"], max(sum(figures["counts"].values()), 1)
    fields([(verdict, f"{count:,} ({percent(count / n_tasks)})") for verdict, count in counts.items()])
    say()
    places = {"run": made.path, "labels": made.path / "labels.csv", "report": made.path / "report.html"}
    fields([(f"{what} in", str(place)) for what, place in places.items() if place.exists()])


def method_row(line: Mapping[str, Any], scored: bool) -> list[str]:
    """A row of the table of methods; the one chosen has a star."""
    name = f"{line['name']} *" if line["chosen"] else line["name"]
    if line["failure"]:
        return [name, "not scored", line["failure"][:60], "", *([""] * 3 if scored else [])]

    def pair(value: str, error: str) -> str:
        return "" if line[value] is None else f"{line[value]:+.3f} ± {line[error]:.3f}"

    row = [name, pair("log_likelihood", "standard_error"), pair("to_vote", "to_vote_error")]
    row.append("" if line["same_labels"] is None else percent(line["same_labels"]))
    if scored:
        found = line["scores"] or {}
        row += [
            "" if found.get(name) is None else f"{found[name]:.3f}" for name in ("accuracy", "balanced_accuracy", "ece")
        ]
    return row
