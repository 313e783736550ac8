"""Write the pages of results from the finished cells: docs/results.md and docs/results/*.md.

    python -m reproduction.pages             write them
    python -m reproduction.pages --check     fail if they are not up to date

Tables come from reproduction/results/*.csv, texts from reproduction/notes/*.md: `summary`, `reading`, `PAPER` (the
introduction of a paper's page) and `EXPERIMENT` (the text above its tables). In a text, the mean of an experiment's
headline replaces `{{experiment | method | data}}`; `{{experiment | method | data | measure}}` is another measure.

The site (`make docs`) replaces the marker `<!-- figure: NAME -->` by the drawn experiment; see docs/site_hooks.py.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from reproduction import EXPERIMENTS, Experiment, Store, lines
from reproduction.experiments import Line, core_seconds
from reproduction.formatting import along, clock, number, plain, series, spread
from reproduction.papers import crowding, dasc, difficulty, difficulty_cnn, digits, iced, joint, waum
from reproduction.standings import difference, mean_ranks, noise_gaps, scores_of
from reproduction.store import rounded

HERE = Path(__file__).parent
RESULTS, NOTES, DOCS = HERE / "results", HERE / "notes", HERE.parent / "docs"
SHORT = 2.0  # points below the paper from which a gap is listed
BASES = ("AnnoReg", "CrowdLayer", "WDN")
MISSING = "not computed"
NEAR = ", within 2 SE"
PAPERS = {  # pages of docs/results, in order: the title, and the experiments
    "dasc": ("DASC: distribution-aware self-training", dasc.EXPERIMENTS),
    "crowding": ("CrowdInG: generated answers", crowding.EXPERIMENTS),
    "waum": ("WAUM: pruning ambiguous tasks", waum.EXPERIMENTS),
    "iced": ("ICED: synthetic tasks for imbalanced classes", iced.EXPERIMENTS),
    "difficulty": ("Data difficulty: adaptive and fixed", (*difficulty.EXPERIMENTS, *difficulty_cnn.EXPERIMENTS)),
    "joint": ("JointEM: our own method", joint.EXPERIMENTS),
}
Results = dict[str, dict[str, Any]]  # by experiment: its lines and seconds


class Goal(NamedTuple):
    """An ordering to reproduce: one method above another on a data set."""

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
        for above, below in (
            ("Adaptive", "Raykar"),
            ("Fixed", "Raykar"),
            ("Fixed", "Adaptive"),
            ("Fixed prior=votes", "Adaptive"),
        )
        for data in ("gaussian-structural", "dogs-structural")
        for measure in ("last", "labels", "auc")
    ),
    *(
        Goal("difficulty-by-task", above, "Raykar", "gaussian-by-task", measure)
        for above in ("Adaptive", "Fixed")
        for measure in ("last", "labels", "auc")
    ),
]


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not up to date")
    only_check = parser.parse_args().check
    pages = make_pages(read_results())
    for name, text in pages.items():
        path = DOCS / name
        if only_check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            sys.exit(f"docs/{name} is not up to date. Run: python -m reproduction.pages")
        if not only_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")


def read_results(folder: Path = RESULTS) -> Results:
    """Return the lines and the seconds of each experiment, from all finished cells."""
    store = Store(folder)
    return {
        name: {"lines": rounded(lines(each, store, any_settings=True)), "core_seconds": core_seconds(each, store)}
        for name, each in EXPERIMENTS.items()
    }


def make_pages(results: Results) -> dict[str, str]:
    """Return the text of each page by its path in docs."""
    parts = {"results.md": summary(results), "results/reading.md": reading(results)}
    for name, (title, experiments) in PAPERS.items():
        parts[f"results/{name}.md"] = paper(results, name, title, experiments)
    return {name: squeezed(page) for name, page in parts.items()}


def squeezed(parts: Iterable[str]) -> str:
    """Join lines, with one empty line at most between two others."""
    all_lines = list(parts)
    kept = (line for line, before in zip(all_lines, ["", *all_lines], strict=False) if line or before)
    return "\n".join(kept).rstrip() + "\n"


def summary(results: Results) -> Iterator[str]:
    """The page that says what holds, paper by paper."""
    yield from ("# Results of the papers", "", note(results, "summary"), "")
    verdicts = {goal: judged(results, goal) for goal in GOALS}
    count = Counter(verdict.partition(":")[0] for verdict in verdicts.values())
    yield from ("## All orderings in one table", "")
    yield (
        f"The papers claim that one method beats another; {len(GOALS)} such orderings are checked here. "
        f"{count['yes']} hold by more than two standard errors (SE) of the difference and {count['yes' + NEAR]} by "
        f"less. {count['no' + NEAR]} fail by less than two and {count['no']} by more; {count[MISSING]} are {MISSING}."
    )
    yield ""
    rows = []
    for name in dict.fromkeys(goal.experiment for goal in GOALS):
        of_name = Counter(verdicts[goal].partition(":")[0] for goal in GOALS if goal.experiment == name)
        page = next(page for page, (_, each) in PAPERS.items() if any(one.name == name for one in each))
        counts = [str(of_name[verdict]) for verdict in ("yes", "yes" + NEAR, "no" + NEAR, "no")]
        rows.append([f"[{name}](results/{page}.md)", *counts])
    yield from table(["experiment", "holds", "holds" + NEAR, "fails" + NEAR, "fails"], rows)


def reading(results: Results) -> Iterator[str]:
    """The page that says how results were computed, how to rerun them, and how long that takes."""
    yield from ("# How the results were computed", "", note(results, "reading"), "")
    yield from ("## Experiments and their running times", "", *times(results), "")
    for experiment in digits.EXPERIMENTS:
        yield from section(results, experiment)


def paper(results: Results, name: str, title: str, experiments: Iterable[Experiment]) -> Iterator[str]:
    """The page of a paper."""
    yield from (f"# {title}", "", note(results, name), "")
    yield "[How to read the tables](reading.md). `python -m reproduction NAME --show` prints one of them."
    yield ""
    of_paper = [goal for goal in GOALS if EXPERIMENTS[goal.experiment] in experiments]
    if of_paper:
        yield from ("## Which orderings hold", "", *goals(results, of_paper), "")
    behind = list(gaps(results, experiments))
    if behind:
        yield from ("## More than two points below the paper, on LabelMe or Music", "", *behind, "")
    for experiment in experiments:
        yield from section(results, experiment)


def section(results: Results, experiment: Experiment) -> Iterator[str]:
    """The tables of an experiment with its text; empty if nothing is computed."""
    found = lines_of(results, experiment.name)
    if not found:
        return
    runs = max(line["seeds"] for line in found)
    yield from (f"## {experiment.title}", "")
    yield f"`python -m reproduction {experiment.name}`, {runs} runs per row. Expected: {experiment.shows}."
    yield ""
    if experiment.name == "joint":
        yield from (*standings(found), "")
    if experiment.name not in PAPERS:  # its text opens the page
        yield from (note(results, experiment.name), "")
    yield from (*tables(experiment, found), "")
    yield from (f"<!-- figure: {experiment.name} -->", "")


def lines_of(results: Results, name: str) -> list[Line]:
    """Return the lines of an experiment; empty if nothing is computed."""
    return list(results.get(name, {"lines": []})["lines"])


def note(results: Results, name: str) -> str:
    """Return a text of reproduction/notes, with its numbers filled in."""
    path = NOTES / f"{name}.md"
    text = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    return re.sub(r"\{\{(.+?)\}\}", lambda match: filled_in(results, match[1]), text)


def filled_in(results: Results, words: str) -> str:
    """Return the number that a text asks for."""
    name, method, data, *measure = (word.strip() for word in words.split("|"))
    wanted = (method, data, measure[0] if measure else EXPERIMENTS[name].measures[0])
    for line in lines_of(results, name):
        if (line["method"], line["data"], line["measure"]) == wanted:
            return short(line["mean"])
    return MISSING


def times(results: Results) -> Iterator[str]:
    """How long each experiment takes on one core; cells that several share are counted in each."""
    rows = [
        [name, each.title, clock(results[name]["core_seconds"]) if lines_of(results, name) else MISSING]
        for name, each in EXPERIMENTS.items()
    ]
    yield from table(["name", "what", "on one core"], rows, left=2)
    yield note(results, "times")


def goals(results: Results, of_paper: Iterable[Goal]) -> Iterator[str]:
    """Which orderings hold: the paired difference with its standard error, one table per experiment."""
    of_paper = list(of_paper)
    found = {goal: judged(results, goal) for goal in of_paper}
    yield (
        "Differences in points of test accuracy after the last epoch (or of the measure named), over pairs of runs "
        "with the same seed, ± one standard error."
    )
    yield ""
    for name in dict.fromkeys(goal.experiment for goal in of_paper):
        of_name = [goal for goal in of_paper if goal.experiment == name]
        columns = list(dict.fromkeys((goal.data, goal.measure) for goal in of_name))
        rows = [
            [f"{above} above {below}", *(found[Goal(name, above, below, *column)] for column in columns)]
            for above, below in dict.fromkeys((goal.above, goal.below) for goal in of_name)
        ]
        shown = [data if measure == "last" else f"{data}, {measure}" for data, measure in columns]
        yield from table([name, *shown], rows, left=len(shown) + 1)


def judged(results: Results, goal: Goal) -> str:
    """Whether an ordering holds, and by how much; each side needs at least two runs."""
    lines = {
        line["method"]: line
        for line in lines_of(results, goal.experiment)
        if (line["data"], line["measure"]) == (goal.data, goal.measure) and line["deviation"] is not None
    }
    if goal.above not in lines or goal.below not in lines:
        return MISSING
    above, below = lines[goal.above], lines[goal.below]
    gain, error = difference(above, below)
    verdict = ("yes" if gain > 0 else "no") + (NEAR if abs(gain) <= 2 * error else "")
    return f"{verdict}: {gain:+.1f} ± {error:.1f}"


def gaps(results: Results, experiments: Iterable[Experiment]) -> Iterator[str]:
    """Headlines more than SHORT points below the paper, each once; experiments named `-gaps` try to explain them."""
    rows: dict[tuple[str, str], list[str]] = {}
    for experiment in experiments:
        for line in headlines(experiment, lines_of(results, experiment.name)):
            behind = line["data"] in ("labelme", "music") and (line.get("difference") or 0.0) < -SHORT
            if behind and not experiment.name.endswith("-gaps"):
                row = [experiment.name, line["method"], line["data"], number(line["mean"]), number(line["oracle"]),
                       number(line["paper"]), number(line["difference"], "+.1f"), number(line["ceiling"])]  # fmt: skip
                rows.setdefault((line["method"], line["data"]), row)
    titles = ["experiment", "method", "data", "ours", "oracle", "paper", "difference", "ceiling"]
    yield from table(titles, rows.values(), left=3)


def standings(all_lines: list[Line]) -> Iterator[str]:
    """JointEM among the other methods over all data sets: targets, mean ranks, noise gaps, the best rival on each."""
    heads = {(line["method"], line["data"]): line for line in all_lines if line["measure"] == "score"}
    by_measure = {(line["method"], line["data"], line["measure"]): line for line in all_lines}
    rows = []
    for target in joint.TARGETS:
        line = by_measure.get((target.method, target.data, target.measure))
        reached = MISSING if line is None else number(line["mean"], ".3f" if target.measure == "ece" else ".1f")
        to_reach = f"below {target.value:g}" if target.measure == "ece" else f"{target.value:g}"
        verdict = "" if line is None else target.verdict(line["mean"])
        rows.append(
            [
                f"{target.method}, {target.data}, {target.measure}",
                to_reach,
                number(target.stretch, "g"),
                reached,
                verdict,
            ]
        )
    yield from table(["target", "to reach", "stretch target", "reached", "verdict"], rows)

    scores = scores_of(heads.values(), ("JointEM", *joint.PAPERS))
    most = max(map(len, scores.values()), default=0)
    ranked = {data: of for data, of in scores.items() if len(of) == most}  # a rank among few methods means little
    ranks = mean_ranks(ranked)
    every = scores_of((line for line in heads.values() if line["data"] in ranked), joint.ROWS)
    gaps = noise_gaps(every, "MV-DL", tuple(joint.CEILINGS))
    wanted = {method: [data for data in joint.SETS if (method, data) not in joint.UNTRUE] for method in joint.ROWS}
    rows = []
    for method in sorted(
        joint.ROWS, key=lambda each: ranks.get(each, (99.0, 0))[0]
    ):  # stable: unranked methods keep their order
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
            by, error = difference(heads["JointEM", data], heads[best, data])
            verdict = "below" if by < -error else "above" if by > error else "level"
            rows.append([data, number(of["JointEM"]), best, number(of[best]), f"{by:+.1f} ± {error:.1f}", verdict])
    yield from table(["data", "JointEM", "best other", "its score", "difference", "JointEM is"], rows, left=1)


def tables(experiment: Experiment, all_lines: list[Line]) -> Iterator[str]:
    """The tables of an experiment: one per data set, or along the axis of a figure."""
    if experiment.curve or experiment.axis:
        yield from figures(experiment, all_lines)
        return
    head, *others = experiment.measures
    runs = max(line["seeds"] for line in all_lines)
    by_measure = {(line["method"], line["data"], line["measure"]): line for line in all_lines}
    for data in experiment.problems:
        rows = []
        for method in expected(experiment, data):
            line = by_measure.get((method, data, head))
            if line is None:
                rows.append([method, MISSING])
                continue
            fewer = "" if line["seeds"] == runs else f" ({line['seeds']} runs)"
            rows.append([
                method, spread(line["mean"], line["deviation"]) + fewer, number(line["held_out"]),
                number(line["oracle"]), spread(line["paper"], line["paper_deviation"]),
                number(line["difference"], "+.1f"),
                *(with_paper(by_measure.get((method, data, measure))) for measure in others),
            ])  # fmt: skip
        found = [line for line in headlines(experiment, all_lines) if line["data"] == data]
        top = found[0]["ceiling"] if found else None
        ceiling = "" if top is None else f" (ceiling {number(top)})"
        yield f"**{data}**{ceiling}" + ("" if found else f": {MISSING}")
        yield ""
        if found:
            yield from table(["method", head, "held out", "oracle", "paper", "difference", *others], rows)


def figures(experiment: Experiment, all_lines: list[Line]) -> Iterator[str]:
    """One table per data set and measure, with columns along the axis."""
    axis = experiment.axis
    for data in dict.fromkeys(plain(problem) for problem in experiment.problems):
        problems = [problem for problem in experiment.problems if plain(problem) == data]
        of = [line for line in all_lines if line["data"] in problems]
        if not of:
            yield from (f"**{data}**: {MISSING}", "")
            continue
        wanted: dict[str, set[float]] = {}  # rows, with the places on the axis where a number is expected
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
    """Return the rows of an experiment on a problem when it is complete."""
    return [method for method in experiment.methods if (method, problem) not in experiment.except_for]


def headlines(experiment: Experiment, all_lines: list[Line]) -> list[Line]:
    """Return the lines of the first measure; only these have oracle, ceiling and held-out accuracy."""
    return [line for line in all_lines if line["measure"] == experiment.measures[0]]


def table(titles: list[str], rows: Iterable[list[str]], left: int = 1) -> Iterator[str]:
    """A table and an empty line. Empty columns are left out, short rows are padded."""
    full = [[*row, *[""] * (len(titles) - len(row))] for row in rows]
    used = [i for i in range(len(titles)) if any(row[i] not in ("", "-") for row in full)]
    if full:
        yield "| " + " | ".join(titles[i] for i in used) + " |"
        yield "| " + " | ".join("---" if i < left else "---:" for i in used) + " |"
        yield from ("| " + " | ".join(row[i] for i in used) + " |" for row in full)
        yield ""


def short(value: float | None, missing: str = "-") -> str:
    """Format with one decimal, or with three digits below 10."""
    return missing if value is None else number(value, ".1f" if abs(value) >= 10 else ".3g")


def with_paper(line: Line | None) -> str:
    """Format a further measure, with the published number in brackets."""
    if line is None:
        return "-"
    return short(line["mean"]) + ("" if line["paper"] is None else f" ({short(line['paper'])})")


if __name__ == "__main__":
    main()
