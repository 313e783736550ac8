"""Hooks of the documentation site: draw the experiments of the papers and show them on the pages of results."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
MARKER = re.compile(r"<!-- figure: ([\w-]+) -->")
_folder = tempfile.TemporaryDirectory(prefix="crowdwise-figures-")


def on_files(files: Files, config: Any) -> Files:
    """Draw every experiment that has results, and add the figures to the site."""
    sys.path.insert(0, str(ROOT))
    from reproduction import EXPERIMENTS, Store, lines
    from reproduction.figures import draw

    store = Store(ROOT / "reproduction" / "results")
    for name, experiment in EXPERIMENTS.items():
        found = lines(experiment, store, any_settings=True)
        path = Path(_folder.name) / f"{name}.svg"
        if found:
            draw(experiment, found, path)
            files.append(File.generated(config, f"figures/{name}.svg", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the markers of figures, which GitHub does not show, by images."""
    return MARKER.sub(r"![\1](../figures/\1.svg)", markdown) if page.file.src_uri.startswith("results/") else markdown
