"""Execute the notebooks of examples/ and store what their cells show; `make notebooks`.

    python -m scripts.notebooks [NOTEBOOK...]

Cells run in this process, without Jupyter: they are plain Python, and what the last line returns is shown. Charts are
stored in Altair's own type, and as a small picture for pages that show only pictures.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"


def execute(path: Path) -> dict[str, Any]:
    """Return the notebook with fresh outputs; its cells run in an empty folder. Errors are raised."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
            for number, cell in enumerate(code, 1):
                cell["execution_count"] = number
                cell["outputs"] = outputs("".join(cell["source"]), names, f"{path.name}, cell {number}", number)
        finally:
            os.chdir(home)
    return notebook


def outputs(source: str, names: dict[str, Any], where: str, number: int) -> list[dict[str, Any]]:
    """Run a cell, and return what it prints and shows."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        result = None if last is None else eval(compile(ast.Expression(last.value), where, "eval"), names)
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if result is not None:
        about = {"execution_count": number, "metadata": {}, "output_type": "execute_result"}
        found.append({"data": shown(result), **about})
    return found


def shown(result: Any) -> dict[str, Any]:
    """Return what a notebook shows of a value, by type."""
    if hasattr(result, "to_dict") and hasattr(result, "save"):  # a chart
        import altair as alt
        from PIL import Image

        drawn, picture = io.BytesIO(), io.BytesIO()
        result.save(drawn, format="png", ppi=60)
        Image.open(drawn).convert("RGB").quantize(64).save(picture, "PNG", optimize=True)
        with alt.renderers.enable("mimetype"):
            bundle = result._repr_mimebundle_()
        bundle = bundle[0] if isinstance(bundle, tuple) else bundle
        bundle = {kind.replace(".json", "+json"): spec for kind, spec in bundle.items()}  # as the notebook format asks
        return {**bundle, "image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["a chart"]}
    bundle = {"text/plain": repr(result).splitlines(keepends=True)}
    html = getattr(result, "_repr_html_", None)
    if callable(html) and (page := html()) is not None:
        bundle["text/html"] = page.splitlines(keepends=True)
    return bundle


def write(path: Path, notebook: dict[str, Any]) -> None:
    """Write a notebook as Jupyter does."""
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(EXAMPLES.glob("*.ipynb")):
        write(Path(name), execute(Path(name).resolve()))
        print(f"{name}: {Path(name).stat().st_size / 1000:.0f} kB")
