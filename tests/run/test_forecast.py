"""What fewer answers would have given, and what more should bring."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from crowdwise import Answers, MajorityVote, simulate
from crowdwise.run.forecast import SHARES, curve_of, forecast_of, history_of
from crowdwise.run.tables.labels import Labelled


def vote(answers):
    model = MajorityVote().fit(answers)
    return Labelled(answers, model.proba_, model.codes_)


def test_points_of_the_curve_have_their_share_of_the_answers():
    answers = simulate.simulate(100, n_workers=10, n_classes=3, answers_per_task=2, seed=1)
    parts = []

    def label(part):
        parts.append(part)
        return vote(part)

    points = curve_of(answers, answers.truth, label, seed=1)
    assert [point["answers"] for point in points] == [round(share * answers.n_answers) for share in SHARES]
    assert [part.n_tasks for part in parts] == [answers.n_tasks] * len(SHARES)  # those left without answers count too
    for point, part in zip(points, parts, strict=True):
        belief = vote(part)
        assert point["accuracy"] == pytest.approx((belief.codes == answers.truth).mean())
        assert point["expected"] == pytest.approx(belief.proba.max(axis=1).mean())
    assert all(point["accuracy"] is None for point in curve_of(answers, None, vote, seed=1))


def test_a_share_that_leaves_no_answer_has_no_point():
    answers = Answers.from_arrays([1, 2], ["a", "a"], ["x", "y"])
    assert [point["answers"] for point in curve_of(answers, None, vote, seed=0)] == [1, 1, 2, 2]


def test_the_forecast_spreads_the_lift_over_all_tasks():
    answers = Answers.from_arrays([1, 2, 3, 4], list("abab"), list("xyxy"))
    labelled = Labelled(answers, np.array([[0.6, 0.4], [0.2, 0.8], [0.7, 0.3], [0.5, 0.5]]), np.array([0, 1, 0, 0]))
    points = forecast_of(pa.table({"lift": [0.2, 0.12]}), labelled)
    assert [point["bought"] for point in points] == [0, 1, 2]
    expected = [0.65, 0.65 + 0.2 / 4, 0.65 + 0.32 / 4]  # a label of four that becomes surer
    assert [point["expected"] for point in points] == pytest.approx(expected)
    none = forecast_of(pa.table({"lift": pa.array([], pa.float64())}), labelled)
    assert none == [{"bought": 0, "expected": pytest.approx(0.65)}]
    assert forecast_of(pa.table({"lift": [0.9] * 20}), labelled)[-1] == {"bought": 20, "expected": 1.0}


def test_the_history_is_that_of_the_model_that_trains_on_itself():
    record = {"iteration": np.int64(0), "imbalance": np.float64(3), "answers": 9, "chosen": np.array([1, 2])}
    found = history_of({"vote": object(), "dasc": SimpleNamespace(history_=[record])})
    assert found == {"history": [{"iteration": 0, "R": 3.0, "answers": 9, "added": 3}], "history_method": "dasc"}
    assert history_of({"vote": object()}) == {"history": [], "history_method": None}
