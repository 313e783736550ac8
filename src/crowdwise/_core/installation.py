"""Commands that install optional dependencies, for messages."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]  # of a checkout


def install_command(extra: str) -> str:
    """Return the command that installs an extra: from PyPI, or in a checkout of the repository.

    >>> install_command("torch") in ("pip install 'crowdwise[torch]'", "pip install -e '.[torch]'")
    True
    """
    return f"pip install -e '.[{extra}]'" if is_checkout() else f"pip install 'crowdwise[{extra}]'"


def is_checkout() -> bool:
    """Return whether the package is used from a checkout of its repository."""
    return (ROOT / "pyproject.toml").is_file() and (ROOT / "src" / "crowdwise").is_dir()
