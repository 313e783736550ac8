import pytest

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
