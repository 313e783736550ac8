"""`crowdwise aggregate --engine spark`: the same labels, computed by a cluster.

Addresses (folders, globs, s3a://...) are passed to Spark unchanged. Results are Parquet, one folder per table.
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

from crowdwise.cli.interruption import resume_hint
from crowdwise.cli.method_options import build, settings
from crowdwise.cli.options import refuse_same_file
from crowdwise.cli.screen import note, progress
from crowdwise.cli.spark_tables import (
    FORMATS,
    confident_share,
    file_format,
    gold_labels,
    pseudonymise_workers,
    read,
    scores,
    sizes,
)
from crowdwise.errors import CrowdwiseError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crowdwise.engines.spark.base import SparkModel


class Engine(StrEnum):
    """Where the labels are computed."""

    local = "local"
    spark = "spark"


class Bad(StrEnum):
    """What to do with invalid rows."""

    aside = "aside"
    error = "error"


ON_SPARK = "On Spark"  # heading of these options in --help
Where = Annotated[Engine, typer.Option("--engine", help="Where to compute: on this machine, or on a Spark cluster.")]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Address of the cluster, for example spark://HOST:7077. Default: this machine.",
        rich_help_panel=ON_SPARK,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="Save the state after each iteration to this folder.",
        rich_help_panel=ON_SPARK,
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", metavar="", help="Resume from --checkpoint, if it exists.", rich_help_panel=ON_SPARK)
]
Unusable = Annotated[
    Bad,
    typer.Option(
        "--bad",
        help="What to do with invalid rows: write them to the table `rejected` with the reason, or stop with an error.",
        rich_help_panel=ON_SPARK,
    ),
]
Parts = Annotated[
    int | None,
    typer.Option(
        "--parts",
        metavar="N",
        min=1,
        help="Number of partitions. Default: one per million answers, at least one per core.",
        rich_help_panel=ON_SPARK,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--broadcast-limit", metavar="N", min=1, rich_help_panel=ON_SPARK,
        help="Confusion matrices of up to this many numbers (workers x classes²) are sent to every executor; larger "
        "ones stay distributed. Default: 50,000,000.",
    ),
]  # fmt: skip
Overwrite = Annotated[
    bool, typer.Option("--overwrite", metavar="", help="Replace existing results in --out.", rich_help_panel=ON_SPARK)
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf", metavar="NAME=VALUE", help="Set a Spark property. Can be repeated.", rich_help_panel=ON_SPARK
    ),
]
UNSUPPORTED = {  # options that an engine does not support, with the reason
    Engine.spark: {
        "workers": "the table of the workers is written to the --out folder",
        "question": "run `crowdwise convert EXPORT answers.parquet` first",
        "nulls": "use --bad instead",
        "check": "the check runs on one machine only",
    },
    Engine.local: dict.fromkeys(
        ("master", "checkpoint", "resume", "bad", "parts", "broadcast_limit", "overwrite", "spark_conf"),
        "it needs --engine spark",
    ),
}
TABLES = ("labels", "workers", "classes", "confusion", "rejected", "fit")
_ARGUMENT = re.compile(  # an argument of the library in a message
    r"\b(task|worker|label|bad|duplicates|max_classes|checkpoint)=(?:'(\w+)'|None)?|\b(broadcast_limit)\b=?"
)
_SLOW = 30  # seconds without a worker machine after which a note is printed


def reject_unsupported(ctx: typer.Context, engine: Engine) -> None:
    """Reject options that the engine would ignore."""
    for name, why in UNSUPPORTED[engine].items():
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and ctx.params[name] is not False:
            message = f"--{name.replace('_', '-')} is not available with --engine {engine}: {why}."
            raise ParameterError(message)


def aggregate(
    files: Sequence[str], method: str, out: str | None, truth: Path | None, gold: Path | None,
    set_: list[str] | None, seed: int, *, format: str | None,
    columns: Mapping[str, str | None], duplicates: str, max_classes: int, master: str | None,
    checkpoint: Path | None, resume: bool, bad: str, parts: int | None, broadcast_limit: int | None,
    overwrite: bool, spark_conf: list[str] | None, pseudonymise: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Fit on Spark, write the tables, and return a summary."""
    from crowdwise.answers.pseudonyms import read_key
    from crowdwise.engines.spark.base import BROADCAST_LIMIT
    from crowdwise.engines.spark.session import session

    model = on_spark(build(method, settings(set_ or []), seed), method)
    check_target_folder(files, out)
    refuse_same_file([*map(Path, files), truth, gold], [], pseudonymise)
    check_truth_files(truth, gold)
    check_checkpoint(model, method, checkpoint, resume)
    kind = file_format(files, format)
    conf = dict(_pair(each) for each in spark_conf or [])
    with (
        lock_checkpoint(checkpoint),
        progress("Starting Spark") as step,
        option_names(),
        session(master, conf) as spark,
    ):
        wait_for_machines(spark)
        if out is not None and not (overwrite or resume):
            check_no_results(spark, out)
        step("Reading the answers")
        frame, roles = read(spark, files, kind, columns)
        frame = frame if pseudonymise is None else pseudonymise_workers(frame, roles, read_key(pseudonymise))
        start, most = time.perf_counter(), getattr(model.model, "max_iter", None)
        step("Encoding the answers")
        reading: dict[str, Any] = {
            **roles, "duplicates": duplicates, "bad": bad, "max_classes": max_classes, "parts": parts,
            "weight": "weight" if "weight" in frame.columns and "weight" not in roles.values() else None,
        }  # fmt: skip
        fixed, dropped = (None, {}) if gold is None else gold_labels(frame, roles, gold)
        model.fit(
            frame, **reading, gold=fixed, checkpoint=checkpoint and checkpoint.absolute(), resume=resume,
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
            "files": list(files), **sizes(model), "removed": {**model.removed_, **dropped}, "method": method,
            "engine": "spark", "master": spark.sparkContext.master, "parameters": model.model.get_params(),
            "iterations": model.n_iter_, "converged": model.converged_, "seconds": seconds,
            **confident_share(model), "written": written,
        }  # fmt: skip
        if truth is not None:
            step("Scoring")
            vote = model
            if method != "majority-vote":
                vote = on_spark(build("majority-vote", {}, seed), "majority-vote").fit(frame, **reading, gold=fixed)
            fixed = None if fixed is None else fixed.selectExpr(f"`{roles['task']}` as task")
            result["scores"] = scores({"majority-vote": vote, method: model}, truth, fixed)
        return result


def on_spark(local: Any, method: str) -> SparkModel:
    """Return the Spark model with the same name and parameters."""
    from crowdwise._core.registry import methods
    from crowdwise.engines import spark as engine
    from crowdwise.engines.spark.base import SparkModel

    models = [each for each in vars(engine).values() if isinstance(each, type) and issubclass(each, SparkModel)]
    kinds = {each.local: each for each in models if "local" in vars(each)}
    if type(local) not in kinds:
        names = {each.__name__ for each in kinds}
        there = ", ".join(each.name for each in methods() if each.home.rpartition(":")[2] in names)
        message = f"{method} does not run on Spark. These methods do: {there}."
        raise ParameterError(message)
    return kinds[type(local)](**local.get_params(deep=False))


def check_target_folder(files: Iterable[str], out: str | None) -> None:
    """Reject a target inside the answers, and a target that is a file."""
    if out is None:
        return
    if Path(out).suffix in (*FORMATS, ".json"):
        message = f"--out {out}: Spark writes several tables. Name a folder, such as results/."
        raise ParameterError(message)
    target = _place(out)
    for file in files:
        if target == _place(file) or fnmatch(target, _place(file)) or fnmatch(target, f"{_place(file)}/*"):
            message = f"--out {out} is inside {file}, which holds the answers. Choose another folder."
            raise ParameterError(message)


def check_truth_files(*paths: Path | None) -> None:
    """Reject files of known labels that cannot be read, before the work starts."""
    from crowdwise.io.reader import read_truth

    for file in paths:
        if file is not None:
            read_truth(file)


def check_checkpoint(model: SparkModel, method: str, checkpoint: Path | None, resume: bool) -> None:
    """Reject a checkpoint folder that cannot be used."""
    from crowdwise.engines.spark.base import SparkModel

    if checkpoint is None:
        if resume:
            message = "--resume needs --checkpoint FOLDER."
            raise ParameterError(message)
        return
    if type(model)._fit_parameters is SparkModel._fit_parameters:
        message = f"--checkpoint applies to iterative methods; {method} does not iterate."
        raise ParameterError(message)
    if re.match(r"[a-z][\w+.-]+:/", str(checkpoint)):
        message = f"--checkpoint {checkpoint} is an address. Name a folder on this machine or on a shared mount."
        raise ParameterError(message)


@contextmanager
def lock_checkpoint(checkpoint: Path | None) -> Iterator[None]:
    """Lock the checkpoint folder for this command: the tables are made from it, too."""
    from crowdwise._core.atomic_io import exclusive_access
    from crowdwise.engines.spark.checkpoint import STATE

    if checkpoint is None:
        yield
        return
    hint = f"The state is saved in {checkpoint}. Rerun the command with --resume to continue."
    with resume_hint(lambda: hint if (checkpoint / STATE).exists() else ""), exclusive_access(checkpoint):
        yield


@contextmanager
def option_names() -> Iterator[None]:
    """Write the arguments in errors of the library as command line options."""
    try:
        yield
    except CrowdwiseError as error:
        raise type(error)(re.sub(_ARGUMENT, _option, str(error))) from error


def _option(found: re.Match[str]) -> str:
    """Return an argument as an option.

    >>> re.sub(_ARGUMENT, _option, "set them aside with bad='aside'; checkpoint=None: above broadcast_limit")
    'set them aside with --bad aside; --checkpoint: above --broadcast-limit'
    """
    name = f"--{(found[1] or found[3]).replace('_', '-')}"
    return f"{name} {found[2]}" if found[2] else name


def _place(path: str) -> str:
    """Return an absolute path, or an address unchanged, for comparison."""
    return path.rstrip("/") if "://" in path else os.path.abspath(path)  # noqa: PTH100 - keeps globs and links


def check_no_results(spark: SparkSession, out: str) -> None:
    """Reject a folder that already holds results, before the work starts."""
    jvm: Any = spark._jvm
    for name in TABLES:
        path = jvm.org.apache.hadoop.fs.Path(f"{out.rstrip('/')}/{name}")
        if path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path):
            message = f"--out {out} already holds results ({name}). Name another folder, or use --overwrite."
            raise ParameterError(message)


def wait_for_machines(spark: SparkSession) -> None:
    """Print a note if no worker machine joins; Spark itself would wait silently."""
    context: Any = spark.sparkContext
    if not context.master.startswith("spark://"):
        return
    end = time.monotonic() + _SLOW
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the driver counts as one
        if time.monotonic() > end:
            note("No worker machine has joined yet. Check that the cluster has workers with free cores and memory.")
            return
        time.sleep(0.1)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        message = f"--spark-conf {text}: expected NAME=VALUE, for example --spark-conf spark.executor.memory=8g."
        raise ParameterError(message)
    return name, value
