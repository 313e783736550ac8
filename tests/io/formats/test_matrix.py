from __future__ import annotations

import pytest

from crowdwise import errors
from crowdwise.io import read

MATRIX = "1 -1 0 0\n-1 -1 -1 -1\n\n2 -1 1 -1\n"


def test_tasks_and_workers_keep_their_positions(put, rows):
    for name, text in (("answers.txt", MATRIX), ("a.txt.gz", MATRIX), ("b.txt", MATRIX.replace(" ", "\t "))):
        answers = read(put(name, text))
        assert rows(answers) == [(0, 0, 1), (0, 2, 0), (0, 3, 0), (2, 0, 2), (2, 2, 1)]
        # Features follow the lines, so tasks and workers without answers are kept.
        assert (answers.n_tasks, answers.n_workers) == (3, 4)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("1 2\n1 2 3\n", "line 2 has 3 numbers, but the first line has 2"),
        ("1 2\n1 x\n", "line 2 contains values that are not integers"),
        ("1 2\n1 1.5\n", "line 2"),
        ("1 2\n1 -7\n", "line 2 contains -7"),
        ("1 2\n1 99999999999999999999\n", "line 2"),
    ],
)
def test_invalid_lines_are_rejected(put, text, match):
    with pytest.raises(errors.FormatError, match=match):
        read(put("answers.txt", text))


def test_other_encodings_and_empty_matrices_are_rejected(put):
    with pytest.raises(errors.FormatError, match="0xff at line 2"):
        read(put("answers.txt", b"1 2\n1 \xff\n"))
    with pytest.raises(errors.EmptyError):
        read(put("b.txt", "-1 -1\n"))


def test_several_files_are_rejected(put, tmp_path):
    put("m1.txt", MATRIX)
    put("m2.txt", MATRIX)
    with pytest.raises(errors.FormatError, match="Pass one file"):
        read(str(tmp_path / "m?.txt"))
