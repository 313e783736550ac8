from types import SimpleNamespace

import numpy as np

import crowdwise as cw
from crowdwise.learn.joint_em import fitter, joint_em
from crowdwise.learn.joint_em.gaussian import GaussianClassifier
from crowdwise.learn.joint_em.views import VIEWS, fit_view
from tests.helpers.crowds import answers_of, blobs, uneven


def test_the_classifier_that_is_kept_has_learned_from_the_labels_that_are_kept():
    X, truth = blobs(n_tasks=150, distance=1.5)
    model = cw.JointEM("lda", features="plain", max_iter=2).fit(X, answers_of(truth, uneven()))
    _, seen = fit_view("plain", X)
    again = GaussianClassifier(seen, None, None, shrinkage=0.1)
    again.fit(model.proba_[None])
    np.testing.assert_allclose(model.experts_[0]["numbers"]["mean"], again.numbers()["mean"], atol=1e-10)


def test_experts_that_weigh_little_are_not_heard():
    joint = SimpleNamespace(weights=np.array([[0.5, 0.005, 0.2, 0.0]]))
    assert fitter.heard(joint, ["a", "b", "c", "d"]) == ["a", "c"]


def test_answers_pick_the_view_and_the_kind():
    rng = np.random.default_rng(0)
    X, truth = blobs(n_tasks=500, distance=2)
    skewed = np.sign(X) * X**6 * rng.uniform(0.1, 10, X.shape[1])  # plain axes are those of the outliers
    model = cw.JointEM().fit(skewed, answers_of(truth, uneven()))
    weight = dict.fromkeys(VIEWS, 0.0)
    for expert in model.experts_:
        weight[expert["view"]] += expert["weight"]
    assert weight["rank"] > weight["plain"]
    plain = cw.JointEM(features="plain").fit(skewed, answers_of(truth, uneven()))
    assert (model.labels_ == truth).mean() >= (plain.labels_ == truth).mean()


def test_many_tasks_hear_the_experts_that_a_sample_of_them_hears(monkeypatch):
    X, truth = blobs(n_tasks=600, distance=2)
    answers = answers_of(truth, uneven())
    gold, weight = np.where(np.arange(600) < 20, truth, -1).astype(np.int32), np.linspace(0.5, 2, 600)
    whole = cw.JointEM().fit(X, answers, gold=gold, sample_weight=weight)
    seen = []
    made = fitter.make_experts
    monkeypatch.setattr(fitter, "make_experts", lambda x, *more, **options: seen.append((len(x), options.get("only")))
                        or made(x, *more, **options))  # fmt: skip
    monkeypatch.setattr(fitter, "SAMPLE", 300)
    sampled = cw.JointEM().fit(X, answers, gold=gold, sample_weight=weight)
    (few, every), (all_, only) = seen
    assert (few, every, all_) == (300, None, 600)
    assert {(VIEWS[place], kind) for place, kind in only} >= {(e["view"], e["kind"]) for e in sampled.experts_}
    assert (sampled.labels_ == whole.labels_).mean() > 0.97


def test_classes_are_not_held_for_equal_where_answers_speak_against_it(monkeypatch):
    X, truth = blobs(n_tasks=500, distance=2, shares=(0.85, 0.1, 0.05))
    answers = answers_of(truth, uneven(good=(0.7, 0.9)))
    plain = cw.JointEM().fit(X, answers)
    monkeypatch.setattr(joint_em, "held_even", lambda *_: True)  # as if votes were for it
    model = cw.JointEM().fit(X, answers)
    assert model.even_ is False
    np.testing.assert_allclose(model.class_share_, plain.class_share_, atol=0.02)
    assert (model.labels_ == plain.labels_).mean() > 0.98
    assert len(model.history_) == len(model.bounds_)
    X, truth = blobs(n_tasks=500, distance=2)
    assert cw.JointEM().fit(X, answers_of(truth, uneven(good=(0.7, 0.9)))).even_


def test_rounds_are_counted_through():
    X, truth = blobs(n_tasks=60)
    for declared in (None, "balanced"):
        said = []
        cw.JointEM(max_iter=5, class_prior=declared).fit(X, answers_of(truth, uneven()), callback=said.append)
        assert [(record["iteration"], record["iterations"]) for record in said] == [(i, 5) for i in range(1, 6)]


def test_many_tasks_of_which_few_are_answered(monkeypatch):
    X, truth = blobs(n_tasks=600)
    few = answers_of(truth[:60], uneven())
    answers = cw.Answers.from_codes(few.task, few.worker, few.label, tasks=600, workers=8, classes=3)
    monkeypatch.setattr(fitter, "SAMPLE", 300)
    model = cw.JointEM().fit(X, answers)
    assert (model.labels_ == truth).mean() > 0.8
