"""`crowdwise fit` on several processes, started by `--processes N` or by torchrun on one or more machines.

Each process runs the same command and learns its rank from the environment (RANK, WORLD_SIZE), as torchrun sets it.
Rank 0 prints and writes files. With `--processes`, an additional process, the launcher, checks the arguments, starts
the others and waits for them. If one of them fails or dies, the launcher ends the others and prints one message.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from crowdwise.cli.interruption import error_message
from crowdwise.cli.screen import console, say
from crowdwise.errors import CrowdwiseError, LostProcessError, ParameterError

LAUNCHED = "CROWDWISE_LAUNCHED"  # set for processes that `launch` starts: the folder for their error messages
PATIENCE = 30.0  # seconds that the other ranks wait under torchrun, so that rank 0 reports a shared mistake
ENDING = 5.0  # seconds that a process has to end, or to report why it fails


def size() -> int:
    """Return the number of processes that share this command."""
    values = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")}
    return int(values["WORLD_SIZE"]) if all(value.isdecimal() for value in values.values()) else 1


def rank() -> int:
    """Return the rank of this process, from 0."""
    return int(os.environ["RANK"]) if size() > 1 else 0


@contextmanager
def participation(command: str) -> Iterator[None]:
    """Run a command as one of several processes, of which only rank 0 prints."""
    if size() == 1:
        yield
        return
    if command != "fit":
        message = (
            f"`crowdwise {command}` runs in one process, but {size()} were started. Only `fit` can share its work."
        )
        raise ParameterError(message)
    if LAUNCHED in os.environ:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher handles it
        threading.Thread(target=_exit_with_launcher, daemon=True).start()
    if rank() == 0:
        yield
        return
    with Path(os.devnull).open("w") as null, redirect_stdout(null), redirect_stderr(null):
        yield


def report_error(error: BaseException) -> None:
    """Print an error on stderr, once for all processes."""
    lost = isinstance(error, LostProcessError)
    if LAUNCHED in os.environ:  # the launcher prints it
        Path(os.environ[LAUNCHED], f"{'lost' if lost else 'error'}-{rank():06}").write_text(
            error_message(error), "utf-8"
        )
    elif rank() == 0:
        console(stderr=True).show_cursor(True)  # an interrupted progress bar leaves it hidden
        say(f"error: {error_message(error)}", "red", stderr=True)
    elif not lost:
        time.sleep(PATIENCE)  # rank 0 reports a shared mistake, and torchrun ends the others meanwhile
        say(f"error in process {rank()} of {size()}: {error}", "red", stderr=True)


@contextmanager
def process_group(model: Any, method: str, processes: int | None, n_tasks: int) -> Iterator[int]:
    """Share the fits inside the block among all processes; yield the number of processes."""
    if processes is not None and processes != size():
        message = (
            f"--processes {processes}, but {size()} processes were started. Remove the option when using torchrun."
        )
        raise ParameterError(message)
    if size() == 1:
        yield 1
        return
    from crowdwise.learn.network.torch_support import torch

    check(model, method, size(), n_tasks)
    backend = "gloo"
    if any(name.rpartition("__")[2] == "device" and "cuda" in str(value) for name, value in model.get_params().items()):
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "cpu:gloo,cuda:nccl"
    rendezvous: dict[str, Any] = {}
    if LAUNCHED in os.environ:  # rendezvous in a file: torch's TCP store would listen on every interface
        rendezvous = {
            "init_method": Path(os.environ[LAUNCHED], "rendezvous").as_uri(),
            "rank": rank(),
            "world_size": size(),
        }
    torch.distributed.init_process_group(backend, **rendezvous)
    try:
        yield size()
    finally:
        with suppress(RuntimeError):  # other processes may be gone already
            torch.distributed.destroy_process_group()


def check(model: Any, method: str, processes: int, n_tasks: int) -> None:
    """Reject a model that several processes cannot share, and invalid parameters."""
    from crowdwise.learn.network.learner import trains_network
    from crowdwise.learn.wrapper import Wrapper

    if not trains_network(model):
        hint = " Add --network mlp to train one." if "network" in model.get_params() else ""
        message = f"{method} does not train a network, which is the work that processes share.{hint}"
        raise ParameterError(message)
    model._check_parameters()
    while isinstance(model, Wrapper):
        model = model._new_base()
        model._check_parameters()
    if min(model.batch_size, n_tasks) < processes:
        message = (
            f"{processes} processes cannot share a batch of {min(model.batch_size, n_tasks)} tasks ({n_tasks:,} tasks, "
            f"batch_size={model.batch_size}). Use fewer processes or larger batches."
        )
        raise ParameterError(message)


# The launcher


def launch(processes: int, arguments: Sequence[str], checkpoint: Path | None) -> int:
    """Run the command in several processes, wait for all of them, and return the exit code."""
    children: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="crowdwise-") as folder:
        try:
            for each in _environments(processes):
                command = [sys.executable, "-P", "-m", "crowdwise", *arguments]
                environment = {**each, LAUNCHED: folder}
                children.append(subprocess.Popen(command, env=environment, stdin=subprocess.PIPE))
            codes = _wait(children, Path(folder))
        finally:
            _end(children)
        messages = _messages(Path(folder))
    killed = [(number, -code) for number, code in enumerate(codes) if code is not None and code < 0]
    if killed:
        raise CrowdwiseError(killed_message(*killed[0], processes, checkpoint))
    for message in messages:
        say(f"error: {message}", "red", stderr=True)
    return next((code for code in codes if code), 0)


def killed_message(number: int, by: int, processes: int, checkpoint: Path | None) -> str:
    """Return the message for a process that was killed.

    >>> killed_message(1, 9, 4, None)
    'Process 1 (of 0 to 3) was killed (SIGKILL: out of memory?), so the others were stopped. Nothing was saved. ...'
    """
    name = signal.Signals(by).name + (": out of memory?" if by == signal.SIGKILL else "")
    how = resume_message(checkpoint)
    return f"Process {number} (of 0 to {processes - 1}) was killed ({name}), so the others were stopped. {how}"


def resume_message(checkpoint: Path | None) -> str:
    """Return how to resume an interrupted fit."""
    if checkpoint is None:
        return "Nothing was saved. Use --checkpoint FILE to be able to resume."
    if not checkpoint.exists():
        return "No epoch was complete yet. Rerun the command to start over."
    return f"The last complete epoch is saved in {checkpoint}. Rerun the command to resume."


def _environments(processes: int) -> list[dict[str, str]]:
    """Return the environment of each process: its rank, its number of threads, and the loopback interface."""
    threads = str(max(1, len(os.sched_getaffinity(0)) // processes)) if hasattr(os, "sched_getaffinity") else "1"
    limits = {name: os.environ.get(name, threads) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
    limits |= {} if loopback is None else {"GLOO_SOCKET_IFNAME": loopback}  # not the interface of the host name
    shared = {**os.environ, **limits, "WORLD_SIZE": str(processes)}
    return [{**shared, "RANK": str(number), "LOCAL_RANK": str(number)} for number in range(processes)]


def _wait(children: list[subprocess.Popen[bytes]], folder: Path) -> list[int | None]:
    """Wait until all processes end or one fails; return the exit codes, None for processes that still run."""
    until = None
    while True:
        codes = [child.poll() for child in children]
        if None not in codes or any(code is not None and code < 0 for code in codes):
            return codes
        if any(codes):  # it may have lost another process that has not reported yet
            until = until or time.monotonic() + ENDING
            if any(folder.glob("error-*")) or time.monotonic() > until:
                return codes
        time.sleep(0.05)


def _messages(folder: Path) -> list[str]:
    """Return each error message once; the loss of another process counts only if there is no other message."""
    texts = {file.name: file.read_text("utf-8") for file in sorted(folder.glob("*-*"))}  # error-, lost-
    errors = dict.fromkeys(text for name, text in texts.items() if name.startswith("error") and text)
    return list(errors) or list(texts.values())[:1]


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.terminate()
    until = time.monotonic() + ENDING
    for child in children:
        try:
            child.wait(max(until - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        assert child.stdin is not None
        child.stdin.close()


def _exit_with_launcher() -> None:
    """Exit when the launcher is gone: the pipe that it holds is closed then, however it died."""
    while os.read(0, 1):
        pass
    os._exit(1)
