import numpy as np
import pytest
from crowds import answers_of, blobs, swapping, uneven
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

import crowdwise as cw
from crowdwise.errors import ConvergenceWarning, ModelFileError, ParameterError
from crowdwise.evaluate.metrics import ece
from crowdwise.learn.em import ConfusionWorkers
from crowdwise.learn.experts import make_experts
from crowdwise.learn.joint_em import EVEN
from crowdwise.learn.torched import torch

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


def test_leaving_one_out_counts_the_worker_s_other_answers():
    _, truth = blobs(n_tasks=25)
    answers = answers_of(truth, uneven())
    believed = np.random.default_rng(0).dirichlet(np.ones(3), 25)
    prior = np.full((3, 3), 0.7)
    workers = ConfusionWorkers(answers, prior, None, leave_one_out=True)
    workers.fit(believed, believed)
    f = np.full((25, 3), 1 / 3)
    posterior, total = workers.posterior(f, None)
    expected = np.zeros(25)
    for t in range(25):
        logs = np.log(f[t])
        for a in np.flatnonzero(answers.task == t):
            others = (answers.worker == answers.worker[a]) & (answers.task != t)
            counts = prior.copy()  # (truth, label)
            for b in np.flatnonzero(others):
                counts[:, answers.label[b]] += believed[answers.task[b]]
            logs += np.log(counts[:, answers.label[a]] / counts.sum(axis=1))
        expected[t] = np.logaddexp.reduce(logs)
        np.testing.assert_allclose(posterior[t], np.exp(logs - expected[t]), atol=1e-10)
    np.testing.assert_allclose(workers.evidence(f), expected, atol=1e-10)
    assert total == pytest.approx(expected.sum())


def test_answers_pick_the_view_and_the_kind():
    rng = np.random.default_rng(0)
    X, truth = blobs(n_tasks=500, distance=2)
    skewed = np.sign(X) * X**6 * rng.uniform(0.1, 10, X.shape[1])  # plain axes are those of the outliers
    model = cw.JointEM().fit(skewed, answers_of(truth, uneven()))
    weight = dict.fromkeys(("plain", "root", "standard", "rank"), 0.0)
    for expert in model.experts_:
        weight[expert["view"]] += expert["weight"]
    assert weight["rank"] > weight["plain"]
    plain = cw.JointEM(features="plain").fit(skewed, answers_of(truth, uneven()))
    assert (model.labels_ == truth).mean() >= (plain.labels_ == truth).mean()


def test_logistic_regression_joins_where_answers_are_many():
    X, truth = blobs(n_tasks=60)  # 6 features and 3 classes: 14 coefficients
    for per_task, kinds in ((2, {"lda", "qda"}), (3, {"lda", "qda", "logistic"})):
        answers = answers_of(truth, uneven(), per_task=per_task)
        experts = make_experts(X, answers, None, None, classifier="auto", features="auto", even=True)
        assert {expert.kind for expert in experts} == kinds


def test_classes_are_held_for_equal_where_votes_are_spread_evenly():
    for shares, even in (((0.4, 0.3, 0.3), True), ((0.85, 0.1, 0.05), False)):
        X, truth = blobs(n_tasks=200, shares=shares)
        answers = answers_of(truth, uneven(good=(0.9, 0.95)))
        model = cw.JointEM().fit(X, answers)
        least = np.bincount(answers.label, minlength=3).min() / answers.n_answers
        assert model.even_ is even
        assert bool(least >= EVEN / 3) is even


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


def test_rounds_are_counted_through():
    X, truth = blobs(n_tasks=60)
    said = []
    cw.JointEM(max_iter=5).fit(X, answers_of(truth, uneven()), callback=said.append)
    assert [(record["iteration"], record["iterations"]) for record in said] == [(i, 5) for i in range(1, 6)]


def test_networks_and_forests_are_saved_or_refused(tmp_path):
    X, truth = blobs(n_tasks=60)
    answers = answers_of(truth, uneven())
    for setting in ({"features": "rank"}, {}):
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
        ({"prior": "wide"}, "prior"),
        ({"max_iter": 0}, "max_iter"),
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
