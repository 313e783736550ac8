import itertools
import json
import warnings

import numpy as np
import pytest
from scipy.special import entr

import crowdwise as cw
from crowdwise.augment import dasc, pairs
from crowdwise.augment.dasc import DASC, clearly_fell
from crowdwise.augment.going_on import start_of, started_from
from crowdwise.augment.surest import quotas
from crowdwise.errors import CrowdwiseWarning, ModelFileError, ParameterError
from crowdwise.learn.base import CrowdClassifier
from crowdwise.registry import methods
from crowdwise.truth.check import split_answers

FRAMEWORKS = ("dasc", "iced", "crowding", "completed", "waum")
LEARNERS = [m.name for m in methods() if m.needs_features and m.name not in FRAMEWORKS]
pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")


def crowd(seed=0, n_tasks=120, n_classes=3, n_workers=6, imbalance=6.0, distance=2.5):
    """Blobs of uneven size, sparsely answered by uneven workers; and as many new tasks of each class."""
    rng = np.random.default_rng([seed, 3])
    centre = rng.normal(size=(n_classes, 6))
    centre *= distance / np.linalg.norm(centre, axis=1, keepdims=True)
    truth = cw.simulate.draw_truth(n_tasks, n_classes, imbalance, seed=seed)
    answers = cw.simulate.simulate(
        truth=truth, n_workers=n_workers, n_classes=n_classes, answers_per_task=2.2, seed=seed
    )
    new = np.repeat(np.arange(n_classes), 150)
    X, X_new = (centre[y] + rng.normal(size=(len(y), 6)) for y in (truth, new))
    return X.astype(np.float32), answers, X_new.astype(np.float32), new


def plain(base="crowdlayer", **options):
    """Without judging iterations, unless told to."""
    return DASC(base, **{"hidden": 0.0, **options})


def tiny(**options):
    return cw.CrowdLayer(**{"network": cw.MLP(8), "epochs": 3, "lr": 0.01, **options})


@pytest.fixture(scope="module")
def data():
    X, answers, *_ = crowd()
    return X, answers


# Selection, against all pairs looked at one by one


def chosen_by_hand(model, X, answers, m, select, counts=None):
    """Of every missing pair of workers who answered: task, worker, label, entropy; then the rule."""
    q = model.answer_proba(X)
    given = set(zip(answers.task.tolist(), answers.worker.tolist(), strict=True))
    pairs = [p for p in itertools.product(range(answers.n_tasks), range(answers.n_workers)) if p not in given]
    rows = sorted((entr(q[t, w]).sum(), t, w, int(q[t, w].argmax())) for t, w in pairs)
    if select == "confidence":
        return {(t, w, c) for _, t, w, c in rows[:m]}
    found = np.bincount([c for *_, c in rows], minlength=answers.n_classes)
    n = quotas(found, m, counts)
    return {(t, w, c) for k in range(answers.n_classes) for _, t, w, c in [r for r in rows if r[3] == k][: n[k]]}


def added(model):
    pool = model.model_.answers_
    made = np.flatnonzero(pool.pseudo)
    return {tuple(map(int, row)) for row in np.column_stack([pool.task, pool.worker, pool.label])[made]}


@pytest.mark.parametrize("select", ["distribution", "confidence"])
@pytest.mark.parametrize("pairs", [dasc.PAIRS, 20])
def test_the_surest_are_added(data, select, pairs, monkeypatch):
    X, answers = data
    monkeypatch.setattr(dasc, "PAIRS", pairs)
    model = plain(tiny(), select=select, per_iteration=40, iterations=1).fit(X, answers)
    assert added(model) == chosen_by_hand(tiny().fit(X, answers), X, answers, 40, select)


def test_classes_that_are_rare_in_the_pool_are_added(data):
    X, answers = data
    first, second = (
        plain(tiny(), balance="pool", per_iteration=40, iterations=n).fit(X, answers) for n in (1, 2)
    )  # fmt: skip
    pools = [answers, first.model_.answers_]  # the second time with what was added
    expected = [
        chosen_by_hand(tiny().fit(X, pool), X, pool, 40, "distribution", np.bincount(pool.label, minlength=3))
        for pool in pools
    ]
    assert added(first) == expected[0] != chosen_by_hand(tiny().fit(X, answers), X, answers, 40, "distribution")
    assert added(second) == expected[0] | expected[1]


def test_random_pseudo_answers_are_what_the_learner_says(data):
    X, answers = data
    model = plain(tiny(), select="random", per_iteration=40, iterations=1).fit(X, answers)
    q = tiny().fit(X, answers).answer_proba(X)
    made = added(model)
    assert len(made) == 40
    assert all(q[t, w].argmax() == c for t, w, c in made)
    other = plain(tiny(), select="random", per_iteration=40, iterations=1, random_state=1).fit(X, answers)
    assert added(other) != made


def test_what_was_added_stays_and_is_never_chosen_twice(data):
    X, answers = data
    pools = [plain(tiny(), per_iteration=50, iterations=t, redistribute=True).fit(X, answers) for t in (1, 2, 3)]
    assert [len(added(p)) for p in pools] == [50, 100, 150]
    assert added(pools[0]) < added(pools[1]) < added(pools[2])
    assert [h["answers"] - answers.n_answers for h in pools[2].history_] == [0, 50, 100, 150]
    pool = pools[2].model_.answers_
    assert pool.take(np.flatnonzero(~pool.pseudo)).label.tolist() == answers.label.tolist()


def test_all_pairs_are_used_up_and_then_it_ends(data):
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
    assert sizes == [n_kept, n_kept + 10, n_kept + 20, answers.n_answers + 20]  # and at last with what was hidden
    assert len(model.history_) == 3


def test_hidden_answers_are_never_made_up(data):
    X, answers = data
    model = plain(tiny(), iterations=1, per_iteration=10**6, hidden=0.2).fit(X, answers)
    pool = model.model_.answers_
    assert pool.take(np.flatnonzero(~pool.pseudo)).label.tolist() == answers.label.tolist()


def test_max_pairs_chooses_among_some(data):
    X, answers = data
    model = plain(tiny(), select="confidence", per_iteration=30, iterations=1, max_pairs=60).fit(X, answers)
    made = added(model)
    assert len(made) == 30
    everything = chosen_by_hand(tiny().fit(X, answers), X, answers, 30, "confidence")
    assert made != everything
    full = plain(tiny(), select="confidence", per_iteration=30, iterations=1, max_pairs=10**6).fit(X, answers)
    assert added(full) == everything


def test_pairs_drawn_range_by_range_are_all_there_are(data, monkeypatch):
    """A bound just below the number of pairs draws them, in ranges of tasks; but for one pair it is as without."""
    X, answers = data
    monkeypatch.setattr(pairs, "DRAWN", 50)
    bounds = (None, pairs.n_missing(answers) - 1)
    every, most = (plain(tiny(), select="confidence", per_iteration=30, iterations=1, max_pairs=n).fit(X, answers)
                   for n in bounds)  # fmt: skip
    assert len(set(added(every)) ^ set(added(most))) <= 2


def test_nobody_speaks_for_the_silent(data):
    """No pseudo-answers for a worker without answers, nor to a task that does not count."""
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


def test_soft_pseudo_answers_weigh_their_probability(data):
    X, answers = data
    pool = plain(tiny(), soft=True, iterations=1, select="confidence").fit(X, answers).model_.answers_
    q = tiny().fit(X, answers).answer_proba(X)[pool.task, pool.worker, pool.label]
    np.testing.assert_allclose(pool.weight, np.where(pool.pseudo, q, 1.0))


# What is recorded


def test_history_is_plain_and_truth_changes_nothing_else(data):
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
    assert epochs[-1]["module"] is model.model_.module_  # whoever listens can measure it
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


def test_tasks_that_do_not_count_do_not_judge(data):
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
def test_a_clear_fall_is_beyond_chance_and_large_enough(change, error, fell):
    assert clearly_fell(change, error) is fell


def test_pseudo_answers_that_hidden_answers_contradict_are_undone():
    """Answers by chance: the learner is sure of what it made up, and hidden answers are not what it says."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 5)).astype(np.float32)
    task, worker = np.repeat(np.arange(150), 3), np.argsort(rng.random((150, 8)), axis=1)[:, :3].ravel()
    answers = cw.Answers.from_codes(task, worker, rng.integers(0, 2, 450), tasks=150, workers=8, classes=2)
    base = tiny(network=cw.MLP(16), epochs=15, lr=0.02)
    with pytest.warns(CrowdwiseWarning, match="no pseudo-answers were added"):
        model = DASC(base, iterations=4, hidden=0.3).fit(X, answers)
    assert [record["undone"] for record in model.history_] == [False, True]
    assert sum(model.history_[1]["chosen"]) > 0  # what was undone
    assert model.model_.answers_.label.tolist() == answers.label.tolist()
    np.testing.assert_array_equal(model.predict_proba(X), base.fit(X, answers).predict_proba(X))
    assert "undone" not in plain(base, iterations=1).fit(X, answers).history_[1]


def test_stops_when_hidden_answers_become_clearly_less_likely(data, monkeypatch):
    X, answers = data
    changes = iter([(0.1, 0.2), (-0.04, 0.001), (-0.25, 0.12), (0.0, 1.0)])
    monkeypatch.setattr(dasc, "mean_and_error", lambda *_: next(changes))
    model = plain(tiny(), iterations=4, per_iteration=10, redistribute=True, hidden=0.2).fit(X, answers)
    assert [record["undone"] for record in model.history_] == [False, False, False, True]  # one addition too many
    assert model.model_.answers_.n_answers == answers.n_answers + 20


# Going on


def test_a_killed_fit_goes_on_bit_for_bit(data, tmp_path):
    X, answers = data
    for n, options in enumerate(({}, {"warm_start": True, "hidden": 0.2}, {"select": "random", "soft": True})):
        whole = plain(tiny(), iterations=3, **options).fit(X, answers)
        file = tmp_path / f"{n}.safetensors"

        def kill(record):
            if record["iteration"] == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            plain(tiny(), iterations=3, checkpoint=file, **options).fit(X, answers, callback=kill)
        told = []
        resumed = plain(tiny(), iterations=3, checkpoint=file, **options).fit(X, answers, callback=told.append)
        assert min(record["iteration"] for record in told) == 2
        np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
        assert resumed.model_.answers_ == whole.model_.answers_
        assert resumed.history_ == whole.history_
        assert list(tmp_path.glob("*.partial")) == []
        with pytest.raises(ModelFileError, match="other data or settings"):
            plain(tiny(lr=0.5), iterations=3, checkpoint=file, **options).fit(X, answers)


def test_a_warm_start_goes_on_from_the_last_network(data):
    X, answers = data
    still = {"epochs": 1, "lr": 1e-12}  # does not move: it stays where it started
    for base in (
        tiny,
        lambda **o: cw.DoctorNet(network=cw.MLP(8), weight_epochs=1, weight_lr=1e-12, **o),
        lambda **o: cw.AggNet(network=cw.MLP(8), **o),
    ):
        earlier = base(epochs=5).fit(X, answers)
        model = base(**still)
        with started_from(start_of(earlier), model):
            model.fit(X, answers)
        np.testing.assert_allclose(model.predict_proba(X), earlier.predict_proba(X), atol=1e-5)
        assert "_module" not in vars(model)
    cold, warm = (plain(tiny(), iterations=2, warm_start=w).fit(X, answers) for w in (False, True))
    assert not np.array_equal(cold.predict_proba(X), warm.predict_proba(X))


def test_a_start_that_fits_nothing_is_refused(data):
    X, answers = data
    start = start_of(tiny().fit(X, answers))
    model = tiny()
    name = next(iter(start))
    with started_from({**start, "gone": start[name]}, model), pytest.raises(ParameterError, match="has no gone to"):
        model.fit(X, answers)
    with started_from({name: start[name][..., :1]}, model), pytest.raises(ParameterError, match="other networks"):
        model.fit(X, answers)


def test_where_a_checkpoint_cannot_be(data, tmp_path):
    with pytest.raises(ModelFileError, match="is a folder: give the path of a file in it"):
        plain(tiny(), checkpoint=tmp_path).fit(*data)
    with pytest.raises(ModelFileError, match="no folder"):
        plain(tiny(), checkpoint=tmp_path / "no" / "where" / "state").fit(*data)
    assert list(tmp_path.iterdir()) == []


def test_save_and_load_keep_the_pool(data, tmp_path):
    X, answers = data
    model = plain(tiny(), iterations=1, soft=True).fit(X, answers)
    model.save(tmp_path / "m.safetensors")
    loaded = cw.load(tmp_path / "m.safetensors")
    assert loaded.answers_ == answers
    assert loaded.model_.answers_ == model.model_.answers_
    assert loaded.history_ == model.history_
    np.testing.assert_array_equal(loaded.member_proba(X), model.member_proba(X))


# Any learner


@pytest.mark.parametrize("name", LEARNERS)
def test_over_any_learner(name, data):
    X, answers = data
    base = cw.make(name)
    if base.binary_only:
        X, answers, *_ = crowd(n_classes=2)
    few = {"epochs": 2, "max_iter": 3, "weight_epochs": 1, "rounds": 1, "network": cw.MLP(8)}
    known = base.get_params()
    few = {k: v for k, v in few.items() if k in known and (k != "network" or "n_models" in known)}
    base.set_params(**few)
    model = plain(base, iterations=1, redistribute=True).fit(X, answers)
    assert model.model_.answers_.n_answers == answers.n_answers + round(0.4 * answers.n_answers)
    assert type(model.model_) is type(base)
    np.testing.assert_array_equal(model.predict_proba(X), model.model_.predict_proba(X))
    assert np.isfinite(model.answer_proba(X[:3])).all()


def test_over_a_truth_model_and_a_name(data):
    X, answers = data
    assert isinstance(plain(cw.DawidSkene(), iterations=1).fit(X, answers).model_, cw.Aggregated)
    assert isinstance(cw.make("dasc(majority-vote)", iterations=1)._new_base(), cw.Aggregated)
    assert isinstance(plain("annoreg")._new_base(), cw.AnnoReg)


@pytest.mark.parametrize("loss", ["focal", "cb_focal"])
def test_imbalance_losses_with_confidence(data, loss):
    """Focal+Self-C and CB-Focal+Self-C of the paper."""
    X, answers = data
    model = plain(tiny(loss=loss), select="confidence", iterations=2).fit(X, answers)
    usual = plain(tiny(), select="confidence", iterations=2).fit(X, answers)
    assert not np.array_equal(model.predict_proba(X), usual.predict_proba(X))


def test_gold_and_weights_reach_the_base(data):
    X, answers = data
    gold = np.full(answers.n_tasks, -1, np.int32)
    gold[:10] = (answers.truth[:10] + 1) % 3
    base = cw.AggNet(network=cw.MLP(8), epochs=2)
    model = plain(base, iterations=1).fit(X, answers, gold=gold)
    assert (model.codes_[:10] == gold[:10]).all()
    with pytest.raises(ParameterError, match="gold"):
        plain(tiny()).fit(X, answers, gold=gold)
    weight = np.linspace(0.1, 2, answers.n_tasks)
    weighted = plain(tiny(), iterations=1).fit(X, answers, sample_weight=weight)
    again = tiny().fit(X, weighted.model_.answers_, sample_weight=weight)
    np.testing.assert_array_equal(weighted.predict_proba(X), again.predict_proba(X))


def test_nothing_to_add():
    answers = cw.Answers.from_codes([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1], tasks=2, workers=2, classes=2)
    X = np.eye(2, dtype=np.float32)
    model = DASC(tiny()).fit(X, answers)  # nor enough answers to hide
    assert len(model.history_) == 1
    assert "held_out" not in model.history_[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": "best"}, "select"),
        ({"iterations": 0}, "iterations"),
        ({"per_iteration": 0}, "per_iteration"),
        ({"max_pairs": 0}, "max_pairs"),
        ({"max_pairs": 9, "select": "random"}, "max_pairs"),
        ({"balance": "all"}, "balance"),
        ({"balance": "pool", "select": "confidence"}, "balance"),
        ({"redistribute": True, "select": "random"}, "redistribute"),
        ({"redistribute": 2}, "redistribute"),
        ({"warm_start": "no"}, "warm_start"),
        ({"soft": "maybe"}, "soft"),
        ({"hidden": 1.0}, "hidden"),
        ({"random_state": -1}, "random_state"),
        ({"base": 3}, "base"),
        ({"base": tiny(epochs=0)}, "epochs"),
        ({"base": tiny(checkpoint="x")}, "checkpoint"),
        ({"base": "raykar", "warm_start": True}, "warm_start"),
        ({"base": cw.AggNet(cross_fit=2, epochs=1), "warm_start": True, "iterations": 1}, "warm_start"),
    ],
)
def test_what_makes_no_sense_is_refused(data, options, message):
    with pytest.raises(ParameterError, match=message):
        DASC(**{"base": tiny(), **options}).fit(*data)


# Claims


def test_rare_classes_keep_their_share():
    """Against confidence and chance on sparse, imbalanced crowds: better where classes count alike, and a lower R."""
    accuracy, imbalance = [], []
    for seed in range(6):
        X, answers, X_new, new = crowd(seed, n_tasks=300, n_classes=4, n_workers=15, imbalance=10)
        base = cw.AnnoReg(network=cw.MLP(16), epochs=15, lr=0.01, random_state=seed)
        models = [plain(base, select=s, iterations=3).fit(X, answers) for s in ("distribution", "confidence", "random")]
        accuracy.append([np.mean(m.predict(X_new) == new) for m in models])
        imbalance.append([m.history_[-1]["imbalance"] for m in models])
    ratio = np.array(imbalance)
    assert (ratio[:, 0] < ratio[:, 1]).all()
    assert (ratio[:, 0] < ratio[:, 2]).all()
    gain = np.array(accuracy)[:, :1] - np.array(accuracy)[:, 1:]  # (seeds, against)
    assert (gain.mean(axis=0) > 2 * gain.std(axis=0, ddof=1) / np.sqrt(len(gain))).all()


def test_blocks_are_bounded(data, monkeypatch):
    """No more pairs are asked of the learner at a time than a block holds."""
    X, answers = data
    asked = []
    told = cw.CrowdLayer._proba_of_answers
    monkeypatch.setattr(dasc, "CELLS", 9 * 50)
    monkeypatch.setattr(
        cw.CrowdLayer, "_proba_of_answers", lambda self, *a: (asked.append(len(a[3])), told(self, *a))[1]
    )
    plain(tiny(), iterations=1).fit(X, answers)
    assert max(asked) <= 50
    assert sum(asked) == answers.n_tasks * answers.n_workers - answers.n_answers


class Guess(CrowdClassifier):
    """Says anything, and counts what it is asked for."""

    asked: list[int]

    def _fit(self, given):
        Guess.asked = []
        self.proba_ = np.full((given.answers.n_tasks, 3), 1 / 3)

    def _predict_proba(self, features):
        return np.full((features.n_rows, 3), 1 / 3)

    def _proba_of_answers(self, features, rows, row, worker):
        Guess.asked.append(len(row))
        p = (rows[row] * 7 + worker * 13) % 101 / 200  # (pairs,)
        return np.column_stack([p, 0.5 - p, np.full(len(p), 0.5)])


def test_a_larger_crowd_is_looked_at_in_blocks(monkeypatch):
    """600,000 pairs: blocks of 200,000, of which twice M of each class are kept besides what is waiting."""
    answers = cw.simulate.simulate(2000, n_workers=300, n_classes=3, answers_per_task=3, seed=0)
    add, held = pairs.Lowest.add, []

    def watched(self, *columns):
        add(self, *columns)
        held.append(sum(len(part[0]) for part in self._parts))

    monkeypatch.setattr(pairs.Lowest, "add", watched)
    fitted = []
    choose = DASC._choose
    monkeypatch.setattr(DASC, "_choose", lambda self, *a: (choose(self, *a), fitted.append(list(Guess.asked)))[0])
    plain(Guess(), per_iteration=1000, iterations=1).fit(np.zeros((2000, 1), np.float32), answers)
    (asked,) = fitted
    assert max(asked) <= dasc.PAIRS
    assert sum(asked) == 2000 * len(np.unique(answers.worker)) - answers.n_answers
    assert max(held) <= 2 * 1000 * 3 + dasc.PAIRS


def test_no_warnings_of_numbers(data):
    X, answers = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = plain(tiny(epochs=30, lr=0.1), iterations=2, select="confidence").fit(X, answers)
    assert np.isfinite(model.predict_proba(X)).all()
