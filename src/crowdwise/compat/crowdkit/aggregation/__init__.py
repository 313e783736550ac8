"""crowd-kit's module `aggregation`: its aggregators of classes.

Its aggregators of other answers (texts, images, pairs, embeddings, sets of labels) are not part of this package.
"""

from crowdwise.compat.crowdkit.aggregation import base, utils
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
    "base",
    "utils",
]
