"""Speed and memory of learning, compared with the bare network, crowd-kit and peerannot: `python -m benchmarks learn`.

    python -m benchmarks learn              all sizes, about 40 minutes; stores its figures
    python -m benchmarks learn --quick      1,000 tasks, few epochs, one round; stores nothing without --out
    python -m benchmarks learn --profile    also prints where the time of an epoch goes

Crowds are simulated; the network is one hidden layer of 128 with dropout 0.5, as in `MLP(standardise=False)`. Two
processes take turns, ours (with the bare network) and that of the peers (see `learn_peers.py`). A figure is the median
epoch of a round, and the best of all rounds. Ours chooses its number of threads; the bare network and the peers are
timed with one thread and with all, and the faster counts. `ours, one label` is our loop with one label per task.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import pstats
import statistics
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import crowdwise as cw
from benchmarks.files import RESULTS, ROOT, write_results
from benchmarks.learn_peers import CAP_GB, PEERS, Server, growth, load, serve
from benchmarks.learn_peers import measure as measure_bare

METHODS = ("CrowdLayer", "AnnoReg", "CoNAL")
console = Console(width=None if sys.stdout.isatty() else 140)


class Shape(NamedTuple):
    """Sizes of the simulated data, and the goal: at most this many times the bare network's time."""

    name: str
    tasks: int
    features: int
    workers: int
    classes: int
    answers: int
    goal: float = 1.10


WIDE = Shape("LabelMe-shaped", 1000, 8192, 59, 8, 2547)
NARROW = Shape("LabelMe-shaped", 1000, 512, 59, 8, 2547)
MUSIC = Shape("Music-shaped", 700, 124, 44, 10, 2946)
LARGE = Shape("large", 100_000, 512, 2000, 10, 300_000, 1.25)


def draw(folder: Path, shape: Shape) -> str:
    """Write a simulated crowd and features that partly separate the classes."""
    path = folder / f"{shape.tasks}-{shape.features}"
    if not path.exists():
        path.mkdir()
        answers = cw.simulate.simulate(
            shape.tasks, n_workers=shape.workers, n_classes=shape.classes, answers_per_task=shape.answers / shape.tasks
        )
        rng = np.random.default_rng(0)
        x = rng.standard_normal((shape.tasks, shape.features), dtype=np.float32)
        x += 0.1 * rng.standard_normal((shape.classes, shape.features), dtype=np.float32)[answers.truth]
        np.save(path / "x.npy", x)
        voted = cw.MajorityVote().fit(answers).codes_
        np.savez(path / "answers.npz", task=answers.task, worker=answers.worker, label=answers.label, voted=voted,
                 sizes=(shape.tasks, shape.workers, shape.classes))  # fmt: skip
    return str(path)


# Server: a process that answers requests


@lru_cache(maxsize=2)
def our_answers(folder: str) -> cw.Answers:
    """Return the answers of a folder."""
    data = load(folder)
    sizes = {"tasks": data.tasks, "workers": data.workers, "classes": data.classes}
    return cw.Answers.from_codes(data.task.numpy(), data.worker.numpy(), data.label.numpy(), **sizes)


def our_fit(method: str, folder: str, callback: Any = None, **options: Any) -> None:
    """Train a method of ours."""
    network = cw.MLP(standardise=False)
    if method == "one label":
        model = cw.Aggregated("majority-vote", network, soft=False, **options)
    else:
        model = getattr(cw, method)(network=network, **options)
    model.fit(load(folder).x.numpy(), our_answers(folder), callback=callback)


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request: seconds per epoch (median after the first) and per fit, memory, or a profile."""
    if request["case"] == "bare network":
        return measure_bare(request)
    method, folder = request["case"].removeprefix("ours, "), request["data"]
    torch.set_num_threads(request["threads"])
    options = {"batch_size": request["batch"], "epochs": request.get("epochs", 0) + 1, **request.get("options", {})}
    if "small" in request:
        return growth(lambda data: our_fit(method, data, **options), request["small"], folder)
    if "profile" in request:
        return {"text": profile(method, folder, options)}
    seconds: list[float] = []
    start = time.perf_counter()
    our_fit(method, folder, lambda record: seconds.append(record["seconds"]), **options)
    return {"seconds": statistics.median(seconds[1:]), "fit": time.perf_counter() - start}


def profile(method: str, folder: str, options: dict[str, Any]) -> str:
    """Return where the time of a warm epoch goes: by torch operation in one, by function in twenty others."""
    by_operation = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    by_function = cProfile.Profile()

    def callback(record: dict[str, Any]) -> None:
        if record["epoch"] == 5:
            by_operation.__enter__()
        elif record["epoch"] == 6:
            by_operation.__exit__(None, None, None)
            by_function.enable()
        elif record["epoch"] == 26:
            by_function.disable()

    our_fit(method, folder, callback, **{**options, "epochs": 26})
    text = io.StringIO()
    pstats.Stats(by_function, stream=text).strip_dirs().sort_stats("tottime").print_stats(18)
    table = by_operation.key_averages().table(sort_by="self_cpu_time_total", row_limit=18, max_name_column_width=44)
    what = f"{method}, 1,000 tasks x 512 features, batches of {options['batch_size']}"
    return f"{what}: one epoch by operation\n{table}\nTwenty epochs by function\n{text.getvalue().strip()}\n"


# Client: the process that sends requests


def server(*, peer: bool) -> Server:
    """Start a server of ours or of the peers."""
    if peer:
        return Server(str(ROOT / ".venv-peers/bin/python"), "-m", "benchmarks.learn_peers")
    return Server(sys.executable, "-m", "benchmarks.learn_speed", "--serve")


class Benchmark:
    """Sends requests, takes the best of the rounds, prints and records."""

    def __init__(self, folder: Path, *, rounds: int, threads: int, quick: bool) -> None:
        self.folder, self.rounds, self.threads, self.quick = folder, rounds, threads, quick
        self.ours, self.peers = server(peer=False), server(peer=True)
        self.rows: list[dict[str, Any]] = []

    def once(self, case: str, **request: Any) -> dict[str, Any]:
        """Measure a case once; a case that does not choose its threads itself gets the better number of them."""
        if case.startswith("ours"):
            return self.ours.ask(case=case, threads=self.threads, **request) | {"threads": "own"}
        side = self.peers if case in PEERS else self.ours
        tried = [side.ask(case=case, threads=n, **request) | {"threads": n} for n in sorted({1, self.threads})]
        return min(tried, key=lambda answer: answer.get("seconds", float("inf")))

    def epochs(self, shape: Shape, batch: int) -> None:
        """Print seconds per epoch of all cases at one size; short epochs get three times the rounds."""
        data = draw(self.folder, shape)
        epochs = 2 if shape is LARGE else 5
        cases = ["bare network", "ours, one label", *(f"ours, {method}" for method in METHODS), *PEERS]
        rounds = [{case: self.once(case, data=data, batch=batch, epochs=epochs) for case in cases}
                  for _ in range(self.rounds * (1 if shape is LARGE else 3))]  # fmt: skip
        best = {c: min((r[c] for r in rounds), key=lambda answer: answer.get("seconds", float("inf"))) for c in cases}
        title = f"{shape.name}: {shape.tasks:,} x {shape.features:,}, {shape.workers:,} workers, batches of {batch}"
        table = Table("", "ms per epoch", "threads", "to bare", "ours is faster", "", title=title, title_justify="left")
        limit = best["bare network"]["seconds"]
        for case, answer in best.items():
            row: dict[str, Any] = {"what": "epoch", "shape": shape._asdict(), "batch": batch, "case": case, **answer}
            row["rounds"] = [r[case].get("seconds") for r in rounds]
            self.rows.append(row)
            if "error" in answer:
                table.add_row(case, "-", "", "", "", answer["error"][:60])
                continue
            row["to_bare"] = answer["seconds"] / limit
            if case in PEERS:
                row["faster"] = answer["seconds"] / best["ours, " + case.split()[1].rstrip(",")]["seconds"]
            table.add_row(
                case, f"{answer['seconds'] * 1000:,.1f}", str(answer["threads"]), f"{row['to_bare']:.2f}",
                f"{row['faster']:.2f} x" if "faster" in row else "",
                "from {} of {} batches".format(*answer["of"]) if "of" in answer else "",
            )  # fmt: skip
        console.print(table)

    def memory(self, shape: Shape, batch: int) -> None:
        """Print peak memory beyond the data, one process per case: an epoch of ours, a few batches of the peers."""
        data, small = draw(self.folder, shape), draw(self.folder, NARROW)
        table = Table("", "peak MB beyond the data", "", title=f"{shape.name}: memory", title_justify="left")
        peers = [case for case in PEERS if case.endswith("loader")]
        for case in ("bare network", "ours, one label", *(f"ours, {method}" for method in METHODS), *peers):
            alone = server(peer=case in PEERS)
            answer = alone.ask(case=case, threads=self.threads, data=data, small=small, batch=batch)
            alone.close()
            note = answer.get("error", "")
            if case.startswith("peerannot"):
                targets = shape.tasks * shape.workers * 8 / 2**20
                answer["targets_mb"] = targets
                note += f" including {targets:,.0f} for its targets, tasks x workers in 64 bits"
            self.rows.append({"what": "memory", "shape": shape._asdict(), "batch": batch, "case": case, **answer})
            table.add_row(case, f"{answer['growth_mb']:,.0f}" if "growth_mb" in answer else "-", note.strip())
        console.print(table, f"memory limit of peers: {CAP_GB} GB", highlight=False)

    def seeds(self, shape: Shape, batch: int = 64, n: int = 5) -> None:
        """Compare several networks in one fit with one fit per network."""
        data = draw(self.folder, shape)
        epochs = 5 if self.quick else 20
        for method in METHODS:
            ask = {"case": f"ours, {method}", "data": data, "batch": batch, "epochs": epochs}
            at_once, one_by_one = [], []
            for _ in range(self.rounds):
                at_once.append(self.once(**ask, options={"n_models": n})["fit"])
                one_by_one.append(sum(self.once(**ask, options={"random_state": s})["fit"] for s in range(n)))
            ratio = min(one_by_one) / min(at_once)
            self.rows.append({"what": "seeds", "shape": shape._asdict(), "batch": batch, "case": ask["case"],
                              "at_once": at_once, "one_by_one": one_by_one, "ratio": ratio})  # fmt: skip
            console.print(
                f"{n} seeds, {shape.name} {shape.tasks} x {shape.features}, batches of {batch}, {epochs + 1} epochs: "
                f"{method} {n} fits {min(one_by_one):.2f} s, one fit {min(at_once):.2f} s, {ratio:.1f} x",
                highlight=False,
            )

    def goals(self) -> None:
        """Print the goals and the worst measurement for each."""
        rows = [row for row in self.rows if row["what"] == "epoch" and "to_bare" in row]
        table = Table("goal", "wanted", "worst", "where", title="Goals", title_justify="left")

        def line(goal: str, wanted: str, chosen: list[dict[str, Any]], key: str, worst: Any) -> None:
            if chosen:
                row = worst(chosen, key=lambda r: r[key])
                where = f"{row['case']}, {row['shape']['tasks']:,} x {row['shape']['features']:,}, {row['batch']}"
                table.add_row(goal, wanted, f"{row[key]:.2f}", where)

        for method in METHODS:
            for size, most in (("small", 1.10), ("large", 1.25)):
                chosen = [r for r in rows if r["case"] == f"ours, {method}" and r["shape"]["goal"] == most]
                line(f"{method} to the bare network, {size}", f"at most {most}", chosen, "to_bare", max)
        for feed in ("loader", "gathered", "same steps"):
            chosen = [r for r in rows if r["case"].endswith(feed) and r["case"] in PEERS]
            line(f"faster than any peer, {feed}", "at least 1", chosen, "faster", min)
            chosen = [r for r in chosen if r["case"].startswith("crowd-kit CrowdLayer")]
            line(f"faster than crowd-kit's CrowdLayer, {feed}", "at least 2.5", chosen, "faster", min)
        console.print(table)


def main() -> None:
    """Run the benchmark and store its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small shapes, few epochs, one round")
    parser.add_argument("--rounds", type=int, help="measurements of each case; the best counts (default: 3)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="maximum number of torch threads")
    parser.add_argument("--profile", action="store_true", help="print the profile of an epoch")
    parser.add_argument("--out", type=Path, help="output file (default: results/learn_speed.json)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(measure)
        return
    out = options.out or (None if options.quick else RESULTS / "learn_speed.json")
    with tempfile.TemporaryDirectory() as name:
        rounds = options.rounds or (1 if options.quick else 3)
        bench = Benchmark(Path(name), rounds=rounds, threads=options.threads, quick=options.quick)
        versions = bench.peers.ask(case="versions")
        bench.rows.append({"what": "run", "threads": options.threads, "rounds": rounds, "versions": versions})
        for shape in (NARROW, WIDE) if options.quick else (NARROW, WIDE, LARGE):
            for batch in (64, 512):
                bench.epochs(shape, batch)
        for shape in (NARROW, MUSIC):
            bench.seeds(shape)
        if not options.quick:
            bench.memory(LARGE, 512)
        bench.goals()
        ask = {"case": "ours, CrowdLayer", "data": draw(Path(name), NARROW), "batch": 64, "threads": options.threads}
        text = bench.ours.ask(**ask, profile=True)["text"]
        if options.profile:
            console.print(text, highlight=False, markup=False)
        bench.ours.close(), bench.peers.close()
    if out:
        out.parent.mkdir(exist_ok=True)
        write_results(out, bench.rows)
        out.with_name("learn_profile.txt").write_text(text)
        console.print(f"figures saved in {out}")


if __name__ == "__main__":
    main()
