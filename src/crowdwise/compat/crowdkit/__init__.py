"""Drop-in replacement for crowd-kit: its class names, arguments, frames and result attributes, with crowdwise's models.

    from crowdwise.compat.crowdkit import DawidSkene        # was: from crowdkit.aggregation import DawidSkene

Frames have the columns `task`, `worker`, `label`, one row per answer; ids may be anything pandas can hash. Results are
equal to those of crowd-kit 1.4.2, including names, dtypes and order of rows; each docstring says where they differ, and
why. In all classes, a row without a label, a worker who answers a task twice (crowd-kit counts both silently) and an
empty frame are errors, and a fit that ends before it has converged issues a `ConvergenceWarning`.
"""

from __future__ import annotations

try:
    import pandas  # noqa: F401
except ImportError:
    from crowdwise._core.installation import install_command
    from crowdwise.errors import MissingDependencyError

    message = f"crowdwise.compat.crowdkit needs pandas, which is not installed: {install_command('pandas')}."
    raise MissingDependencyError(message) from None

from crowdwise.compat.crowdkit.aggregation.classification import (
    GLAD,
    KOS,
    MACE,
    MMSR,
    DawidSkene,
    GoldMajorityVote,
    MajorityVote,
    OneCoinDawidSkene,
    Wawa,
    ZeroBasedSkill,
)
from crowdwise.compat.crowdkit.metrics.data import alpha_krippendorff, consistency, uncertainty

__all__ = [
    "GLAD",
    "KOS",
    "MACE",
    "MMSR",
    "DawidSkene",
    "GoldMajorityVote",
    "MajorityVote",
    "OneCoinDawidSkene",
    "Wawa",
    "ZeroBasedSkill",
    "alpha_krippendorff",
    "consistency",
    "uncertainty",
]
