"""Answers that arrive later, held to a fit on all answers at once."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import FeaturesError
from tests.helpers.crowds import answers_of, blobs, uneven

CONTINUES = [
    cw.JointEM(), cw.Raykar(tol=1e-3), cw.CrowdLayer(epochs=30), cw.CoNAL(epochs=30), cw.AnnoReg(epochs=30),
    cw.MaxMIG(epochs=30), cw.UnionNet(epochs=30), cw.GeoCrowdNet(epochs=30),
]  # fmt: skip


def parts(seed, share):
    """Return features, true classes, all answers, and the same answers in two parts; the first has this share."""
    X, truth = blobs(n_tasks=300, distance=3.5, seed=seed)
    answers = answers_of(truth, uneven(seed=seed), seed=seed)
    early = np.random.default_rng(seed).random(answers.n_answers) < share
    return X, truth, answers, *(answers.take(np.flatnonzero(rows)) for rows in (early, ~early))


@pytest.mark.parametrize("model", CONTINUES, ids=lambda model: type(model).__name__)
def test_continuing_is_as_good_as_a_fit(model):
    """Within 3 points of it, with answers of which four fifths or half came first, and in as many rounds at most."""
    for seed, share in ((1, 0.8), (2, 0.5)):
        X, truth, answers, early, late = parts(seed, share)
        whole = (model.fit(X, answers).labels_ == truth).mean()
        rounds = len(model.history_)
        more = (model.fit(X, early).partial_fit(X, late).labels_ == truth).mean()
        assert more > whole - 0.03
        assert len(model.history_) <= rounds
        assert model.answers_ == answers


def test_a_network_keeps_its_weights_and_takes_the_share_of_the_epochs(tmp_path):
    X, _, _, early, late = parts(1, 0.8)
    model = cw.CrowdLayer(epochs=20).fit(X, early)
    model.save(tmp_path / "model")
    before = model.predict_proba(X)
    model.partial_fit(X, late)
    assert (model.epochs_, model.epochs) == (4, 20)
    assert np.abs(model.predict_proba(X) - before).mean() < 0.05 < np.abs(before - 1 / 3).mean()
    np.testing.assert_allclose(cw.load(tmp_path / "model").partial_fit(X, late).proba_, model.proba_, atol=1e-6)
    assert model.fit(X, early).epochs_ == 20  # a fit starts anew


def test_a_new_class_needs_a_new_fit():
    X, _, answers, *_ = parts(1, 0.5)
    early, late = answers.take(np.flatnonzero(answers.label < 2)), answers.take(np.flatnonzero(answers.label == 2))
    early = cw.Answers.from_arrays(
        early.tasks[early.task], early.workers[early.worker], early.label, tasks=answers.tasks
    )
    model = cw.Raykar(tol=1e-3).fit(X, early).partial_fit(X, late)
    assert model.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(model.proba_, cw.Raykar(tol=1e-3).fit(X, early.merge(late)).proba_)


def test_features_of_all_tasks_are_needed():
    X, _, answers, *_ = parts(1, 0.5)
    model = cw.Raykar(tol=1e-3).fit(X[:200], answers[:200])
    with pytest.raises(FeaturesError, match=r"100 rows.*300 tasks"):
        model.partial_fit(X[200:], answers[200:])
    assert len(model.partial_fit(X, answers[200:]).tasks_) == 300  # the failed call changed nothing
