"""Workers under other names: keyed hashes, so that results can be shown without saying who gave which answer.

Whoever has the key can compute the name of a worker he knows; whoever has not cannot tell from a name whose it is, nor
find it by trying ids. The same key gives the same names in every run, on one machine and on Spark.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from crowdwise.answers.encoding import encode
from crowdwise.answers.rows import Array
from crowdwise.errors import CrowdwiseWarning, ParameterError

if TYPE_CHECKING:
    from crowdwise.answers.answers import Answers

BYTES = 8  # of a hash: among a million workers two share a name once in 30 million times
SHORTEST = 16  # bytes of a key


def pseudonymised(answers: Answers, key: bytes | str | os.PathLike[str]) -> tuple[Answers, Array]:
    """The answers with names in place of the workers' ids, and the row (answers,) where each of them stood before.

    Rows are sorted anew, as the order of the ids would say something of them: what else there is of each answer, such
    as the seconds it took, has to follow, `seconds[row]`.

    Parameters
    ----------
    answers : Answers
        Those with the ids.
    key : bytes or path
        16 bytes or more that nobody can guess, or the file that holds them: it is made where there is none.

    Examples
    --------
    >>> from crowdwise import Answers
    >>> said = Answers.from_arrays([1, 1, 2], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    >>> other, row = pseudonymised(said, b"a key that nobody guesses")
    >>> other.workers.tolist()
    ['w-3fe559679302f35b', 'w-47b346b3b1298471']
    """
    from crowdwise.answers.answers import Answers

    key = key if isinstance(key, bytes) else key_of(key)
    codes, table = encode(names(answers.worker_ids, key), "worker")
    if len(table) < answers.n_workers:  # never seen
        message = "two workers would get the same name: take another key."
        raise ParameterError(message)
    worker = codes[answers.worker]  # (answers,)
    row = np.lexsort((worker, answers.task))
    made = Answers.from_codes(
        answers.task[row], worker[row], answers.label[row],
        tasks=answers.task_ids, workers=table, classes=answers.class_ids, truth=answers.truth, removed=answers.removed,
        weight=None if answers.weight is None else answers.weight[row],
        pseudo=None if answers.pseudo is None else answers.pseudo[row],
    )  # fmt: skip
    return made, row


def names(ids: pa.Array, key: bytes) -> pa.Array:
    """A name for each id, nothing for what is missing: a text and the number it looks like get different ones."""
    if len(key) < SHORTEST:
        message = f"the key has {len(key)} bytes; it needs {SHORTEST} or more that nobody can guess."
        raise ParameterError(message)
    secret = hashlib.blake2b(key).digest()
    kind = b"number" if pa.types.is_integer(ids.type) else b"flag" if pa.types.is_boolean(ids.type) else b"text"

    def name(each: object) -> str:
        return "w-" + hashlib.blake2b(kind + b"\0" + str(each).encode(), digest_size=BYTES, key=secret).hexdigest()

    found = [None if each is None else name(each) for each in ids.to_pylist()]  # no array library has keyed hashes
    return pa.array(found, pa.large_string())


def key_of(path: str | os.PathLike[str], *, make: bool = True) -> bytes:
    """The key in a file, which is made, for nobody else to read, where there is none and it may be."""
    file = Path(path)
    try:
        if make and not file.exists():
            _make(file)
        key = file.read_bytes().strip()
        open_to = stat.S_IMODE(file.stat().st_mode) & 0o077
    except OSError as error:
        how = "can neither be read nor made" if make else "cannot be read"
        message = f"the key {str(file)!r} {how}: {error.strerror}."
        raise ParameterError(message) from None
    if len(key) < SHORTEST:
        message = (
            f"the key {str(file)!r} has {len(key)} bytes; it needs {SHORTEST} or more that nobody can guess. Name a "
            f"file that is not there: a key is made."
        )
        raise ParameterError(message)
    if open_to and os.name == "posix":
        message = f"others may read the key {str(file)!r}, and so tell who is who: chmod 600 {file}."
        warnings.warn(message, CrowdwiseWarning, stacklevel=2)
    return key


def _make(file: Path) -> None:
    """A new key, whole or not at all; where another process has made one meanwhile, that one stays."""
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "w") as stream:
            stream.write(secrets.token_hex(32) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(beside, file)
    except FileExistsError:
        pass
    finally:
        beside.unlink(missing_ok=True)
