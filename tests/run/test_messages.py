"""What a run says of itself: figures that are said with their check, and sentences that read well."""

import re
from dataclasses import replace

import numpy as np
import pytest

from crowdwise.choose.choice import CandidateScore, Choice
from crowdwise.run.messages import calibration_words, headline, share, verdict_words, why


def truth(**change):
    told = {
        "tasks": 3000, "accuracy": 0.6, "low": 0.58, "high": 0.62, "vote_accuracy": 0.59,
        "accepted_tasks": 2722, "accepted_accuracy": 0.66, "accepted_low": 0.642, "accepted_high": 0.678,
    }  # fmt: skip
    return {**told, **change}


def said(accept=9936, review=20, more=30, hopeless=14, **change):
    figures = {
        "counts": {"accept": accept, "review": review, "needs more answers": more, "hopeless": hopeless},
        "expected_accuracy": 0.9, "expected_accepted": 0.97 if accept else None, "truth": None, "spammers": 0,
        "alike": [], "summary": {"agreement": 0.8}, "calibration": {"temperature": 1.0}, **change,
    }  # fmt: skip
    return headline(figures, "Because.")


def choice(lead, error, best="glad", others=("wawa",)):
    def entry(name, rank, to_vote, to_vote_error):
        return CandidateScore(name, rank, -1.0, 0.1, 0.0, 0.0, to_vote, to_vote_error, 1.0, None, (), None)

    names = ["majority-vote", "glad", *others]
    entries = [entry("majority-vote", 2, 0.0, 0.0), *(entry(name, 1, lead, error) for name in names[1:])]
    return Choice("common", 5, 1, best, None, entries, dict.fromkeys(names, np.zeros(1)), np.zeros(1, int), 1, 0)


def test_the_measured_share_stands_beside_the_expected_one():
    sentences = said(truth=truth())
    assert sentences[2] == (
        "9,936 can be used as they are (expected 97.0% right, measured 66.0% of 2,722); "
        "30 need a few more answers, 20 should be reviewed, 14 are hopeless."
    )
    assert "measured" not in " ".join(said())
    unknown = truth(accepted_tasks=0, accepted_accuracy=None, accepted_low=None, accepted_high=None)
    assert "measured" not in " ".join(said(truth=unknown))


@pytest.mark.parametrize(("high", "warned"), [(0.678, True), (0.9699, True), (0.97, False), (0.99, False)])
def test_a_warning_where_fewer_are_right_than_chance_explains(high, warned):
    warnings = [text for text in said(truth=truth(accepted_high=high)) if text.startswith("Warning")]
    assert len(warnings) == warned
    if warned:
        assert "only 66.0% are right (64.2% to" in warnings[0] and "check accepted labels" in warnings[0]


def test_one_is_one_and_none_is_left_out():
    assert said(accept=1, review=0, more=1, hopeless=1)[1] == (
        "1 can be used as it is (expected 97.0% right); 1 needs a few more answers, 1 is hopeless."
    )
    assert said(review=0, more=0, hopeless=0)[1] == "9,936 can be used as they are (expected 97.0% right)."
    assert said(accept=0, more=0, hopeless=0)[1] == "None can be used as it is; 20 should be reviewed."
    alone = said(accept=1, review=0, more=0, hopeless=0, truth=truth(tasks=1, accuracy=1.0))
    assert alone[0] == "The one label is about 90% sure to be right."
    assert alone[1].startswith("Of 1 task of known truth 100% is labelled right")
    group = {"workers": ["a", "b"], "agreement": 0.999, "expected": 0.5}
    assert "a, b agree with each other on 99% of their tasks" in said(alike=[group])[-2]
    assert "(1 more such group)" in said(alike=[group, group])[-2]
    assert "(2 more such groups)" in said(alike=[group] * 3)[-2]


@pytest.mark.parametrize(
    ("agreement", "temperature", "end"),
    [
        (None, None, ", but nothing in the answers can check this: no task has answers of two workers."),
        (None, 1.5, ", but nothing in the answers can check this, only the features can: no task has answers of two "
                    "workers."),
        (0.0, None, ", but held-out answers could not check this."),
        (0.0, 1.5, "."),
    ],
)  # fmt: skip
def test_what_no_answer_can_check_is_said_with_that(agreement, temperature, end):
    given = {"summary": {"agreement": agreement}, "calibration": {"temperature": temperature}}
    assert said(**given)[0] == f"About 90% of the 10,000 labels are expected to be right{end}"
    alone = said(accept=1, review=0, more=0, hopeless=0, **given)
    assert alone[0] == f"The one label is about 90% sure to be right{end}"
    words = calibration_words(given["summary"], temperature)
    assert ("check how sure labels are" in words) == (end != ".") and ("1.50" in words) == (temperature is not None)


def test_nearly_all_is_not_all():
    sentences = said(expected_accuracy=0.996, expected_accepted=0.9996, truth=truth(accuracy=0.9999, high=1 - 1e-16))
    assert sentences[0].startswith("About 99% of the 10,000 labels")
    assert "99.9% are labelled right (58.0% to 100%)" in sentences[1] and "expected 99.9% right" in sentences[2]
    assert share(1.0) == "100%" and share(0.0) == "0%" and share(0.0001) == "0.1%"


def test_verdicts_say_what_they_rest_on():
    assert "at least 90% sure" in verdict_words(0.9)["accept"]
    assert "at least 99.5% sure" in verdict_words(0.995)["accept"]
    assert "if the label is right" in verdict_words(0.9)["needs more answers"]


@pytest.mark.parametrize(
    ("lead", "beats", "slim"),
    [(-0.01, False, False), (0.005, False, False), (0.01, False, False), (0.0101, True, True), (0.0199, True, True),
     (0.02, True, False), (0.05, True, False)],
)  # fmt: skip
def test_a_lead_counts_when_it_is_greater_than_its_error(lead, beats, slim):
    for told in (None, "glad"):
        text, found = why(choice(lead, 0.01), "glad", told)
        assert found is beats
        assert ("by little more than its error" in text) == slim
    assert ("does NOT beat majority vote" in text) != beats


def test_the_default_is_called_so():
    text, beats = why(replace(choice(0.05, 0.01), default="glad"), "glad", None)
    assert beats and text == (
        "The labels are glad's, the default; none of the others (2) was better by its error at predicting answers it "
        "has not seen (+0.050 ± 0.010 nats an answer against majority vote)."
    )
    text, _ = why(replace(choice(0.05, 0.01), default="wawa", over_default=(0.02, 0.005)), "glad", None)
    assert text.endswith("It is better than wawa, the default, by 0.020 ± 0.005.")
    text, beats = why(replace(choice(0.005, 0.01), default="glad"), "glad", None)
    assert not beats and "do not speak for it over majority vote" in text


def test_why_of_the_vote_and_of_too_few_answers():
    assert why(choice(0.005, 0.01, "majority-vote"), "majority-vote", None)[0].startswith("Nothing beats majority vote")
    assert why(choice(0.05, 0.01), "majority-vote", "majority-vote") == ("Majority vote was asked for.", False)
    assert why(choice(None, None), "glad", "glad") == (
        "glad was asked for; it could not be compared with majority vote.", False,
    )  # fmt: skip
    for told in (None, "glad"):
        text, beats = why(None, "majority-vote", told)
        assert re.search("[Tt]oo few tasks have two answers", text) and not beats


@pytest.mark.parametrize(("answer_weight", "said"), [(None, False), (1.0, False), (0.42, True)])
def test_workers_who_err_together_are_told_of(answer_weight, said):
    words = calibration_words({"agreement": 0.8}, 1.0, answer_weight)
    assert ("An answer counted for 0.42 of one" in words) is said
