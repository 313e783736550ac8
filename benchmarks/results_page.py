"""Write docs/results.md from the saved results of `crowdwise bench`: `make results-page`.

    python benchmarks/results_page.py [--check]

Tables and verdicts come from benchmarks/results/papers/*.json; what is said about them from benchmarks/notes/NAME.md,
one file an experiment, and notes/intro.md. `--check` only says whether the page is what it would write.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
RESULTS, NOTES, PAGE = HERE / "results" / "papers", HERE / "notes", HERE.parent / "docs" / "results.md"
Line = dict[str, Any]
SHORT = 2.0  # points below the paper from which a gap is listed
BASES = ("AnnoReg", "CrowdLayer", "WDN")


class Goal(NamedTuple):
    """One method above another, on a data set."""

    experiment: str
    above: str
    below: str
    data: str
    measure: str = "last"


GOALS = [
    *(
        Goal("dasc-table2", f"{base}: DASC", f"{base}: {other}", data)
        for base in BASES
        for data in ("labelme", "music")
        for other in ("CE", "Confidence", "Random")
    ),
    *(Goal("crowding-table1", "CrowdInG", "DL-CL", data) for data in ("labelme", "music", "cifar10h-103")),
    *(Goal("crowding-table1", "DL-CL+InG", "DL-CL+Self", data) for data in ("labelme", "music", "cifar10h-103")),
    *(
        Goal("waum-table1", f"WAUM + {conal}", conal, data)
        for conal in ("CoNAL(0)", "CoNAL(1e-4)")
        for data in ("labelme", "music")
    ),
    *(
        Goal("iced-table2", "ICED", other, data)
        for data in ("usps", "gas_drift", "labelme", "music")
        for other in ("Crowd-Layer", "MV+DNN", "D&S+DNN")
    ),
    *(
        Goal("difficulty-tables", above, below, data, measure)
        for data in ("gaussian-structural", "dogs-structural")
        for measure in ("last", "labels")
        for above, below in (("Fixed", "Adaptive"), ("Fixed prior=votes", "Adaptive"), ("Adaptive", "Raykar"))
    ),
]


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    text = page({path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))})
    if parser.parse_args().check:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == text else "docs/results.md is not what the results say")
    PAGE.write_text(text)


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    parts = ["# Results: the papers' tables and figures, computed here", "", note("intro"), ""]
    parts += ["## The goals", "", *goals(results), ""]
    parts += ["## More than two points below the paper, on LabelMe or Music", "", *gaps(results), ""]
    parts += ["## How long it takes", "", *times(results), ""]
    for name in order(results):
        found = results[name]
        parts += [f"## {found['title']}", "", f"`crowdwise bench {name}` ({clock(found['core_seconds'])} on one core, "
                  f"{found['seeds']} seeds). {sentence(found['shows'])}", ""]  # fmt: skip
        parts += [note(name), "", *tables(found["lines"]), ""]
        parts += [f"![{found['title']}](../benchmarks/results/papers/{name}.svg)", ""]
    return "\n".join(parts).replace("\n\n\n", "\n\n").rstrip() + "\n"


def order(results: dict[str, Any]) -> list[str]:
    """Experiments as the catalogue has them, those without results left out."""
    from crowdwise.bench import EXPERIMENTS

    return [name for name in EXPERIMENTS if name in results]


def times(results: dict[str, Any]) -> Iterator[str]:
    """Seconds of the processor that each experiment takes; cells that several share are counted in each."""
    yield from ("| experiment | cells' time on one core |", "| --- | ---: |")
    yield from (f"| {name} | {clock(results[name]['core_seconds'])} |" for name in order(results))
    yield ""
    yield note("times")


def sentence(text: str) -> str:
    """What a paper's experiment is to show."""
    return f"To see: {text}."


def note(name: str) -> str:
    """What is said about an experiment, by hand."""
    path = NOTES / f"{name}.md"
    return path.read_text().strip() if path.exists() else ""


def find(results: dict[str, Any], goal: Goal, method: str) -> Line | None:
    """The line of a method."""
    wanted = (method, goal.data, goal.measure)
    lines = results.get(goal.experiment, {"lines": []})["lines"]
    return next((line for line in lines if (line["method"], line["data"], line["measure"]) == wanted), None)


def goals(results: dict[str, Any]) -> Iterator[str]:
    """Which orderings hold: the difference of the means with its standard error."""
    rows, met, clear, n = [], 0, 0, 0
    for goal in GOALS:
        above, below = find(results, goal, goal.above), find(results, goal, goal.below)
        if above is None or below is None:
            continue
        difference = above["mean"] - below["mean"]
        error = math.hypot(*((line["deviation"] or 0.0) / math.sqrt(line["seeds"]) for line in (above, below)))
        n, met, clear = n + 1, met + (difference > 0), clear + (difference > 2 * error)
        verdict = "yes" if difference > 2 * error else "no" if difference < -2 * error else "within the error"
        what = goal.data if goal.measure == "last" else f"{goal.data}, {goal.measure}"
        rows.append(f"| {goal.above} above {goal.below} | {what} | {difference:+.1f} ± {error:.1f} | {verdict} |")
    yield (
        f"Of {n} orderings the papers claim, {met} hold in the mean and {clear} beyond twice the standard error of the "
        f"difference (last epoch, points of test accuracy unless said)."
    )
    yield ""
    yield from ("| goal | data | difference | holds |", "| --- | --- | ---: | --- |", *rows)


def gaps(results: dict[str, Any]) -> Iterator[str]:
    """Where we stay behind; and what the best epoch on test would give, which some papers print."""
    yield from ("| experiment | method | data | ours | oracle | paper | difference | ceiling |",
                "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")  # fmt: skip
    for name in order(results):
        for line in results[name]["lines"]:
            if line["data"] in ("labelme", "music") and (line.get("difference") or 0.0) < -SHORT:
                yield (
                    f"| {name} | {line['method']} | {line['data']} | {number(line['mean'])} | {number(line['oracle'])} "
                    f"| {number(line['paper'])} | {line['difference']:+.1f} | {number(line['ceiling'])} |"
                )
    yield ""
    yield note("gaps")


def tables(lines: list[Line]) -> Iterator[str]:
    """The tables of an experiment: one a data set, or what lies along an axis."""
    if any(line.get("x") is not None for line in lines):
        yield from along(lines)
        return
    head = lines[0]["measure"] if lines else ""
    others = list(dict.fromkeys(line["measure"] for line in lines if line["measure"] != head))
    beside = {(line["method"], line["data"], line["measure"]): line["mean"] for line in lines}
    for data in dict.fromkeys(line["data"] for line in lines):
        of = [line for line in lines if line["data"] == data and line["measure"] == head]
        if not of:
            continue
        top = of[0]["ceiling"]
        yield f"**{data}**" + (f" (ceiling {number(top)})" if top is not None else "")
        yield ""
        yield f"| method | {head} | held out | oracle | paper | difference |" + "".join(f" {m} |" for m in others)
        yield "| --- | ---: | ---: | ---: | ---: | ---: |" + " ---: |" * len(others)
        for line in of:
            gap = "" if line["difference"] is None else f"{line['difference']:+.1f}"
            extra = "".join(f" {short(beside.get((line['method'], data, m)))} |" for m in others)
            yield (
                f"| {line['method']} | {spread(line['mean'], line['deviation'])} | {number(line['held_out'])} | "
                f"{number(line['oracle'])} | {spread(line['paper'], line['paper_deviation'])} | {gap} |{extra}"
            )
        yield ""


def along(lines: list[Line]) -> Iterator[str]:
    """One table a data set and measure, with columns along the axis; long axes at nine places."""
    for data in dict.fromkeys(plain(line["data"]) for line in lines):
        for measure in dict.fromkeys(line["measure"] for line in lines):
            of = [line for line in lines if plain(line["data"]) == data and line["measure"] == measure]
            grid = sorted({line["x"] for line in of})
            if len(grid) > 9:
                grid = [grid[round(i * (len(grid) - 1) / 8)] for i in range(9)]
            rows: dict[str, dict[float, str]] = {}
            for line in of:
                rows.setdefault(label(line, of), {})[line["x"]] = short(line["mean"])
            if not rows:
                continue
            yield f"**{data}: {measure}**"
            yield ""
            yield "| method |" + "".join(f" {x:g} |" for x in grid)
            yield "| --- |" + " ---: |" * len(grid)
            yield from (f"| {name} |" + "".join(f" {row.get(x, '')} |" for x in grid) for name, row in rows.items())
            yield ""


def label(line: Line, of: list[Line]) -> str:
    """The row of a line: its method, unless methods are what lies along the axis."""
    places = {(each["method"], each["data"]) for each in of}
    by_method = len({each["data"] for each in of}) == 1 and len(places) == len(of)
    return "over the axis" if by_method else str(line["method"])


def plain(data: str) -> str:
    """The data set, without how much was removed."""
    return data.partition("@")[0]


def number(value: float | None) -> str:
    """One digit after the point, nothing where there is no number."""
    return "" if value is None else f"{value:.1f}"


def short(value: float | None) -> str:
    """Three digits."""
    return "" if value is None else f"{value:.3g}"


def spread(mean: float | None, deviation: float | None) -> str:
    """Mean and deviation."""
    return number(mean) if mean is None or deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{round(seconds)} s" if seconds < 100 else f"{round(seconds / 60)} min"


if __name__ == "__main__":
    main()
