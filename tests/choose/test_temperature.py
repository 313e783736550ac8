"""Temperatures from held-out answers: by hand, on beliefs overconfident by a known factor, and against truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import crowdwise as cw
from crowdwise.choose import choose, temperature
from crowdwise.choose.scores import answer_folds
from crowdwise.choose.temperature import (
    TEMPERATURES,
    best_temperature,
    calibrated,
    crowd_curve,
    mixture_curve,
    temperature_curves,
    vote_limit,
)
from crowdwise.evaluate import ece
from crowdwise.evaluate.calibration import tempered, vote_belief
from crowdwise.truth.vote_check import log_likelihood
from tests.helpers.choose_candidates import QUICK, Failing, Fixed


class Overconfident(cw.OneCoin):
    """One-coin, overconfident by this factor in log odds."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = factor

    def _fit(self, answers, gold, rng, callback):
        super()._fit(answers, gold, rng, callback)
        self.proba_ = tempered(self.proba_, 1 / self.factor)


@pytest.fixture(scope="module")
def parts(request):
    """Answers kept and held out, and a belief about their tasks."""
    answers = cw.simulate.simulate(200, n_workers=10, n_classes=3, answers_per_task=4, seed=2)
    held = answer_folds(answers, 5, np.random.default_rng(0)) == 0
    kept, hidden = answers.take(np.flatnonzero(~held)), answers.take(np.flatnonzero(held))
    return kept, hidden, cw.DawidSkene().fit(kept).proba_


# Curves


def test_workers_curve_uses_the_common_worker_model(parts):
    kept, held, belief = parts
    sums = temperature_curves(kept, held, lambda t: tempered(belief, t))
    for t, found in zip(TEMPERATURES, sums[0], strict=True):
        assert found == pytest.approx(log_likelihood(kept, held, tempered(belief, t)).sum())


@pytest.mark.parametrize("seed", range(5))
def test_mixture_curve_finds_the_most_likely_share(seed):
    rng = np.random.default_rng(seed)
    believed, chance, weight = rng.random(50), rng.random(50), rng.integers(1, 4, 50).astype(float)
    best = minimize_scalar(
        lambda a: -weight @ np.log(a * believed + (1 - a) * chance), bounds=(0, 1), options={"xatol": 1e-10}
    )
    other = rng.random(50)
    found = mixture_curve(np.stack([believed, other]), chance, weight)
    assert found[0] == pytest.approx(-best.fun, rel=1e-6)
    assert found[1] == pytest.approx(mixture_curve(other[None], chance, weight)[0])


def test_crowd_curve_finds_the_confusion_of_a_certain_belief():
    """Where the truth is certain, the confusion is counted: by hand."""
    truth, label = np.array([0] * 6 + [1] * 4), np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 0])
    start = np.array([[0.9, 0.1], [0.2, 0.8]])
    says = np.array([[4 + 1.8, 2 + 0.2], [1 + 0.4, 3 + 1.6]])
    says /= says.sum(axis=1, keepdims=True)
    held = cw.Answers.from_codes(np.arange(10), np.zeros(10), label, tasks=10, workers=1, classes=2)
    found = crowd_curve(np.eye(2)[truth][None], held, start[None])
    assert found == pytest.approx([np.log(says[truth, label]).sum()])


def test_weights_equal_repeated_answers(parts):
    _, held, belief = parts
    start = (np.ones((1, 3, 3)) + np.eye(3)) / 4
    twice = held.take(np.repeat(np.arange(held.n_answers), 2))
    weighed = crowd_curve(belief[None, held.task], replace(held, weight=np.full(held.n_answers, 2.0)), start)
    assert weighed == pytest.approx(crowd_curve(belief[None, twice.task], twice, start))


def test_large_crowds_are_sampled_and_the_largest_skipped(parts, monkeypatch):
    kept, held, belief = parts
    monkeypatch.setattr(temperature, "SAMPLE", 50)
    some = held.take(np.linspace(0, held.n_answers - 1, 50).astype(int))
    sums = temperature_curves(kept, held, lambda t: tempered(belief, t))
    assert sums[0, 4] == pytest.approx(log_likelihood(kept, some, belief).sum())  # a temperature of 1
    monkeypatch.setattr(temperature, "MOST_ANSWERS", 100)
    assert temperature_curves(kept, held, lambda t: tempered(belief, t)) is None
    choice = choose(cw.simulate.simulate(100, answers_per_task=3, seed=0), candidates=QUICK)
    assert choice.temperatures == {}
    monkeypatch.setattr(temperature, "MOST_ANSWERS", 1000)
    assert temperature_curves(kept, held, lambda t: tempered(belief, t)) is not None
    monkeypatch.setattr(temperature, "MOST_WORK", 9 * 800 - 1)  # 200 tasks of 4 answers, 3 classes
    assert temperature_curves(kept, held, lambda t: tempered(belief, t)) is None
    assert choice.calibrated("one-coin", model := cw.OneCoin().fit(kept)) is model.proba_


# The temperature


def curve(peak):
    return -((np.log(TEMPERATURES) - np.log(peak)) ** 2)


def test_the_peak_is_found_between_the_temperatures_tried():
    assert best_temperature([np.stack([curve(1.7)] * 3)]) == pytest.approx(1.7)
    assert best_temperature([np.stack([curve(100)] * 3)]) == pytest.approx(16)  # the last temperature tried


def test_temperature_is_that_of_workers_or_the_mean_of_the_others():
    assert best_temperature([np.stack([curve(3), curve(2), curve(4)])]) == pytest.approx(3)
    assert best_temperature([np.stack([curve(3), curve(4), curve(9)])]) == pytest.approx(6)


def test_confidence_rises_only_as_far_as_all_curves_agree():
    assert best_temperature([np.stack([curve(0.5), curve(0.4), curve(0.6)])]) == pytest.approx(0.6)
    assert best_temperature([np.stack([curve(0.5), curve(0.3), curve(2)])]) == 1.0
    assert best_temperature([np.stack([curve(0.3), curve(1.5), curve(0.5)])]) == 1.0


def test_folds_are_summed_and_none_may_be_missing():
    folds = [np.stack([curve(1)] * 3), np.stack([curve(4)] * 3)]
    assert best_temperature(folds) == pytest.approx(2)
    assert best_temperature([*folds, None]) is None
    assert best_temperature([]) is None


def test_a_uniform_belief_is_unchanged(tiny):
    choice = choose(tiny, candidates={"even": Fixed(((0.5, 0.5),))}, folds=2)
    assert choice.temperatures["even"] == 1.0


@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_an_overconfident_belief_gets_its_factor_as_temperature(factor):
    """belief^k at k T is belief at T: the curve shifts by steps of the temperatures tried."""
    answers = cw.simulate.simulate(
        400, n_workers=15, n_classes=3, answers_per_task=3, workers="one-coin", accuracy=(0.5, 0.8), seed=4
    )
    found = choose(answers, candidates={"plain": "one-coin", "overconfident": Overconfident(factor)}).temperatures
    assert found["overconfident"] == pytest.approx(factor * found["plain"], rel=1e-2)


def test_a_calibrated_model_has_a_temperature_near_one():
    answers = cw.simulate.simulate(
        2000, n_workers=20, n_classes=3, answers_per_task=4, workers="one-coin", accuracy=(0.5, 0.9), seed=1
    )
    assert choose(answers, candidates="one-coin").temperatures["one-coin"] == pytest.approx(1.0, abs=0.15)


def test_failed_candidates_have_no_temperature(crowd):
    choice = choose(crowd, candidates={"failing": Failing(), "fine": "one-coin"})
    assert set(choice.temperatures) == {"majority-vote", "fine"}
    assert {entry.candidate: entry.temperature for entry in choice.entries}["failing"] is None


def test_learners_have_a_temperature_under_every_criterion(featured):
    X, answers = featured
    for criterion in ("common", "own", "tasks"):
        choice = choose(answers, X, {"raykar": cw.Raykar(max_iter=3, tol=0)}, criterion=criterion, folds=2)
        assert set(choice.temperatures) == {"majority-vote", "raykar"}
    vote = cw.MajorityVote().fit(answers)  # under "tasks" the classifier of its labels was scored instead
    assert choice.calibrated("majority-vote", vote) is vote.proba_


# Claims


@pytest.mark.parametrize("kind", [{"workers": "mixed"}, {"difficulty": 0.4, "accuracy": (0.6, 0.95)}])
def test_labels_are_better_calibrated_than_before(kind):
    before, after = [], []
    for seed in range(3):
        answers = cw.simulate.simulate(600, n_workers=25, n_classes=3, answers_per_task=5, seed=seed, **kind)
        choice = choose(answers, candidates="dawid-skene")
        for name in ("majority-vote", "dawid-skene"):
            model = cw.make(name).fit(answers)
            before.append(ece(answers.truth, model.proba_, model.codes_))
            after.append(ece(answers.truth, choice.calibrated(name, model), model.codes_))
    assert np.mean(after) < 0.75 * np.mean(before)


def test_calibration_keeps_labels_and_gold(crowd):
    gold = np.where(np.arange(crowd.n_tasks) < 20, crowd.truth, -1)
    for model in (cw.DawidSkene(), cw.MajorityVote()):
        model.fit(crowd, gold)
        proba = calibrated(model, 2.5)
        assert np.array_equal(proba[:20], model.proba_[:20])
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        rows = np.arange(crowd.n_tasks)
        assert (proba[rows, model.codes_] >= proba.max(axis=1) - 1e-12).all()


def test_a_vote_adds_the_inverse_of_the_temperature(crowd):
    model = cw.MajorityVote().fit(crowd)
    assert np.array_equal(calibrated(model, 2.0), vote_belief(crowd, 0.5))


# Limit of one vote


def spread(accuracy, confused, n_tasks=20_000):
    """Two answers to each of many tasks of 4 classes: right, or wrong, a share `confused` with the class opposite."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), 2)
    truth = rng.integers(0, 4, n_tasks)[task]
    step = rng.choice(
        4, len(task), p=[accuracy, *((1 - accuracy) * np.array([1 - confused, confused, 1 - confused]) / [2, 1, 2])]
    )
    return cw.Answers.from_codes(
        task, np.tile([0, 1], n_tasks), (truth + step) % 4, tasks=n_tasks, workers=2, classes=4
    )


@pytest.mark.parametrize("accuracy", [0.6, 0.75, 0.9])
def test_a_vote_adds_at_most_the_log_odds_of_one_answer(accuracy):
    """Errors spread over all classes: the accuracy follows from agreement alone."""
    assert vote_limit(spread(accuracy, 1 / 3)) == pytest.approx(np.log(3 * accuracy / (1 - accuracy)), abs=0.15)


def test_a_vote_adds_less_if_errors_are_in_one_class():
    """The rival of each class is one other: as if there were two classes."""
    even, paired = vote_limit(spread(0.75, 1 / 3)), vote_limit(spread(0.75, 0.98))
    assert paired == pytest.approx(np.log(0.75 / 0.25), abs=0.1)
    assert paired < even - 0.8


def test_the_limit_holds_at_any_temperature(crowd):
    model, limit = cw.MajorityVote().fit(crowd), vote_limit(crowd)
    assert np.array_equal(calibrated(model, 0.25), vote_belief(crowd, limit))
    assert np.array_equal(calibrated(model, 0.9 / limit), vote_belief(crowd, limit))
    assert np.array_equal(calibrated(model, 1.1 / limit), vote_belief(crowd, limit / 1.1))


def test_a_vote_without_support_adds_nearly_nothing():
    alone = cw.Answers.from_arrays([1, 2, 3], list("abc"), list("xyx"))
    never = cw.Answers.from_arrays([1, 1, 2, 2], list("abab"), list("xyyx"))
    once = cw.Answers.from_arrays([1, 1], list("ab"), list("xx"))
    assert vote_limit(alone) == vote_limit(never) == 1 / TEMPERATURES[-1]
    assert 1 < vote_limit(once) < 2  # bounded, although all agree


def test_unit_weights_do_not_change_the_vote_limit(crowd):
    assert vote_limit(replace(crowd, weight=np.ones(crowd.n_answers))) == vote_limit(crowd)


def test_truth_is_not_used(crowd):
    wrong = replace(crowd, truth=(crowd.truth + 1) % 3)
    assert choose(crowd, candidates=QUICK).temperatures == choose(wrong, candidates=QUICK).temperatures
