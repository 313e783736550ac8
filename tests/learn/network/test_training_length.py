"""How long to train: the score, the search, and what the fit does with its result."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise import simulate
from crowdwise.learn.network.plans import follow_plan, found_plan, plan_ahead
from crowdwise.learn.network.training_length import (
    LEAST_STEPS,
    PATIENCE,
    WEIGHT_DECAY,
    TrainingPlan,
    hold_out_tasks,
    score,
)

FAST = {"network": cw.MLP(8, dropout=0.0), "lr": 0.05, "batch_size": 32}


@pytest.fixture(scope="module")
def data():
    answers = simulate.simulate(120, n_workers=8, n_classes=3, answers_per_task=3, seed=1)
    X = np.eye(3, 5)[answers.truth] * 3 + np.random.default_rng(1).normal(size=(120, 5))
    return X, answers


@pytest.fixture(scope="module")
def fitted(data):
    stages = []
    model = cw.CrowdLayer(**FAST).fit(*data, callback=lambda record: stages.append(record.get("stage")))
    return model, stages


def test_a_fifth_of_the_tasks_of_each_class_is_held_out(data):
    answers = data[1]
    training, held_out = hold_out_tasks(answers, np.ones(120, bool), 0)
    assert not np.intersect1d(training.task, held_out.task).size
    assert training.n_answers + held_out.n_answers == answers.n_answers
    votes = cw.MajorityVote().fit(answers).codes_
    share = np.bincount(votes[np.unique(held_out.task)], minlength=3) / np.bincount(votes, minlength=3)
    assert share == pytest.approx(0.2, abs=0.04)


def test_inactive_tasks_are_not_held_out(data):
    active = np.arange(120) < 60
    assert hold_out_tasks(data[1], active, 0)[1].task.max() < 60


def test_the_score_follows_the_truth_and_ignores_how_certain_the_classifier_is(data):
    training, held_out = hold_out_tasks(data[1], np.ones(120, bool), 0)
    right = np.eye(3)[data[1].truth]
    rng = np.random.default_rng(0)
    drawn, flips, scores = np.eye(3)[rng.integers(0, 3, 120)], rng.random(120), []
    for share in (0.0, 0.3, 0.9):  # of tasks with a random class
        proba = np.where((flips < share)[:, None], drawn, right)
        scores.append(score(0.9 * proba + 0.1 / 3, training, held_out))
    assert scores == sorted(scores, reverse=True)
    soft = score(0.5 * right + 0.5 / 3, training, held_out)
    assert soft == pytest.approx(scores[0], abs=0.02)


def test_the_fit_trains_on_all_answers_for_as_long_as_the_search_found(fitted):
    model, stages = fitted
    (chosen,) = [trial for trial in model.training_search_ if trial["chosen"]]
    assert [trial["scaling"] for trial in model.training_search_] == ["each", "common"]
    assert len(model.history_) == model.epochs_ == stages.count(None)
    assert model.n_steps_ == model.epochs_ * 4
    assert abs(model.n_steps_ - max(chosen["steps"], LEAST_STEPS)) <= 2 or chosen["steps"] > model.n_steps_
    assert (model.scaling_, model.weight_decay_) == (chosen["scaling"], chosen["weight_decay"])
    assert stages.index(None) == stages.count("search")  # the search comes first
    assert chosen["searched"] <= PATIENCE * max(model.n_steps_, LEAST_STEPS) + 4  # whole epochs


def test_the_same_plan_without_a_search_gives_the_same_model(data, fitted):
    model, _ = fitted
    scaled = cw.MLP(8, dropout=0.0, standardise="common" if model.scaling_ == "common" else True)
    by_hand = cw.CrowdLayer(**{**FAST, "network": scaled}, epochs=model.epochs_, weight_decay=model.weight_decay_)
    np.testing.assert_array_equal(by_hand.fit(*data).proba_, model.proba_)
    assert model.weight_decay_ == WEIGHT_DECAY
    again = follow_plan(cw.CrowdLayer(**FAST), found_plan(model), (5,)).fit(*data)
    assert again.training_search_ == []
    np.testing.assert_array_equal(again.proba_, model.proba_)
    assert found_plan(by_hand) is None


def test_equal_learners_in_frameworks_are_searched_once(data, fitted, monkeypatch):
    searches = []
    found = cw.CrowdLayer._find_plan
    monkeypatch.setattr(cw.CrowdLayer, "_find_plan", lambda self, *of: searches.append(self) or found(self, *of))
    base = cw.CrowdLayer(**FAST)
    models = {"alone": base, "dasc": cw.DASC(base), "pruned": cw.Pruned(base), "vote": cw.MajorityVote()}
    planned = plan_ahead({**models, "fails": cw.CrowdLayer(network="unknown")}, *data)
    assert len(searches) == 2  # the unknown network, too
    np.testing.assert_array_equal(planned["alone"].fit(*data).proba_, fitted[0].proba_)
    assert planned["pruned"].base.epochs == fitted[0].epochs_
    assert planned["dasc"].base.epochs == "auto"  # its fits differ in length
    assert (planned["vote"], planned["fails"].epochs) == (models["vote"], "auto")


def test_classes_under_other_names_score_as_chance(data):
    training, held_out = hold_out_tasks(data[1], np.ones(120, bool), 0)
    right = 0.9 * np.eye(3)[data[1].truth] + 0.1 / 3
    chance = score(np.ones((120, 3)), training, held_out)
    assert score(right[:, [1, 2, 0]], training, held_out) == chance < score(right, training, held_out) - 0.1


def test_a_number_of_epochs_is_obeyed(data):
    model = cw.CrowdLayer(epochs=3).fit(*data)
    assert (len(model.history_), model.weight_decay_, model.scaling_, model.training_search_) == (3, 0.0, "each", [])


def test_an_interrupted_fit_does_not_search_again(data, fitted, tmp_path):
    path = str(tmp_path / "state")
    killed = cw.CrowdLayer(**FAST, checkpoint=path)

    def kill(record):
        if record.get("stage") is None and record["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed.fit(*data, callback=kill)
    seen = []
    killed.fit(*data, callback=lambda record: seen.append((record.get("stage"), record["epoch"])))
    assert seen[0] == (None, 2)
    np.testing.assert_array_equal(killed.proba_, fitted[0].proba_)
    assert killed.training_search_ == fitted[0].training_search_


def test_a_crowd_too_small_to_hold_out_is_trained_for_a_fixed_length(data):
    X, answers = data
    model = cw.CrowdLayer(**FAST).fit(X[:20], answers[:20])
    assert model.training_search_ == []
    assert model.n_steps_ == 1000


def test_gold_of_held_out_tasks_is_not_trained_on(data):
    X, answers = data
    model = cw.MaxMIG(**FAST).fit(X, answers, gold=answers.truth)
    assert model.training_search_
    assert (model.codes_ == answers.truth).all()


def test_fits_of_dasc_after_the_first_take_longer_as_the_pool_grows(data):
    stages = []
    model = cw.DASC(cw.CrowdLayer(**FAST), iterations=2, hidden=0.0)
    model.fit(*data, callback=lambda record: stages.append((record["iteration"], record.get("stage"))))
    assert {iteration for iteration, stage in stages if stage == "search"} == {0}
    first, last = (stages.count((iteration, None)) - 1 for iteration in (0, 2))  # the last record is DASC's own
    growth = model.model_.answers_.n_answers / data[1].n_answers
    assert last == model.model_.epochs_ == round(first * growth) > first


def test_models_in_a_search_decay_each_at_their_own_rate(data):
    X, answers = data
    options = {"network": cw.MLP(8, dropout=0.0), "epochs": 3}
    trial = cw.CrowdLayer(**options, n_models=2)
    trial._candidates = [TrainingPlan(1, 0.0), TrainingPlan(1, 0.5)]
    members = trial.fit(X, answers).member_proba(X)
    alone = cw.CrowdLayer(**options, n_models=2, weight_decay=0.5).fit(X, answers).member_proba(X)
    np.testing.assert_allclose(members[1], alone[1], atol=1e-5)
    assert np.abs(members[0] - alone[0]).max() > 1e-4
