"""Crowdwise: labels you can trust, and classifiers that generalise, from crowdsourced answers.

>>> import crowdwise as cw
>>> answers = cw.Answers.from_arrays([1, 1, 1, 2, 2], ["a", "b", "c", "a", "b"], ["cat", "cat", "dog", "dog", "dog"])
>>> cw.DawidSkene().fit(answers).labels_.tolist()
['cat', 'dog']
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from crowdwise._core.registry import PACKAGES, public_names

__version__ = "0.1.0"

# Imported on first use: `import crowdwise` itself costs nothing. `__init__.pyi` lists the same names for type checkers.
_HOME = public_names()

__all__ = ["__version__", *sorted((*_HOME, *PACKAGES))]


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return import_module(f"crowdwise.{name}")
    if name not in _HOME:
        message = f"module 'crowdwise' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"crowdwise.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
