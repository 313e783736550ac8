import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

import crowdwise as cw
from crowdwise.errors import ConvergenceWarning, ModelFileError, ParameterError
from crowdwise.evaluate.metrics import ece
from crowdwise.learn.joint_em.experts import make_experts, predict_experts
from crowdwise.learn.network.torch_support import torch
from tests.helpers.crowds import answers_of, blobs, copied, swapping, uneven

EXACT = {"cross_fit": None, "calibrate": False, "leave_one_out": False, "features": "standard"}


def noisy(n_tasks=300, n_features=60, seed=0, **options):
    """Blobs among many features that say nothing: what a flexible classifier learns by heart."""
    X, truth = blobs(n_tasks=n_tasks, seed=seed, **options)
    more = np.random.default_rng([seed, 5]).normal(size=(n_tasks, n_features - X.shape[1]))
    return np.concatenate([X, more], axis=1), truth


@pytest.mark.parametrize("classifier", ["lda", "logistic"])
@pytest.mark.parametrize("shares", [(0.34, 0.33, 0.33), (0.75, 0.15, 0.1)])
def test_bound_never_falls_where_nothing_breaks_it(classifier, shares):
    for seed in range(3):
        X, truth = blobs(n_tasks=120, distance=1.5, shares=shares, seed=seed)
        answers = answers_of(truth, uneven(), seed=seed)
        weight = np.random.default_rng(seed).uniform(0.2, 2, 120) if seed else None
        gold = np.where(np.arange(120) < 10 * seed, truth, -1).astype(np.int32)
        model = cw.JointEM(classifier, **EXACT, max_iter=25, tol=0).fit(X, answers, sample_weight=weight, gold=gold)
        assert len(model.bounds_) == 25
        assert (np.diff(model.bounds_) >= -1e-6 * np.abs(model.bounds_[1:])).all()


def test_with_all_changes_off_it_is_raykar():
    X, truth = blobs(n_tasks=200, distance=2)
    answers = answers_of(truth, uneven())
    ours = cw.JointEM("logistic", **EXACT, prior="diagonal", max_iter=40, tol=0).fit(X, answers)
    theirs = cw.Raykar(max_iter=40, tol=0).fit(X, answers)
    np.testing.assert_allclose(ours.proba_, theirs.proba_, atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


def test_recovers_who_swaps_classes_and_predicts_better_than_a_network_of_the_vote():
    for seed in range(2):
        X, truth = noisy(n_tasks=400, seed=seed)
        confusion = swapping()
        answers = answers_of(truth, confusion, seed=seed)
        model = cw.JointEM(random_state=seed).fit(X, answers)
        vote = cw.Aggregated("majority-vote", "logistic", soft=False).fit(X, answers)
        assert np.abs(model.confusion_ - confusion).mean() < 0.08
        X_new, new = noisy(n_tasks=800, seed=seed + 50)
        assert model.score(X_new, new) > vote.score(X_new, new) + 0.05
        assert (model.labels_ == truth).mean() > (cw.MajorityVote().fit(answers).labels_ == truth).mean() + 0.05


def test_confidence_is_honest():
    gaps = []
    for seed in range(3):
        X, truth = noisy(n_tasks=300, n_features=30, distance=2, seed=seed)
        model = cw.JointEM(random_state=seed).fit(X, answers_of(truth, uneven(), seed=seed))
        X_new, new = noisy(n_tasks=2000, n_features=30, distance=2, seed=seed + 50)
        gaps.append(ece(new, model.predict_proba(X_new)))
    assert np.mean(gaps) < 0.06


def test_what_logistic_regression_says_is_freed_of_the_shares_it_was_taught():
    X, truth = blobs(n_tasks=300, shares=(0.8, 0.1, 0.1), distance=1.0)
    answers, target = answers_of(truth, uneven()), np.eye(3)[truth][None]
    pieces = [
        make_experts(X, answers, None, None, classifier="logistic", features="plain", even=False, apart=apart)[0].piece
        for apart in (True, False)
    ]
    for piece in pieces:
        piece.fit(target)
    apart, own = (piece.proba()[0] for piece in pieces)
    both = apart * target[0].mean(axis=0)
    np.testing.assert_allclose(both / both.sum(axis=1, keepdims=True), own, atol=1e-10)
    assert apart[:, 0].mean() < own[:, 0].mean() - 0.1


def test_the_shares_that_are_freed_are_those_of_the_tasks_that_count():
    X, truth = blobs(n_tasks=200, shares=(0.6, 0.3, 0.1))
    weight = np.where(truth == 0, 0.1, 2.0)
    for classifier in ("logistic", "mlp"):
        model = cw.JointEM(classifier, max_iter=3, tol=0, **EXACT)
        model.fit(X, answers_of(truth, uneven()), sample_weight=weight)
        np.testing.assert_allclose(model.taught_share_, np.average(model.proba_, axis=0, weights=weight), atol=1e-9)
    (expert,) = make_experts(
        X, answers_of(truth, uneven()), weight, None, classifier="logistic", features="plain", even=False
    )
    expert.piece.fit(np.eye(3)[truth][None])
    np.testing.assert_allclose(expert.piece.taught, np.average(np.eye(3)[truth], axis=0, weights=weight))


def test_a_task_of_weight_zero_is_left_out():
    X, truth = blobs(n_tasks=120)
    answers, weight = answers_of(truth, uneven()), np.where(np.arange(120) < 5, 0.0, 1.0)
    far = X.copy()
    far[:5] *= 1e6
    near, other = (cw.JointEM("lda", features="plain").fit(x, answers, sample_weight=weight) for x in (X, far))
    np.testing.assert_allclose(other.proba_[5:], near.proba_[5:], atol=1e-6)
    np.testing.assert_allclose(other.predict_proba(X), near.predict_proba(X), atol=1e-6)


def test_logistic_regression_joins_where_answers_are_many():
    X, truth = blobs(n_tasks=60)  # 6 features and 3 classes: 14 coefficients
    for per_task, kinds in ((2, {"lda", "rda", "qda"}), (3, {"lda", "rda", "qda", "logistic"})):
        answers = answers_of(truth, uneven(), per_task=per_task)
        experts = make_experts(X, answers, None, None, classifier="auto", features="auto", even=True)
        assert {expert.kind for expert in experts} == kinds
        assert ("kernel", "logistic") not in {(expert.view, expert.kind) for expert in experts}


def test_classes_are_held_for_equal_where_votes_are_spread_evenly():
    for shares, even in (((0.4, 0.3, 0.3), True), ((0.85, 0.1, 0.05), False)):
        X, truth = blobs(n_tasks=200, shares=shares)
        model = cw.JointEM().fit(X, answers_of(truth, uneven(good=(0.9, 0.95))))
        assert model.even_ is even
        expected = np.full(3, 1 / 3) if even else model.proba_.mean(axis=0)
        np.testing.assert_allclose(model.class_share_, expected, atol=0.01)


def test_classes_that_are_named_by_mistake_alone_fade():
    X, truth = blobs(n_tasks=1000, n_classes=5)
    kept = np.flatnonzero(truth < 3)
    answers = answers_of(truth[kept], uneven(n_classes=5, good=(0.5, 0.7)), per_task=5)
    assert np.bincount(answers.label, minlength=5)[3:].min() > 0.05 * answers.n_answers
    model = cw.JointEM().fit(X[kept], answers)
    assert model.class_share_[3:].sum() < 0.04
    assert (model.labels_ == truth[kept]).mean() > 0.95


def test_classes_that_are_named_by_mistake_alone_do_not_take_over_those_of_others():
    X, truth = load_iris(return_X_y=True)
    right = []
    for seed in range(3):
        answers = cw.simulate.simulate(truth=truth, n_classes=8, n_workers=20, answers_per_task=3, seed=seed)
        right.append([(model.labels_ == truth).mean() for model in (
            cw.JointEM().fit(X, answers), cw.Raykar().fit(X, answers), cw.DawidSkene().fit(answers))])  # fmt: skip
    ours, raykar, ds = np.mean(right, axis=0)
    assert ours > max(raykar, ds, 0.9)


def test_answers_count_for_less_where_workers_err_together():
    X, truth = blobs(n_tasks=400, distance=1.5)
    alone = answers_of(truth, uneven(), seed=1)
    together = copied(alone, 4)
    independent, doubted = cw.JointEM().fit(X, alone), cw.JointEM().fit(X, together)
    assert independent.answer_weight_ > 0.8
    assert doubted.answer_weight_ < 0.5
    sure = cw.JointEM(answer_weight=1.0).fit(X, together)
    assert sure.answer_weight_ == 1
    assert ece(truth, doubted.proba_) < ece(truth, sure.proba_)


def test_with_one_answer_a_task_nothing_is_doubted():
    X, truth = blobs(n_tasks=100)
    assert cw.JointEM().fit(X, answers_of(truth, uneven(), per_task=1)).answer_weight_ == 1


def test_with_one_answer_a_task_workers_are_judged_by_features_and_not_by_themselves():
    gains = []
    for seed in range(3):
        X, truth = blobs(n_tasks=300, distance=2.5, seed=seed)
        confusion = uneven(good=(0.4, 0.9))
        answers = answers_of(truth, confusion, per_task=1, seed=seed)
        model = cw.JointEM(random_state=seed).fit(X, answers)
        assert np.abs(np.einsum("wcc->wc", model.confusion_ - confusion)).mean() < 0.2
        gains.append((model.labels_ == truth).mean() - (cw.Raykar().fit(X, answers).labels_ == truth).mean())
    assert np.mean(gains) > -0.01


def test_an_answer_that_counts_for_nothing_leaves_the_classifier():
    X, truth = blobs(n_tasks=100)
    answers = answers_of(truth, uneven())
    for left in (True, False):
        model = cw.JointEM("lda", features="plain", answer_weight=0.0, leave_one_out=left, max_iter=1).fit(X, answers)
        more = cw.JointEM("lda", features="plain", answer_weight=0.5, leave_one_out=left, max_iter=1).fit(X, answers)
        full = cw.JointEM("lda", features="plain", answer_weight=1.0, leave_one_out=left, max_iter=1).fit(X, answers)
        f = np.log(model.proba_)
        half, whole = np.log(more.proba_) - f, np.log(full.proba_) - f
        half, whole = half - half[:, :1], whole - whole[:, :1]  # log odds that answers add
        np.testing.assert_allclose(2 * half, whole, atol=1e-6)


def test_the_same_rows_in_fewer_digits_are_seen_as_the_same():
    rng = np.random.default_rng(0)
    X, truth = blobs(n_tasks=300)
    X = np.where(rng.random(X.shape) < 0.5, 0.1, np.round(X, 1))  # values that many tasks have
    model = cw.JointEM("logistic", features="rank").fit(X, answers_of(truth, uneven()))
    rows = X.astype(np.float32)  # as models are given them
    says = [predict_experts(model.experts_, x, model.class_share_) for x in (rows, rows.astype(np.float64))]
    np.testing.assert_array_equal(*says)


def test_classes_that_nobody_named_get_nothing():
    X, truth = blobs(n_tasks=150, distance=1.5)
    few = answers_of(truth, uneven(good=(0.5, 0.7)))
    more = cw.Answers.from_codes(few.task, few.worker, few.label, tasks=150, workers=8, classes=5)
    ours, plain = cw.JointEM().fit(X, more), cw.JointEM().fit(X, few)
    assert ours.proba_[:, 3:].max() < 1e-6
    assert ours.predict_proba(X)[:, 3:].max() < 1e-6
    assert abs((ours.labels_ == truth).mean() - (plain.labels_ == truth).mean()) < 0.03
    known = cw.JointEM().fit(X, more, gold={0: 4})
    assert known.labels_[0] == 4
    assert known.named_.tolist() == [True, True, True, False, True]
    for options in ({}, {"classifier": "mlp", "max_iter": 3}, {**EXACT, "classifier": "logistic", "max_iter": 50}):
        model = cw.JointEM(**options).fit(X, more)
        assert model.proba_[:, 3:].max() < 1e-6
        assert model.predict_proba(X)[:, 3:].max() < 1e-6


def test_estimators_transformers_and_modules():
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


def test_pictures_go_to_networks_in_their_shape():
    X, truth = blobs(n_tasks=40, n_features=64)
    answers, pictures = answers_of(truth, uneven()), X.reshape(40, 1, 8, 8)
    for classifier in (cw.CNN(), "lda"):
        model = cw.JointEM(classifier, max_iter=2).fit(pictures, answers)
        assert model.predict_proba(pictures).shape == (40, 3)
        assert model.answer_proba(pictures[:4]).shape == (4, 8, 3)


def test_networks_and_forests_are_saved_or_refused(tmp_path):
    X, truth = blobs(n_tasks=60)
    answers = answers_of(truth, uneven())
    for setting in ({"features": "rank"}, {"features": "kernel"}, {}):
        model = cw.JointEM("mlp", max_iter=3, **setting).fit(X, answers)
        model.save(tmp_path / "model")
        loaded = cw.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.answer_proba(X), model.answer_proba(X))
    told = cw.JointEM("lda", features="plain", class_prior={0: 0.4, 1: 0.3, 2: 0.3}, max_iter=2).fit(X, answers)
    told.save(tmp_path / "told")
    assert cw.load(tmp_path / "told").class_prior == {0: 0.4, 1: 0.3, 2: 0.3}
    forest = cw.JointEM(RandomForestClassifier(3), max_iter=1).fit(X, answers)
    with pytest.raises(ModelFileError, match="pickle"):
        forest.save(tmp_path / "forest")
    scaled = cw.JointEM("lda", features=StandardScaler(), max_iter=1).fit(X, answers)
    with pytest.raises(ModelFileError, match="such as 'rank'"):
        scaled.save(tmp_path / "scaled")


def test_models_of_the_first_form_are_refused(tmp_path):
    X, truth = blobs(n_tasks=40)
    model = cw.JointEM("lda", features="plain", max_iter=1).fit(X, answers_of(truth, uneven()))
    del model.class_share_
    model.save(tmp_path / "old")
    with pytest.raises(ModelFileError, match="fit it again"):
        cw.load(tmp_path / "old")


@pytest.mark.parametrize(
    ("setting", "said"),
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
def test_settings_without_sense_are_refused(setting, said):
    X, truth = blobs(n_tasks=30)
    with pytest.raises(ParameterError, match=said):
        cw.JointEM(**setting).fit(X, answers_of(truth, uneven()))


def test_exact_em_that_stops_too_early_says_so():
    X, truth = blobs(n_tasks=100, distance=1)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        cw.JointEM("lda", **EXACT, max_iter=2, tol=1e-9).fit(X, answers_of(truth, uneven()))
