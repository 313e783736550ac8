"""Figures of a run, compared with figures computed by hand."""

import numpy as np
import pyarrow as pa
import pytest

from crowdwise import Answers
from crowdwise.evaluate.distributions import NEVER_ANSWERED, class_balance
from crowdwise.run.metrics import measured_accuracy, method_rows, scores_by_class
from crowdwise.run.tables.labels import Labelling
from crowdwise.truth.tables import wilson


@pytest.fixture
def labelling():
    answers = Answers.from_arrays([1, 1, 2, 3, 4], list("abaab"), list("xyxyx"))
    return Labelling(answers, np.array([[0.6, 0.4], [0.8, 0.2], [0.3, 0.7], [0.9, 0.1]]), np.array([0, 0, 1, 0]))


def test_class_balance_with_and_without_truth(labelling):
    shares = {"classes": ["x", "y"], "answered": [0.6, 0.4], "inferred": [0.75, 0.25]}
    answers, codes = labelling.answers, labelling.codes
    assert class_balance(answers, codes) == {**shares, "truth": None}
    assert class_balance(answers, codes, np.array([0, -1, 1, 1])) == {**shares, "truth": pytest.approx([1 / 3, 2 / 3])}


def test_class_balance_counts_classes_nobody_answered(labelling):
    truth = np.array([0, 2, 3, -1])  # two classes that only the truth has
    balance = class_balance(labelling.answers, labelling.codes, truth)
    assert balance["classes"] == ["x", "y", NEVER_ANSWERED]
    assert balance["answered"] == [0.6, 0.4, 0] and balance["inferred"] == [0.75, 0.25, 0]
    assert balance["truth"] == pytest.approx([1 / 3, 0, 2 / 3])
    scores = scores_by_class(labelling, np.array([0, 2, 3, -1]))
    assert [row["name"] for row in scores["per_class"]] == ["x", "y", NEVER_ANSWERED, NEVER_ANSWERED]


def test_accepted_labels_are_measured_on_known_truth(labelling):
    labels = pa.table({"verdict": ["accept", "accept", "review", "accept"]})
    found = measured_accuracy(labelling, labels, np.array([0, 1, 1, -1]), np.array([1, 0, 0, 0]))
    assert (found["tasks"], found["accepted_tasks"], found["accepted_accuracy"]) == (3, 2, 0.5)
    assert found["accuracy"] == pytest.approx(2 / 3) and found["vote_accuracy"] == 0
    low, high = wilson(np.array(1.0), np.array(2))
    assert (found["accepted_low"], found["accepted_high"]) == (low, high)
    none = measured_accuracy(
        labelling, pa.table({"verdict": ["review"] * 4}), np.array([0, 1, 1, -1]), np.zeros(4, int)
    )
    assert [none[f"accepted_{name}"] for name in ("tasks", "accuracy", "low", "high")] == [0, None, None, None]
    assert measured_accuracy(labelling, labels, np.full(4, -1), np.zeros(4, int)) is None


def test_labels_of_methods_are_compared_with_those_of_the_chosen_one(labelling):
    answers, proba, codes = labelling
    labellings = {
        "majority-vote": Labelling(answers, proba, np.array([1, 1, 0, 1])),
        "glad": labelling,
        "wawa": Labelling(answers, proba, np.array([0, 0, 1, 1])),
    }
    lines = method_rows(None, labellings, "glad", None)
    assert {line["name"]: line["same_labels"] for line in lines} == {"majority-vote": 0.0, "glad": 1.0, "wawa": 0.75}
    assert [line["name"] for line in lines if line["chosen"]] == ["glad"]
    scored = method_rows(None, labellings, "glad", codes)
    assert [line["scores"]["accuracy"] for line in scored] == [0.0, 1.0, 0.75]
