"""Examples of the docstrings that stand outside a section are shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n *\S.*)*", re.MULTILINE)  # up to an empty line
SECTION = re.compile(r"^ *\w+\n *-{3,}$", re.MULTILINE)


class Examples(griffe.Extension):
    """Puts a fence around them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Look at the text before the first section."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        found = SECTION.search(text)
        end = found.start() if found else len(text)
        obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", text[:end]) + text[end:]
