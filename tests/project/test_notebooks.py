"""The notebooks in examples/ run, and are stored with small outputs."""

import json
from pathlib import Path

import pytest

from scripts.notebooks import execute, outputs

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))
LARGEST = 200_000  # characters of a file


def code(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_stored_with_its_outputs(path):
    stored, fresh = json.loads(path.read_text("utf-8")), execute(path)
    assert len(path.read_text("utf-8")) < LARGEST
    assert len(code(stored)) > 5
    shown = [part for cell in code(stored) for each in cell["outputs"] for part in each.get("data", {}).items()]
    assert shown and all(kind.endswith("+json") == isinstance(part, dict) for kind, part in shown)
    for before, now in zip(code(stored), code(fresh), strict=True):
        kinds = [[sorted(each.get("data", ["text"])) for each in cell["outputs"]] for cell in (before, now)]
        assert kinds[0] == kinds[1], f"run `make notebooks`: another kind of output\n{''.join(now['source'])}"


def test_there_are_five_notebooks():
    assert {path.stem for path in NOTEBOOKS} == {
        "truth", "features", "self_training_and_ambiguity", "llm_panel", "own_method",
    }  # fmt: skip


def test_what_a_cell_prints_and_returns_is_stored():
    printed, result = outputs("x = 2\nprint('two')\nx + 1", {}, "cell", 7)
    assert printed["text"] == ["two\n"] and result["data"]["text/plain"] == ["3"] and result["execution_count"] == 7
    assert outputs("x = 2", {}, "cell", 1) == []
    with pytest.raises(ZeroDivisionError):
        outputs("1 / 0", {}, "cell", 1)
