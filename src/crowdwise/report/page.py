"""One HTML file with everything inside: style, data, the drawing library and our script.

Whatever a user wrote reaches the page in two ways only: through the template, which escapes it, or as JSON that can
close no tag, from which `report.js` makes text nodes. Should either fail, the page's own policy still runs no script
but the two whose checksums it names, and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2
import vl_convert

from crowdwise._core import display
from crowdwise.choose.fold_fits import SKIPPED
from crowdwise.report import text
from crowdwise.report.contents import embedded, overview
from crowdwise.run.metrics import NEVER

if TYPE_CHECKING:
    from crowdwise.run.folder import Run

# What could end a script element or a line of JavaScript, written so that JSON means the same.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def render(run: Run) -> str:
    """The report of a run, as one page."""
    scripts = [drawing(), read("report.js")]
    return template().render(
        **overview(run), data=embed(embedded(run)), style=read("report.css"), scripts=scripts, policy=policy(scripts)
    )


@cache
def template() -> jinja2.Template:
    """The page without its contents, compiled once."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": display.percent, "count": text.count, "figure": text.figure}
    environment.globals |= {"pluralise": display.pluralise, "LEFT_OUT": SKIPPED, "NEVER": NEVER}
    return environment.from_string(read("template.html"))


@cache
def drawing() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script. Expressions are interpreted: no policy has to allow `eval`."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def embed(data: Any) -> str:
    r"""JSON that can stand inside a script element.

    >>> print(embed({"a": "</script>"}))
    {"a":"\u003c/script\u003e"}
    """
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return plain.translate(_ESCAPES)


def policy(scripts: list[str]) -> str:
    """Content security policy: nothing is loaded, and only these scripts run."""
    sums = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in sums)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def read(name: str) -> str:
    """A file of this package."""
    return (files("crowdwise.report") / name).read_text("utf-8")
