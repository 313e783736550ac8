import math
import resource

import pytest

from crowdwise._core import memory


@pytest.fixture
def system(tmp_path, monkeypatch):
    """What the system says, by file."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "GROUP", tmp_path / "group")
    monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def says(file, text):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)

    return says


def test_a_silent_system_sets_no_limit(system):
    assert memory.available() == math.inf


def test_the_least_of_what_is_left(system, monkeypatch):
    system("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:     4000 kB\n")
    assert memory.available() == 4000 * 1024
    system("group/memory.max", "max\n")
    system("group/memory.current", "500000\n")
    system("group/memory.stat", "anon 200000\nfile 300000\n")
    assert memory.available() == 4000 * 1024
    system("group/memory.max", "1000000\n")
    assert memory.available() == 800_000  # what holds files is given back
    system("proc/self/status", "VmPeak: 9 kB\nVmData:\t     300 kB\n")
    monkeypatch.setattr(resource, "getrlimit", lambda what: (400 * 1024, resource.RLIM_INFINITY))
    assert memory.available() == 100 * 1024
    system("proc/self/status", "VmData: 500 kB\n")
    assert memory.available() == 0
