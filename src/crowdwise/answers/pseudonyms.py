"""Pseudonyms for workers: keyed hashes of their ids, so that results can be shared without revealing who answered what.

Whoever has the key can compute the pseudonym of a worker they know. Without the key, nobody can find out whose a
pseudonym is, not even by trying all ids. The same key gives the same pseudonyms in every run, locally and on Spark.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from crowdwise.answers.encoding import encode
from crowdwise.answers.rows import Array
from crowdwise.answers.table import AnswerTable
from crowdwise.errors import CrowdwiseWarning, ParameterError

Table = TypeVar("Table", bound=AnswerTable)
HASH_BYTES = 8  # with a million workers, the probability that two share a pseudonym is 1 in 30 million
MIN_KEY_BYTES = 16


def pseudonymised(answers: Table, key: bytes | str | os.PathLike[str]) -> tuple[Table, Array]:
    """Replace the workers' ids with pseudonyms.

    Rows are sorted again, because the old order would reveal the order of the ids. Other values per answer, such as
    response times, must be reordered with the returned rows: `seconds[row]`.

    Parameters
    ----------
    answers : Answers, or a table of another kind
        Answers with the original ids.
    key : bytes or path
        At least 16 bytes that nobody can guess, or a file that contains them; the file is created if missing.

    Returns
    -------
    answers : Answers, or a table of another kind
        The same answers with pseudonyms as worker ids.
    row : (answers,) int array
        Row of each answer in the original.

    Examples
    --------
    >>> from crowdwise import Answers
    >>> original = Answers.from_arrays([1, 1, 2], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    >>> shared, row = pseudonymised(original, b"a key that nobody guesses")
    >>> shared.workers.tolist()
    ['w-3fe559679302f35b', 'w-47b346b3b1298471']
    """
    key = key if isinstance(key, bytes) else read_key(key)
    codes, table = encode(hash_ids(answers.worker_ids, key), "worker")
    if len(table) < answers.n_workers:  # never seen
        message = "two workers would get the same pseudonym: use another key."
        raise ParameterError(message)
    worker = codes[answers.worker]  # (answers,)
    row = np.lexsort((worker, answers.task))
    renamed = replace(answers.take(row), worker=worker[row], worker_ids=table, tasks_reordered=False)
    hidden = hash_ids(pa.array(list(answers.abstentions), answers.worker_ids.type), key).to_pylist()
    abstentions = dict(zip(hidden, answers.abstentions.values(), strict=True))
    return replace(renamed, abstentions=abstentions), row


def hash_ids(ids: pa.Array, key: bytes) -> pa.Array:
    """Return a pseudonym for each id, null for a missing one.

    The text "7" and the number 7 get the same: a column of numbers becomes text as soon as one id is not a number.
    """
    if len(key) < MIN_KEY_BYTES:
        message = f"the key has {len(key)} bytes; it needs at least {MIN_KEY_BYTES} that nobody can guess."
        raise ParameterError(message)
    secret = hashlib.blake2b(key).digest()

    def pseudonym(value: object) -> str:
        message = b"text\0" + str(value).encode()
        return "w-" + hashlib.blake2b(message, digest_size=HASH_BYTES, key=secret).hexdigest()

    hashed = [None if value is None else pseudonym(value) for value in ids.to_pylist()]  # Arrow has no keyed hashes
    return pa.array(hashed, pa.large_string())


def read_key(path: str | os.PathLike[str], *, make: bool = True) -> bytes:
    """Return the key in a file; with `make`, a missing file is created, readable by its owner only."""
    file = Path(path)
    try:
        if make and not file.exists():
            _create_key(file)
        key = file.read_bytes().strip()
        others_access = stat.S_IMODE(file.stat().st_mode) & 0o077
    except OSError as error:
        problem = "can be neither read nor created" if make else "cannot be read"
        message = f"the key file {str(file)!r} {problem}: {error.strerror}."
        raise ParameterError(message) from None
    if len(key) < MIN_KEY_BYTES:
        message = (
            f"the key in {str(file)!r} has {len(key)} bytes; it needs at least {MIN_KEY_BYTES} that nobody can guess. "
            f"To create a new key, name a file that does not exist."
        )
        raise ParameterError(message)
    if others_access and os.name == "posix":
        message = f"other users can read the key file {str(file)!r}, and so identify workers: chmod 600 {file}."
        warnings.warn(message, CrowdwiseWarning, stacklevel=2)
    return key


def _create_key(file: Path) -> None:
    """Write a new key atomically; if another process creates the file first, that one is kept."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(secrets.token_hex(32) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(temporary, file)
    except FileExistsError:
        pass
    finally:
        temporary.unlink(missing_ok=True)
