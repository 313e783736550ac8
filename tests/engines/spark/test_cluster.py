"""A real cluster on this machine: a master and two workers in their own processes, killed during the fit."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import crowdwise as cw
from tests.helpers.spark_session import free_port, left_behind, need_spark


def wait_for(port, process, seconds=60):
    for _ in range(seconds * 10):
        assert process.poll() is None, "the master ended"
        with closing(socket.socket()) as opened:
            if opened.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the master does not answer")


@contextmanager
def service(name, *arguments, folder):
    """A Spark process in its own process group, which ends with the block."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "SPARK_NO_DAEMONIZE": "1",
    }  # fmt: skip
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with (folder / f"{name}.log").open("a") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.slow
def test_losing_machines_during_a_fit_does_not_change_the_result(answers, tmp_path):
    need_spark()
    port = free_port()
    url, here = f"spark://127.0.0.1:{port}", ("--host", "127.0.0.1", "--webui-port", "0")
    pq.write_table(answers.to_arrow(), tmp_path / "answers.parquet")
    with ExitStack() as stack:
        master = stack.enter_context(service("master.Master", *here, "--port", str(port), folder=tmp_path))
        wait_for(port, master)
        size = ("--cores", "1", "--memory", "600m")
        machines = [
            stack.enter_context(
                service("worker.Worker", *here, *size, "-d", str(tmp_path / f"work{i}"), url, folder=tmp_path)
            )
            for i in range(2)
        ]
        root = Path(__file__).parents[3]
        command = [
            sys.executable,
            "-m",
            "tests.helpers.cluster_driver",
            url,
            str(tmp_path),
            *(str(machine.pid) for machine in machines),
        ]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        assert machines[0].poll() is None and machines[1].wait(600) == -signal.SIGKILL
    assert not left_behind(tmp_path)
    local = cw.DawidSkene(max_iter=3, tol=0).fit(answers)
    found = json.loads((tmp_path / "result.json").read_text())
    assert list(found) == ["broadcast", "joined"]
    for way in found.values():
        assert way["machines"] == 1
        np.testing.assert_allclose(way["history"], local.history_, rtol=1e-10)
        task, label, proba = zip(*way["labels"], strict=True)
        assert list(task) == local.tasks_.tolist() and list(label) == local.labels_.tolist()
        np.testing.assert_allclose(np.array(proba), local.proba_, atol=1e-8)
