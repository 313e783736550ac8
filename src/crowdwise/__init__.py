"""Crowdwise: labels you can trust, and classifiers that generalise, from crowdsourced answers.

>>> import crowdwise as cw
>>> answers = cw.Answers.from_arrays([1, 1, 1, 2, 2], ["a", "b", "c", "a", "b"], ["cat", "cat", "dog", "dog", "dog"])
>>> cw.DawidSkene().fit(answers).labels_.tolist()
['cat', 'dog']
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public names and where they live, imported on first use: `import crowdwise` itself costs nothing.
_HOME = {
    "Answers": "answers",
    "read": "io",
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
}
_ROOMS = ("errors", "evaluate", "simulate")

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
