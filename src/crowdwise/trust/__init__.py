"""May this label be believed? Pooled methods, and confidence that holds when workers make the same mistakes.

pool         average eight truth methods instead of choosing one
features     what the answers show about each label and about the crowd
calibrator   confidence learned from crowds whose truth is known: `calibrated`, the entry point
gold         rescale confidence on known labels
"""

from crowdwise.trust.calibrator import Calibrated, Calibrator, calibrated
from crowdwise.trust.gold import Scaling, platt_scaling
from crowdwise.trust.pool import Pool

__all__ = ["Calibrated", "Calibrator", "Pool", "Scaling", "calibrated", "platt_scaling"]
