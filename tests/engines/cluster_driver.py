"""A driver on a cluster, in a process of its own: fits Dawid-Skene, and has one machine die in the midst of it.

Called by test_cluster.py as: cluster_driver.py MASTER ANSWERS.parquet RESULT.json PROCESS_GROUP_TO_KILL.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from crowdwise.engines import spark as engine


def main(master, answers, result, victim):
    from pyspark.sql import SparkSession
    from spark_session import QUICK

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
        return spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver counts as one

    for _ in range(600):  # both take part from the beginning
        if n_machines() == 2:
            break
        time.sleep(0.1)
    machines = []

    def kill(iteration, bound):
        if iteration == 2:
            machines.append(n_machines())
            os.killpg(int(victim), signal.SIGKILL)

    model = engine.DawidSkene(max_iter=6, tol=0).fit(spark.read.parquet(answers), parts=4, callback=kill)
    labels = [(row.task, row.label, row.proba) for row in model.labels.sort("task").collect()]
    machines.append(n_machines())
    Path(result).write_text(json.dumps({"history": model.history_, "labels": labels, "machines": machines}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
