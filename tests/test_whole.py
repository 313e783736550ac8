"""Files whole or not at all; folders for one process. The killed ones are real processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest

from crowdwise.errors import BusyError
from crowdwise.whole import alone, clear_parts, whole

WRITER = """
import sys, time
from pathlib import Path
from crowdwise.whole import alone, whole
if sys.argv[1] == "alone":
    with alone(Path(sys.argv[2])):
        print("in", flush=True); time.sleep(60)
with whole(Path(sys.argv[2])) as beside:
    beside.write_text("half of")
    print("in", flush=True); time.sleep(60)
"""


def busy(what, path):
    """A process that is in the middle of it."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, what, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "in\n"
    return process


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_an_error_leaves_the_old_file(tmp_path):
    file = tmp_path / "figures.json"
    file.write_text("old")
    with pytest.raises(RuntimeError), whole(file) as beside:
        beside.write_text("ne")
        raise RuntimeError
    assert file.read_text() == "old" and names(tmp_path) == ["figures.json"]


@pytest.mark.parametrize("sync", [True, False])
def test_a_new_file_can_be_read_as_any_other(tmp_path, sync):
    with whole(tmp_path / "file", sync=sync) as beside:
        beside.unlink()  # as writers do that make the file themselves
        beside.write_text("new")
        beside.chmod(0o600)
    (tmp_path / "other").write_text("")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_a_killed_writer_left_goes_and_what_a_living_one_writes_stays(tmp_path):
    file = tmp_path / "a[1].csv"
    killed, living = busy("whole", file), busy("whole", file)
    other = busy("whole", tmp_path / "b.csv")
    kill(killed)
    kill(other)
    assert not file.exists() and len(names(tmp_path)) == 3
    with whole(file) as beside:
        beside.write_text("all of it")
    assert file.read_text() == "all of it"
    assert len(names(tmp_path)) == 3  # the file, the living one's part, and the part of another file
    clear_parts(tmp_path)
    assert len(names(tmp_path)) == 2
    kill(living)
    clear_parts(tmp_path)
    assert names(tmp_path) == ["a[1].csv"]


def test_writers_at_once_each_write_a_whole_file(tmp_path):
    def write(letter):
        for _ in range(50):
            with whole(tmp_path / "file", sync=False) as beside:
                beside.write_text(letter * 1000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set((tmp_path / "file").read_text())) == 1 and names(tmp_path) == ["file"]


def test_a_folder_in_use_is_refused_by_name_and_a_dead_owner_is_not_minded(tmp_path):
    owner = busy("alone", tmp_path / "run")
    with pytest.raises(BusyError, match=f"process {owner.pid} on .* since 20"), alone(tmp_path / "run"):
        pass
    kill(owner)
    assert names(tmp_path / "run") == [".lock"]  # stale, and known to be
    with alone(tmp_path / "run"):
        assert str(os.getpid()) in (tmp_path / "run" / ".lock").read_text()
    assert names(tmp_path / "run") == []


def _enter(folder, barrier, inside, most):
    for _ in range(30):
        barrier.wait()
        try:
            with alone(folder):
                with inside.get_lock():
                    inside.value += 1
                    most.value = max(most.value, inside.value)
                with inside.get_lock():
                    inside.value -= 1
        except BusyError:
            pass


def test_never_two_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, inside, most = context.Barrier(3), context.Value("i", 0), context.Value("i", 0)
    processes = [context.Process(target=_enter, args=(tmp_path, barrier, inside, most)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0] and most.value == 1
