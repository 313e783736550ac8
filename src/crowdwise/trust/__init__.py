"""May this number be believed? Estimates with intervals, and tests of who may replace whom.

>>> import numpy as np
>>> from crowdwise import simulate, trust
>>> answers = simulate.simulate(1000, n_classes=2, seed=2)
>>> gold = np.where(np.arange(1000) % 10 == 0, answers.truth, -1)
>>> trust.estimate(answers, gold).n_gold
100
"""

from crowdwise.trust.alternative_annotator import (
    AlternativeAnnotatorTest,
    PersonComparison,
    alternative_annotator_test,
)
from crowdwise.trust.estimates import TrustEstimates, estimate
from crowdwise.trust.ppi import Interval, IntervalEstimate, ppi_mean

__all__ = [
    "AlternativeAnnotatorTest",
    "Interval",
    "IntervalEstimate",
    "PersonComparison",
    "TrustEstimates",
    "alternative_annotator_test",
    "estimate",
    "ppi_mean",
]
