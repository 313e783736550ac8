"""The Spark session of the command line: it uses this Python, is quiet, and turns errors into short messages.

By default Spark logs to the terminal and fails with Java tracebacks. Here Java's log goes to a temporary file, and an
error becomes one sentence that says what to do.
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

from crowdwise._core.installation import install_command
from crowdwise.errors import MissingDependencyError, ParameterError, SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17  # the oldest version that Spark 4 supports
_INSTALL_JAVA = f"install Java {JAVA} or later (apt install openjdk-{JAVA}-jre-headless), or set JAVA_HOME"
SHARED_WORKERS = {
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1"
}  # as SQL sets it, so that RDDs and SQL share Python workers
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
_REMEDIES = {  # a pattern in Spark's message, and what the user can do about it
    r"No module named 'crowdwise": "crowdwise is not installed for the Python of the cluster. Install it on every "
    "machine, and set PYSPARK_PYTHON to that Python.",
    r"PYTHON_VERSION_MISMATCH|different minor version": "the cluster has another Python version than this machine. "
    "Set PYSPARK_PYTHON to the path of the same version on the cluster.",
    r"Cannot run program": "the cluster does not find Python. Set PYSPARK_PYTHON to its path there.",
    r"No FileSystem for scheme|S3AFileSystem not found": "Spark has no driver for this kind of address. For s3a:// add "
    "--spark-conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, with the version of Spark's Hadoop.",
    r"OutOfMemoryError|GC overhead": "Java ran out of memory. Give it more: --spark-conf spark.executor.memory=8g, and "
    "spark.driver.memory=8g for the driver or a local master.",
    r"No space left on device": "no space left on device, in the output folder or in Spark's own (spark.local.dir). "
    "Free some space and try again.",
    r"Permission denied|Mkdirs failed|AccessControlException": "the output folder, or Spark's own (spark.local.dir), "
    "is not writable. Use another one.",
    r"Could not parse Master URL|Master must either be|invalid master": "the address of the master is invalid. "
    "Use local[2], spark://HOST:7077, yarn or k8s://...",
}


@contextmanager
def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Yield the active Spark session, or a new one that ends with the block.

    Parameters
    ----------
    master : str, optional
        Address of the cluster, or `local[cores]`; by default Spark's own setting, which is all cores of this machine.
    settings : mapping, optional
        Spark settings by name.
    """
    need_spark()
    from pyspark import SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    active = SparkContext._active_spark_context
    if active is not None:
        if settings or master not in (None, active.master):
            message = f"a Spark session on {active.master} is already active. Stop it, or omit --master and settings."
            raise ParameterError(message)
        with translate_spark_errors():
            yield SparkSession.builder.getOrCreate()
        return
    need_java()
    check_master(master)
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # they would repeat errors as JSON
        PySparkLogger.getLogger(name).disabled = True
    logging.getLogger("py4j").addHandler(logging.NullHandler())  # else stopping a command shows a traceback
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile("w+") as log, translate_spark_errors():
        context = _start(master, settings or {}, log)
        try:
            with translate_spark_errors():  # it queries Java about the error, so Java must still run
                context.setLogLevel("ERROR")
                yield SparkSession.builder.getOrCreate()
        finally:
            _stop(context)


def _start(master: str | None, settings: Mapping[str, str], log: Any) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    defaults = {"spark.app.name": "crowdwise", "spark.ui.showConsoleProgress": "false", **SHARED_WORKERS}
    if master is not None:
        defaults |= {"spark.master": master}
    if master is None or master.startswith("local"):
        defaults |= _LOCAL_SETTINGS
    if cores := local_cores(master):  # Spark's default of 200 would cost a Python task each
        defaults |= {"spark.sql.shuffle.partitions": str(cores)}
    conf = SparkConf().setAll(list({**defaults, **settings}.items()))
    try:
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError:
        log.seek(0)
        errors = [line.strip() for line in log if re.search("error|exception", line, re.IGNORECASE)]
        reason = error_message(errors[0]).removeprefix("Spark: ") if errors else "Java printed no error."
        message = f"Spark does not start: {reason}"
        raise SparkError(message) from None
    try:
        with translate_spark_errors():  # it queries Java about the error, before Java ends
            return SparkContext(conf=conf, gateway=gateway)
    except BaseException:
        _end(gateway)
        raise


def local_cores(master: str | None) -> int | None:
    """Return the cores that a local master uses; None for a cluster, or if Spark's settings name the master.

    >>> local_cores("local"), local_cores("local[3]"), local_cores("local[3, 2]"), local_cores("spark://host:7077")
    (1, 3, 3, None)
    """
    local = re.fullmatch(r"local(?:\[\s*(\*|\d+)\s*(?:,.*)?\])?", master or "")
    if local is None:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)


def _stop(context: Any) -> None:
    """Stop Spark and wait until Java has ended: a later session of this process starts its own."""
    gateway = context._gateway
    context.stop()
    _end(gateway)


def _end(gateway: Any) -> None:
    from pyspark import SparkContext

    gateway.shutdown()
    process = gateway.proc
    if process is not None:  # None under spark-submit, where Java started this Python
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = SparkContext._jvm = None


def need_spark() -> None:
    """Raise MissingDependencyError without pyspark."""
    if find_spec("pyspark") is None:
        message = f"the Spark engine needs pyspark: {install_command('spark')}."
        raise MissingDependencyError(message)


def need_java() -> None:
    """Raise MissingDependencyError without a Java version that Spark supports."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if home is None else shutil.which(str(Path(home) / "bin" / "java"))
    if java is None:
        where = "is not installed" if home is None else f"is not in JAVA_HOME={home}"
        message = f"Spark needs Java, which {where}: {_INSTALL_JAVA}."
        raise MissingDependencyError(message)
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version and int(version[1]) < JAVA:
        message = f"{java} is Java {version[1]}, too old for Spark: {_INSTALL_JAVA}."
        raise MissingDependencyError(message)


def check_master(master: str | None, seconds: float = 5.0) -> None:
    """Raise SparkError if a standalone master does not answer; Spark itself would retry for a minute or more."""
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
    message = f"no Spark master answers at {master} ({'; '.join(failures)}). Check the address and that it is running."
    raise SparkError(message)


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Turn Spark's errors into SparkError with a short message; the original is its cause."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise SparkError(error_message(str(error))) from error
    except Py4JJavaError as error:
        raise SparkError(error_message(_causes(error.java_exception))) from error
    except (Py4JError, ConnectionError) as error:
        message = f"Spark's Java process has ended ({error}). The system may have run out of memory."
        raise SparkError(message) from error


def _causes(error: Any) -> str:
    """Return the messages of a Java exception and its causes, the root cause last."""
    messages: list[str] = []
    while error is not None and len(messages) < 10:
        messages.append(str(error.toString()))
        error = error.getCause()
    return "\n".join(messages)


def error_message(text: str) -> str:
    r"""Return the remedy for Spark's error text, or its most informative line.

    >>> error_message("[PATH_NOT_FOUND] Path does not exist: file:/x.parquet. SQLSTATE: 42K03")
    'Spark: Path does not exist: file:/x.parquet.'
    >>> error_message("Job aborted\nTraceback (most recent call last):\n  File x\nValueError: no\n\n\tat java.lang")
    'Spark: ValueError: no'
    """
    for pattern, remedy in _REMEDIES.items():
        if re.search(pattern, text):
            return f"Spark: {remedy}"
    python = re.search(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", text)
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"\s*at |\s*\.\.\. ", line)]
    line = python[1] if python else (lines[-1] if "\n" in text and "Exception" in lines[-1] else lines[0])
    line = line.strip().removeprefix('Exception in thread "main" ')
    return "Spark: " + re.sub(r"^\[[A-Z_.0-9]+\] *|^(?:[\w$]+\.)+\w+: | SQLSTATE: \w+$", "", line)
