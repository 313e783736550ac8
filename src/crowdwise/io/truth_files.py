"""Known labels from a file, attached to the answers they belong to."""

from __future__ import annotations

import os
from pathlib import Path

from crowdwise.answers import Answers
from crowdwise.errors import GoldError
from crowdwise.io.reader import read_truth


def attach_truth(answers: Answers, file: str | os.PathLike[str]) -> Answers:
    """The answers with the known labels of a file attached; those of tasks nobody answered are left out and counted."""
    table = read_truth(Path(file), like=answers)
    out = answers.with_truth((table.column("task"), table.column("label")), ignore_unknown=True)
    if out.truth is not None and (out.truth >= 0).any() and (out.truth[out.truth >= 0] >= answers.n_classes).all():
        message = f"{file}: none of its labels is among the answers' ({answers.classes.tolist()[:5]}, ...)."
        raise GoldError(message)
    if out.truth is None or not (out.truth >= 0).any():
        message = f"{file}: none of its {table.num_rows:,} tasks is among the answers. Are the ids the same?"
        raise GoldError(message)
    return out
