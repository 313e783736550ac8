"""Atomic writes and exclusive access. Tests that kill a writer use real processes."""

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
    exchange = module._exchange_folders
    def slow_exchange(*folders):
        done = sys.argv[1] == "new" and exchange(*folders)
        print("in", flush=True); time.sleep(60)
    module._exchange_folders = slow_exchange
    with atomic_folder(Path(sys.argv[2])) as temporary:
        for name in "ab":
            (temporary / name).write_text("new")
if sys.argv[1] == "exclusive":
    with exclusive_access(Path(sys.argv[2])):
        print("in", flush=True); time.sleep(60)
with atomic_write(Path(sys.argv[2])) as temporary:
    temporary.write_text("half of")
    print("in", flush=True); time.sleep(60)
"""


def start_writer(what, path):
    """Start a process and wait until it is in the middle of writing."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, what, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "in\n"
    return process


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def make_folder(path, text, *more):
    path.mkdir()
    for name in ("a", "b", *more):
        (path / name).write_text(text)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders")
@pytest.mark.parametrize("when", ["old", "new"])
def test_killed_folder_write_leaves_the_old_folder_or_the_new_one(tmp_path, when):
    folder = make_folder(tmp_path / "model", "old", "mine")
    (folder / "deep").mkdir()
    (folder / "deep" / "mine").write_text("old")
    kill(start_writer(when, folder))
    assert [(folder / name).read_text() for name in "ab"] == [when] * 2
    with atomic_folder(folder) as temporary:
        (temporary / "a").write_text("newest")
    assert {name: (folder / name).read_text() for name in ("a", "b", "mine", "deep/mine")} == {
        "a": "newest", "b": when, "mine": "old", "deep/mine": "old",
    }  # fmt: skip
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("how", ["no exchange", "mount point"])
def test_without_folder_exchange_old_and_new_files_are_never_mixed(tmp_path, monkeypatch, how):
    folder = make_folder(tmp_path / "model", "old", "mine")
    if how == "mount point":
        monkeypatch.setattr("pathlib.Path.is_mount", lambda path: path == folder)
    else:
        monkeypatch.setattr("crowdwise._core.atomic_io._exchange_folders", lambda new, old: False)
    seen, replace = [], os.replace

    def record_and_replace(source, target):
        seen.append({(folder / name).read_text() for name in "ab" if (folder / name).exists()})
        replace(source, target)

    monkeypatch.setattr("os.replace", record_and_replace)
    with atomic_folder(folder) as temporary:
        for name in "ab":
            (temporary / name).write_text("new")
    assert seen == [set(), {"new"}] and (folder / "mine").read_text() == "old"
    assert names(folder) == ["a", "b", "mine"] and names(tmp_path) == ["model"]


def test_error_while_writing_keeps_the_old_folder(tmp_path):
    folder = make_folder(tmp_path / "model", "old")
    with pytest.raises(RuntimeError), atomic_folder(folder) as temporary:
        (temporary / "a").write_text("new")
        raise RuntimeError
    assert (folder / "a").read_text() == "old" and names(tmp_path) == ["model"]


def test_system_errors_name_the_file_and_the_remedy(tmp_path):
    with (
        pytest.raises(UnwritableError, match=r"file cannot be written: no space.* Free disk space"),
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
    too_large = pytest.raises(UnwritableError, match=r"model cannot be written: file too large\. Free disk space")
    with too_large, atomic_folder(tmp_path / "model") as temporary, atomic_write(temporary / "tensors"):
        raise SafetensorError(message)
    (tmp_path / "file").touch()
    with (
        pytest.raises(UnwritableError, match="Choose a path inside a folder"),
        exclusive_access(tmp_path / "file" / "run"),
    ):
        pass
    assert names(tmp_path) == ["file", "taken"]


def test_error_while_writing_keeps_the_old_file(tmp_path):
    file = tmp_path / "figures.json"
    file.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(file) as temporary:
        temporary.write_text("ne")
        raise RuntimeError
    assert file.read_text() == "old" and names(tmp_path) == ["figures.json"]


@pytest.mark.parametrize("twice", [False, True])
def test_interrupt_during_clean_up_leaves_no_temporary_files(tmp_path, monkeypatch, twice):
    """When rmtree itself is interrupted it may close a file twice, and that error hides the interrupt."""
    remove, interrupts = module.shutil.rmtree, [KeyboardInterrupt]

    def interrupted_once(*args, **options):
        if interrupts:
            try:
                raise interrupts.pop()
            finally:
                if twice:
                    raise OSError(errno.EBADF, "Bad file descriptor")
        remove(*args, **options)

    monkeypatch.setattr(module.shutil, "rmtree", interrupted_once)
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("all of it")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("sync", [True, False])
def test_new_file_has_default_permissions(tmp_path, sync):
    with atomic_write(tmp_path / "file", sync=sync) as temporary:
        temporary.unlink()  # some writers create the file themselves
        temporary.write_text("new")
        temporary.chmod(0o600)
    (tmp_path / "other").write_text("")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_leftovers_of_killed_writers_are_removed_and_running_ones_kept(tmp_path):
    file = tmp_path / "a[1].csv"
    killed, running = start_writer("file", file), start_writer("file", file)
    other = start_writer("file", tmp_path / "b.csv")
    kill(killed)
    kill(other)
    assert not file.exists() and len(names(tmp_path)) == 3
    with atomic_write(file) as temporary:
        temporary.write_text("all of it")
    assert file.read_text() == "all of it"
    assert len(names(tmp_path)) == 3  # the file, the running writer's temporary file, and that of another file
    remove_partial_files(tmp_path)
    assert len(names(tmp_path)) == 2
    kill(running)
    remove_partial_files(tmp_path)
    assert names(tmp_path) == ["a[1].csv"]


def test_concurrent_writers_never_mix_their_content(tmp_path):
    def write(letter):
        for _ in range(50):
            with atomic_write(tmp_path / "file", sync=False) as temporary:
                temporary.write_text(letter * 1000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set((tmp_path / "file").read_text())) == 1 and names(tmp_path) == ["file"]


def test_busy_folder_error_names_the_owner_and_stale_locks_are_ignored(tmp_path):
    owner = start_writer("exclusive", tmp_path / "run")
    with pytest.raises(BusyError, match=f"process {owner.pid} on .* since 20"), exclusive_access(tmp_path / "run"):
        pass
    kill(owner)
    assert names(tmp_path / "run") == [".lock"]  # stale
    with exclusive_access(tmp_path / "run"):
        assert str(os.getpid()) in (tmp_path / "run" / ".lock").read_text()
    assert names(tmp_path / "run") == []


def _enter_repeatedly(folder, barrier, inside, most):
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


def test_two_processes_never_have_access_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, inside, most = context.Barrier(3), context.Value("i", 0), context.Value("i", 0)
    processes = [context.Process(target=_enter_repeatedly, args=(tmp_path, barrier, inside, most)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0] and most.value == 1


def test_symbolic_link_as_lock_is_not_followed(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".lock").symlink_to(tmp_path / "precious.txt")
    with (
        pytest.raises(UnwritableError, match=r"\.lock cannot be written.*Remove the symbolic link"),
        exclusive_access(folder),
    ):
        pass
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_lock_on_a_file_deleted_meanwhile_is_retried(tmp_path, monkeypatch):
    file, lock, first = tmp_path / ".lock", module._lock, []

    def delete_first_then_lock(descriptor, **options):
        if not first:
            first.append(descriptor)
            file.unlink()
        return lock(descriptor, **options)

    monkeypatch.setattr(module, "_lock", delete_first_then_lock)
    descriptor = module._open_locked(file)
    assert descriptor is not None and os.fstat(descriptor).st_ino == file.stat().st_ino
    os.close(descriptor)


@pytest.mark.parametrize("sync", [True, False])
def test_file_is_flushed_before_it_is_renamed(sync, tmp_path, monkeypatch):
    file, synced = tmp_path / "words.txt", []
    monkeypatch.setattr(module, "_sync", lambda path: synced.append((path.name, file.exists())))
    with atomic_write(file, sync=sync) as temporary:
        temporary.write_text("all of it")
    assert synced == ([("words.txt", False), (tmp_path.name, True)] if sync else [])
