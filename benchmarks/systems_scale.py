"""Time and memory of self-training, artificial tasks and acquisition on large crowds.

    small   100,000 tasks x  1,000 workers          large   1,000,000 tasks x 10,000 workers

    python -m benchmarks systems-scale [NAME ...] [--sizes small large] [--json FILE]

Four classes, the rarest with a tenth of the tasks of the most common; three answers per task, 16 features, logistic
networks, one epoch of everything that has epochs, batches of 1,024 tasks. What grows with the tasks grows tenfold from
small to large; what grows with tasks x workers, a hundredfold. Each job runs in a process of its own; memory is the
peak of that process, before (libraries, data and what is fitted first) and after. Time is processor time on one thread,
which other work on the machine affects less than wall-clock time. Records are added to those in the file, so that jobs
can run one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from crowdwise.augment.pairs import n_missing
from crowdwise.errors import CrowdwiseWarning

SIZES = {"small": (100_000, 1_000), "large": (1_000_000, 10_000)}
MOST_MB = 4096  # a job above this is reported
OPTIONS: dict[str, Any] = {"network": "logistic", "epochs": 1, "batch_size": 1024, "lr": 0.01}
# Returns the bound on the cost (a limit on pairs of a task and a worker, for example) and the function to time, which
# returns the number of pairs processed, or None if a method processes existing answers only.
Job = Callable[[Any, Any], tuple[str, Callable[[], int | None]]]
JOBS: dict[str, Job] = {}


def job(name: str) -> Callable[[Job], Job]:
    """Register a job."""

    def register(prepare: Job) -> Job:
        JOBS[name] = prepare
        return prepare

    return register


def learner(name: str, **options: Any) -> None:
    """Register one epoch of a learner over all tasks, and its predictions for them."""

    @job(name)
    def run(answers: Any, X: Any) -> tuple[str, Callable[[], int | None]]:
        model = cw.make(name, **{**OPTIONS, **options})
        return "answers", lambda: model.fit(X, answers) and None


def self_training(base: str, **options: Any) -> None:
    """Register DASC: two fits, and between them predictions for as many pairs as it allows."""

    @job(f"dasc({base})")
    def run(answers: Any, X: Any) -> tuple[str, Callable[[], int]]:
        model = cw.DASC(cw.make(base, **{**OPTIONS, **options}), iterations=1, hidden=0.0)
        most = n_missing(answers) if model.max_pairs is None else min(model.max_pairs, n_missing(answers))

        def timed() -> int:
            model.fit(X, answers)
            return most

        return f"max_pairs={model.max_pairs}", timed


def completion(fill: str, **options: Any) -> None:
    """Register a filler, and a learner on the given and the filled-in answers."""

    @job(f"completed({fill})")
    def run(answers: Any, X: Any) -> tuple[str, Callable[[], int]]:
        model = cw.Completed(cw.CrowdLayer(**OPTIONS), filler(fill, options))

        def timed() -> int:
            return model.fit(X, answers).filled_.n_answers

        return f"max_pairs={model.max_pairs}", timed


def filler(fill: str, options: dict[str, Any]) -> Any:
    """Return a filler that trains for one epoch."""
    from reproduction.baselines.graph_completion import GraphCompletion
    from reproduction.baselines.irgan import IRGAN

    kinds = {"gcn": GraphCompletion, "gan": IRGAN}
    return kinds[fill](**{**OPTIONS, **options}) if fill in kinds else fill


@job("crowding")
def crowding(answers: Any, X: Any) -> tuple[str, Callable[[], int]]:
    """Run all phases of CrowdInG, one epoch and one step each; an adversarial epoch draws new pairs."""
    model = cw.CrowdInG(
        **OPTIONS, generator_epochs=1, discriminator_epochs=1, adversarial_epochs=1, steps=1,
        adversarial_batch_size=1024,
    )  # fmt: skip

    def timed() -> int:
        model.fit(X, answers)
        return 3 * model.max_pairs

    return f"max_pairs={model.max_pairs}", timed


@job("iced")
def iced(answers: Any, X: Any) -> tuple[str, Callable[[], int | None]]:
    """Run a round of ICED, with decoded artificial tasks."""
    model = cw.ICED(**OPTIONS, warmup_epochs=1, decoder_epochs=1)
    return f"max_tasks={getattr(model, 'max_tasks', None)}", lambda: model.fit(X, answers) and None


@job("waum")
def waum(answers: Any, X: Any) -> tuple[str, Callable[[], int | None]]:
    """Run WAUM with Dawid-Skene's worker weights, list the 1,000 most ambiguous tasks, and prune."""

    def timed() -> None:
        model = cw.WAUM(**OPTIONS).fit(X, answers)
        model.ranking(1000)
        model.prune(0.01)

    return "answers", timed


@job("waum, a network for each worker")
def waum_per_worker(answers: Any, X: Any) -> tuple[str, Callable[[], int | None]]:
    """Run the naive form of the paper."""
    return "answers", lambda: cw.WAUM(**OPTIONS, per_worker=True).fit(X, answers) and None


def acquisition(name: str, budget: int = 1000, *, with_features: bool = False, **options: Any) -> None:
    """Register a proposal of answers to buy."""

    @job(f"propose({name})")
    def run(answers: Any, X: Any) -> tuple[str, Callable[[], int]]:
        model = cw.CrowdLayer(**OPTIONS).fit(X, answers) if with_features else cw.DawidSkene(max_iter=20).fit(answers)
        arguments = {"X": X, **options} if with_features else options
        bound = "max_pairs=2000000" if with_features else "max_pairs=100000000"
        return bound, lambda: cw.acquire.propose(model, min(budget, answers.n_tasks), **arguments).pairs_scored


@job("replay")
def replay(answers: Any, X: Any) -> tuple[str, Callable[[], int | None]]:
    """Replay two rounds of 1,000 answers with two strategies, refitting Dawid-Skene (20 iterations) each time."""
    model = cw.DawidSkene(max_iter=20)
    return (
        "answers",
        lambda: cw.acquire.replay(answers, model=model, step=1_000, budget=2_000, seeds=[0]).num_rows and None,
    )


for each in ("crowdlayer", "annoreg", "geocrowdnet", "conal"):
    learner(each)
learner("doctornet", weight_epochs=1)
for each in ("crowdlayer", "annoreg"):
    self_training(each)
self_training("doctornet", weight_epochs=1)
completion("self")
completion("gcn", batch_size=100_000)
completion("gan", rounds=1, discriminator_epochs=1)
for each in cw.acquire.STRATEGIES:
    acquisition(each, strategy=each)
acquisition("information, 3 a task", per_task=3)
acquisition("information, 5 a worker", per_worker=5)
acquisition("information, with features", with_features=True)
acquisition("information, 100,000 answers", 100_000)


def peak() -> float:
    """Return the peak memory of the process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)


def crowd(tasks: int, workers: int) -> tuple[Any, Any]:
    """Return answers, and the features of their tasks."""
    shares = np.array([10.0, 7.0, 4.0, 1.0])
    answers = cw.simulate.simulate(
        tasks, n_workers=workers, n_classes=4, answers_per_task=3, class_balance=shares / shares.sum()
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 16))[answers.truth] + rng.normal(size=(tasks, 16))
    return answers, X.astype(np.float32)


def measure(name: str, size: str) -> dict[str, Any]:
    """Return the record of one job, run in this process."""
    warnings.simplefilter("ignore", CrowdwiseWarning)
    JOBS[name](*crowd(2_000, 20))[1]()  # imports and compilation must not be timed
    tasks, workers = SIZES[size]
    answers, X = crowd(tasks, workers)
    bound, timed = JOBS[name](answers, X)
    before, start, cpu = peak(), time.perf_counter(), time.process_time()
    pairs = timed()
    return {
        "job": name, "size": size, "tasks": tasks, "workers": workers, "answers": answers.n_answers, "bound": bound,
        "pairs": pairs, "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2), "before_mb": round(before), "peak_mb": round(peak()),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def table(records: list[dict[str, Any]]) -> str:
    """Return one line per job: both sizes, and the ratio of their times."""
    lines = [
        "| system | bound | pairs processed | CPU seconds, small | large | times | MB before | peak MB |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    found = {(record["job"], record["size"]): record for record in records}
    for name in JOBS:
        small, large = (found.get((name, size)) for size in SIZES)
        last = large or small
        if last is None:
            continue
        pairs = "" if last["pairs"] is None else f"{last['pairs']:,}"
        took = ["" if record is None else f"{record['cpu_seconds']:.1f}" for record in (small, large)]
        times = f"{large['cpu_seconds'] / max(small['cpu_seconds'], 0.01):.0f}" if small and large else ""
        cells = [name, last["bound"], pairs, *took, times, f"{last['before_mb']:,}", f"{last['peak_mb']:,}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description="Time and memory of the systems on large crowds.")
    parser.add_argument("names", nargs="*", help=f"jobs to run: {', '.join(JOBS)} (default: all)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--json", type=Path, default=RESULTS / "systems_scale.json")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - JOBS.keys():
        parser.error(f"no job named: {', '.join(sorted(unknown))}")
    records = read_results(arguments.json, [])
    for name in arguments.names or JOBS:
        for size in arguments.sizes:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                record = pool.submit(measure, name, size).result()
            print(json.dumps(record), file=sys.stderr, flush=True)
            records = [old for old in records if (old["job"], old["size"]) != (name, size)] + [record]
            write_results(arguments.json, records)
    print(table(records))
    if large := [record["job"] for record in records if record["peak_mb"] > MOST_MB]:
        print(f"\nabove {MOST_MB:,} MB: {', '.join(large)}")


if __name__ == "__main__":
    main()
