"""The examples in the README and the docs run, links have a target, and every method page is complete."""

import doctest
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise._core.registry import PACKAGES, methods, public_names
from crowdwise.cli import app
from crowdwise.report.source import VERDICTS
from crowdwise.run.tables.labels import GOLD, MINORITY, SINGLE, SPLIT, UNANSWERED, UNNAMED

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
    """In the order of the page, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for language, text in FENCED.findall(page.read_text()):
        if language == "python":
            assert ">>>" in text, f"a Python example without >>> is not checked:\n{text}"
            run_python(text, names, page.name)
        elif language == "console":
            run_console(text)
        else:
            assert language in ("text", "bash"), f"unknown language {language!r} of a code block:\n{text}"
            assert ">>>" not in text, f"this example is not run; mark it as python:\n{text}"


def run_python(text, names, page):
    test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    failures: list = []
    runner.run(test, out=failures.append, clear_globs=False)
    names.update(test.globs)
    assert not failures, "".join(failures)


def run_console(text):
    """Run the commands, and compare their output with what the block shows; "..." matches anything."""
    for line, shown in re.findall(r"^\$ crowdwise ([^\n]*)\n(.*?)(?=^\$ |\Z)", text, re.MULTILINE | re.DOTALL):
        result = CliRunner().invoke(app, shlex.split(line), env={"COLUMNS": "200"})
        assert result.exit_code == 0, f"crowdwise {line}\n{result.output}"
        if shown.strip():
            wanted, printed = (TIMES.sub("some time", part) for part in (shown, result.stdout))
            message = f"crowdwise {line}\nprints\n{result.stdout}\nbut the page shows\n{shown}"
            assert doctest.OutputChecker().check_output(wanted, printed, FLAGS), message


def test_output_shown_on_a_page_is_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_console(
        "$ crowdwise simulate --out a.csv --tasks 20\nanswers ...\nwritten to a.csv\n$ crowdwise inspect a.csv\n..."
    )
    with pytest.raises(AssertionError, match="written to b"):
        run_console("$ crowdwise simulate --out a.csv --tasks 20\nwritten to b.csv\n")


def test_the_first_page_explains_every_column_verdict_reason_and_flag():
    page = (DOCS / "index.md").read_text()
    folder = ROOT / "tests" / "fixtures" / "run_v3"
    named = {name for path in folder.glob("*.csv") for name in path.read_text().partition("\n")[0].split(",")}
    assert {"flag", "reason", "lift", "trust"} <= named
    named |= {"truth", *VERDICTS, GOLD, UNANSWERED, UNNAMED, MINORITY, SPLIT, SINGLE}
    named |= {"always answers X", "answers at random", "answers against the truth", "copies W"}
    assert not {name for name in named if f"`{name}`" not in page}


def test_code_blocks_are_not_indented():
    """Only blocks that begin at the start of a line are run."""
    assert [name(page) for page in PAGES if re.search(r"^[ >*-]+```", page.read_text(), re.MULTILINE)] == []


def test_entry_pages_have_examples():
    for page in ("README.md", "docs/index.md", "docs/choosing.md", "docs/learning.md", "docs/systems.md"):
        assert ROOT / page in WITH_EXAMPLES


# Links


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_have_a_target(page):
    for target, heading in re.findall(r"\]\(([^)#:\s]*)#?([^):\s]*)\)", without_code(page)):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if heading:
            assert heading in headings(linked), f"{target}#{heading}"


def headings(page):
    """Return the anchors of a page, as GitHub derives them."""
    titles = re.findall(r"^#+ (.*)", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def without_code(page):
    return FENCED.sub("", page.read_text())


# One page per method, all with the same sections


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_every_method_has_a_page(method):
    page = DOCS / "methods" / f"{method.name}.md"
    text = page.read_text()
    title, what_for = text.split("\n\n")[:2]
    assert title.startswith("# ")
    assert what_for.startswith(f"`{method.name}`, in Python `cw.{method.home.partition(':')[2]}`: ")
    assert re.findall(r"^## (.*)", without_code(page), re.MULTILINE) == SHAPE
    for heading, body in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        assert body.strip(), f"section {heading} is empty"
    assert "```text" in section(text, "How it works"), "no formula"
    assert ">>>" in section(text, "Example")


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_parameters_on_a_method_page_match_its_class(method):
    table = section((DOCS / "methods" / f"{method.name}.md").read_text(), "Main parameters")
    rows = re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", table, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| `", table, re.MULTILINE)) > 0
    model = cw.make(method.name)
    for parameter, default in rows:
        assert parameter in model.get_params(deep=False), parameter
        assert repr(getattr(model, parameter)) == repr(eval(default)), parameter


def section(text, heading):
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


# Reference


def test_every_public_name_is_in_the_reference():
    reference = "\n".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    entries = set(re.findall(r"^::: (\S+)", reference, re.MULTILINE))
    for public, home in public_names().items():
        assert {f"crowdwise.{home}", f"crowdwise.{home}.{public}"} & entries, f"{public} is on no page of docs/api"
    for package in {*PACKAGES, "answers", "io"} - {"errors"}:
        page = (DOCS / "api" / f"{package}.md").read_text()
        for public in import_module(f"crowdwise.{package}").__all__:
            assert re.search(rf"\b{public}\b", page), f"{public} is not in docs/api/{package}.md"
