"""The sentences of a run: correct figures, singular and plural, and caveats where they belong."""

import re
from dataclasses import replace

import numpy as np
import pytest

from crowdwise.choose.choice import CandidateScore, Choice
from crowdwise.run.messages import calibration_words, headline, share, verdict_words, why_chosen
from crowdwise.run.selection import Selected
from crowdwise.trust.gold_folds import GoldScore


def truth(**change):
    figures = {
        "tasks": 3000, "accuracy": 0.6, "low": 0.58, "high": 0.62, "vote_accuracy": 0.59,
        "accepted_tasks": 2722, "accepted_accuracy": 0.66, "accepted_low": 0.642, "accepted_high": 0.678,
    }  # fmt: skip
    return {**figures, **change}


def trust(**change):
    figures = {
        "basis": "other crowds", "assumes": "This assumes.", "n_gold": 0, "answers_per_task": 5.0,
        "effective_votes": 4.5, "families": [], "range": None, "gold_needed": 140, "estimates": None,
    }  # fmt: skip
    return {**figures, **change}


def words(accept=9936, review=20, more=30, hopeless=14, workers=(), **change):
    figures = {
        "counts": {"accept": accept, "review": review, "needs more answers": more, "hopeless": hopeless},
        "expected_accuracy": 0.9, "expected_accepted": 0.97 if accept else None, "truth": None,
        "trust": trust(), "summary": {"agreement": 0.8, "n_answers": 50_000}, "calibration": {"temperature": 1.0},
        **change,
    }  # fmt: skip
    return headline(figures, "Because.", workers)


def selected(method, **change):
    return Selected(method, None, False, change.pop("doubts", {}), **change)


def choice(lead, error, best="glad", others=("wawa",)):
    def entry(name, rank, to_vote, to_vote_error):
        return CandidateScore(name, rank, -1.0, 0.1, 0.0, 0.0, to_vote, to_vote_error, 1.0, None, (), None)

    names = ["majority-vote", "glad", *others]
    entries = [entry("majority-vote", 2, 0.0, 0.0), *(entry(name, 1, lead, error) for name in names[1:])]
    return Choice("common", 5, 1, best, None, {}, entries, dict.fromkeys(names, np.zeros(1)), np.zeros(1, int), 1, 0)


def test_measured_accuracy_is_given_with_the_expected_one():
    sentences = words(truth=truth())
    assert sentences[1] == "This assumes.", "an expected figure comes with what it assumes, also if truth is known"
    assert sentences[3] == (
        "9,936 labels are accepted (expected accuracy 97.0%, measured 66.0% on 2,722); "
        "30 need a few more answers, 20 should be reviewed, 14 are hopeless."
    )
    assert "measured" not in " ".join(words()).lower()
    unknown = truth(accepted_tasks=0, accepted_accuracy=None, accepted_low=None, accepted_high=None)
    assert ", measured" not in " ".join(words(truth=unknown))


@pytest.mark.parametrize(("high", "warned"), [(0.678, True), (0.9699, True), (0.97, False), (0.99, False)])
def test_accuracy_below_expectation_gives_a_warning(high, warned):
    warnings = [text for text in words(truth=truth(accepted_high=high)) if text.startswith("Warning")]
    assert len(warnings) == warned
    if warned:
        assert (
            "only 66.0% of the accepted labels with known truth are right (64.2% to" in warnings[0]
            and "check accepted labels" in warnings[0]
        )


def test_singular_plural_and_zero():
    assert words(accept=1, review=0, more=1, hopeless=1)[2] == (
        "1 label is accepted (expected accuracy 97.0%); 1 needs a few more answers, 1 is hopeless."
    )
    assert words(review=0, more=0, hopeless=0)[2] == "9,936 labels are accepted (expected accuracy 97.0%)."
    assert words(accept=0, more=0, hopeless=0)[2] == "No label is accepted; 20 should be reviewed."
    alone = words(accept=1, review=0, more=0, hopeless=0, truth=truth(tasks=1, accuracy=1.0))
    assert alone[0].startswith("The only label is about 90% likely to be right.")
    assert alone[2].startswith("Measured on 1 task with known truth, 100% of the labels are right")


def test_workers_who_share_mistakes_are_named_and_counted_as_fewer_votes():
    groups = [{"workers": ["a", "b"], "rho": 0.6}] * 3
    text = words(trust=trust(answers_per_task=33.0, effective_votes=5.1, families=groups))
    assert "the 33.0 answers to a task are worth about 5.1 independent ones" in text[-3]
    assert text[-2] == "a, b share more mistakes with each other than with the rest (2 more such groups)."
    assert not any("independent ones" in text for text in words())
    alike = trust(effective_votes=1.0)
    for summary in ({"agreement": 1.0, "n_answers": 200}, {"agreement": 0.6, "n_answers": 9}):
        assert not any("independent ones" in text for text in words(trust=alike, summary=summary)), "little evidence"


def test_a_range_is_given_where_shared_mistakes_may_spoil_the_labels():
    text = words(trust=trust(range={"low": 0.52, "high": 0.93}, gold_needed=390))[0]
    assert text.startswith("Between 52% and 93% of the 10,000 labels are expected to be right: 52% if workers share")
    assert "about 390 gold labels would settle it" in text
    few = {"accept": 0, "review": 65, "needs more answers": 0, "hopeless": 0}
    text = words(trust=trust(range={"low": 0.52, "high": 0.93}, gold_needed=65), counts=few)[0]
    assert "gold labels of all 65 tasks (`--gold`) would." in text and "next --gold" not in text


def test_gold_measures_the_accuracy_and_chooses_the_method():
    measured = {"accuracy": {"value": 0.8, "low": 0.7, "high": 0.88, "n_gold": 60}}
    text = words(trust=trust(basis="gold", n_gold=60, estimates=measured))
    assert text[0] == "About 80% of the 10,000 labels are right (95% interval 70.0% to 88.0%, from 60 gold labels)."
    scores = {"pool": GoldScore(0.8, -0.5, 0.0, 0.0), "glad": GoldScore(0.9, -0.3, 0.2, 0.05)}
    text, _ = why_chosen(choice(0.05, 0.01), selected("glad", gold_scores=scores), None)
    assert text.startswith(
        "The labels come from glad, whose probabilities fit the gold labels best: it labels 90% of the gold"
    )
    assert "the default" in why_chosen(choice(0.05, 0.01), selected("pool", gold_scores=scores), None)[0]


def test_the_advice_on_gold_suits_the_number_of_tasks():
    assert words()[1] == (
        "This assumes. About 50 gold labels (`crowdwise next --gold 50` chooses the tasks) would show it."
    )
    few = words(accept=3, review=0, more=0, hopeless=0)
    assert few[0].endswith("With so few tasks, this is a rough guess.")
    assert few[1] == "This assumes. Gold labels of all 3 tasks (`--gold`) would show it."


@pytest.mark.parametrize(
    ("lead", "error", "expected"),
    [(0.05, 0.01, "better than majority vote (+0.050"), (-0.0, 0.01, "about as well as majority vote (+0.000"),
     (-0.0003, 0.0001, "about as well as majority vote (+0.000"),
     (-0.05, 0.01, "Majority vote predicts held-out answers better (-0.050")],
)  # fmt: skip
def test_the_pool_is_compared_with_the_vote(lead, error, expected):
    text, beats = why_chosen(choice(lead, error, best="pool", others=("pool",)), selected("pool"), None)
    assert expected in text and beats == (lead > error)


def test_a_doubtful_method_is_named_with_the_reason():
    text, _ = why_chosen(choice(0.05, 0.01), selected("majority-vote", doubts={"glad": "it overrules"}), None)
    assert text == "Held-out answers prefer glad, but it overrules. The labels come from majority-vote instead."


@pytest.mark.parametrize(
    ("agreement", "temperature", "end"),
    [
        (None, None, ", but this cannot be checked: no task has answers from two workers."),
        (None, 1.5, ", but this can be checked only against the features: no task has answers from two workers."),
        (0.0, None, ", but this could not be checked on held-out answers."),
        (0.0, 1.5, "."),
    ],
)  # fmt: skip
def test_an_unchecked_figure_comes_with_the_reason(agreement, temperature, end):
    given = {"summary": {"agreement": agreement}, "calibration": {"temperature": temperature}}
    given["summary"] |= {"n_answers": 50_000}
    given["trust"] = trust(basis="none")
    assert ("This assumes." in words(**given)) == (end == ".")
    assert words(**given)[0] == f"About 90% of the 10,000 labels are expected to be right{end}"
    alone = words(accept=1, review=0, more=0, hopeless=0, **given)
    assert alone[0] == f"The only label is about 90% likely to be right{end} With so few tasks, this is a rough guess."
    text = calibration_words(given["summary"], temperature)
    assert ("checked" in text) == (end != ".") and ("1.50" in text) == (temperature is not None)


def test_shares_near_100_percent_are_not_rounded_up():
    sentences = words(expected_accuracy=0.996, expected_accepted=0.9996, truth=truth(accuracy=0.9999, high=1 - 1e-16))
    assert sentences[0].startswith("About 99% of the 10,000 labels")
    assert "99.9% of the labels are right (95% interval 58.0% to 100%)" in sentences[2]
    assert "expected accuracy 99.9%" in sentences[3]
    assert share(1.0) == "100%" and share(0.0) == "0%" and share(0.0001) == "0.1%"


def test_verdicts_name_their_limits():
    assert "at least 90%" in verdict_words(0.9)["accept"]
    assert "at least 99.5%" in verdict_words(0.995)["accept"]
    assert "if the label is right" in verdict_words(0.9)["needs more answers"]


@pytest.mark.parametrize(
    ("lead", "beats", "slim"),
    [(-0.01, False, False), (0.005, False, False), (0.01, False, False), (0.0101, True, True), (0.0199, True, True),
     (0.02, True, False), (0.05, True, False)],
)  # fmt: skip
def test_a_lead_counts_if_it_exceeds_one_standard_error(lead, beats, slim):
    for requested in (None, "glad"):
        text, found = why_chosen(choice(lead, 0.01), selected("glad"), requested)
        assert found is beats
        assert ("less than two standard errors" in text) == slim
    assert ("does NOT beat majority vote" in text) != beats


def test_the_default_method_is_named():
    text, beats = why_chosen(replace(choice(0.05, 0.01), default="glad"), selected("glad"), None)
    assert beats and text == (
        "The labels come from glad, the default method. None of the 2 alternatives beat it by more than one standard "
        "error at predicting held-out answers (lead over majority vote: +0.050 ± 0.010 in log-likelihood per answer)."
    )
    text, _ = why_chosen(
        replace(choice(0.05, 0.01), default="wawa", over_default=(0.02, 0.005)), selected("glad"), None
    )
    assert text.endswith("It beats wawa, the default, by 0.020 ± 0.005.")
    text, beats = why_chosen(replace(choice(0.005, 0.01), default="glad"), selected("glad"), None)
    assert not beats and "majority vote" in text


def test_reasons_for_majority_vote_and_without_a_comparison():
    vote = choice(0.005, 0.01, "majority-vote")
    assert why_chosen(vote, selected("majority-vote"), None) == (vote.words, False)
    assert why_chosen(choice(0.05, 0.01), selected("majority-vote"), "majority-vote") == (
        "Majority vote was requested.",
        False,
    )
    assert why_chosen(choice(None, None), selected("glad"), "glad") == (
        "glad was requested. It could not be compared with majority vote.", False,
    )  # fmt: skip
    for requested in (None, "glad"):
        text, beats = why_chosen(None, selected("majority-vote"), requested)
        assert re.search("too few answers to compare", text) and not beats


@pytest.mark.parametrize(("answer_weight", "mentioned"), [(None, False), (1.0, False), (0.42, True)])
def test_a_low_weight_of_answers_is_mentioned(answer_weight, mentioned):
    text = calibration_words({"agreement": 0.8}, 1.0, answer_weight)
    assert ("Each answer was weighted 0.42" in text) is mentioned


def test_flagged_workers_are_named_with_the_reason_and_doubted_if_they_are_the_majority():
    def workers(n_flagged, n_good):
        bad = [
            {"worker": f"w{i}", "answers": 10, "quality": 0.4 - i / 100, "flag": "answers at random"}
            for i in range(n_flagged)
        ]
        good = [{"worker": f"g{i}", "answers": 10, "quality": 0.9, "flag": None} for i in range(n_good)]
        return bad + good

    assert "1 worker should not be relied on: w0 (answers at random)." in words(workers=workers(1, 9))
    text = " ".join(words(workers=workers(6, 20)))
    assert "6 workers should not be relied on: w5 (answers at random)" in text and ", ..." in text, "the worst first"
    assert "Warning" not in text and "Warning: these workers gave" in " ".join(words(workers=workers(6, 2)))
    assert "relied" not in " ".join(words(workers=workers(0, 9)))
    copy = {"worker": "w9", "answers": 10, "quality": 0.9, "flag": "copies g0"}
    text = words(workers=[*workers(1, 9), copy])
    assert "1 worker repeats the answers of another: w9 (copies g0)." in text
    assert "1 worker should not be relied on: w0 (answers at random)." in text
