import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import crowdwise as cw
from crowdwise import simulate
from crowdwise.errors import ModelFileError, ParameterError
from crowdwise.learn.methods.cpc import CPC
from crowdwise.learn.methods.crowdlab import CrowdLab, crowdlab

CLEANLAB = json.loads(Path(__file__).with_name("cleanlab.json").read_text(encoding="utf-8"))


def gaussian_crowd(n_classes=3, n_tasks=300, per_task=2.5, seed=0, spread=3.0, accuracy=(0.4, 0.9), n_workers=12):
    """Return X, answers and truth: a Gaussian per class, and workers of different skill."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_tasks)
    X = spread * np.eye(n_classes)[truth] + rng.normal(size=(n_tasks, n_classes))
    confusion = simulate.crowd(n_workers, n_classes, "one-coin", accuracy=accuracy, seed=rng)
    return X, simulate.answer(truth, confusion, per_task, seed=rng), truth


@pytest.mark.parametrize("reference", CLEANLAB)
def test_results_equal_cleanlab(reference):
    wide = np.array([[-1 if label is None else label for label in row] for row in reference["labels"]])
    task, worker = np.nonzero(wide >= 0)
    n_classes = len(reference["proba"][0])
    answers = cw.Answers.from_codes(task, worker, wide[task, worker], tasks=60, workers=8, classes=n_classes)
    found = crowdlab(answers, reference["proba"])
    close = {"rtol": 0, "atol": 1e-6}
    np.testing.assert_allclose(found.proba[np.arange(60), reference["consensus"]], reference["quality"], **close)
    np.testing.assert_allclose(found.proba[answers.task, answers.label], reference["answer_quality"], **close)
    np.testing.assert_allclose(found.worker_quality, reference["worker_quality"], **close)
    np.testing.assert_allclose(found.worker_weight, reference["worker_weight"], **close)
    assert found.model_weight == pytest.approx(reference["model_weight"], abs=1e-6)
    same = found.proba.argmax(axis=1) == reference["consensus"]  # cleanlab keeps the consensus of the first round
    assert same.mean() > 0.95
    np.testing.assert_allclose(found.quality[same], np.array(reference["quality"])[same], **close)
    assert (found.quality >= np.array(reference["quality"]) - 1e-6).all()


@pytest.mark.parametrize("seed", range(3))
def test_beats_majority_vote_with_a_good_classifier(seed):
    X, answers, truth = gaussian_crowd(seed=seed)
    model = CrowdLab().fit(X, answers)
    vote = cw.MajorityVote().fit(answers)
    assert (model.codes_ == truth).mean() > (vote.codes_ == truth).mean() + 0.05
    assert (model.predict(X) == truth).mean() > 0.9
    right = model.codes_ == truth  # lower quality where the consensus is wrong
    assert model.quality_[right].mean() > model.quality_[~right].mean() + 0.05


def test_an_uninformative_classifier_leaves_the_votes():
    X, answers, _ = gaussian_crowd(per_task=5, accuracy=(0.6, 0.9))
    noise = np.random.default_rng(1).normal(size=X.shape)
    useful, useless = CrowdLab().fit(X, answers), CrowdLab().fit(noise, answers)
    assert useless.model_weight_ < 0.3 < useful.model_weight_
    votes = answers.counts(dense=True)
    clear = np.sort(votes, axis=1)[:, -1] >= np.sort(votes, axis=1)[:, -2] + 2
    assert (votes.argmax(axis=1) == useless.codes_)[clear].mean() > 0.95


def test_worker_quality_follows_skill():
    X, answers, truth = gaussian_crowd(n_tasks=1000, per_task=4, n_workers=10)
    model = CrowdLab().fit(X, answers)
    right = truth[answers.task] == answers.label
    skill = np.bincount(answers.worker, right) / np.bincount(answers.worker)
    assert np.corrcoef(skill, model.worker_quality_)[0, 1] > 0.95
    assert np.corrcoef(skill, model.worker_weight_)[0, 1] > 0.9


@pytest.mark.parametrize(
    "classifier", [None, LogisticRegression(), KNeighborsClassifier(3), CPC(tol=1e-4)], ids=lambda c: type(c).__name__
)
@pytest.mark.parametrize("n_classes", [2, 8])
def test_every_kind_of_classifier_is_accepted(classifier, n_classes):
    X, answers, truth = gaussian_crowd(n_classes, per_task=3)
    model = CrowdLab(classifier, cross_fit=3).fit(X, answers)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert (model.predict(X) == truth).mean() > 0.7
    proba = model.answer_proba(X[:4])
    assert proba.shape == (4, 12, n_classes)
    np.testing.assert_allclose(proba.sum(axis=2), 1)
    again = clone(model).fit(X, answers)
    np.testing.assert_array_equal(again.proba_, model.proba_)


class Watched(LogisticRegression):
    """A classifier that raises on a task it was trained on."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = set(X[:, 0])
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X):
        assert not self.seen_ & set(X[:, 0])
        return super().predict_proba(X)


def test_no_task_is_judged_by_a_classifier_trained_on_its_answers():
    X, answers, _ = gaussian_crowd()
    assert len(set(X[:, 0].astype(np.float32))) == 300
    model = CrowdLab(Watched()).fit(X, answers)
    assert model.classifier_.seen_ == set(X[:, 0].astype(np.float32))  # the final classifier is trained on all tasks


def test_answer_proba_has_symmetric_errors():
    X, answers, _ = gaussian_crowd()
    model = CrowdLab().fit(X, answers)
    f, q = model.predict_proba(X[:5]), model.worker_quality_[3]
    confusion = np.where(np.eye(3), q, (1 - q) / 2)
    np.testing.assert_allclose(model.answer_proba(X[:5], answers.workers[3]), f @ confusion)


def test_unanimous_answers_are_kept():
    X, _, truth = gaussian_crowd(n_tasks=60)
    task, worker = np.divmod(np.arange(180), 3)
    answers = cw.Answers.from_codes(task, worker, truth[task], tasks=60, workers=3, classes=3)
    model = CrowdLab().fit(X, answers)
    np.testing.assert_array_equal(model.codes_, truth)
    np.testing.assert_allclose(model.worker_weight_, 1)
    assert (model.worker_quality_ > 0.9).all()


@pytest.mark.parametrize("n_workers", [1, 5])
def test_one_answer_per_task(n_workers):
    """No task is shared: workers are judged by how often the classifier predicts their answers."""
    X, _, truth = gaussian_crowd(n_tasks=200)
    rng = np.random.default_rng(0)
    label = np.where(rng.random(200) < 0.7, truth, rng.integers(0, 3, 200))
    answers = cw.Answers.from_codes(np.arange(200), rng.integers(0, n_workers, 200), label,
                                    tasks=200, workers=n_workers, classes=3)  # fmt: skip
    model = CrowdLab().fit(X, answers)
    np.testing.assert_allclose(model.worker_weight_, model.model_weight_)
    assert (model.codes_ == truth).mean() > (label == truth).mean()
    assert np.isfinite(model.worker_quality_).all()


def test_a_single_consensus_class_gives_finite_results():
    answers = cw.Answers.from_arrays([1, 1, 1, 2, 2], list("abcab"), list("xxyxx"))
    found = crowdlab(answers, [[0.9, 0.1], [0.8, 0.2]])
    assert np.isfinite(found.proba).all() and (found.proba.argmax(axis=1) == 0).all()


def test_workers_without_answers_and_tasks_without_answers():
    X, answers, _ = gaussian_crowd()
    sizes = {"tasks": 305, "workers": 13, "classes": 3}
    wider = cw.Answers.from_codes(answers.task, answers.worker, answers.label, **sizes)
    p = np.random.default_rng(0).dirichlet(np.ones(3), 305)
    found, before = crowdlab(wider, p), crowdlab(answers, p[:300])
    np.testing.assert_allclose(found.proba, np.vstack([before.proba, p[300:]]))
    assert found.worker_quality[12] == pytest.approx(found.worker_quality[:12].mean())
    model = CrowdLab().fit(np.vstack([X, X[:5]]), wider)
    np.testing.assert_allclose(model.proba_.sum(axis=1), 1)


def test_a_worker_who_shares_no_task_gets_the_mean_weight():
    answers = cw.Answers.from_arrays([1, 1, 2, 2, 3], list("ababc"), list("xxxyy"))
    found = crowdlab(answers, [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    assert found.worker_weight[2] == pytest.approx(found.worker_weight[:2].mean())
    assert found.worker_quality[2] == pytest.approx(found.proba[2, 1])


def test_weights_equal_repeated_answers():
    X, answers, _ = gaussian_crowd()
    p = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    some = np.r_[np.zeros(100), np.ones(200)]
    part, rest = crowdlab(answers, p, weight=some), crowdlab(answers[100:], p[100:])
    np.testing.assert_allclose(part.worker_weight, rest.worker_weight)
    weight = np.where(answers.worker == 0, 1e-9, 1.0)
    light = cw.Answers.from_codes(answers.task, answers.worker, answers.label, weight=weight,
                                  tasks=300, workers=12, classes=3)  # fmt: skip
    others = np.flatnonzero(answers.worker != 0)
    with_light, without = crowdlab(light, p), crowdlab(answers.take(others), p)
    np.testing.assert_allclose(with_light.worker_weight[1:], without.worker_weight[1:], atol=0.02)
    assert CrowdLab().fit(X, answers, sample_weight=some).proba_.shape == (300, 3)


def test_gold_is_fixed():
    X, answers, truth = gaussian_crowd()
    gold = np.where(np.arange(300) < 100, truth, -1)
    model = CrowdLab().fit(X, answers, gold=gold)
    np.testing.assert_array_equal(model.proba_[:100], np.eye(3)[truth[:100]])
    np.testing.assert_array_equal(model.quality_[:100], 1)
    assert (model.codes_ == truth)[100:].mean() >= (CrowdLab().fit(X, answers).codes_ == truth)[100:].mean() - 0.02


def test_results_do_not_depend_on_ids():
    X, answers, _ = gaussian_crowd()
    named = cw.Answers.from_codes(answers.task, answers.worker, answers.label, tasks=[f"t{t:03}" for t in range(300)],
                                  workers=[f"w{w:02}" for w in range(12)], classes=list("xyz"))  # fmt: skip
    model, renamed = CrowdLab().fit(X, answers), CrowdLab().fit(X, named)
    np.testing.assert_array_equal(renamed.proba_, model.proba_)
    assert set(renamed.predict(X)) == set("xyz")


@pytest.mark.parametrize("classifier", [None, CPC(tol=1e-4)])
def test_a_loaded_model_predicts_the_same(tmp_path, classifier):
    X, answers, _ = gaussian_crowd()
    model = CrowdLab(classifier, cross_fit=2).fit(X, answers)
    model.save(tmp_path / "m")
    loaded = cw.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.answer_proba(X, answers.workers[0]), model.answer_proba(X, answers.workers[0]))
    np.testing.assert_array_equal(loaded.quality_, model.quality_)


def test_invalid_use_is_rejected(tmp_path):
    X, answers, _ = gaussian_crowd(n_tasks=30)
    for wrong in ({"cross_fit": 1}, {"ridge": -1.0}, {"classifier": "logistic"}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            CrowdLab(**wrong).fit(X, answers)
    with pytest.raises(ParameterError, match="two answered tasks"):
        CrowdLab().fit(X[:1], answers[:1])
    for proba in (np.ones((30, 3)), np.ones((29, 3)) / 3, np.full((30, 3), np.nan)):
        with pytest.raises(ParameterError, match="class probabilities"):
            crowdlab(answers, proba)
    with pytest.raises(ModelFileError, match="pickle"):
        CrowdLab(GradientBoostingClassifier(n_estimators=2)).fit(X, answers).save(tmp_path / "m")
