"""Short names of the methods. The command line, the benchmarks and the generic tests all read this one table."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from crowdwise.errors import ParameterError


@dataclass(frozen=True)
class Method:
    """One line of the registry."""

    name: str
    home: str  # module below crowdwise, and class: imported only when the method is made
    paper: str
    what_for: str
    needs_features: bool = False

    def load(self) -> type:
        """The class itself."""
        module, cls = self.home.split(":")
        return getattr(import_module(f"crowdwise.{module}"), cls)


_METHODS = (
    Method("majority-vote", "truth.majority_vote:MajorityVote", "-",
           "the baseline; ties at random"),
    Method("naive-soft", "truth.naive_soft:NaiveSoft", "-",
           "shares of the votes as soft labels"),
    Method("dawid-skene", "truth.dawid_skene:DawidSkene", "Dawid and Skene 1979",
           "the default: a confusion matrix for each worker"),
    Method("one-coin", "truth.one_coin:OneCoin", "Zhang et al. 2014",
           "one accuracy for each worker: few answers per worker"),
    Method("wds", "truth.wds:WDS", "Lefort et al. 2024 (WAUM)",
           "votes weighted by each worker's Dawid-Skene accuracy on the class"),
    Method("glad", "truth.glad:GLAD", "Whitehill et al. 2009",
           "worker ability and task difficulty"),
    Method("mace", "truth.mace:MACE", "Hovy et al. 2013",
           "workers who sometimes answer without looking"),
    Method("kos", "truth.kos:KOS", "Karger, Oh and Shah 2011",
           "random assignment of tasks to workers: message passing"),
    Method("wawa", "truth.wawa:Wawa", "Appen 2021",
           "votes weighted by agreement with the majority"),
    Method("zero-based-skill", "truth.zero_based_skill:ZeroBasedSkill", "Toloka 2021",
           "votes weighted by skills that start at zero"),
    Method("mmsr", "truth.mmsr:MMSR", "Ma and Olshevsky 2020",
           "robust to a minority of adversarial workers"),
    Method("iwmv", "truth.iwmv:IWMV", "Li and Yu 2014",
           "iterative weighted majority vote, near optimal for one accuracy per worker"),
    Method("two-third", "truth.two_third:TwoThird", "iNaturalist",
           "a label only where two thirds of the votes agree"),
    Method("ibcc", "truth.ibcc:IBCC", "Kim and Ghahramani 2012",
           "Dawid-Skene as full Bayes: honest when answers are few"),
    Method("ebcc", "truth.ebcc:EBCC", "Li, Rubinstein and Cohn 2019",
           "workers who err together on sub-kinds of a class"),
    Method("gold-vote", "truth.gold_vote:GoldVote", "-",
           "votes weighted by accuracy on gold tasks"),
)  # fmt: skip

_BY_NAME = {method.name: method for method in _METHODS}


def methods() -> list[Method]:
    """List every registered method.

    >>> [m.name for m in methods()][:2]
    ['majority-vote', 'naive-soft']
    """
    return list(_METHODS)


def make(name: str, **parameters: Any) -> Any:
    """Build a method from its registry name.

    >>> make("dawid-skene", max_iter=10)
    DawidSkene(max_iter=10)
    """
    if name not in _BY_NAME:
        close = difflib.get_close_matches(name, _BY_NAME, n=3) or sorted(_BY_NAME)
        message = f"no method {name!r}. Did you mean {', '.join(close)}? `crowdwise methods` lists them all."
        raise ParameterError(message)
    return _BY_NAME[name].load()(**parameters)
