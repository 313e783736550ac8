"""Self-training of any learner, invalid parameters, and the claims of the paper."""

import warnings

import numpy as np
import pytest

import crowdwise as cw
from crowdwise._core.registry import methods
from crowdwise.augment import pairs
from crowdwise.augment.dasc import dasc
from crowdwise.augment.dasc.dasc import DASC
from crowdwise.errors import ParameterError
from crowdwise.learn.base import CrowdClassifier
from tests.helpers.dasc_crowds import crowd, plain, tiny

FRAMEWORKS = ("dasc", "iced", "crowding", "completed", "waum")
LEARNERS = [m.name for m in methods("classes") if m.needs_features and m.name not in FRAMEWORKS]
pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    return crowd()[:2]


@pytest.mark.filterwarnings("ignore::crowdwise.errors.OneClassWarning")  # two epochs
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
    model = DASC(tiny()).fit(X, answers)  # also too few answers to hide
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
def test_invalid_parameters_are_rejected(data, options, message):
    with pytest.raises(ParameterError, match=message):
        DASC(**{"base": tiny(), **options}).fit(*data)


# Claims


def test_rare_classes_gain_accuracy():
    """Against confidence and chance on sparse, imbalanced crowds: a higher balanced accuracy and a lower R."""
    accuracy, imbalance = [], []
    for seed in range(6):
        X, answers, X_new, new = crowd(seed, n_tasks=300, n_classes=4, n_workers=15, imbalance=10)
        base = cw.AnnoReg(network=cw.MLP(16), epochs=15, lr=0.01, random_state=seed)
        models = [plain(base, select=s, iterations=3).fit(X, answers) for s in ("distribution", "confidence", "random")]
        accuracy.append([np.mean(m.predict(X_new) == new) for m in models])
        imbalance.append([m.history_[-1]["imbalance"] for m in models])
    ratio = np.array(imbalance)
    assert (ratio[:, :1] < ratio[:, 1:]).all()
    gain = np.array(accuracy)[:, :1] - np.array(accuracy)[:, 1:]  # (seeds, against)
    assert (gain.mean(axis=0) > 2 * gain.std(axis=0, ddof=1) / np.sqrt(len(gain))).all()


def test_blocks_are_bounded(data, monkeypatch):
    """The learner never predicts more pairs at a time than a block."""
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
    """Predicts a fixed pattern, and counts the pairs."""

    asked: list[int]

    def _fit(self, inputs):
        Guess.asked = []
        self.proba_ = np.full((inputs.answers.n_tasks, 3), 1 / 3)

    def _predict_proba(self, features):
        return np.full((features.n_rows, 3), 1 / 3)

    def _proba_of_answers(self, features, rows, row, worker):
        Guess.asked.append(len(row))
        p = (rows[row] * 7 + worker * 13) % 101 / 200  # (pairs,)
        return np.column_stack([p, 0.5 - p, np.full(len(p), 0.5)])


def test_a_large_crowd_is_scored_in_blocks(monkeypatch):
    """600,000 pairs: blocks of 200,000, and at most twice M pairs per class in memory."""
    answers = cw.simulate.simulate(2000, n_workers=300, n_classes=3, answers_per_task=3, seed=0)
    add, held = pairs.LowestScores.add, []

    def watched(self, *columns):
        add(self, *columns)
        held.append(sum(len(part[0]) for part in self._parts))

    monkeypatch.setattr(pairs.LowestScores, "add", watched)
    fitted = []
    choose = DASC._choose
    monkeypatch.setattr(DASC, "_choose", lambda self, *a: (choose(self, *a), fitted.append(list(Guess.asked)))[0])
    plain(Guess(), per_iteration=1000, iterations=1).fit(np.zeros((2000, 1), np.float32), answers)
    (asked,) = fitted
    assert max(asked) <= dasc.PAIRS
    assert sum(asked) == 2000 * len(np.unique(answers.worker)) - answers.n_answers
    assert max(held) <= 2 * 1000 * 3 + dasc.PAIRS


def test_no_numerical_warnings(data):
    X, answers = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = plain(tiny(epochs=30, lr=0.1), iterations=2, select="confidence").fit(X, answers)
    assert np.isfinite(model.predict_proba(X)).all()
