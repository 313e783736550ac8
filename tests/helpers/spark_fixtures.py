"""The Spark session that all tests of one process share. `tests/conftest.py` loads this module as a plugin."""

import pytest

from tests.helpers.spark_session import QUICK, need_spark


def pytest_collection_modifyitems(items):
    """Run all Spark tests in one xdist process (`--dist loadgroup`), so that Spark starts once."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One small session; without Java the test is skipped."""
    builder = need_spark().builder.master("local[2]")
    folder = str(tmp_path_factory.mktemp("spark"))
    for name, value in {**QUICK, "spark.local.dir": folder, "spark.sql.warehouse.dir": folder}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_answers():
    """Text ids for tasks and workers, classes not in alphabetical order, and ties among the votes."""
    import numpy as np

    from crowdwise import Answers, simulate

    drawn = simulate.simulate(n_tasks=120, n_workers=11, n_classes=3, answers_per_task=3, seed=1)
    names = np.array(["owl", "cat", "dog"])
    return Answers.from_arrays(
        [f"t{task}" for task in drawn.task], [f"w{worker}" for worker in drawn.worker], names[drawn.label]
    )
