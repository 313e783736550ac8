"""Self-training: selected pseudo-answers, and the history."""

import json

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.augment import pairs
from crowdwise.augment.dasc import dasc
from crowdwise.augment.dasc.dasc import DASC, is_clear_drop
from crowdwise.errors import CrowdwiseWarning
from crowdwise.truth.vote_check import split_answers
from tests.helpers.dasc_crowds import added, chosen_by_hand, crowd, plain, tiny

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    return crowd()[:2]


# Selection, against a loop over all pairs


@pytest.mark.parametrize("select", ["distribution", "confidence"])
@pytest.mark.parametrize("pairs", [dasc.PAIRS, 20])
def test_the_most_confident_are_added(data, select, pairs, monkeypatch):
    X, answers = data
    monkeypatch.setattr(dasc, "PAIRS", pairs)
    model = plain(tiny(), select=select, per_iteration=40, iterations=1).fit(X, answers)
    assert added(model) == chosen_by_hand(tiny().fit(X, answers), X, answers, 40, select)


def test_classes_that_are_rare_in_the_pool_are_added(data):
    X, answers = data
    first, second = (
        plain(tiny(), balance="pool", per_iteration=40, iterations=n).fit(X, answers) for n in (1, 2)
    )  # fmt: skip
    pools = [answers, first.model_.answers_]  # the second iteration has the pseudo-answers of the first
    expected = [
        chosen_by_hand(tiny().fit(X, pool), X, pool, 40, "distribution", np.bincount(pool.label, minlength=3))
        for pool in pools
    ]
    assert added(first) == expected[0] != chosen_by_hand(tiny().fit(X, answers), X, answers, 40, "distribution")
    assert added(second) == expected[0] | expected[1]


def test_random_pseudo_answers_are_the_learners_predictions(data):
    X, answers = data
    model = plain(tiny(), select="random", per_iteration=40, iterations=1).fit(X, answers)
    q = tiny().fit(X, answers).answer_proba(X)
    made = added(model)
    assert len(made) == 40
    assert all(q[t, w].argmax() == c for t, w, c in made)
    other = plain(tiny(), select="random", per_iteration=40, iterations=1, random_state=1).fit(X, answers)
    assert added(other) != made


def test_pseudo_answers_do_not_change_and_are_never_added_twice(data):
    X, answers = data
    pools = [plain(tiny(), per_iteration=50, iterations=t, redistribute=True).fit(X, answers) for t in (1, 2, 3)]
    assert [len(added(p)) for p in pools] == [50, 100, 150]
    assert added(pools[0]) < added(pools[1]) < added(pools[2])
    assert [h["answers"] - answers.n_answers for h in pools[2].history_] == [0, 50, 100, 150]
    pool = pools[2].model_.answers_
    assert pool.take(np.flatnonzero(~pool.pseudo)).label.tolist() == answers.label.tolist()


def test_training_ends_when_no_pairs_are_left(data):
    X, answers = data
    model = plain(tiny(epochs=1), per_iteration=10**6, iterations=5).fit(X, answers)
    assert model.model_.answers_.n_answers == answers.n_tasks * answers.n_workers
    assert len(model.history_) == 2  # nothing to add a second time


def test_each_iteration_is_one_more_fit(data, monkeypatch):
    X, answers = data
    sizes = []
    fit = cw.CrowdLayer.fit
    monkeypatch.setattr(
        cw.CrowdLayer, "fit", lambda self, X, a, **k: (sizes.append(a.n_answers), fit(self, X, a, **k))[1]
    )
    plain(tiny(), iterations=3, per_iteration=10, redistribute=True).fit(X, answers)
    assert sizes == [answers.n_answers + 10 * t for t in range(4)]
    sizes.clear()
    model = plain(tiny(), iterations=2, per_iteration=10, redistribute=True, hidden=0.1).fit(X, answers)
    n_kept = sizes[0]
    assert n_kept < answers.n_answers
    assert sizes == [
        n_kept,
        n_kept + 10,
        n_kept + 20,
        answers.n_answers + 20,
    ]  # last: with the hidden answers
    assert len(model.history_) == 3


def test_hidden_answers_get_no_pseudo_answers(data):
    X, answers = data
    model = plain(tiny(), iterations=1, per_iteration=10**6, hidden=0.2).fit(X, answers)
    pool = model.model_.answers_
    assert pool.take(np.flatnonzero(~pool.pseudo)).label.tolist() == answers.label.tolist()


def test_max_pairs_samples_pairs(data):
    X, answers = data
    model = plain(tiny(), select="confidence", per_iteration=30, iterations=1, max_pairs=60).fit(X, answers)
    made = added(model)
    assert len(made) == 30
    everything = chosen_by_hand(tiny().fit(X, answers), X, answers, 30, "confidence")
    assert made != everything
    full = plain(tiny(), select="confidence", per_iteration=30, iterations=1, max_pairs=10**6).fit(X, answers)
    assert added(full) == everything


def test_sampling_range_by_range_covers_all_pairs(data, monkeypatch):
    """A limit one below the number of pairs samples them by ranges of tasks; only one pair is missing."""
    X, answers = data
    monkeypatch.setattr(pairs, "DRAWN", 50)
    bounds = (None, pairs.n_missing(answers) - 1)
    every, most = (plain(tiny(), select="confidence", per_iteration=30, iterations=1, max_pairs=n).fit(X, answers)
                   for n in bounds)  # fmt: skip
    assert len(set(added(every)) ^ set(added(most))) <= 2


def test_workers_without_answers_get_no_pseudo_answers(data):
    """No pseudo-answers for a worker without answers or for a task of weight zero."""
    X, answers = data
    fewer = answers.take(np.flatnonzero((answers.worker != 2) & (answers.task != 5)))
    weight = np.ones(answers.n_tasks)
    weight[:5] = 0
    for select in ("distribution", "random"):
        model = plain(tiny(epochs=1), select=select, per_iteration=10**6, iterations=1).fit(
            X, fewer, sample_weight=weight
        )
        made = added(model)
        assert {w for _, w, _ in made} == {0, 1, 3, 4, 5}
        assert {t for t, _, _ in made} == set(range(5, answers.n_tasks))  # a task without answers is one of them


def test_soft_pseudo_answers_are_weighted_by_probability(data):
    X, answers = data
    pool = plain(tiny(), soft=True, iterations=1, select="confidence").fit(X, answers).model_.answers_
    q = tiny().fit(X, answers).answer_proba(X)[pool.task, pool.worker, pool.label]
    np.testing.assert_allclose(pool.weight, np.where(pool.pseudo, q, 1.0))


# History


def test_history_is_json_and_truth_changes_nothing_else(data):
    X, answers = data
    told = []
    model = plain(tiny(), iterations=2, hidden=0.1).fit(X, answers, callback=told.append)
    assert json.loads(json.dumps(model.history_)) == model.history_
    assert [h["iteration"] for h in model.history_] == list(range(len(model.history_)))
    assert {"precision_majority", "recall_minority", "accuracy"} <= set(model.history_[1])
    without = plain(tiny(), iterations=2, hidden=0.1).fit(X, answers.with_truth(None))
    np.testing.assert_array_equal(model.predict_proba(X), without.predict_proba(X))
    assert without.history_ == [{k: h[k] for k in without.history_[0]} for h in model.history_]
    epochs = [record for record in told if "epoch" in record]
    assert {record["iterations"] for record in epochs} == {2}
    assert epochs[-1]["module"] is model.model_.module_  # a callback can evaluate it
    assert [r["iteration"] for r in epochs] == sorted(r["iteration"] for r in epochs)
    ends = [record for record in told if "chosen" in record]
    assert [{k: v for k, v in record.items() if k != "seconds"} for record in ends] == model.history_


def test_held_out_is_the_likelihood_of_answers_not_fitted(data):
    X, answers = data
    model = plain(tiny(), iterations=1, hidden=0.2).fit(X, answers)
    kept, held = split_answers(answers, 0.2, 0)
    first = tiny().fit(X, kept)
    assert model.history_[0]["held_out"] == pytest.approx(first.score(X, held))
    assert (model.history_[0]["change"], model.history_[0]["error"]) == (0, 0)
    assert model.history_[1]["change"] == pytest.approx(model.history_[1]["held_out"] - model.history_[0]["held_out"])


def test_tasks_of_weight_zero_are_not_hidden(data):
    X, answers = data
    weight = np.where(np.arange(answers.n_tasks) % 2, 1.0, 0.0)
    model = plain(tiny(), iterations=1, hidden=0.3).fit(X, answers, sample_weight=weight)
    kept, held = split_answers(answers, 0.3, 0)
    counts = held.take(np.flatnonzero(held.task % 2))
    first = tiny().fit(X, kept, sample_weight=weight)
    assert model.history_[0]["held_out"] == pytest.approx(first.score(X, counts))
    assert first.score(X, counts) != pytest.approx(first.score(X, held))


@pytest.mark.parametrize(
    ("change", "error", "fell"),
    [
        (-0.21, 0.1, True), (-0.19, 0.1, False), (-0.41, 0.2, True), (-0.39, 0.2, False),  # two standard errors
        (-0.051, 0.001, True), (-0.049, 0.001, False), (-0.013, 0.0002, False), (-0.06, 0.031, False),  # and 0.05
        (0.3, 0.01, False), (0.0, 0.0, False),
    ],
)  # fmt: skip
def test_a_clear_drop_is_significant_and_large_enough(change, error, fell):
    assert is_clear_drop(change, error) is fell


def test_pseudo_answers_that_hidden_answers_contradict_are_undone():
    """Random answers: the learner is confident in its pseudo-answers, and hidden answers contradict them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 5)).astype(np.float32)
    task, worker = np.repeat(np.arange(150), 3), np.argsort(rng.random((150, 8)), axis=1)[:, :3].ravel()
    answers = cw.Answers.from_codes(task, worker, rng.integers(0, 2, 450), tasks=150, workers=8, classes=2)
    base = tiny(network=cw.MLP(16), epochs=15, lr=0.02)
    with pytest.warns(CrowdwiseWarning, match="no pseudo-answers were added"):
        model = DASC(base, iterations=4, hidden=0.3).fit(X, answers)
    assert [record["undone"] for record in model.history_] == [False, True]
    assert sum(model.history_[1]["chosen"]) > 0  # the pseudo-answers that were removed
    assert model.model_.answers_.label.tolist() == answers.label.tolist()
    np.testing.assert_array_equal(model.predict_proba(X), base.fit(X, answers).predict_proba(X))
    assert "undone" not in plain(base, iterations=1).fit(X, answers).history_[1]


def test_stops_when_hidden_answers_become_clearly_less_likely(data, monkeypatch):
    X, answers = data
    changes = iter([(0.1, 0.2), (-0.04, 0.001), (-0.25, 0.12), (0.0, 1.0)])
    monkeypatch.setattr(dasc, "mean_and_error", lambda *_: next(changes))
    model = plain(tiny(), iterations=4, per_iteration=10, redistribute=True, hidden=0.2).fit(X, answers)
    assert [record["undone"] for record in model.history_] == [
        False,
        False,
        False,
        True,
    ]
    assert model.model_.answers_.n_answers == answers.n_answers + 20
