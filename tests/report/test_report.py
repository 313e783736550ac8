"""What the report holds: figures that add up, caps that are said, nothing left unescaped, the same bytes twice."""

from __future__ import annotations

import base64
import io
import json
import sys

import altair
import jsonschema
import numpy as np
import pyarrow as pa
import pytest

import crowdwise.report
from crowdwise.errors import FormatError, MissingDependencyError
from crowdwise.report import charts, report
from crowdwise.report.cards import CARDS, SIDE, ambiguous_tasks, picture
from crowdwise.report.contents import embedded, figures, overview
from crowdwise.report.details import CLASSES, worker_details
from crowdwise.report.page import embed, render
from crowdwise.report.tables import (
    EACH,
    LABELS,
    NEEDS_WORK,
    NEXT,
    WORKERS,
    busiest,
    labels_table,
    next_table,
    rows_to_show,
    workers_table,
)
from crowdwise.run.folder import Run
from crowdwise.run.tables.labels import VERDICTS
from tests.helpers.report_folders import HOSTILE, Page, build, png, values


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return build(tmp_path_factory.mktemp("runs") / "today")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Run:
    return build(tmp_path_factory.mktemp("runs") / "hostile", hostile=True, classes=11, tasks=40)


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Run:
    """20,000 tasks with long texts, 1,000 workers, 40 classes: far more of each than is shown."""
    folder = tmp_path_factory.mktemp("runs") / "many"
    return build(folder, tasks=20_000, workers=1000, classes=40, long_text=True, images=0)


def test_report_is_one_file_in_the_folder_or_where_it_is_asked_for(run, tmp_path):
    assert report(run.path) == run.path / "report.html"
    there = report(run, tmp_path / "here.html")
    assert there.read_bytes() == (run.path / "report.html").read_bytes(), "the same run gives the same bytes"
    assert [path.name for path in tmp_path.iterdir()] == ["here.html"], "nothing half written is left"
    with pytest.raises(FormatError, match="no run folder"):
        report(tmp_path / "nowhere")
    with pytest.raises(FormatError, match=r"there is no folder '.*gone'"):
        report(run, tmp_path / "gone" / "here.html")
    with pytest.raises(FormatError, match="is a folder"):
        report(run, tmp_path)


def test_page_refers_to_nothing_outside(run):
    page = Page(render(run))
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "poster"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
        assert not any(name.startswith("on") for name in attributes), "no handler in the markup: the policy forbids it"
    policy = next(at["content"] for tag, at in page.tags if tag == "meta" and "http-equiv" in at)
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0], "no script but ours runs"


def test_verdicts_add_up_to_all_tasks(run):
    verdicts = overview(run)["verdicts"]
    assert tuple(each["name"] for each in verdicts) == VERDICTS
    assert sum(each["count"] for each in verdicts) == run.labels.num_rows
    assert sum(each["share"] for each in verdicts) == pytest.approx(1)


def test_what_is_unknown_is_left_out(tmp_path):
    bare = build(
        tmp_path / "run", tasks=20, truth=False, images=0, history=False, choice=None, curve=[], forecast=[], methods=[]
    )  # fmt: skip
    page = Page(render(bare))
    charts = page.data()["charts"]
    assert set(charts) == {"balance", "agreement", "confidence", "crowd"}
    text = " ".join(page.texts)
    assert "can only be measured with known truth" in text and "None" not in text and "nan" not in text.lower()
    assert {row["of"] for row in values(charts["balance"])} == {"answered", "inferred"}


@pytest.mark.parametrize("name", ["run", "hostile"])
def test_every_figure_is_one_of_vega_lite(name, request):
    made = request.getfixturevalue(name)
    specs = [charts.confusion(), *figures(made, _workers(made)["cells"]).values()]
    assert len(specs) == 9
    for spec in specs:
        altair.Chart.from_dict(spec).to_dict()  # which hold it against the schema


def test_a_figure_that_is_none_of_vega_lite_is_found():
    with pytest.raises(jsonschema.ValidationError, match="300"):
        altair.Chart.from_dict(charts.confusion() | {"height": [300]}).to_dict()


def test_balance_shows_the_shares_of_the_metrics(run):
    balance = run.metrics["balance"]
    drawn = {(row["class"], row["of"]): row["share"] for row in values(figures(run, _workers(run)["cells"])["balance"])}
    assert drawn == {
        (name, of): share
        for of in ("answered", "inferred", "truth")
        for name, share in zip(balance["classes"], balance[of], strict=True)
    }


def test_balance_shows_classes_of_the_truth_that_nobody_named(tmp_path):
    names = ["cat", "dog", "(never answered)"]
    shares = {"answered": [0.5, 0.5, 0], "inferred": [0.4, 0.6, 0], "truth": [0.3, 0.5, 0.2]}
    page = Page(render(build(tmp_path / "run", tasks=20, classes=2, balance={"classes": names, **shares})))
    drawn = {(row["class"], row["of"]): row["share"] for row in values(page.data()["charts"]["balance"])}
    assert [drawn["(never answered)", of] for of in ("answered", "inferred", "truth")] == [0, 0, 0.2]
    assert "classes of the truth that no worker named" in " ".join(page.texts)


def test_leads_over_the_vote_have_the_error_of_the_table(run):
    drawn = {row["name"]: row for row in values(figures(run, _workers(run)["cells"])["methods"], "lead")}
    compared = [each for each in run.metrics["methods"] if each["to_vote"] is not None]
    assert drawn.keys() == {each["name"] for each in compared}
    for each in compared:
        span = [drawn[each["name"]][end] - each["to_vote"] for end in ("low", "high")]
        assert span == pytest.approx([-each["to_vote_error"], each["to_vote_error"]])
    assert "one standard error to each side" in render(run)


def test_budget_names_whose_figures_it_draws(run):
    have = run.metrics["summary"]["n_answers"]
    rows = values(figures(run, _workers(run)["cells"])["budget"], "right")
    of = {name: [row for row in rows if row["of"] == name] for name in dict.fromkeys(row["of"] for row in rows)}
    curve = [f"majority-vote, {kind}" for kind in ("expected", "measured")]
    assert list(of) == [*curve, "dawid-skene, forecast", "dawid-skene, measured"]
    (point,) = of["dawid-skene, measured"]
    assert (point["answers"], point["right"]) == (have, run.metrics["truth"]["accuracy"])
    same = charts.budget(run.metrics["curve"], [], have, drawn="glad", method="glad", measured=0.91)
    assert {row["kind"] for row in values(same, "right")} == {"expected", "measured"}, "the curve ends there"


def test_small_runs_are_shown_whole(run):
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
def test_rows_to_show_are_capped_and_fair(counts):
    rng = np.random.default_rng(1)
    verdict = rng.permutation(np.repeat(np.array(NEEDS_WORK), counts))
    labels = pa.table({"verdict": verdict, "confidence": rng.uniform(size=len(verdict))})
    rows = rows_to_show(labels)
    assert len(rows) == len(set(rows.tolist())) == min(LABELS, len(verdict))
    shown = [int((verdict[rows] == name).sum()) for name in NEEDS_WORK]
    assert all(n >= min(count, EACH) for n, count in zip(shown, counts, strict=True))
    left = [count - n for n, count in zip(shown, counts, strict=True)]
    for place, n in enumerate(left):  # what is urgent is left out only where the rest has no more than its share
        assert not n or all(later <= EACH for later in shown[place + 1 :])


def test_a_large_run_is_capped_and_says_so(many):
    page = render(many)
    data = Page(page).data()
    tables = data["tables"]
    assert len(page.encode()) < 2_500_000
    assert tables["labels"]["rows"] == LABELS and tables["labels"]["of"] == 20_000
    assert "2,000 of 20,000 tasks are shown here" in tables["labels"]["note"]
    assert tables["workers"]["rows"] == len(data["details"]) == WORKERS
    assert "500 of 1,000 workers are shown here" in tables["workers"]["note"]
    assert tables["next"]["rows"] <= NEXT and len(data["cards"]) == CARDS
    assert all(len(detail["classes"]) == CLASSES for detail in data["details"])
    assert "25 classes more are not drawn" in " ".join(Page(page).texts)


def test_workers_are_the_busiest_and_their_details_are_theirs(many):
    rows = busiest(many)
    answers = many.workers.column("answers").to_numpy()
    assert answers[rows].min() >= np.delete(answers, rows).max()
    some = rows[:3]
    details = worker_details(many, some)
    counts = many.confusion_counts(some)  # rows of workers.csv follow the workers of the answers here
    for detail, matrix in zip(details, counts, strict=True):
        kept = detail["classes"]
        expected = matrix[np.ix_(kept, kept)]
        np.testing.assert_allclose(np.reshape(detail["tenths"], expected.shape) / 10, expected, atol=0.0501)


def test_matrices_that_do_not_fit_at_once_are_the_same(run, monkeypatch):
    rows = busiest(run)
    whole = worker_details(run, rows)
    monkeypatch.setattr("crowdwise.report.details.CELLS", 1)
    assert worker_details(run, rows) == whole


def test_confusion_of_a_worker_adds_up_to_the_answers(run):
    rows = busiest(run)
    for detail, answers in zip(worker_details(run, rows), _workers(run)["cells"]["answers"], strict=True):
        assert sum(detail["tenths"]) / 10 == pytest.approx(answers, abs=0.5)


def test_cards_show_the_answers_the_most_trusted_first(run):
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
    assert tags == expected, "no text of a user made a tag or an attribute"
    assert len(read.scripts) == 3, "data, library, ours"
    assert {HOSTILE[0], HOSTILE[1], "{{7*7}}{% raw %}"} <= set(read.texts) | set(read.data()["classes"])
    tasks = {f"{' '.join(text.split())}" for text in HOSTILE}
    assert tasks <= set(read.data()["tables"]["labels"]["cells"]["task"]), "and every text is there as it was written"


@pytest.mark.parametrize("text", HOSTILE)
def test_embedded_json_can_end_no_script_and_means_the_same(text):
    inside = embed({text: [text]})
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == {text: [text]}


def test_figures_name_fields_never_after_users_text(hostile):
    specs = [*figures(hostile, _workers(hostile)["cells"]).values(), embedded(hostile)["confusion"]]
    shapes = json.dumps([{key: part for key, part in spec.items() if key != "datasets"} for spec in specs])
    assert not any(text[:9] in shapes for text in HOSTILE)


def test_pictures_are_small_and_of_the_folder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    grey = np.random.default_rng(0).integers(0, 255, (800, 600), np.uint8)
    (folder / "small.png").write_bytes(png(grey[:8, :8]))
    (folder / "large.png").write_bytes(png(grey))
    (folder / "bad.svg").write_text("<svg onload=alert(1)>")
    (tmp_path / "secret.png").write_bytes(png(grey[:8, :8]))
    assert picture(folder, "small.png").startswith("data:image/png;base64,")
    assert picture(folder, "bad.svg") is None
    assert picture(folder, "../secret.png") is None and picture(folder, str(tmp_path / "secret.png")) is None
    assert picture(folder, "gone.png") is None
    image = pytest.importorskip("PIL.Image", reason="pictures are made smaller by pillow")
    kind, _, body = picture(folder, "large.png").partition(";base64,")
    assert kind == "data:image/jpeg" and max(image.open(io.BytesIO(base64.b64decode(body))).size) == SIDE


def test_next_answers_are_the_first_of_the_table(run):
    cells = next_table(run)["cells"]
    assert cells["task"] == run.next.column("task").to_pylist()[:NEXT]


@pytest.mark.parametrize("missing", ["altair", "jinja2", "vl_convert"])
def test_what_is_missing_is_named_with_the_remedy(run, monkeypatch, missing):
    for module in [name for name in sys.modules if name.startswith("crowdwise.report.")]:
        monkeypatch.delitem(sys.modules, module)
        monkeypatch.delattr(crowdwise.report, module.rpartition(".")[2], raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'crowdwise\[report\]'"):
        report(run)


def _workers(run: Run) -> dict:
    return workers_table(run, busiest(run))
