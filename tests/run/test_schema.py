"""Values of metrics.json and config.json that a run cannot have written, sealed with right checksums."""

import json
import shutil
from pathlib import Path

import pytest

from crowdwise.errors import FormatError
from crowdwise.run import Run, compare
from crowdwise.run.stored_files import CONFIG, METRICS
from tests.helpers.fuzz_others import resealed

INTACT = Path(__file__).parents[1] / "fixtures" / "run_v3"
MISSING = object()


def forged(folder, name, place, value):
    """Copy the run and change one value."""
    shutil.copytree(INTACT, folder, dirs_exist_ok=True)
    content = json.loads((folder / name).read_text())
    *outer, last = place
    inner = content
    for key in outer:
        inner = inner[key]
    if value is MISSING:
        del inner[last]
    else:
        inner[last] = value
    (folder / name).write_text(json.dumps(content))
    metrics = content if name == METRICS else json.loads((folder / METRICS).read_text())
    (folder / METRICS).write_text(json.dumps(resealed(metrics, folder)))
    return folder


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (["counts"], {}, "'counts.accept' is missing"),
        (["counts", "review"], "many", "'counts.review' is 'many', not an integer"),
        (["methods", 0, "scores"], MISSING, r"'methods\[0\].scores' is missing"),
        (["methods", 0, "to_vote"], "0.1", r"'methods\[0\].to_vote' is '0.1', not a number or null"),
        (["methods", 0], None, r"'methods\[0\]': expected a JSON object"),
        (["summary", "n_answers"], None, "'summary.n_answers' is None"),
        (["balance", "answered"], [1.0], "another number of classes"),
        (["balance", "classes"], {}, "'balance.classes' is {}, not names of classes"),
        (["agreement", "counts"], [], "'agreement' has 21 edges and 0 counts"),
        (["calibration"], {}, "'calibration.temperature' is missing"),
        (["calibration", "temperature"], float("inf"), "'calibration.temperature' is inf, not a number or null"),
        (["verdict_words", "accept"], MISSING, "'verdict_words.accept' is missing"),
        (["expected_accuracy"], float("nan"), "'expected_accuracy' is nan, not a number"),
        (["words"], [1], r"'words\[0\]' is 1, not a text"),
        (["trust", "families"], [{"workers": "w1", "rho": 0.5}], r"'trust.families\[0\].workers' is 'w1', not names"),
        (["trust", "range"], {"low": 0.5}, "'trust.range.high' is missing"),
        (["expected_accuracy"], 10**400, "'expected_accuracy' is 1000.*, not a number"),
        (["curve"], [{}], r"'curve\[0\].answers' is missing"),
    ],
)
def test_forged_metrics_give_one_line_that_names_the_field(tmp_path, place, value, problem):
    folder = forged(tmp_path / "run", METRICS, place, value)
    with pytest.raises(FormatError, match=problem) as error:
        Run(folder)
    assert str(folder / METRICS) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("place", "value"), [(["inputs"], [3]), (["seed"], "one"), (["options"], MISSING)])
def test_forged_config_gives_one_line(tmp_path, place, value):
    folder = forged(tmp_path / "run", CONFIG, place, value)
    with pytest.raises(FormatError, match=f"config.json: '{place[0]}") as error:
        Run(folder).report(tmp_path / "report.html")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_runs_of_all_formats_fit_the_schema(version, tmp_path):
    run = Run(INTACT.parent / f"run_v{version}")
    assert run.report(tmp_path / "report.html").stat().st_size > 10**5
    assert not compare(run, run).changed.num_rows
