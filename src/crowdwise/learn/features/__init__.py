"""Features: everything a user may pass as `X`, behind one small interface that does not need torch.

`base` defines the interface, and `arrays`, `datasets`, `pictures` and `tables` implement it. `sources` recognises what
a user passed, and `matching` matches its rows to the tasks.
"""

from crowdwise.learn.features.base import Features
from crowdwise.learn.features.sources import open_features

__all__ = ["Features", "open_features"]
