"""What the report says: the method first, what was measured beside what is expected, and nothing that was not done."""

from __future__ import annotations

import json

import pytest

from crowdwise.report.contents import GROUPS, MEMBERS, overview
from crowdwise.report.page import render
from crowdwise.run.folder import Run
from tests.helpers.report_folders import Page, build, values


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return build(tmp_path_factory.mktemp("runs") / "today")


def test_headline_says_what_the_metrics_say(run):
    text = " ".join(Page(render(run)).texts)
    for sentence in run.metrics["words"]:
        assert sentence in text
    for verdict, count in run.metrics["counts"].items():
        assert f"{verdict.capitalize()} " in text.replace("\n", " ") and f"{count:,}" in text
    assert "91.0%" in text and "Made by dawid-skene" in text and run.metrics["why"] in text
    assert "Nothing beats majority vote" not in text


def test_says_plainly_when_nothing_beats_the_vote(tmp_path):
    plain = build(tmp_path / "run", beats_vote=False, method="majority-vote", tasks=20)
    text = " ".join(Page(render(plain)).texts)
    assert plain.metrics["why"] in text and 'class="notice warn"' in render(plain)


def test_method_comes_before_the_figures_and_counts_what_was_judged(run):
    page = render(run)
    assert page.index("Made by dawid-skene") < page.index('class="tiles"') < page.index("What to do with them")
    assert "3 methods were judged by how well" in page, "neither the one that failed nor the one left out"
    assert "failed: needs two classes" in page
    assert ">left out: over the time budget" in page, "which is no failure"


def test_what_was_measured_stands_beside_what_was_expected(run):
    whole, accepted, _ = overview(run)["tiles"]
    assert whole["figures"]["measured"] == "91.0%"
    assert accepted["figures"] == {"expected right": "97.0%", "measured": "66.0%"}
    assert "calibrated" in " ".join(Page(render(run)).texts)


def test_nothing_is_called_calibrated_that_was_not(tmp_path):
    bins = [{"low": 0.8, "high": 0.9, "confidence": 0.85, "accuracy": 0.7, "count": 20}]
    calibration = {"temperature": None, "words": "It could not be checked.", "before": {"ece": 0.2, "bins": bins}}
    calibration["after"] = calibration["before"]
    for truth in (True, False):
        page = Page(render(build(tmp_path / str(truth), tasks=20, truth=truth, calibration=calibration)))
        assert "calibrat" not in " ".join([*page.texts, json.dumps(page.data())]).lower()
        assert {row["of"] for row in values(page.data()["charts"]["reliability"], "of")} == {"confidence"}


def test_quality_is_said_to_be_by_other_workers(run):
    text = " ".join(Page(render(run)).texts)
    assert "right answers by what other workers said of the same tasks" in text


def test_workers_who_agree_too_often_are_named(tmp_path):
    groups = [{"workers": [f"g{g}-{w}" for w in range(12)], "agreement": 0.97, "expected": 0.81} for g in range(9)]
    text = " ".join(" ".join(Page(render(build(tmp_path / "run", tasks=20, alike=groups))).texts).split())
    assert f"g0-{MEMBERS - 1} and 4 more agree on 97% of the tasks they share, where 81% is to be expected" in text
    assert f"g0-{MEMBERS} " not in text and f"g{GROUPS - 1}-0" in text and f"g{GROUPS}-0" not in text
    assert "4 more such groups in metrics.json" in text
    none = Page(render(build(tmp_path / "none", tasks=20, alike=[])))
    assert not any(attributes.get("id") == "alike" for _, attributes in none.tags)


@pytest.mark.parametrize(("by", "said"), [("waum", True), ("answers", False)])
def test_rank_and_verdict_are_told_apart_where_they_can_clash(tmp_path, by, said):
    ranked = build(tmp_path / "run", tasks=20, ambiguity={"by": by, "words": "Ranked."})
    assert ("The rank is about the task, the verdict about its label" in render(ranked)) == said
