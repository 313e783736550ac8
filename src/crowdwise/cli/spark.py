"""`crowdwise aggregate --engine spark`: the same answers in, the same labels out, computed by a cluster.

Addresses (folders, globs, s3a://...) go to Spark as they are. Results are Parquet, a folder for each table.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.interruption import goes_on
from crowdwise.cli.options import build, refuse_same_file, settings
from crowdwise.cli.screen import note, progress
from crowdwise.cli.spark_tables import FORMATS, confident, format_of, held_fixed, read, renamed, scores, sizes
from crowdwise.errors import CrowdwiseError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crowdwise.engines.spark.base import SparkModel


class Engine(StrEnum):
    """Where the work is done."""

    local = "local"
    spark = "spark"


class Bad(StrEnum):
    """What to do with rows that cannot be used."""

    aside = "aside"
    error = "error"


ON_SPARK = "On Spark"  # heading of these options in --help
Where = Annotated[Engine, typer.Option("--engine", help="`spark`: on a cluster, for what no single machine holds.")]
Master = Annotated[
    str | None,
    typer.Option("--master", help="Address of the cluster; `local` is this machine.", rich_help_panel=ON_SPARK),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="Folder to keep the parameters in, each iteration.", rich_help_panel=ON_SPARK),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on from --checkpoint, if there is one.", rich_help_panel=ON_SPARK)
]
Unusable = Annotated[
    Bad,
    typer.Option("--bad", help="Rows that cannot be used: written aside, or an error.", rich_help_panel=ON_SPARK),
]
Parts = Annotated[
    int | None, typer.Option("--parts", min=1, help="In how many parts tasks are dealt out.", rich_help_panel=ON_SPARK)
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--broadcast-limit", min=1, rich_help_panel=ON_SPARK,
        help="Matrices of more numbers (workers x classes²) stay in the cluster.",
    ),
]  # fmt: skip
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace results that are in --out.", rich_help_panel=ON_SPARK)
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.", rich_help_panel=ON_SPARK
    ),
]
ONLY = {  # options of one engine, by the other: why they are refused there
    Engine.spark: {
        "workers": "the table of the workers is in the folder that --out names",
        "question": "exports are read on one machine: `crowdwise convert EXPORT answers.parquet` first",
        "nulls": "--bad says what becomes of such rows",
        "check": "held-out answers are asked on one machine",
    },
    Engine.local: dict.fromkeys(
        ("master", "checkpoint", "resume", "bad", "parts", "broadcast_limit", "overwrite", "spark_conf"),
        "it goes with --engine spark",
    ),
}
TABLES = ("labels", "workers", "classes", "confusion", "rejected", "fit")
_ARGUMENT = re.compile(  # of the library, in a message
    r"\b(task|worker|label|bad|duplicates|max_classes|checkpoint)=(?:'(\w+)'|None)?|\b(broadcast_limit)\b=?"
)
_SLOW = 30  # seconds without a machine of the cluster, after which a user is told what to look at


def refuse_others(ctx: typer.Context, engine: Engine) -> None:
    """Refuse options that the engine would ignore."""
    for name, why in ONLY[engine].items():
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and ctx.params[name] is not False:
            message = f"--{name.replace('_', '-')} is not for --engine {engine}: {why}."
            raise ParameterError(message)


def aggregate(
    files: Sequence[str], method: str, out: str | None, truth: Path | None, gold: Path | None,
    set_: list[str] | None, seed: int, *, format: str | None,
    columns: Mapping[str, str | None], duplicates: str, max_classes: int, master: str | None,
    checkpoint: Path | None, resume: bool, bad: str, parts: int | None, broadcast_limit: int | None,
    overwrite: bool, spark_conf: list[str] | None, pseudonymise: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Fit on Spark and write the tables; what is to be said about it."""
    from crowdwise.answers.pseudonyms import key_of
    from crowdwise.engines.spark.base import BROADCAST_LIMIT
    from crowdwise.engines.spark.session import session

    model = on_spark(build(method, settings(set_ or []), seed), method)
    refuse_target(files, out)
    refuse_same_file([*map(Path, files), truth, gold], [], pseudonymise)
    check_known(truth, gold)
    check_checkpoint(model, method, checkpoint, resume)
    kind = format_of(files, format)
    conf = dict(_pair(each) for each in spark_conf or [])
    with alone_with(checkpoint), progress("Starting Spark") as step, in_options(), session(master, conf) as spark:
        await_machines(spark)
        if out is not None and not (overwrite or resume):
            refuse_results(spark, out)
        step("Reading the answers")
        frame, found = read(spark, files, kind, columns)
        frame = frame if pseudonymise is None else renamed(frame, found, key_of(pseudonymise))
        start, most = time.perf_counter(), getattr(model.model, "max_iter", None)
        step("Numbering and packing the answers")
        reading: dict[str, Any] = {
            **found, "duplicates": duplicates, "bad": bad, "max_classes": max_classes, "parts": parts,
            "weight": "weight" if "weight" in frame.columns and "weight" not in found.values() else None,
        }  # fmt: skip
        told, strangers = (None, {}) if gold is None else held_fixed(frame, found, gold)
        model.fit(
            frame, **reading, gold=told, checkpoint=checkpoint and checkpoint.absolute(), resume=resume,
            broadcast_limit=BROADCAST_LIMIT if broadcast_limit is None else broadcast_limit,
            callback=lambda i, _: step(f"Fitting {method}, iteration {i + 1}", i + 1, most),
        )  # fmt: skip
        seconds = time.perf_counter() - start
        step("Writing the tables")
        written = {}
        if out is not None:
            model.write(out, overwrite=overwrite or resume)
            names = [name for name in TABLES if name != "confusion" or model.confusion is not None]
            written = {name: f"{out.rstrip('/')}/{name}" for name in names}
        result = {
            "files": list(files), **sizes(model), "removed": {**model.removed_, **strangers}, "method": method,
            "engine": "spark", "master": spark.sparkContext.master, "parameters": model.model.get_params(),
            "iterations": model.n_iter_, "converged": model.converged_, "seconds": seconds,
            **confident(model), "written": written,
        }  # fmt: skip
        if truth is not None:
            step("Scoring beside majority vote")
            vote = model
            if method != "majority-vote":
                vote = on_spark(build("majority-vote", {}, seed), "majority-vote").fit(frame, **reading, gold=told)
            told = None if told is None else told.selectExpr(f"`{found['task']}` as task")
            result["scores"] = scores({"majority-vote": vote, method: model}, truth, told)
        return result


def on_spark(local: Any, method: str) -> SparkModel:
    """The model of the same name and settings on Spark."""
    from crowdwise._core.registry import methods
    from crowdwise.engines import spark as engine
    from crowdwise.engines.spark.base import SparkModel

    models = [each for each in vars(engine).values() if isinstance(each, type) and issubclass(each, SparkModel)]
    kinds = {each.local: each for each in models if "local" in vars(each)}
    if type(local) not in kinds:
        names = {each.__name__ for each in kinds}
        there = ", ".join(each.name for each in methods() if each.home.rpartition(":")[2] in names)
        message = f"{method} does not run on Spark; these do: {there}."
        raise ParameterError(message)
    return kinds[type(local)](**local.get_params(deep=False))


def refuse_target(files: Iterable[str], out: str | None) -> None:
    """Refuse to write among the answers, or where a file is meant."""
    if out is None:
        return
    if Path(out).suffix in (*FORMATS, ".json"):
        message = f"--out {out}: Spark writes several tables into a folder; name one, such as results/."
        raise ParameterError(message)
    target = _place(out)
    for file in files:
        if target == _place(file) or fnmatch(target, _place(file)) or fnmatch(target, f"{_place(file)}/*"):
            message = f"--out {out} lies in {file}, from which the answers are read. Write elsewhere."
            raise ParameterError(message)


def check_known(*given: Path | None) -> None:
    """Refuse files of known labels that cannot be read, before the work and not after it."""
    from crowdwise.io.reader import read_truth

    for file in given:
        if file is not None:
            read_truth(file)


def check_checkpoint(model: SparkModel, method: str, checkpoint: Path | None, resume: bool) -> None:
    """Refuse a folder that would not be used, or could not be."""
    from crowdwise.engines.spark.base import SparkModel

    if checkpoint is None:
        if resume:
            message = "--resume goes with --checkpoint, the folder to go on from."
            raise ParameterError(message)
        return
    if type(model)._fit_parameters is SparkModel._fit_parameters:
        message = f"--checkpoint is for methods that iterate, and {method} does not."
        raise ParameterError(message)
    if re.match(r"[a-z][\w+.-]+:/", str(checkpoint)):
        message = (
            f"--checkpoint {checkpoint}: name a folder of this machine, or one that all machines mount; no address."
        )
        raise ParameterError(message)


@contextmanager
def alone_with(checkpoint: Path | None) -> Iterator[None]:
    """Have the folder of the checkpoint, if there is one, to this command: tables are made from it, too."""
    from crowdwise._core.atomic_io import exclusive_access
    from crowdwise.engines.spark.checkpoint import STATE

    if checkpoint is None:
        yield
        return
    how = f"What is learned is kept in {checkpoint}: the same command with --resume goes on from there."
    with goes_on(lambda: how if (checkpoint / STATE).exists() else ""), exclusive_access(checkpoint):
        yield


@contextmanager
def in_options() -> Iterator[None]:
    """Errors of the library with its arguments named as options."""
    try:
        yield
    except CrowdwiseError as error:
        raise type(error)(re.sub(_ARGUMENT, _option, str(error))) from error


def _option(found: re.Match[str]) -> str:
    """An argument as an option.

    >>> re.sub(_ARGUMENT, _option, "set them aside with bad='aside'; checkpoint=None: above broadcast_limit")
    'set them aside with --bad aside; --checkpoint: above --broadcast-limit'
    """
    name = f"--{(found[1] or found[3]).replace('_', '-')}"
    return f"{name} {found[2]}" if found[2] else name


def _place(path: str) -> str:
    """A path in full, an address as it is: what can be compared."""
    return path.rstrip("/") if "://" in path else os.path.abspath(path)  # noqa: PTH100 - globs and links stay


def refuse_results(spark: SparkSession, out: str) -> None:
    """Refuse a folder that holds results, before the work and not after it."""
    jvm: Any = spark._jvm
    for name in TABLES:
        path = jvm.org.apache.hadoop.fs.Path(f"{out.rstrip('/')}/{name}")
        if path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path):
            message = f"--out {out} holds results already ({name}). Name another folder, or replace them: --overwrite."
            raise ParameterError(message)


def await_machines(spark: SparkSession) -> None:
    """Say so when a cluster gives nothing to work on; Spark itself would wait without a word."""
    context: Any = spark.sparkContext
    if not context.master.startswith("spark://"):
        return
    end = time.monotonic() + _SLOW
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the driver counts as one
        if time.monotonic() > end:
            note("No machine of the cluster has joined yet. Are its workers up, with cores and memory to spare?")
            return
        time.sleep(0.1)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        message = f"--spark-conf {text}: write name=value, for example --spark-conf spark.executor.memory=8g."
        raise ParameterError(message)
    return name, value
