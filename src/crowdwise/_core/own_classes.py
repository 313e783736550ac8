"""Classes that a model file may name although they are not in the registry: those of the user.

A file never makes anything be imported. A class is known if it subclasses a base class of ours, was registered, or was
passed to one of our functions, in this process.
"""

from __future__ import annotations

_KNOWN: dict[str, type] = {}


def home_of(cls: type) -> str:
    """Return `module:class`; the module of a class of crowdwise is relative to it.

    >>> home_of(dict)
    'builtins:dict'
    """
    return f"{cls.__module__.removeprefix('crowdwise.')}:{cls.__qualname__}"


def remember(cls: type) -> None:
    """Allow model files to name a class."""
    _KNOWN[home_of(cls)] = cls


def known_class(home: str) -> type | None:
    """Return the class at `module:class`, if it is known."""
    return _KNOWN.get(home)
