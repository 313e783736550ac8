"""`crowdwise next --gold N`: the tasks that a person should label, and the intervals to expect from their labels."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.known_labels import with_marked_gold
from crowdwise.cli.options import read_answers, refuse_same_file, sizes
from crowdwise.cli.screen import as_json, fields, note, progress, say, table
from crowdwise.errors import ParameterError

if TYPE_CHECKING:
    from crowdwise.trust import GoldPlan

MAX_SHOWN = 8  # classes in the table


def split_gold(values: list[str]) -> tuple[int | None, Path | None]:
    """Return the number of tasks to label and the file of known labels, from the values of --gold.

    >>> split_gold(["50", "gold.csv"]), split_gold([])
    ((50, PosixPath('gold.csv')), (None, None))
    """
    numbers = [value for value in values if value.isdecimal()]
    files = [value for value in values if not value.isdecimal()]
    if len(numbers) > 1 or len(files) > 1 or (numbers and int(numbers[0]) < 1):
        message = f"--gold {' --gold '.join(values)}: pass one number of tasks above 0, one file, or both."
        raise ParameterError(message)
    return int(numbers[0]) if numbers else None, Path(files[0]) if files else None


def plan(
    files: list[Path], n_gold: int, gold: Path | None, *, out: Path | None, seed: int, json: bool,
    reading: dict[str, Any],
) -> None:  # fmt: skip
    """Choose the tasks, write them and print what to expect."""
    from crowdwise.io import check_target, write
    from crowdwise.io.reader import gold_notes
    from crowdwise.run.inputs import read_gold
    from crowdwise.trust import calibrated, plan_gold

    if out is not None:
        check_target(out)
    refuse_same_file([*files, gold], [out])
    from_run = len(files) == 1 and (files[0] / "metrics.json").is_file()
    if from_run:
        from crowdwise.run import Run

        finished = Run(files[0])
        answers, source = finished.answers.with_truth(None), finished.tables.gold if gold is None else gold
        known, design, answers = read_gold(answers, source)
        proba, codes = finished.proba, finished.codes
    else:
        answers, gold = with_marked_gold(read_answers(files, **reading), gold)
        for sentence in gold_notes(answers):
            note(sentence)
        known, design, answers = read_gold(answers, gold)
        with progress("Labelling the tasks"):
            result = calibrated(answers, known)
        proba, codes = result.proba, result.codes
    made = plan_gold(answers, proba, n_gold, codes=codes, gold=known, design=design, seed=seed)
    if out is not None:
        write(made.table, out)
    if made.n_new < n_gold:
        note(f"Only {made.n_new:,} tasks have no gold label.")
    output = {
        "files": [str(file) for file in files], **sizes(answers),
        "known_gold": 0 if known is None else int((known >= 0).sum()), "to_label": made.n_new, **_figures(made),
        "tasks_to_label": [row for row in made.table.to_pylist() if row["label"] is None],
        "written": {} if out is None else {"gold": str(out)},
    }  # fmt: skip
    if json:
        as_json(output)
    else:
        _show(output)


def _figures(made: GoldPlan) -> dict[str, Any]:
    """Return the expected intervals in plain types."""

    def plain(each: Any) -> dict[str, Any]:
        return {name: None if part is None else part._asdict() for name, part in each._asdict().items()}

    shares = [{"class": str(name), **plain(each)} for name, each in made.shares.items()]
    return {"accuracy": plain(made.accuracy), "shares": shares}


def _show(output: Mapping[str, Any]) -> None:
    """Print the plan as a few lines of text."""
    known = f", {output['known_gold']:,} with gold labels" if output["known_gold"] else ""
    fields(
        [
            ("answers", f"{output['answers']:,} to {output['tasks']:,} tasks{known}"),
            ("to label", f"{output['to_label']:,} tasks, those with uncertain labels more often"),
            *((f"{what} in", path) for what, path in output["written"].items()),
        ]
    )
    say()

    def interval(part: Mapping[str, float] | None) -> str:
        return "unknown" if part is None else f"{part['low']:.1%} to {part['high']:.1%}"

    rows = [("labels right", output["accuracy"])]
    rows += [(f"share of {each['class']}", each) for each in output["shares"][:MAX_SHOWN]]
    headers = ["figure", "expected", "interval now", f"after {output['to_label']:,} labels", "if drawn at random"]
    cells = ("before", "planned", "random")
    table(
        headers, [[name, f"{each['planned']['value']:.0%}", *(interval(each[c]) for c in cells)] for name, each in rows]
    )
    say()
    if not output["written"]:
        note("The tasks were not written. Use --out gold_to_label.csv to save them.")
        return
    file = shlex.quote(next(iter(output["written"].values())))
    say(f"Fill in the column `label` without looking at the answers, then add --gold {file} to `crowdwise run`.")
