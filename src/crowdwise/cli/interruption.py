"""Interrupted commands: messages after Ctrl-C, SIGTERM or a failed write, and how to resume."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from crowdwise.errors import CrowdwiseError, SparkError, UnwritableError

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
DEFAULTS: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
RERUN = "Completed files are intact. Rerun the command to start over."


class Interrupted(KeyboardInterrupt):
    """The process received SIGINT or SIGTERM; unfinished work is cleaned up."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.number = number
        super().__init__(number)


@contextmanager
def interruptible(*, alone: bool = True) -> Iterator[None]:
    """Raise `Interrupted` on SIGINT and SIGTERM; a second signal ends the process at once.

    A process that is not `alone`, but one of many, gets Python's own handlers.
    """

    def stop(number: int, frame: Any) -> None:
        for each in NAMES:
            signal.signal(each, signal.SIG_DFL)
        sys.unraisablehook = lambda unraisable: None  # errors of half-constructed objects are expected now
        raise Interrupted(number)

    before = {each: signal.signal(each, stop if alone else default) for each, default in DEFAULTS.items()}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def resume_hint(hint: Callable[[], str]) -> Iterator[None]:
    """Add a hint on how to resume to an interruption or a failed write; an empty hint adds nothing."""
    try:
        yield
    except (KeyboardInterrupt, SparkError, UnwritableError) as error:
        if text := hint():
            error.add_note(text)
        raise


def exit_code(interruption: KeyboardInterrupt) -> int:
    """Return the exit code of an interrupted process, by the convention of shells.

    >>> exit_code(KeyboardInterrupt()), exit_code(Interrupted(signal.SIGTERM))
    (130, 143)
    """
    return 128 + getattr(interruption, "number", signal.SIGINT)


def with_option_names(text: str, options: Iterable[str]) -> str:
    """Write the arguments of the library in a message as command line options.

    >>> with_option_names("accept=3.0: use a confidence; or format='csv'", ["accept", "format"])
    '--accept 3.0: use a confidence; or --format csv'
    >>> with_option_names("duplicates='last' (--duplicates last) keeps it; label= (--label)", ["duplicates", "label"])
    '--duplicates last keeps it; --label'
    >>> with_option_names("accept them with multiline=True (--multiline).", ["multiline"])
    'accept them with --multiline.'
    """
    for name in options:
        option = f"--{name.replace('_', '-')}"
        text = re.sub(rf"\b{name}=True\b", option, text)
        text = re.sub(rf"\b{name}=(?:'([^']*)'|([\w.+-]*\w))", rf"{option} \1\2", text)
        text = re.sub(rf"\b{name}=", option, text)
        text = re.sub(rf"({re.escape(option)}(?: [\w.-]+)?) \(\1\)", r"\1", text)
    return text


def error_message(error: BaseException) -> str:
    """Return the message to print for an error.

    >>> error_message(PermissionError(13, "Permission denied", "answers.csv"))
    'answers.csv: permission denied.'
    >>> error_message(KeyboardInterrupt())
    'stopped by Ctrl-C. Completed files are intact. Rerun the command to start over.'
    """
    notes = getattr(error, "__notes__", [])
    if isinstance(error, KeyboardInterrupt):
        first = f"stopped by {NAMES[signal.Signals(exit_code(error) - 128)]}."
        notes = notes or [RERUN]
    elif isinstance(error, OSError) and not isinstance(error, CrowdwiseError) and error.strerror:
        place = error.filename or "cannot write the output"
        first = f"{place}: {error.strerror[:1].lower()}{error.strerror[1:]}."
    else:
        first = str(error)
    return " ".join([first, *notes])
