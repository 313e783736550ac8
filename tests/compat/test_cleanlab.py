"""Our drop-in compared with results of cleanlab 2.9.0 (expected_cleanlab.json), and with sums written out."""

import inspect
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from crowdwise import errors
from crowdwise.compat import cleanlab
from crowdwise.compat.cleanlab import get_active_learning_scores, get_label_quality_multiannotator
from tests.helpers.cleanlab_cases import DATA, cases, frame, run_active, run_quality

EXPECTED = json.loads(Path(__file__).with_name("expected_cleanlab.json").read_text())
LABELS, PROBA = DATA["four classes"]
ROWS = np.arange(len(LABELS))[:, None]
nan = np.nan


def assert_same(ours, theirs, at="result"):
    """Check that names, dtypes and order are the same, and values to 1e-6."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), at
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{at}.{key}")
    elif isinstance(theirs, list) and theirs and isinstance(theirs[0], list):
        assert len(ours) == len(theirs), at
        for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(mine, other, f"{at}[{i}]")
    elif np.asarray(theirs).dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6, err_msg=at)
    else:
        assert ours == theirs, at


@pytest.mark.filterwarnings("ignore::crowdwise.errors.CrowdwiseWarning")
@pytest.mark.parametrize("name", cases())
def test_quality_matches_cleanlab(name):
    assert_same(run_quality(get_label_quality_multiannotator, name), EXPECTED["quality"][name])


@pytest.mark.filterwarnings("ignore::crowdwise.errors.CrowdwiseWarning")
@pytest.mark.parametrize("data", DATA)
def test_active_learning_scores_match_cleanlab(data):
    assert_same(run_active(get_active_learning_scores, data), EXPECTED["active"][data])


@pytest.mark.parametrize("name", EXPECTED["signatures"])
def test_signatures_match_cleanlab(name):
    kinds = {key: str(value.kind) for key, value in inspect.signature(getattr(cleanlab, name)).parameters.items()}
    assert kinds.pop("correct_counts") == "KEYWORD_ONLY"  # ours only
    assert kinds == EXPECTED["signatures"][name]


def test_quality_of_three_examples_by_hand():
    """The equations of CROWDLAB, written out for two annotators; the third example counts for no weight."""
    labels = np.array([[0, 0, nan], [1, 0, 1], [nan, nan, 1]])
    proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])
    result = get_label_quality_multiannotator(labels, proba, return_weights=True, verbose=False)
    likely = (1 + 2 / 3) / 2  # mean agreement with the consensus 0, 1 of the first two examples
    base = 1 / 2  # error of always predicting the more frequent consensus class
    agreement = np.array([2 / 3, 1 / 3, 1 / 2])  # of each annotator with the others, per pair
    weight = np.maximum(1 - (1 - agreement) / base, 1e-6)
    model = 1 * np.sqrt(2)  # always right, two labels per example
    assert result["model_weight"] == pytest.approx(model)
    np.testing.assert_allclose(result["annotator_weight"], weight)
    for_one = weight[0] * likely + weight[1] * (1 - likely) + weight[2] * likely
    second = (model * 0.6 + for_one) / (model + weight.sum())
    third = (model * 0.7 + weight[2] * likely) / (model + weight[2])
    quality = result["label_quality"]["consensus_quality_score"]
    np.testing.assert_allclose(quality[1:], [second, third])
    np.testing.assert_allclose(result["detailed_label_quality"].loc[1], [second, 1 - second, second])


def test_scores_for_active_learning_by_hand():
    """One label each: the mean of the probability of the label (weight 2) and chance (weight 1)."""
    scores, unlabeled = get_active_learning_scores(
        np.array([[0, nan], [nan, 1]]), np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([[0.8, 0.2]])
    )
    np.testing.assert_allclose(scores, [(2 * 0.9 + 0.5) / 3, (2 * 0.6 + 0.5) / 3])
    np.testing.assert_allclose(unlabeled, [(0.8 + 0.5) / 2])


def test_votes_are_counted_for_the_right_class_on_request():
    """cleanlab counts the votes of an example without a vote for class 0 as votes for class 0."""
    labels, proba = np.array([[1, 1, nan], [0, 0, 1], [nan, 1, 1]]), np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    with pytest.warns(errors.CrowdwiseWarning, match="consensus of 2 examples is a class without a vote"):
        same = get_label_quality_multiannotator(labels, proba, quality_method="agreement", verbose=False)
    assert same["label_quality"]["consensus_label"].tolist() == [0, 0, 0]
    right = get_label_quality_multiannotator(labels, proba, quality_method="agreement", correct_counts=True)
    assert right["label_quality"]["consensus_label"].tolist() == [1, 0, 1]
    swapped, _ = get_active_learning_scores(1 - labels, proba[:, ::-1], correct_counts=True)
    np.testing.assert_allclose(get_active_learning_scores(labels, proba, correct_counts=True)[0], swapped)


def test_kind_of_table_does_not_matter():
    expected = get_label_quality_multiannotator(LABELS, PROBA, verbose=False)["label_quality"]
    missing = pd.DataFrame(LABELS).astype("Int64")
    objects = pd.DataFrame(LABELS).astype(object).where(~np.isnan(LABELS), pd.NA)
    for table in (missing, objects, pd.DataFrame(LABELS.astype(np.float32)), np.asfortranarray(LABELS)):
        found = get_label_quality_multiannotator(table, PROBA, verbose=False)["label_quality"]
        pd.testing.assert_frame_equal(found, expected)


def test_order_of_examples_and_annotators_does_not_matter():
    tasks, workers = np.random.default_rng(0).permutation(len(LABELS)), [3, 1, 0, 2, 7, 6, 5, 4]
    table = frame(LABELS)
    expected = get_label_quality_multiannotator(table, PROBA)
    found = get_label_quality_multiannotator(table.iloc[tasks, workers], PROBA[tasks])
    pd.testing.assert_frame_equal(found["label_quality"].loc[table.index], expected["label_quality"])
    names = expected["annotator_stats"].index
    pd.testing.assert_frame_equal(found["annotator_stats"].loc[names], expected["annotator_stats"])


def test_input_is_not_changed():
    labels, proba = frame(LABELS), PROBA.copy()
    get_label_quality_multiannotator(labels, proba, calibrate_probs=True)
    get_active_learning_scores(labels, proba, proba)
    pd.testing.assert_frame_equal(labels, frame(LABELS))
    np.testing.assert_array_equal(proba, PROBA)


def test_what_cleanlab_prints_is_a_warning():
    labels, proba = DATA["lonely"]
    with pytest.warns(errors.CrowdwiseWarning) as record:
        get_label_quality_multiannotator(labels, proba)
    messages = [str(each.message) for each in record]
    assert any("Annotators 1 share no example" in message for message in messages)
    assert any("Classes 2 have labels" in message for message in messages)
    with pytest.warns(errors.CrowdwiseWarning, match="do not agree on any example"):
        get_label_quality_multiannotator(np.array([[0, 1], [1, 0]]), np.array([[0.9, 0.1], [0.2, 0.8]]))


def test_tie_that_nothing_breaks_goes_to_the_first_class():
    labels, even = np.array([[0, 1], [1, 0], [0, 0], [1, 1]]), np.full((4, 2), 0.5)
    with pytest.warns(errors.CrowdwiseWarning, match="Examples 0, 1 have equally good labels"):
        found = get_label_quality_multiannotator(labels, even, verbose=False)
    assert found["label_quality"]["consensus_label"].tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("error", "message", "labels", "proba", "arguments"),
    [
        (errors.FormatError, "pass a DataFrame or a NumPy array", [[0, 1]], PROBA, {}),
        (errors.FormatError, "1 dimensions", np.zeros(3), PROBA, {}),
        (errors.FormatError, "not numbers", np.array([["a", "b"]]), PROBA[:1], {}),
        (errors.FormatError, r"label 0.5 in row 1, column 0", np.array([[0, 1], [0.5, 1]]), PROBA[:2], {}),
        (errors.FormatError, "label -1 in row 0", np.array([[0, -1], [0, 1]]), PROBA[:2], {}),
        (errors.FormatError, "label inf", np.array([[0, np.inf], [0, 1]]), PROBA[:2], {}),
        (errors.EmptyError, "examples 1 have no label", np.array([[0, 1], [nan, nan]]), PROBA[:2], {}),
        (errors.EmptyError, "no label", np.empty((0, 2)), PROBA[:0], {}),
        (errors.EmptyError, "annotators 'b' did not", pd.DataFrame({"a": [0, 1], "b": [nan, nan]}), PROBA[:2], {}),
        (errors.ParameterError, "one column", np.array([[0], [1]]), PROBA[:2], {}),
        (errors.ParameterError, "only one label", np.array([[0, nan], [nan, 1]]), PROBA[:2], {}),
        (errors.ParameterError, "3 dimensions", LABELS, PROBA[None], {}),
        (errors.ParameterError, "5 rows, but labels_multiannotator has 14", LABELS, PROBA[:5], {}),
        (errors.ParameterError, "2 columns; pass one for each of the 4", LABELS, PROBA[:, :2], {}),
        (errors.ParameterError, "outside 0 to 1 in rows 2", LABELS, np.where(ROWS == 2, nan, PROBA), {}),
        (errors.ParameterError, "consensus_method='vote'", LABELS, PROBA, {"consensus_method": "vote"}),
        (errors.ParameterError, "consensus_method", LABELS, PROBA, {"consensus_method": []}),
        (errors.ParameterError, "quality_method='x'", LABELS, PROBA, {"quality_method": "x"}),
        (errors.ParameterError, "not for 'agreement'", LABELS, PROBA,
         {"quality_method": "agreement", "return_weights": True}),
        (errors.ParameterError, "method='x'", LABELS, PROBA, {"label_quality_score_kwargs": {"method": "x"}}),
        (errors.ParameterError, "'typo'", LABELS, PROBA, {"label_quality_score_kwargs": {"typo": 1}}),
        (errors.ParameterError, "another method", LABELS, PROBA,
         {"label_quality_score_kwargs": {"method": "confidence_weighted_entropy", "adjust_pred_probs": True}}),
    ],
)  # fmt: skip
def test_invalid_input_is_explained(error, message, labels, proba, arguments):
    with pytest.raises(error, match=message):
        get_label_quality_multiannotator(labels, proba, **arguments)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("or all of them", {}),
        ("needs labels_multiannotator", {"pred_probs": PROBA}),
        ("4 classes, but pred_probs_unlabeled has 3",
         {"labels_multiannotator": LABELS, "pred_probs": PROBA, "pred_probs_unlabeled": PROBA[:, :3]}),
        ("pred_probs_unlabeled has values outside", {"pred_probs_unlabeled": PROBA - 1}),
    ],
)  # fmt: skip
def test_invalid_input_of_active_learning_is_explained(message, arguments):
    with pytest.raises(errors.ParameterError, match=message):
        get_active_learning_scores(**arguments)
