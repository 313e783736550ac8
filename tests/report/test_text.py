"""The text of the report: the method first, measured next to expected figures, and no claim without a check."""

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


def test_the_headline_has_the_words_of_the_metrics(run):
    text = " ".join(Page(render(run)).texts)
    for sentence in run.metrics["words"]:
        assert sentence in text
    for verdict, count in run.metrics["counts"].items():
        assert f"{verdict.capitalize()} " in text.replace("\n", " ") and f"{count:,}" in text
    assert "91.0%" in text and "Labels by dawid-skene" in text and run.metrics["why"] in text


def test_a_run_that_does_not_beat_the_vote_has_a_warning(tmp_path):
    plain = build(tmp_path / "run", beats_vote=False, method="majority-vote", tasks=20)
    text = " ".join(Page(render(plain)).texts)
    assert plain.metrics["why"] in text and 'class="notice warn"' in render(plain)


def test_the_method_comes_before_the_figures_with_the_number_compared(run):
    page = render(run)
    assert page.index("Labels by dawid-skene") < page.index('class="tiles"') < page.index("What to do with them")
    assert "3 methods were compared by how well" in page, "without the one that failed and the one left out"
    assert "failed: needs two classes" in page
    assert ">left out: over the time budget" in page, "which is not a failure"


def test_measured_figures_are_next_to_expected_ones(run):
    labels, accepted, _ = overview(run)["tiles"]
    assert labels["figures"]["measured"] == "91.0%"
    assert accepted["figures"] == {"expected right": "97.0%", "measured": "66.0%"}
    assert "calibrated" in " ".join(Page(render(run)).texts)


def test_uncalibrated_confidence_is_not_called_calibrated(tmp_path):
    bins = [{"low": 0.8, "high": 0.9, "confidence": 0.85, "accuracy": 0.7, "count": 20}]
    calibration = {"temperature": None, "words": "It could not be checked.", "before": {"ece": 0.2, "bins": bins}}
    calibration["after"] = calibration["before"]
    for truth in (True, False):
        page = Page(render(build(tmp_path / str(truth), tasks=20, truth=truth, calibration=calibration)))
        text = " ".join([*page.texts, json.dumps(page.data())]).lower().replace("calibration error", "")
        assert "calibrat" not in text
        assert {row["of"] for row in values(page.data()["charts"]["reliability"], "of")} == {"confidence"}


def test_the_basis_of_quality_is_explained(run):
    text = " ".join(Page(render(run)).texts)
    assert "judged by other workers' answers to the same tasks" in text


def test_workers_who_agree_too_often_are_named(tmp_path):
    groups = [{"workers": [f"g{g}-{w}" for w in range(12)], "agreement": 0.97, "expected": 0.81} for g in range(9)]
    text = " ".join(" ".join(Page(render(build(tmp_path / "run", tasks=20, alike=groups))).texts).split())
    assert f"g0-{MEMBERS - 1} and 4 more agree on 97% of the tasks they share, where 81% would be expected" in text
    assert f"g0-{MEMBERS} " not in text and f"g{GROUPS - 1}-0" in text and f"g{GROUPS}-0" not in text
    assert "4 more such groups in metrics.json" in text
    none = Page(render(build(tmp_path / "none", tasks=20, alike=[])))
    assert not any(attributes.get("id") == "alike" for _, attributes in none.tags)


@pytest.mark.parametrize(("by", "explained"), [("waum", True), ("answers", False)])
def test_the_difference_between_rank_and_verdict_is_explained(tmp_path, by, explained):
    ranked = build(tmp_path / "run", tasks=20, ambiguity={"by": by, "words": "Ranked."})
    assert ("The rank is about the task, the verdict about its label" in render(ranked)) == explained
