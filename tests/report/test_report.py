"""The content of the report: consistent figures, tables cut short with a note, escaped text, reproducible bytes."""

from __future__ import annotations

import base64
import io
import json
import sys
from types import SimpleNamespace

import altair
import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from crowdwise.errors import FormatError, ParameterError
from crowdwise.report import write_report
from crowdwise.report.cards import CARDS, SIDE, ambiguous_tasks, image_url
from crowdwise.report.charts import chart_specs, confusion_spec
from crowdwise.report.contents import embedded, overview
from crowdwise.report.details import CLASSES, worker_details
from crowdwise.report.known_labels import wrong_table
from crowdwise.report.page import embed, render
from crowdwise.report.source import VERDICTS
from crowdwise.report.tables import (
    LABELS,
    NEEDS_WORK,
    NEXT,
    PER_VERDICT,
    WORKERS,
    busiest,
    labels_table,
    next_table,
    rows_to_show,
    workers_table,
)
from crowdwise.run.folder import Run
from tests.helpers.report_folders import HOSTILE, Page, build, png, values


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return build(tmp_path_factory.mktemp("runs") / "today")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Run:
    return build(tmp_path_factory.mktemp("runs") / "hostile", hostile=True, classes=11, tasks=40)


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Run:
    """A large run: 20,000 tasks with long texts, 1,000 workers, 40 classes."""
    folder = tmp_path_factory.mktemp("runs") / "many"
    return build(folder, tasks=20_000, workers=1000, classes=40, long_text=True, images=0)


def test_the_report_is_one_file_in_the_folder_or_at_a_given_path(run, tmp_path):
    assert run.report() == run.path / "report.html"
    there = write_report(run, tmp_path / "here.html")
    assert there.read_bytes() == (run.path / "report.html").read_bytes(), "the same run gives the same bytes"
    assert [path.name for path in tmp_path.iterdir()] == ["here.html"], "no partial file is left"
    with pytest.raises(ParameterError, match=r"Run\(.*\).report\(\)"):
        write_report(run.path)
    with pytest.raises(FormatError, match=r"the folder '.*gone' does not exist"):
        write_report(run, tmp_path / "gone" / "here.html")
    with pytest.raises(FormatError, match="is a folder"):
        write_report(run, tmp_path)


def test_the_page_has_no_external_references(run):
    page = Page(render(run))
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "poster"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
        assert not any(name.startswith("on") for name in attributes), "the policy forbids handlers in the markup"
    policy = next(at["content"] for tag, at in page.tags if tag == "meta" and "http-equiv" in at)
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0], "only our scripts run"


def test_verdicts_add_up_to_all_tasks(run):
    verdicts = overview(run)["verdicts"]
    assert tuple(each["name"] for each in verdicts) == VERDICTS
    assert sum(each["count"] for each in verdicts) == run.labels.num_rows
    assert sum(each["share"] for each in verdicts) == pytest.approx(1)


def test_unknown_figures_are_left_out(tmp_path):
    bare = build(
        tmp_path / "run", tasks=20, truth=False, images=0, history=False, choice=None, curve=[], forecast=[],
        methods=[], trust={},
    )  # fmt: skip
    page = Page(render(bare))
    charts = page.data()["charts"]
    assert set(charts) == {"balance", "agreement", "confidence", "crowd"}
    text = " ".join(page.texts)
    assert "can only be measured with known truth" in text and "None" not in text and "nan" not in text.lower()
    assert {row["of"] for row in values(charts["balance"])} == {"answers", "labels"}


@pytest.mark.parametrize("name", ["run", "hostile"])
def test_every_chart_is_valid_vega_lite(name, request):
    made = request.getfixturevalue(name)
    specs = [confusion_spec(), *chart_specs(made).values()]
    assert len(specs) == 11
    for spec in specs:
        altair.Chart.from_dict(spec).to_dict()  # validates against the schema


def test_an_invalid_chart_is_detected():
    with pytest.raises(jsonschema.ValidationError, match="300"):
        altair.Chart.from_dict(confusion_spec() | {"height": [300]}).to_dict()


def test_balance_shows_the_shares_of_the_metrics(run):
    balance = run.metrics["balance"]
    drawn = {(row["class"], row["of"]): row["share"] for row in values(chart_specs(run)["balance"])}
    assert drawn == {
        (name, of): share
        for of, key in {"answers": "answered", "labels": "inferred", "known truth": "truth"}.items()
        for name, share in zip(balance["classes"], balance[key], strict=True)
    }


def test_balance_shows_classes_that_nobody_answered(tmp_path):
    names = ["cat", "dog", "(never answered)"]
    shares = {"answered": [0.5, 0.5, 0], "inferred": [0.4, 0.6, 0], "truth": [0.3, 0.5, 0.2]}
    page = Page(render(build(tmp_path / "run", tasks=20, classes=2, balance={"classes": names, **shares})))
    drawn = {(row["class"], row["of"]): row["share"] for row in values(page.data()["charts"]["balance"])}
    assert [drawn["(never answered)", of] for of in ("answers", "labels", "known truth")] == [0, 0, 0.2]
    assert "classes of the known truth that no worker answered" in " ".join(page.texts)


def test_leads_over_the_vote_span_one_standard_error(run):
    drawn = {row["name"]: row for row in values(chart_specs(run)["methods"], "lead")}
    compared = [each for each in run.metrics["methods"] if each["to_vote"] is not None]
    assert drawn.keys() == {each["name"] for each in compared}
    for each in compared:
        span = [drawn[each["name"]][end] - each["to_vote"] for end in ("low", "high")]
        assert span == pytest.approx([-each["to_vote_error"], each["to_vote_error"]])
    assert "one standard error to each side" in render(run)


def budget_rows(run: Run) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Points of the budget charts by chart and kind."""
    specs = chart_specs(run)
    found: dict = {}
    for chart in {"budget", "forecast"} & set(specs):
        for row in values(specs[chart], "right"):
            found.setdefault(chart, {}).setdefault(row["of"], []).append((row["answers"], row["right"]))
    return found


def test_each_budget_chart_is_about_one_method(run, tmp_path):
    metrics, have = run.metrics, run.metrics["summary"]["n_answers"]
    found = budget_rows(run)  # the curve is of majority vote, the labels of Dawid-Skene
    assert found["budget"] == {
        kind: [(each["answers"], each[name]) for each in metrics["curve"]]
        for kind, name in (("expected", "expected"), ("measured", "accuracy"))
    }
    assert found["forecast"]["measured"] == [(have, metrics["truth"]["accuracy"])]
    assert found["forecast"]["expected"] == [(have, metrics["expected_accuracy"])]
    assert found["forecast"]["forecast"] == [(have + each["bought"], each["expected"]) for each in metrics["forecast"]]
    text = " ".join(Page(render(run)).texts)
    assert "majority-vote with fewer answers" in text and "dawid-skene with more answers" in text
    same = build(tmp_path / "same", tasks=20, curve_method="dawid-skene")
    assert set(budget_rows(same)) == {"budget"} and set(budget_rows(same)["budget"]) == {
        "expected", "measured", "forecast",
    }  # fmt: skip


def test_wrong_labels_are_beside_the_known_ones(run, tmp_path):
    labels = run.tables.labels.append_column("truth", pa.array(["cat"] * run.labels.num_rows))
    tables = SimpleNamespace(labels=labels, tasks=run.tables.tasks)
    run_with_truth = SimpleNamespace(tables=tables, answers=run.answers, metrics=run.metrics, path=run.path)
    table = wrong_table(run_with_truth)
    wrong = {row["task"]: row for row in labels.to_pylist() if row["label"] != "cat"}
    cells = table["cells"]
    assert set(cells["task"]) == set(wrong) and set(cells["known"]) == {"cat"}
    assert cells["given"] == [wrong[task]["label"] for task in cells["task"]]
    assert cells["confidence"] == sorted(cells["confidence"], reverse=True), "the most confident first"
    assert wrong_table(run) is None, "nothing is known"


def test_answers_that_contradict_gold_are_beside_it(tmp_path):
    known = build(tmp_path / "gold", tasks=60, gold=60, truth=False)
    cells = wrong_table(known)["cells"]
    votes = known.answers
    for task, given, gold, share in zip(*(cells[key] for key in ("task", "given", "known", "named")), strict=True):
        code = votes.tasks.tolist().index(task)
        said = votes.classes[votes.label[votes.task_starts[code] : votes.task_starts[code + 1]]].tolist()
        assert said.count(given) > said.count(gold) and share == pytest.approx(said.count(given) / len(said), abs=1e-3)
    agree = [row["task"] for row in known.labels.to_pylist() if row["agreement"] > 0.5]
    assert agree and not set(agree) & set(cells["task"])
    page = Page(render(known))
    assert "Where known labels say otherwise" in " ".join(page.texts)
    assert page.data()["tables"]["wrong"]["cells"] == cells


def test_flags_reasons_and_accuracy_on_gold_are_columns(run, tmp_path):
    estimates = {
        "accuracy": {"value": 0.8, "low": 0.7, "high": 0.88, "n_gold": 10},
        "shares": [{"class": "cat", "value": 0.6, "low": 0.5, "high": 1.02}],
        "workers": [{"worker": "w1", "value": 0.6, "low": 0.5, "high": 1.02}],
    }
    known = build(tmp_path / "gold", tasks=20, gold=5, trust=run.metrics["trust"] | {"estimates": estimates})
    tables = embedded(known)["tables"]
    titles = {name: [each["title"] for each in tables[name]["columns"]] for name in ("labels", "workers")}
    assert "Reason" in titles["labels"] and {"Flag", "Accuracy by gold"} <= set(titles["workers"])
    assert tables["labels"]["cells"]["reason"].count("gold label") == 5
    cells = tables["workers"]["cells"]
    flags = dict(zip(*(known.workers.column(name).to_pylist() for name in ("worker", "flag")), strict=True))
    assert dict(zip(cells["worker"], cells["flag"], strict=True)) == flags
    w1 = cells["worker"].index("w1")
    assert [cells[key][w1] for key in ("gold", "gold_low", "gold_high")] == [0.6, 0.5, 1.0]
    assert "50.0% to 100%" in " ".join(Page(render(known)).texts), "class shares with intervals"
    assert sum(card["gold"] for card in ambiguous_tasks(known)) == 5
    assert "Accuracy by gold" not in [each["title"] for each in _workers(run)["columns"]]


def test_small_runs_are_shown_completely(run):
    data = embedded(run)
    assert sorted(data["tables"]["labels"]["cells"]["task"]) == sorted(run.labels.column("task").to_pylist())
    assert sorted(data["tables"]["workers"]["cells"]["worker"]) == sorted(run.workers.column("worker").to_pylist())
    assert len(data["details"]) == run.workers.num_rows
    assert all(table["note"].startswith("All ") for table in data["tables"].values())


def test_labels_that_need_work_come_first(run):
    cells = labels_table(run)["cells"]
    places = [NEEDS_WORK.index(verdict) for verdict in cells["verdict"]]
    assert places == sorted(places)
    for verdict in NEEDS_WORK:
        sure = [c for c, v in zip(cells["confidence"], cells["verdict"], strict=True) if v == verdict]
        assert sure == sorted(sure)


@pytest.mark.parametrize("counts", [(0, 0, 0, 5000), (3000, 10, 0, 900), (100, 4000, 4000, 4000), (1, 1, 1, 1)])
def test_rows_to_show_are_limited_with_some_of_every_verdict(counts):
    rng = np.random.default_rng(1)
    verdict = rng.permutation(np.repeat(np.array(NEEDS_WORK), counts))
    labels = pa.table({"verdict": verdict, "confidence": rng.uniform(size=len(verdict))})
    rows = rows_to_show(labels)
    assert len(rows) == len(set(rows.tolist())) == min(LABELS, len(verdict))
    shown = [int((verdict[rows] == name).sum()) for name in NEEDS_WORK]
    assert all(n >= min(count, PER_VERDICT) for n, count in zip(shown, counts, strict=True))
    left = [count - n for n, count in zip(shown, counts, strict=True)]
    for place, n in enumerate(left):  # urgent rows are left out only if all others have no more than their share
        assert not n or all(later <= PER_VERDICT for later in shown[place + 1 :])


def test_a_large_run_is_cut_short_with_a_note(many):
    page = render(many)
    data = Page(page).data()
    tables = data["tables"]
    assert tables["labels"]["rows"] == LABELS and tables["labels"]["of"] == 20_000
    assert "2,000 of 20,000 tasks are shown" in tables["labels"]["note"]
    assert tables["workers"]["rows"] == len(data["details"]) == WORKERS
    assert "500 of 1,000 workers are shown" in tables["workers"]["note"]
    assert tables["next"]["rows"] <= NEXT and len(data["cards"]) == CARDS
    assert all(len(detail["classes"]) == CLASSES for detail in data["details"])
    assert "25 smaller classes are not shown" in " ".join(Page(page).texts)


def test_the_workers_with_most_answers_are_shown_with_their_details(many):
    rows = busiest(many)
    answers = many.workers.column("answers").to_numpy()
    assert answers[rows].min() >= np.delete(answers, rows).max()
    some = rows[:3]
    details = worker_details(many, some)
    counts = many.confusion_counts(some)  # here rows of workers.csv are worker codes
    for detail, matrix in zip(details, counts, strict=True):
        kept = detail["classes"]
        expected = matrix[np.ix_(kept, kept)]
        np.testing.assert_allclose(np.reshape(detail["tenths"], expected.shape) / 10, expected, atol=0.0501)


def test_matrices_built_in_parts_are_the_same(run, monkeypatch):
    rows = busiest(run)
    at_once = worker_details(run, rows)
    monkeypatch.setattr("crowdwise.report.details.MAX_CELLS", 1)
    assert worker_details(run, rows) == at_once


def test_confusion_counts_sum_to_the_number_of_answers(run):
    rows = busiest(run)
    for detail, answers in zip(worker_details(run, rows), _workers(run)["cells"]["answers"], strict=True):
        assert sum(detail["tenths"]) / 10 == pytest.approx(answers, abs=0.5)


def test_cards_show_the_most_trusted_answers_first(run):
    cards = ambiguous_tasks(run)
    assert [card["task"] for card in cards] == run.tasks.column("task").to_pylist()[:CARDS]
    answers = run.answers
    for card in cards:
        task = answers.tasks.tolist().index(card["task"])
        rows = range(answers.task_starts[task], answers.task_starts[task + 1])
        said = {(answers.workers[answers.worker[a]], answers.classes[answers.label[a]]) for a in rows}
        assert {(each["worker"], each["label"]) for each in card["answers"]} == said
        trust = [each["trust"] for each in card["answers"]]
        assert trust == sorted(trust, reverse=True) and card["more"] == 0
    assert sum(card["image"] is not None for card in cards) == 4


def test_hostile_text_stays_text(hostile, tmp_path):
    read = Page(render(hostile))
    clean = build(tmp_path / "clean", classes=11, tasks=40, words=["One sentence."])
    tags, expected = (
        [(tag, sorted(attributes)) for tag, attributes in page.tags] for page in (read, Page(render(clean)))
    )
    assert tags == expected, "no user text became a tag or an attribute"
    assert len(read.scripts) == 3, "data, library and our script"
    assert {HOSTILE[0], HOSTILE[1], "{{7*7}}{% raw %}"} <= set(read.texts) | set(read.data()["classes"])
    tasks = {f"{' '.join(text.split())}" for text in HOSTILE}
    assert tasks <= set(read.data()["tables"]["labels"]["cells"]["task"]), "every text is there unchanged"


@pytest.mark.parametrize("text", HOSTILE)
def test_embedded_json_cannot_end_a_script_and_is_unchanged(text):
    inside = embed({text: [text]})
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == {text: [text]}


def test_charts_do_not_use_user_text_as_field_names(hostile):
    specs = [*chart_specs(hostile).values(), embedded(hostile)["confusion"]]
    shapes = json.dumps([{key: part for key, part in spec.items() if key != "datasets"} for spec in specs])
    assert not any(text[:9] in shapes for text in HOSTILE)


def test_images_are_shrunk_and_must_be_inside_the_folder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    grey = np.random.default_rng(0).integers(0, 255, (800, 600), np.uint8)
    (folder / "small.png").write_bytes(png(grey[:8, :8]))
    (folder / "large.png").write_bytes(png(grey))
    (folder / "bad.svg").write_text("<svg onload=alert(1)>")
    (tmp_path / "secret.png").write_bytes(png(grey[:8, :8]))
    assert image_url(folder, "small.png").startswith("data:image/png;base64,")
    assert image_url(folder, "bad.svg") is None
    assert image_url(folder, "../secret.png") is None and image_url(folder, str(tmp_path / "secret.png")) is None
    assert image_url(folder, "gone.png") is None
    image = pytest.importorskip("PIL.Image", reason="images are shrunk with pillow")
    kind, _, body = image_url(folder, "large.png").partition(";base64,")
    assert kind == "data:image/jpeg" and max(image.open(io.BytesIO(base64.b64decode(body))).size) == SIDE


def test_the_best_proposals_are_shown(run):
    cells = next_table(run)["cells"]
    assert cells["task"] == run.next.column("task").to_pylist()[:NEXT]


def test_without_the_chart_library_the_report_has_no_charts(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    text = write_report(run, tmp_path / "page.html").read_text("utf-8")
    assert "This report has no charts, as vl_convert is not installed: pip install" in text
    assert len(text) < 400_000  # without the library
    data = Page(text).data()
    assert data["charts"] == {}
    assert data["tables"]["labels"]["rows"] == run.labels.num_rows


def _workers(run: Run) -> dict:
    return workers_table(run, busiest(run))
