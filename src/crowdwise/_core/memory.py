"""How much memory this process can still allocate: free memory, within the limits the process runs under."""

from __future__ import annotations

from pathlib import Path

try:
    import resource
except ImportError:  # pragma: no cover (Windows)
    resource = None  # type: ignore[assignment]

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


def available() -> float:
    """Return the number of bytes that can still be allocated; infinity where it is unknown (not on Linux).

    This is the minimum of the free memory (including caches that can be dropped), what is left under the limit of the
    control group (a container's), and what is left under the process's own limit on its data segment.

    >>> available() > 0
    True
    """
    return min(_free(), _left_in_cgroup(), _left_in_data_limit())


def gigabytes(n_bytes: float) -> str:
    """Format a number of bytes for messages.

    >>> gigabytes(31_400_000_000), gigabytes(52_000_000)
    ('31.4 GB', '0.1 GB')
    """
    return f"{max(n_bytes, 0) / 1e9:.1f} GB"


def _free() -> float:
    return _read_kilobytes("meminfo", "MemAvailable:")


def _left_in_data_limit() -> float:
    if resource is None:
        return float("inf")  # pragma: no cover
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    used = _read_kilobytes("self/status", "VmData:")
    return float("inf") if limit == resource.RLIM_INFINITY or used == float("inf") else max(limit - used, 0.0)


def _left_in_cgroup() -> float:
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = float((CGROUP / "memory.current").read_text())
        statistics = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return float("inf")
    if limit == "max":
        return float("inf")
    return max(float(limit) - used + float(statistics.get("file", 0)), 0.0)  # the file cache can be dropped


def _read_kilobytes(file: str, name: str) -> float:
    """Return a value of a file in /proc, in bytes; infinity where it is missing."""
    try:
        lines = (PROC / file).read_text().splitlines()
    except OSError:
        return float("inf")
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(name)), float("inf"))
