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
    Method("majority-vote", "truth.majority_vote:MajorityVote", "-", "the baseline; ties at random"),
    Method("dawid-skene", "truth.dawid_skene:DawidSkene", "Dawid and Skene 1979",
           "the default: a confusion matrix for each worker"),
)  # fmt: skip

_BY_NAME = {method.name: method for method in _METHODS}


def methods() -> list[Method]:
    """List every registered method.

    >>> [m.name for m in methods()][:2]
    ['majority-vote', 'dawid-skene']
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
