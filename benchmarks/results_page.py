"""Write docs/results.md from the saved results of `crowdwise bench`: `make results-page`.

    python benchmarks/results_page.py [--check]

Tables and verdicts come from benchmarks/results/papers/*.json; what is said about them from benchmarks/notes/NAME.md,
one file an experiment, and notes/intro.md. What is not finished is said to be not computed. `--check` only says whether
the page is what it would write.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from reproduction import EXPERIMENTS, Experiment
from reproduction.formatting import along, clock, number, plain, series, spread
from reproduction.papers import joint
from reproduction.standings import difference, mean_ranks, noise_gaps, scores_of

HERE = Path(__file__).parent
RESULTS, NOTES, PAGE = HERE / "results" / "papers", HERE / "notes", HERE.parent / "docs" / "results.md"
Line = dict[str, Any]
SHORT = 2.0  # points below the paper from which a gap is listed
BASES = ("AnnoReg", "CrowdLayer", "WDN")
MISSING = "not computed"


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
        for other in ("CE", "Confidence", "Random")
        for data in ("labelme", "music")
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
        for other in ("Crowd-Layer", "MV+DNN", "D&S+DNN")
        for data in ("usps", "gas_drift", "labelme", "music")
    ),
    *(
        Goal("difficulty-tables", above, below, data, measure)
        for above, below in (("Fixed", "Adaptive"), ("Fixed prior=votes", "Adaptive"), ("Adaptive", "Raykar"))
        for data in ("gaussian-structural", "dogs-structural")
        for measure in ("last", "labels")
    ),
]


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    only_check = parser.parse_args().check
    text = page({path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))})
    if only_check:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == text else "docs/results.md is not what the results say")
    PAGE.write_text(text)


def page(results: dict[str, Any]) -> str:
    """The whole page, experiments as the catalogue has them."""
    parts = ["# Results: the papers' tables and figures, computed here", "", note("intro"), ""]
    parts += ["## The goals", "", *goals(results), ""]
    parts += ["## More than two points below the paper, on LabelMe or Music", "", *gaps(results), ""]
    parts += ["## The experiments, and how long they take", "", *times(results), ""]
    for name, experiment in EXPERIMENTS.items():
        lines = lines_of(results, name)
        if lines:
            runs = max(line["seeds"] for line in lines)
            about = f"`crowdwise bench {name}`, {runs} runs a row. To see: {experiment.shows}."
            parts += [f"## {experiment.title}", "", about, ""]
            parts += [*standings(lines), ""] if name == "joint" else []
            parts += [*tables(experiment, lines), "", note(name), ""]
            parts += [f"![{experiment.title}](../benchmarks/results/papers/{name}.svg)", ""]
    return "\n".join(line for line, before in zip(parts, ["", *parts], strict=False) if line or before).rstrip() + "\n"


def lines_of(results: dict[str, Any], name: str) -> list[Line]:
    """The lines of an experiment; none where nothing is finished."""
    return list(results.get(name, {"lines": []})["lines"])


def note(name: str) -> str:
    """What is said about an experiment, by hand."""
    path = NOTES / f"{name}.md"
    return path.read_text().strip() if path.exists() else ""


def times(results: dict[str, Any]) -> Iterator[str]:
    """How long each experiment takes on one core; cells that several share are counted in each."""
    rows = [
        [name, each.title, clock(results[name]["core_seconds"]) if lines_of(results, name) else MISSING]
        for name, each in EXPERIMENTS.items()
    ]
    yield from table(["name", "what", "on one core"], rows, left=2)
    yield note("times")


def goals(results: dict[str, Any]) -> Iterator[str]:
    """Which orderings hold: the difference of the means with its standard error. A table an experiment."""
    found = {goal: judged(results, goal) for goal in GOALS}
    count = Counter(verdict.partition(":")[0] for verdict in found.values())
    within = ", within the error"
    yield (
        f"Of {len(GOALS)} goals {count['yes']} are met beyond twice the standard error of the difference and "
        f"{count['yes' + within]} within it, {count['no' + within]} are missed within it and {count['no']} beyond, and "
        f"{count[MISSING]} are {MISSING}: differences in points of test accuracy, last epoch, unless said."
    )
    yield ""
    for name in dict.fromkeys(goal.experiment for goal in GOALS):
        of = [goal for goal in GOALS if goal.experiment == name]
        columns = list(dict.fromkeys((goal.data, goal.measure) for goal in of))
        rows = [
            [f"{above} above {below}", *(found[Goal(name, above, below, *column)] for column in columns)]
            for above, below in dict.fromkeys((goal.above, goal.below) for goal in of)
        ]
        shown = [data if measure == "last" else f"{data}, {measure}" for data, measure in columns]
        yield from table([name, *shown], rows, left=len(shown) + 1)


def judged(results: dict[str, Any], goal: Goal) -> str:
    """Whether a goal is met, and by how much; two runs of each are the least."""
    lines = {
        line["method"]: line
        for line in lines_of(results, goal.experiment)
        if (line["data"], line["measure"]) == (goal.data, goal.measure) and line["deviation"] is not None
    }
    if goal.above not in lines or goal.below not in lines:
        return MISSING
    above, below = lines[goal.above], lines[goal.below]
    difference = above["mean"] - below["mean"]
    error = math.hypot(*(line["deviation"] / math.sqrt(line["seeds"]) for line in (above, below)))
    verdict = ("yes" if difference > 0 else "no") + (", within the error" if abs(difference) <= 2 * error else "")
    return f"{verdict}: {difference:+.1f} ± {error:.1f}"


def gaps(results: dict[str, Any]) -> Iterator[str]:
    """Where the headline stays behind, each row once; the rows of `-gaps` are what was tried about it."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name, experiment in EXPERIMENTS.items():
        for line in headlines(experiment, lines_of(results, name)):
            behind = line["data"] in ("labelme", "music") and (line.get("difference") or 0.0) < -SHORT
            if behind and not name.endswith("-gaps"):
                row = [name, line["method"], line["data"], number(line["mean"]), number(line["oracle"]),
                       number(line["paper"]), number(line["difference"], "+.1f"), number(line["ceiling"])]  # fmt: skip
                rows.setdefault((experiment.family.name, line["method"], line["data"]), row)
    titles = ["experiment", "method", "data", "ours", "oracle", "paper", "difference", "ceiling"]
    yield from table(titles, rows.values(), left=3)
    yield note("gaps")


def standings(lines: list[Line]) -> Iterator[str]:
    """Our method among the others over all data sets: bars, mean ranks, noise gaps, and the best other one on each."""
    heads = {(line["method"], line["data"]): line for line in lines if line["measure"] == "score"}
    beside = {(line["method"], line["data"], line["measure"]): line for line in lines}
    rows = []
    for bar in joint.BARS:
        line = beside.get((bar.method, bar.data, bar.measure))
        reached = MISSING if line is None else number(line["mean"], ".3f" if bar.measure == "ece" else ".1f")
        to_reach = f"below {bar.bar:g}" if bar.measure == "ece" else f"{bar.bar:g}"
        verdict = "" if line is None else bar.verdict(line["mean"])
        rows.append([f"{bar.method}, {bar.data}, {bar.measure}", to_reach, number(bar.moonshot, "g"), reached, verdict])
    yield from table(["bar", "to reach", "moonshot", "reached", "verdict"], rows)

    scores = scores_of(heads.values(), ("JointEM", *joint.PAPERS))
    most = max(map(len, scores.values()), default=0)
    ranked = {data: of for data, of in scores.items() if len(of) == most}  # a place among few is worth little
    ranks = mean_ranks(ranked)
    every = scores_of((line for line in heads.values() if line["data"] in ranked), joint.ROWS)
    gaps = noise_gaps(every, "MV-DL", tuple(joint.CEILINGS))
    wanted = {method: [data for data in joint.SETS if (method, data) not in joint.UNTRUE] for method in joint.ROWS}
    rows = []
    for method in sorted(
        joint.ROWS, key=lambda each: ranks.get(each, (99.0, 0))[0]
    ):  # stable: the unranked stay in order
        rank, n = ranks.get(method, (None, 0))
        cells = [short(heads[method, data]["mean"]) if (method, data) in heads else
                 MISSING if data in wanted[method] else "-" for data in joint.SETS]  # fmt: skip
        rows.append([method, *cells, "-" if rank is None else f"{rank:.1f} ({n})", number(gaps.get(method), ".0f")])
    yield from table(["score", *joint.SETS, "mean rank (of sets)", "noise gap closed, %"], rows)

    rows = []
    for data, of in scores.items():
        others = {method: score for method, score in of.items() if method != "JointEM"}
        if "JointEM" in of and others:
            best = max(others, key=lambda method: others[method])
            paired = data not in joint.EVEN
            by, error = difference(heads["JointEM", data], heads[best, data], paired=paired)
            verdict = "below" if by < -error else "above" if by > error else "level"
            rows.append([data, number(of["JointEM"]), best, number(of[best]), f"{by:+.1f} ± {error:.1f}", verdict])
    yield from table(["data", "JointEM", "best other", "its score", "difference", "JointEM is"], rows, left=1)


def tables(experiment: Experiment, lines: list[Line]) -> Iterator[str]:
    """The tables of an experiment: one a data set, or what lies along an axis."""
    if experiment.curve or experiment.axis:
        yield from figures(experiment, lines)
        return
    head, *others = experiment.measures
    runs = max(line["seeds"] for line in lines)
    beside = {(line["method"], line["data"], line["measure"]): line for line in lines}
    for data in experiment.problems:
        rows = []
        for method in expected(experiment, data):
            line = beside.get((method, data, head))
            if line is None:
                rows.append([method, MISSING])
                continue
            fewer = "" if line["seeds"] == runs else f" ({line['seeds']} runs)"
            rows.append([
                method, spread(line["mean"], line["deviation"]) + fewer, number(line["held_out"]),
                number(line["oracle"]), spread(line["paper"], line["paper_deviation"]),
                number(line["difference"], "+.1f"),
                *(with_paper(beside.get((method, data, measure))) for measure in others),
            ])  # fmt: skip
        found = [line for line in headlines(experiment, lines) if line["data"] == data]
        top = found[0]["ceiling"] if found else None
        ceiling = "" if top is None else f" (ceiling {number(top)})"
        yield f"**{data}**{ceiling}" + ("" if found else f": {MISSING}")
        yield ""
        if found:
            yield from table(["method", head, "held out", "oracle", "paper", "difference", *others], rows)


def figures(experiment: Experiment, lines: list[Line]) -> Iterator[str]:
    """One table a data set and measure, with columns along the axis."""
    axis = experiment.axis
    for data in dict.fromkeys(plain(problem) for problem in experiment.problems):
        problems = [problem for problem in experiment.problems if plain(problem) == data]
        of = [line for line in lines if line["data"] in problems]
        if not of:
            yield from (f"**{data}**: {MISSING}", "")
            continue
        wanted: dict[str, set[float]] = {}  # the rows, with the places of the axis where a number should stand
        for problem in problems:
            for method in expected(experiment, problem):
                row = wanted.setdefault(series(experiment, {"method": method, "data": problem}), set())
                row |= {axis[name] for name in (problem, method) if name in axis}
        for measure in experiment.measures:
            grid, found = along([line for line in of if line["measure"] == measure], partial(series, experiment))
            if axis:
                grid = sorted(set().union(*wanted.values()))
            rows = []
            for name, places in wanted.items():
                has = found.get(name)
                at = [short(has.get(x), MISSING if x in places else "-") for x in grid] if has else [MISSING]
                rows.append([name, *at])
            yield from (f"**{data}: {measure}**", "")
            yield from table([experiment.axis_title or "iteration", *(f"{x:g}" for x in grid)], rows)


def expected(experiment: Experiment, problem: str) -> list[str]:
    """The rows that an experiment has on a problem when it is finished."""
    return [method for method in experiment.methods if (method, problem) not in experiment.except_for]


def headlines(experiment: Experiment, lines: list[Line]) -> list[Line]:
    """The lines of the first measure, which alone have oracle, ceiling and what was held out."""
    return [line for line in lines if line["measure"] == experiment.measures[0]]


def table(titles: list[str], rows: Iterable[list[str]], left: int = 1) -> Iterator[str]:
    """A table and an empty line; columns without an entry are left out, short rows are filled up."""
    full = [[*row, *[""] * (len(titles) - len(row))] for row in rows]
    used = [i for i in range(len(titles)) if any(row[i] not in ("", "-") for row in full)]
    if full:
        yield "| " + " | ".join(titles[i] for i in used) + " |"
        yield "| " + " | ".join("---" if i < left else "---:" for i in used) + " |"
        yield from ("| " + " | ".join(row[i] for i in used) + " |" for row in full)
        yield ""


def short(value: float | None, missing: str = "-") -> str:
    """Three digits, or one after the point."""
    return missing if value is None else number(value, ".1f" if abs(value) >= 10 else ".3g")


def with_paper(line: Line | None) -> str:
    """A further measure, in brackets what the paper prints of it."""
    if line is None:
        return "-"
    return short(line["mean"]) + ("" if line["paper"] is None else f" ({short(line['paper'])})")


if __name__ == "__main__":
    main()
