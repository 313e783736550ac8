"""crowd-kit's module `metrics`: of answers (`data`) and of workers (`workers`)."""

from crowdwise.compat.crowdkit.metrics.data import alpha_krippendorff, consistency, uncertainty
from crowdwise.compat.crowdkit.metrics.workers import accuracy_on_aggregates

__all__ = ["accuracy_on_aggregates", "alpha_krippendorff", "consistency", "uncertainty"]
