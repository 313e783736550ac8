"""`python -m benchmarks`: the list, unknown names, and environments that are created when missing."""

import importlib
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.files import read_results, write_results

MACHINERY = {"__init__", "__main__", "files", "measure", "learn_peers", "drawn_crowds", "trust_crowds", "trust_bias"}


def test_list_names_every_module_once(capsys):
    command.main([])
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in command.BENCHMARKS)
    modules = {path.stem for path in Path(command.__file__).parent.glob("*.py")}
    assert sorted(each.module for each in command.BENCHMARKS.values()) == sorted(modules - MACHINERY)


@pytest.mark.parametrize("name", ["acquire", "cost-model", "unchanged", "parallel", "kill"])
def test_module_has_a_main(name):
    assert callable(importlib.import_module(f"benchmarks.{command.BENCHMARKS[name].module}").main)


def test_unknown_name_ends_in_a_message_with_a_hint():
    with pytest.raises(SystemExit, match=r"no benchmark named 'thruth'\. Did you mean truth\?"):
        command.main(["thruth"])


def test_environment_is_created_once_and_updated_after_a_change(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command.subprocess, "run", lambda words, **options: commands.append(words))
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / ".venv-peers").mkdir()
    (tmp_path / "benchmarks" / "peers.txt").write_text("crowd-kit\n")
    command.PEERS.prepare()
    assert commands[0][1:3] == ["-m", "venv"]
    assert "torch" in commands[2]
    assert commands[3][-4:-1] == ["-c", "constraints.txt", "-r"]
    n = len(commands)
    command.PEERS.prepare()
    assert len(commands) == n


def test_results_are_rounded_and_read_again(tmp_path):
    path = tmp_path / "new" / "results.json"
    write_results(path, {"a": {"b": [1 / 3, 2], "c": None}, "d": "text", "rows": [{"n": 123456789}]})
    assert read_results(path) == {"a": {"b": [0.3333, 2], "c": None}, "d": "text", "rows": [{"n": 123456789}]}
    assert read_results(tmp_path / "missing.json", {}) == {}
