"""A Spark session as the command line needs it: on this Python, quiet, and with errors that say what to mend.

Spark writes to the terminal what it has to say, and dies with the traceback of Java. Here Java's messages go to a file
that is gone with the session, and what a user can mend is said in a sentence.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.errors import MissingDependencyError, ParameterError, SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17  # the oldest that Spark 4 runs on
_INSTALL_JAVA = f"install Java {JAVA} or later (apt install openjdk-{JAVA}-jre-headless), or say where it is: JAVA_HOME"
ONE_POOL = {"spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1"}  # as in SQL: else RDDs have workers apart
_AT_HOME = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
_REMEDIES = {  # what Spark says, and what a user can do about it
    r"No module named 'crowdwise": "crowdwise is not installed for the Python of the cluster. Install it on every "
    "machine, and set PYSPARK_PYTHON to that Python.",
    r"PYTHON_VERSION_MISMATCH|different minor version": "the Python of the cluster is another version than this one. "
    "Set PYSPARK_PYTHON to the path, on the cluster, of the same version.",
    r"Cannot run program": "the cluster does not find Python. Set PYSPARK_PYTHON to its path there.",
    r"No FileSystem for scheme|S3AFileSystem not found": "Spark lacks what reads such addresses. For s3a:// add "
    "--spark-conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, with the version of Spark's Hadoop.",
    r"OutOfMemoryError|GC overhead": "Java ran out of memory. Give it more: --spark-conf spark.executor.memory=8g, and "
    "spark.driver.memory=8g for the driver or a local master.",
    r"No space left on device": "no space left on device, where tables go or in Spark's own folder (spark.local.dir). "
    "Make room there, and try again.",
    r"Permission denied|Mkdirs failed|AccessControlException": "the folder of the tables, or Spark's own "
    "(spark.local.dir), may not be written to. Name another one.",
    r"Could not parse Master URL|Master must either be|invalid master": "what is given is no address of a master. "
    "Write local[2], spark://HOST:7077, yarn or k8s://...",
}


@contextmanager
def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Give a session: the one that is there, or a new one that ends with the block.

    Parameters
    ----------
    master : str, optional
        Address of the cluster, or `local[cores]`; Spark's own setting when not given, which is all cores of here.
    settings : mapping, optional
        Settings of Spark by name.
    """
    need_spark()
    from pyspark import SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    there = SparkContext._active_spark_context
    if there is not None:
        if settings or master not in (None, there.master):
            message = (
                f"a Spark session on {there.master} is there already: stop it, or leave --master and settings out."
            )
            raise ParameterError(message)
        with in_plain_words():
            yield SparkSession.builder.getOrCreate()
        return
    need_java()
    reach(master)
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # else errors are told as JSON too
        PySparkLogger.getLogger(name).disabled = True
    logging.getLogger("py4j").addHandler(logging.NullHandler())  # else a command that is stopped shows a traceback
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile("w+") as log, in_plain_words():
        context = _start(master, settings or {}, log)
        try:
            with in_plain_words():  # Java is asked what was wrong: it has to be there still
                context.setLogLevel("ERROR")
                yield SparkSession.builder.getOrCreate()
        finally:
            _stop(context)


def _start(master: str | None, settings: Mapping[str, str], log: Any) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    usual = {"spark.app.name": "crowdwise", "spark.ui.showConsoleProgress": "false", **ONE_POOL}
    if master is not None:
        usual |= {"spark.master": master}
    if master is None or master.startswith("local"):
        usual |= _AT_HOME
    if cores := cores_here(master):  # each of 200 parts, Spark's default, would cost a task of Python
        usual |= {"spark.sql.shuffle.partitions": str(cores)}
    conf = SparkConf().setAll(list({**usual, **settings}.items()))
    try:
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError:
        log.seek(0)
        said = [line.strip() for line in log if re.search("error|exception", line, re.IGNORECASE)]
        why = sentence(said[0]).removeprefix("Spark: ") if said else "Java said nothing."
        message = f"Spark does not start: {why}"
        raise SparkError(message) from None
    try:
        with in_plain_words():  # which asks Java what was wrong, and has to do so before the end
            return SparkContext(conf=conf, gateway=gateway)
    except BaseException:
        _end(gateway)
        raise


def cores_here(master: str | None) -> int | None:
    """Cores that a local master uses; None for a cluster, or where Spark's own settings name the master.

    >>> cores_here("local"), cores_here("local[3]"), cores_here("local[3, 2]"), cores_here("spark://host:7077")
    (1, 3, 3, None)
    """
    local = re.fullmatch(r"local(?:\[\s*(\*|\d+)\s*(?:,.*)?\])?", master or "")
    if local is None:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)


def _stop(context: Any) -> None:
    """Stop, and wait until Java is gone: a later session of this process starts its own."""
    gateway = context._gateway
    context.stop()
    _end(gateway)


def _end(gateway: Any) -> None:
    from pyspark import SparkContext

    gateway.shutdown()
    process = gateway.proc
    if process is not None:  # none under spark-submit, which is Java's parent of this Python
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = SparkContext._jvm = None


def need_spark() -> None:
    """Refuse to go on without pyspark."""
    if find_spec("pyspark") is None:
        message = "the Spark engine needs pyspark: pip install 'crowdwise[spark]'."
        raise MissingDependencyError(message)


def need_java() -> None:
    """Refuse to go on without a Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if home is None else shutil.which(str(Path(home) / "bin" / "java"))
    if java is None:
        where = "is not installed" if home is None else f"is not in JAVA_HOME={home}"
        message = f"Spark needs Java, which {where}: {_INSTALL_JAVA}."
        raise MissingDependencyError(message)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version and int(version[1]) < JAVA:
        message = f"{java} is Java {version[1]}, too old for Spark: {_INSTALL_JAVA}."
        raise MissingDependencyError(message)


def reach(master: str | None, seconds: float = 5.0) -> None:
    """Refuse a standalone master that does not answer: Spark itself would try for a minute or more."""
    if master is None or not master.startswith("spark://"):
        return
    failures = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), seconds).close()
        except (OSError, ValueError, OverflowError) as error:
            failures.append(f"{address}: {error}")
        else:
            return
    message = f"no Spark master answers at {master} ({'; '.join(failures)}). Is it running, and the address right?"
    raise SparkError(message)


@contextmanager
def in_plain_words() -> Iterator[None]:
    """Errors of Spark as a sentence; the original is kept as the cause."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise SparkError(sentence(str(error))) from error
    except Py4JJavaError as error:
        raise SparkError(sentence(_whole(error.java_exception))) from error
    except (Py4JError, ConnectionError) as error:
        message = f"Spark's Java process is gone ({error}). Did the system run out of memory?"
        raise SparkError(message) from error


def _whole(error: Any) -> str:
    """What a Java exception and its causes say, the first cause last."""
    said: list[str] = []
    while error is not None and len(said) < 10:
        said.append(str(error.toString()))
        error = error.getCause()
    return "\n".join(said)


def sentence(said: str) -> str:
    r"""What to do about what Spark says, or the line of it that matters.

    >>> sentence("[PATH_NOT_FOUND] Path does not exist: file:/x.parquet. SQLSTATE: 42K03")
    'Spark: Path does not exist: file:/x.parquet.'
    >>> sentence("Job aborted\nTraceback (most recent call last):\n  File x\nValueError: no\n\n\tat java.lang")
    'Spark: ValueError: no'
    """
    for pattern, remedy in _REMEDIES.items():
        if re.search(pattern, said):
            return f"Spark: {remedy}"
    python = re.search(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", said)
    lines = [line for line in said.splitlines() if line.strip() and not re.match(r"\s*at |\s*\.\.\. ", line)]
    line = python[1] if python else (lines[-1] if "\n" in said and "Exception" in lines[-1] else lines[0])
    line = line.strip().removeprefix('Exception in thread "main" ')
    return "Spark: " + re.sub(r"^\[[A-Z_.0-9]+\] *|^(?:[\w$]+\.)+\w+: | SQLSTATE: \w+$", "", line)
