"""Families of workers from a column of the answers, or from a table of workers."""

import pytest

from crowdwise import Answers, errors
from crowdwise.io import read, read_families

ROWS = "task,worker,label,maker\n1,fox-s,a,fox\n1,fox-l,b,fox\n2,fox-s,a,fox\n2,owl,b,\n"


def test_a_column_of_the_answers_in_several_files(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text(ROWS)
    second.write_text("task,worker,label,maker\n3,owl,a,bird\n3,fox-s,b,fox\n")
    found = read_families([first, second], "maker", like=read([first, second]))
    assert found == {"fox-l": "fox", "fox-s": "fox", "owl": "bird"}
    with pytest.raises(errors.MissingColumnError, match="no column 'nope' among"):
        read_families(first, "nope", like=read(first))


def test_a_worker_with_two_families_is_named_with_both_rows(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text(ROWS)
    second.write_text("task,worker,label,maker\n3,owl,a,\n4,fox-l,b,bird\n")
    expected = "worker 'fox-l' has two families: 'fox' in line 3 of .*1.csv and 'bird' in line 3 of .*2.csv"
    with pytest.raises(errors.DuplicateError, match=expected):
        read_families([first, second], "maker", like=read([first, second]))


def test_a_table_of_workers_with_numbers_as_ids(tmp_path):
    answers = Answers.from_arrays([1, 1, 2], [7, 8, 9], ["a", "b", "a"])
    file = tmp_path / "judges.csv"
    file.write_text("judge,family\n9,2\n7,2\n5,1\n")
    with pytest.warns(errors.CrowdwiseWarning, match="left out 1 worker without answers: 5"):
        assert read_families(file, like=answers) == {7: "2", 9: "2"}
    file.write_text("judge,family\n5,2\n")
    with pytest.raises(errors.UnknownIdError, match="none of its workers, such as 5"):
        read_families(file, like=answers)
    file.write_text("judge,family\nseven,2\n")
    with pytest.raises(errors.IdTypeError, match="worker ids 'seven'"):
        read_families(file, like=answers)


def test_an_export_has_no_column_of_families(tmp_path):
    file = tmp_path / "export.json"
    file.write_text('[{"id": 1, "data": {}, "annotations": []}]')
    with pytest.raises(errors.FormatError, match="Pass a file with the columns worker and family"):
        read_families(file, "maker", like=Answers.from_arrays(["1"], ["w"], ["a"]))
