"""How much memory a process may still take: what the machine has free, within the limits that it runs under."""

from __future__ import annotations

from pathlib import Path

try:
    import resource
except ImportError:  # pragma: no cover (Windows)
    resource = None  # type: ignore[assignment]

PROC, GROUP = Path("/proc"), Path("/sys/fs/cgroup")


def available() -> float:
    """Bytes that can still be taken; infinity where the system does not say (it is not Linux).

    The least of what is free (with what the system keeps only to save reading it again), of what is left under the
    limit of the control group (a container's), and under the process's own on its data.

    >>> available() > 0
    True
    """
    return min(_free(), _left_in_group(), _left_of_data())


def gigabytes(n_bytes: float) -> str:
    """For messages.

    >>> gigabytes(31_400_000_000), gigabytes(52_000_000)
    ('31.4 GB', '0.1 GB')
    """
    return f"{max(n_bytes, 0) / 1e9:.1f} GB"


def _free() -> float:
    return _kilobytes("meminfo", "MemAvailable:")


def _left_of_data() -> float:
    if resource is None:
        return float("inf")  # pragma: no cover
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    used = _kilobytes("self/status", "VmData:")
    return float("inf") if limit == resource.RLIM_INFINITY or used == float("inf") else max(limit - used, 0.0)


def _left_in_group() -> float:
    try:
        limit = (GROUP / "memory.max").read_text().strip()
        used = float((GROUP / "memory.current").read_text())
        kept = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return float("inf")
    if limit == "max":
        return float("inf")
    return max(float(limit) - used + float(kept.get("file", 0)), 0.0)  # files can be read again


def _kilobytes(file: str, name: str) -> float:
    try:
        lines = (PROC / file).read_text().splitlines()
    except OSError:
        return float("inf")
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(name)), float("inf"))
