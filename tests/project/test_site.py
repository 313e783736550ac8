"""The documentation site builds without warnings, lists every page, and loads nothing from other hosts."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = r"[^>]*\b(?:src|href)=\"?(?:https?:)?//"  # on another host
WITH_MKDOCS = pytest.mark.skipif(
    find_spec("material") is None or find_spec("mkdocstrings") is None,
    reason="needs mkdocs-material and mkdocstrings: pip install 'crowdwise[docs]'",
)


def test_the_navigation_lists_every_page_once():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"[\w/-]+\.md", navigation)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@WITH_MKDOCS
def test_every_page_is_built(site):
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").is_file(), page


@WITH_MKDOCS
def test_nothing_is_loaded_from_other_hosts(site):
    fetched = re.compile(rf"<(?:(?:script|img|iframe)\b|link\b[^>]*\brel=\"?(?:stylesheet|preload)){ELSEWHERE}")
    for page in site.rglob("*.html"):
        found = fetched.search(page.read_text())
        assert found is None, f"{page.name}: {found[0]}"


@WITH_MKDOCS
def test_figures_of_the_results_exist(site):
    figures = re.findall(r'<img[^>]*src="\.\./(figures/[^"]*)"', (site / "results" / "dasc.html").read_text())
    assert figures
    assert all((site / figure).is_file() for figure in figures)


@WITH_MKDOCS
def test_reference_pages_hold_the_docstrings(site):
    page = (site / "api" / "truth.html").read_text()
    assert 'id="crowdwise.truth.methods.dawid_skene.DawidSkene"' in page
    assert "Pseudo-counts added to each worker" in page
