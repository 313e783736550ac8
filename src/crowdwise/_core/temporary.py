"""A temporary folder that lives as long as the object that uses it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import NoReturn


class TemporaryFolder:
    """A folder that is deleted with this object, and at the latest when Python ends.

    >>> folder = TemporaryFolder()
    >>> path = folder.path
    >>> path.is_dir()
    True
    >>> del folder
    >>> path.exists()
    False
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="crowdwise-"))
        weakref.finalize(self, _delete, self.path, os.getpid())

    def __reduce__(self) -> NoReturn:
        message = "a run in memory cannot be copied or pickled: write it with run.save(path), and open Run(path)."
        raise TypeError(message)


def _delete(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # a fork has the object too, but not the folder
        shutil.rmtree(path, ignore_errors=True)
