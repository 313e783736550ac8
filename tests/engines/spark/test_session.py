"""The Spark session of the command line: missing dependencies, error messages, and an active session."""

import os
import re
import sys
from types import SimpleNamespace

import pytest

from crowdwise._core.installation import install_command
from crowdwise.engines import spark as engine
from crowdwise.engines.spark import session
from crowdwise.errors import MissingDependencyError, ParameterError, SparkError
from tests.helpers.spark_session import free_port, need_spark


def test_without_pyspark_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("spark"))), session.session():
        pass
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("spark"))):
        engine.MajorityVote().fit(None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("spark"))):
        engine.alpha(None)


def test_without_java_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="not installed: install Java 17"):
        session.need_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=f"not in JAVA_HOME={tmp_path}"):
        session.need_java()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write('openjdk version \"1.8.0_392\"')\n")
    java.chmod(0o755)
    with pytest.raises(MissingDependencyError, match="is Java 8, too old"):
        session.need_java()
    java.write_text(java.read_text().replace("1.8.0_392", "21.0.1"))
    session.need_java()


def test_a_master_that_does_not_answer_raises_at_once():
    address = f"spark://127.0.0.1:{free_port()}"
    with pytest.raises(SparkError, match=f"no Spark master answers at {address}"):
        session.check_master(address)
    with pytest.raises(SparkError, match="no Spark master answers"):
        session.check_master("spark://nowhere")
    session.check_master("local[2]")  # nothing to connect to


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ModuleNotFoundError: No module named 'crowdwise'", "Install it on every machine"),
        ('java.io.IOException: Cannot run program "/opt/python3": error=2', "PYSPARK_PYTHON"),
        ("[UNSUPPORTED] No FileSystem for scheme: s3a", "hadoop-aws"),
        ("java.lang.OutOfMemoryError: Java heap space", "spark.executor.memory"),
        ("org.apache.spark.SparkException: Could not parse Master URL: 'x'", "address of the master is invalid"),
        (
            "org.apache.spark.SparkException: Master must either be yarn or start with spark, k8s, or local",
            "address of the master is invalid",
        ),
        ('Exception in thread "main" java.net.BindException: in use', "Spark: in use"),
        ("Stage failed\norg.apache.spark.SparkException: disk is full", "Spark: disk is full"),
    ],
)
def test_spark_errors_become_short_messages(text, expected):
    assert expected in session.error_message(text)


def test_a_failed_start_reads_the_error_from_java_before_java_ends(monkeypatch):
    need_spark()
    import pyspark
    from py4j.protocol import Py4JJavaError
    from pyspark import java_gateway

    asked = []

    def refuse(**_):
        said = {"toString": lambda: asked.append("Java") or "SparkException: Could not parse Master URL: 'local[x]'"}
        raise Py4JJavaError("", SimpleNamespace(_target_id="o1", getCause=lambda: None, **said))

    monkeypatch.setattr(java_gateway, "launch_gateway", lambda conf, streams: None)
    monkeypatch.setattr(pyspark, "SparkContext", refuse)
    monkeypatch.setattr(session, "_end", lambda gateway: asked.append("end"))
    with pytest.raises(SparkError, match="address of the master is invalid"), session.translate_spark_errors():
        session._start("local[x]", {}, None)
    assert asked == ["Java", "end"]


def test_an_error_in_a_session_is_read_from_java_before_java_ends(monkeypatch):
    need_spark()
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    there = ["Java"]

    def say():
        assert there, "Connection refused"
        return "java.io.IOException: No space left on device"

    error = Py4JJavaError("", SimpleNamespace(_target_id="o1", getCause=lambda: None, toString=say))
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkSession, "builder", SimpleNamespace(getOrCreate=lambda: None))
    monkeypatch.setattr(session, "_start", lambda *_: SimpleNamespace(setLogLevel=lambda level: None))
    monkeypatch.setattr(session, "_stop", lambda context: there.clear())
    with pytest.raises(SparkError, match=r"no space left on device.*Free some space"), session.session():
        raise error
    assert not there


def test_an_active_session_is_used_and_not_stopped(spark):
    with session.session("local[2]") as used:
        assert used.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3
    for other in ({"master": "local[1]"}, {"settings": {"spark.executor.memory": "1g"}}):
        with pytest.raises(ParameterError, match="already active"), session.session(**other):
            pass
    with pytest.raises(SparkError, match="Path does not exist"), session.session():
        spark.read.parquet("/nowhere/at/all.parquet")


def test_python_workers_are_shared_and_freeze_imported_modules(spark):
    def in_rdd(_):
        import gc

        import crowdwise.engines  # noqa: F401 - as every Spark task of the engine does

        return os.getppid(), gc.get_freeze_count()

    def in_sql(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"parent": [os.getppid()]})

    parent, frozen = spark.sparkContext.parallelize([0], 1).map(in_rdd).first()
    assert frozen > 10_000
    assert spark.range(1, numPartitions=1).mapInArrow(in_sql, "parent long").first().parent == parent


def test_the_tests_use_this_python():
    need_spark()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
