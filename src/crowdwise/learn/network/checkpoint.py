"""The state of a training on disk, so that a run that was killed goes on bit for bit as if it had not been.

One safetensors file, replaced whole after each epoch: the module, the optimiser, the best epoch so far, and a JSON
header with the counters, the history, and a fingerprint of the data and settings it belongs to. A checksum
shows damage.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load, save_file

from crowdwise._core import checksums
from crowdwise._core.atomic_io import atomic_write, exclusive_access
from crowdwise._core.fingerprints import fingerprint
from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseError, ModelFileError
from crowdwise.learn.features import Features
from crowdwise.learn.network import distributed
from crowdwise.learn.network.torch_support import Tensor

if TYPE_CHECKING:
    from crowdwise.learn.network.training import Trainer

VERSION = 2
KEY = "checkpoint"
HASHED = 64  # rows of the features that the fingerprint looks at


class CheckpointFile:
    """A checkpoint file of one fit.

    Parameters
    ----------
    path : path
        The file; its folder is made where the one above is there.
    fingerprint : str
        Of the data and settings; a file with another one is refused.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path, self.fingerprint = Path(path), fingerprint
        if distributed.is_first():  # on another machine its folders may not be there
            create_parent_folder(self.path)

    def save(self, trainer: Trainer) -> None:
        """Write the trainer's state, whole or not at all."""
        tensors = {f"module/{k}": v for k, v in trainer.module.state_dict().items()}
        tensors |= {f"best/{k}": v for k, v in trainer.best_state.items()}
        for i, state in trainer.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{i}/{k}": v for k, v in state.items() if isinstance(v, Tensor)}
        self.write(
            tensors,
            {
                "phase": trainer.phase, "epoch": trainer.epoch, "best": trainer.best if trainer.best_state else None,
                "best_epoch": trainer.best_epoch, "stopped": trainer.stopped, "history": trainer.history,
            },
        )  # fmt: skip

    def write(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Write tensors and, as JSON, what else there is to know, whole or not at all; the first process does."""
        if not distributed.is_first():
            return
        header = {"version": VERSION, "fingerprint": self.fingerprint, **state}
        copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        with atomic_write(self.path, sync=False) as beside:  # after each epoch, which may take as long as a disk
            checksums.write_with_checksum(
                beside, KEY, header, lambda metadata: save_file(copies, beside, metadata=metadata)
            )

    def load_into(self, trainer: Trainer) -> None:
        """Put the trainer where the file says it was; nothing happens when there is no file, or an earlier phase's."""
        found = self.read()
        if found is None:
            return
        try:
            self._put(trainer, *found)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:  # none that we wrote: its checksum fits
            message = f"{str(self.path)!r} is no state of this training ({error}). Delete it to start anew."
            raise ModelFileError(message) from error

    def _put(self, trainer: Trainer, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        if header["phase"] < trainer.phase:
            return
        parts: dict[str, dict[str, Tensor]] = {"module": {}, "best": {}, "optimiser": {}}
        for name, value in tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = value
        trainer.module.load_state_dict(parts["module"])
        trainer.history[:] = header["history"]
        if header["phase"] > trainer.phase:  # this phase was over before the run was killed
            trainer.epoch, trainer.stopped = trainer.settings.epochs, True
            return
        trainer.epoch, trainer.stopped = header["epoch"], header["stopped"]
        if header["best"] is not None:
            trainer.best, trainer.best_epoch, trainer.best_state = header["best"], header["best_epoch"], parts["best"]
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in parts["optimiser"].items():
            i, _, key = name.partition("/")
            state.setdefault(int(i), {})[key] = value
        groups = trainer.optimiser.state_dict()["param_groups"]
        trainer.optimiser.load_state_dict({"state": state, "param_groups": groups})

    def read(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """What was written, the state and the tensors; None when there is no file. On many processes, the first's."""
        group = distributed.current()
        try:
            content = self._content() if group is None else group.read_on_first(self._content)
            if content is None:
                return None
            header, tensors = _parse(content)
        except (OSError, ValueError, SafetensorError) as error:
            if isinstance(error, CrowdwiseError):
                raise
            message = f"{str(self.path)!r} is damaged or no checkpoint: {error}. Delete it to start anew."
            raise ModelFileError(message) from None
        if header is None or header.get("version") != VERSION:
            message = f"{str(self.path)!r} is no checkpoint of this crowdwise. Delete it, or give another path."
            raise ModelFileError(message)
        if header.get("fingerprint") != self.fingerprint:
            message = f"{str(self.path)!r} belongs to other data or settings. Delete it, or give another path."
            raise ModelFileError(message)
        return header, tensors

    def _content(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None


def create_parent_folder(path: Path) -> None:
    """Make the folder of a checkpoint, where the one above is there."""
    if path.is_dir():
        message = f"checkpoint={str(path)!r} is a folder: give the path of a file in it."
        raise ModelFileError(message)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        message = f"checkpoint={str(path)!r}: there is no folder for it, and none can be made ({error.strerror})."
        raise ModelFileError(message) from None


@contextmanager
def lock_checkpoint(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have a checkpoint to this fit alone: another one would go on from its epochs, and write over them."""
    if not distributed.is_first():
        yield
        return
    file = Path(path)
    create_parent_folder(file)
    with exclusive_access(file.parent, file.name):
        yield


def _parse(content: bytes) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """The header and the tensors of a file."""
    tensors = load(content)  # says when it is no such file
    return checksums.read_metadata(content, KEY, VERSION), tensors


def fit_fingerprint(answers: Answers, features: Features, parameters: dict[str, Any], *more: Any) -> str:
    """A hash of the answers, the parameters, more arrays, and the features: their shape, and some rows among all."""
    facts = [(name, _identity(value)) for name, value in sorted(parameters.items())]
    found = hashlib.sha256(fingerprint(features.shape, facts).encode())
    found.update(features.rows(np.linspace(0, features.n_rows - 1, HASHED).astype(np.int64)).tobytes())
    for column in (answers.task, answers.worker, answers.label, answers.weight, answers.pseudo, *more):
        found.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
    return found.hexdigest()


def _identity(value: Any) -> Any:
    """What tells a parameter from another: itself, if the next process has the same."""
    if hasattr(value, "state_dict"):  # a network, whose weights may be drawn anew: those that count are in the file
        return repr(value)
    if hasattr(value, "get_params"):  # a model, whose parameters stand beside it
        return type(value).__qualname__
    return getattr(value, "__qualname__", value)  # where a function lies in memory changes from run to run
