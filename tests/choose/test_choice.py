"""The result: standard errors, the rule, the quality of the choice, and the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.choose import choose
from crowdwise.choose.choice import mean_with_error, pick
from tests.helpers.choose_candidates import QUICK

pytestmark = pytest.mark.usefixtures("no_temperatures")

# Errors


def test_standard_error_by_hand():
    held = cw.Answers.from_codes(
        np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0]), np.zeros(4), tasks=3, workers=2, classes=2
    )
    mean, error = mean_with_error(np.array([1.0, 3.0, 2.0, 6.0]), held)
    assert mean == 3.0
    assert error == pytest.approx(np.sqrt((-2 + 0) ** 2 + (-1) ** 2 + 3**2) / 4)


def test_weights_of_answers_count():
    rows = (np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0]), np.zeros(4, int))
    held = cw.Answers.from_codes(*rows, tasks=3, workers=2, classes=2, weight=np.array([1.0, 0.0, 2.0, 1.0]))
    mean, error = mean_with_error(np.array([1.0, 99.0, 2.0, 7.0]), held)
    assert mean == 3.0
    assert error == pytest.approx(np.sqrt(2.0**2 + 2.0**2 + 4.0**2) / 4)


def test_table_holds_paired_differences(crowd):
    choice = choose(crowd, candidates=QUICK)
    held = crowd.take(choice.rows)
    best = choice.ranking_[0]
    for entry in choice.entries:
        own = choice.scores[entry.candidate]
        assert (entry.log_likelihood, entry.standard_error) == mean_with_error(own, held)
        assert (entry.to_best, entry.to_best_error) == mean_with_error(own - choice.scores[best], held)
        assert (entry.to_vote, entry.to_vote_error) == mean_with_error(own - choice.scores["majority-vote"], held)
    ranked = [choice.scores[name].mean() for name in choice.ranking_]
    assert ranked == sorted(ranked, reverse=True)


def test_standard_error_matches_the_spread_over_crowds():
    """Over many sets of tasks answered by one crowd, a difference varies as much as its standard error."""
    workers = cw.simulate.crowd(10, 3, "one-coin", seed=5)
    found = []
    for seed in range(60):
        answers = cw.simulate.simulate(150, n_workers=10, workers=workers, answers_per_task=3, seed=seed)
        entry = choose(answers, candidates=["one-coin"], folds=3).entries[1]
        found.append((entry.to_vote, entry.to_vote_error))
    spread, said = np.std([f[0] for f in found], ddof=1), np.mean([f[1] for f in found])
    assert 0.6 < said / spread < 1.5


# The rule


def scored(*means, noise=0.0):
    """Scores of 40 answers to 40 tasks with these means; pairs differ by noise of this size."""
    wave = np.resize([1.0, -1.0], 40)
    held = cw.Answers.from_codes(np.arange(40), np.zeros(40), np.zeros(40), tasks=40, workers=1, classes=2)
    return {f"m{i}": np.full(40, mean) + i * noise * wave for i, mean in enumerate(means)}, held


@pytest.mark.parametrize(
    ("means", "noise", "expected"),
    [
        ((-1.0, -0.9), 0.0, "m1"),  # clearly better
        ((-1.0, -1.0), 0.0, "m0"),  # equal: the simpler stays
        ((-1.0, -1.0 + 1e-12), 0.0, "m0"),  # rounding
        ((-1.0, -0.9), 1.0, "m0"),  # error of the lead 1 / sqrt(40) = 0.158
        ((-1.0, -0.8), 1.0, "m1"),
        ((-1.0, -0.8, -0.7), 1.0, "m1"),  # the third does not lead the second by one standard error
        ((-1.0, -0.9, -0.6), 1.0, "m2"),  # leads the first, which is still chosen, by 0.4; the standard error is 0.316
        ((-1.0, -0.5, -0.9), 0.0, "m1"),
    ],
)
def test_a_candidate_must_lead_by_more_than_one_standard_error(means, noise, expected):
    assert pick(*scored(*means, noise=noise)) == expected


@pytest.mark.parametrize(
    ("means", "noise", "expected"),
    [
        ((-1.0, -1.0, -1.0), 0.0, "m1"),  # the simplest is not better
        ((-0.9, -1.0, -1.0), 1.0, "m1"),  # error of the lead 0.158
        ((-0.8, -1.0, -1.0), 1.0, "m0"),  # a simpler one is clearly better
        ((-1.0, -1.0, -0.9), 1.0, "m1"),
        ((-1.0, -1.0, -0.8), 1.0, "m2"),
        ((-0.8, -1.0, -0.4), 1.0, "m2"),  # and from the simpler one on, by the same rule: 0.4 > 0.316
    ],
)
def test_the_default_stays_unless_another_leads_by_one_standard_error(means, noise, expected):
    assert pick(*scored(*means, noise=noise), "m1") == expected


def test_without_a_score_of_the_default_the_simplest_is_the_start():
    assert pick(*scored(-1.0, -1.0), "failed") == "m0"


@pytest.mark.parametrize("seed", range(20))
def test_no_candidate_leads_the_chosen_one_by_one_standard_error(seed):
    rng = np.random.default_rng(seed)
    held = cw.Answers.from_codes(np.arange(30), np.zeros(30), np.zeros(30), tasks=30, workers=1, classes=2)
    scores = {f"m{i}": rng.normal(0.1 * rng.normal(), rng.uniform(0.05, 1), 30) for i in range(6)}
    chosen = pick(scores, held)
    for score in scores.values():
        lead, error = mean_with_error(score - scores[chosen], held)
        assert lead <= error + 1e-9
    assert chosen == "m0" or scores[chosen].mean() > scores["m0"].mean()


def test_a_clearly_better_model_is_chosen():
    workers = np.concatenate([np.tile(np.eye(3), (3, 1, 1)), np.full((5, 3, 3), 1 / 3)])  # three know, five guess
    answers = cw.simulate.simulate(300, n_workers=8, workers=workers, answers_per_task=5, activity="even", seed=0)
    choice = choose(answers, candidates=["one-coin"])
    assert choice.best_ == "one-coin"
    assert choice.entries[1].to_vote > 4 * choice.entries[1].to_vote_error
    assert "one-coin" in choice.words
    assert isinstance(choice.best_model_, cw.OneCoin)


@pytest.mark.parametrize("accuracy", [1 / 3, 0.7], ids=["coin-flippers", "equal workers"])
def test_majority_vote_is_kept_on_random_answers(accuracy):
    kept = 0
    for seed in range(10):
        answers = cw.simulate.simulate(
            300, n_workers=15, n_classes=3, answers_per_task=4, workers="one-coin", accuracy=(accuracy,) * 2, seed=seed
        )
        choice = choose(answers, candidates=QUICK)
        kept += choice.best_ == "majority-vote"
        if choice.best_ == "majority-vote":
            assert "keep majority vote" in choice.words
    assert kept >= 8


def test_the_pick_is_nearly_as_accurate_as_the_best():
    """Over crowds of several kinds: the chosen labels lose little, those of the vote and of a random method more."""
    regret = {"pick": [], "vote": [], "random": []}
    names = ["majority-vote", "wawa", "one-coin", "mace", "dawid-skene"]
    for kind in ("mixed", "one-coin", "class-dependent", {"hammer": 0.3, "uniform-guess": 0.7}):
        for seed in range(4):
            answers = cw.simulate.simulate(
                300, n_workers=20, n_classes=3, answers_per_task=4, workers=kind, accuracy=(0.3, 0.9), seed=seed
            )
            right = {name: (cw.make(name).fit(answers).codes_ == answers.truth).mean() for name in names}
            best = max(right.values())
            regret["pick"].append(best - right[choose(answers, candidates=names).best_])
            regret["vote"].append(best - right["majority-vote"])
            regret["random"].append(best - np.mean(list(right.values())))
    means = {name: np.mean(values) for name, values in regret.items()}
    assert means["pick"] < 0.02
    gain = np.array(regret["random"]) - np.array(regret["pick"])
    assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(len(gain))
    assert means["pick"] < 0.5 * means["vote"]


# Display


def test_words_report_an_unclear_leader(crowd):
    choice = choose(crowd, candidates=QUICK)
    low = replace(choice, best_="majority-vote")
    assert f"{choice.ranking_[0]} leads by +" in low.words
    second = next(name for name in choice.ranking_[1:] if name != "majority-vote")
    assert f"{choice.ranking_[0]} leads it by +" in replace(choice, best_=second).words


def test_words_report_the_default(crowd):
    choice = choose(crowd, candidates=QUICK, default="dawid-skene")
    assert choice.default == "dawid-skene" and choice.as_dict()["default"] == "dawid-skene"
    stays = replace(choice, best_="dawid-skene", over_default=None)
    assert (
        "Chosen: dawid-skene, the default; no other candidate leads it by more than one standard error, " in stays.words
    )
    other = replace(choice, best_="one-coin", over_default=(0.02, 0.01))
    assert "better than dawid-skene, the default, by +0.0200 ± 0.0100." in other.words
    vote = replace(choice, best_="majority-vote", over_default=(0.02, 0.01))
    assert vote.words.startswith("Keep majority vote: better than dawid-skene, the default, by +0.0200 ± 0.0100.")
    failed = choose(crowd, candidates={"fine": "one-coin", "bad": cw.OneCoin(max_iter=0)}, default="bad")
    assert failed.best_ != "bad" and failed.words.endswith("bad, the default, could not be scored.")


def test_words_report_a_default_no_better_than_the_vote(crowd):
    equal = choose(crowd, candidates={"again": cw.MajorityVote(), "ours": "one-coin"}, default="ours")
    entries = [entry._replace(to_vote=0.01, to_vote_error=0.02) for entry in equal.entries]
    assert "do not show that it is better than majority vote" in replace(equal, entries=entries, best_="ours").words
    entries = [entry._replace(to_vote=0.03, to_vote_error=0.02) for entry in equal.entries]
    assert "do not show" not in replace(equal, entries=entries, best_="ours").words


@pytest.mark.parametrize("default", ["one-coin", "dawid-skene", "majority-vote"])
def test_no_candidate_leads_the_chosen_one_for_any_default(crowd, default):
    choice = choose(crowd, candidates=QUICK, default=default)
    held = crowd.take(choice.rows)
    for score in choice.scores.values():
        lead, error = mean_with_error(score - choice.scores[choice.best_], held)
        assert lead <= error + 1e-9
    if choice.best_ != default:
        assert choice.over_default == mean_with_error(choice.scores[choice.best_] - choice.scores[default], held)


def test_table_and_frames(crowd):
    choice = choose(crowd, candidates=["one-coin", cw.DawidSkene(max_iter=30)])
    text = str(choice)
    assert text.splitlines()[0].split()[:2] == ["rank", "candidate"]
    assert "one-coin" in text
    assert "DawidSkene(max_iter=30)" in text
    assert " *" in text
    assert choice._repr_html_().count("<tr>") == 4
    frame = choice.to_frame()
    assert frame["candidate"].tolist() == choice.ranking_
    assert frame.loc[frame["chosen"], "candidate"].tolist() == [choice.best_]
    assert choice.as_dict()["candidates"][0]["rank"] == 1
    assert choice.n_never == int((np.diff(crowd.task_starts) == 1).sum())
