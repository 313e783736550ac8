"""crowd-kit's module `aggregation`: its aggregators of classes and of comparisons.

Its aggregators of other answers (texts, images, embeddings, sets of labels) are not part of this package.
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
from crowdwise.compat.crowdkit.aggregation.pairwise import BradleyTerry, NoisyBradleyTerry

__all__ = [
    "GLAD",
    "KOS",
    "MACE",
    "MMSR",
    "BradleyTerry",
    "DawidSkene",
    "GoldMajorityVote",
    "MajorityVote",
    "NoisyBradleyTerry",
    "OneCoinDawidSkene",
    "Wawa",
    "ZeroBasedSkill",
    "base",
    "utils",
]
