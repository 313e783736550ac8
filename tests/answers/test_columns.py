import pytest

from crowdwise.answers.columns import recognise
from crowdwise.errors import MissingColumnError


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["task", "worker", "label"], ["task", "worker", "label"]),
        (["performer", "label", "task"], ["task", "performer", "label"]),
        (["Item ID", "Annotator-ID", "Response", "id"], ["Item ID", "Annotator-ID", "Response"]),
        (["id", "user", "class", "time"], ["id", "user", "class"]),
    ],
)
def test_names_of_the_field(names, found):
    assert list(recognise(names, task=None, worker=None, label=None).values()) == found


def test_a_given_name_is_not_taken_for_another_role():
    assert recognise(["answer", "label", "task"], task=None, label="answer") == {"task": "task", "label": "answer"}


def test_what_is_missing_or_double_is_said():
    with pytest.raises(MissingColumnError, match=r"no column for the worker.*worker='...'"):
        recognise(["task", "label"], task=None, worker=None)
    with pytest.raises(MissingColumnError, match="no column 'x'"):
        recognise(["task"], task="x")
    with pytest.raises(MissingColumnError, match="2 times"):
        recognise(["task", "task"], task="task")
