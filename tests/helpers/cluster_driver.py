"""A Spark driver in its own process: fits Dawid-Skene twice while machines of the cluster are killed.

Called by test_cluster.py as: cluster_driver.py MASTER FOLDER SURVIVOR VICTIM. The last two are process ids of Spark
workers.

    broadcast  the victim and its executor are killed: one of two machines is lost for good
    joined     the survivor's executor is killed: everything in the cluster's memory is lost, and a new one starts
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from crowdwise.engines import spark as engine


def main(master, folder, survivor, victim):
    from pyspark.sql import SparkSession

    from tests.helpers.spark_session import QUICK

    builder = SparkSession.builder.master(master)
    cluster = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.cores.max": "2",
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "1s",
    }
    for name, value in {**QUICK, **cluster}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    def n_machines():
        return spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # without the driver

    def wait_for(n):
        for _ in range(1200):
            if n_machines() == n:
                return
            time.sleep(0.1)
        sys.exit(f"{n_machines()} machines where {n} were expected")

    def kill_victim(iteration, bound):
        if iteration == 1:
            os.killpg(int(victim), signal.SIGKILL)
            wait_for(1)

    def kill_executor(iteration, bound):
        if iteration == 1:
            os.kill(executor_of(survivor), signal.SIGKILL)

    answers, found = spark.read.parquet(f"{folder}/answers.parquet"), {}
    wait_for(2)  # both take part from the start
    for name, options in {
        "broadcast": {"parts": 4, "callback": kill_victim},
        "joined": {"parts": 2, "callback": kill_executor, "broadcast_limit": 54, "checkpoint": f"{folder}/blocks"},
    }.items():
        model = engine.DawidSkene(max_iter=3, tol=0).fit(answers, **options)
        labels = [(row.task, row.label, row.proba) for row in model.labels.sort("task").collect()]
        found[name] = {"history": model.history_, "labels": labels, "machines": n_machines()}
        model.release()
    Path(folder, "result.json").write_text(json.dumps(found))
    spark.stop()


def executor_of(worker):
    """Return the process id of the executor of a Spark worker."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == worker and b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                return int(process.name)
        except OSError:  # it has ended
            continue
    return sys.exit("no executor to kill")


if __name__ == "__main__":
    main(*sys.argv[1:])
