"""Accuracy with fewer answers, and the forecast for more."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from crowdwise import Answers, MajorityVote, simulate
from crowdwise.run.forecast import SHARES, accuracy_curve, accuracy_forecast, self_training_history
from crowdwise.run.tables.labels import Labelling


def vote(answers):
    model = MajorityVote().fit(answers)
    return Labelling(answers, model.proba_, model.codes_)


def test_each_point_of_the_curve_uses_its_share_of_the_answers():
    answers = simulate.simulate(100, n_workers=10, n_classes=3, answers_per_task=2, seed=1)
    parts = []

    def label(part):
        parts.append(part)
        return vote(part)

    points = accuracy_curve(answers, answers.truth, label, seed=1)
    assert [point["answers"] for point in points] == [round(share * answers.n_answers) for share in SHARES]
    assert [part.n_tasks for part in parts] == [answers.n_tasks] * len(SHARES)  # tasks without answers count too
    for point, part in zip(points, parts, strict=True):
        labelling = vote(part)
        assert point["accuracy"] == pytest.approx((labelling.codes == answers.truth).mean())
        assert point["expected"] == pytest.approx(labelling.proba.max(axis=1).mean())
    assert all(point["accuracy"] is None for point in accuracy_curve(answers, None, vote, seed=1))


def test_a_share_without_answers_has_no_point():
    answers = Answers.from_arrays([1, 2], ["a", "a"], ["x", "y"])
    assert [point["answers"] for point in accuracy_curve(answers, None, vote, seed=0)] == [1, 1, 2, 2]


def test_the_forecast_divides_the_lift_by_the_number_of_tasks():
    answers = Answers.from_arrays([1, 2, 3, 4], list("abab"), list("xyxy"))
    labelling = Labelling(answers, np.array([[0.6, 0.4], [0.2, 0.8], [0.7, 0.3], [0.5, 0.5]]), np.array([0, 1, 0, 0]))
    points = accuracy_forecast(pa.table({"lift": [0.2, 0.12]}), labelling)
    assert [point["bought"] for point in points] == [0, 1, 2]
    expected = [0.65, 0.65 + 0.2 / 4, 0.65 + 0.32 / 4]  # the rise of one label in four
    assert [point["expected"] for point in points] == pytest.approx(expected)
    none = accuracy_forecast(pa.table({"lift": pa.array([], pa.float64())}), labelling)
    assert none == [{"bought": 0, "expected": pytest.approx(0.65)}]
    assert accuracy_forecast(pa.table({"lift": [0.9] * 20}), labelling)[-1] == {"bought": 20, "expected": 1.0}


def test_the_history_comes_from_the_self_training_model():
    record = {"iteration": np.int64(0), "imbalance": np.float64(3), "answers": 9, "chosen": np.array([1, 2])}
    found = self_training_history({"vote": object(), "dasc": SimpleNamespace(history_=[record])})
    assert found == {"history": [{"iteration": 0, "R": 3.0, "answers": 9, "added": 3}], "history_method": "dasc"}
    assert self_training_history({"vote": object()}) == {"history": [], "history_method": None}
