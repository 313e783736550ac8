"""Options with what the user knows: gold labels, truth to score against, and families of workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.options import withheld
from crowdwise.cli.screen import note

if TYPE_CHECKING:
    from crowdwise.answers import Answers

NO_GOLD = Path("none")  # the value of --gold for no gold


def known_labels(answers: Answers, truth: Path | None, gold: Path | None) -> tuple[Answers, Any, Any]:
    """Return the answers, the codes of the labels to score against (gold excluded), and those of the gold labels."""
    import numpy as np

    from crowdwise.io.reader import attach_truth, gold_notes

    answers, gold = with_marked_gold(answers, gold)
    for sentence in gold_notes(answers):
        note(sentence)
    known, fixed = None if answers.truth_is_gold else answers.truth, answers.marked_gold
    if gold is not None:
        marked, answers = fixed, attach_truth(answers, gold)
        assert answers.truth is not None
        fixed = answers.truth if marked is None else np.where(answers.truth >= 0, answers.truth, marked)
    if truth is not None:  # for scoring only: a class that only the truth has does not reach the fit
        scored = attach_truth(answers, truth)
        known, answers = scored.truth, replace(answers, removed=scored.removed)
    if known is not None and fixed is not None:
        known = np.where(fixed >= 0, -1, known)  # a label that the fit knows is not scored
    return answers, known, fixed


def with_marked_gold(answers: Answers, gold: Path | None) -> tuple[Answers, Path | None]:
    """Return the answers and the file of gold labels; with `--gold none`, labels marked as gold are scored instead."""
    return (replace(answers, truth_is_gold=False), None) if gold == NO_GOLD else (answers, gold)


def family_file(families: str | None) -> Path | None:
    """Return the file of workers and families, if it is one."""
    return Path(families) if families is not None and Path(families).is_file() else None


def read_families(
    families: str | None, files: list[Path], answers: Answers, pseudonymise: Path | None, reading: Mapping[str, Any]
) -> dict[Any, str] | None:
    """Return the family of each worker from a file, or from a column of the answers; workers as in the results.

    `answers` are as read, without pseudonyms.
    """
    from crowdwise import io

    if families is None:
        return None
    with withheld(files, really=pseudonymise is not None):
        if family_file(families) is not None:
            found = io.read_families(families, like=answers)
        else:
            options = {name: reading.get(name) for name in ("worker", "format")}
            found = io.read_families([str(file) for file in files], families, like=answers, **options)
    if pseudonymise is None:
        return found
    return dict(zip(pseudonyms(list(found), answers, pseudonymise), found.values(), strict=True))


def pseudonyms(workers: list[Any], answers: Answers, key: Path) -> list[Any]:
    """Return the pseudonyms of workers; `answers` have their ids."""
    import pyarrow as pa

    from crowdwise.answers.pseudonyms import hash_ids, read_key

    return hash_ids(pa.array(workers, answers.worker_ids.type), read_key(key)).to_pylist()
