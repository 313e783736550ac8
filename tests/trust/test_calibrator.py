"""Calibrated confidence: the table, its inputs, and what it does to labels."""

import json
from dataclasses import replace

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import FormatError
from crowdwise.trust import Calibrator, calibrated
from crowdwise.trust.calibrator import TABLE, shipped
from crowdwise.trust.features import CROWD_INPUTS, dependence, inputs
from crowdwise.trust.tempering import temper_to
from crowdwise.truth.methods.pool import Pool


@pytest.fixture(scope="module")
def answers():
    return cw.simulate.simulate(150, n_workers=12, n_classes=3, answers_per_task=5, seed=5)


@pytest.fixture(scope="module")
def pool(answers):
    return Pool().fit(answers)


def test_the_shipped_table_loads_and_is_monotone():
    table = shipped()
    assert len(table.crowds) >= 19
    assert table.slope > 0 > table.shared
    content = json.loads(TABLE.read_text())
    assert Calibrator.from_dict(table.to_dict()).to_dict() == content


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format 99"),
        ({"inputs": ["other"]}, "other inputs"),
        ({"bias": "high"}, "damaged"),
        ({"bias": float("nan")}, "damaged"),
        ({"slope": -1.0}, "slope above 0"),
        ({"crowds": {"one": [1.0]}}, "damaged"),
    ],
)
def test_other_versions_and_damaged_tables_are_rejected(change, message):
    with pytest.raises(FormatError, match=message):
        Calibrator.from_dict(shipped().to_dict() | change)


def test_labels_are_the_pools_and_confidence_rises_with_the_methods(answers, pool):
    result = calibrated(answers, pools=(pool, None))
    np.testing.assert_array_equal(result.labels, pool.labels_)
    np.testing.assert_allclose(result.proba.sum(axis=1), 1)
    order = np.argsort(result.inputs.method_log_odds)
    free = result.confidence[order] > 0.51  # below, a tie or the number of classes may hold the confidence
    assert (np.diff(result.confidence[order][free]) >= -1e-6).all()


def test_gold_is_kept_and_lowers_confidence_that_was_too_high(answers, pool):
    wrong = (pool.codes_[:60] + 1 + np.arange(60) % 2) % 3  # either of the other classes: no fit can predict which
    result = calibrated(answers, dict(enumerate(answers.classes[wrong])))
    np.testing.assert_array_equal(result.codes[:60], wrong)
    assert (result.confidence[:60] == 1).all()
    assert result.confidence[60:].mean() < calibrated(answers, pools=(pool, None)).confidence[60:].mean() - 0.2
    assert "60 gold labels" in result.notes[0]


def test_a_crowd_unlike_all_others_gets_caution_and_a_note(answers, pool):
    table = shipped()
    far = replace(table, crowd_inputs=table.crowd_inputs + 50 * table.crowd_inputs.std(axis=0))
    near, cautious = calibrated(answers, pools=(pool, None)), calibrated(answers, calibrator=far, pools=(pool, None))
    assert near.distance < 1 < cautious.distance
    assert (cautious.confidence < 0.9).all()
    assert any("unlike all crowds" in note for note in cautious.notes)
    assert not any("unlike all crowds" in note for note in near.notes)


def test_dependence_sees_shared_mistakes_and_lowers_confidence():
    alone, together = (
        cw.simulate.simulate(1500, n_workers=20, n_classes=2, answers_per_task=8, together=t, seed=2) for t in (0, 0.7)
    )
    assert abs(dependence(alone, alone.truth)) < 0.02
    assert dependence(together, together.truth) > 0.05
    values = inputs(Pool(methods=("naive-soft", "wawa")).fit(alone))
    shared = values.crowd.copy()
    shared[CROWD_INPUTS.index("dependence")] = 0.15
    table = shipped()
    assert (table.confidence(values._replace(crowd=shared))[0] < table.confidence(values)[0]).all()


def test_tasks_without_answers_and_single_answers():
    answers = cw.Answers.from_arrays([1, 2, 3], ["a", "b", "a"], ["x", "y", "x"], tasks=[1, 2, 3, 4])
    result = calibrated(answers)
    assert result.confidence[3] == pytest.approx(0.5)
    assert (result.confidence < 0.9).all()
    assert any("Only 3 tasks" in note for note in result.notes)
    assert any("no answers" in note for note in result.notes)


def test_tempering_reaches_the_confidence_and_keeps_the_order():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(4), 200)
    codes, target = proba.argmax(axis=1), rng.uniform(0.3, 0.999, 200)
    out = temper_to(proba, codes, target)
    assert (np.diff(np.take_along_axis(out, proba.argsort(axis=1), axis=1), axis=1) >= 0).all()
    np.testing.assert_allclose(out.max(axis=1), target, atol=1e-3)


def test_one_answer_per_task_is_never_accepted_and_a_note_says_why():
    rng = np.random.default_rng(0)
    answers = cw.Answers.from_arrays(np.arange(300), rng.integers(0, 6, 300), rng.random(300) < 0.1)
    result = calibrated(answers)
    assert result.confidence.max() < 0.9
    assert any("No task has answers from two workers" in note for note in result.notes)
