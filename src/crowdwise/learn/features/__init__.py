"""Features: everything a user may pass as `X`, behind one small interface without torch.

`base` is the interface; `arrays`, `datasets`, `pictures` and `tables` are the kinds; `opening` tells them apart.
"""

from crowdwise.learn.features.base import Features
from crowdwise.learn.features.sources import open_features

__all__ = ["Features", "open_features"]
