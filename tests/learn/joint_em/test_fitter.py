from types import SimpleNamespace

import numpy as np

import crowdwise as cw
from crowdwise.learn.joint_em import fitter, joint_em
from crowdwise.learn.joint_em.gaussian import GaussianClassifier
from crowdwise.learn.joint_em.views import fit_view
from tests.helpers.crowds import answers_of, blobs, uneven


def test_the_saved_classifier_is_fitted_to_the_final_labels():
    X, truth = blobs(n_tasks=150, distance=1.5)
    model = cw.JointEM("lda", features="plain", max_iter=2).fit(X, answers_of(truth, uneven()))
    _, transformed = fit_view("plain", X)
    expected = GaussianClassifier(transformed, None, None, shrinkage=0.1)
    expected.fit(model.proba_[None])
    np.testing.assert_allclose(model.experts_[0]["numbers"]["mean"], expected.parameters()["mean"], atol=1e-10)


def test_experts_of_little_weight_are_dropped():
    engine = SimpleNamespace(weights=np.array([[0.5, 0.005, 0.2, 0.0]]))
    assert fitter.select_experts(engine, ["a", "b", "c", "d"]) == ["a", "c"]


def test_the_better_view_gets_more_weight():
    rng = np.random.default_rng(0)
    X, truth = blobs(n_tasks=500, distance=2)
    skewed = np.sign(X) * X**6 * rng.uniform(0.1, 10, X.shape[1])  # plain axes are those of the outliers
    model = cw.JointEM("lda", features=["plain", "rank"]).fit(skewed, answers_of(truth, uneven()))
    weight = {"plain": 0.0, "rank": 0.0}
    for expert in model.experts_:
        weight[expert["view"]] += expert["weight"]
    assert weight["rank"] > weight["plain"]
    plain = cw.JointEM("lda", features="plain").fit(skewed, answers_of(truth, uneven()))
    assert (model.labels_ == truth).mean() >= (plain.labels_ == truth).mean()


def test_a_sample_of_many_tasks_selects_the_experts(monkeypatch):
    X, truth = blobs(n_tasks=600, distance=2)
    answers = answers_of(truth, uneven())
    gold, weight = np.where(np.arange(600) < 20, truth, -1).astype(np.int32), np.linspace(0.5, 2, 600)
    views = ["plain", "rank"]
    full = cw.JointEM(features=views).fit(X, answers, gold=gold, sample_weight=weight)
    calls = []
    make_experts = fitter.make_experts
    monkeypatch.setattr(fitter, "make_experts", lambda x, *more, **options: calls.append((len(x), options.get("only")))
                        or make_experts(x, *more, **options))  # fmt: skip
    monkeypatch.setattr(fitter, "SAMPLE", 300)
    sampled = cw.JointEM(features=views).fit(X, answers, gold=gold, sample_weight=weight)
    (n_sampled, only_in_sample), (n_full, only) = calls
    assert (n_sampled, only_in_sample, n_full) == (300, None, 600)
    assert {(views[index], kind) for index, kind in only} >= {(e["view"], e["kind"]) for e in sampled.experts_}
    assert (sampled.labels_ == full.labels_).mean() > 0.97


def test_equal_shares_are_dropped_if_the_answers_contradict_them(monkeypatch):
    X, truth = blobs(n_tasks=500, distance=2, shares=(0.85, 0.1, 0.05))
    answers = answers_of(truth, uneven(good=(0.7, 0.9)))
    plain = cw.JointEM("qda", features="plain").fit(X, answers)
    monkeypatch.setattr(joint_em, "has_balanced_classes", lambda *_: True)  # as if the votes looked balanced
    model = cw.JointEM("qda", features="plain").fit(X, answers)
    assert model.even_ is False
    np.testing.assert_allclose(model.class_share_, plain.class_share_, atol=0.02)
    assert (model.labels_ == plain.labels_).mean() > 0.98
    assert len(model.history_) == len(model.bounds_)
    X, truth = blobs(n_tasks=500, distance=2)
    assert cw.JointEM("qda", features="plain").fit(X, answers_of(truth, uneven(good=(0.7, 0.9)))).even_


def test_the_callback_counts_all_rounds():
    X, truth = blobs(n_tasks=60)
    for class_prior in (None, "balanced"):
        records = []
        model = cw.JointEM("lda", features=["plain", "rank"], max_iter=5, class_prior=class_prior)
        model.fit(X, answers_of(truth, uneven()), callback=records.append)
        assert [(record["iteration"], record["iterations"]) for record in records] == [(i, 5) for i in range(1, 6)]


def test_many_tasks_with_few_answered(monkeypatch):
    X, truth = blobs(n_tasks=600)
    few = answers_of(truth[:60], uneven())
    answers = cw.Answers.from_codes(few.task, few.worker, few.label, tasks=600, workers=8, classes=3)
    monkeypatch.setattr(fitter, "SAMPLE", 300)
    model = cw.JointEM().fit(X, answers)
    assert (model.labels_ == truth).mean() > 0.8
