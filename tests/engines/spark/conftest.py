"""One small Spark session for all tests of the engine; without Java they are skipped."""

import numpy as np
import pytest

from crowdwise import Answers, simulate
from tests.helpers.spark_session import QUICK, need_spark


def pytest_collection_modifyitems(items):
    """Run all in one xdist process (`--dist loadgroup`), so that Spark starts once."""
    for item in items:
        if "engines" in item.path.parts and "tests" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    builder = need_spark().builder.master("local[2]")
    folder = str(tmp_path_factory.mktemp("spark"))
    for name, value in {**QUICK, "spark.local.dir": folder, "spark.sql.warehouse.dir": folder}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def answers():
    """Text ids for tasks and workers, classes not in alphabetical order, and ties among the votes."""
    drawn = simulate.simulate(n_tasks=120, n_workers=11, n_classes=3, answers_per_task=3, seed=1)
    names = np.array(["owl", "cat", "dog"])
    return Answers.from_arrays(
        [f"t{task}" for task in drawn.task], [f"w{worker}" for worker in drawn.worker], names[drawn.label]
    )


@pytest.fixture(scope="session")
def frame(spark, answers):
    """The same answers as a DataFrame with shuffled rows."""
    table = answers.to_arrow()
    return spark.createDataFrame(table.take(np.random.default_rng(0).permutation(len(table)))).persist()
