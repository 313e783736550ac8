"""Truth inference for answers that do not fit on one machine: `crowdwise.engines.spark`."""

import gc
import sys

from crowdwise.engines import spark

__all__ = ["spark"]

if getattr(sys.modules["__main__"].__spec__, "name", None) == "pyspark.daemon":
    # Spark's Python workers collect garbage after each task. Freezing keeps them from scanning all modules each time,
    # which takes a tenth of a second.
    gc.freeze()
