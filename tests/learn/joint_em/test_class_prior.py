import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crowdwise as cw
from crowdwise.errors import ClassPriorWarning, ParameterError
from crowdwise.evaluate.metrics import ece
from crowdwise.learn.joint_em.class_prior import compare_evidence, parse_class_prior, pull_to_shares, replace_shares
from tests.helpers.crowds import answers_of, blobs, uneven

CLASSES = np.array(["a", "b", "c"])


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.9))
def test_posteriors_approach_the_declared_shares_and_gold_stays(seed, share):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet([1.0, 0.6, 0.3], 60)
    gold = np.where(rng.random(60) < 0.2, rng.integers(0, 3, 60), -1)
    declared = np.array([share, (1 - share) / 2, (1 - share) / 2])
    proba[gold >= 0] = np.eye(3)[gold[gold >= 0]]
    out = pull_to_shares(proba, declared, 1.0, gold, None)
    free = gold < 0
    before, after = (np.abs(p.mean(axis=0) - declared).sum() for p in (proba, out))
    assert after <= before + 1e-9
    np.testing.assert_allclose(out.sum(axis=1), 1)
    np.testing.assert_array_equal(out[~free], proba[~free])
    odds = np.log(out[free]) - np.log(proba[free])  # the same shift for every task
    np.testing.assert_allclose(odds - odds[:, :1], np.broadcast_to((odds - odds[:, :1])[0], odds.shape), atol=1e-6)


def test_strength_interpolates_between_posterior_and_declared_shares():
    proba = np.random.default_rng(0).dirichlet([2.0, 1.0, 0.5], 500)
    even = np.full(3, 1 / 3)
    gaps = [
        np.abs(pull_to_shares(proba, even, strength, None, None).mean(axis=0) - even).sum() for strength in (0, 0.5, 1)
    ]
    assert gaps[1] == pytest.approx((gaps[0] + gaps[2]) / 2, rel=0.2)
    assert gaps[0] == pytest.approx(np.abs(proba.mean(axis=0) - even).sum())
    assert gaps[2] < 0.01
    assert parse_class_prior("balanced", 0.0, CLASSES) is None


def test_a_class_prior_must_give_every_class_a_valid_share():
    shares, strength = parse_class_prior({"c": 2, "a": 1, "b": 1}, 0.5, CLASSES)
    np.testing.assert_allclose(shares, [0.25, 0.25, 0.5])
    assert strength == 0.5
    for wrong in (
        {"a": 1, "b": 1},
        {"a": 1, "b": 1, "c": 1, "d": 1},
        {"a": -1, "b": 1, "c": 1},
        dict.fromkeys("abc", 0),
    ):
        with pytest.raises(ParameterError, match="class_prior"):
            parse_class_prior(wrong, 1.0, CLASSES)
    never, _ = parse_class_prior({"a": 1, "b": 1, "c": 0}, 1.0, CLASSES)
    assert 0 < never[2] < 1e-5
    X, truth = blobs(n_tasks=30)
    for setting in (
        {"class_prior": "even"},
        {"class_prior": [0.5, 0.5]},
        {"class_prior_strength": -1},
        {"class_prior_strength": 1.5},
    ):
        with pytest.raises(ParameterError, match="class_prior"):
            cw.JointEM(**setting).fit(X, answers_of(truth, uneven()))


def test_a_wrong_prior_is_warned_about_and_the_true_one_is_not():
    shares = np.array([0.8, 0.15, 0.05])
    X, truth = blobs(n_tasks=500, distance=2.5, shares=shares)
    answers = answers_of(truth, uneven())
    with pytest.warns(ClassPriorWarning, match="answers contradict"):
        wrong = cw.JointEM("qda", features="plain", class_prior="balanced").fit(X, answers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right = cw.JointEM("qda", features="plain", class_prior=dict(enumerate(shares))).fit(X, answers)
    assert (right.labels_ == truth).mean() > (wrong.labels_ == truth).mean() + 0.1
    np.testing.assert_allclose(right.proba_.mean(axis=0), shares, atol=0.03)


@pytest.mark.filterwarnings("ignore::crowdwise.errors.ClassPriorWarning")
def test_a_class_without_answers_gets_no_probability_even_if_declared():
    X, truth = blobs(n_tasks=60)
    few = answers_of(truth, uneven())
    answers = cw.Answers.from_codes(few.task, few.worker, few.label, tasks=60, workers=8, classes=4)
    for declared in ("balanced", {0: 1, 1: 1, 2: 1, 3: 7}):
        model = cw.JointEM("lda", features="plain", class_prior=declared, max_iter=4).fit(X, answers)
        assert model.proba_[:, 3].max() < 1e-6
        assert model.class_share_[3] == 0
    network = cw.JointEM("mlp", class_prior="balanced", max_iter=2).fit(X, answers)
    assert network.proba_[:, 3].max() < 1e-6


def test_the_classifier_takes_the_declared_shares():
    X, truth = blobs(n_tasks=300)
    declared = {0: 0.6, 1: 0.3, 2: 0.1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassPriorWarning)
        model = cw.JointEM("lda", features="plain", class_prior=declared).fit(X, answers_of(truth, uneven()))
    assert model.even_
    assert model.class_share_[0] > 0.45 > 0.3 > model.class_share_[2]


def test_integer_classes_may_be_written_as_text():
    shares, _ = parse_class_prior({"0": 1, "1": 3}, 1.0, np.array([0, 1]))
    np.testing.assert_allclose(shares, [0.25, 0.75])


def test_the_warning_points_at_the_line_that_calls_fit():
    X, truth = blobs(n_tasks=600, shares=(0.9, 0.05, 0.05))
    answers = answers_of(truth, uneven(good=(0.8, 0.95)))
    for classifier in ("lda", "mlp"):
        model = cw.JointEM(classifier, features="plain", class_prior={0: 0.05, 1: 0.05, 2: 0.9}, max_iter=4)
        with pytest.warns(ClassPriorWarning) as caught:
            model.fit(X, answers)
        found = [each for each in caught if issubclass(each.category, ClassPriorWarning)]
        assert [Path(each.filename).name for each in found] == [Path(__file__).name]


@given(st.integers(0, 2**32 - 1))
def test_replacing_shares_follows_bayes_rule(seed):
    rng = np.random.default_rng(seed)
    likelihood, old, new = rng.dirichlet(np.ones(3), 20), *rng.dirichlet(np.full(3, 5.0), 2)  # P(x | c) up to a factor
    before, after = ((likelihood * s) / (likelihood * s).sum(axis=1, keepdims=True) for s in (old, new))
    np.testing.assert_allclose(replace_shares(before, old, new), after, atol=1e-9)
    np.testing.assert_allclose(replace_shares(before, old, old), before, atol=1e-9)


@pytest.mark.parametrize("classifier", ["lda", "logistic", "mlp"])
def test_new_class_prior_improves_predictions_where_shares_differ(classifier):
    X, truth = blobs(n_tasks=500, distance=1.5, shares=(0.85, 0.1, 0.05))
    answers = answers_of(truth, uneven(good=(0.8, 0.95)))
    X_new, new = blobs(n_tasks=1500, distance=1.5, seed=9)
    model = cw.JointEM(classifier, features="plain").fit(X, answers)
    before, labels, answer_proba = model.predict_proba(X_new), model.proba_.copy(), model.answer_proba(X_new[:5])
    after = model.set_params(new_class_prior="balanced").predict_proba(X_new)
    assert (after.argmax(axis=1) == new).mean() > (before.argmax(axis=1) == new).mean() + 0.05
    assert ece(new, after) < ece(new, before)
    np.testing.assert_allclose(after.sum(axis=1), 1)
    np.testing.assert_array_equal(model.proba_, labels)
    np.testing.assert_array_equal(model.answer_proba(X_new[:5]), answer_proba)


def test_new_class_prior_may_be_set_before_the_fit():
    X, truth = blobs(n_tasks=100, shares=(0.7, 0.2, 0.1))
    models = [cw.JointEM("lda", features="plain", max_iter=2, new_class_prior=p) for p in ("balanced", None)]
    for model in models:
        model.fit(X, answers_of(truth, uneven()))
    models[1].set_params(new_class_prior="balanced")
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))


def test_new_class_prior_is_checked_saved_and_neutral_if_shares_are_equal(tmp_path):
    X, truth = blobs(n_tasks=200, shares=(0.7, 0.2, 0.1))
    few = answers_of(truth, uneven())
    answers = cw.Answers.from_codes(few.task, few.worker, few.label, tasks=200, workers=8, classes=4)
    model = cw.JointEM("lda", features="plain").fit(X, answers)
    before = model.predict_proba(X)
    model.set_params(new_class_prior=dict(enumerate(model.class_share_)))
    np.testing.assert_allclose(model.predict_proba(X), before, atol=1e-5)
    model.set_params(new_class_prior={0: 1, 1: 1, 2: 1, 3: 9})
    assert model.predict_proba(X)[:, 3].max() < 1e-6  # without answers
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(cw.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))
    model.set_params(new_class_prior={0: 0, 1: 1, 2: 1, 3: 0})
    assert model.predict_proba(X)[:, 0].max() == 0
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    model.set_params(new_class_prior={0: 0, 1: 0, 2: 0, 3: 1})
    with pytest.raises(ParameterError, match="class in the answers or gold"):
        model.predict(X)
    model.set_params(new_class_prior={0: 1, 1: 1})
    with pytest.raises(ParameterError, match="new_class_prior"):
        model.predict(X)


def test_evidence_contradicts_a_loss_beyond_chance_and_a_small_part_of_the_features_gain():
    rng = np.random.default_rng(0)
    with_shares, without_features = np.zeros(400), np.full(400, -2.0)
    noise = rng.normal(size=400)
    noise = (noise - noise.mean()) / noise.std(ddof=1)  # of mean 0 and a standard error of 0.05
    for loss, scale, contradicts in (
        (0.12, 1, True),
        (0.08, 1, False),
        (0.05, 0.1, True),
        (0.03, 0.1, False),
        (-1, 1, False),
    ):
        evidence = compare_evidence(with_shares + loss + scale * noise, with_shares, without_features)
        assert evidence.loss == pytest.approx(loss)
        assert evidence.standard_error == pytest.approx(0.05 * scale)
        assert evidence.feature_gain == pytest.approx(2 + loss)
        assert evidence.contradicts is contradicts


@pytest.mark.filterwarnings("ignore::crowdwise.errors.ClassPriorWarning")
def test_declared_shares_refer_to_weighted_tasks_and_gold_adds_classes():
    X, truth = blobs(n_tasks=300, distance=1.0)
    weight = np.where(truth == 0, 0.2, 1.0)
    declared = {0: 0.1, 1: 0.45, 2: 0.45}  # of the weight
    answers = answers_of(truth, uneven(good=(0.4, 0.6)))
    model = cw.JointEM("lda", features="plain", class_prior=declared).fit(X, answers, sample_weight=weight)
    np.testing.assert_allclose(np.average(model.proba_, axis=0, weights=weight), [0.1, 0.45, 0.45], atol=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        wider = cw.Answers.from_codes(*(getattr(answers_of(truth, uneven()), c) for c in ("task", "worker", "label")),
                                      tasks=300, workers=8, classes=4)  # fmt: skip
        gold = np.full(300, -1, np.int32)
        gold[:10] = 3  # without answers
        network = cw.JointEM("mlp", class_prior="balanced", max_iter=3).fit(X, wider, gold=gold)
    assert network.named_.all()
    assert network.proba_[10:, 3].mean() > 0.01
