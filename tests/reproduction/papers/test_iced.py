"""ICED's rows: their Dawid-Skene, the stages of the labels, and the network right after its warm-up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.learn.features import open_features
from crowdwise.learn.network.prediction import predict_mean
from reproduction.cells import Cell, Setting
from reproduction.papers import iced
from reproduction.problems import PROBLEMS, Problem, load_problem


def blobs(seed: int) -> Problem:
    """Two classes, 10 to 1, seven workers who answer everything."""
    rng = np.random.default_rng([seed, 3])
    truth, test = rng.permutation(np.repeat([0, 1], [200, 20])), np.repeat([0, 1], 50)
    right = rng.uniform(0.55, 0.85, size=(7, 2))
    confusion = np.stack([np.stack([right[:, 0], 1 - right[:, 0]], 1), np.stack([1 - right[:, 1], right[:, 1]], 1)], 1)
    answers = cw.simulate.answer(truth, confusion, 7, seed=rng)
    X, X_test = (rng.normal(size=(len(t), 10)) + 2 * t[:, None] for t in (truth, test))
    return Problem(X.astype(np.float32), answers, X_test.astype(np.float32), test)


@pytest.fixture(autouse=True)
def usps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small set that replaces USPS, so that no data are needed."""
    monkeypatch.setitem(PROBLEMS, "usps", blobs)
    load_problem.__globals__["_load_complete"].cache_clear()


def cell(method: str, seed: int = 0) -> Cell:
    return Cell("iced", method, "usps", (seed,), quick=True)


def made(method: str, **options: object) -> cw.ICED:
    return iced.METHODS[method].make(Setting("usps", **options))  # type: ignore[arg-type]


def test_accuracy_of_labels_is_measured_at_each_stage() -> None:
    problem = load_problem("usps", 1)
    (found,) = iced.run(cell("ICED", 1))
    truth = problem.answers.truth
    vote = cw.MajorityVote(random_state=1).fit(problem.answers).codes_
    first = cw.DawidSkene("diagonal", "uniform", random_state=1).fit(problem.answers).codes_
    assert found["mv"] == 100 * (vote == truth).mean()
    assert found["orig"] == 100 * (first == truth).mean()
    model = made("ICED", seed=1, quick=True).fit(problem.X, problem.answers)
    assert found["final"] == 100 * model.label_history_[-1]["accuracy"]
    assert found["labels"] == 100 * (model.codes_ == truth).mean()


def test_equal_shares_lower_dawid_skene_and_learned_shares_lose_the_minority() -> None:
    """The first as in figure 2 of the paper; the second shows why learned shares do not help."""
    votes, equal, recall = [], [], []
    for seed in range(5):
        answers = blobs(seed).answers
        votes.append((cw.MajorityVote().fit(answers).codes_ == answers.truth).mean())
        equal.append((iced.EQUAL.fit(answers).codes_ == answers.truth).mean())
        recall.append((iced.LEARNED.fit(answers).codes_ == answers.truth)[answers.truth == 1].mean())
    assert np.mean(equal) < np.mean(votes) - 0.1
    assert np.mean(recall) < 0.6


def test_other_rows_have_no_stages() -> None:
    (found,) = iced.run(cell("D&S+DNN"))
    assert "final" not in found
    labels = iced.EQUAL.fit(blobs(0).answers).codes_
    assert found["labels"] == 100 * (labels == blobs(0).answers.truth).mean()


def test_ceiling_is_trained_on_the_truth() -> None:
    assert iced.run(cell("ceiling"))[0]["labels"] == 100


@pytest.mark.parametrize("row", iced.WARM_UPS)
def test_warm_up_is_measured_alone(row: str) -> None:
    """The figures are those of the epoch before the round: after two epochs on each of three groups, or six."""
    problem, seen = load_problem("usps", 2), []

    def look(record: dict[str, Any]) -> None:
        said = predict_mean(record["module"], open_features(problem.X_test), "cpu").argmax(axis=1)
        seen.append((record["epoch"], said))

    iced.WARM_UPS[row](Setting("usps", 2)).fit(problem.X, problem.answers, callback=look)
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4, 5, 6, 1]
    (found,) = iced.run_warm_up(Cell("iced-warm-up", row, "usps", (2,)))
    assert found["last"] == 100 * (seen[5][1] == problem.y_test).mean()
    recall = [(seen[5][1] == c)[problem.y_test == c].mean() for c in (0, 1)]
    precision = [(problem.y_test == c)[seen[5][1] == c].mean() if (seen[5][1] == c).any() else 0.0 for c in (0, 1)]
    parts = [2 * p * r / (p + r) if p + r else 0.0 for p, r in zip(precision, recall, strict=True)]
    assert found["f1"] == pytest.approx(100 * np.mean(parts))


def test_quick_warm_up_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(iced.WARM_UP, "usps", 10)
    whole, quick = (Cell("iced-warm-up", "ICED-w", "usps", (0,), quick=q) for q in (False, True))
    assert [iced.warm_up(each).warmup_epochs for each in (whole, quick)] == [10, 2]
    assert iced.run_warm_up(whole) != iced.run_warm_up(quick)
    assert iced.FIRST_TRAINING.stamp(whole._replace(seeds=(9,))) != iced.FIRST_TRAINING.stamp(
        quick._replace(seeds=(9,))
    )


def test_warm_ups_differ() -> None:
    stamps = {iced.FIRST_TRAINING.stamp(Cell("iced-warm-up", row, "usps", (0,))) for row in iced.WARM_UPS}
    assert len(stamps) == 3


def test_rounds_share_the_epochs_of_the_others() -> None:
    model, other = made("ICED", seed=4), iced.METHODS["MV+DNN"].make(Setting("usps", 4))
    assert 5 * model.epochs_per_round == model.epochs == other.epochs == 50
    assert (model.warmup_epochs, model.random_state) == (2, 4)
    quick = made("ICED", quick=True)
    assert (quick.epochs, quick.epochs_per_round) == (10, 5)
    assert iced.METHODS["ICED"].make(Setting("labelme")).epochs_per_round == 5


def test_each_seed_draws_its_own_crowd() -> None:
    assert not any(iced.FAMILY.together(row) for row in iced.METHODS)


def test_experiments() -> None:
    table2, table3, inference = iced.EXPERIMENTS
    assert table2.published["ICED", "gas_drift"] == (88.72, None)
    assert table2.published["MBEM", "gisette_like", "f1"] == (42.11, None)
    assert table3.published["ICED-w", "usps"] == (83.73, None)
    assert table3.published["Trad-I", "gas_drift", "f1"] == (31.42, None)
    for table, n_rows in ((table2, 8), (table3, 3)):
        accuracy = {place: number for place, (number, _) in table.published.items() if len(place) == 2}
        assert len(accuracy) == 3 * n_rows
        assert {place[0] for place in accuracy} <= set(table.methods)
        assert set(table.published) == {*accuracy, *((*place, "f1") for place in accuracy)}
        f1 = [table.published[*place, "f1"][0] for place in accuracy]
        assert all(0 < mean <= of for mean, of in zip(f1, accuracy.values(), strict=True))  # test sets are balanced
    assert set(inference.cells(2)) <= set(table2.cells(2))  # nothing is computed twice
