import numpy as np
import pytest

import crowdwise as cw
from crowdwise.learn.joint_em.labels import draw_half, is_higher, label_posterior, sum_by_task, weigh_labels
from tests.helpers.crowds import answers_of, blobs, uneven

EVEN = np.full(3, 1 / 3)


def crowd(n_tasks=2000, per_task=6):
    """Answers of equally good workers, log P(answer | truth), and the truth."""
    truth = np.random.default_rng(0).integers(0, 3, n_tasks)
    confusion = np.full((8, 3, 3), 0.2) + 0.4 * np.eye(3)
    answers = answers_of(truth, confusion, per_task=per_task)
    return answers, np.log(confusion[answers.worker, :, answers.label]), truth


def features(truth, accuracy=0.6, seed=1):
    """Log probabilities of a calibrated classifier."""
    rng = np.random.default_rng(seed)
    said = np.where(rng.random(len(truth)) < accuracy, truth, (truth + rng.integers(1, 3, len(truth))) % 3)
    return np.log(np.full((3, 3), (1 - accuracy) / 2) + (1.5 * accuracy - 0.5) * np.eye(3))[said]


def weigh(log_f, log_proba, answers, **options):
    return weigh_labels(log_f, log_proba, answers, share=EVEN, start=(1.0, 1.0), **options)


def test_calibrated_features_and_independent_answers_weigh_one():
    answers, log_proba, truth = crowd()
    assert weigh(features(truth), log_proba, answers) == pytest.approx((1, 1), abs=0.15)


@pytest.mark.parametrize("sharpness", [0.5, 2.0])
def test_weights_undo_a_temperature(sharpness):
    answers, log_proba, truth = crowd()
    log_f = features(truth)
    plain, other = weigh(log_f, log_proba, answers), weigh(sharpness * log_f, log_proba, answers)
    assert other[0] * sharpness == pytest.approx(plain[0], rel=0.05)
    assert other[1] == pytest.approx(plain[1], rel=0.05)


def test_features_that_tell_nothing_do_not_change_the_labels():
    answers, log_proba, truth = crowd()
    log_f = features(np.random.default_rng(5).permutation(truth))
    feature_weight, answer_weight = weigh(log_f, log_proba, answers)
    assert feature_weight < 0.1
    assert answer_weight > 0.8


def test_weights_stay_without_a_second_answer():
    answers, log_proba, truth = crowd(n_tasks=20, per_task=1)
    options = {"share": EVEN, "start": (0.7, 0.3)}
    assert weigh_labels(features(truth), log_proba, answers, **options) == (0.7, 0.3)


def test_tasks_of_weight_zero_do_not_matter():
    answers, log_proba, truth = crowd(n_tasks=200)
    log_f, weight = features(truth), np.where(np.arange(200) < 50, 0.0, 1.0)
    other = log_f.copy()
    other[:50] *= -3
    assert weigh(log_f, log_proba, answers, weight=weight) == weigh(other, log_proba, answers, weight=weight)


def test_a_class_of_share_zero_gets_nothing():
    proba = label_posterior(np.zeros((2, 3)), np.zeros((2, 3)), (1.0, 1.0), np.array([0.25, 0.75, 0.0]))
    np.testing.assert_allclose(proba, [[0.25, 0.75, 0]] * 2)


def test_halves_hold_half_of_the_answers_to_each_task():
    answers, log_proba, _ = crowd(n_tasks=50, per_task=5)
    half = draw_half(answers, np.random.default_rng(0))
    count = np.bincount(answers.task[half], minlength=50)
    assert set(count.tolist()) == {2, 3}
    total = sum_by_task(log_proba * half[:, None], answers) + sum_by_task(log_proba * ~half[:, None], answers)
    np.testing.assert_allclose(total, sum_by_task(log_proba, answers))


def test_evidence_is_higher_only_beyond_its_error():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=400)
    assert not is_higher(noise, np.zeros(400), None, errors=4)
    assert is_higher(noise + 1, np.zeros(400), None, errors=4)
    assert not is_higher(np.where(np.arange(400) < 9, 1e9, noise), np.zeros(400), np.arange(400) >= 9, errors=4)


@pytest.mark.parametrize(("shares", "per_task"), [((0.34, 0.33, 0.33), 3), ((0.9, 0.05, 0.05), 2)])
def test_useless_features_leave_the_labels_to_the_answers(shares, per_task):
    _, truth = blobs(n_tasks=400, shares=shares)
    answers = answers_of(truth, uneven(), per_task=per_task)
    noise = np.random.default_rng(3).normal(size=(400, 6))
    model = cw.JointEM("lda", features="plain").fit(noise, answers)
    alone = cw.DawidSkene("hierarchical").fit(answers)
    assert not model.features_used_
    assert model.feature_weight_ == 0
    assert (model.labels_ == alone.labels_).mean() > 0.97


def test_weak_features_that_echo_the_votes_do_not_overrule_many_answers():
    truth = np.random.default_rng(0).integers(0, 3, 400)
    hard = np.random.default_rng(1).random(400) < 0.3  # workers and features err on the same tasks
    clear, confused = (answers_of(truth, uneven(good=good), per_task=8) for good in ((0.75, 0.9), (0.4, 0.45)))
    label = np.where(hard[clear.task], confused.label, clear.label)
    answers = cw.Answers.from_codes(clear.task, clear.worker, label, tasks=400, workers=8, classes=3)
    votes = np.stack([np.bincount(answers.task, answers.label == c, minlength=400) for c in range(3)], axis=1) / 8
    X = votes + np.random.default_rng(2).normal(size=(400, 3))
    right = [(model.labels_ == truth).mean() for model in (
        cw.JointEM("lda", features="plain").fit(X, answers), cw.DawidSkene().fit(answers))]  # fmt: skip
    assert right[0] > right[1] - 0.015
