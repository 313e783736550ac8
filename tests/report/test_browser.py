"""The report in a real browser: charts, sorting, searching and details, on a laptop and a phone, and hostile text.

Needs playwright and Chromium: Debian's `chromium`, a Chrome on the path, or `playwright install chromium`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import crowdwise as cw
from crowdwise.evaluate import summarise
from crowdwise.run import compare
from tests.helpers.report_folders import FILE, HOSTILE, build

sync_api = pytest.importorskip("playwright.sync_api", reason="NOT TESTED in a browser: playwright is not installed")
expect = sync_api.expect
TIMEOUT = 120_000  # milliseconds: generous, so that a busy machine does not fail a test
expect.set_options(timeout=TIMEOUT)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    "--no-sandbox", "--headless=new", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
SIZES = {"laptop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, NAMES)), None)
        try:
            chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except sync_api.Error as error:
            reason = f"NOT TESTED in a browser: no Chromium starts (apt install chromium). {str(error).splitlines()[0]}"
            pytest.skip(reason)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    runs = {
        "plain": build(folder / "plain", tasks=80),
        "hostile": build(folder / FILE, hostile=True, classes=11, tasks=40),
        "long": build(folder / "long", tasks=40, long_text=True, curve_method="dawid-skene"),
        "ahead": build(folder / "ahead", tasks=20, truth=False, curve=[]),
        "bare": build(
            folder / "bare",
            tasks=20,
            truth=False,
            images=0,
            history=False,
            choice=None,
            curve=[],
            forecast=[],
            trust={},
        ),
        "gold": build(folder / "gold", tasks=60, gold=60),
    }
    return {name: run.report(folder / f"{name}.html") for name, run in runs.items()}


@pytest.fixture
def visit(browser, pages) -> Iterator[Any]:
    """Open a report; afterwards check that it made no requests and logged no errors."""
    requests: list[str] = []
    messages: list[str] = []
    contexts = []

    def open_page(name: str, size: str = "laptop", scheme: str = "light") -> Any:
        context = browser.new_context(viewport=SIZES[size], color_scheme=scheme)
        context.set_default_timeout(TIMEOUT)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on(
            "console", lambda message: messages.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("dialog", lambda dialog: messages.append(dialog.message))
        page.on("popup", lambda other: messages.append(other.url))
        page.goto(pages[name].as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not messages
    assert {url.partition(":")[0] for url in requests} <= {"file", "data"}
    assert {url for url in requests if url.startswith("file")} <= {path.as_uri() for path in pages.values()}


def draw_all(page: Any) -> int:
    places = page.locator("[data-chart]")
    for place in places.all():
        place.scroll_into_view_if_needed()
        expect(place).to_have_attribute("data-drawn", "yes")
        expect(place.locator("svg")).to_be_visible()
    return places.count()


def column(page: Any, table: str, number: int) -> list[str]:
    return page.locator(f"[data-table={table}] tbody tr > td:nth-child({number})").all_inner_texts()


def too_wide(page: Any) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


@pytest.mark.parametrize(("size", "scheme"), [("laptop", "light"), ("phone", "dark")])
def test_every_chart_is_drawn_and_the_page_fits(visit, size, scheme):
    page = visit("plain", size, scheme)
    assert draw_all(page) == 10
    legend = page.locator("[data-chart=forecast] .role-legend-label text")
    expect(legend).to_have_count(3)
    frame = page.locator("[data-chart=forecast]").bounding_box()
    ends = [box["x"] + box["width"] for box in (each.bounding_box() for each in legend.all())]
    assert max(ends) <= frame["x"] + frame["width"], "no legend is cut off"
    page.locator("[data-table=workers] .opener").first.click()
    expect(page.locator(".opened svg")).to_be_visible()
    assert not too_wide(page)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    dark = sum(map(int, re.findall(r"\d+", ground)[:3])) < 300
    assert dark == (scheme == "dark")


def test_charts_have_bars_and_tooltips(visit):
    page = visit("plain")
    draw_all(page)
    bars = page.locator("[data-chart=confidence] .mark-rect path")
    heights = [box["height"] for box in (bar.bounding_box() for bar in bars.all()) if box]
    assert max(heights) > 50
    page.locator("[data-chart=balance] .mark-rect path").first.hover()
    expect(page.locator("#tip")).to_contain_text("class")
    expect(page.locator("#tip")).to_contain_text("%")


def test_charts_without_data_are_not_drawn(visit):
    page = visit("bare")
    assert draw_all(page) == 5
    expect(page.locator("#training")).to_have_count(0)
    expect(page.get_by_text("can only be measured with known truth")).to_be_visible()
    assert page.locator(".wide:visible:not(:has(svg))").count() == 0, "no empty frame is left"


@pytest.mark.parametrize(
    ("name", "chart", "series"),
    [("plain", "budget", 2), ("plain", "forecast", 3), ("long", "budget", 3), ("ahead", "forecast", 2)],
)
def test_budget_charts_draw_available_series_without_warnings(visit, name, chart, series):
    page = visit(name)
    draw_all(page)
    expect(page.locator(f"[data-chart={chart}] .role-legend-label text")).to_have_count(series)


def test_the_four_answers_fit_on_the_first_screen(visit):
    page = visit("plain")
    boxes = [answer.bounding_box() for answer in page.locator(".answer").all()]
    assert len(boxes) == 4 and max(box["y"] + box["height"] for box in boxes) <= SIZES["laptop"]["height"]


def test_wrong_labels_are_listed(visit):
    page = visit("gold")
    expect(page.locator("[data-table=wrong] tbody tr")).not_to_have_count(0)
    sources = set(column(page, "wrong", 5))
    assert sources == {"gold"}


def test_no_heading_is_alone_at_the_end_of_a_printed_page(visit, tmp_path):
    reader = shutil.which("pdftotext")
    if reader is None:
        pytest.skip("NOT TESTED in print: pdftotext is not installed (apt install poppler-utils)")
    page = visit("plain")
    draw_all(page)
    headings = {" ".join(each.split()) for each in page.locator("section h2, section h3.apart").all_inner_texts()}
    seen: set[str] = set()
    for height in (230, 297, 340):  # the page breaks are elsewhere
        file = tmp_path / f"{height}.pdf"
        page.pdf(path=file, width="210mm", height=f"{height}mm")
        text = subprocess.run([reader, "-layout", file, "-"], capture_output=True, check=True, encoding="utf-8").stdout
        sheets = [[" ".join(line.split()) for line in sheet.splitlines() if line.strip()] for sheet in text.split("\f")]
        assert not headings & {sheet[-1] for sheet in sheets if sheet}
        seen |= headings & {line for sheet in sheets for line in sheet}
    assert {"Labels", "Workers", "Most ambiguous tasks", "Accuracy against budget"} <= seen


def test_tables_sort_by_mouse_and_keyboard(visit):
    page = visit("plain")
    head = page.locator("[data-table=labels] th", has_text="Confidence")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    sure = [float(text.rstrip("%")) for text in column(page, "labels", 4)]
    assert sure == sorted(sure, reverse=True) and len(sure) == 25
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    sure = [float(text.rstrip("%")) for text in column(page, "labels", 4)]
    assert sure == sorted(sure) and len(set(sure)) > 1
    page.locator("[data-table=labels] th", has_text="Task").get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "none")
    assert column(page, "labels", 1)[:3] == ["task-0", "task-1", "task-2"], "numbers in names sort as numbers"


def test_tables_search_filter_and_show_more(visit):
    page = visit("plain")
    rows = page.locator("[data-table=labels] tbody tr")
    expect(rows).to_have_count(25)
    page.locator("[data-table=labels]").get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(50)
    page.get_by_label("Search labels").fill("TASK-17")
    expect(rows).to_have_count(1)
    page.get_by_label("Search labels").fill("no such task")
    expect(rows).to_have_text("No matches.")
    page.get_by_label("Search labels").fill("")
    page.get_by_label("Verdict").select_option("hopeless")
    verdicts = set(column(page, "labels", 3))
    assert verdicts == {"hopeless"}
    expect(page.locator("[data-table=labels] [role=status]")).to_contain_text("rows")


def test_details_of_a_worker_open_close_and_survive_sorting(visit):
    page = visit("plain")
    first = page.locator("[data-table=workers] .opener").first
    worker = first.inner_text()
    first.press("Enter")
    expect(first).to_have_attribute("aria-expanded", "true")
    detail = page.locator("tr.detail")
    expect(detail.locator("svg .mark-rect path")).to_have_count(9)
    expect(detail).to_contain_text("Feedback for this worker")
    page.locator("[data-table=workers] th", has_text="Worker").get_by_role("button").click()
    expect(detail.locator("svg")).to_be_visible()
    page.locator("[data-table=workers] .opener", has_text=worker).click()
    expect(detail).to_have_count(0)


def test_cards_show_images_and_answers(visit):
    page = visit("plain")
    card = page.locator(".card").first
    card.scroll_into_view_if_needed()
    expect(card.locator("img")).to_have_js_property("naturalWidth", 16)
    expect(card.locator("li:not(.names)")).to_have_count(3)
    page.locator("#cards").get_by_role("button", name="Show more").click()
    expect(page.locator(".card")).to_have_count(24)


def test_long_texts_are_cut_to_two_lines_on_a_phone(visit):
    page = visit("long", "phone")
    rows = page.locator("[data-table=labels] tbody tr")
    assert max(row.bounding_box()["height"] for row in rows.all()) < 65, "two lines of text"
    expect(rows.first.locator("td.long")).to_have_attribute("title", re.compile("^what is in picture"))
    seen = page.locator("[data-table=labels] .scroll").bounding_box()
    verdict = rows.first.locator(".verdict").bounding_box()
    assert verdict["x"] + verdict["width"] <= seen["x"] + seen["width"], "the verdict is visible"


def test_the_button_switches_the_colours(visit):
    page = visit("plain", scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.locator("#theme").click()
    assert page.evaluate(ground) != before
    expect(page.locator("#theme")).to_have_text("Dark")
    page.locator("#theme").click()
    assert page.evaluate(ground) == before


EVIL = "main img[src=x], main svg[onload], main script, main iframe, main style, a[href^=javascript], a[href^=data]"


def nothing_ran(page: Any) -> bool:
    """Whether no text became a tag or ran as a script."""
    assert page.locator(EVIL).count() == 0
    return page.evaluate("window.hacked === undefined && getComputedStyle(document.body).display !== 'none'")


@pytest.mark.parametrize("size", SIZES)
def test_hostile_texts_are_shown_and_run_nothing(visit, size):
    page = visit("hostile", size)
    draw_all(page)
    for opener in page.locator("[data-table=workers] .opener").all():
        opener.click()
    expect(page.locator(".opened svg")).to_have_count(9)
    for text in HOSTILE:
        page.get_by_label("Search labels").fill(" ".join(text.split()))
        assert any(" ".join(text.split()) in cell for cell in column(page, "labels", 1)), "shown unchanged"
    assert FILE in page.title() and FILE in page.locator("header").inner_text()
    for chart, mark in (("balance", ".mark-rect path"), ("crowd", ".mark-symbol path")):
        page.locator(f"[data-chart={chart}] {mark}").first.hover(force=True)
        expect(page.locator("#tip")).to_be_visible()
    expect(page.locator(".card img").first).to_have_js_property("naturalWidth", 16)
    assert nothing_ran(page)
    heights = [confidence.bounding_box()["height"] for confidence in page.locator(".label > :last-child").all()]
    assert max(heights) < 30, "the confidence stays on one line next to a long label"
    assert not too_wide(page)


def test_notebook_output_runs_no_scripts(browser, tmp_path, monkeypatch):
    """A notebook has no content security policy: escaping alone must suffice."""
    monkeypatch.chdir(tmp_path)
    run = build(Path("javascript:window.hacked=17"), hostile=True, classes=len(HOSTILE), tasks=40)
    model = run.model
    proposal = cw.acquire.propose(model, 3)
    feedback = [run.feedback(worker) for worker in model.workers_]
    choice = cw.choose.choose(run.answers, candidates=["one-coin"], folds=2)
    shown = [run.answers, summarise(run.answers), proposal, choice, run, compare(run, run), cw.make("glad"), *feedback]
    fragments = "".join(each._repr_html_() for each in shown)
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8><main>{fragments}</main>", "utf-8")
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT)
    events: list[str] = []
    page.on("dialog", lambda dialog: events.append(dialog.message))
    page.on("request", lambda request: events.append(request.url) if not request.url.startswith("file:") else None)
    page.goto((tmp_path / "notebook.html").as_uri())
    text = page.locator("main").inner_text()
    assert not [worker for worker in model.workers_ if " ".join(worker.split()) not in " ".join(text.split())]
    assert page.locator("main img, main svg[onload], main iframe").count() == 0
    assert page.evaluate("window.hacked === undefined && getComputedStyle(document.body).display !== 'none'")
    for link in page.locator("main a").all():
        assert page.evaluate("link => link.protocol", link.element_handle()) in ("file:", "https:")
    assert not events
    page.close()


def test_the_policy_blocks_injected_scripts(browser, pages, tmp_path):
    broken = tmp_path / "broken.html"
    evil = "<script>window.hacked=1</script><img src='https://example.org/x.png' onerror='window.hacked=2'></main>"
    broken.write_text(pages["plain"].read_text("utf-8").replace("</main>", evil, 1), "utf-8")
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT)
    page.goto(broken.as_uri())
    expect(page.locator("[data-table=labels] tbody tr")).to_have_count(25)
    assert page.evaluate("window.hacked === undefined")
    page.close()
