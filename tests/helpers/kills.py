"""Commands killed at random moments, again and again, that must come to the result of one that never was.

A command runs in a fork of a process that has imported crowdwise already, so that a kill falls into the work and not
into the imports. It is killed by SIGKILL: with all its processes, or alone, which leaves its children behind. Then the
folder is looked at (every file under its final name is whole), and the same command is given again, to be killed again,
until it has had its kills and may finish.

What is compared at the end, byte by byte but for Spark:

    run         every file of the folder but times.json: how long each step took
    fit         model.safetensors, model.json, labels.csv
    bench       the cells, NAME.csv and NAME.json without `seconds` and `core_seconds`; NAME.svg
    aggregate   labels.csv, workers.parquet
    spark       every cell of every table, rows in order: Parquet files of Spark differ from run to run, in their names
                and in bytes that hold no cells

No other file holds a time. After each kill every file under its final name is opened, and read to its end.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import safe_open

import crowdwise as cw
from crowdwise.io import write

Content = dict[str, bytes]
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([
    "crowdwise.cli", "crowdwise.run.main", "crowdwise.report", "reproduction.catalogue", "crowdwise.io.model_files",
    "reproduction.runner", "reproduction.outputs", "crowdwise.learn.methods.crowdlayer", "crowdwise.truth.tables",
    "crowdwise.learn.features.sources", "crowdwise.io", "crowdwise.evaluate", "altair", "torch._dynamo", "numba.typed",
])  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A command, and what it leaves behind."""

    name: str
    words: tuple[str, ...]  # of the command, which stands in the folder
    results: Callable[[Path], Content]  # what has to be the same
    kept: str  # pattern of what a killed one goes on from
    final: str  # pattern of the files that are there when all is done
    early: float = 0.0  # share of its time before which it is not killed: it only starts then
    before: Callable[[Path], None] = lambda folder: None  # what has been done in the folder already


@dataclass
class Kills:
    """What came of them."""

    whole: int = 0  # with all its processes
    alone: int = 0
    finished: int = 0  # chains that came to their end, and the same result
    files: int = 0  # of a result, which are compared
    phases: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def n(self) -> int:
        return self.whole + self.alone


def make_inputs(folder: Path) -> None:
    """Answers of a simulated crowd, and features that tell the classes apart: some hundred tasks, and a few."""
    for name, n_tasks in (("", 300), ("-few", 40)):
        answers = cw.simulate.simulate(n_tasks, n_workers=12, n_classes=3, answers_per_task=4, seed=1)
        write(answers, folder / f"answers{name}.csv")
        assert answers.truth is not None
        noise = np.random.default_rng(0).normal(size=(n_tasks, 8))
        np.save(folder / f"X{name}.npy", (noise + 2 * np.eye(8)[answers.truth]).astype(np.float32))


def jobs(inputs: Path) -> dict[str, Job]:
    """The commands, by name. `run-pool` has features, and its fits run in other processes."""
    answers, features = str(inputs / "answers.csv"), str(inputs / "X.npy")
    every = [
        Job("run", ("run", answers, "--out", "out", "--resume", "-m", "one-coin", "-m", "dawid-skene"), run_results,
            "out/.work/**/*.*", "out/[lmntrw]*.*"),
        Job("run-pool", ("run", str(inputs / "answers-few.csv"), "-x", str(inputs / "X-few.npy"), "--out", "out",
                         "--resume", "-m", "one-coin", "-m", "raykar", "--folds", "2", "--jobs", "2"),
            run_results, "out/.work/**/*.*", "out/[lmntrw]*.*"),
        Job("fit", ("fit", answers, "-x", features, "--out", "out", "--checkpoint", "state.safetensors",
                    "--epochs", "60"), files_of("out/*"), "state.safetensors", "out/*"),
        Job("bench", ("bench", "difficulty-by-task", "--quick", "--jobs", "1", "--out", "out"), bench_results,
            "out/cells/[a-z]*", "out/[a-z]*.*"),
        Job("aggregate", ("aggregate", answers, "-m", "glad", "-o", "labels.csv", "--workers", "workers.parquet",
                          "--check"), files_of("labels.csv", "workers.parquet"), "-", "[lw]*.*"),
        Job("spark", ("aggregate", answers, "--engine", "spark", "--master", "local[1]", "--parts", "1",
                      "--set", "max_iter=4", "--set", "tol=0", "--out", "out", "--checkpoint", "state", "--resume",
                      *spark_settings()), spark_results, "state/*", "out/*/_SUCCESS", early=0.3),
    ]  # fmt: skip
    return {job.name: job for job in every}


def quick_jobs(inputs: Path) -> dict[str, Job]:
    """The same, but `bench` finds its cells computed: to start processes for them takes too long for a test."""
    from tests.helpers.bench_cells import fill

    every = jobs(inputs)
    finished = partial(fill, name="difficulty-by-task", seeds=1, quick=True)
    return every | {"bench": replace(every["bench"], before=lambda folder: finished(folder / "out"))}


def spark_settings() -> Iterator[str]:
    """Little data: planning and compiling would take longer than the work."""
    for setting in (
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.adaptive.enabled=false",
        "spark.sql.codegen.wholeStage=false", "spark.default.parallelism=1",
    ):  # fmt: skip
        yield from ("--spark-conf", setting)


# Killing


def begin(job: Job, folder: Path) -> None:
    """A folder that the command can be given in."""
    folder.mkdir(parents=True)
    job.before(folder)


def start(job: Job, folder: Path, user: int | None = None) -> Any:
    """The command as a process group of its own, that stands in the folder; of another user perhaps."""
    process = _PROCESSES.Process(target=command, args=(job.words, folder, user))
    process.start()
    return process


def command(words: tuple[str, ...], folder: Path, user: int | None) -> None:
    """Run a command; what it says is in `NAME.said.txt` beside the folder."""
    os.setsid()
    os.chdir(folder)
    said = os.open(folder.with_suffix(".said.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.argv = ["crowdwise", *words]
    if user is not None:
        os.setuid(user)
    from crowdwise.cli import main

    try:
        main()
    finally:
        if "--jobs" in words:  # a process of its own would end its pool, a fork would wait for it
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor().shutdown(kill_workers=True)


def used(process: int) -> float:
    """Seconds of the processors that a process and all that it started have had; 0 of one that is no more.

    Moments are told by these, and not by a clock, which on a busy machine runs on while nothing is done.
    """
    try:
        numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]  # own, and of ended ones
        children = [
            each for file in Path(f"/proc/{process}/task").glob("*/children") for each in file.read_text().split()
        ]
    except OSError:
        return 0.0
    return sum(map(int, numbers)) / os.sysconf("SC_CLK_TCK") + sum(map(used, map(int, children)))


def until(process: Any, moment: float) -> float:
    """Wait until it has used so many seconds, or has ended; how many it had when last seen."""
    found = 0.0
    while found < moment and process.is_alive():
        looked = time.monotonic()
        found = max(found, used(process.pid))
        time.sleep(0.003 + 5 * (time.monotonic() - looked))
    return found


def finish(job: Job, folder: Path) -> float:
    """Let it come to its end; the seconds of the processors it used."""
    process = start(job, folder)
    seconds = until(process, float("inf"))
    process.join()
    said = folder.with_suffix(".said.txt")
    assert process.exitcode == 0, f"{job.name} ended with {process.exitcode}:\n{said.read_text()}"
    return seconds


def kill_at(job: Job, folder: Path, moment: float, *, group: bool) -> bool:
    """Start it, and kill it when it has used so many seconds; whether it was still there to be killed."""
    process = start(job, folder)
    until(process, moment)
    with suppress(ProcessLookupError):  # it has just ended
        if group and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid, signal.SIGKILL)
    process.join()
    said = folder.with_suffix(".said.txt")
    assert process.exitcode in (0, -signal.SIGKILL), f"{job.name} ended with {process.exitcode}:\n{said.read_text()}"
    return process.exitcode != 0


def chain(job: Job, folder: Path, span: float, rng: np.random.Generator, most: int, kills: Kills) -> None:
    """Kill the command up to `most` times in one folder, look at the folder each time, and let it finish."""
    begin(job, folder)
    for _ in range(most):
        group, since = bool(rng.random() < 0.5), time.time()
        if not kill_at(job, folder, span * rng.uniform(job.early, 1), group=group):
            break  # it came to its end before
        kills.whole, kills.alone = kills.whole + group, kills.alone + (not group)
        kills.phases[phase(job, folder, since)] += 1
        assert not (broken := damaged(folder)), f"{job.name}: {broken}"
    finish(job, folder)


def phase(job: Job, folder: Path, since: float) -> str:
    """How far a killed command had come, by the files it has written since."""

    def written(pattern: str) -> bool:
        return any(file.stat().st_mtime >= since for file in folder.glob(pattern))

    if written(job.final):
        return "results appear"
    return "keeps its work" if written(job.kept) else "nothing written yet"


def kill_many(
    job: Job, home: Path, count: int, seed: int, most: int = 8, told: Callable[[Kills], None] = lambda kills: None
) -> Kills:
    """So many kills, in chains; the result of each chain is that of a command that was never killed.

    `told` is called after each chain.
    """
    started, kills, rng = time.monotonic(), Kills(), np.random.default_rng(seed)
    for unbroken in (home / "first", home / "unbroken"):  # the first one also imports and compiles
        begin(job, unbroken)
        span = finish(job, unbroken)
    expected = job.results(unbroken)
    assert expected and not left_over(unbroken)
    assert job.results(home / "first") == expected
    while kills.n < count:
        folder = home / f"killed-{kills.finished}"
        chain(job, folder, span, rng, min(most, count - kills.n), kills)
        found = job.results(folder)
        assert list(found) == list(expected)
        different = [name for name in expected if found[name] != expected[name]]
        assert not different, f"{job.name}, {folder}: {different} differ from a run that was never killed"
        assert not (rest := left_over(folder)), f"{job.name} left {rest}"
        kills.finished, kills.files, kills.seconds = kills.finished + 1, len(expected), time.monotonic() - started
        told(kills)
    return kills


# Looking at files


def damaged(folder: Path) -> list[str]:
    """Files under their final names that do not open whole."""
    found = []
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder).parts
        if not file.is_file() or any(part.endswith(".partial") or part == "_temporary" for part in inside):
            continue
        if file.name.startswith(".") and not file.name.endswith(".crc"):
            continue
        try:
            open_whole(file)
        except FileNotFoundError:  # of one whose children still end
            continue
        except Exception as error:
            found.append(f"{file.relative_to(folder)}: {type(error).__name__} {error}")
    return found


def open_whole(file: Path) -> None:
    """Read all of a file, by its kind; an error says that it is not whole."""
    if file.suffix == ".json":
        json.loads(file.read_text("utf-8"))
    elif file.suffix == ".csv":
        text = file.read_text("utf-8")
        rows = list(csv.reader(text.splitlines()))
        assert text.endswith("\n") and len({len(row) for row in rows}) == 1, "a row is cut off"
    elif file.suffix == ".parquet":
        pq.read_table(file)
    elif file.suffix == ".safetensors":
        with safe_open(file, framework="numpy") as opened:
            for name in opened.keys():  # noqa: SIM118 - not a mapping
                opened.get_tensor(name)
    elif file.suffix in (".html", ".svg"):
        assert file.read_text("utf-8").rstrip().endswith(f"</{file.suffix[1:]}>"), "the end is missing"
    else:
        assert file.name == "_SUCCESS" or file.suffix == ".crc", "a file of no known kind"


def left_over(folder: Path) -> list[str]:
    """What should be gone when all is done: locks, parts, work."""
    ours = re.compile(r"\.(lock|work|.*\.partial)|_temporary")
    return [str(file.relative_to(folder)) for file in folder.rglob("*") if ours.fullmatch(file.name)]


def files_of(*patterns: str) -> Callable[[Path], Content]:
    """All bytes of some files."""

    def read(folder: Path) -> Content:
        files = sorted(file for pattern in patterns for file in folder.glob(pattern) if file.is_file())
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}

    return read


def run_results(folder: Path) -> Content:
    """A run without its times; what else is in the folder, hidden files too."""
    files = sorted(file for file in (folder / "out").rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files if file.name != "times.json"}


def bench_results(folder: Path) -> Content:
    """A benchmark without its times."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: timeless(part) for key, part in value.items() if key not in ("seconds", "core_seconds")}
        return [timeless(part) for part in value] if isinstance(value, list) else value

    found = files_of("out/cells/*", "out/*")(folder)
    for name, content in found.items():
        if name.endswith(".json"):
            found[name] = json.dumps(timeless(json.loads(content))).encode()
        elif name.endswith(".csv"):
            rows = [{**row, "seconds": ""} for row in csv.DictReader(content.decode().splitlines())]
            found[name] = json.dumps(rows).encode()
    return found


def spark_results(folder: Path) -> Content:
    """Every cell of every table, as Arrow has them."""
    found = {}
    for table in sorted((folder / "out").glob("[a-z]*")):
        parts = [pq.read_table(file) for file in sorted(table.glob("part-*.parquet"))]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, parts[0].schema.remove_metadata()) as stream:
            stream.write_table(pa.concat_tables(parts).replace_schema_metadata().combine_chunks())
        found[table.name] = sink.getvalue().to_pybytes()
    return found
