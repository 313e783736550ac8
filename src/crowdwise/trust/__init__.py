"""May this number be believed? Estimates with intervals, and tests of who may replace whom."""

from crowdwise.trust.estimate import TrustEstimates, estimate
from crowdwise.trust.ppi import Interval, IntervalEstimate, ppi_mean

__all__ = ["Interval", "IntervalEstimate", "TrustEstimates", "estimate", "ppi_mean"]
