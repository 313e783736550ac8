"""Examples of the docstrings that stand outside a section are shown as code; type stubs are left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n *\S.*)*", re.MULTILINE)  # up to an empty line
SECTION = re.compile(r"^ *\w+\n *-{3,}$", re.MULTILINE)


class Examples(griffe.Extension):
    """Puts a fence around examples, and reads modules instead of their stubs."""

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        """Empty a stub: that of `crowdwise` declares the callable module `run` as a class, which would replace it."""
        if isinstance(mod.filepath, Path) and mod.filepath.suffix == ".pyi":
            mod.members.clear()

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Look at the text before the first section."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        found = SECTION.search(text)
        end = found.start() if found else len(text)
        obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", text[:end]) + text[end:]
