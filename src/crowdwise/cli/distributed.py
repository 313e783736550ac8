"""`crowdwise fit` on many processes: started by `--processes N`, or by torchrun on one machine or several.

Each process runs the same command and knows from the environment which one it is: RANK, WORLD_SIZE and the like, as
torchrun sets them. The first one prints and writes files. With `--processes` one process more looks for mistakes,
starts the others, waits for them, and when one of them fails or dies ends the rest and says, once, what happened.
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

from crowdwise.cli.interruption import words
from crowdwise.cli.screen import console, say
from crowdwise.errors import CrowdwiseError, LostProcessError, ParameterError

LED = "CROWDWISE_LED"  # set for processes that `lead` started: the folder in which they leave word of a mistake
PATIENCE = 30.0  # seconds in which, under torchrun, the first process may tell of a mistake that all of them find
ENDING = 5.0  # seconds that a process has to end when it is told to, or to say why it fails


def size() -> int:
    """How many processes this one is one of."""
    told = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")}
    return int(told["WORLD_SIZE"]) if all(value.isdecimal() for value in told.values()) else 1


def rank() -> int:
    """Which of the processes this is, from 0."""
    return int(os.environ["RANK"]) if size() > 1 else 0


@contextmanager
def taking_part(command: str) -> Iterator[None]:
    """Run a command as one of many processes, if it is: of them only the first is heard."""
    if size() == 1:
        yield
        return
    if command != "fit":
        message = f"`crowdwise {command}` runs in one process, and {size()} were started: only `fit` shares its work."
        raise ParameterError(message)
    if LED in os.environ:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who leads hears it too
        threading.Thread(target=_end_with_leader, daemon=True).start()
    if rank() == 0:
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def tell(error: BaseException) -> None:
    """Say on stderr what went wrong, once for all processes."""
    lost = isinstance(error, LostProcessError)
    if LED in os.environ:  # the one who leads says it
        Path(os.environ[LED], f"{'lost' if lost else 'error'}-{rank():06}").write_text(words(error), "utf-8")
    elif rank() == 0:
        console(stderr=True).show_cursor(True)  # a bar that was cut short had hidden it
        say(f"error: {words(error)}", "red", stderr=True)
    elif not lost:
        time.sleep(PATIENCE)  # a mistake that all find is told by the first, and the others are ended meanwhile
        say(f"error in process {rank()} of {size()}: {error}", "red", stderr=True)


@contextmanager
def joined(model: Any, method: str, processes: int | None, n_tasks: int) -> Iterator[int]:
    """Let the fits within be shared by all processes, and yield how many those are; alone, do nothing."""
    if processes is not None and processes != size():
        message = f"--processes {processes}, but {size()} processes were started: leave the option out with torchrun."
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
    meeting: dict[str, Any] = {}
    if LED in os.environ:  # on one machine they meet in a file: torch's own meeting place listens on every interface
        meeting = {"init_method": Path(os.environ[LED], "meeting").as_uri(), "rank": rank(), "world_size": size()}
    torch.distributed.init_process_group(backend, **meeting)
    try:
        yield size()
    finally:
        with suppress(RuntimeError):  # of those who are gone already
            torch.distributed.destroy_process_group()


def check(model: Any, method: str, processes: int, n_tasks: int) -> None:
    """Refuse what cannot be shared by so many processes, or fitted at all."""
    from crowdwise.learn.network.learner import trains_network
    from crowdwise.learn.wrapper import Wrapper

    if not trains_network(model):
        hint = " --network mlp gives it one." if "network" in model.get_params() else ""
        message = f"{method} trains no network, so there is nothing for {processes} processes to share.{hint}"
        raise ParameterError(message)
    model._check_parameters()
    while isinstance(model, Wrapper):
        model = model._new_base()
        model._check_parameters()
    if min(model.batch_size, n_tasks) < processes:
        message = (
            f"{processes} processes cannot share a batch: there are {n_tasks:,} tasks, and batch_size="
            f"{model.batch_size}. Use fewer processes, or larger batches."
        )
        raise ParameterError(message)


# Starting processes and looking after them


def lead(processes: int, arguments: Sequence[str], checkpoint: Path | None) -> int:
    """Run the command in so many processes, to the end of all of them; the exit code of the whole."""
    children: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="crowdwise-") as folder:
        try:
            for each in _environments(processes):
                command = [sys.executable, "-P", "-m", "crowdwise", *arguments]
                environment = {**each, LED: folder}
                children.append(subprocess.Popen(command, env=environment, stdin=subprocess.PIPE))
            codes = _wait(children, Path(folder))
        finally:
            _end(children)
        mistakes = _mistakes(Path(folder))
    killed = [(number, -code) for number, code in enumerate(codes) if code is not None and code < 0]
    if killed:
        raise CrowdwiseError(obituary(*killed[0], processes, checkpoint))
    for mistake in mistakes:
        say(f"error: {mistake}", "red", stderr=True)
    return next((code for code in codes if code), 0)


def obituary(number: int, by: int, processes: int, checkpoint: Path | None) -> str:
    """What to say of a process that was killed, and how to go on.

    >>> obituary(1, 9, 4, None)
    'process 1 of 0 to 3 was killed (SIGKILL: out of memory?); the others were ended. Nothing was kept: ...'
    """
    name = signal.Signals(by).name + (": out of memory?" if by == signal.SIGKILL else "")
    return f"process {number} of 0 to {processes - 1} was killed ({name}); the others were ended. {kept(checkpoint)}"


def kept(checkpoint: Path | None) -> str:
    """How to go on with a fit that was cut short."""
    if checkpoint is None:
        return "Nothing was kept: with --checkpoint FILE a fit that was cut short can go on."
    if not checkpoint.exists():
        return "No epoch was over yet: run the same command again."
    return f"{checkpoint} keeps the last whole epoch: run the same command again, and it goes on from there."


def _environments(processes: int) -> list[dict[str, str]]:
    """What each process is told: which one it is, how many threads it may use, and to talk on this machine alone."""
    threads = str(max(1, len(os.sched_getaffinity(0)) // processes)) if hasattr(os, "sched_getaffinity") else "1"
    limits = {name: os.environ.get(name, threads) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
    limits |= {} if loopback is None else {"GLOO_SOCKET_IFNAME": loopback}  # not what its name stands for
    shared = {**os.environ, **limits, "WORLD_SIZE": str(processes)}
    return [{**shared, "RANK": str(number), "LOCAL_RANK": str(number)} for number in range(processes)]


def _wait(children: list[subprocess.Popen[bytes]], folder: Path) -> list[int | None]:
    """How each ended, when all have or one has failed: None for those who have not."""
    until = None
    while True:
        codes = [child.poll() for child in children]
        if None not in codes or any(code is not None and code < 0 for code in codes):
            return codes
        if any(codes):  # perhaps for want of another, who has not said yet why he fails
            until = until or time.monotonic() + ENDING
            if any(folder.glob("error-*")) or time.monotonic() > until:
                return codes
        time.sleep(0.05)


def _mistakes(folder: Path) -> list[str]:
    """What processes said, each mistake once; that another is lost only where nobody said more."""
    said = {file.name: file.read_text("utf-8") for file in sorted(folder.glob("*-*"))}  # error-, lost-
    errors = dict.fromkeys(text for name, text in said.items() if name.startswith("error") and text)
    return list(errors) or list(said.values())[:1]


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


def _end_with_leader() -> None:
    """End this process when the one who leads is no more: a pipe that he holds is closed then, however he died."""
    while os.read(0, 1):
        pass
    os._exit(1)
