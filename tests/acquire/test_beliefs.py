import numpy as np
import pytest

import crowdwise as cw
from crowdwise.acquire.beliefs import Beliefs
from crowdwise.errors import FeaturesError, ParameterError


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(80, n_workers=6, n_classes=3, answers_per_task=3, seed=3)


@pytest.fixture(scope="module")
def learned():
    X, answers = cw.simulate.digits_crowd()
    X, answers = X[:120], answers[np.arange(120)]
    return X, answers, cw.Raykar(max_iter=5, tol=0.0).fit(X, answers)


def test_beliefs_of_a_truth_model_are_its_own(crowd):
    model = cw.DawidSkene().fit(crowd)
    beliefs = Beliefs(model, crowd, caution=0.0)
    np.testing.assert_array_equal(beliefs.belief, model.proba_)
    np.testing.assert_allclose(beliefs.channel(np.array([0, 1]), np.array([4, 2])), model.confusion_[[4, 2]])


def test_workers_with_few_answers_are_shrunk_to_the_average(crowd):
    """Rows are mixed with the average worker's as if with `caution` answers; a worker without answers is average."""
    answers = cw.Answers.from_codes(crowd.task, crowd.worker, crowd.label, tasks=80, workers=8, classes=3)
    model = cw.DawidSkene().fit(answers)
    seen = np.zeros((8, 3))
    np.add.at(seen, answers.worker, model.proba_[answers.task])
    average = np.einsum("wc,wcl->cl", seen, model.confusion_) / seen.sum(axis=0)[:, None]
    beliefs = Beliefs(model, answers, caution=2.0, n_new=1)
    expected = (seen[2][:, None] * model.confusion_[2] + 2 * average) / (seen[2][:, None] + 2)
    np.testing.assert_allclose(beliefs.channels[2], expected)
    for nobody in (6, 7, 8):
        np.testing.assert_allclose(beliefs.channels[nobody], average)
        np.testing.assert_allclose(Beliefs(model, answers, caution=0.0, n_new=1).channels[nobody], average)
    np.testing.assert_allclose(beliefs.channels.sum(axis=2), 1)


def test_without_confusion_matrices_answers_are_counted(crowd):
    """Majority vote has none: counts against its shares, and one more answer spread evenly."""
    model = cw.MajorityVote().fit(crowd)
    counts = np.zeros((6, 3, 3))
    for t, w, label in zip(crowd.task, crowd.worker, crowd.label, strict=True):
        counts[w, :, label] += model.proba_[t]
    expected = (counts + 1 / 3) / (counts.sum(axis=2) + 1)[:, :, None]
    np.testing.assert_allclose(Beliefs(model, crowd, caution=0.0).channels, expected)


def test_weights_of_answers_count(crowd):
    """Two answers for each one: with twice the caution, DawidSkene's matrices are mixed equally."""
    model = cw.DawidSkene().fit(crowd)
    heavy = cw.Answers.from_codes(crowd.task, crowd.worker, crowd.label, tasks=80, workers=6, classes=3,
                                  weight=np.full(crowd.n_answers, 2.0))  # fmt: skip
    expected = Beliefs(model, crowd, caution=2.0).channels
    np.testing.assert_allclose(Beliefs(model, heavy, caution=4.0).channels, expected)
    assert not np.allclose(Beliefs(model, heavy, caution=2.0).channels, expected)


def test_features_and_answers_are_combined_by_bayes_rule(learned):
    """The learner's matrices are the only ones here, so that belief is that of its own E-step."""
    X, answers, model = learned
    beliefs = Beliefs(model, answers, X=X, caution=0.0)
    log_p = np.log(model.predict_proba(X))
    for t, w, label in zip(answers.task, answers.worker, answers.label, strict=True):
        log_p[t] += np.log(model.confusion_[w, :, label])
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    np.testing.assert_allclose(beliefs.belief, p / p.sum(axis=1, keepdims=True), atol=1e-5)


def test_a_learners_answer_probabilities_adapt_the_channels(learned):
    X, answers, _ = learned
    X, answers = X[:60], answers[np.arange(60)]
    model = cw.DoctorNet(epochs=1).fit(X, answers)  # has no confusion matrices
    beliefs = Beliefs(model, answers, X=X)
    task, worker = np.array([3, 3, 50]), np.array([1, 5, 5])
    channel = beliefs.channel(task, worker)
    said = np.einsum("pc,pcl->pl", model.predict_proba(X)[task], channel)
    np.testing.assert_allclose(said, model.answer_proba(X[[3, 3, 50]])[[0, 1, 2], worker], atol=1e-4)
    np.testing.assert_array_equal(Beliefs(model, answers, X=X, n_new=1).channel(task, np.full(3, answers.n_workers)),
                                  Beliefs(model, answers, X=X, n_new=1).channels[[-1] * 3])  # fmt: skip


def test_invalid_features_are_rejected(crowd, learned):
    with pytest.raises(ParameterError, match="Do not pass X"):
        Beliefs(cw.DawidSkene().fit(crowd), crowd, X=np.zeros((80, 2)))
    X, answers, model = learned
    with pytest.raises(FeaturesError, match="119 rows"):
        Beliefs(model, answers, X=X[1:])
