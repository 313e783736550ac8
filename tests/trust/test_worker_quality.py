"""Quality of workers by calibrated labels: moments by hand, the effect of gold, and wrong labels shared by a crowd."""

import numpy as np
import pytest

from crowdwise import Answers, simulate
from crowdwise.trust import calibrated
from crowdwise.trust.worker_quality import moments, quality_by_labels


@pytest.fixture(scope="module")
def misled():
    """A crowd whose workers fall for the same wrong class in many tasks."""
    answers = simulate.simulate(500, n_workers=12, n_classes=3, answers_per_task=6, together=0.3, seed=4)
    return answers, calibrated(answers.with_truth(None))


def widths(found):
    return found.high - found.low


def test_moments_equal_those_counted_by_hand():
    answers = Answers.from_arrays([1, 1, 2, 3], ["a", "b", "a", "a"], ["x", "y", "x", "x"])
    proba = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    sums = moments(answers, proba, proba.argmax(axis=1), np.array([0.5, 0.9]))
    p = np.array([0.8, 0.5, 0.5])  # tasks 2 and 3 have one answer: the worker's quality by peers
    assert sums.quality == pytest.approx([p.mean(), 0.2])
    assert sums.label_variance == pytest.approx([(p * (1 - p)).sum() / 9, 0.16])
    assert sums.own == pytest.approx([(p * (1 - p)).mean(), 0.16])
    assert sums.crowd == pytest.approx([(0.16 + 0.25 - 0.5 * 0.7) / 3, -0.2 * 0.8])


def test_intervals_allow_for_labels_that_are_wrong_together(misled):
    answers, labels = misled
    share = np.bincount(answers.worker, answers.label == answers.truth[answers.task]) / np.bincount(answers.worker)
    alone = quality_by_labels(answers, labels.proba, labels.codes, deviations=(0.0, 0.0))
    found = quality_by_labels(answers, labels.proba, labels.codes)
    assert ((found.low <= share) & (share <= found.high)).all()
    assert (widths(found) > widths(alone)).all()
    assert (found.low <= found.quality).all() and (found.quality <= found.high).all()


def test_gold_makes_intervals_narrower(misled):
    answers, labels = misled
    gold = np.where(np.arange(answers.n_tasks) < 200, answers.truth, -1)
    proba = np.where(gold[:, None] >= 0, np.eye(3)[answers.truth], labels.proba)
    codes = np.where(gold >= 0, gold, labels.codes)
    checked = quality_by_labels(answers, proba, codes, gold)
    assert (widths(checked) < widths(quality_by_labels(answers, proba, codes))).all()
    known = quality_by_labels(answers, np.eye(3)[answers.truth], answers.truth, answers.truth)
    assert known.quality == pytest.approx(
        np.bincount(answers.worker, answers.label == answers.truth[answers.task]) / np.bincount(answers.worker)
    )


def test_without_answers_nothing_is_known():
    answers = Answers.from_arrays([1, 1], ["a", "b"], ["x", "y"], workers=["a", "b", "c"])
    found = quality_by_labels(answers, np.array([[0.5, 0.5]]), np.array([0]))
    assert (found.low[2], found.high[2]) == (0.0, 1.0)
