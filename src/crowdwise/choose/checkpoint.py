"""Finished fits on disk, so that a choice that was killed goes on where it was.

A folder of small files, one for each fit. Its name is a hash of all that the fit depends on: answers, features, the
model and its settings, the criterion, the answers held out, and the version of crowdwise. So any number of problems can
share a folder, and a fit of another problem is never taken for one of this. Fits that failed are not kept: they are
tried again. What a time budget left out is kept in the same way, so that the same is left out again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import crowdwise
from crowdwise._core import checksums
from crowdwise._core.atomic_io import atomic_write
from crowdwise._core.fingerprints import fingerprint
from crowdwise.answers import Answers
from crowdwise.choose.scores import Array, Candidate, Criterion, Outcome, judged
from crowdwise.errors import UnwritableError
from crowdwise.learn.features.sources import open_source

VERSION, KEY = 3, "fit"  # of the files


class Keep:
    """The fits of one problem in a folder, which is made where the one above is there.

    Parameters
    ----------
    folder : path
        Where they are.
    answers, X, criterion
        The problem.
    """

    def __init__(self, folder: str | os.PathLike[str], answers: Answers, X: Any, criterion: Criterion) -> None:
        self.folder = Path(folder).absolute()  # fits run in other processes, which may stand elsewhere
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            message = f"checkpoint={os.fspath(folder)!r}: no such folder can be made ({error.strerror}): give another."
            raise UnwritableError(message) from None
        features = None if X is None else open_source(X, answers)
        self.problem = fingerprint(crowdwise.__version__, criterion, answers, features)
        self.criterion = criterion

    def fit(self, candidate: Candidate, held: Array) -> Path:
        """The file of one fit."""
        try:
            model = judged(candidate, self.criterion)
        except Exception:  # it will fail as a candidate, and say why
            model = candidate
        return self.folder / f"fit-{fingerprint(self.problem, model, np.packbits(held))}.safetensors"

    def left_out(self, given: Mapping[str, Candidate], *settings: Any) -> Path:
        """The file of what was left out among these candidates."""
        return self.folder / f"left-out-{fingerprint(self.problem, list(given), [*given.values()], *settings)}.json"


def write(path: Path, outcome: Outcome) -> None:
    """Keep a fit, whole or not at all; one that failed is not kept."""
    if outcome.scores is None:
        return
    arrays = {"scores": outcome.scores} | ({} if outcome.readings is None else {"readings": outcome.readings})
    facts = {"version": VERSION, "seconds": outcome.seconds, "warnings": outcome.warnings}
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    _keep(
        path,
        lambda beside: checksums.write_with_checksum(
            beside, KEY, facts, lambda data: save_file(plain, beside, metadata=data)
        ),
    )


def read(path: Path) -> Outcome | None:
    """A fit that was kept; None where there is none, or the file is damaged."""
    try:
        facts = checksums.read_metadata(path, KEY, VERSION)
        if facts is None or facts.get("version") != VERSION:
            return None
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            said = tuple(map(str, facts["warnings"]))
            return Outcome(arrays["scores"], float(facts["seconds"]), None, said, arrays.get("readings"))
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def write_json(path: Path, content: Any) -> None:
    """Keep anything plain, whole or not at all."""
    _keep(path, lambda beside: beside.write_text(json.dumps(content), encoding="utf-8"))


def read_json(path: Path) -> Any:
    """The same again; None where there is none, or the file is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _keep(path: Path, write_to: Callable[[Path], Any]) -> None:
    with atomic_write(path, sync=False) as beside:  # a file damaged by a power cut is told, and computed anew
        write_to(beside)
