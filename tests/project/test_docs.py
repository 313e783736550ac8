"""Every example in README and docs runs, in order, in an empty folder; links lead somewhere; nothing is missing."""

import doctest
import os
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise._core.registry import methods
from crowdwise.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_EXAMPLES = [page for page in PAGES if re.search(r"^```(python|console)$", page.read_text(), re.MULTILINE)]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
TIMES = re.compile(r"\b\d+(\.\d+)? s\b")  # such as 0.08 s
# The sections of every method page, in this order: use first, theory after it, references last.
SHAPE = [
    "When to use it", "Example", "When it fails", "How it works", "What it assumes", "Main parameters", "Cost", "Paper",
    "See also",
]  # fmt: skip


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for language, text in FENCED.findall(page.read_text()):
        if language == "python":
            assert ">>>" in text, f"a Python example that cannot be checked:\n{text}"
            run_python(text, names, page.name)
        elif language == "console":
            run_console(text)
        else:
            assert language in ("text", "bash"), f"what is {language or 'a block without a language'}?\n{text}"
            assert ">>>" not in text, f"an example that is not run:\n{text}"


def run_python(text, names, page):
    test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    complaints: list = []
    runner.run(test, out=complaints.append, clear_globs=False)
    names.update(test.globs)
    assert not complaints, "".join(complaints)


def run_console(text):
    """Every command ends well and, where the block shows what it prints, prints that; "..." stands for anything."""
    for line, shown in re.findall(r"^\$ crowdwise ([^\n]*)\n(.*?)(?=^\$ |\Z)", text, re.MULTILINE | re.DOTALL):
        result = CliRunner().invoke(app, shlex.split(line), env={"COLUMNS": "200"})
        assert result.exit_code == 0, f"crowdwise {line}\n{result.output}"
        if shown.strip():
            wanted, printed = (TIMES.sub("some time", part) for part in (shown, result.stdout))
            told = f"crowdwise {line}\nprints\n{result.stdout}\nand the page says\n{shown}"
            assert doctest.OutputChecker().check_output(wanted, printed, FLAGS), told


def test_output_that_a_page_shows_is_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_console(
        "$ crowdwise simulate --out a.csv --tasks 20\nanswers ...\nwritten to a.csv\n$ crowdwise inspect a.csv\n..."
    )
    with pytest.raises(AssertionError, match="written to b"):
        run_console("$ crowdwise simulate --out a.csv --tasks 20\nwritten to b.csv\n")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_example_hides(page):
    assert not re.search(r"^[ >*-]+```", page.read_text(), re.MULTILINE), (
        "a fence that does not begin its line is not run"
    )


def test_the_entry_pages_have_examples():
    for page in ("README.md", "docs/index.md", "docs/choosing.md", "docs/learning.md", "docs/systems.md"):
        assert ROOT / page in WITH_EXAMPLES


# Links


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target, heading in re.findall(r"\]\(([^)#:\s]*)#?([^):\s]*)\)", without_code(page)):
        led_to = page.parent / target if target else page
        assert led_to.exists(), target
        if heading:
            assert heading in headings(led_to), f"{target}#{heading}"


def headings(page):
    """Anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def without_code(page):
    return FENCED.sub("", page.read_text())


# A page for each method, all of one shape


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_every_method_has_a_page(method):
    page = DOCS / "methods" / f"{method.name}.md"
    text = page.read_text()
    title, what_for = text.split("\n\n")[:2]
    assert title.startswith("# ")
    assert what_for.startswith(f"`{method.name}`, in Python `cw.{method.home.partition(':')[2]}`: ")
    assert re.findall(r"^## (.*)", without_code(page), re.MULTILINE) == SHAPE
    for heading, body in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        assert body.strip(), f"{heading} says nothing"
    assert "```text" in section(text, "How it works"), "no formula"
    assert ">>>" in section(text, "Example")


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_parameters_on_a_method_page_are_those_of_its_class(method):
    table = section((DOCS / "methods" / f"{method.name}.md").read_text(), "Main parameters")
    rows = re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", table, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| `", table, re.MULTILINE)) > 0
    model = cw.make(method.name)
    for parameter, default in rows:
        assert parameter in model.get_params(deep=False), parameter
        assert repr(getattr(model, parameter)) == repr(eval(default)), parameter


def section(text, heading):
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("page", ["README.md", "docs/methods/index.md"])
def test_every_method_is_in_the_lists(page):
    text = (ROOT / page).read_text()
    for method in methods():
        assert f"`{method.name}`" in text, f"{method.name} is missing in {page}"


def test_every_method_is_reached_from_choosing():
    text = (DOCS / "choosing.md").read_text()
    missing = {m.name for m in methods()} - set(re.findall(r"\(methods/([\w-]+)\.md\)", text))
    assert not missing - {"fixed-difficulty"}, missing  # a variant, led to by the page of the adaptive one


# Reference


def test_the_page_of_the_command_line_is_what_the_commands_say(monkeypatch):
    monkeypatch.syspath_prepend(os.fspath(DOCS))
    import cli_page

    assert cli_page.PAGE.read_text() == cli_page.page(), "write it anew: python docs/cli_page.py"
    for command in app.registered_commands:
        assert f"\n## {command.name or command.callback.__name__}\n" in cli_page.PAGE.read_text()


def test_every_public_name_is_in_the_reference():
    reference = "\n".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    entries = set(re.findall(r"^::: (\S+)", reference, re.MULTILINE))
    for public, home in cw._HOME.items():
        assert {f"crowdwise.{home}", f"crowdwise.{home}.{public}"} & entries, f"{public} is in no page of docs/api"
    for room in {*cw._ROOMS, "answers", "io", "report"} - {"errors"}:
        page = (DOCS / "api" / f"{room}.md").read_text()
        for public in import_module(f"crowdwise.{room}").__all__:
            assert re.search(rf"\b{public}\b", page), f"{public} is not in docs/api/{room}.md"
