"""crowd-kit's aggregators of classes, one module each as in crowd-kit."""

from crowdwise.compat.crowdkit.aggregation.classification.dawid_skene import DawidSkene, OneCoinDawidSkene
from crowdwise.compat.crowdkit.aggregation.classification.glad import GLAD
from crowdwise.compat.crowdkit.aggregation.classification.gold_majority_vote import GoldMajorityVote
from crowdwise.compat.crowdkit.aggregation.classification.kos import KOS
from crowdwise.compat.crowdkit.aggregation.classification.m_msr import MMSR
from crowdwise.compat.crowdkit.aggregation.classification.mace import MACE
from crowdwise.compat.crowdkit.aggregation.classification.majority_vote import MajorityVote
from crowdwise.compat.crowdkit.aggregation.classification.wawa import Wawa
from crowdwise.compat.crowdkit.aggregation.classification.zero_based_skill import ZeroBasedSkill

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
]
