"""The text of the report: four answers first, measured next to expected figures, and no claim without a check."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

from crowdwise.plots.mistakes import GROUPS
from crowdwise.report.contents import overview
from crowdwise.report.first_screen import first_screen, how_good, title, what_to_do
from crowdwise.report.page import render
from crowdwise.report.shared_mistakes import MEMBERS, shared_mistakes
from crowdwise.report.text import tell_dependence
from crowdwise.report.who_to_talk_to import who_to_talk_to
from crowdwise.run.folder import Run
from tests.helpers.report_folders import Page, build, values

GOLD = {"accuracy": {"value": 0.8, "low": 0.7, "high": 1.02, "n_gold": 60}, "shares": [], "workers": []}
RANGE = {"low": 0.52, "high": 0.93}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return build(tmp_path_factory.mktemp("runs") / "today")


def words_of(page: str) -> str:
    return " ".join(" ".join(Page(page).texts).split())


def figures(run: Run, **change) -> dict:
    """The metrics of a run without known truth, and with changes to `trust`."""
    metrics = run.metrics | {"truth": None}
    return metrics | {"trust": metrics["trust"] | change}


def test_the_page_has_the_words_of_the_metrics(run):
    text = words_of(render(run))
    for sentence in run.metrics["words"]:
        assert sentence in text
    for verdict, count in run.metrics["counts"].items():
        assert f"{verdict.capitalize()}: {count:,}." in text
    assert "Why dawid-skene?" in text and run.metrics["why"] in text


def test_the_four_answers_come_first(run):
    page = render(run)
    places = [page.index(f"<h2>{each}</h2>") for each in (
        "How good are they?", "How do we know?", "What to do?", "Who to talk to?",
    )]  # fmt: skip
    assert places == sorted(places) and places[-1] < page.index("Why dawid-skene?") < page.index('id="classes"')
    assert "3 methods were" in page, "without the one that failed and the one left out"
    assert "failed: needs two classes" in page
    assert ">left out: over the time budget" in page, "which is not a failure"


def test_a_run_that_does_not_beat_the_vote_has_a_warning(tmp_path):
    plain = build(tmp_path / "run", beats_vote=False, method="majority-vote", tasks=20)
    text = words_of(render(plain))
    assert plain.metrics["why"] in text and 'class="notice warn"' in render(plain)


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ({}, "About {} of the 120 labels are expected to be right"),
        ({"basis": "none"}, "About {} of the 120 labels are expected to be right, which is a guess"),
        ({"range": RANGE}, "Between 52% and 93% of the 120 labels are expected to be right"),
        ({"estimates": GOLD}, "About 80% of the 120 labels are right, by 60 gold labels"),
    ],
)
def test_the_title_says_how_good_the_labels_are(run, change, start):
    found = title(figures(run, **change))
    assert found == start.format(f"{int(100 * run.metrics['expected_accuracy'] + 0.5)}%")


def test_the_title_prefers_what_was_measured(run):
    metrics = run.metrics | {"trust": run.metrics["trust"] | {"estimates": GOLD, "range": RANGE}}
    assert title(metrics) == "91.0% of the labels are right on 120 tasks with known truth"
    alone = {"accept": 1, "review": 0, "needs more answers": 0, "hopeless": 0}
    assert title(figures(run) | {"counts": alone}).startswith("The only label is about ")


def test_measured_figures_are_next_to_expected_ones(run):
    labels, accepted = first_screen(run)["good"]
    assert labels["figures"]["measured"] == "91.0%" and "expected right" in labels["figures"]
    assert "88.0% to 94.0% (95% interval); majority vote 87.0%" in labels["remark"]
    assert accepted["figures"] == {"expected right": "97.0%", "measured": "66.0%"}


@pytest.mark.parametrize(
    "change",
    [{}, {"basis": "other crowds"}, {"basis": "gold", "n_gold": 60, "estimates": GOLD}, {"basis": "none"}, None],
)
@pytest.mark.parametrize("with_truth", [True, False])
def test_expected_figures_come_with_what_they_assume(run, change, with_truth):
    metrics = figures(run, **(change or {})) | ({"truth": run.metrics["truth"]} if with_truth else {})
    metrics |= {"trust": None} if change is None else {}
    assumption = "answers cannot check this" if change == {"basis": "none"} else "this assumes that"
    for part in how_good(metrics)[:1]:
        assert "expected right" in part["figures"] and assumption in part["remark"].lower()


def test_gold_is_shown_with_an_interval(run):
    part = how_good(figures(run, estimates=GOLD, basis="gold", n_gold=60))[0]
    assert part["figures"]["estimated from gold"] == "80.0%"
    assert "from 60 gold labels: 70.0% to 100% (95% interval)" in part["remark"]


def test_a_range_says_how_many_gold_labels_settle_it(run):
    metrics = figures(run, range=RANGE, gold_needed=390, strong=True)
    part, *_ = how_good(metrics)
    assert list(part["figures"].values()) == ["52%", "93%"] and "cannot tell which" in part["remark"]
    assert any("Label 390 tasks yourself" in text and "settle the range" in text for text in what_to_do(metrics))
    section = shared_mistakes(metrics)
    assert "52% of the labels are expected to be right if workers share mistakes" in section["headline"]
    assert any("390 tasks" in text for text in section["advice"])


def test_a_person_checks_all_labels_of_a_small_run(run):
    three = {"accept": 3, "review": 0, "needs more answers": 0, "hopeless": 0}
    metrics = figures(run, basis="none", gold_needed=3) | {"counts": three}
    assert what_to_do(metrics) == ["Check these 3 labels yourself, and pass what you find with --gold."]
    assert "it is a rough guess" in how_good(metrics)[0]["remark"]


def test_no_accepted_label_is_said(run):
    none = run.metrics["counts"] | {"accept": 0}
    assert how_good(figures(run) | {"counts": none})[1]["of"] == "No label is sure enough to be accepted"


def test_warnings_of_the_headline_are_among_what_to_do(run):
    metrics = run.metrics | {"words": ["Fine.", "Warning: check them."]}
    assert what_to_do(metrics) == ["Warning: check them."]


def workers(*rows):
    names = ("worker", "quality", "quality_low", "quality_high", "answers", "flag")
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    table = table.append_column("spammer", pa.array([False] * len(rows)))
    table = table.append_column("worst_confusion", pa.array(["cat -> dog"] * len(rows), pa.string()))
    return SimpleNamespace(tables=SimpleNamespace(workers=table))


def test_flagged_workers_are_named_the_worst_first():
    table = workers(
        ("w1", 0.5, 0.4, 0.6, 10, "answers at random"), ("w2", 0.2, 0.1, 0.4, 9, "always answers cat"),
        ("w3", 0.1, 0.0, 0.3, 8, "copies w4"), ("w4", 0.1, 0.0, 0.3, 8, None),
    )  # fmt: skip
    found = who_to_talk_to(table)
    assert [each["worker"] for each in found["people"]] == ["w2", "w1", "w3"], "copies may be right: they are last"
    assert found["people"][0] == {"worker": "w2", "why": "always answers cat", "figures": "20% right, 9 answers"}
    many = who_to_talk_to(workers(*((f"w{i}", 0.2, 0.1, 0.4, 9, "answers at random") for i in range(10))))
    assert (many["flagged"], many["more"], len(many["people"])) == (10, 4, 6)


def test_only_workers_below_the_crowd_beyond_doubt_are_named_without_a_flag():
    good = [(f"g{i}", 0.9, 0.8, 0.95, 50, None) for i in range(5)]
    low, unsure = ("low", 0.5, 0.4, 0.6, 50, None), ("unsure", 0.3, 0.0, 0.9, 2, None)
    found = who_to_talk_to(workers(*good, low, unsure))
    assert [each["worker"] for each in found["people"]] == ["low"] and not found["flagged"]
    assert found["people"][0]["why"] == "often confuses cat → dog"
    assert not who_to_talk_to(workers(*good))["people"]


def test_groups_who_share_mistakes_are_named(tmp_path, run):
    groups = [{"workers": [f"g{g}-{w}" for w in range(MEMBERS + 4)], "rho": 0.62} for g in range(9)]
    page = render(build(tmp_path / "run", tasks=60, trust=run.metrics["trust"] | {"families": groups}))
    text = words_of(page)
    assert "Do workers make the same mistakes?" in text and "are worth about 2.1 independent votes" in text
    assert f"g0-{MEMBERS - 1} and 4 more: 62% in common" in text
    assert f"g0-{MEMBERS} " not in text and f"g{GROUPS - 1}-0" in text and f"g{GROUPS}-0" not in text
    assert "4 more such groups in metrics.json" in text
    rows = values(Page(page).data()["charts"]["shared"], "rho")
    assert [row["rho"] for row in rows] == [0.62] * GROUPS + [0.1]
    none = Page(render(build(tmp_path / "none", tasks=60, trust=run.metrics["trust"] | {"families": []})))
    assert not any(attributes.get("id") == "families" for _, attributes in none.tags)


@pytest.mark.parametrize(
    ("summary", "change", "start"),
    [
        ({}, {"strong": True}, "Yes"),
        ({}, {}, "Some do."),
        ({}, {"families": []}, "Perhaps"),
        ({}, {"families": [], "effective_votes": 3.0}, "There is no sign of it"),
        ({}, {"families": [], "effective_votes": None}, "This was not measured"),
        ({"agreement": 1.0}, {"strong": True}, "The answers cannot show it: workers agree on every task"),
        ({"n_answers": 9}, {"strong": True}, "The answers cannot show it: too few answers differ"),
        ({"agreement": None}, {}, "The answers cannot show it: no task has answers of two workers"),
    ],
)
def test_whether_workers_make_the_same_mistakes(run, summary, change, start):
    metrics = figures(run, **change)
    metrics |= {"summary": metrics["summary"] | {"agreement": 0.7, "n_answers": 1000} | summary}
    section = shared_mistakes(metrics)
    assert section["answer"].startswith(start)
    has_votes = tell_dependence(metrics["summary"]) and metrics["trust"]["effective_votes"] is not None
    assert bool(section["votes"]) == has_votes


def test_folders_of_the_first_format_have_a_report(tmp_path):
    old = build(tmp_path / "old", old=True)
    assert "trust" not in old.metrics and "flag" not in old.workers.column_names
    page = render(old)
    text = words_of(page)
    assert "This assumes that workers err independently" in text or "measured" in text
    assert "This was not measured." in text and "agree on 97%" not in text
    spammers = sum(old.workers.column("spammer").to_pylist())
    shown = [flag for flag in Page(page).data()["tables"]["workers"]["cells"]["flag"] if flag]
    assert shown == ["answers no better than chance"] * spammers


def test_checksums_are_folded_away(run):
    page = render(run)
    start = page.index("<details><summary>Checksums of the data</summary>")
    assert start < page.index("abababab") < page.index("</details>", start)
    assert overview(run)["inputs"][0]["sha256"]


def test_uncalibrated_confidence_is_not_called_calibrated(run, tmp_path):
    bins = [{"low": 0.8, "high": 0.9, "confidence": 0.85, "accuracy": 0.7, "count": 20}]
    calibration = {"temperature": None, "words": "It could not be checked.", "before": {"ece": 0.2, "bins": bins}}
    calibration["after"] = calibration["before"]
    for truth in (True, False):
        folder, trust = tmp_path / str(truth), run.metrics["trust"] | {"basis": "none"}
        page = Page(render(build(folder, tasks=20, truth=truth, calibration=calibration, trust=trust)))
        text = " ".join([*page.texts, json.dumps(page.data())]).lower().replace("calibration error", "")
        assert "calibrat" not in text
        assert {row["of"] for row in values(page.data()["charts"]["reliability"], "of")} == {"confidence"}


def test_the_basis_of_quality_is_explained(run):
    text = " ".join(Page(render(run)).texts)
    assert "expected to be right, by the labels and their confidence" in text


@pytest.mark.parametrize(("by", "explained"), [("waum", True), ("answers", False)])
def test_the_difference_between_rank_and_verdict_is_explained(tmp_path, by, explained):
    ranked = build(tmp_path / "run", tasks=20, ambiguity={"by": by, "words": "Ranked."})
    assert ("The rank is about the task, the verdict about its label" in render(ranked)) == explained
