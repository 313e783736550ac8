"""The command line. Each command parses its arguments, calls the library and prints the result.

Exit codes: 0 success; 1 invalid input, with a message on stderr; 2 wrong usage; 130 and 143 interrupted by Ctrl-C and
SIGTERM. Heavy libraries are imported inside the commands, so that `--help` is fast.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from crowdwise import __version__
from crowdwise.cli import aggregate, compare, data, demo, distributed, feedback, fit, next, rank, run
from crowdwise.cli.interruption import exit_code, interruptible
from crowdwise.cli.screen import notes, say
from crowdwise.errors import CrowdwiseError


class _Commands(TyperGroup):
    """All commands; invalid input ends in a message, not in a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = list(args)
        return super().parse_args(ctx, sorted(args, key="--debug".__ne__))  # --debug is allowed anywhere

    def invoke(self, ctx: Any) -> Any:
        try:
            with distributed.participation(_command(ctx)), notes():
                return super().invoke(ctx)
        except BrokenPipeError:  # the reader of the output has stopped reading
            raise
        except (CrowdwiseError, OSError, KeyboardInterrupt) as error:
            if ctx.params.get("debug"):
                raise
            distributed.report_error(error)
            raise typer.Exit(exit_code(error) if isinstance(error, KeyboardInterrupt) else 1) from None


def _command(ctx: Any) -> str:
    """Return the name of the command: the first argument that is not an option."""
    names = [argument for argument in ctx.meta["arguments"] if not argument.startswith("-")]
    return names[0] if names else ""


app = typer.Typer(
    cls=_Commands,
    name="crowdwise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Start with: crowdwise demo",
)
app.command(epilog=run.RUN)(run.run)
app.command(epilog=run.REPORT)(run.report)
app.command(epilog=compare.COMPARE)(compare.compare)
app.command(epilog=feedback.EXAMPLE)(feedback.feedback)
app.command(epilog=aggregate.EXAMPLE)(aggregate.aggregate)
app.command(epilog=fit.FIT)(fit.fit)
app.command(epilog=fit.PREDICT)(fit.predict)
app.command(epilog=rank.RANK)(rank.rank)
app.command(epilog=data.INSPECT)(data.inspect)
app.command(epilog=data.CONVERT)(data.convert)
app.command(epilog=data.SIMULATE)(data.simulate)
app.command(epilog=next.EXAMPLE)(next.next)
app.command(epilog=demo.METHODS)(demo.methods)
app.command(epilog=demo.DEMO)(demo.demo)


def _version(requested: bool) -> None:
    if requested:
        say(f"crowdwise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Labels you can trust from crowdsourced answers."""


def main() -> None:
    """Run the command line."""
    with interruptible() if distributed.size() == 1 else nullcontext():  # one of many keeps the default handlers
        app(prog_name="crowdwise")
