"""The page docs/cli.md, from the commands themselves; `make generate` writes it."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import typer.main

from crowdwise.cli import app

HEAD = """# Command line

This page is generated from the commands; `crowdwise COMMAND --help` shows the same text. The exit code is 0 on success,
1 if an input is invalid (with a message; `--debug` adds the traceback), and 2 if the command line is invalid.
"""


def page() -> str:
    """The whole page."""
    group = typer.main.get_command(app)
    parts = [HEAD, f"Options before the command:\n\n{options(group)}\n"]
    parts += [section(name, command) for name, command in group.commands.items()]  # type: ignore[attr-defined]
    return "\n".join(parts)


def section(name: str, command: Any) -> str:
    """One command: what it does, its arguments and options, an example."""
    arguments = " ".join(usage(p) for p in command.params if p.param_type_name == "argument")
    paragraphs = (command.help or "").split("\n\n")
    text = "\n\n".join(fill(part, 120, break_on_hyphens=False, break_long_words=False) for part in paragraphs)
    example = (command.epilog or "").strip()
    if example.startswith("Example: "):
        example = f"Example: `{example.removeprefix('Example: ')}`"
    parts = [
        f"## {name}",
        f"```text\ncrowdwise {name} [OPTIONS] {arguments}".rstrip() + "\n```",
        text,
        options(command),
    ]
    return "\n\n".join(part for part in [*parts, example] if part) + "\n"


def usage(argument: Any) -> str:
    """An argument as a line of usage has it."""
    name = (argument.metavar or argument.human_readable_name).strip("[]")
    name += "..." if argument.nargs != 1 and not name.endswith("...") else ""
    return name if argument.required else f"[{name}]"


def options(command: Any) -> str:
    """The table of arguments and options."""
    rows = ["| | |", "| --- | --- |"]
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or "--help" in parameter.opts:
            continue
        if parameter.param_type_name == "argument":
            names = usage(parameter).strip("[]")
        else:
            names = "`, `".join([*parameter.opts, *parameter.secondary_opts])
        default = parameter.default
        known = isinstance(default, (str, int, float)) and not isinstance(default, bool) and default != ""
        meaning = " ".join((parameter.help or "").split())
        rows.append(f"| `{names}` | {escape(meaning)}{f' Default: `{default}`.' if known else ''} |")
    return "\n".join(rows) if len(rows) > 2 else ""


def escape(text: str) -> str:
    """Text of a cell."""
    return text.replace("|", "\\|").replace("<", "&lt;")
