"""`crowdwise next`: the answers to buy next."""

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
from crowdwise.cli.gold_plan import plan, split_gold
from crowdwise.cli.known_labels import known_labels
from crowdwise.cli.method_options import build, settings
from crowdwise.cli.options import read_answers, refuse_same_file, sizes
from crowdwise.cli.screen import as_json, fields, note, progress, say, table
from crowdwise.errors import EmptyError, FormatError, MissingColumnError, ParameterError, WeightError

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.learn.base import Array

EXAMPLE = "Example: crowdwise next answers.csv --budget 100 --out next.csv"
MAX_SHOWN = 5  # pairs and ids that are printed
DEFAULT_METHOD, DEFAULT_CAUTION = "dawid-skene", 2.0
WORKER_FILES = (".txt", ".lst", ".csv", ".tsv", ".json", ".jsonl", ".parquet")  # suffixes of a file of worker ids


class Strategy(StrEnum):
    """Strategies that choose the answers to buy."""

    information = "information"
    uncertainty = "uncertainty"
    margin = "margin"
    least_confident = "least-confident"
    activelab = "activelab"
    interval = "interval"
    random = "random"


@options.with_reading_options
def next(
    files: options.Files,
    budget: Annotated[
        int | None, typer.Option("--budget", "-b", metavar="N", min=1, help="Number of answers to propose.")
    ] = None,
    gold: Annotated[
        list[str] | None,
        typer.Option(
            "--gold",
            metavar="N|FILE",
            help="With a number, propose tasks for a person to label instead of answers to buy, and say how well the "
            "run's figures would be known. With a file, known labels (columns task and label). Can be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File for the proposed pairs of task and worker: .csv or .parquet."
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="METHOD", help="Method to fit; `crowdwise methods` lists them.")
    ] = DEFAULT_METHOD,
    features: Annotated[
        Path | None,
        typer.Option(
            "--features", "-x", metavar="X", help=f"Features of the tasks, for methods that need them: {FEATURES}."
        ),
    ] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="How to choose. `information` chooses the task and the worker by expected information gain; the "
            "others choose the task first, most by how uncertain its label is."
        ),
    ] = Strategy.information,
    balance: Annotated[bool, typer.Option("--balance", metavar="", help="Prefer tasks of rare classes.")] = False,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="IDS",
            help="Available workers: comma-separated ids, or a file with one id per line. Default: all.",
        ),
    ] = None,
    per_task: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of new answers per task.")] = 1,
    per_worker: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Maximum number of new answers per worker. Default: twice the average, so that work is shared.",
        ),
    ] = None,
    hopeless: Annotated[
        Path | None,
        typer.Option(
            metavar="RANKING", help="Ranking written by `crowdwise rank`; its most ambiguous tasks are excluded."
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(metavar="N", help="Fraction of the tasks that --hopeless excludes. Default: 0.01."),
    ] = None,
    caution: Annotated[
        float,
        typer.Option(
            metavar="N",
            min=0,
            help="Shrink each worker's estimate towards the average worker, with the weight of this many answers.",
        ),
    ] = DEFAULT_CAUTION,
    set_: options.Set = None,
    pseudonymise: options.Pseudonymise = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: options.Reading,
) -> None:
    """Propose which answers to buy next: which worker to ask about which task. Or which tasks a person should label.

    With --gold N, FILE may be the folder of a run. Tasks whose labels are uncertain are drawn more often, with
    probabilities that are written into the file, so that `crowdwise run --gold` can use it once the column `label` is
    filled in. Label all tasks of one round before you draw another; the known labels of earlier rounds are in the file.
    """
    import pyarrow as pa

    n_gold, gold_file = split_gold(gold or [])
    if (n_gold is None) == (budget is None):
        message = "Pass --budget N for answers to buy, or --gold N for tasks that a person should label."
        raise ParameterError(message)
    if n_gold is not None:
        unused = {
            "--method": method != DEFAULT_METHOD,
            "--features": features,
            "--strategy": strategy != Strategy.information,
            "--balance": balance,
            "--workers": workers,
            "--per-task": per_task != 1,
            "--per-worker": per_worker,
            "--hopeless": hopeless,
            "--alpha": alpha,
            "--caution": caution != DEFAULT_CAUTION,
            "--set": set_,
            "--pseudonymise": pseudonymise,
        }
        if wrong := [name for name, value in unused.items() if value]:
            message = f"{wrong[0]} has no effect with --gold N. Remove it, or pass --budget N to buy answers."
            raise ParameterError(message)
        plan(files, n_gold, gold_file, out=out, seed=seed, json=json, reading=reading)
        return
    assert budget is not None
    from crowdwise.acquire import propose
    from crowdwise.answers.pseudonyms import hash_ids, read_key
    from crowdwise.io import check_target, write

    if out is not None:
        check_target(out)
    refuse_same_file([*files, features, gold_file, hopeless, _file(workers)], [out], pseudonymise)
    check_features(method, features)
    if alpha is not None and hopeless is None:
        message = "--alpha needs --hopeless RANKING, the ranking of the tasks."
        raise ParameterError(message)
    model = build(method, settings(set_ or []), seed, features=features is not None)
    with options.withheld(files, really=pseudonymise is not None):
        answers = read_answers(
            files, **reading,
        )  # fmt: skip
    with options.withheld(["--workers"], "run without --pseudonymise to see them", really=pseudonymise is not None):
        candidates = None if workers is None else worker_ids(workers, answers)
    answers, _ = options.renamed(answers, pseudonymise)
    if candidates is not None:
        if pseudonymise is not None:  # pseudonyms from an earlier output are accepted too
            known = set(answers.workers.tolist())
            pseudonyms = hash_ids(pa.array(candidates), read_key(pseudonymise)).to_pylist()
            pairs = zip(candidates, pseudonyms, strict=True)
            candidates = [worker if worker in known else pseudonym for worker, pseudonym in pairs]
        note_new_workers(candidates, answers)
    answers, _, fixed = known_labels(answers, None, gold_file)
    excluded = None if hopeless is None else excluded_tasks(hopeless, alpha, answers)
    X = None if features is None else match(features, answers)
    seconds = fit(model, method, answers, fixed) if X is None else train(model, method, X, answers, fixed)
    start = time.perf_counter()
    with progress(f"Choosing {budget:,} answers"):
        proposal = propose(
            model, budget, X=X, strategy=strategy.value, balance=balance, per_task=per_task,
            per_worker="fair" if per_worker is None else per_worker, workers=candidates, hopeless=excluded,
            caution=caution, random_state=seed,
        )  # fmt: skip
        if len(proposal) == 0:
            which = "every task" if excluded is None else "every task that is not excluded"
            message = f"There is nothing to buy: every available worker has answered {which}."
            raise EmptyError(message)
        if out is not None:
            write(proposal.table, out)
    if answers.n_answers < 1.5 * answers.n_tasks and strategy is not Strategy.random:
        note("Most tasks have one answer, which says little about the workers. Consider --method one-coin.")
    if len(proposal) < budget:
        note(fewer_message(len(proposal), proposal.available, budget, per_task, per_worker))
    if not proposal.whole:
        note("There are too many pairs to score all of them, so the least informative workers were not considered.")
    result: dict[str, Any] = {
        "files": [str(file) for file in files],
        **sizes(answers),
        "removed": dict(answers.removed),
        "method": method,
        "strategy": strategy.value,
        "budget": budget,
        "proposed": len(proposal),
        "available": proposal.available,
        "hopeless": None if excluded is None else int(excluded.sum()),
        "gain_bits": proposal.gain,
        "pairs_scored": proposal.pairs_scored,
        "whole": proposal.whole,
        "seconds": {"fit": seconds, "choice": time.perf_counter() - start},
        "pairs": proposal.table.slice(0, None if json else MAX_SHOWN).to_pylist(),
        "written": {} if out is None else {"pairs": str(out)},
    }
    if json:
        as_json(result)
    else:
        show(result)


def check_features(method: str, features: Path | None) -> None:
    """Reject a method without the features it needs, and features that the method does not use."""
    from crowdwise._core.registry import find_method

    if find_method(method).needs_features and features is None:
        message = f"{method} needs features. Add --features FILE, or choose another --method."
        raise ParameterError(message)
    if features is not None and not find_method(method).needs_features:
        message = f"{method} does not use features. Remove --features, or choose a learner such as --method joint-em."
        raise ParameterError(message)


def fewer_message(n_pairs: int, available: int, budget: int, per_task: int, per_worker: int | None) -> str:
    """Explain why there are fewer pairs than the budget.

    >>> fewer_message(80, 560, 500, 1, None)
    'Only 80 of 500 answers can be bought with at most 1 per task. Raise --per-task.'
    >>> fewer_message(560, 560, 600, 9, None)
    'Only 560 of 600 answers can be bought; there are no other pairs.'
    """
    start = f"Only {n_pairs:,} of {budget:,} answers can be bought"
    if n_pairs == available:
        return f"{start}; there are no other pairs."
    limits, remedy = f"at most {per_task:,} per task", "--per-task"
    if per_worker is not None:
        limits, remedy = f"{limits} and {per_worker:,} per worker", f"{remedy} or --per-worker"
    return f"{start} with {limits}. Raise {remedy}."


def excluded_tasks(path: Path, alpha: float | None, answers: Answers) -> Array:
    """Return a flag per task for the most ambiguous tasks of a ranking; tasks without a score are not among them."""
    import numpy as np

    from crowdwise.acquire.strategies import hopeless_tasks

    code, score = read_ranking(path, answers)
    if len(np.unique(code)) < len(code):
        message = f"{path} lists a task twice. Use the ranking of one run."
        raise ParameterError(message)
    scores = np.full(answers.n_tasks, np.nan)
    scores[code] = score
    unknown = int(np.isnan(scores).sum())
    if unknown == answers.n_tasks:
        message = f"{path} has no score for any task of these answers. Check that the task ids are the same."
        raise ParameterError(message)
    if unknown:
        note(f"{unknown:,} of the tasks have no score in {path} and are not excluded.")
    return hopeless_tasks(scores, alpha, answers.tasks)


def read_ranking(path: Path, answers: Answers) -> tuple[Array, Array]:
    """Return the codes and scores (NaN if missing) of the tasks in a table that `crowdwise rank` wrote."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from crowdwise.answers.columns import recognise
    from crowdwise.io.files import file_errors, find_files
    from crowdwise.io.format_detection import detect_format
    from crowdwise.io.format_table import FORMATS
    from crowdwise.io.raw_columns import concat_files, decode

    file, *others = find_files(path)
    if others:
        message = f"{path} names {1 + len(others)} files; a ranking is one file."
        raise FormatError(message)
    with file_errors(file):
        form = FORMATS[detect_format(file)]
        if not form.long:
            message = f"A ranking is a CSV, TSV, Parquet or JSONL file, not {form.name!r}."
            raise FormatError(message)
        try:  # a score is read like a weight: a number, or missing
            raw = form.load()(file, lambda names: recognise(names, task="task", weight="score"))
            columns = concat_files([raw]).columns
            code = pc.index_in(decode(columns["task"]).cast(answers.task_ids.type), answers.task_ids)
        except (pa.ArrowInvalid, MissingColumnError, WeightError):
            message = "The ranking needs a column `task` and a numeric column `score`, as `crowdwise rank` writes them."
            raise FormatError(message) from None
    score = columns["weight"].filter(code.is_valid())
    return code.drop_null().to_numpy(), score.to_numpy(zero_copy_only=False)


def worker_ids(text: str, answers: Answers) -> list[Any]:
    """Parse worker ids from a file or a comma-separated list; they get the type of the ids in the answers."""
    from crowdwise.io.files import file_errors

    file = _file(text)
    if file is None:
        is_path = "," not in text and ("/" in text or os.sep in text or text.lower().endswith(WORKER_FILES))
        if is_path and text not in map(str, answers.workers.tolist()):
            message = f"--workers {text}: no file or worker named {text}. To add a new worker, write `{text},`."
            raise ParameterError(message)
        names = text.split(",")
    else:
        with file_errors(file):
            names = file.read_text("utf-8-sig").splitlines()
    names = [name.strip() for name in names]
    names = list(dict.fromkeys(name for name in names if name))
    if file is not None and names[:1] == ["worker"]:  # the header of a table with one column
        del names[0]
    if not names:
        message = f"--workers {text}: the list is empty."
        raise ParameterError(message)
    ids: list[Any] = names
    if answers.workers.dtype.kind in "iu":
        wrong = [name for name in names if not name.lstrip("-").isdecimal()]
        if wrong:
            message = f"--workers: {wrong[0]!r} is not a file or a number; the worker ids of these answers are numbers."
            raise ParameterError(message)
        ids = [int(name) for name in names]
    return ids


def note_new_workers(ids: list[Any], answers: Answers) -> None:
    """Print which of the workers have not answered yet."""
    known = set(answers.workers.tolist())
    new = [str(name) for name in ids if name not in known]
    if new:
        more = ", ..." if len(new) > MAX_SHOWN else ""
        note(
            f"{len(new):,} workers have no answers yet and are treated as average: {', '.join(new[:MAX_SHOWN])}{more}."
        )


def _file(text: str | None) -> Path | None:
    return Path(text) if text is not None and "," not in text and Path(text).is_file() else None


def show(result: Mapping[str, Any]) -> None:
    """Print the result as a few lines of text."""
    per_task = result["answers"] / max(result["tasks"], 1)
    lines = [
        ("answers", f"{result['answers']:,} by {result['workers']:,} workers to {result['tasks']:,} tasks, "
                    f"{result['classes']} classes, {per_task:.1f} per task"),
        *(("dropped", f"{count:,} {why}") for why, count in result["removed"].items()),
        ("method", f"{result['method']}, {result['seconds']['fit']:.2f} s"),
        ("to buy", f"{result['proposed']:,} answers by {result['strategy']}, {result['pairs_scored']:,} pairs scored, "
                   f"{result['seconds']['choice']:.2f} s"),
        *([] if result["hopeless"] is None else [("excluded", f"{result['hopeless']:,} most ambiguous tasks")]),
        ("gain", f"{result['gain_bits']:.4g} bits of information expected in total"),
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
    table(["task", "worker", "bits", "label now", "answers", "likely answer", "P(right)"], rows, left=2)
    if not result["written"]:
        note("The pairs were not written. Use --out next.csv to save them.")
