"""The command line. Thin: each command parses, calls the library and prints.

Exit codes: 0 all went well; 1 a mistake in what was given, said in plain words on stderr; 2 wrong usage; 130 and 143
stopped by Ctrl-C and SIGTERM. Heavy libraries are imported inside the commands, so that `--help` is quick.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from crowdwise import __version__
from crowdwise.cli import aggregate, compare, data, demo, distributed, feedback, fit, next, rank, run
from crowdwise.cli.interruption import code_of, stoppable
from crowdwise.cli.screen import notes, say
from crowdwise.errors import CrowdwiseError


class _Commands(TyperGroup):
    """All commands: mistakes of the user end in a message, not in a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = list(args)
        return super().parse_args(ctx, sorted(args, key="--debug".__ne__))  # --debug may stand anywhere

    def invoke(self, ctx: Any) -> Any:
        try:
            with distributed.taking_part(_command(ctx)), notes():
                return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has seen enough
            raise
        except (CrowdwiseError, OSError, KeyboardInterrupt) as error:
            if ctx.params.get("debug"):
                raise
            distributed.tell(error)
            raise typer.Exit(code_of(error) if isinstance(error, KeyboardInterrupt) else 1) from None


def _command(ctx: Any) -> str:
    """The name of the command, which is the first argument that is no option: those before it take no value."""
    words = [word for word in ctx.meta["arguments"] if not word.startswith("-")]
    return words[0] if words else ""


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


def _version(asked: bool) -> None:
    if asked:
        say(f"crowdwise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    """Labels you can trust from crowdsourced answers."""


def main() -> None:
    """Run the command line."""
    with stoppable() if distributed.size() == 1 else nullcontext():  # of many, each ends as the system has it
        app(prog_name="crowdwise")
