import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import crowdwise as cw
from crowdwise.errors import ParameterError
from tests.helpers.crowds import answers_of, blobs, uneven


@pytest.fixture(scope="module")
def data():
    X, truth = blobs(n_tasks=200)
    return X, answers_of(truth, uneven()), truth


@pytest.mark.parametrize("truth_model", ["majority-vote", "naive-soft", "dawid-skene", "wds", "glad"])
@pytest.mark.parametrize("soft", [True, False])
def test_labels_come_from_the_truth_model(data, truth_model, soft):
    X, answers, truth = data
    model = cw.Aggregated(truth_model, soft=soft, epochs=15, lr=0.01).fit(X, answers)
    np.testing.assert_array_equal(model.proba_, cw.make(truth_model).fit(answers).proba_)
    assert model.score(X, truth) > 0.8


def test_one_right_answer_per_task_equals_supervised_training(data):
    """With a single perfect worker every loss on labels is the same, soft or hard, whatever the truth model."""
    X, _, truth = data
    answers = cw.Answers.from_codes(np.arange(200), np.zeros(200, int), truth, tasks=200, workers=1, classes=3)
    first = cw.Aggregated("majority-vote", epochs=3).fit(X, answers).predict_proba(X)
    for model in (cw.Aggregated("naive-soft", epochs=3), cw.Aggregated("naive-soft", soft=False, epochs=3)):
        np.testing.assert_allclose(model.fit(X, answers).predict_proba(X), first, atol=1e-6)


def test_scikit_learn_classifiers_are_accepted(data):
    X, answers, truth = data
    hard = cw.Aggregated("majority-vote", LogisticRegression(), soft=False).fit(X, answers)
    vote = cw.MajorityVote().fit(answers).codes_
    np.testing.assert_allclose(hard.predict_proba(X), LogisticRegression().fit(X, vote).predict_proba(X), atol=2e-3)
    soft = cw.Aggregated("dawid-skene", LogisticRegression()).fit(X, answers, sample_weight=np.ones(200))
    assert soft.score(X, truth) > 0.85
    assert soft.answer_proba(X[:2]).shape == (2, 8, 3)


def test_estimators_without_weights_take_hard_labels(data):
    X, answers, truth = data
    assert cw.Aggregated("dawid-skene", KNeighborsClassifier(), soft=False).fit(X, answers).score(X, truth) > 0.8
    with pytest.raises(ParameterError, match="hard labels"):
        cw.Aggregated("dawid-skene", KNeighborsClassifier()).fit(X, answers)
    for option in ({"select": "held_out"}, {"n_models": 2}, {"checkpoint": "x"}):
        with pytest.raises(ParameterError, match="not trained in epochs"):
            cw.Aggregated("dawid-skene", LogisticRegression(), **option).fit(X, answers)


def test_the_truth_model_passed_is_not_modified(data):
    X, answers, _ = data
    truth = cw.DawidSkene(max_iter=3, tol=0)
    model = cw.Aggregated(truth, epochs=1).fit(X, answers)
    assert not hasattr(truth, "proba_")
    assert model.truth_.n_iter_ == 3
    assert cw.make("aggregated(glad)").truth.__class__ is cw.GLAD


def test_gold_reaches_the_truth_model(data):
    X, answers, truth = data
    gold = np.where(np.arange(200) < 20, (truth + 1) % 3, -1).astype(np.int32)
    model = cw.Aggregated("dawid-skene", epochs=1).fit(X, answers, gold=gold)
    np.testing.assert_array_equal(model.codes_[:20], gold[:20])
    with pytest.raises(ParameterError, match="trusted worker"):
        cw.CrowdLayer(epochs=1).fit(X, answers, gold=gold)
