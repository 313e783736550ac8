"""The folder for files that can be made or downloaded again: `$XDG_CACHE_HOME`, or the default of the system."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of Crowdwise in the user's cache; it may not exist yet.

    >>> cache_folder().name
    'crowdwise'
    """
    if folder := os.environ.get("XDG_CACHE_HOME"):
        base = Path(folder)
    elif sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        base = Path(local)
    else:
        base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base / "crowdwise"
