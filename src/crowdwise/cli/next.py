"""`crowdwise next`: which answers to buy next."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options
from crowdwise.cli.aggregate import fit
from crowdwise.cli.fit import FEATURES, match, train
from crowdwise.cli.options import build, known_labels, read_answers, refuse_same_file, settings, sizes
from crowdwise.cli.screen import as_json, fields, note, progress, say, table
from crowdwise.errors import EmptyError, FormatError, MissingColumnError, ParameterError, WeightError

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.learn.base import Array

EXAMPLE = "Example: crowdwise next answers.csv --budget 100 --out next.csv"
SHOWN = 5  # pairs
LISTS = (".txt", ".lst", ".csv", ".tsv", ".json", ".jsonl", ".parquet")  # what a file of workers may end in


class Strategy(StrEnum):
    """What the answers are chosen by."""

    information = "information"
    uncertainty = "uncertainty"
    margin = "margin"
    least_confident = "least-confident"
    activelab = "activelab"
    interval = "interval"
    random = "random"


def next(
    files: options.Files,
    budget: Annotated[int, typer.Option("--budget", "-b", metavar="N", min=1, help="How many answers to buy.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the pairs go: .csv or .parquet.")] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="See `crowdwise methods`.")] = "dawid-skene",
    features: Annotated[
        Path | None, typer.Option("--features", "-x", metavar="X", help=f"For methods that need them: {FEATURES}.")
    ] = None,
    strategy: Annotated[Strategy, typer.Option(help="What answers are chosen by.")] = Strategy.information,
    balance: Annotated[bool, typer.Option("--balance", help="Count tasks of rare classes for more.")] = False,
    workers: Annotated[
        str | None,
        typer.Option(metavar="IDS", help="Who can be asked: ids with commas between, or a file with one a line."),
    ] = None,
    per_task: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many answers to a task.")] = 1,
    per_worker: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="At most so many answers by a worker.")
    ] = None,
    hopeless: Annotated[
        Path | None,
        typer.Option(
            metavar="RANKING", help="Pay for none of the most ambiguous tasks of what `crowdwise rank` wrote."
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(metavar="N", help="Share of the tasks that --hopeless leaves out: 0.01 if not given."),
    ] = None,
    caution: Annotated[
        float, typer.Option(metavar="N", min=0, help="Mix each worker with so many answers of the average one.")
    ] = 2.0,
    gold: options.Gold = None,
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
    """Say which answers to buy next: whom to ask about which task, and why."""
    import pyarrow as pa

    from crowdwise.acquire import propose
    from crowdwise.answers.pseudonyms import key_of, names
    from crowdwise.io import check_target, write

    if out is not None:
        check_target(out)
    refuse_same_file([*files, features, gold, hopeless, _file(workers)], [out], pseudonymise)
    check_features(method, features)
    if alpha is not None and hopeless is None:
        message = f"--alpha {alpha:g} is a share of the tasks that --hopeless ranks: give --hopeless RANKING too."
        raise ParameterError(message)
    model = build(method, settings(set_ or []), seed, features=features is not None)
    with options.withheld(files, really=pseudonymise is not None):
        answers = read_answers(
            files, format=format, question=question, task=task, worker=worker, label=label,
            duplicates=duplicates, nulls=nulls, max_classes=max_classes,
        )  # fmt: skip
    with options.withheld(["--workers"], "leave that out to see it", really=pseudonymise is not None):
        asked = None if workers is None else worker_ids(workers, answers)
    answers, _ = options.renamed(answers, pseudonymise)
    if asked is not None:
        if pseudonymise is not None:  # names that a run has shown are taken as they are
            known, given = set(answers.workers.tolist()), names(pa.array(asked), key_of(pseudonymise)).to_pylist()
            asked = [each if each in known else name for each, name in zip(asked, given, strict=True)]
        tell_new(asked, answers)
    answers, _, held_fixed = known_labels(answers, None, gold)
    left_out = None if hopeless is None else hopeless_of(hopeless, alpha, answers)
    X = None if features is None else match(features, answers)
    seconds = fit(model, method, answers, held_fixed) if X is None else train(model, method, X, answers, held_fixed)
    start = time.perf_counter()
    with progress(f"Looking for the best {budget:,} answers"):
        proposal = propose(
            model, budget, X=X, strategy=strategy.value, balance=balance, per_task=per_task, per_worker=per_worker,
            workers=asked, hopeless=left_out, caution=caution, random_state=seed,
        )  # fmt: skip
        if len(proposal) == 0:
            which = "every task" if left_out is None else "every task that is not hopeless"
            message = f"there is nothing to buy: everybody who can be asked has answered {which}."
            raise EmptyError(message)
        if out is not None:
            write(proposal.table, out)
    if answers.n_answers < 1.5 * answers.n_tasks and strategy is not Strategy.random:
        note("Most tasks have one answer, which tells little of the workers: --method one-coin errs less than others.")
    if len(proposal) < budget:
        note(fewer(len(proposal), proposal.available, budget, per_task, per_worker))
    if not proposal.whole:
        note("There are too many pairs to look at all: the least informative workers were left out.")
    result: dict[str, Any] = {
        "files": [str(file) for file in files],
        **sizes(answers),
        "removed": dict(answers.removed),
        "method": method,
        "strategy": strategy.value,
        "budget": budget,
        "proposed": len(proposal),
        "available": proposal.available,
        "hopeless": None if left_out is None else int(left_out.sum()),
        "gain_bits": proposal.gain,
        "pairs_scored": proposal.pairs_scored,
        "whole": proposal.whole,
        "seconds": {"fit": seconds, "choice": time.perf_counter() - start},
        "pairs": proposal.table.slice(0, None if json else SHOWN).to_pylist(),
        "written": {} if out is None else {"pairs": str(out)},
    }
    if json:
        as_json(result)
    else:
        show(result)


def check_features(method: str, features: Path | None) -> None:
    """Refuse a method without the features it needs, or features that it would not use."""
    from crowdwise._core.registry import find_method

    if find_method(method).needs_features and features is None:
        message = f"{method} learns from features too: add --features FILE, or leave out --method."
        raise ParameterError(message)
    if features is not None and not find_method(method).needs_features:
        message = f"{method} uses no features: leave out --features, or choose a learner such as --method crowdlayer."
        raise ParameterError(message)


def fewer(n_pairs: int, available: int, budget: int, per_task: int, per_worker: int | None) -> str:
    """Why fewer pairs came than were asked for.

    >>> fewer(80, 560, 500, 1, None)
    'Of 500 asked for, 80 can be bought with at most 1 to a task: raise --per-task.'
    >>> fewer(560, 560, 600, 9, None)
    'Of 600 asked for, 560 can be bought: there are no others.'
    """
    start = f"Of {budget:,} asked for, {n_pairs:,} can be bought"
    if n_pairs == available:
        return f"{start}: there are no others."
    limits, remedy = f"at most {per_task:,} to a task", "--per-task"
    if per_worker is not None:
        limits, remedy = f"{limits} and {per_worker:,} by a worker", f"{remedy} or --per-worker"
    return f"{start} with {limits}: raise {remedy}."


def hopeless_of(path: Path, alpha: float | None, answers: Answers) -> Array:
    """Which tasks a ranking holds hopeless, (tasks,) flags; those it has no score of are not."""
    import numpy as np

    from crowdwise.acquire.strategies import hopeless_tasks

    code, score = read_ranking(path, answers)
    if len(np.unique(code)) < len(code):
        message = f"{path} names a task twice: give the ranking of one run."
        raise ParameterError(message)
    scores = np.full(answers.n_tasks, np.nan)
    scores[code] = score
    unknown = int(np.isnan(scores).sum())
    if unknown == answers.n_tasks:
        message = f"{path} has a score for none of the tasks of these answers. Are the ids the same?"
        raise ParameterError(message)
    if unknown:
        note(f"{unknown:,} of the tasks have no score in {path}: they are not held hopeless.")
    return hopeless_tasks(scores, alpha, answers.tasks)


def read_ranking(path: Path, answers: Answers) -> tuple[Array, Array]:
    """Codes of the tasks and their scores (NaN: none), from a table that `crowdwise rank` wrote; others are skipped."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from crowdwise.answers.columns import recognise
    from crowdwise.io.files import file_errors, find_files
    from crowdwise.io.format_detection import detect_format
    from crowdwise.io.format_table import FORMATS
    from crowdwise.io.raw_columns import concat_files, decode

    file, *others = find_files(path)
    if others:
        message = f"{path}: a ranking is one file, and this names {1 + len(others)}."
        raise FormatError(message)
    with file_errors(file):
        form = FORMATS[detect_format(file)]
        if not form.long:
            message = f"a ranking is read from CSV, TSV, Parquet or JSONL, not from {form.name!r}."
            raise FormatError(message)
        try:  # a score is read as weights are: a number, or nothing
            raw = form.load()(file, lambda names: recognise(names, task="task", weight="score"))
            columns = concat_files([raw]).columns
            code = pc.index_in(decode(columns["task"]).cast(answers.task_ids.type), answers.task_ids)
        except (pa.ArrowInvalid, MissingColumnError, WeightError):
            message = "give the ranking of these tasks that `crowdwise rank` wrote: `task`, and `score`, a number."
            raise FormatError(message) from None
    score = columns["weight"].filter(code.is_valid())
    return code.drop_null().to_numpy(), score.to_numpy(zero_copy_only=False)


def worker_ids(text: str, answers: Answers) -> list[Any]:
    """Ids of workers from a file or a list with commas, written as the answers' are."""
    from crowdwise.io.files import file_errors

    file = _file(text)
    if file is None:
        like_a_path = "," not in text and ("/" in text or os.sep in text or text.lower().endswith(LISTS))
        if like_a_path and text not in map(str, answers.workers.tolist()):
            message = f"--workers {text}: there is no such file, nor a worker of that name (a new one: add a comma)."
            raise ParameterError(message)
        names = text.split(",")
    else:
        with file_errors(file):
            names = file.read_text("utf-8-sig").splitlines()
    names = [name.strip() for name in names]
    names = list(dict.fromkeys(name for name in names if name))
    if file is not None and names[:1] == ["worker"]:  # the heading of a table of one column
        del names[0]
    if not names:
        message = f"--workers {text}: no worker is named there."
        raise ParameterError(message)
    ids: list[Any] = names
    if answers.workers.dtype.kind in "iu":
        wrong = [name for name in names if not name.lstrip("-").isdecimal()]
        if wrong:
            message = f"--workers: the workers of these answers are numbers, {wrong[0]!r} is not (nor a file)."
            raise ParameterError(message)
        ids = [int(name) for name in names]
    return ids


def tell_new(ids: list[Any], answers: Answers) -> None:
    """Say which of the workers have not answered yet."""
    known = set(answers.workers.tolist())
    new = [str(name) for name in ids if name not in known]
    if new:
        more = ", ..." if len(new) > SHOWN else ""
        note(f"{len(new):,} workers have not answered yet and are taken for average: {', '.join(new[:SHOWN])}{more}.")


def _file(text: str | None) -> Path | None:
    return Path(text) if text is not None and "," not in text and Path(text).is_file() else None


def show(result: Mapping[str, Any]) -> None:
    """The result as a few lines of text."""
    per_task = result["answers"] / max(result["tasks"], 1)
    lines = [
        ("answers", f"{result['answers']:,} by {result['workers']:,} workers to {result['tasks']:,} tasks, "
                    f"{result['classes']} classes, {per_task:.1f} a task"),
        *(("left out", f"{count:,} {why}") for why, count in result["removed"].items()),
        ("method", f"{result['method']}, {result['seconds']['fit']:.2f} s"),
        ("to buy", f"{result['proposed']:,} answers by {result['strategy']}, {result['pairs_scored']:,} pairs looked "
                   f"at, {result['seconds']['choice']:.2f} s"),
        *([] if result["hopeless"] is None else [("hopeless", f"{result['hopeless']:,} tasks are not paid for")]),
        ("gain", f"{result['gain_bits']:.4g} bits expected in all"),
        *((f"{what} in", path) for what, path in result["written"].items()),
    ]  # fmt: skip
    fields(lines)
    say()
    rows = [
        [str(pair["task"]), str(pair["worker"]), f"{pair['gain']:.3f}",
         f"{pair['belief']} ({pair['confidence']:.0%})", str(pair["answers"]),
         f"{pair['expected']} ({pair['expected_proba']:.0%})", f"{pair['right']:.0%}"]
        for pair in result["pairs"]
    ]  # fmt: skip
    table(["task", "worker", "bits", "believed", "answers", "will say", "right"], rows, left=2)
    if not result["written"]:
        note("The pairs were not written: --out next.csv keeps them all.")
