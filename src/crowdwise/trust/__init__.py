"""May this label be believed? Pooled methods, and confidence that holds when workers make the same mistakes."""

from crowdwise.trust.pool import Pool

__all__ = ["Pool"]
