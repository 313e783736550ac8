"""`choose`: invariances, failing candidates, invalid arguments, and the callback."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.choose import choose
from crowdwise.errors import CrowdwiseError, ParameterError
from tests.helpers.choose_candidates import QUICK, Failing

# Invariances


def test_order_of_candidates_does_not_change_scores(crowd):
    one, other = choose(crowd, candidates=QUICK), choose(crowd, candidates=QUICK[::-1])
    assert one.ranking_ == other.ranking_
    for name, score in one.scores.items():
        assert np.array_equal(score, other.scores[name])


def test_results_do_not_depend_on_row_order_and_ids(crowd):
    order = np.random.default_rng(0).permutation(crowd.n_answers)
    other = cw.Answers.from_arrays(
        [f"task {t:04}" for t in crowd.task[order]],
        [f"worker {w:03}" for w in crowd.worker[order]],
        [f"class {c}" for c in crowd.label[order]],
    )
    one, two = choose(crowd, candidates=QUICK), choose(other, candidates=QUICK)
    assert one.best_ == two.best_
    for name, score in one.scores.items():
        np.testing.assert_allclose(two.scores[name], score, rtol=1e-12)


def test_ids_that_reorder_tasks_change_only_the_folds(crowd):
    """Folds are drawn in the order of ids: other ids change scores no more than new folds do."""
    renamed = cw.Answers.from_codes(
        crowd.n_tasks - 1 - crowd.task,
        crowd.worker,
        crowd.label,
        tasks=crowd.n_tasks,
        workers=crowd.n_workers,
        classes=3,
    )
    one, two = choose(crowd, candidates=QUICK), choose(renamed, candidates=QUICK)
    for a, b in zip(one.entries, two.entries, strict=True):
        assert abs(a.log_likelihood - b.log_likelihood) < a.standard_error


def test_truth_is_not_used(crowd):
    bare = replace(crowd, truth=None)
    assert np.array_equal(
        choose(crowd, candidates=QUICK).scores["one-coin"], choose(bare, candidates=QUICK).scores["one-coin"]
    )


def test_seed_repeats(crowd):
    one, same, other = (choose(crowd, candidates=QUICK, random_state=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.scores["dawid-skene"], same.scores["dawid-skene"])
    assert not np.array_equal(one.scores["dawid-skene"], other.scores["dawid-skene"])


def test_results_do_not_depend_on_the_number_of_processes(crowd):
    models = {"fine": cw.OneCoin(), "bad": cw.OneCoin(max_iter=0)}
    one, two = (choose(crowd, candidates=models, folds=2, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one.scores["fine"], two.scores["fine"])
    assert one.entries[2].failure == two.entries[2].failure
    assert "max_iter" in two.entries[2].failure


def test_candidates_are_not_modified(crowd):
    model = cw.DawidSkene()
    choice = choose(crowd, candidates=model)
    assert not hasattr(model, "answers_")
    assert not hasattr(choice.best_model_, "answers_")


# Failing candidates and invalid arguments


def test_failing_candidates_are_listed_with_the_reason(crowd):
    models = {"failing": Failing(), "features": "raykar", "settings": cw.OneCoin(max_iter=0)}
    choice = choose(crowd, candidates={**models, "fine": "one-coin"})
    reasons = {entry.candidate: entry.failure for entry in choice.entries}
    assert reasons["failing"] == "TrainingError: the loss is not finite."
    assert "max_iter" in reasons["settings"]
    assert "pass X" in reasons["features"]
    assert reasons["fine"] is None
    assert sorted(choice.ranking_) == ["fine", "majority-vote"]
    assert "failing failed: TrainingError" in str(choice)
    last = choice.to_arrow().to_pylist()[-1]
    assert last["rank"] is None
    assert last["log_likelihood"] is None


def test_warnings_of_candidates_are_kept(crowd):
    choice = choose(crowd, candidates=cw.DawidSkene(max_iter=1))
    assert choice.entries[1].warnings
    assert "warned: " in str(choice)


def test_majority_vote_is_always_included_and_first(crowd):
    assert [e.candidate for e in choose(crowd, candidates="one-coin").entries] == ["majority-vote", "one-coin"]
    assert choose(crowd, candidates=["one-coin", "majority-vote"]).entries[0].candidate == "majority-vote"
    given = choose(crowd, candidates={"ours": "one-coin", "votes": cw.MajorityVote(random_state=3)})
    assert [entry.candidate for entry in given.entries] == ["votes", "ours"]
    assert choose(crowd, candidates=[]).best_ == "majority-vote"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds"),
        ({"folds": 10**6}, "folds=1000000: use an integer from 2 to 100"),
        ({"repeats": 0}, "repeats"),
        ({"repeats": 101}, "from 1 to 100"),
        ({"criterion": "accuracy"}, "criterion"),
        ({"criterion": "tasks"}, "pass X"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": -1}, "random_state"),
        ({"candidates": ["one-coin", "one-coin"]}, "each candidate once"),
        ({"candidates": ["no-such-method"]}, "no-such-method"),
        ({"candidates": [3]}, "candidate=3"),
        ({"candidates": {"majority-vote": "one-coin"}}, "another label"),
        ({"candidates": cw.CrowdLayer(checkpoint="there.pt")}, "checkpoint"),
        ({"candidates": ["one-coin"], "default": "joint-em"}, "default='joint-em': use the label of a candidate"),
    ],
)
def test_invalid_parameters_are_rejected(crowd, options, message):
    with pytest.raises(ParameterError, match=message):
        choose(crowd, **options)


def test_folds_are_limited_by_the_answers():
    many = cw.Answers.from_codes(
        np.repeat(np.arange(10), 4), np.tile(np.arange(4), 10), np.arange(40) % 3 % 2, tasks=10, workers=4, classes=2
    )
    assert len(choose(many, candidates=[], folds=40).rows) == 40  # one answer at a time
    with pytest.raises(ParameterError, match="folds=41: use at most 40: only that many answers"):
        choose(many, candidates=[], folds=41)
    with pytest.raises(ParameterError, match="folds=11: use at most 10: only that many tasks"):
        choose(many, np.zeros((10, 2)), [], criterion="tasks", folds=11)


def test_single_answers_cannot_be_held_out():
    answers = cw.simulate.simulate(50, n_workers=5, answers_per_task=1)
    with pytest.raises(CrowdwiseError, match="only 0 answers can be held out"):
        choose(answers)


# Callback and defaults


def test_callback_is_called_after_each_fit(crowd):
    records = []
    choose(crowd, candidates={"a": "one-coin", "b": Failing()}, folds=2, repeats=2, callback=records.append)
    assert [r["done"] for r in records] == list(range(1, 13))
    assert {r["total"] for r in records} == {12}
    assert sorted({r["fold"] for r in records}) == [0, 1, 2, 3]
    assert all((r["failure"] is None) == (r["log_likelihood"] is not None) for r in records)
    assert all(r["seconds"] >= 0 for r in records)


def test_default_candidates(crowd, featured):
    assert choose(crowd, folds=2).ranking_
    X, answers = featured
    choice = choose(answers, X, folds=2)
    assert not [entry.failure for entry in choice.entries if entry.failure]
    assert len(choice.entries) >= 5
    assert choice.default == "joint-em" and choose(crowd, candidates=[], folds=2).default is None
