"""Ids, labels and file names with control characters or markup are displayed and not interpreted."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from crowdwise.cli import app, screen

HOSTILE = (
    "[red]x[/red]", "[/]", "[bold", "[link=file:///etc]y[/link]", "\x1b[2J", "\u202egnp.exe", "a\u200bb", "\x9b31m",
    "\ud800", "a\rb",
)  # fmt: skip


@pytest.fixture(params=[False, True], ids=["pipe", "terminal"])
def shown(request, monkeypatch):
    """The text sent to the screen: a pipe, or a terminal."""
    stream = io.StringIO()
    fake = Console(file=stream, force_terminal=request.param, width=300, highlight=False)
    monkeypatch.setattr(screen, "console", lambda **_: fake)
    return stream


@pytest.mark.parametrize("text", HOSTILE)
def test_every_output_function_escapes_text(shown, text):
    safe = screen.visible(text)
    screen.say(text)
    screen.note(text)
    screen.fields([("name", text), (text, "value")])
    screen.table(["id", text], [[text, "1"]])
    with screen.progress(text) as step:
        step(text, 1, 2)
    sent = shown.getvalue()
    assert sent.count(safe) >= 6
    assert safe.isprintable()
    assert not any(control in sent for control in ("\x1b[2J", "\u202e", "\u200b", "\x9b", "\ud800", "a\rb"))


def test_json_is_printable_and_unchanged_when_parsed():
    result = {"ids": list(HOSTILE), "plain": "é 😀"}
    text = screen.to_json(result)
    assert json.loads(text) == result
    assert "é 😀" in text
    assert all(character.isprintable() or character == "\n" for character in text)


def test_commands_accept_hostile_ids_and_file_names(tmp_path):
    ids = [text for text in HOSTILE if text not in ("\ud800", "a\rb")]
    pairs = [(task, worker) for task in ids for worker in ids if task != worker]
    lines = [{"task": task, "worker": worker, "label": ids[i % 2]} for i, (task, worker) in enumerate(pairs)]
    file = tmp_path / "[red]answers[bold.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for command in (
        ["inspect", str(file)],
        ["aggregate", str(file), "-o", str(tmp_path / "labels.csv"), "--workers", str(tmp_path / "workers.csv")],
        ["aggregate", str(file), "--task", "[/]"],
        ["next", str(file), "--budget", "3"],
        ["convert", str(file), str(tmp_path / "[red].csv")],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == (1 if "[/]" in command else 0), done.output
        assert not done.exception or isinstance(done.exception, SystemExit)
        assert all(character.isprintable() or character in "\n\t" for character in done.output)
