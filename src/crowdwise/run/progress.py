"""The state of a run on disk: what was asked, and what is done so far, so that a killed run goes on.

While a run lasts, its folder holds `config.json` and `.work/`: folds of the choice that are scored, models that are
fitted. When all files are there, `.work/` goes.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from crowdwise._core.atomic_io import LOCK, atomic_write
from crowdwise.errors import ParameterError
from crowdwise.run.folder import CONFIG, METRICS
from crowdwise.run.folder_format import FORMAT, read_json

KEPT = ".work"


class Progress(NamedTuple):
    """Where a run is."""

    step: int  # from 1
    steps: int
    what: str  # plain words
    done: int | None = None  # of this step
    total: int | None = None
    left: float | None = None  # seconds until all is done, as far as can be told


Callback = Callable[[Progress], None]


class RunProgress:
    """The folder of a run in the making.

    Parameters
    ----------
    folder : path
        Where the run goes; made if need be.
    config : mapping
        What was asked. A folder that was begun with another one is refused.
    resume : bool
        Go on with what is there; otherwise a folder that holds a run is refused.
    steps : int
    callback : callable, optional
        Told of the progress.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        config: Mapping[str, Any],
        *,
        resume: bool,
        steps: int,
        callback: Callback | None,
    ) -> None:
        self.folder, self.steps, self.callback = Path(folder), steps, callback
        self.kept = self.folder.absolute() / KEPT  # fits run in other processes, which may stand elsewhere
        self.number = 0
        self.times: dict[str, float] = {}
        begun = self.folder / CONFIG
        if begun.is_file():
            self._check_begun(read_json(begun), config, resume=resume)
        if not self.finished:
            self.kept.mkdir(parents=True, exist_ok=True)
            self.write(CONFIG, config)

    @property
    def finished(self) -> bool:
        """Whether the run is complete."""
        return (self.folder / METRICS).is_file()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """The next step: told, and timed."""
        self.number += 1
        self.tell(what)
        start = time.perf_counter()
        yield
        self.times[what] = round(time.perf_counter() - start, 3)

    def tell(self, what: str, done: int | None = None, total: int | None = None, left: float | None = None) -> None:
        """Say where the run is."""
        if self.callback is not None:
            self.callback(Progress(self.number, self.steps, what, done, total, left))

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """A JSON file of the folder, whole or not at all."""
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        with atomic_write(self.folder / name) as beside:
            beside.write_text(text + "\n", encoding="utf-8")

    def clear(self) -> None:
        """All is there: what was kept on the way goes."""
        shutil.rmtree(self.kept, ignore_errors=True)

    def _check_begun(self, found: Mapping[str, Any], config: Mapping[str, Any], *, resume: bool) -> None:
        if not resume:
            how = "a run" if self.finished else "a run that was not finished"
            message = f"{self.folder} holds {how}: --resume goes on with it; or name another folder."
            raise ParameterError(message)
        wanted = json.loads(json.dumps(config))
        parts = [(f"{part} {name}", f, w) for part in ("data", "options") for name, f, w in _pairs(found, wanted, part)]
        parts += [(name, found.get(name), wanted.get(name)) for name in ("format", "crowdwise", "seed")]
        other = next(((name, f, w) for name, f, w in parts if f != w), None)
        if other is not None:
            message = (
                f"{self.folder} was begun with another {other[0]} ({_short(other[1])}, now {_short(other[2])}): "
                f"give the same, or name another folder."
            )
            raise ParameterError(message)


def check_place(folder: Path) -> None:
    """Refuse a folder that cannot be written to, or that holds something else."""
    if folder.exists() and not folder.is_dir():
        message = f"{folder} is a file: --out names a folder for the run."
        raise ParameterError(message)
    above = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        message = f"{folder} cannot be written: {above} is not a folder you may write to."
        raise ParameterError(message)
    begun = (KEPT, LOCK, f".{CONFIG}.")  # all that a run killed at its very start leaves
    others = [] if not folder.is_dir() else [file for file in folder.iterdir() if not file.name.startswith(begun)]
    if others and not (folder / CONFIG).is_file():
        message = f"{folder} holds other files: name a new folder for the run."
        raise ParameterError(message)


def config_of(data: Mapping[str, str | None], options: Mapping[str, Any], inputs: Any, seed: int) -> dict[str, Any]:
    """The content of config.json: all that decides the result, and where it came from."""
    from crowdwise import __version__

    return {
        "format": FORMAT, "crowdwise": __version__, "seed": seed, "options": dict(options), "data": dict(data),
        "inputs": list(inputs),
    }  # fmt: skip


def _pairs(found: Mapping[str, Any], wanted: Mapping[str, Any], part: str) -> Iterator[tuple[str, Any, Any]]:
    ours, theirs = wanted.get(part, {}), found.get(part, {})
    for name in {**theirs, **ours}:
        yield name, theirs.get(name), ours.get(name)


def _short(value: Any) -> str:
    return repr(value)[:60]
