"""Helpers for tests that read files of answers."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.io import read, read_side_columns, read_with_side_columns

COLUMNS = ("format", "question", "task", "worker", "label")


def assert_read_fails(error, match, path, **options):
    with pytest.raises(error, match=match):
        read(path, **options)


def read_both(path, *, text=None, **options):
    """Read answers and side columns in one pass, and check that two separate passes return the same."""
    answers, side = read_with_side_columns(path, text=text, **options)
    alone = read(path, **options)
    assert alone.to_arrow().equals(answers.to_arrow())
    assert (alone.tasks.tolist(), alone.removed) == (answers.tasks.tolist(), answers.removed)
    columns = {name: value for name, value in options.items() if name in COLUMNS}
    after = read_side_columns(path, answers, text=text, **columns)
    for one, other in zip(side, after, strict=True):
        np.testing.assert_array_equal(one, other)
    return answers, side


def known_seconds(answers, side):
    """(task, worker) -> seconds, for the answers whose time is known."""
    ids = zip(answers.tasks[answers.task], answers.workers[answers.worker], strict=True)
    assert side.seconds.shape == (answers.n_answers,)
    return {pair: seconds for pair, seconds in zip(ids, side.seconds.tolist(), strict=True) if seconds == seconds}


def notes_with(side, word):
    return [note for note in side.notes if word in note]
