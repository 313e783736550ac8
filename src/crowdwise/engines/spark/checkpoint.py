"""Checkpoints of EM after each iteration: a driver that dies loses at most one iteration.

The file `state.safetensors` is replaced atomically. It holds the parameters as tensors; model, settings, data and the
bounds so far as JSON; and a checksum. A fit resumes from it only if model, settings and answers are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from crowdwise._core import checksums
from crowdwise._core.atomic_io import atomic_write
from crowdwise.engines.spark.packing import PackedAnswers
from crowdwise.errors import ModelFileError
from crowdwise.truth.em import EMModel, EMSteps

FORMAT = 2
KEY = "state"
STATE = "state.safetensors"


def stamp(model: EMModel, data: PackedAnswers) -> dict[str, Any]:
    """Return the facts that identify a fit; `max_iter` and `tol` are not among them."""
    from crowdwise._core.fingerprints import fingerprint  # needed on the driver only

    settings = {name: value for name, value in model.get_params(deep=False).items() if name not in ("max_iter", "tol")}
    return {
        "version": FORMAT, "model": type(model).__name__, "settings": fingerprint(sorted(settings.items())),
        "classes": data.class_ids.to_pylist(), "tasks": data.n_tasks, "workers": data.n_workers,
        "answers": data.n_answers, "digest": data.digest,
    }  # fmt: skip


class SparkCheckpoint:
    """Wraps the EM steps of a model and saves the parameters after each M-step."""

    file: Path
    history: list[float]
    max_iter: int
    monotone: bool
    stamp: dict[str, Any]
    tol: float

    def __init__(self, model: EMSteps, file: Path, stamp: dict[str, Any], past_bounds: list[float]) -> None:
        self.model, self.file, self.stamp, self.history = model, file, stamp, list(past_bounds)
        self.max_iter, self.tol, self.monotone = model.max_iter, model.tol, model.monotone

    def _e_step(self, work: Any, parameters: Any) -> tuple[Any, float]:
        statistics, bound = self.model._e_step(work, parameters)
        self.history.append(bound)
        return statistics, bound

    def _m_step(self, work: Any, statistics: Any, parameters: Any) -> Any:
        parameters = self.model._m_step(work, statistics, parameters)
        save(self.file, self.stamp, parameters, self.history)
        return parameters


def save(file: Path, stamp: dict[str, Any], parameters: Any, history: list[float]) -> None:
    """Write the parameters (a named tuple of arrays and numbers) and the bounds so far."""
    tensors = {name: np.array(value, order="C") for name, value in parameters._asdict().items()}
    with atomic_write(file) as temporary:
        facts = {**stamp, "history": history}
        checksums.write_with_checksum(
            temporary, KEY, facts, lambda metadata: save_file(tensors, temporary, metadata=metadata)
        )


def load(file: Path, stamp: dict[str, Any], kind: Any) -> tuple[Any, list[float]] | None:
    """Return the saved parameters (as a `kind`) and bounds of this fit; None if there is no checkpoint."""
    if not file.exists():
        return None
    try:
        state = checksums.read_metadata(file, KEY, FORMAT) or {}
        history = state.pop("history")
        with safe_open(file, framework="numpy") as opened:
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a mapping
        parameters = kind(**{name: array if array.ndim else array.item() for name, array in arrays.items()})
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        message = f"the checkpoint {str(file)!r} cannot be read: {error}. Delete it to start over."
        raise ModelFileError(message) from None
    different = [name for name in stamp if state.get(name) != stamp[name]]
    if different:
        message = (
            f"the checkpoint {str(file)!r} belongs to another fit ({', '.join(different)} differ). Use another folder."
        )
        raise ModelFileError(message)
    return parameters, history
