"""Figures of a run, by hand."""

import numpy as np
import pyarrow as pa
import pytest

from crowdwise import Answers
from crowdwise.run.metrics import NEVER, balance_of, methods_of, scores_of, truth_of
from crowdwise.run.tables.labels import Labelled
from crowdwise.truth.tables import wilson


@pytest.fixture
def labelled():
    answers = Answers.from_arrays([1, 1, 2, 3, 4], list("abaab"), list("xyxyx"))
    return Labelled(answers, np.array([[0.6, 0.4], [0.8, 0.2], [0.3, 0.7], [0.9, 0.1]]), np.array([0, 0, 1, 0]))


def test_balance_without_truth_and_with(labelled):
    shares = {"classes": ["x", "y"], "answered": [0.6, 0.4], "inferred": [0.75, 0.25]}
    assert balance_of(labelled, None) == {**shares, "truth": None}
    assert balance_of(labelled, np.array([0, -1, 1, 1])) == {**shares, "truth": pytest.approx([1 / 3, 2 / 3])}


def test_balance_keeps_what_nobody_answered(labelled):
    balance = balance_of(labelled, np.array([0, 2, 3, -1]))  # two classes that only the truth names
    assert balance["classes"] == ["x", "y", NEVER]
    assert balance["answered"] == [0.6, 0.4, 0] and balance["inferred"] == [0.75, 0.25, 0]
    assert balance["truth"] == pytest.approx([1 / 3, 0, 2 / 3])
    scores = scores_of(labelled.proba, labelled.codes, labelled.answers, np.array([0, 2, 3, -1]))
    assert [row["name"] for row in scores["per_class"]] == ["x", "y", NEVER, NEVER]


def test_the_accepted_are_measured_where_the_truth_is_known(labelled):
    labels = pa.table({"verdict": ["accept", "accept", "review", "accept"]})
    found = truth_of(labelled, labels, np.array([0, 1, 1, -1]), np.array([1, 0, 0, 0]))
    assert (found["tasks"], found["accepted_tasks"], found["accepted_accuracy"]) == (3, 2, 0.5)
    assert found["accuracy"] == pytest.approx(2 / 3) and found["vote_accuracy"] == 0
    low, high = wilson(np.array(1.0), np.array(2))
    assert (found["accepted_low"], found["accepted_high"]) == (low, high)
    none = truth_of(labelled, pa.table({"verdict": ["review"] * 4}), np.array([0, 1, 1, -1]), np.zeros(4, int))
    assert [none[f"accepted_{name}"] for name in ("tasks", "accuracy", "low", "high")] == [0, None, None, None]
    assert truth_of(labelled, labels, np.full(4, -1), np.zeros(4, int)) is None


def test_methods_are_compared_with_the_one_that_was_chosen(labelled):
    answers, proba, codes = labelled
    beliefs = {
        "majority-vote": Labelled(answers, proba, np.array([1, 1, 0, 1])),
        "glad": labelled,
        "wawa": Labelled(answers, proba, np.array([0, 0, 1, 1])),
    }
    lines = methods_of(None, beliefs, "glad", None)
    assert {line["name"]: line["same_labels"] for line in lines} == {"majority-vote": 0.0, "glad": 1.0, "wawa": 0.75}
    assert [line["name"] for line in lines if line["chosen"]] == ["glad"]
    scored = methods_of(None, beliefs, "glad", codes)
    assert [line["scores"]["accuracy"] for line in scored] == [0.0, 1.0, 0.75]
