"""Import Arrow and numba without pandas and scipy.linalg, which they import only to see whether these are installed.

pyarrow imports pandas when it first converts anything, to recognise its objects; numba imports `scipy.linalg` when it
first loads a kernel, to know whether kernels can call BLAS. That is a third of the time of a small command, and 50 MB.
The command line reads files rather than pandas objects, and no kernel calls BLAS. Only a process of the command line
imports in this way: in a user's own process, Arrow and numba would not find the two packages later.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from typing import Any

_enabled = False


def enable() -> None:
    """Declare that this process belongs to the command line."""
    global _enabled
    _enabled = True


def import_arrow_and_numba() -> None:
    """Import both, if this process belongs to the command line."""
    if not _enabled or "pandas" in sys.modules:
        return
    with _absent("pandas"):
        import pyarrow as pa

        pa.array([0])
    with _absent("scipy.linalg"):
        import numba.np.arraymath  # noqa: F401


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """Make imports of a module fail as if it were not installed."""

    class Finder:
        @staticmethod
        def find_spec(module: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            if module == name:
                message = f"No module named {name!r}"
                raise ModuleNotFoundError(message, name=name)
            return None

    sys.meta_path.insert(0, Finder)
    try:
        yield
    finally:
        sys.meta_path.remove(Finder)
