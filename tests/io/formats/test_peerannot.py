from __future__ import annotations

import pytest

from crowdwise import errors
from crowdwise.io import read

TOY = {"0": {"0": 1, "1": 0, "2": 1, "3": 1}, "1": {"0": 1, "2": 0, "3": 0}, "2": {"1": 1, "3": 1}}


def test_tasks_or_workers_as_outer_keys(put, rows):
    file = put("answers.json", TOY)
    by_task = rows(read(file, "peerannot"))
    assert by_task[:5] == [(0, 0, 1), (0, 1, 0), (0, 2, 1), (0, 3, 1), (1, 0, 1)]
    by_worker = rows(read(file, "peerannot-by-worker"))
    assert sorted((worker, task, label) for task, worker, label in by_worker) == by_task


def test_the_format_must_be_named(put):
    with pytest.raises(errors.FormatError, match="peerannot-by-worker"):
        read(put("answers.json", TOY))


def test_ids_that_are_not_integers_stay_text(put, rows):
    assert rows(read(put("a.json", {"01": {"ann": "cat"}, "2": {"ann": "dog"}}), "peerannot")) == [
        ("01", "ann", "cat"), ("2", "ann", "dog"),
    ]  # fmt: skip


def test_missing_labels_are_left_out(put):
    answers = read(put("a.json", {"0": {"0": 1, "1": None, "2": 0}}), "peerannot")
    assert answers.removed == {"empty answers": 1}


@pytest.mark.parametrize("content", [[], [1], {"0": 1}, {"0": [1]}, 3, "x"])
def test_unexpected_structures_are_rejected(put, content):
    with pytest.raises(errors.FormatError, match="expected an object"):
        read(put("a.json", content if not isinstance(content, str) else f'"{content}"'), "peerannot")


def test_an_empty_file_is_rejected(put):
    with pytest.raises(errors.EmptyError):
        read(put("a.json", {"0": {}}), "peerannot")
