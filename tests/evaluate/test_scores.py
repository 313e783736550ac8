"""`evaluate`: all metrics in one call."""

from __future__ import annotations

import json

import numpy as np
import pytest

from crowdwise import Answers, DawidSkene, MajorityVote, simulate
from crowdwise.errors import GoldError, ParameterError
from crowdwise.evaluate import accuracy, auc, ece, evaluate


@pytest.fixture(scope="module")
def answers() -> Answers:
    return simulate.simulate(300, classes=["ant", "bee", "cow"], answers_per_task=3, seed=4)


def test_model_is_scored_by_its_own_labels(answers):
    model = MajorityVote().fit(answers)
    scores = evaluate(model, answers.truth)
    assert scores.accuracy == np.mean(model.labels_ == answers.classes[answers.truth])
    assert scores["auc"] == auc(answers.truth, model.proba_)
    assert scores.ece == ece(answers.truth, model.proba_, model.codes_)
    assert scores.confusion.sum() == scores.n_tasks == 300
    assert [row.name for row in scores.per_class] == ["ant", "bee", "cow"]
    assert evaluate(model).as_dict() == scores.as_dict()  # answers.truth is the default


def test_truth_of_some_tasks_as_a_mapping(answers):
    model = DawidSkene().fit(answers)
    truth = {int(task): answers.classes[answers.truth[task]] for task in range(0, 300, 3)}
    scores = evaluate(model, truth)
    assert (scores.n_tasks, scores.n_unknown) == (100, 200)
    assert scores.accuracy == accuracy(answers.truth[::3], model.codes_[::3])
    assert "200 of unknown truth ignored" in str(scores)
    assert evaluate(model.proba_, truth, answers).log_loss == scores.log_loss


def test_labels_without_probabilities_have_no_probability_metrics(answers):
    scores = evaluate(answers.truth, answers.truth)
    assert (scores.accuracy, scores.macro_f1) == (1.0, 1.0)
    assert scores.log_loss is scores.brier is scores.ece is scores.auc is None
    assert "log loss" in str(scores)


def test_scores_convert_to_json_and_text(answers):
    scores = evaluate(MajorityVote().fit(answers), np.where(np.arange(300) < 5, answers.truth, -1))
    plain = json.loads(json.dumps(scores.as_dict(), allow_nan=False))
    assert plain["n_tasks"] == 5
    assert {"accuracy", "balanced_accuracy", "macro_f1", "log_loss", "brier", "ece", "auc"} < set(plain)
    assert str(scores).splitlines()[-1].startswith("cow")
    assert repr(scores).startswith("Scores(accuracy=")


def test_metrics_without_known_truth_are_none(answers):
    scores = evaluate(MajorityVote().fit(answers), np.full(300, -1))
    assert scores.n_tasks == 0
    assert all(scores[name] is None for name in ("accuracy", "macro_f1", "log_loss", "brier", "ece", "auc"))
    json.dumps(scores.as_dict(), allow_nan=False)
    assert "-" in str(scores)


def test_invalid_input_is_rejected(answers):
    proba = np.full((300, 3), 1 / 3)
    with pytest.raises(GoldError, match="no truth"):
        evaluate(proba, answers=answers.with_truth(None))
    with pytest.raises(ParameterError, match="pass answers="):
        evaluate(proba, {0: "ant"})
    with pytest.raises(ParameterError, match="the answers have 300"):
        evaluate(proba[:10], answers.truth, answers)
    with pytest.raises(ParameterError, match="up to 3, but there are 3"):
        evaluate(proba, np.full(300, 3))
    with pytest.raises(ParameterError, match="no metric 'acuracy'"):
        evaluate(proba, answers.truth)["acuracy"]
    for bad in (proba * 2, np.where(np.arange(3) == 0, np.nan, proba), proba * [-1, 2, 2]):
        with pytest.raises(ParameterError, match="row 0"):
            evaluate(bad, answers.truth)
    with pytest.raises(ParameterError, match="pass a fitted model"):
        evaluate(np.zeros(300), answers.truth)
