"""Many answers on one machine: time and memory from Parquet to labels, at 10^6, 10^7 and 10^8 answers.

    python -m benchmarks scale                        everything: 5 GB of disk, 12 GB of memory, an hour or two
    python -m benchmarks scale --quick                up to 10^6 answers, a few minutes
    python -m benchmarks scale --only glad --sizes 8  one method, at 10^8 only
    python -m benchmarks scale --only together        all our methods in one process that reads once: faster

Crowds (`drawn_crowds.py`): 5 answers per task, one worker per 500 answers, 8 classes; once with integer ids, sorted,
and once with text ids such as "task_17", in random order. Every case is a process of its own, unless they are measured
together (the memory peak is then measured separately for each case). EM
models run 5 iterations (GLAD 2). Compiled kernels are loaded before the clock starts. Stored figures are kept unless a
run measures them again.

Memory traffic of a Dawid-Skene iteration above 24 MB of counts, which passes over the arrays of answers twice: by task
(the pair of each answer, its row of the table of 8 numbers; a posterior is written per task) and by pair (the task of
each answer, its posterior; counts are written).

    least     every array once: 8 bytes per answer, 136 per task (start, posterior written, posterior read), and 6 x 64
              per pair (the table is read, copied and written; counts are written, read and scaled)
    fetched   the same, with a cache line of 64 bytes for the posterior of each answer, because access is random
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.drawn_crowds import draw
from benchmarks.files import RESULTS, read_results, write_results
from benchmarks.measure import CASES, WHOLE
from benchmarks.truth_speed import PYTHON, console, measure, size

ITERATIONS = 5
PEERS = [case.removeprefix("crowd-kit whole ") for case in CASES if case.startswith("crowd-kit whole ")]
IN_CACHE = 24 << 20  # bytes of counts up to which Dawid-Skene goes through the answers once (`truth/confusion.py`)
DIRECT = ("alpha", "majority-vote", "naive-soft")  # without iterations
PARTS = ("read", "fit", "write")
Row = dict[str, Any]


def measure_case(who: str, method: str, ids: str, n_answers: int, data: Path, limit: float) -> list[Row]:
    """Measure one case, or all of ours together, and return one row of figures per case."""
    load, limit = os.getloadavg()[0], round(limit)
    found = measure(f"{who} whole {method}", data, 0 if method in DIRECT else ITERATIONS, limit=limit)
    Path(f"{data}.labels.parquet").unlink(missing_ok=True)
    names = list(WHOLE) if method == "together" else [method]
    rows = []
    for name in names:
        row: Row = {"who": who, "case": name, "ids": ids, "answers": n_answers, "load": load}
        if found is None or name not in found["cases"]:
            rows.append(row | {"failed": f"no result within {limit} s"})
            continue
        figures = found["cases"][name]
        for what, of in (("seconds", sum), ("cpu_seconds", sum), ("peak_bytes", max)):
            row[what] = of(figures.get(f"{part}_{what}", 0.0) for part in PARTS)
        rows.append(row | {"process": "shared" if method == "together" else "own"} | figures)
    return rows


def by_command(ids: str, n_answers: int, data: Path) -> Row:
    """Measure `crowdwise aggregate` from the start of its process."""
    out = Path(f"{data}.labels.parquet")
    command = [sys.executable, "-m", "crowdwise", "aggregate", str(data), "-m", "dawid-skene", "-o", str(out),
               "--set", f"max_iter={ITERATIONS}", "--set", "tol=0", "--no-check", "--json"]  # fmt: skip
    start, load = time.perf_counter(), os.getloadavg()[0]
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        row: Row = {"who": "ours", "case": "crowdwise aggregate", "ids": ids, "answers": n_answers,
                    "iterations": ITERATIONS, "seconds": time.perf_counter() - start, "load": load,
                    "cpu_seconds": used.ru_utime + used.ru_stime, "peak_bytes": used.ru_maxrss * 1024}  # fmt: skip
        out.unlink(missing_ok=True)
        if process.returncode:
            return row | {"failed": f"ended with {process.returncode}"}
        printed.seek(0)
        return row | {"fit_seconds": json.load(printed)["seconds"]}


def traffic(row: Row, bytes_a_cpu_second: float) -> dict[str, float]:
    """Return the share of the bandwidth that an iteration of Dawid-Skene reaches, by both counts above.

    Both use processor seconds, which other work on the machine affects less.
    """
    pairs = row["workers"] * row["classes"]  # all of them occur
    least = 8 * row["answers"] + 136 * row["tasks"] + 6 * 64 * pairs
    fetched = least + 64 * (row["answers"] - row["tasks"])
    return {
        f"{name}_share": bytes_ / row["iteration_cpu_seconds"] / bytes_a_cpu_second
        for name, bytes_ in (("least", least), ("fetched", fetched))
    }


def show_bandwidth(bandwidth: dict[str, float] | None, rows: list[Row]) -> None:
    """Print the bandwidth of the machine and the share that Dawid-Skene reaches, and add it to the rows."""
    if bandwidth is None:
        console.print("The bandwidth of the machine was not measured, so shares of it are not shown.")
        return
    wall, cpu = (bandwidth[key] / 1e9 for key in ("bytes_a_second", "bytes_a_cpu_second"))
    console.print(f"bandwidth of the machine: {wall:.1f} GB per second, {cpu:.1f} GB per CPU second", highlight=False)
    for row in rows:
        if row["who"] != "ours" or row["case"] != "dawid-skene" or "iteration_cpu_seconds" not in row:
            continue
        counts = row["workers"] * row["classes"] * 64
        for old in ("least_share", "fetched_share"):  # from a run with another machine or threshold
            row.pop(old, None)
        if counts > IN_CACHE:
            row |= traffic(row, bandwidth["bytes_a_cpu_second"])
            words = f"{row['least_share']:.0%} by the least count, {row['fetched_share']:.0%} by cache lines"
        else:
            words = f"not limited by memory, because its {counts / 2**20:.0f} MB of counts stay in cache"
        console.print(f"Dawid-Skene's share, {row['ids']}, {size(row['answers'])}: {words}", highlight=False)


def show(rows: list[Row]) -> None:
    """Print all rows as a table, with the growth in time for ten times as many answers."""
    table = Table("case", "ids", "answers", "read s", "fit s", "write s", "all s", "s per iteration", "CPU s", "10x",
                  "peak GB", "load")  # fmt: skip
    before = {(r["who"], r["case"], r["ids"], 10 * r["answers"]): r.get("cpu_seconds") for r in rows}
    for r in sorted(rows, key=lambda r: (r["who"] != "ours", r["case"], r["ids"], r["answers"])):
        name = r["case"] if r["who"] == "ours" else f"{r['who']} {r['case']}"
        if "failed" in r:
            table.add_row(name, r["ids"], size(r["answers"]), r["failed"])
            continue
        tenth = before.get((r["who"], r["case"], r["ids"], r["answers"]))
        cells = [f"{r[k]:.2f}" if k in r else "-" for k in ("read_seconds", "fit_seconds", "write_seconds")]
        cells += [f"{r['seconds']:.2f}"]
        cells += [f"{r['iteration_seconds']:.3f}" if "iteration_seconds" in r else "-", f"{r['cpu_seconds']:.1f}"]
        cells += [f"{r['cpu_seconds'] / tenth:.1f}" if tenth else "-", f"{r['peak_bytes'] / 2**30:.2f}"]
        table.add_row(name, r["ids"], size(r["answers"]), *cells, f"{r['load']:.1f}")
    console.print(table)


def main() -> None:
    """Draw the crowds, measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 10^6 answers")
    parser.add_argument("--sizes", type=int, nargs="*", default=[6, 7, 8], help="powers of ten")
    cases = [*WHOLE, "together", "command-line", "bandwidth", "crowd-kit"]
    parser.add_argument("--only", nargs="*", choices=cases, help="cases to run (default: all)")
    parser.add_argument("--ids", nargs="*", default=["integers", "strings"], help="kinds of ids")
    parser.add_argument("--data", type=Path, help="folder in which to keep the crowds (default: temporary)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds per process")
    parser.add_argument("--peer-limit", type=float, default=300, help="seconds per case of crowd-kit")
    parser.add_argument("--json", type=Path, default=RESULTS / "scale.json")
    options = parser.parse_args()
    saved = read_results(options.json, {"bandwidth": None, "rows": []})
    key = ("who", "case", "ids", "answers")

    def wanted(what: str) -> bool:
        return not options.only or what in options.only

    def keep(*rows: Row) -> None:
        for row in rows:
            if "failed" in row and any(all(r[k] == row[k] for k in key) for r in saved["rows"]):
                continue  # an earlier run had more time
            saved["rows"] = [r for r in saved["rows"] if any(r[k] != row[k] for k in key)] + [row]
            words = row.get("failed") or f"{row['seconds']:.1f} s, {row['peak_bytes'] / 2**30:.2f} GB"
            console.print(f"{row['who']} {row['case']}, {row['ids']}, {size(row['answers'])}: {words}", highlight=False)
        write_results(options.json, saved)

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data or Path(temporary)
        folder.mkdir(exist_ok=True)
        if wanted("bandwidth"):
            console.print("Measuring the bandwidth of the machine (1.4 GB of memory) ...")
            saved["bandwidth"] = measure("ours bandwidth", folder) or saved["bandwidth"]
        peers = wanted("crowd-kit") and Path(PYTHON["peer"]).exists()
        if wanted("crowd-kit") and not peers:
            console.print("crowd-kit is left out: .venv-peers is missing. `python -m benchmarks scale` creates it.")
        for n_answers in (10**power for power in options.sizes if power <= (6 if options.quick else 8)):
            for ids in options.ids:
                data = folder / f"{n_answers}-{ids}.parquet"
                if not data.exists():
                    draw(data.with_suffix(".part"), n_answers, strings=ids == "strings").rename(data)
                for method in ["together"] if options.only == ["together"] else filter(wanted, WHOLE):
                    keep(*measure_case("ours", method, ids, n_answers, data, limit=options.limit))
                if wanted("command-line"):
                    keep(by_command(ids, n_answers, data))
                if peers and ids == "integers" and n_answers < 10**8:
                    for method in PEERS:
                        keep(*measure_case("crowd-kit", method, ids, n_answers, data, limit=options.peer_limit))
    show_bandwidth(saved["bandwidth"], saved["rows"])
    write_results(options.json, saved)
    show(saved["rows"])


if __name__ == "__main__":
    main()
