"""Behaviour that every registered learner shares."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import crowdwise as cw
from crowdwise.errors import (
    CrowdwiseError,
    EmptyError,
    FeaturesError,
    NotFittedError,
    ParameterError,
    SingleClassError,
    UnknownIdError,
)
from crowdwise.learn.features import open_features
from crowdwise.learn.network.prediction import predict_answers, predict_members
from crowdwise.learn.network.training import CrowdModule
from crowdwise.truth.vote_check import split_answers
from tests.helpers.crowds import answers_of, blobs, uneven
from tests.helpers.every_method import LEARNERS, quick, reset

pytestmark = [
    pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the .* of CrowdInG did not train"),  # true of so short a game
    pytest.mark.filterwarnings("ignore:no pseudo-answers were added"),
]


def trains_networks(model):
    inner = getattr(model, "base", model)
    return "n_models" in inner.get_params() and inner.get_params().get("network") != "logistic"


@pytest.fixture(params=LEARNERS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def data():
    X, truth = blobs(n_tasks=90)
    return X, answers_of(truth, uneven()), truth


@pytest.fixture(scope="module")
def models():
    """Fitted learners by name: each is fitted to `data` once, and tests do not change it."""
    return {}


@pytest.fixture
def fitted(name, data, models):
    if name not in models:
        models[name] = quick(name).fit(*data[:2])
    return models[name]


def test_probabilities_and_labels_agree(fitted, data):
    (X, answers, _), model = data, fitted
    for proba in (model.proba_, model.predict_proba(X)):
        assert proba.shape == (90, 3)
        assert np.isfinite(proba).all()
        assert (proba >= 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    assert (model.classes_[model.codes_] == model.labels_).all()
    assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(axis=1)]).all()
    assert model.tasks_.tolist() == answers.tasks.tolist()


def test_answer_proba_of_one_some_and_all_workers_agree(fitted, data):
    (X, answers, _), model = data, fitted
    everyone = model.answer_proba(X[:5])
    assert everyone.shape == (5, 8, 3)
    np.testing.assert_allclose(everyone.sum(axis=2), 1, atol=1e-5)
    one = model.answer_proba(X[:5], worker=answers.workers[2])
    np.testing.assert_allclose(one, everyone[:, 2], atol=1e-6)
    some = model.answer_proba(X[:5], worker=answers.workers[[4, 1]])
    np.testing.assert_allclose(some, everyone[:, [4, 1]], atol=1e-6)
    with pytest.raises(UnknownIdError, match="999"):
        model.answer_proba(X[:5], worker=999)


def test_score_is_the_likelihood_of_answers_or_the_accuracy(fitted, data):
    (X, answers, truth), model = data, fitted
    proba = model.answer_proba(X)[answers.task, answers.worker, answers.label]
    np.testing.assert_allclose(model.score(X, answers), np.log(proba).mean(), atol=1e-4)
    assert model.score(X, truth) == (model.predict(X) == truth).mean()
    known = answers.with_truth(truth.astype(np.int32))
    assert model.score(X, known) == model.score(X, answers)  # truth is not used


def test_easy_classes_are_learned(name):
    X, truth = blobs(n_tasks=400, distance=4)
    answers = answers_of(truth, uneven(good=(0.7, 0.95)))
    model = quick(name, epochs=40, max_iter=40, weight_epochs=20)
    X_new, truth_new = blobs(n_tasks=400, distance=4, seed=5)
    assert model.fit(X, answers).score(X_new, truth_new) > 0.85


def test_the_order_of_answers_does_not_matter(name, fitted, data):
    X, answers, _ = data
    order = np.random.default_rng(1).permutation(answers.n_answers)
    shuffled = cw.Answers.from_arrays(answers.task[order], answers.worker[order], answers.label[order])
    np.testing.assert_array_equal(quick(name).fit(X, shuffled).proba_, fitted.proba_)


def test_ids_do_not_matter(name, fitted, data):
    X, answers, _ = data
    renamed = cw.Answers.from_arrays(
        [f"t{t:04d}" for t in answers.task], [f"w{w:04d}" for w in answers.worker], [f"c{c}" for c in answers.label]
    )
    again = quick(name).fit(X, renamed)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.predict(X)[0] == f"c{fitted.predict(X)[0]}"
    assert again.answer_proba(X[:2], worker="w0003").shape == (2, 3)


def test_permuted_classes_permute_the_result(name, fitted, data):
    if trains_networks(quick(name)):
        pytest.skip("its random start is not symmetric in the classes")
    if name == "crowdlab":
        pytest.skip("ties of the vote it trains on are broken at random")
    X, answers, _ = data
    new = np.roll(np.arange(3), 1)
    permuted = cw.Answers.from_codes(answers.task, answers.worker, new[answers.label], tasks=90, workers=8, classes=3)
    again = quick(name).fit(X, permuted)
    np.testing.assert_allclose(again.proba_[:, new], fitted.proba_, atol=1e-3)
    np.testing.assert_allclose(again.predict_proba(X)[:, new], fitted.predict_proba(X), atol=1e-3)


def test_a_seed_repeats_and_the_global_random_state_is_unchanged(name, fitted, data):
    X, answers, _ = data
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    again = quick(name).fit(X, answers)
    np.testing.assert_array_equal(again.proba_, fitted.proba_)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.history_ == fitted.history_
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_a_loaded_model_equals_the_saved_one(fitted, data, tmp_path):
    (X, _, _), model = data, fitted
    model.save(tmp_path / "model.safetensors")
    loaded = cw.load(tmp_path / "model.safetensors")
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.answer_proba(X[:9]), model.answer_proba(X[:9]))
    np.testing.assert_array_equal(loaded.proba_, model.proba_)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    assert loaded.answers_ == model.answers_


def test_scikit_learn_can_clone_cross_validate_and_search(name, data):
    X, answers, _ = data
    model = quick(name)
    assert repr(clone(model)) == repr(model)
    scores = cross_val_score(model, X, answers, cv=KFold(3, shuffle=True, random_state=0))
    assert np.isfinite(scores).all()
    grid = {"lr": [0.001, 0.01], "base__lr": [0.001, 0.01], "max_iter": [2, 3], "cross_fit": [2, 3]}
    for parameter, values in grid.items():
        if parameter in model.get_params():
            search = GridSearchCV(model, {parameter: values}, cv=3).fit(X, answers)
            assert search.best_params_[parameter] in values
            assert search.predict(X).shape == (90,)
            break
    else:
        pytest.fail("the learner has none of these parameters")


def test_unfitted_models_can_be_pickled(name):
    """As `n_jobs` of scikit-learn needs."""
    assert repr(pickle.loads(pickle.dumps(quick(name)))) == repr(quick(name))


def test_a_task_and_a_worker_without_answers_are_allowed(name, data):
    X, answers, _ = data
    keep = np.flatnonzero((answers.task != 7) & (answers.worker != 3))
    fewer = answers.take(keep)
    model = quick(name).fit(X, fewer)
    assert np.isfinite(model.proba_).all()
    np.testing.assert_allclose(model.proba_[7].sum(), 1, atol=1e-6)
    assert np.isfinite(model.answer_proba(X[:3], worker=3)).all()


def test_answer_of_weight_zero_is_the_same_as_none(name, data):
    X, answers, _ = data
    kept = np.random.default_rng(7).random(answers.n_answers) < 0.7
    zero = dataclasses.replace(answers, weight=np.where(kept, 1.0, 0.0))
    none = dataclasses.replace(answers, weight=np.ones(answers.n_answers)).take(np.flatnonzero(kept))
    first, second = quick(name).fit(X, zero), quick(name).fit(X, none)
    np.testing.assert_array_equal(first.proba_, second.proba_)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_answers_to_a_task_of_weight_zero_do_not_matter(name, data):
    X, answers, _ = data
    weight = np.ones(90)
    weight[::3] = 0
    out = weight[answers.task] == 0
    other = cw.Answers.from_codes(
        answers.task,
        answers.worker,
        np.where(out, (answers.label + 1) % 3, answers.label),
        tasks=90,
        workers=8,
        classes=3,
    )
    model = cw.make(name)
    first = quick(name).fit(X, answers, sample_weight=weight)
    second = quick(name).fit(X, other, sample_weight=weight)
    if getattr(model, "truth", None) is not None or name in ("mbem", "crowdlab"):
        assert np.isfinite(first.predict_proba(X)).all()  # these infer labels from all answers first
        return
    np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X), atol=1e-6)


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


def test_weights_of_answers_matter(name, fitted, data):
    X, answers, _ = data
    weight = np.where(answers.worker < 4, 1.0, 0.1)
    weighted = cw.Answers.from_codes(
        answers.task, answers.worker, answers.label, tasks=90, workers=8, classes=3, weight=weight
    )
    model = quick(name).fit(X, weighted)
    assert np.isfinite(model.proba_).all()
    assert not np.array_equal(model.proba_, fitted.proba_)


def test_invalid_input_is_rejected(name, fitted, data):
    X, answers, _ = data
    model = quick(name)
    with pytest.raises(NotFittedError, match="fit"):
        model.predict(X)
    for attribute in ("proba_", "labels_", "history_", "confusion_"):
        with pytest.raises(AttributeError):
            getattr(model, attribute)
    with pytest.raises(ParameterError, match="Answers"):
        model.fit(X, [0, 1])
    with pytest.raises(FeaturesError, match=r"89.*90"):
        model.fit(X[:89], answers)
    for bad in (np.nan, np.inf):
        broken = X.copy()
        broken[[17, 20], 0] = bad
        with pytest.raises(FeaturesError, match="17"):
            model.fit(broken, answers)
    with pytest.raises(SingleClassError, match="two classes"):
        model.fit(
            X, cw.Answers.from_codes(answers.task, answers.worker, answers.label * 0, tasks=90, workers=8, classes=1)
        )
    with pytest.raises(EmptyError):
        model.fit(X, answers.take(np.empty(0, np.int64)))
    with pytest.raises(CrowdwiseError, match="sample_weight"):
        model.fit(X, answers, sample_weight=np.ones(3))
    for weight in (np.full(90, -1.0), ["a"] * 90):
        with pytest.raises(CrowdwiseError, match="sample_weight"):
            model.fit(X, answers, sample_weight=weight)
    model = fitted
    with pytest.raises(CrowdwiseError, match="shape"):
        model.predict(X[:, :4])
    with pytest.raises(CrowdwiseError, match="none of the labels"):
        model.score(X, ["zebra"] * 90)
    with pytest.raises(CrowdwiseError, match="y="):
        model.score(X, [0, 1])
    with pytest.raises(CrowdwiseError, match="worker"):
        model.answer_proba(X, worker=[[1, 2]])
    assert model.answer_proba(X, worker=[]).shape == (90, 0, 3)


def test_flags_must_be_boolean(name, data):
    X, answers, _ = data
    flags = [k for k, v in cw.make(name).get_params(deep=False).items() if isinstance(v, bool)]
    for flag in flags:
        with pytest.raises(ParameterError, match=f"{flag}='no': use True or False"):
            quick(name).set_params(**{flag: "no"}).fit(X, answers)


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
