import pandas as pd
import pytest

import crowdwise as cw
from crowdwise import Comparisons
from crowdwise.answers.pseudonyms import pseudonymised
from crowdwise.errors import AnswerKindError, DuplicateError, FormatError, MissingColumnError, NullError

ROWS = {
    "judge": ["ann", "bob", "bob", "cat"],
    "model_a": ["x", "y", "y", "z"],
    "model_b": ["y", "z", "z", "x"],
    "winner": ["model_a", "tie", "y", "x"],
}


def test_columns_and_winners_are_recognised():
    made = Comparisons.from_frame(pd.DataFrame(ROWS))
    assert made.items == ("x", "y", "z") and made.workers.tolist() == ["ann", "bob", "cat"]
    assert made.tasks.tolist() == ["x | y", "y | z", "y | z #2", "z | x"]
    assert (made.left.tolist(), made.right.tolist(), made.label.tolist()) == ([0, 1, 1, 2], [1, 2, 2, 0], [0, 2, 0, 1])
    assert Comparisons.from_frame(made.to_arrow()) == made
    numbers = Comparisons.from_arrays([1, 2], [2, 3], [0, 1], outcomes={0: "left", 1: "right"})
    assert numbers.items == (1, 2, 3) and numbers.label.tolist() == [0, 1] and numbers.n_workers == 1


def test_an_item_named_like_a_side_is_the_item():
    made = Comparisons.from_arrays(["b", "a"], ["a", "b"], ["a", "a"])
    assert made.label.tolist() == [0, 1]  # of the pairs a | b and b | a


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"winner": ["model_a", "tie", "q", "x"]}, AnswerKindError, "'q' at row 2 .* outcomes="),
        ({"model_b": ["y", "z", "z", "z"]}, FormatError, "'z' at row 3"),
        ({"model_a": ["x", None, "y", "z"]}, NullError, "model_a"),
        ({"winner": ["model_a", None, "y", "x"]}, NullError, "winner"),
        ({"model_b": None}, MissingColumnError, "right item"),
    ],
)
def test_what_is_not_a_comparison_is_an_error_that_names_the_row(changed, error, words):
    rows = {name: values for name, values in {**ROWS, **changed}.items() if values is not None}
    with pytest.raises(error, match=words):
        Comparisons.from_frame(rows)


def test_dropped_rows_are_counted_and_do_not_shift_the_items():
    rows = {**ROWS, "model_a": ["x", None, "y", "z"]}
    made = Comparisons.from_frame(rows, nulls="drop")
    assert made.removed == {"rows with a missing value": 1}
    assert [(made.items[a], made.items[b]) for a, b in zip(made.left, made.right, strict=True)] == [
        ("x", "y"), ("y", "z"), ("z", "x")
    ]  # fmt: skip


def test_selecting_merging_and_pseudonyms_keep_the_items(tmp_path):
    made = Comparisons.from_frame(ROWS)
    part = made[[3, 0]]
    assert (part.left.tolist(), part.right.tolist(), part.n_answers) == ([2, 0], [0, 1], 2)
    added = made.merge(Comparisons.from_arrays(["w", "x"], ["x", "z"], ["left", "right"], ["dan", "dan"]))
    assert added.items == ("w", "x", "y", "z") and added.n_answers == 6
    for table in (made, added):
        pairs = [f"{table.items[a]} | {table.items[b]}" for a, b in zip(table.left, table.right, strict=True)]
        assert [task.removesuffix(" #2") for task in table.tasks] == pairs
    with pytest.raises(DuplicateError):
        made.merge(made)
    hidden, _ = pseudonymised(made, tmp_path / "key")
    assert hidden.items == made.items and sorted(hidden.label) == sorted(made.label)
    assert not set(hidden.workers) & set(made.workers)


def test_a_method_for_classes_names_those_for_comparisons():
    with pytest.raises(AnswerKindError, match="bradley-terry"):
        cw.DawidSkene().fit(Comparisons.from_frame(ROWS))
    with pytest.raises(AnswerKindError, match="dawid-skene"):
        cw.BradleyTerry().fit(cw.Answers.from_arrays([1], ["a"], ["x"]))
