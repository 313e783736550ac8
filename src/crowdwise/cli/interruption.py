"""Commands that are stopped, by Ctrl-C or SIGTERM, or may not write: what is said, and how to go on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from crowdwise.errors import CrowdwiseError, SparkError, UnwritableError

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
ANEW = "Files that were written are whole; the same command starts anew."


class Stopped(KeyboardInterrupt):
    """The process was asked to end: what it has begun is tidied up, as after Ctrl-C."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.number = number
        super().__init__(number)


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` where this process is asked to end; asked twice, it ends at once."""

    def stop(number: int, frame: Any) -> None:
        for each in NAMES:
            signal.signal(each, signal.SIG_DFL)
        sys.unraisablehook = lambda unraisable: None  # what was half made cannot be unmade, and would say so: no news
        raise Stopped(number)

    before = {each: signal.signal(each, stop) for each in NAMES}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def goes_on(how: Callable[[], str]) -> Iterator[None]:
    """Say how to go on after what is in here was stopped, or could not write; nothing where there is no such way."""
    try:
        yield
    except (KeyboardInterrupt, SparkError, UnwritableError) as error:
        if words := how():
            error.add_note(words)
        raise


def code_of(stop: KeyboardInterrupt) -> int:
    """The exit code of a process that was stopped, as shells have it.

    >>> code_of(KeyboardInterrupt()), code_of(Stopped(signal.SIGTERM))
    (130, 143)
    """
    return 128 + getattr(stop, "number", signal.SIGINT)


def words(error: BaseException) -> str:
    """What to say of an error.

    >>> words(PermissionError(13, "Permission denied", "answers.csv"))
    'answers.csv: permission denied.'
    >>> words(KeyboardInterrupt())
    'stopped by Ctrl-C. Files that were written are whole; the same command starts anew.'
    """
    notes = getattr(error, "__notes__", [])
    if isinstance(error, KeyboardInterrupt):
        first = f"stopped by {NAMES[signal.Signals(code_of(error) - 128)]}."
        notes = notes or [ANEW]
    elif isinstance(error, OSError) and not isinstance(error, CrowdwiseError) and error.strerror:
        place = error.filename or "what is printed cannot be written"  # files that we write have their names in errors
        first = f"{place}: {error.strerror[:1].lower()}{error.strerror[1:]}."
    else:
        first = str(error)
    return " ".join([first, *notes])
