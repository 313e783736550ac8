"""Settings of small Spark sessions, and whether there can be one."""

import os
import shutil
import sys

import pytest

QUICK = {  # little data: planning and compiling would take longer than the work
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}


def need_spark():
    pytest.importorskip("pyspark", reason="pyspark is NOT installed: the Spark engine is not tested here")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is NOT installed: the Spark engine is not tested here (it needs Java 17 or later)")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    return SparkSession
