"""Answers that are not classes are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise import errors
from crowdwise.answers import Answers
from crowdwise.io import read


def crowd(labels, name="label", **options):
    n = len(labels)
    frame = {"task": np.arange(n) // 3, "worker": np.arange(n) % 3, name: labels}
    return Answers.from_frame(frame, label=name, **options)


SENTENCES = [f"the man number {i} walks a dog" for i in range(30)]
PLATES = [f"plate{i // 5}{'x' * (i % 5 == 0)}" for i in range(150)]  # one word per task, with errors


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["0.25", "1", "3.5e-1"] * 5, "numbers"),
        ([f"{x:.2f}" for x in np.linspace(0, 9, 300)], "numbers"),
        (['["cat", "dog"]', "[]", '["cat"]'] * 5, "lists of labels"),
        (["['cat', 'dog']", "[]", "['cat']"] * 5, "lists of labels"),
        (["0,25", "1", "3,5"] * 5, "numbers"),
        (SENTENCES, "free text"),
        (PLATES, "free text"),
    ],
)
def test_what_is_not_a_class_is_an_error_unless_it_is_declared_one(labels, kind, tmp_path):
    with pytest.raises(errors.AnswerKindError, match=f"column 'label' holds {kind} .*--as-classes"):
        crowd(labels)
    assert crowd(labels, as_classes=True).n_classes == len(set(labels))
    assert crowd(labels, classes=sorted(set(labels))).n_classes == len(set(labels))  # declared
    cells = ['"' + label.replace('"', '""') + '"' for label in labels]
    rows = [f"{i // 3},{i % 3},{cell}" for i, cell in enumerate(cells)]
    (tmp_path / "a.csv").write_text("\n".join(["task,worker,label", *rows]))
    with pytest.raises(errors.AnswerKindError, match=kind):
        read(tmp_path / "a.csv", kind="classes")


@pytest.mark.parametrize(
    ("labels", "name", "words"),
    [
        ([1, 2, 3, 4, 5], "label", "a rating scale from 1 to 5"),
        (["1", "2", "3", "4", "5"], "label", "a rating scale from 1 to 5"),
        (["1.0", "2.0", "3.0", "4.0", "10.0", "9.0", "8.0", "7.0", "6.0", "5.0"], "label", "from 1 to 10"),
        (list(range(11)), "label", "a rating scale from 0 to 10"),
        ([-2, -1, 0, 1, 2], "label", "a rating scale from -2 to 2"),
        ([0, 2, 3], "Score", "a rating scale from 0 to 3"),
        (list(range(0, 100, 4)), "label", "25 different integers from 0 to 96"),
    ],
)
def test_scales_of_integers_are_a_warning(labels, name, words):
    with pytest.warns(errors.AnswerKindWarning, match=words):
        crowd(labels * 3, name)
    assert crowd(labels * 3, name, as_classes=True).n_classes == len(labels)


@pytest.mark.parametrize("separator", ["|", "; ", ","])
def test_several_labels_in_a_cell_are_a_warning(separator):
    labels = ["cat", "dog", separator.join(["cat", "dog"])]
    with pytest.warns(errors.AnswerKindWarning, match="several labels at once"):
        crowd(labels * 3)
    assert crowd(labels * 3, as_classes=True).n_classes == 3


@pytest.mark.parametrize(
    "labels",
    [
        ["red, large", "red, small", "blue, large", "blue, small"], [-1, 0, 1], ["01", "02", "03", "04", "05"],
        [0, 1, 2, 3, 4], [1, 2], [1, 2, 3], list(range(100)), ["1.0", "2.0", "v1"], ["a", "b"], [True, False],
        ["[draft]", "[final]"], ["[" * 5000, "x"], ["a cat and a dog", "a man on a bike"] * 20, SENTENCES[:10],
    ],
)  # fmt: skip
def test_ordinary_classes_give_no_warning(labels):
    assert crowd(labels * 2).n_classes == len(set(labels))  # warnings are errors here


def test_case_variants_are_noticed_and_can_be_folded():
    labels = ["Cat", "cat ", "Cat", "dog", "DOG", "dog"]
    with pytest.warns(errors.LookalikeWarning, match=r"'Cat' and 'cat ' look alike.*--fold-case"):
        assert crowd(labels).n_classes == 4
    assert crowd(labels, fold_case=True).classes.tolist() == ["Cat", "dog"]
    frame = {"task": [1, 1], "worker": [1, 2], "label": ["Cat", "dog"], "truth": ["cat", None]}
    folded = Answers.from_frame(frame, fold_case=True)
    assert folded.classes[folded.truth].tolist() == ["Cat"]
    assert crowd([1, 2, 1], fold_case=True).classes.tolist() == [1, 2]
