"""Commands killed at random moments, again and again, that must reach the result of one that was never killed.

A command runs in a fork of a process that has already imported crowdwise, so that a kill hits the work and not the
imports. It is killed by SIGKILL: with all its processes, or alone, which leaves its children behind. Then the folder is
checked (every file under its final name must be complete), and the same command is started and killed again, until it
has had its kills and may finish.

What is compared at the end, byte by byte except for Spark:

    run             every file of the folder except times.json
    fit             model.safetensors, model.json, labels.csv
    reproduction    the finished cells without their seconds
    aggregate       labels.csv, workers.parquet
    spark           every cell of every table, rows in order: Parquet files of Spark differ from run to run, in their
                    names and in bytes that hold no cells

No other file holds a time. After each kill every file under its final name is opened and read to its end.
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
from dataclasses import dataclass, field
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
    "crowdwise.cli", "crowdwise.run.pipeline", "crowdwise.report", "reproduction.catalogue", "crowdwise.io.model_files",
    "reproduction.runner", "reproduction.figures", "crowdwise.learn.methods.crowdlayer", "crowdwise.truth.tables",
    "crowdwise.learn.features.sources", "crowdwise.io", "crowdwise.evaluate", "altair", "torch._dynamo", "numba.typed",
])  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A command and the files it writes."""

    name: str
    words: tuple[str, ...]  # of the command, which runs in the folder
    results: Callable[[Path], Content]  # what has to be the same
    kept: str  # pattern of the files that a killed command resumes from
    final: str  # pattern of the files of a finished command
    early: float = 0.0  # share of its time, mere start-up, before which it is not killed
    program: str = "crowdwise"


@dataclass
class Kills:
    """The outcome of the kills."""

    whole: int = 0  # with all its processes
    alone: int = 0
    finished: int = 0  # chains that ended with the same result
    files: int = 0  # compared per result
    phases: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def n(self) -> int:
        return self.whole + self.alone


def make_inputs(folder: Path) -> None:
    """Write answers of a simulated crowd and informative features, for 300 tasks and for 40."""
    for name, n_tasks in (("", 300), ("-few", 40)):
        answers = cw.simulate.simulate(n_tasks, n_workers=12, n_classes=3, answers_per_task=4, seed=1)
        write(answers, folder / f"answers{name}.csv")
        assert answers.truth is not None
        noise = np.random.default_rng(0).normal(size=(n_tasks, 8))
        np.save(folder / f"X{name}.npy", (noise + 2 * np.eye(8)[answers.truth]).astype(np.float32))


def jobs(inputs: Path) -> dict[str, Job]:
    """Return the commands by name. `run-pool` has features, and its fits run in other processes."""
    answers, features = str(inputs / "answers.csv"), str(inputs / "X.npy")
    every = [
        Job("run", ("run", answers, "--out", "out", "--resume", "-m", "one-coin", "-m", "dawid-skene"), run_results,
            "out/.work/**/*.*", "out/[lmntrw]*.*"),
        Job("run-pool", ("run", str(inputs / "answers-few.csv"), "-x", str(inputs / "X-few.npy"), "--out", "out",
                         "--resume", "-m", "one-coin", "-m", "raykar", "--folds", "2", "--jobs", "2"),
            run_results, "out/.work/**/*.*", "out/[lmntrw]*.*"),
        Job("fit", ("fit", answers, "-x", features, "--method", "crowdlayer", "--out", "out", 
                    "--checkpoint", "state.safetensors",
                    "--epochs", "60"), files_of("out/*"), "state.safetensors", "out/*"),
        Job("reproduction", ("difficulty-by-task", "--quick", "--jobs", "1", "--out", "out"), cells_without_seconds,
            "out/[a-z]*.csv", "-", program="reproduction"),
        Job("aggregate", ("aggregate", answers, "-m", "glad", "-o", "labels.csv", "--workers", "workers.parquet",
                          "--check"), files_of("labels.csv", "workers.parquet"), "-", "[lw]*.*"),
        Job("spark", ("aggregate", answers, "--engine", "spark", "--master", "local[1]", "--parts", "1",
                      "--set", "max_iter=4", "--set", "tol=0", "--out", "out", "--checkpoint", "state", "--resume",
                      *spark_settings()), spark_results, "state/*", "out/*/_SUCCESS", early=0.3),
    ]  # fmt: skip
    return {job.name: job for job in every}


def spark_settings() -> Iterator[str]:
    """Settings for little data, where planning and compiling would take longer than the work."""
    for setting in (
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.adaptive.enabled=false",
        "spark.sql.codegen.wholeStage=false", "spark.default.parallelism=1",
    ):  # fmt: skip
        yield from ("--spark-conf", setting)


# Killing


def start(job: Job, folder: Path, user: int | None = None) -> Any:
    """Start the command in the folder as a process group of its own, possibly as another user."""
    process = _PROCESSES.Process(target=command, args=(job.program, job.words, folder, user))
    process.start()
    return process


def command(program: str, words: tuple[str, ...], folder: Path, user: int | None) -> None:
    """Run a command; its output goes to `NAME.said.txt` next to the folder."""
    os.setsid()
    os.chdir(folder)
    output = os.open(folder.with_suffix(".said.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = [program, *words]
    if user is not None:
        os.setuid(user)
    if program == "crowdwise":
        from crowdwise.cli import main
    else:
        from reproduction.__main__ import main

    try:
        main()
    finally:
        if "--jobs" in words:  # a command of its own would end its pool, a fork would wait for it
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor().shutdown(kill_workers=True)


def used(process: int) -> float:
    """Return the processor seconds of a process and its descendants; 0 if it has ended.

    Kills are timed by these rather than by a clock, which runs on while a busy machine does other work.
    """
    try:
        numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]  # own, ended children's
        children = [
            each for file in Path(f"/proc/{process}/task").glob("*/children") for each in file.read_text().split()
        ]
    except OSError:
        return 0.0
    return sum(map(int, numbers)) / os.sysconf("SC_CLK_TCK") + sum(map(used, map(int, children)))


def until(process: Any, moment: float) -> float:
    """Wait until a process has used this many seconds or has ended; return the seconds last seen."""
    found = 0.0
    while found < moment and process.is_alive():
        looked = time.monotonic()
        found = max(found, used(process.pid))
        time.sleep(0.003 + 5 * (time.monotonic() - looked))
    return found


def finish(job: Job, folder: Path) -> float:
    """Run a command to its end; return the processor seconds it used."""
    process = start(job, folder)
    seconds = until(process, float("inf"))
    process.join()
    output = folder.with_suffix(".said.txt")
    assert process.exitcode == 0, f"{job.name} ended with {process.exitcode}:\n{output.read_text()}"
    return seconds


def kill_at(job: Job, folder: Path, moment: float, *, group: bool) -> bool:
    """Start a command and kill it after this many seconds; return False if it ended before."""
    process = start(job, folder)
    until(process, moment)
    with suppress(ProcessLookupError):  # it has just ended
        if group and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid, signal.SIGKILL)
    process.join()
    output = folder.with_suffix(".said.txt")
    assert process.exitcode in (0, -signal.SIGKILL), f"{job.name} ended with {process.exitcode}:\n{output.read_text()}"
    return process.exitcode != 0


def chain(job: Job, folder: Path, span: float, rng: np.random.Generator, most: int, kills: Kills) -> None:
    """Kill the command up to `most` times in one folder, check the folder each time, and let it finish."""
    folder.mkdir(parents=True)
    for _ in range(most):
        group, since = bool(rng.random() < 0.5), time.time()
        if not kill_at(job, folder, span * rng.uniform(job.early, 1), group=group):
            break  # it ended before
        kills.whole, kills.alone = kills.whole + group, kills.alone + (not group)
        kills.phases[phase(job, folder, since)] += 1
        assert not (broken := damaged(folder)), f"{job.name}: {broken}"
    finish(job, folder)


def phase(job: Job, folder: Path, since: float) -> str:
    """Return how far a killed command had come, by the files it has written since."""

    def written(pattern: str) -> bool:
        return any(file.stat().st_mtime >= since for file in folder.glob(pattern))

    if written(job.final):
        return "results appear"
    return "keeps its work" if written(job.kept) else "nothing written yet"


def kill_many(
    job: Job, home: Path, count: int, seed: int, most: int = 8, report: Callable[[Kills], None] = lambda kills: None
) -> Kills:
    """Kill a command this many times, in chains, and compare the result of each chain with that of an unkilled run.

    `report` is called after each chain.
    """
    started, kills, rng = time.monotonic(), Kills(), np.random.default_rng(seed)
    for unbroken in (home / "first", home / "unbroken"):  # the first one also imports and compiles
        unbroken.mkdir(parents=True)
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
        report(kills)
    return kills


# Looking at files


def damaged(folder: Path) -> list[str]:
    """Return the files under their final names that are not complete."""
    found = []
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder).parts
        if not file.is_file() or any(part.endswith(".partial") or part == "_temporary" for part in inside):
            continue
        if file.name.startswith(".") and not file.name.endswith(".crc"):
            continue
        try:
            open_complete(file)
        except FileNotFoundError:  # the children of a killed command may still be ending
            continue
        except Exception as error:
            found.append(f"{file.relative_to(folder)}: {type(error).__name__} {error}")
    return found


def open_complete(file: Path) -> None:
    """Read a file to its end, by its kind; raise if it is not complete."""
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
        assert file.name == "_SUCCESS" or file.suffix == ".crc", "unknown kind of file"


def left_over(folder: Path) -> list[str]:
    """Return what a finished command should have removed: locks, partial files, work folders."""
    ours = re.compile(r"\.(lock|work|.*\.partial)|_temporary")
    return [str(file.relative_to(folder)) for file in folder.rglob("*") if ours.fullmatch(file.name)]


def files_of(*patterns: str) -> Callable[[Path], Content]:
    """Return a function that reads all bytes of some files."""

    def read(folder: Path) -> Content:
        files = sorted(file for pattern in patterns for file in folder.glob(pattern) if file.is_file())
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}

    return read


def run_results(folder: Path) -> Content:
    """Return all files of a run, hidden ones included, except its times."""
    files = sorted(file for file in (folder / "out").rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files if file.name != "times.json"}


def cells_without_seconds(folder: Path) -> Content:
    """Return the finished cells of a reproduction without their seconds."""
    content = files_of("out/*.csv")(folder)
    for name, text in content.items():
        rows = [{**row, "seconds": ""} for row in csv.DictReader(text.decode().splitlines())]
        content[name] = json.dumps(rows).encode()
    return content


def spark_results(folder: Path) -> Content:
    """Return every cell of every table, as Arrow bytes."""
    found = {}
    for table in sorted((folder / "out").glob("[a-z]*")):
        parts = [pq.read_table(file) for file in sorted(table.glob("part-*.parquet"))]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, parts[0].schema.remove_metadata()) as stream:
            stream.write_table(pa.concat_tables(parts).replace_schema_metadata().combine_chunks())
        found[table.name] = sink.getvalue().to_pybytes()
    return found
