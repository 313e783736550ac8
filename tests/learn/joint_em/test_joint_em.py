import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler

import crowdwise as cw
from crowdwise.errors import ConvergenceWarning, ModelFileError, ParameterError
from crowdwise.evaluate.metrics import ece
from crowdwise.learn.joint_em.experts import make_experts, predict_experts
from crowdwise.learn.network.torch_support import torch
from tests.helpers.crowds import answers_of, blobs, copied, swapping, uneven

EXACT = {"cross_fit": None, "calibrate": False, "leave_one_out": False, "features": "standard"}


def noisy(n_tasks=300, n_features=60, seed=0, **options):
    """Return blobs with many uninformative features, which a flexible classifier memorises."""
    X, truth = blobs(n_tasks=n_tasks, seed=seed, **options)
    more = np.random.default_rng([seed, 5]).normal(size=(n_tasks, n_features - X.shape[1]))
    return np.concatenate([X, more], axis=1), truth


@pytest.mark.parametrize("classifier", ["lda", "logistic"])
@pytest.mark.parametrize("shares", [(0.34, 0.33, 0.33), (0.75, 0.15, 0.1)])
def test_the_bound_never_falls_in_exact_em(classifier, shares):
    for seed in range(2):
        X, truth = blobs(n_tasks=120, distance=1.5, shares=shares, seed=seed)
        answers = answers_of(truth, uneven(), seed=seed)
        weight = np.random.default_rng(seed).uniform(0.2, 2, 120) if seed else None
        gold = np.where(np.arange(120) < 10 * seed, truth, -1).astype(np.int32)
        model = cw.JointEM(classifier, **EXACT, max_iter=25, tol=0).fit(X, answers, sample_weight=weight, gold=gold)
        assert len(model.bounds_) == 25
        assert (np.diff(model.bounds_) >= -1e-6 * np.abs(model.bounds_[1:])).all()


def test_with_all_changes_off_it_equals_raykar():
    X, truth = blobs(n_tasks=200, distance=2)
    answers = answers_of(truth, uneven())
    ours = cw.JointEM("logistic", **EXACT, prior="diagonal", max_iter=40, tol=0).fit(X, answers)
    theirs = cw.Raykar(max_iter=40, tol=0).fit(X, answers)
    np.testing.assert_allclose(ours.proba_, theirs.proba_, atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


def test_recovers_confusion_and_beats_a_classifier_trained_on_the_vote():
    X, truth = noisy(n_tasks=400)
    confusion = swapping()
    answers = answers_of(truth, confusion)
    model = cw.JointEM().fit(X, answers)
    vote = cw.Aggregated("majority-vote", "logistic", soft=False).fit(X, answers)
    assert np.abs(model.confusion_ - confusion).mean() < 0.08
    X_new, new = noisy(n_tasks=800, seed=50)
    assert model.score(X_new, new) > vote.score(X_new, new) + 0.05
    assert (model.labels_ == truth).mean() > (cw.MajorityVote().fit(answers).labels_ == truth).mean() + 0.05


def test_confidence_is_calibrated():
    gaps = []
    for seed in range(2):
        X, truth = noisy(n_tasks=300, n_features=30, distance=2, seed=seed)
        model = cw.JointEM(random_state=seed).fit(X, answers_of(truth, uneven(), seed=seed))
        X_new, new = noisy(n_tasks=2000, n_features=30, distance=2, seed=seed + 50)
        gaps.append(ece(new, model.predict_proba(X_new)))
    assert np.mean(gaps) < 0.06


def test_logistic_experts_leave_out_the_class_shares():
    X, truth = blobs(n_tasks=300, shares=(0.8, 0.1, 0.1), distance=1.0)
    answers, target = answers_of(truth, uneven()), np.eye(3)[truth][None]
    setting = {"classifier": "logistic", "features": "plain", "equal_shares": False}
    classifiers = [
        make_experts(X, answers, None, None, **setting, separate_shares=separate)[0].classifier
        for separate in (True, False)
    ]
    for classifier in classifiers:
        classifier.fit(target)
    without_shares, with_shares = (classifier.proba()[0] for classifier in classifiers)
    product = without_shares * target[0].mean(axis=0)
    np.testing.assert_allclose(product / product.sum(axis=1, keepdims=True), with_shares, atol=1e-10)
    assert without_shares[:, 0].mean() < with_shares[:, 0].mean() - 0.1


def test_training_shares_are_weighted():
    X, truth = blobs(n_tasks=200, shares=(0.6, 0.3, 0.1))
    weight = np.where(truth == 0, 0.1, 2.0)
    for classifier in ("logistic", "mlp"):
        model = cw.JointEM(classifier, max_iter=3, tol=0, **EXACT)
        model.fit(X, answers_of(truth, uneven()), sample_weight=weight)
        np.testing.assert_allclose(model.taught_share_, np.average(model.proba_, axis=0, weights=weight), atol=1e-9)
    (expert,) = make_experts(
        X, answers_of(truth, uneven()), weight, None, classifier="logistic", features="plain", equal_shares=False
    )
    expert.classifier.fit(np.eye(3)[truth][None])
    np.testing.assert_allclose(expert.classifier.shares, np.average(np.eye(3)[truth], axis=0, weights=weight))


def test_a_task_of_weight_zero_is_ignored():
    X, truth = blobs(n_tasks=120)
    answers, weight = answers_of(truth, uneven()), np.where(np.arange(120) < 5, 0.0, 1.0)
    far = X.copy()
    far[:5] *= 1e6
    near, other = (cw.JointEM("lda", features="plain").fit(x, answers, sample_weight=weight) for x in (X, far))
    np.testing.assert_allclose(other.proba_[5:], near.proba_[5:], atol=1e-6)
    np.testing.assert_allclose(other.predict_proba(X), near.predict_proba(X), atol=1e-6)


def test_auto_includes_logistic_regression_only_with_enough_answers():
    X, truth = blobs(n_tasks=60)  # 6 features and 3 classes: 14 coefficients
    for per_task, kinds in ((2, {"lda", "rda", "qda"}), (3, {"lda", "rda", "qda", "logistic"})):
        answers = answers_of(truth, uneven(), per_task=per_task)
        experts = make_experts(X, answers, None, None, classifier="auto", features="auto", equal_shares=True)
        assert {expert.kind for expert in experts} == kinds
        assert ("kernel", "logistic") not in {(expert.view, expert.kind) for expert in experts}


def test_class_shares_are_equal_only_if_votes_are_spread_evenly():
    for shares, even in (((0.4, 0.3, 0.3), True), ((0.85, 0.1, 0.05), False)):
        X, truth = blobs(n_tasks=200, shares=shares)
        model = cw.JointEM("lda", features="plain").fit(X, answers_of(truth, uneven(good=(0.9, 0.95))))
        assert model.even_ is even
        expected = np.full(3, 1 / 3) if even else model.proba_.mean(axis=0)
        np.testing.assert_allclose(model.class_share_, expected, atol=0.01)


def test_classes_given_only_by_mistake_fade():
    X, truth = blobs(n_tasks=1000, n_classes=5)
    rows = np.flatnonzero(truth < 3)
    answers = answers_of(truth[rows], uneven(n_classes=5, good=(0.5, 0.7)), per_task=5)
    assert np.bincount(answers.label, minlength=5)[3:].min() > 0.05 * answers.n_answers
    model = cw.JointEM("lda", features="plain").fit(X[rows], answers)
    assert model.class_share_[3:].sum() < 0.04
    assert (model.labels_ == truth[rows]).mean() > 0.95


def test_classes_given_only_by_mistake_do_not_replace_others():
    X, truth = load_iris(return_X_y=True)
    accuracy = []
    for seed in range(2):
        answers = cw.simulate.simulate(truth=truth, n_classes=8, n_workers=20, answers_per_task=3, seed=seed)
        accuracy.append([(model.labels_ == truth).mean() for model in (
            cw.JointEM().fit(X, answers), cw.Raykar().fit(X, answers), cw.DawidSkene().fit(answers))])  # fmt: skip
    ours, raykar, ds = np.mean(accuracy, axis=0)
    assert ours > max(raykar, ds, 0.9)


def test_answers_get_less_weight_if_workers_err_together():
    X, truth = blobs(n_tasks=400, distance=1.5)
    independent = answers_of(truth, uneven(), seed=1)
    duplicated = copied(independent, 4)
    assert cw.JointEM("lda", features="plain").fit(X, independent).answer_weight_ > 0.8
    automatic = cw.JointEM("lda", features="plain").fit(X, duplicated)
    assert automatic.answer_weight_ < 0.5
    fixed = cw.JointEM("lda", features="plain", answer_weight=1.0).fit(X, duplicated)
    assert fixed.answer_weight_ == 1
    assert ece(truth, automatic.proba_) < ece(truth, fixed.proba_)


def test_the_answer_weight_is_one_with_one_answer_per_task():
    X, truth = blobs(n_tasks=100)
    assert cw.JointEM("lda", features="plain").fit(X, answers_of(truth, uneven(), per_task=1)).answer_weight_ == 1


def test_workers_are_judged_by_features_with_one_answer_per_task():
    gains = []
    for seed in range(2):
        X, truth = blobs(n_tasks=300, distance=2.5, seed=seed)
        confusion = uneven(good=(0.4, 0.9))
        answers = answers_of(truth, confusion, per_task=1, seed=seed)
        model = cw.JointEM(random_state=seed).fit(X, answers)
        assert np.abs(np.einsum("wcc->wc", model.confusion_ - confusion)).mean() < 0.2
        gains.append((model.labels_ == truth).mean() - (cw.Raykar().fit(X, answers).labels_ == truth).mean())
    assert np.mean(gains) > -0.01


def test_the_answer_weight_scales_the_log_odds_that_answers_add():
    X, truth = blobs(n_tasks=100)
    answers = answers_of(truth, uneven())
    for leave_one_out in (True, False):
        setting = {"features": "plain", "leave_one_out": leave_one_out, "max_iter": 1}
        log_f, half, full = (
            np.log(cw.JointEM("lda", answer_weight=weight, **setting).fit(X, answers).proba_)
            for weight in (0.0, 0.5, 1.0)
        )
        half, full = half - log_f, full - log_f
        np.testing.assert_allclose(2 * (half - half[:, :1]), full - full[:, :1], atol=1e-6)


def test_single_precision_rows_are_classified_like_double_precision():
    rng = np.random.default_rng(0)
    X, truth = blobs(n_tasks=300)
    X = np.where(rng.random(X.shape) < 0.5, 0.1, np.round(X, 1))  # values that many tasks share
    model = cw.JointEM("logistic", features="rank").fit(X, answers_of(truth, uneven()))
    rows = X.astype(np.float32)
    proba = [predict_experts(model.experts_, x, model.class_share_) for x in (rows, rows.astype(np.float64))]
    np.testing.assert_array_equal(*proba)


def test_classes_without_answers_get_no_probability():
    X, truth = blobs(n_tasks=150, distance=1.5)
    few = answers_of(truth, uneven(good=(0.5, 0.7)))
    more = cw.Answers.from_codes(few.task, few.worker, few.label, tasks=150, workers=8, classes=5)
    known = cw.JointEM("lda", features="plain").fit(X, more, gold={0: 4})
    assert known.labels_[0] == 4
    assert known.named_.tolist() == [True, True, True, False, True]
    for options in ({}, {"classifier": "mlp", "max_iter": 3}, {**EXACT, "classifier": "logistic", "max_iter": 50}):
        model = cw.JointEM(**options).fit(X, more)
        assert model.proba_[:, 3:].max() < 1e-6
        assert model.predict_proba(X)[:, 3:].max() < 1e-6
        if not options:
            same = cw.JointEM().fit(X, few)
            assert abs((model.labels_ == truth).mean() - (same.labels_ == truth).mean()) < 0.03


def test_estimators_transformers_and_modules_are_accepted():
    X, truth = blobs(n_tasks=120)
    answers = answers_of(truth, uneven())
    forest = cw.JointEM(RandomForestClassifier(10, random_state=0), features=StandardScaler(), max_iter=3).fit(
        X, answers
    )
    assert (forest.labels_ == truth).mean() > 0.85
    assert forest.predict_proba(X).shape == (120, 3)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    network = cw.JointEM(module, max_iter=30).fit(X, answers)
    assert (network.labels_ == truth).mean() > 0.85


def test_networks_take_pictures_in_their_shape():
    X, truth = blobs(n_tasks=40, n_features=64)
    answers, pictures = answers_of(truth, uneven()), X.reshape(40, 1, 8, 8)
    for classifier in (cw.CNN(), "lda"):
        model = cw.JointEM(classifier, max_iter=2).fit(pictures, answers)
        assert model.predict_proba(pictures).shape == (40, 3)
        assert model.answer_proba(pictures[:4]).shape == (4, 8, 3)


def test_networks_are_saved_and_arbitrary_estimators_are_rejected(tmp_path):
    X, truth = blobs(n_tasks=60)
    answers = answers_of(truth, uneven())
    for setting in ({"features": "rank"}, {"features": "kernel"}, {}):
        model = cw.JointEM("mlp", max_iter=3, **setting).fit(X, answers)
        model.save(tmp_path / "model")
        loaded = cw.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.answer_proba(X), model.answer_proba(X))
    declared = cw.JointEM("lda", features="plain", class_prior={0: 0.4, 1: 0.3, 2: 0.3}, max_iter=2).fit(X, answers)
    declared.save(tmp_path / "declared")
    assert cw.load(tmp_path / "declared").class_prior == {0: 0.4, 1: 0.3, 2: 0.3}
    boosted = cw.JointEM(GradientBoostingClassifier(n_estimators=3), max_iter=1).fit(X, answers)
    with pytest.raises(ModelFileError, match="pickle"):
        boosted.save(tmp_path / "boosted")
    binned = cw.JointEM("lda", features=KBinsDiscretizer(4, encode="ordinal"), max_iter=1).fit(X, answers)
    with pytest.raises(ModelFileError, match="such as 'rank'"):
        binned.save(tmp_path / "binned")


def test_models_of_the_first_version_are_rejected(tmp_path):
    X, truth = blobs(n_tasks=40)
    model = cw.JointEM("lda", features="plain", max_iter=1).fit(X, answers_of(truth, uneven()))
    del model.class_share_
    model.save(tmp_path / "old")
    with pytest.raises(ModelFileError, match="Fit it again"):
        cw.load(tmp_path / "old")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"classifier": "svm"}, "classifier"),
        ({"classifier": 3}, "classifier"),
        ({"features": "log"}, "features"),
        ({"features": ["rank", "log"]}, "features"),
        ({"classifier": "mlp", "features": ["rank", "root"]}, "features"),
        ({"features": []}, "features"),
        ({"features": StandardScaler}, "features"),
        ({"classifier": RandomForestClassifier}, "classifier"),
        ({"prior": None}, "prior"),
        ({"calibrate": False}, "name both"),
        ({"classifier": "lda", "calibrate": False}, "name both"),
        ({"cross_fit": None}, "calibrate"),
        ({"cross_fit": 1}, "cross_fit"),
        ({"answer_weight": 1.5}, "answer_weight"),
        ({"answer_weight": "all"}, "answer_weight"),
        ({"prior": "wide"}, "prior"),
        ({"max_iter": 0}, "max_iter"),
        ({"new_class_prior": "even"}, "new_class_prior"),
        ({"new_class_prior": {0: 1, 1: 1}}, "new_class_prior"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_invalid_settings_are_rejected(setting, message):
    X, truth = blobs(n_tasks=30)
    with pytest.raises(ParameterError, match=message):
        cw.JointEM(**setting).fit(X, answers_of(truth, uneven()))


def test_exact_em_warns_if_it_does_not_converge():
    X, truth = blobs(n_tasks=100, distance=1)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        cw.JointEM("lda", **EXACT, max_iter=2, tol=1e-9).fit(X, answers_of(truth, uneven()))
