"""Build one HTML file that holds everything: style, data, the chart library and our script.

User-written text reaches the page in two ways only: through the template, which escapes it, or as JSON that cannot
close a tag and that `report.js` turns into text nodes. If either should fail, the page's content security policy still
blocks every script but the two whose checksums it lists, and every request.
"""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from crowdwise._core import display
from crowdwise._core.atomic_io import atomic_write
from crowdwise._core.user_cache import cache_folder
from crowdwise.choose.fold_fits import SKIPPED
from crowdwise.evaluate.distributions import NEVER_ANSWERED
from crowdwise.report import text
from crowdwise.report.contents import embedded, overview
from crowdwise.report.source import RunSource

# Characters that could end a script element or a line of JavaScript, as escapes that JSON reads back unchanged.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def render(run: RunSource, without_charts: str | None = None) -> str:
    """Return the report of a run as one HTML page; `without_charts` says why it has no charts."""
    scripts = [read("report.js")] if without_charts else [chart_library(), read("report.js")]
    data = embedded(run)
    return template().render(
        **overview(run), data=embed({**data, "charts": {}} if without_charts else data), style=read("report.css"),
        scripts=scripts, policy=policy(scripts), without_charts=without_charts,
    )  # fmt: skip


@cache
def template() -> jinja2.Template:
    """Return the compiled page template."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": display.percent, "count": text.count, "figure": text.figure}
    environment.globals |= {"pluralise": display.pluralise, "LEFT_OUT": SKIPPED, "NEVER_ANSWERED": NEVER_ANSWERED}
    return environment.from_string(read("template.html"))


@cache
def chart_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script; expressions are interpreted, so no policy allows `eval`.

    It takes a second to put together, so the user's cache keeps it for each version of the compiler.
    """
    import vl_convert

    script = "window.vegaEmbed = vegaEmbed;"
    with suppress(OSError, RuntimeError):  # no home folder, or one that cannot be read or written
        file = cache_folder() / f"charts-{vl_convert.__version__}.js"  # type: ignore[attr-defined]
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(file) as partial:
                partial.write_text(vl_convert.javascript_bundle(script), encoding="utf-8")
        return file.read_text(encoding="utf-8")
    return str(vl_convert.javascript_bundle(script))


def embed(data: Any) -> str:
    r"""Return JSON that is safe inside a script element.

    >>> print(embed({"a": "</script>"}))
    {"a":"\u003c/script\u003e"}
    """
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return plain.translate(_ESCAPES)


def policy(scripts: list[str]) -> str:
    """Return a content security policy that loads nothing and runs only these scripts."""
    sums = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in sums)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def read(name: str) -> str:
    """Return the text of a file of this package."""
    return (files("crowdwise.report") / name).read_text("utf-8")
