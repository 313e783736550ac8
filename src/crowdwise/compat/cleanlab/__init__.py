"""Drop-in replacement for cleanlab's functions for several annotators, with the same arguments, tables and results.

    # was: from cleanlab.multiannotator import get_label_quality_multiannotator
    from crowdwise.compat.cleanlab import get_label_quality_multiannotator

The answers are read once from the wide table (one row per example, one column per annotator, NaN for no answer); all
else costs as much as there are answers. Results are equal to those of cleanlab 2.9.0 up to rounding errors, with one
difference: where cleanlab breaks a tie at random, the first class wins. What cleanlab prints is a warning here.
"""

from __future__ import annotations

try:
    import pandas  # noqa: F401
except ImportError:
    from crowdwise._core.installation import install_command
    from crowdwise.errors import MissingDependencyError

    message = f"crowdwise.compat.cleanlab needs pandas, which is not installed: {install_command('pandas')}."
    raise MissingDependencyError(message) from None

from crowdwise.compat.cleanlab.multiannotator import get_active_learning_scores, get_label_quality_multiannotator

__all__ = ["get_active_learning_scores", "get_label_quality_multiannotator"]
