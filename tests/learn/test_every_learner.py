"""Behaviour of every registered learner: the checks of `crowdwise.testing`, and those of networks."""

import json
import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import crowdwise as cw
from crowdwise.learn.features import open_features
from crowdwise.learn.network.prediction import predict_answers, predict_members
from crowdwise.learn.network.training import CrowdModule
from crowdwise.testing import Subject, learner_checks
from crowdwise.truth.vote_check import split_answers
from tests.helpers.crowds import answers_of, blobs, uneven
from tests.helpers.every_method import LEARNERS, quick, reset

pytestmark = [
    pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the .* of CrowdInG did not train"),  # true of so short a game
    pytest.mark.filterwarnings("ignore:no pseudo-answers were added"),
]


def trains_networks(model):
    return Subject(model).trains_networks


@pytest.fixture(params=LEARNERS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def data():
    X, truth = blobs(n_tasks=90)
    return X, answers_of(truth, uneven()), truth


@pytest.fixture(scope="module")
def subjects():
    """Learners by name: each is fitted once for most checks."""
    return {}


@pytest.mark.parametrize("check", learner_checks.CHECKS, ids=lambda check: check.__name__)
def test_check(check, name, subjects):
    if check is learner_checks.check_easy_classes_are_learned:
        check(Subject(quick(name, epochs=40, max_iter=40, weight_epochs=20)))
        return
    if name not in subjects:
        subjects[name] = Subject(quick(name))
    check(subjects[name])


def test_unfitted_models_can_be_pickled(name):
    """Parallel fits send them to other processes."""
    model = cw.make(name)
    assert repr(pickle.loads(pickle.dumps(model))) == repr(model)


def test_scikit_learn_can_search(name, data):
    X, answers, _ = data
    model = quick(name)
    grid = {"lr": [0.001, 0.01], "base__lr": [0.001, 0.01], "max_iter": [2, 3], "cross_fit": [2, 3]}
    for parameter, values in grid.items():
        if parameter in model.get_params():
            search = GridSearchCV(model, {parameter: values}, cv=3).fit(X, answers)
            assert search.best_params_[parameter] in values
            assert search.predict(X).shape == (90,)
            break
    else:
        pytest.fail("the learner has none of these parameters")


@pytest.mark.filterwarnings("ignore::crowdwise.errors.DivergenceWarning")  # CrowdInG hardly trained
def test_the_loss_with_weight_zero_equals_the_loss_without_the_task(name, data):
    if not trains_networks(quick(name)) or hasattr(quick(name), "base"):
        pytest.skip("has no loss, or a loss on pseudo-answers too")
    X, answers, _ = data
    included = np.arange(90) % 3 > 0
    options = {"network": cw.MLP(4, dropout=0.0, standardise=False), "batch_size": 90, "lr": 1e-9, "epochs": 1}
    weighted = quick(name, **options).fit(X, answers, sample_weight=included)
    removed = quick(name, **options).fit(X[included], answers[np.flatnonzero(included)])
    np.testing.assert_allclose(weighted.history_[0]["loss"], removed.history_[0]["loss"], rtol=0.02)


def test_the_prediction_is_the_mean_over_different_networks(name, data):
    model = quick(name)
    if not trains_networks(model):
        pytest.skip("does not train networks")
    X, answers, _ = data
    reset(model, {"n_models": 3}).fit(X, answers)
    members = model.member_proba(X)
    assert members.shape == (3, 90, 3)
    np.testing.assert_allclose(members.mean(axis=0), model.predict_proba(X), atol=1e-7)
    assert np.abs(members[0] - members[1]).max() > 1e-4


def test_a_callback_can_predict_with_the_network_in_training(name, data):
    """After the last epoch it is the fitted network, and predicting does not change the training."""
    model, again = quick(name), quick(name)
    if not trains_networks(model):
        pytest.skip("does not train networks")
    X, answers, _ = data
    features, row, worker, seen = open_features(X), np.array([0, 4]), np.array([1, 0]), []

    def predict(record):
        if "module" in record:
            assert isinstance(record["module"], CrowdModule)
            seen.append(predict_members(record["module"], features, "cpu"))
            assert predict_answers(record["module"], X[:5], row, worker, "cpu").isfinite().all()

    for each in (model, again):
        reset(each, {"n_models": 2})
    model.fit(X, answers, callback=predict)
    np.testing.assert_array_equal(seen[-1], model.member_proba(X))
    assert not np.array_equal(seen[0], seen[-1])
    np.testing.assert_array_equal(again.fit(X, answers).proba_, model.proba_)
    assert again.history_ == model.history_
    json.dumps(model.history_)  # checkpoints and the command line write it: it must not contain the network


def test_held_out_answers_select_an_epoch(name, data):
    model = quick(name)
    if not trains_networks(model) or hasattr(model, "base"):
        pytest.skip("trains no networks, or its base does")
    X, answers, _ = data
    model.set_params(select="held_out", epochs=8).fit(X, answers)
    scores = [record["held_out"] for record in model.history_ if "held_out" in record]
    assert len(scores) >= 8
    assert np.isfinite(scores).all()
    if model.answer_loss and name not in ("doctornet", "crowding"):  # which train on after selecting an epoch
        _, held_out = split_answers(answers, 0.1, 0)
        np.testing.assert_allclose(model.answer_log_likelihood(X, held_out).mean(), max(scores), atol=1e-5)
