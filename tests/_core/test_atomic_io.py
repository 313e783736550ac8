"""Files whole or not at all; folders for one process. The killed ones are real processes."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest
from safetensors import SafetensorError

from crowdwise._core import atomic_io as module
from crowdwise._core.atomic_io import atomic_folder, atomic_write, exclusive_access, remove_partial_files
from crowdwise.errors import BusyError, UnwritableError

WRITER = """
import sys, time
from pathlib import Path
from crowdwise._core import atomic_io as module
from crowdwise._core.atomic_io import atomic_folder, atomic_write, exclusive_access
if sys.argv[1] in ("old", "new"):
    exchanged = module._exchanged
    def slow(*folders):
        done = sys.argv[1] == "new" and exchanged(*folders)
        print("in", flush=True); time.sleep(60)
    module._exchanged = slow
    with atomic_folder(Path(sys.argv[2])) as beside:
        for name in "ab":
            (beside / name).write_text("new")
if sys.argv[1] == "alone":
    with exclusive_access(Path(sys.argv[2])):
        print("in", flush=True); time.sleep(60)
with atomic_write(Path(sys.argv[2])) as beside:
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


def folder_of(path, words, *more):
    path.mkdir()
    for name in ("a", "b", *more):
        (path / name).write_text(words)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders")
@pytest.mark.parametrize("when", ["old", "new"])
def test_a_folder_killed_in_the_middle_is_the_old_one_or_the_new_one(tmp_path, when):
    folder = folder_of(tmp_path / "model", "old", "mine")
    (folder / "deep").mkdir()
    (folder / "deep" / "mine").write_text("old")
    kill(busy(when, folder))
    assert [(folder / name).read_text() for name in "ab"] == [when] * 2
    with atomic_folder(folder) as beside:
        (beside / "a").write_text("newest")
    assert {name: (folder / name).read_text() for name in ("a", "b", "mine", "deep/mine")} == {
        "a": "newest", "b": when, "mine": "old", "deep/mine": "old",
    }  # fmt: skip
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("how", ["not exchanged", "mounted"])
def test_a_folder_that_cannot_be_exchanged_never_mixes_old_and_new(tmp_path, monkeypatch, how):
    folder = folder_of(tmp_path / "model", "old", "mine")
    if how == "mounted":
        monkeypatch.setattr("pathlib.Path.is_mount", lambda path: path == folder)
    else:
        monkeypatch.setattr("crowdwise._core.atomic_io._exchanged", lambda new, old: False)
    seen, replace = [], os.replace

    def watched(source, target):
        seen.append({(folder / name).read_text() for name in "ab" if (folder / name).exists()})
        replace(source, target)

    monkeypatch.setattr("os.replace", watched)
    with atomic_folder(folder) as beside:
        for name in "ab":
            (beside / name).write_text("new")
    assert seen == [set(), {"new"}] and (folder / "mine").read_text() == "old"
    assert names(folder) == ["a", "b", "mine"] and names(tmp_path) == ["model"]


def test_an_error_leaves_the_old_folder(tmp_path):
    folder = folder_of(tmp_path / "model", "old")
    with pytest.raises(RuntimeError), atomic_folder(folder) as beside:
        (beside / "a").write_text("new")
        raise RuntimeError
    assert (folder / "a").read_text() == "old" and names(tmp_path) == ["model"]


def test_what_the_system_refuses_is_said_with_the_file_and_the_remedy(tmp_path):
    with (
        pytest.raises(UnwritableError, match=r"file cannot be written: no space.* Make room"),
        atomic_write(tmp_path / "file"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    (tmp_path / "taken").mkdir()
    with (
        pytest.raises(UnwritableError, match=r"taken cannot be written: is a directory"),
        atomic_write(tmp_path / "taken"),
    ):
        pass
    message = "Error while serializing: I/O error: File too large (os error 27)"
    too_large = pytest.raises(UnwritableError, match=r"model cannot be written: file too large\. Make room")
    with too_large, atomic_folder(tmp_path / "model") as beside, atomic_write(beside / "tensors"):
        raise SafetensorError(message)
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableError, match="Name a place in a folder"), exclusive_access(tmp_path / "file" / "run"):
        pass
    assert names(tmp_path) == ["file", "taken"]


def test_an_error_leaves_the_old_file(tmp_path):
    file = tmp_path / "figures.json"
    file.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(file) as beside:
        beside.write_text("ne")
        raise RuntimeError
    assert file.read_text() == "old" and names(tmp_path) == ["figures.json"]


@pytest.mark.parametrize("twice", [False, True])
def test_stopped_while_it_tidies_up_it_leaves_nothing_behind(tmp_path, monkeypatch, twice):
    """Stopped between two lines of its own, rmtree closes a file twice: that error takes the place of the first."""
    remove, stops = module.shutil.rmtree, [KeyboardInterrupt]

    def stopped_once(*args, **more):
        if stops:
            try:
                raise stops.pop()
            finally:
                if twice:
                    raise OSError(errno.EBADF, "Bad file descriptor")
        remove(*args, **more)

    monkeypatch.setattr(module.shutil, "rmtree", stopped_once)
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "file") as beside:
        beside.write_text("all of it")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("sync", [True, False])
def test_a_new_file_can_be_read_as_any_other(tmp_path, sync):
    with atomic_write(tmp_path / "file", sync=sync) as beside:
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
    with atomic_write(file) as beside:
        beside.write_text("all of it")
    assert file.read_text() == "all of it"
    assert len(names(tmp_path)) == 3  # the file, the living one's part, and the part of another file
    remove_partial_files(tmp_path)
    assert len(names(tmp_path)) == 2
    kill(living)
    remove_partial_files(tmp_path)
    assert names(tmp_path) == ["a[1].csv"]


def test_writers_at_once_each_write_a_whole_file(tmp_path):
    def write(letter):
        for _ in range(50):
            with atomic_write(tmp_path / "file", sync=False) as beside:
                beside.write_text(letter * 1000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set((tmp_path / "file").read_text())) == 1 and names(tmp_path) == ["file"]


def test_a_folder_in_use_is_refused_by_name_and_a_dead_owner_is_not_minded(tmp_path):
    owner = busy("alone", tmp_path / "run")
    with pytest.raises(BusyError, match=f"process {owner.pid} on .* since 20"), exclusive_access(tmp_path / "run"):
        pass
    kill(owner)
    assert names(tmp_path / "run") == [".lock"]  # stale, and known to be
    with exclusive_access(tmp_path / "run"):
        assert str(os.getpid()) in (tmp_path / "run" / ".lock").read_text()
    assert names(tmp_path / "run") == []


def _enter(folder, barrier, inside, most):
    for _ in range(30):
        barrier.wait()
        try:
            with exclusive_access(folder):
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


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".lock").symlink_to(tmp_path / "precious.txt")
    with pytest.raises(UnwritableError, match=r"\.lock cannot be written.*Remove the link"), exclusive_access(folder):
        pass
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_a_lock_that_was_removed_meanwhile_is_not_taken_for_the_one_that_others_see(tmp_path, monkeypatch):
    file, lock, first = tmp_path / ".lock", module._lock, []

    def removed(held, **options):
        if not first:
            first.append(held)
            file.unlink()
        return lock(held, **options)

    monkeypatch.setattr(module, "_lock", removed)
    held = module._hold(file)
    assert held is not None and os.fstat(held).st_ino == file.stat().st_ino
    os.close(held)


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_on_the_disk_before_it_gets_its_name(sync, tmp_path, monkeypatch):
    file, there = tmp_path / "words.txt", []
    monkeypatch.setattr(module, "_sync", lambda path: there.append((path.name, file.exists())))
    with atomic_write(file, sync=sync) as beside:
        beside.write_text("all of it")
    assert there == ([("words.txt", False), (tmp_path.name, True)] if sync else [])
