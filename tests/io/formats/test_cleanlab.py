from __future__ import annotations

import pandas as pd
import pytest

from crowdwise import errors
from crowdwise.io import read


def wide(**columns):
    return pd.DataFrame(columns, index=["t1", "t2", "t3"])


TABLE = wide(ann=[0, None, None], bob=[1, 2, None])


def test_tables_written_by_pandas(put, tmp_path, rows):
    TABLE.to_parquet(tmp_path / "a.parquet")
    for file in (put("a.csv", TABLE.to_csv()), put("a.tsv", TABLE.to_csv(sep="\t")), tmp_path / "a.parquet"):
        answers = read(file, "cleanlab")
        assert rows(answers) == [("t1", "ann", 0), ("t1", "bob", 1), ("t2", "bob", 2)]
        assert answers.tasks.tolist() == [
            "t1",
            "t2",
            "t3",
        ]  # also the task without answers, since features follow the rows


def test_without_an_index_tasks_are_numbered(put, rows):
    answers = read(put("a.csv", TABLE.to_csv(index=False)), "cleanlab")
    assert rows(answers)[0] == (0, "ann", 0)
    assert answers.tasks.tolist() == [0, 1, 2]


def test_a_named_task_column_and_numbered_workers(put, rows):
    answers = read(put("a.csv", "photo,0,1\np1,cat,\np2,dog,cat\n"), "cleanlab", task="photo")
    assert rows(answers) == [("p1", 0, "cat"), ("p2", 0, "dog"), ("p2", 1, "cat")]
    with pytest.raises(errors.MissingColumnError, match="no column 'x'"):
        read(put("b.csv", "photo,0,1\np1,cat,\n"), "cleanlab", task="x")


def test_labels_keep_their_text(put):
    assert read(put("a.csv", "ann,bob\n01,1\n1,1\n"), "cleanlab").classes.tolist() == ["01", "1"]
    assert read(put("b.csv", "ann,bob\n1.0,\n2.0,3.0\n"), "cleanlab").classes.tolist() == [1, 2, 3]
    answers = read(put("c.csv", "ann,weight\n1.5,\n2.0,3.0\n"), "cleanlab", as_classes=True)
    assert answers.classes.tolist() == ["1.5", "2.0", "3.0"]


def test_invalid_tables_are_rejected(put, tmp_path):
    with pytest.raises(errors.MissingColumnError, match="'ann' occurs twice"):
        read(put("a.csv", "ann,ann\n1,2\n"), "cleanlab")
    with pytest.raises(errors.FormatError, match="no worker columns"):
        read(put("b.csv", "task\n1\n"), "cleanlab")
    with pytest.raises(errors.EmptyError):
        read(put("c.csv", "ann,bob\n,\n"), "cleanlab")
    with pytest.raises(errors.DuplicateError, match="twice"):
        read(put("d.csv", "task,bob\n1,2\n1,2\n"), "cleanlab")
    wide(ann=[1, 2, 3], bob=["x", "y", "z"]).to_parquet(tmp_path / "e.parquet")
    with pytest.raises(errors.IdTypeError, match="column 'ann' has integers as class ids, but column 'bob' has text"):
        read(tmp_path / "e.parquet", "cleanlab")


def test_an_id_column_is_not_a_worker(tmp_path):
    for name in ("id", "index", "task"):
        file = tmp_path / f"{name}.csv"
        file.write_text(f"{name},w1,w2\n7,0,1\n9,,1\n")
        answers = read(file, "cleanlab")
        assert answers.tasks.tolist() == [7, 9]
        assert answers.workers.tolist() == ["w1", "w2"]


def test_labels_that_are_not_all_integers_stay_text(put, rows):
    assert rows(read(put("a.csv", "task,ann,bob\n1,1.0,001\n"), format="cleanlab")) == [
        (1, "ann", "1.0"),
        (1, "bob", "001"),
    ]
