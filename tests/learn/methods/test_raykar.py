import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import crowdwise as cw
from crowdwise.errors import ConvergenceWarning, ParameterError
from crowdwise.learn.joint_em.classifiers import draw_folds
from tests.helpers.crowds import answers_of, blobs, swapping, uneven


def bounds(model):
    return np.array([record["bound"] for record in model.history_])


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_the_bound_never_falls(n_classes, solver):
    for seed in range(3):
        X, truth = blobs(n_tasks=120, n_classes=n_classes, distance=1.5, seed=seed)
        answers = answers_of(truth, uneven(n_classes=n_classes), seed=seed)
        weight = np.random.default_rng(seed).uniform(0.2, 2, 120) if seed else None
        gold = np.where(np.arange(120) < 10 * seed, truth, -1).astype(np.int32)
        model = cw.Raykar(solver=solver, max_iter=25, tol=0, ridge=0.3).fit(X, answers, sample_weight=weight, gold=gold)
        rises = np.diff(bounds(model))
        assert len(rises) == 24
        assert (rises >= -1e-6 * np.abs(bounds(model)[1:])).all()


def test_uninformative_features_give_dawid_skene():
    _, truth = blobs(n_tasks=200)
    answers = answers_of(truth, uneven())
    nothing = np.zeros((200, 3), np.float32)
    ours = cw.Raykar(max_iter=400, tol=1e-10, ridge=1e-3).fit(nothing, answers)
    theirs = cw.DawidSkene(max_iter=2000, tol=1e-10).fit(answers)
    np.testing.assert_allclose(ours.proba_, theirs.proba_, atol=1e-4)
    np.testing.assert_allclose(ours.confusion_, theirs.confusion_, atol=1e-4)


def test_recovers_confusion_and_beats_the_vote():
    """Features and answers together identify workers who swap classes; the vote does not."""
    for seed in range(3):
        X, truth = blobs(n_tasks=800, distance=3, seed=seed)
        confusion = swapping()
        answers = answers_of(truth, confusion, seed=seed)
        model = cw.Raykar().fit(X, answers)
        assert np.abs(model.confusion_ - confusion).mean() < 0.04
        vote = cw.MajorityVote().fit(answers)
        assert (model.labels_ == truth).mean() > (vote.labels_ == truth).mean() + 0.05
        X_new, new = blobs(n_tasks=800, distance=3, seed=seed + 50)
        assert model.score(X_new, new) > cw.Aggregated("majority-vote", "logistic", soft=False).fit(X, answers).score(
            X_new, new
        )


def test_two_classes_give_sensitivity_and_specificity():
    X, truth = blobs(n_tasks=1000, n_classes=2, distance=2)
    confusion = uneven(n_classes=2, n_workers=5)
    model = cw.Raykar(prior=None).fit(X, answers_of(truth, confusion, per_task=5))
    np.testing.assert_allclose(model.confusion_[:, 1, 1], confusion[:, 1, 1], atol=0.06)
    np.testing.assert_allclose(model.confusion_[:, 0, 0], confusion[:, 0, 0], atol=0.06)


def test_gold_is_kept():
    X, truth = blobs(n_tasks=100)
    answers = answers_of(truth, uneven())
    gold = np.where(np.arange(100) < 20, (truth + 1) % 3, -1).astype(np.int32)
    model = cw.Raykar(max_iter=5, tol=0).fit(X, answers, gold=gold)
    np.testing.assert_array_equal(model.codes_[:20], gold[:20])


@pytest.mark.parametrize(
    "estimator",
    [GaussianNB(), RandomForestClassifier(10, random_state=0), make_pipeline(StandardScaler(), LogisticRegression())],
)
def test_every_classifier_with_sample_weight_is_accepted(estimator):
    X, truth = blobs(n_tasks=300)
    answers = answers_of(truth, uneven())
    model = cw.Raykar(estimator, cross_fit=3, max_iter=4).fit(X, answers)
    assert (model.labels_ == truth).mean() > 0.85
    assert model.predict_proba(X).shape == (300, 3)
    assert model.answer_proba(X[:2], worker=0).shape == (2, 3)


def test_cross_fitting_hides_the_answers_of_a_task_from_its_classifier():
    """One-hot features per task are memorised unless the classifier never saw the task."""
    _, truth = blobs(n_tasks=150)
    answers = answers_of(truth, uneven(good=(0.5, 0.7)))
    names = np.eye(150, dtype=np.float32)
    heart = cw.Raykar(ridge=1e-4, max_iter=12, tol=0).fit(names, answers)
    apart = cw.Raykar(ridge=1e-4, cross_fit=5).fit(names, answers)
    assert heart.proba_.max(axis=1).mean() > apart.proba_.max(axis=1).mean() + 0.02
    assert np.bincount(draw_folds(150, 5, 0)).tolist() == [30] * 5


def test_a_second_fit_does_not_depend_on_the_first():
    X, truth = blobs(n_tasks=120)
    answers = answers_of(truth, uneven())
    model = cw.Raykar(max_iter=3, tol=0).fit(X, answers).set_params(classifier=GaussianNB()).fit(X, answers)
    fresh = cw.Raykar(GaussianNB(), max_iter=3, tol=0).fit(X, answers)
    np.testing.assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))
    assert not hasattr(model, "coef_")


def test_calibration_softens_an_overconfident_classifier():
    rng = np.random.default_rng(0)
    X, truth = blobs(n_tasks=300, distance=1.0)
    answers = answers_of(truth, uneven(good=(0.6, 0.8)))
    wide = np.column_stack([X, rng.normal(size=(300, 150))]).astype(np.float32)  # enough features to fit noise
    model = cw.Raykar(ridge=1e-3, cross_fit=5, calibrate=True).fit(wide, answers)
    assert model.temperature_ > 1.2
    plain = cw.Raykar(ridge=1e-3, cross_fit=5).fit(wide, answers)
    assert model.predict_proba(wide).max(axis=1).mean() < plain.predict_proba(wide).max(axis=1).mean()
    assert cw.Raykar(cross_fit=3, max_iter=2).fit(X, answers).temperature_ == 1


def test_settings_are_checked():
    X, truth = blobs(n_tasks=50)
    answers = answers_of(truth, uneven())
    for parameters, word in (
        ({"solver": "sgd"}, "solver"), ({"ridge": -1}, "ridge"), ({"cross_fit": 1}, "cross_fit"),
        ({"calibrate": True}, "cross_fit"), ({"max_iter": 0}, "max_iter"), ({"classifier": "svm"}, "classifier"),
        ({"prior": "foo"}, "prior"), ({"prior": -1}, "prior"), ({"cross_fit": 2.5}, "cross_fit"),
        ({"max_iter": "5"}, "max_iter"), ({"random_state": -1}, "random_state"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=word):
            cw.Raykar(**parameters).fit(X, answers)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        cw.Raykar(max_iter=2, tol=1e-12).fit(X, answers)
