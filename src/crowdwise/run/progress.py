"""A run in progress: the folder it writes to, the steps it reports, and what a killed run resumes from.

While a run lasts, its folder holds `config.json` and `.work/`: scored folds of the comparison, and fitted models. When
the run is complete, `.work/` is deleted.
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
from crowdwise.run.stored_files import CONFIG, FORMAT, METRICS, read_json

WORK = ".work"


class Progress(NamedTuple):
    """The state of a run, passed to `callback`."""

    step: int  # from 1
    steps: int
    what: str  # what is being done, in words
    done: int | None = None  # parts of this step
    total: int | None = None
    left: float | None = None  # estimated seconds until the run is done


Callback = Callable[[Progress], None]


class OutputFolder(os.PathLike[str]):
    """A folder that a run may write to. An unsuitable folder is rejected here, before any data is read.

    Parameters
    ----------
    path : path
        A new or empty folder, or that of an earlier run.
    """

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        folder = self.path = Path(path)
        if folder.exists() and not folder.is_dir():
            message = f"{folder} is a file: --out must name a folder for the run."
            raise ParameterError(message)
        above = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
        if not (above.is_dir() and os.access(above, os.W_OK)):
            message = f"Cannot write to {folder}: {above} is not a writable folder."
            raise ParameterError(message)
        left_by_run = (WORK, LOCK, f".{CONFIG}.")  # all that a run leaves if it is killed right at its start
        files = folder.iterdir() if folder.is_dir() else ()
        others = [file for file in files if not file.name.startswith(left_by_run)]
        if others and not (folder / CONFIG).is_file():
            message = f"{folder} contains files that are not from a run: name a new or empty folder."
            raise ParameterError(message)

    def __fspath__(self) -> str:
        return os.fspath(self.path)


class RunProgress:
    """The steps of a run, and the files that a killed run resumes from.

    Parameters
    ----------
    folder : path
        Folder of the run; created if missing.
    config : mapping
        The content of config.json. A folder that was started with another one is rejected.
    resume : bool
        Resume the run in this folder; otherwise a folder that holds a run is rejected.
    steps : int
        Number of steps.
    callback : callable, optional
        Called with a `Progress`.
    """

    folder: Path
    steps: int

    def __init__(
        self, folder: Path, config: Mapping[str, Any], *, resume: bool, steps: int, callback: Callback | None
    ) -> None:
        self.folder, self.steps, self.callback = folder, steps, callback
        self.work: Path = folder.absolute() / WORK  # absolute: fits run in other processes, which may have another cwd
        self.number: int = 0
        self.times: dict[str, float] = {}
        if (folder / CONFIG).is_file():
            self._check_same_run(read_json(folder / CONFIG), config, resume=resume)
        if not self.finished:
            self.work.mkdir(parents=True, exist_ok=True)
            self.write_json(CONFIG, config)

    @property
    def finished(self) -> bool:
        """Whether the run is complete."""
        return (self.folder / METRICS).is_file()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Report and time the next step."""
        self.number += 1
        self.report(what)
        start = time.perf_counter()
        yield
        self.times[what] = round(time.perf_counter() - start, 3)

    def report(self, what: str, done: int | None = None, total: int | None = None, left: float | None = None) -> None:
        """Pass the state of the run to the callback."""
        if self.callback is not None:
            self.callback(Progress(self.number, self.steps, what, done, total, left))

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file of the folder atomically."""
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        with atomic_write(self.folder / name) as partial:
            partial.write_text(text + "\n", encoding="utf-8")

    def clear(self) -> None:
        """Delete the files that only a killed run needs."""
        shutil.rmtree(self.work, ignore_errors=True)

    def _check_same_run(self, found: Mapping[str, Any], config: Mapping[str, Any], *, resume: bool) -> None:
        """Raise unless the folder's run is to be resumed and has the same configuration."""
        if not resume:
            state = "a run" if self.finished else "an unfinished run"
            message = f"{self.folder} holds {state}: resume it with --resume, or name another folder."
            raise ParameterError(message)
        wanted = json.loads(json.dumps(config))
        pairs = [
            (name, found.get(part, {}).get(name), wanted.get(part, {}).get(name))
            for part in ("data", "options")
            for name in {**found.get(part, {}), **wanted.get(part, {})}
        ]
        pairs += [(name, found.get(name), wanted.get(name)) for name in ("format", "crowdwise", "seed")]
        for name, old, new in pairs:
            if old != new:
                message = (
                    f"{self.folder} holds a run with other settings: {name} was {repr(old)[:60]}, now it is "
                    f"{repr(new)[:60]}. Use the same settings, or name another folder."
                )
                raise ParameterError(message)


def make_config(data: Mapping[str, str | None], options: Mapping[str, Any], inputs: Any, seed: int) -> dict[str, Any]:
    """Return the content of config.json: all that determines the result, and where the data came from."""
    from crowdwise import __version__

    return {
        "format": FORMAT, "crowdwise": __version__, "seed": seed, "options": dict(options), "data": dict(data),
        "inputs": list(inputs),
    }  # fmt: skip
