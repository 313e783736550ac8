"""Every example in the README and the docs runs, in order, in an empty folder."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crowdwise.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ("datasets", "formats", "learning", "methods", "systems")  # benchmarks.md and results.md hold figures only
PAGES = [ROOT / "README.md", *(ROOT / f"docs/{name}.md" for name in DOCS)]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = BLOCK.findall(page.read_text())
    assert blocks, "a page without examples needs no test: take it out of PAGES"
    for language, text in blocks:
        if language == "python":
            assert ">>>" in text, f"a Python example that cannot be checked:\n{text}"
            run_python(text, names, page.name)
        else:
            for line in re.findall(r"^\$ crowdwise (.*)", text, re.MULTILINE):
                result = CliRunner().invoke(app, shlex.split(line))
                assert result.exit_code == 0, f"crowdwise {line}\n{result.output}"


def run_python(text, names, page):
    test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    complaints: list = []
    runner.run(test, out=complaints.append, clear_globs=False)
    names.update(test.globs)
    assert not complaints, "".join(complaints)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, heading in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text()):
        led_to = page.parent / target if target else page
        assert led_to.exists(), target
        if heading:
            assert heading in headings(led_to), f"{target}#{heading}"


def headings(page):
    """Anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def test_every_method_is_in_the_docs():
    from crowdwise import methods

    for page in (ROOT / "README.md", ROOT / "docs" / "methods.md"):
        text = page.read_text()
        for method in methods():
            assert f"`{method.name}`" in text, f"{method.name} is missing in {page.name}"
