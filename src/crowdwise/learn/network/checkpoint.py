"""The state of a training on disk, from which a killed run resumes with the same result, bit for bit.

It is one safetensors file, replaced atomically after each epoch. It holds the module, the optimiser, the best epoch so
far, and a JSON header with the counters, the history, and a fingerprint of the data and settings. A checksum detects
damage.
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

VERSION = 3
KEY = "checkpoint"
HASHED = 64  # rows of the features that enter the fingerprint


class CheckpointFile:
    """The checkpoint file of one fit.

    Parameters
    ----------
    path : path
        The file. Its folder is created if the parent of the folder exists.
    fingerprint : str
        Fingerprint of the data and settings; a file with another one is rejected.
    """

    fingerprint: str
    path: Path

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path, self.fingerprint = Path(path), fingerprint
        self.plan: dict[str, Any] | None = None  # how to train, as a search found
        if distributed.is_first():  # on another machine the folder may not exist
            create_parent_folder(self.path)

    def save(self, trainer: Trainer) -> None:
        """Write the state of the trainer, atomically."""
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
        """Write tensors and a JSON header, atomically. Only the first process writes."""
        if not distributed.is_first():
            return
        header = {"version": VERSION, "fingerprint": self.fingerprint, "plan": self.plan, **state}
        copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        with atomic_write(self.path, sync=False) as temporary:  # a sync may take longer than an epoch
            checksums.write_with_checksum(
                temporary, KEY, header, lambda metadata: save_file(copies, temporary, metadata=metadata)
            )

    def load_into(self, trainer: Trainer) -> None:
        """Restore the trainer from the file; do nothing if there is no file, or it is from an earlier phase."""
        content = self.read()
        if content is None:
            return
        try:
            self._restore(trainer, *content)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:  # a valid checksum, but not written by us
            message = f"{str(self.path)!r} is not a checkpoint of this training ({error}). Delete it to start over."
            raise ModelFileError(message) from error

    def _restore(self, trainer: Trainer, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        if header["phase"] < trainer.phase:
            return
        parts: dict[str, dict[str, Tensor]] = {"module": {}, "best": {}, "optimiser": {}}
        for name, value in tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = value
        trainer.module.load_state_dict(parts["module"])
        trainer.history[:] = header["history"]
        if header["phase"] > trainer.phase:  # this phase was complete
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
        """Return the header and tensors of the file; None if there is no file. In a group, the first process reads."""
        group = distributed.current()
        try:
            content = self._content() if group is None else group.read_on_first(self._content)
            if content is None:
                return None
            header, tensors = _parse(content)
        except (OSError, ValueError, SafetensorError) as error:
            if isinstance(error, CrowdwiseError):
                raise
            message = f"{str(self.path)!r} is damaged or not a checkpoint: {error}. Delete it to start over."
            raise ModelFileError(message) from None
        if header is None or header.get("version") != VERSION:
            message = (
                f"{str(self.path)!r} is not a checkpoint of this version of crowdwise. Delete it, or use another path."
            )
            raise ModelFileError(message)
        if header.get("fingerprint") != self.fingerprint:
            message = f"{str(self.path)!r} belongs to other data or settings. Delete it, or use another path."
            raise ModelFileError(message)
        return header, tensors

    def _content(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None


def create_parent_folder(path: Path) -> None:
    """Create the folder of a checkpoint, if the parent of the folder exists."""
    if path.is_dir():
        message = f"checkpoint={str(path)!r} is a folder. Use the path of a file."
        raise ModelFileError(message)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        message = f"checkpoint={str(path)!r}: its folder does not exist and cannot be created ({error.strerror})."
        raise ModelFileError(message) from None


@contextmanager
def lock_checkpoint(path: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a checkpoint, so that no other fit resumes from it or overwrites it."""
    if not distributed.is_first():
        yield
        return
    file = Path(path)
    create_parent_folder(file)
    with exclusive_access(file.parent, file.name):
        yield


def _parse(content: bytes) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """Return the header and the tensors in the content of a file."""
    tensors = load(content)  # raises if the format is wrong
    return checksums.read_metadata(content, KEY, VERSION), tensors


def fit_fingerprint(answers: Answers, features: Features, parameters: dict[str, Any], *more: Any) -> str:
    """Return a hash of the answers, the parameters, more arrays, and the shape and some rows of the features."""
    settings = [(name, _identity(value)) for name, value in sorted(parameters.items())]
    digest = hashlib.sha256(fingerprint(features.shape, settings).encode())
    digest.update(features.rows(np.linspace(0, features.n_rows - 1, HASHED).astype(np.int64)).tobytes())
    for column in (answers.task, answers.worker, answers.label, answers.weight, answers.pseudo, *more):
        digest.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def _identity(value: Any) -> Any:
    """Return what identifies a parameter in any process."""
    if hasattr(value, "state_dict"):  # a network, whose weights may be random; the file holds those in use
        return repr(value)
    if hasattr(value, "get_params"):  # a model, whose parameters are listed separately
        return type(value).__qualname__
    return getattr(value, "__qualname__", value)  # the repr of a function contains its address
