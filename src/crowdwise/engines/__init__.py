"""The same truth inference where the answers are too many for one machine: `crowdwise.engines.spark`."""

import gc
import sys

from crowdwise.engines import spark

__all__ = ["spark"]

if getattr(sys.modules["__main__"].__spec__, "name", None) == "pyspark.daemon":
    # Spark's Python workers collect garbage after each task, and would look through all modules: a tenth of a second.
    gc.freeze()
