"""The command line. Each command parses its arguments, calls the library and prints the result.

Exit codes: 0 success; 1 invalid input, with a message on stderr; 2 wrong usage; 130 and 143 interrupted by Ctrl-C and
SIGTERM. Heavy libraries are imported inside the commands, so that `--help` is fast.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from crowdwise import __version__
from crowdwise.cli import (
    aggregate,
    compare,
    compare_methods,
    data,
    demo,
    distributed,
    feedback,
    fit,
    lean_imports,
    next,
    panel,
    predict,
    rank,
    run,
)
from crowdwise.cli.interruption import exit_code, interruptible, with_option_names
from crowdwise.cli.screen import notes, say
from crowdwise.errors import CrowdwiseError


class _Commands(TyperGroup):
    """All commands; invalid input ends in a message, not in a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = list(args)
        return super().parse_args(ctx, sorted(args, key="--debug".__ne__))  # --debug is allowed anywhere

    def invoke(self, ctx: Any) -> Any:
        try:
            with interruptible(alone=distributed.size() == 1), distributed.participation(_command(ctx)), notes():
                return super().invoke(ctx)
        except BrokenPipeError:  # the reader of the output has stopped reading
            raise
        except (CrowdwiseError, OSError, KeyboardInterrupt) as error:
            if ctx.params.get("debug"):
                raise
            if isinstance(error, CrowdwiseError):
                error = _with_option_names(error, ctx)
            distributed.report_error(error)
            raise typer.Exit(exit_code(error) if isinstance(error, KeyboardInterrupt) else 1) from None


def _with_option_names(error: CrowdwiseError, ctx: Any) -> CrowdwiseError:
    """Return the error with arguments of the library written as options of the command."""
    command = ctx.command.commands.get(_command(ctx))
    names = [] if command is None else [p.name for p in command.params if p.param_type_name == "option"]
    renamed = type(error)(with_option_names(str(error), names))
    for note in getattr(error, "__notes__", []):
        renamed.add_note(note)
    return renamed


def _command(ctx: Any) -> str:
    """Return the name of the command: the first argument that is not an option."""
    names = [argument for argument in ctx.meta["arguments"] if not argument.startswith("-")]
    return names[0] if names else ""


def _paragraphs(command: Callable[..., None]) -> str:
    """Return the docstring of a command with one line per paragraph, so that --help wraps it at any width."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(command.__doc__ or "").split("\n\n"))


app = typer.Typer(
    cls=_Commands,
    name="crowdwise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Start with: crowdwise demo",
)
for _function, _example in (
    (run.run, run.RUN),
    (run.report, run.REPORT),
    (compare.compare, compare.COMPARE),
    (compare_methods.compare_methods, compare_methods.EXAMPLE),
    (feedback.feedback, feedback.EXAMPLE),
    (panel.panel, panel.EXAMPLE),
    (aggregate.aggregate, aggregate.EXAMPLE),
    (fit.fit, fit.FIT),
    (predict.predict, predict.PREDICT),
    (rank.rank, rank.RANK),
    (data.inspect, data.INSPECT),
    (data.convert, data.CONVERT),
    (data.simulate, data.SIMULATE),
    (next.next, next.EXAMPLE),
    (demo.methods, demo.METHODS),
    (demo.demo, demo.DEMO),
):
    app.command(help=_paragraphs(_function), epilog=_example)(_function)


def _version(requested: bool) -> None:
    if requested:
        say(f"crowdwise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show the full traceback if an error occurs.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Infer reliable labels from the answers of several workers to the same tasks."""


def main() -> None:
    """Run the command line."""
    lean_imports.enable()
    app(prog_name="crowdwise")
