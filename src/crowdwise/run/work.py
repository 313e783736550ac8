"""The state of a run on disk: what was asked, and what is done so far, so that a killed run goes on.

While a run lasts, its folder holds `config.json` and `.work/`: folds of the choice that are scored, models that are
fitted. When all files are there, `.work/` goes.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from crowdwise.errors import ParameterError
from crowdwise.run.folder import CONFIG, FORMAT, METRICS, read_json


class Progress(NamedTuple):
    """Where a run is."""

    step: int  # from 1
    steps: int
    what: str  # plain words
    done: int | None = None  # of this step
    total: int | None = None
    left: float | None = None  # seconds until all is done, as far as can be told


Callback = Callable[[Progress], None]


class Work:
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
        self.kept = self.folder.absolute() / ".work"  # fits run in other processes, which may stand elsewhere
        self.number = 0
        self.times: dict[str, float] = {}
        self._check_place()
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
        write_whole(self.folder / name, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def clear(self) -> None:
        """All is there: what was kept on the way goes."""
        shutil.rmtree(self.kept, ignore_errors=True)

    def _check_place(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            message = f"{self.folder} is a file: --out names a folder for the run."
            raise ParameterError(message)
        above = next(place for place in (self.folder.absolute(), *self.folder.absolute().parents) if place.exists())
        if not (above.is_dir() and os.access(above, os.W_OK)):
            message = f"{self.folder} cannot be written: {above} is not a folder you may write to."
            raise ParameterError(message)
        begun = (self.kept.name, f".{CONFIG}.")  # all that a run killed at its very start leaves
        others = [] if not self.folder.is_dir() else [f for f in self.folder.iterdir() if not f.name.startswith(begun)]
        if others and not (self.folder / CONFIG).is_file():
            message = f"{self.folder} holds other files: name a new folder for the run."
            raise ParameterError(message)

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


def config_of(data: Mapping[str, str | None], options: Mapping[str, Any], inputs: Any, seed: int) -> dict[str, Any]:
    """The content of config.json: all that decides the result, and where it came from."""
    from crowdwise import __version__

    return {
        "format": FORMAT, "crowdwise": __version__, "seed": seed, "options": dict(options), "data": dict(data),
        "inputs": list(inputs),
    }  # fmt: skip


def write_whole(path: Path, text: str) -> None:
    """Write a text file beside where it goes, then put it there."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _pairs(found: Mapping[str, Any], wanted: Mapping[str, Any], part: str) -> Iterator[tuple[str, Any, Any]]:
    ours, theirs = wanted.get(part, {}), found.get(part, {})
    for name in {**theirs, **ours}:
        yield name, theirs.get(name), ours.get(name)


def _short(value: Any) -> str:
    return repr(value)[:60]
