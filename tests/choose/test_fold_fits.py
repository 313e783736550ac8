"""Time budgets, with a simulated clock: which candidates are skipped, and that a resumed choice skips the same."""

from __future__ import annotations

import json

import pytest

import crowdwise as cw
from crowdwise.choose import choose, fold_fits
from crowdwise.choose.fold_fits import NOT_STARTED, drop_slowest
from crowdwise.errors import ParameterError
from tests.helpers.choose_candidates import Failing

SECONDS = {"majority-vote": 1.0, "one-coin": 2.0, "mace": 10.0, "dawid-skene": 30.0}


class Clock:
    """A clock that only fits advance, by the seconds in the table."""

    def __init__(self, score):
        self.now, self.score = 0.0, score

    def time(self):
        return self.now

    def fit(self, candidate, *what):
        outcome = self.score(candidate, *what)
        seconds = SECONDS.get(candidate, 5.0) if isinstance(candidate, str) else 5.0
        self.now += seconds
        return outcome._replace(seconds=seconds)


@pytest.fixture
def clock(monkeypatch, no_temperatures):
    clock = Clock(fold_fits.score)
    monkeypatch.setattr(fold_fits, "score", clock.fit)
    monkeypatch.setattr(fold_fits, "time", clock)
    return clock


def failures(choice):
    return {entry.candidate: entry.failure for entry in choice.entries}


# The rule


def test_the_slowest_are_skipped_until_the_rest_fits():
    seconds = {"vote": 1.0, "a": 10.0, "b": 30.0, "c": 20.0}
    assert drop_slowest(seconds, 4, 4 * 61.0, "vote") == {}
    assert list(drop_slowest(seconds, 4, 4 * 60.9, "vote")) == ["b"]
    assert list(drop_slowest(seconds, 4, 4 * 30.9, "vote")) == ["b", "c"]
    assert list(drop_slowest(seconds, 4, -5.0, "vote")) == ["b", "c", "a"]  # never the vote
    assert list(drop_slowest({**seconds, "vote": 99.0}, 4, 0.0, "vote")) == ["b", "c", "a"]


def test_reasons_have_durations():
    text = drop_slowest({"vote": 0.0, "a": 40.0, "b": 0.31}, 4, 0.0, "vote")
    assert text["a"] == "left out: about 40 s per fold, 3 min in total, over the time budget"
    assert text["b"] == "left out: about 0.3 s per fold, 1.6 s in total, over the time budget"


# In a choice


def test_a_large_budget_changes_nothing(crowd):
    models = {"a": "one-coin", "bad": Failing()}
    one, two = (choose(crowd, candidates=models, folds=2, time_budget=budget) for budget in (None, 1000))
    assert json.dumps(one.as_dict(seconds=False)) == json.dumps(two.as_dict(seconds=False))


def test_a_slow_candidate_is_skipped_after_one_fold(crowd, clock):
    records = []
    options = {"candidates": ["one-coin", "mace", "dawid-skene"], "folds": 5, "callback": records.append}
    choice = choose(crowd, time_budget=100, **options)  # 43 s for the first fold; 52 s more without the slowest
    assert failures(choice) == {
        "majority-vote": None, "one-coin": None, "mace": None,
        "dawid-skene": "left out: about 30 s per fold, 2 min in total, over the time budget",
    }  # fmt: skip
    assert clock.now == 95
    assert [record["candidate"] for record in records].count("dawid-skene") == 1
    assert records[3]["total"] == 20
    assert (records[-1]["done"], records[-1]["total"]) == (16, 16)
    assert "dawid-skene left out: about 30 s per fold" in str(choice)
    assert "dawid-skene" not in choice.ranking_


def test_results_without_seconds_have_no_durations(crowd, clock):
    choice = choose(crowd, candidates=["mace", "dawid-skene"], folds=5, time_budget=60)
    rows = {row["candidate"]: row for row in choice.as_dict(seconds=False)["candidates"]}
    assert rows["dawid-skene"]["failure"] == "left out: over the time budget"
    assert not any("seconds" in row for row in rows.values())
    assert choice.as_dict()["candidates"][0]["seconds"] > 0


def test_no_candidate_starts_after_the_budget_is_used(crowd, clock):
    """A fifth of 50 s is the share of each fold: after vote, one-coin and mace it is used up."""
    choice = choose(crowd, candidates=["one-coin", "mace", "dawid-skene"], folds=5, time_budget=50)
    assert failures(choice)["dawid-skene"] == NOT_STARTED
    assert failures(choice)["mace"] == "left out: about 10 s per fold, 50 s in total, over the time budget"
    assert sorted(choice.ranking_) == ["majority-vote", "one-coin"]
    assert clock.now == 13 + 4 * 3


def test_candidates_that_fail_are_not_fitted_again(crowd, clock):
    records = []
    models = {"bad": Failing(), "fine": "one-coin"}
    choice = choose(crowd, candidates=models, folds=3, time_budget=1000, callback=records.append)
    assert failures(choice)["bad"].startswith("TrainingError")
    assert [record["candidate"] for record in records].count("bad") == 1


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_majority_vote_is_never_skipped(crowd, n_jobs):
    choice = choose(crowd, candidates=["one-coin", "dawid-skene"], folds=2, time_budget=1e-9, n_jobs=n_jobs)
    assert choice.best_ == "majority-vote"
    assert list(failures(choice).values()) == [None, NOT_STARTED, NOT_STARTED]
    assert choice.entries[0].log_likelihood is not None


def test_a_resumed_choice_skips_the_same_candidates(crowd, clock, tmp_path, monkeypatch):
    models = {"a": "one-coin", "bad": Failing(), "vague": cw.DawidSkene(max_iter=1), "b": "mace", "c": "dawid-skene"}
    options = {"candidates": models, "folds": 5, "checkpoint": tmp_path}
    first = choose(crowd, time_budget=70, **options)
    assert failures(first)["b"].endswith("over the time budget")
    assert failures(first)["c"] == NOT_STARTED
    monkeypatch.setitem(SECONDS, "mace", 0.1)  # the stored decision is used, although the candidate is quick now
    again = choose(crowd, time_budget=70, **options)
    assert failures(again) == failures(first)
    assert json.dumps(again.as_dict(seconds=False)) == json.dumps(first.as_dict(seconds=False))
    more = choose(crowd, time_budget=1000, **options)  # another budget is another decision
    assert failures(more)["b"] is failures(more)["c"] is None


def test_time_of_the_killed_run_counts(crowd, clock, tmp_path):
    choose(crowd, candidates=["mace"], folds=2, checkpoint=tmp_path)
    choice = choose(crowd, candidates=["mace", "one-coin"], folds=2, checkpoint=tmp_path, time_budget=21)
    assert failures(choice)["one-coin"] == NOT_STARTED  # vote and mace took 11 s of half the budget


@pytest.mark.parametrize("budget", [0, -1, float("nan"), "1h", True])
def test_invalid_budgets_are_rejected(crowd, budget):
    with pytest.raises(ParameterError, match="time_budget"):
        choose(crowd, candidates="one-coin", time_budget=budget)
