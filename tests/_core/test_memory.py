import math
import resource

import pytest

from crowdwise._core import memory


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A fake /proc and control group: a function that writes one of their files."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "group")
    monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def write(file, text):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)

    return write


def test_unknown_limits_are_infinite(system):
    assert memory.available() == math.inf


def test_available_is_the_smallest_of_the_limits(system, monkeypatch):
    system("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:     4000 kB\n")
    assert memory.available() == 4000 * 1024
    system("group/memory.max", "max\n")
    system("group/memory.current", "500000\n")
    system("group/memory.stat", "anon 200000\nfile 300000\n")
    assert memory.available() == 4000 * 1024
    system("group/memory.max", "1000000\n")
    assert memory.available() == 800_000  # the file cache can be dropped
    system("proc/self/status", "VmPeak: 9 kB\nVmData:\t     300 kB\n")
    monkeypatch.setattr(resource, "getrlimit", lambda what: (400 * 1024, resource.RLIM_INFINITY))
    assert memory.available() == 100 * 1024
    system("proc/self/status", "VmData: 500 kB\n")
    assert memory.available() == 0
