"""Finished fits on disk, so that a killed choice can resume.

A folder of small files, one per fit. The file name is a hash of all that the fit depends on: answers, features, the
model and its settings, the criterion, the held-out answers, and the version of crowdwise. So any number of problems can
share a folder without being confused. Failed fits are not stored and are retried. The candidates skipped by a time
budget are stored in the same way, so that a rerun skips the same ones.
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
from crowdwise.choose.scores import Array, Candidate, CaughtWarning, Criterion, Outcome, model_to_score
from crowdwise.errors import UnwritableError
from crowdwise.learn.features.sources import open_source

VERSION, KEY = 4, "fit"  # of the file format


class FitStore:
    """The stored fits of one problem in a folder, which is created if its parent exists.

    Parameters
    ----------
    folder : path
        Folder of the files.
    answers, X, criterion
        The problem: what all fits depend on.
    """

    def __init__(self, folder: str | os.PathLike[str], answers: Answers, X: Any, criterion: Criterion) -> None:
        self.folder: Path = Path(folder).absolute()  # fits run in processes that may have another working directory
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            message = (
                f"checkpoint={os.fspath(folder)!r}: cannot create this folder ({error.strerror}). Give another path."
            )
            raise UnwritableError(message) from None
        features = None if X is None else open_source(X, answers)
        self.problem: str = fingerprint(crowdwise.__version__, criterion, answers, features)
        self.criterion = criterion

    def fit_path(self, candidate: Candidate, held: Array) -> Path:
        """Return the path of one fit."""
        try:
            model = model_to_score(candidate, self.criterion)
        except Exception:  # it will fail as a candidate, with the reason
            model = candidate
        return self.folder / f"fit-{fingerprint(self.problem, model, np.packbits(held))}.safetensors"

    def skipped_path(self, candidates: Mapping[str, Candidate], *settings: Any) -> Path:
        """Return the path of the list of skipped candidates."""
        return (
            self.folder
            / f"left-out-{fingerprint(self.problem, list(candidates), [*candidates.values()], *settings)}.json"
        )


def write(path: Path, outcome: Outcome) -> None:
    """Write a fit atomically. A failed fit is not written."""
    if outcome.scores is None:
        return
    arrays = {"scores": outcome.scores} | ({} if outcome.curves is None else {"readings": outcome.curves})
    facts = {"version": VERSION, "seconds": outcome.seconds, "warnings": outcome.warnings}
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    _write(
        path,
        lambda temporary: checksums.write_with_checksum(
            temporary, KEY, facts, lambda data: save_file(plain, temporary, metadata=data)
        ),
    )


def read(path: Path) -> Outcome | None:
    """Return a stored fit, or None if there is no file or it is damaged."""
    try:
        facts = checksums.read_metadata(path, KEY, VERSION)
        if facts is None or facts.get("version") != VERSION:
            return None
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            issued = tuple(CaughtWarning(str(category), str(text)) for category, text in facts["warnings"])
            return Outcome(arrays["scores"], float(facts["seconds"]), None, issued, arrays.get("readings"))
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    _write(path, lambda temporary: temporary.write_text(json.dumps(content), encoding="utf-8"))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file, or None if there is no file or it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write(path: Path, write_to: Callable[[Path], Any]) -> None:
    with atomic_write(
        path, sync=False
    ) as temporary:  # no sync: a file damaged by a power cut is detected, and the fit repeated
        write_to(temporary)
