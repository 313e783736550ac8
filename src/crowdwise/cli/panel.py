"""`crowdwise panel`: who is how good, who shares mistakes with whom, and whom the panel can lose."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import known_labels, options
from crowdwise.cli.options import read_answers, refuse_same_file, renamed, sizes, withheld
from crowdwise.cli.panel_screen import show, summary
from crowdwise.cli.screen import as_json, note, progress, to_json
from crowdwise.errors import FormatError, ParameterError, UnknownIdError

if TYPE_CHECKING:
    from crowdwise.answers import Answers

EXAMPLE = "Example: crowdwise panel answers.csv --gold gold.csv --out panel.csv"


@options.with_reading_options
def panel(
    files: options.Files,
    gold: options.Gold = None,
    families: options.Families = None,
    people: Annotated[
        str | None,
        typer.Option(
            metavar="WORKERS",
            help="Workers who are people: ids separated by commas, or a file with the column worker. Every other "
            "worker is tested: may it replace a person?",
        ),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(
            metavar="N",
            help="How much worse than a person a worker may be in that test: 0.2 for experts, 0.15 for trained people, "
            "0.1 for crowd workers.",
        ),
    ] = 0.1,
    tolerance: Annotated[
        float, typer.Option(metavar="N", help="Accuracy of the labels that may be lost by dropping workers.")
    ] = 0.02,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File for the workers: .csv or .parquet, or .json for everything."
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the pairs of workers and what they share: .csv or .parquet."),
    ] = None,
    pseudonymise: options.Pseudonymise = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: options.Reading,
) -> None:
    """Describe a panel, such as language models as judges: accuracies, shared mistakes, class shares, whom to drop.

    With gold (--gold), accuracies and class shares have 95% intervals. Without it, all figures come from the answers,
    which cannot show the mistakes that most workers share.
    """
    from crowdwise.io import check_target, write
    from crowdwise.run.inputs import read_gold
    from crowdwise.trust import panel as describe

    for target in (out, pairs):
        if target is not None and not (target is out and target.suffix == ".json"):
            check_target(target)
    inputs = [*files, gold, known_labels.family_file(families), known_labels.family_file(people)]
    refuse_same_file(inputs, [out, pairs], pseudonymise)
    with withheld(files, really=pseudonymise is not None):
        answers = read_answers(files, **reading)
    groups = known_labels.read_families(families, files, answers, pseudonymise, reading)
    chosen = read_people(people, answers)
    if pseudonymise is not None:
        chosen = known_labels.pseudonyms(chosen, answers, pseudonymise)
    answers, _ = renamed(answers, pseudonymise)
    known, design, answers = _gold(answers, gold, read_gold)
    with progress("Comparing the workers"):
        found = describe(
            answers, known, families=groups, people=chosen, epsilon=epsilon, tolerance=tolerance, design=design,
            seed=seed,
        )  # fmt: skip
    output: dict[str, Any] = {
        "files": [str(file) for file in files],
        **sizes(answers),
        "removed": dict(answers.removed),
    }
    output |= {**summary(found, answers), "written": {}}
    if out is not None:
        output["written"]["workers" if out.suffix != ".json" else "panel"] = str(out)
    if pairs is not None:
        if found.dependence is None:
            message = f"--pairs {pairs}: {found.notes[0]}"
            raise ParameterError(message)
        write(found.dependence.pair_table(), pairs)
        output["written"]["pairs"] = str(pairs)
    if out is not None and out.suffix == ".json":
        from crowdwise._core.atomic_io import atomic_write

        with atomic_write(out) as temporary:
            temporary.write_text(to_json(output) + "\n", "utf-8")
    elif out is not None:
        write(found.to_arrow(), out)
    if json:
        as_json(output)
    else:
        show(output)


def _gold(answers: Answers, gold: Path | None, read_gold: Any) -> tuple[Any, Any, Answers]:
    """Return the gold labels as codes, how their tasks were drawn, and the answers without them.

    Known labels in the answers are gold here, marked or not: they are only used to measure.
    """
    if gold == known_labels.NO_GOLD:
        return None, None, answers.with_truth(None)
    n_known = 0 if answers.truth is None else int((answers.truth >= 0).sum())
    if n_known:
        note(f"The answers contain the known labels of {n_known:,} tasks. They are used as gold.")
    return read_gold(replace(answers, truth_is_gold=n_known > 0), gold)


def read_people(text: str | None, answers: Answers) -> list[Any]:
    """Return the workers that `--people` names: ids separated by commas, or a file with the column worker.

    >>> from crowdwise import Answers
    >>> read_people("7, 8", Answers.from_arrays([1, 1, 1], [7, 8, 9], ["a", "b", "a"]))
    [7, 8]
    """
    if text is None:
        return []
    names = [name.strip() for name in text.split(",") if name.strip()]
    file = known_labels.family_file(text)
    if file is not None:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            rows = csv.DictReader(stream)
            if "worker" not in (rows.fieldnames or []):
                message = f"--people {file}: no column worker among {', '.join(rows.fieldnames or [])}."
                raise FormatError(message)
            names = [row["worker"] for row in rows if row["worker"]]
    ids = {str(worker): worker for worker in answers.worker_ids.to_pylist()}
    unknown = [name for name in names if name not in ids]
    if unknown or not names:
        message = f"--people: no file or worker named {unknown[0] if unknown else text!r}. Use the ids of the answers."
        raise UnknownIdError(message)
    return [ids[name] for name in dict.fromkeys(names)]
