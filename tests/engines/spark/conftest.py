"""The answers that the tests of the Spark engine share; the session is in `tests/helpers/spark_fixtures.py`."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def answers(spark_answers):
    return spark_answers


@pytest.fixture(scope="session")
def frame(spark, answers):
    """The same answers as a DataFrame with shuffled rows."""
    table = answers.to_arrow()
    return spark.createDataFrame(table.take(np.random.default_rng(0).permutation(len(table)))).persist()
