"""Truth inference on Apache Spark: the same models with the same results, for answers that fit on no single machine.

>>> import crowdwise.engines.spark as engine                                          # doctest: +SKIP
>>> model = engine.DawidSkene().fit(spark.read.parquet("answers/"))                   # doctest: +SKIP
>>> model.labels.show()                                                               # doctest: +SKIP
>>> model.write("results/")                                                           # doctest: +SKIP
"""

from crowdwise.engines.spark.agreement_counts import Agreement, agreement, alpha
from crowdwise.engines.spark.models import GLAD, IBCC, WDS, DawidSkene, MajorityVote, NaiveSoft, OneCoin

__all__ = [
    "GLAD",
    "IBCC",
    "WDS",
    "Agreement",
    "DawidSkene",
    "MajorityVote",
    "NaiveSoft",
    "OneCoin",
    "agreement",
    "alpha",
]
