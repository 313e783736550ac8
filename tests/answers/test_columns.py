import numpy as np
import pytest

from crowdwise import errors
from crowdwise.answers import Answers
from crowdwise.answers.columns import recognise
from crowdwise.errors import MissingColumnError


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["task", "worker", "label"], ["task", "worker", "label"]),
        (["performer", "label", "task"], ["task", "performer", "label"]),
        (["Item ID", "Annotator-ID", "Response", "id"], ["Item ID", "Annotator-ID", "Response"]),
        (["id", "user", "class", "time"], ["id", "user", "class"]),
    ],
)
def test_usual_column_names_are_recognised(names, expected):
    assert list(recognise(names, task=None, worker=None, label=None).values()) == expected


def test_named_column_is_not_used_for_another_role():
    assert recognise(["answer", "label", "task"], task=None, label="answer") == {"task": "task", "label": "answer"}


def test_missing_and_repeated_columns_are_errors():
    with pytest.raises(MissingColumnError, match=r"no column for the worker.*worker='...'"):
        recognise(["task", "label"], task=None, worker=None)
    with pytest.raises(MissingColumnError, match="no column 'x'"):
        recognise(["task"], task="x")
    with pytest.raises(MissingColumnError, match="2 times"):
        recognise(["task", "task"], task="task")


def test_unusual_frames_are_read_or_rejected_with_a_reason():
    """Numbers as column names, lazy frames, integers of 128 bits and complex numbers once raised other exceptions."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    numbered = pd.DataFrame({0: [1, 1], 1: ["a", "b"], "label": ["x", "y"]})
    assert Answers.from_frame(numbered, task="0", worker="1").n_answers == 2
    columns = {"task": [1, 2], "worker": ["a", "b"], "label": ["x", "y"]}
    assert Answers.from_frame(pl.LazyFrame(columns)) == Answers.from_frame(columns)
    if hasattr(pl, "Int128"):  # not in old versions
        _check_wide_integers(pl, columns)
    with pytest.raises(errors.IdTypeError, match="complex"):
        Answers.from_frame(columns | {"task": np.array([1j, 2])})
    with pytest.raises(errors.WeightError, match="complex"):
        Answers.from_frame(columns | {"weight": np.array([1j, 2])})


def _check_wide_integers(pl, columns):
    wide = pl.DataFrame(columns | {"task": pl.Series([1, 2], dtype=pl.Int128)})
    assert Answers.from_frame(wide) == Answers.from_frame(columns)
    weighted = Answers.from_frame(columns | {"weight": pl.Series([1, 2], dtype=pl.Int128)})
    assert weighted.weight.tolist() == [1, 2]
    with pytest.raises(errors.IdTypeError, match="64-bit"):
        Answers.from_frame(columns | {"task": pl.Series([1, 2**100], dtype=pl.Int128)})
