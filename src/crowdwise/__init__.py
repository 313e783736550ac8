"""Crowdwise: labels you can trust, and classifiers that generalise, from crowdsourced answers.

>>> import crowdwise as cw
>>> answers = cw.Answers.from_arrays([1, 1, 1, 2, 2], ["a", "b", "c", "a", "b"], ["cat", "cat", "dog", "dog", "dog"])
>>> cw.DawidSkene().fit(answers).labels_.tolist()
['cat', 'dog']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names, for editors and type checkers
    from crowdwise import acquire as acquire
    from crowdwise import choose as choose
    from crowdwise import datasets as datasets
    from crowdwise import engines as engines
    from crowdwise import errors as errors
    from crowdwise import evaluate as evaluate
    from crowdwise import simulate as simulate
    from crowdwise.ambiguity.aum import AUM as AUM
    from crowdwise.ambiguity.pruned import Pruned as Pruned
    from crowdwise.ambiguity.waum import WAUM as WAUM
    from crowdwise.answers import Answers as Answers
    from crowdwise.answers.pseudonyms import pseudonymised as pseudonymised
    from crowdwise.augment.completed import Completed as Completed
    from crowdwise.augment.crowding.crowding import CrowdInG as CrowdInG
    from crowdwise.augment.dasc import DASC as DASC
    from crowdwise.augment.graph_completion import GraphCompletion as GraphCompletion
    from crowdwise.augment.iced import ICED as ICED
    from crowdwise.augment.irgan import IRGAN as IRGAN
    from crowdwise.errors import CrowdwiseError as CrowdwiseError
    from crowdwise.errors import CrowdwiseWarning as CrowdwiseWarning
    from crowdwise.io import read as read
    from crowdwise.io import write as write
    from crowdwise.learn.aggnet import AggNet as AggNet
    from crowdwise.learn.aggregated import Aggregated as Aggregated
    from crowdwise.learn.annoreg import AnnoReg as AnnoReg
    from crowdwise.learn.conal import CoNAL as CoNAL
    from crowdwise.learn.cpc import CPC as CPC
    from crowdwise.learn.crowdlab import CrowdLab as CrowdLab
    from crowdwise.learn.crowdlayer import CrowdLayer as CrowdLayer
    from crowdwise.learn.difficulty import AdaptiveDifficultyEM as AdaptiveDifficultyEM
    from crowdwise.learn.difficulty import FixedDifficultyEM as FixedDifficultyEM
    from crowdwise.learn.doctornet import DoctorNet as DoctorNet
    from crowdwise.learn.geocrowdnet import GeoCrowdNet as GeoCrowdNet
    from crowdwise.learn.joint_em import JointEM as JointEM
    from crowdwise.learn.maxmig import MaxMIG as MaxMIG
    from crowdwise.learn.mbem import MBEM as MBEM
    from crowdwise.learn.networks import CNN as CNN
    from crowdwise.learn.networks import MLP as MLP
    from crowdwise.learn.networks import Logistic as Logistic
    from crowdwise.learn.raykar import Raykar as Raykar
    from crowdwise.learn.unionnet import UnionNet as UnionNet
    from crowdwise.registry import make as make
    from crowdwise.registry import methods as methods
    from crowdwise.saving import load as load
    from crowdwise.truth.dawid_skene import DawidSkene as DawidSkene
    from crowdwise.truth.ebcc import EBCC as EBCC
    from crowdwise.truth.glad import GLAD as GLAD
    from crowdwise.truth.gold_vote import GoldVote as GoldVote
    from crowdwise.truth.ibcc import IBCC as IBCC
    from crowdwise.truth.iwmv import IWMV as IWMV
    from crowdwise.truth.kos import KOS as KOS
    from crowdwise.truth.mace import MACE as MACE
    from crowdwise.truth.majority_vote import MajorityVote as MajorityVote
    from crowdwise.truth.mmsr import MMSR as MMSR
    from crowdwise.truth.naive_soft import NaiveSoft as NaiveSoft
    from crowdwise.truth.one_coin import OneCoin as OneCoin
    from crowdwise.truth.two_third import TwoThird as TwoThird
    from crowdwise.truth.wawa import Wawa as Wawa
    from crowdwise.truth.wds import WDS as WDS
    from crowdwise.truth.zero_based_skill import ZeroBasedSkill as ZeroBasedSkill

__version__ = "0.1.0"

# Public names and where they live, imported on first use: `import crowdwise` itself costs nothing.
_HOME = {
    "Answers": "answers",
    "CrowdwiseError": "errors",
    "CrowdwiseWarning": "errors",
    "pseudonymised": "answers.pseudonyms",
    "read": "io",
    "write": "io",
    "load": "saving",
    "make": "registry",
    "methods": "registry",
    "MajorityVote": "truth.majority_vote",
    "NaiveSoft": "truth.naive_soft",
    "DawidSkene": "truth.dawid_skene",
    "OneCoin": "truth.one_coin",
    "WDS": "truth.wds",
    "GLAD": "truth.glad",
    "MACE": "truth.mace",
    "KOS": "truth.kos",
    "Wawa": "truth.wawa",
    "ZeroBasedSkill": "truth.zero_based_skill",
    "MMSR": "truth.mmsr",
    "IWMV": "truth.iwmv",
    "TwoThird": "truth.two_third",
    "IBCC": "truth.ibcc",
    "EBCC": "truth.ebcc",
    "GoldVote": "truth.gold_vote",
    "Aggregated": "learn.aggregated",
    "JointEM": "learn.joint_em",
    "Raykar": "learn.raykar",
    "AggNet": "learn.aggnet",
    "CrowdLayer": "learn.crowdlayer",
    "AnnoReg": "learn.annoreg",
    "CoNAL": "learn.conal",
    "DoctorNet": "learn.doctornet",
    "MaxMIG": "learn.maxmig",
    "MBEM": "learn.mbem",
    "CPC": "learn.cpc",
    "AdaptiveDifficultyEM": "learn.difficulty",
    "FixedDifficultyEM": "learn.difficulty",
    "UnionNet": "learn.unionnet",
    "GeoCrowdNet": "learn.geocrowdnet",
    "CrowdLab": "learn.crowdlab",
    "DASC": "augment.dasc",
    "ICED": "augment.iced",
    "CrowdInG": "augment.crowding.crowding",
    "Completed": "augment.completed",
    "GraphCompletion": "augment.graph_completion",
    "IRGAN": "augment.irgan",
    "AUM": "ambiguity.aum",
    "WAUM": "ambiguity.waum",
    "Pruned": "ambiguity.pruned",
    "Logistic": "learn.networks",
    "MLP": "learn.networks",
    "CNN": "learn.networks",
}
_ROOMS = ("acquire", "choose", "datasets", "engines", "errors", "evaluate", "report", "run", "simulate")

__all__ = ["__version__", *sorted((*_HOME, *_ROOMS))]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"crowdwise.{name}")
    if name not in _HOME:
        message = f"module 'crowdwise' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"crowdwise.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
