"""`crowdwise run`, the full pipeline, and `crowdwise report`, which rewrites the report of a run."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import known_labels, method_options, options, ratings
from crowdwise.cli.fit import FEATURES, match
from crowdwise.cli.interruption import resume_hint
from crowdwise.cli.options import read_answers_with_side_columns, refuse_same_file, renamed, sizes, withheld
from crowdwise.cli.screen import as_json, console, fields, note, percent, progress, say, table
from crowdwise.errors import ParameterError

if TYPE_CHECKING:
    from crowdwise.run import Run
    from crowdwise.run.progress import Progress

RUN = "Example: crowdwise run answers.csv --out runs/today"
REPORT = "Example: crowdwise report runs/today"
MAX_SHOWN = 5  # changed labels that are printed
INTERVAL = 10  # seconds between progress lines if there is no terminal

Folder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder written by `crowdwise run`.")]


@options.with_reading_options
def run(
    files: options.Files,
    features: Annotated[
        Path | None, typer.Option("--features", "-x", metavar="X", help=f"Features of the tasks: {FEATURES}.")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of images named by task id. They are shown in the report and, unless --features is given, "
            "encoded as features.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with the text of each task. Texts are shown in the report and, unless --features is given, "
            "encoded as features.",
        ),
    ] = None,
    gold: options.Gold = None,
    families: options.Families = None,
    truth: options.Truth = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            autocompletion=method_options.method_names,
            metavar="METHOD",
            help="Method to use. `auto` compares several and chooses one; repeat the option to compare only the "
            "methods you name. Default: auto.",
        ),
    ] = None,
    class_prior: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES",
            help="Class proportions, if you know them (joint-em only): balanced, cat=0.3,dog=0.7, or a JSON file.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Folder for the run. Default: a new folder in runs/, named after the answers file.",
        ),
    ] = None,
    accept: Annotated[float, typer.Option(metavar="N", help="Minimum confidence to accept a label.")] = 0.9,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget",
            "-b",
            metavar="N",
            min=1,
            help="Number of answers to propose in next.csv. Default: a tenth of the number of tasks, at most 1,000.",
        ),
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=1,
            help="Time limit for comparing methods. The slowest methods are skipped to meet it. Default: no limit.",
        ),
    ] = None,
    folds: Annotated[int, typer.Option(metavar="N", min=2, max=100, help="Number of cross-validation folds.")] = 5,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of parallel fits. Default: 1 without features, otherwise the number of cores, at most 4.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", metavar="", help="Resume the interrupted run in --out.")] = False,
    pseudonymise: options.Pseudonymise = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: options.Reading,
) -> None:
    """Run the full pipeline: infer labels, rate workers, find ambiguous tasks, propose answers to buy, write a report.

    Without features, the labels come from `pool`, the average of eight methods. With features, JointEM is used unless
    another method predicts held-out answers better by more than one standard error. Gold labels (--gold) are used as
    labels, to choose the method, to check the confidence and to judge the workers. The output says which method was
    chosen and why.
    """
    from crowdwise.run import run as run_pipeline
    from crowdwise.run.progress import OutputFolder

    if resume and out is None:
        message = "--resume needs --out FOLDER, the folder of the run to resume."
        raise ParameterError(message)
    folder = default_folder(files[0]) if out is None else out
    family_file = known_labels.family_file(families)
    refuse_same_file([*files, features, gold, truth, family_file], [folder], pseudonymise)
    target = OutputFolder(folder)  # rejects an unsuitable folder before data is read
    with withheld(files, really=pseudonymise is not None):
        answers, side = read_answers_with_side_columns(
            files, text=text, **{**reading, "kind": reading["kind"] or "auto"}
        )
    if answers.kind == "ratings":
        if features is not None or images is not None or resume:
            message = "ratings are run without features, images and --resume. For classes, pass --kind classes."
            raise ParameterError(message)
        answers, _ = renamed(answers, pseudonymise)
        with progress_display() as callback:
            sources = list(inputs(files, gold=gold, truth=truth))
            rated = ratings.run(
                answers, target, gold, truth, callback, method=method or "auto", budget=budget, folds=folds, seed=seed,
                inputs=sources,
            )  # fmt: skip
        ratings.show_run(rated, json=json)
        return
    groups = known_labels.read_families(families, files, answers, pseudonymise, reading)
    answers, row = renamed(answers, pseudonymise)
    answers, gold = known_labels.with_marked_gold(answers, gold)
    seconds = None if side.seconds is None else side.seconds[row]
    for sentence in side.notes:
        note(sentence)
    again = "--resume" if out is not None else f"--out {shlex.quote(str(folder))} --resume"
    hint = f"Finished steps are saved in {folder}. Rerun the command with {again} to continue."
    with resume_hint(lambda: hint), progress_display() as callback:
        result = run_pipeline(
            answers, target, features=None if features is None else match(features, answers), images=images,
            texts=side.texts, encode=text is not None or images is not None, seconds=seconds, gold=gold, truth=truth,
            families=groups, method=method or "auto",
            class_prior=method_options.class_prior(class_prior, answers.classes.tolist()), accept=accept,
            budget=budget, folds=folds, time_budget=time_budget, seed=seed, n_jobs=jobs,
            resume=resume, callback=callback,
            inputs=list(inputs(files, features=features, images=images, gold=gold, truth=truth, families=family_file)),
        )  # fmt: skip
    if json:
        as_json({**sizes(answers), "removed": dict(answers.removed), **summary_of(result)})
    else:
        show(result)


def report(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File for the report. Default: report.html in the folder of the run."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Rewrite the report of a run, a self-contained HTML file."""
    from crowdwise.run import Run

    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        message = f"--out {out}: the report is an HTML file; the name must end in .html."
        raise ParameterError(message)
    with progress("Writing the report"):
        path = Run(folder).report(out)
    if json:
        as_json({"written": {"report": str(path)}, "bytes": path.stat().st_size})
    else:
        fields([("report in", f"{path} ({path.stat().st_size / 1e6:.1f} MB)")])


def default_folder(file: Path) -> Path:
    """Return a new folder under runs/ with the name of the answers file.

    >>> default_folder(Path("no-such/answers.csv.gz"))
    PosixPath('runs/answers')
    """
    first = Path("runs") / (file.name.partition(".")[0].strip("*?[]") or "answers")
    names = (first, *(first.with_name(f"{first.name}-{number}") for number in range(2, 10_000)))
    return next(name for name in names if not name.exists())


def inputs(answers: list[Path], **others: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the input files with their role, size and checksum."""
    named = [("answers", file) for file in answers]
    named += [(role, path) for role, path in others.items() if path is not None]
    for role, path in named:
        entry: dict[str, Any] = {"role": role, "path": str(path)}
        if path.is_file():
            with path.open("rb") as stream:
                entry |= {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
        yield entry


@contextmanager
def progress_display() -> Iterator[Any]:
    """Show the current step and the time left: a bar on a terminal, otherwise lines on stderr."""
    screen = console(stderr=True)
    current_step, last_time = 0, 0.0

    def print_line(at: Progress) -> None:
        nonlocal current_step, last_time
        now = time.monotonic()
        if at.step != current_step or now - last_time > INTERVAL:
            count = "" if at.done is None else f", {at.done:,} of {at.total:,}"
            say(f"[{at.step}/{at.steps}] {at.what}{count}{time_left(at.left)}", stderr=True)
            current_step, last_time = at.step, now

    if not screen.is_terminal:
        yield print_line
        return
    with progress("Starting") as step:

        def update_bar(at: Progress) -> None:
            step(f"[{at.step}/{at.steps}] {at.what}{time_left(at.left)}".replace("[", r"\["), at.done, at.total)

        yield update_bar


def time_left(seconds: float | None) -> str:
    """Return the time left as text.

    >>> time_left(42.0), time_left(300.0), time_left(None)
    (', about 42 s left', ', about 5 min left', '')
    """
    if seconds is None:
        return ""
    return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"


def summary_of(result: Run) -> dict[str, Any]:
    """Return the main figures of a run, for JSON output."""
    from crowdwise.run.stored_files import TIMES, read_json

    figures = result.metrics
    names = ("method", "why", "beats_vote", "words", "counts", "expected_accuracy", "truth", "calibration", "methods",
             "notes", "spammers", "trust", "wrong")  # fmt: skip
    seconds = read_json(result.path / TIMES) if (result.path / TIMES).is_file() else {}
    return {name: figures[name] for name in names} | {"seconds": seconds, "written": {"run": str(result.path)}}


def show(result: Run) -> None:
    """Print a run: the headline, the methods, the verdicts, and the files."""
    figures = result.metrics
    for sentence in figures["words"]:
        say(sentence)
    for sentence in figures["notes"]:
        note(sentence)
    say()
    scored = figures["truth"] is not None
    headers = ["method", "held-out log-lik.", "vs. vote", "same labels"] + (
        ["accuracy", "balanced", "calib. error"] if scored else []
    )
    table(headers, [method_row(line, scored) for line in figures["methods"]])
    say()
    counts, n_tasks = figures["counts"], max(sum(figures["counts"].values()), 1)
    fields([(verdict, f"{count:,} ({percent(count / n_tasks)})") for verdict, count in counts.items()])
    say()
    if wrong := figures.get("wrong"):
        corrected = ", before gold corrected them" if figures["trust"]["n_gold"] else ""
        say(f"Some wrong labels beside the known ones, the most confident first{corrected}:")
        rows = [[line["task"], line["label"], line["known"], percent(line["confidence"])] for line in wrong]
        table(["task", "label", "known label", "confidence"], rows, left=3)
        say()
    paths = {"run": result.path, "labels": result.path / "labels.csv", "report": result.path / "report.html"}
    fields([(f"{what} in", str(path)) for what, path in paths.items() if path.exists()])


def method_row(line: Mapping[str, Any], scored: bool) -> list[str]:
    """Return a row of the table of methods; a star marks the chosen one."""
    name = f"{line['name']} *" if line["chosen"] else line["name"]
    if line["failure"]:
        return [name, "failed", line["failure"][:60], "", *([""] * 3 if scored else [])]

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
