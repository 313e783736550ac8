"""Settings of small Spark sessions, and a skip if Spark cannot start."""

import os
import shutil
import socket
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from crowdwise.engines.spark.session import SHARED_WORKERS

QUICK = {  # for little data, where planning and code generation would take longer than the work
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    **SHARED_WORKERS,
}


def need_spark():
    pytest.importorskip("pyspark", reason="pyspark is NOT installed: the Spark engine is not tested here")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is NOT installed: the Spark engine is not tested here (it needs Java 17 or later)")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    return SparkSession


def left_behind(folder, seconds=60):
    """Return the processes that use a folder (by their arguments or environment) after time to end."""
    for _ in range(seconds * 10):
        found = [process for process in Path("/proc").glob("[0-9]*") if _names(process, str(folder).encode())]
        if not found:
            return []
        time.sleep(0.1)
    return [(process / "cmdline").read_text() for process in found]


def _names(process, folder):
    if int(process.name) == os.getpid():
        return False
    try:
        return folder in (process / "cmdline").read_bytes() or folder in (process / "environ").read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return False


def free_port():
    with closing(socket.socket()) as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]
