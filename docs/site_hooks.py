"""Hooks of the documentation site: the figures of the results, which stand beside their data and not in docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

FIGURES = "benchmarks/results/papers"


def on_files(files: Files, config: Any) -> Files:
    """Take the figures into the site."""
    root = Path(config["config_file_path"]).parent
    for figure in sorted((root / FIGURES).glob("*.svg")):
        files.append(File.generated(config, f"figures/{figure.name}", abs_src_path=str(figure)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead the page of results, which GitHub shows too, to where the figures are in the site."""
    return markdown.replace(f"](../{FIGURES}/", "](figures/") if page.file.src_uri == "results.md" else markdown
