import json
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli import app
from crowdwise.errors import AnswerKindWarning
from crowdwise.run.ratings import run_ratings
from crowdwise.simulate import rating_crowd, simulate


def run(line, code=0):
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scale, numbers = rating_crowd(120, 12, careless=0.2, seed=1), rating_crowd(120, 12, None, seed=1)
    for name, ratings in (("scale", scale), ("numbers", numbers)):
        cw.write(ratings.to_arrow(), f"{name}.csv")
        known = "\n".join(f"{task},{value:g}" for task, value in zip(ratings.tasks, ratings.truth, strict=True))
        (tmp_path / f"{name}_truth.csv").write_text(f"task,truth\n{known}\n")
    return scale, numbers


@pytest.mark.parametrize("name", ["scale", "numbers"])
def test_a_run_of_ratings_writes_values_with_intervals(files, name):
    result = run(f"run {name}.csv --truth {name}_truth.csv --out out --folds 2")
    assert "so the answers are read as ratings" in " ".join(result.output.split())
    labels, workers = (pc.read_csv(f"out/{table}.csv").to_pydict() for table in ("labels", "workers"))
    metrics = json.loads(Path("out/metrics.json").read_text())
    assert len(labels["task"]) == 120
    assert all(
        low <= value <= high for low, value, high in zip(labels["lower"], labels["label"], labels["upper"], strict=True)
    )
    assert ("confidence" in labels) == (name == "scale")
    assert len(workers["bias"]) == 12
    assert metrics["truth"]["inside"] > 0.75
    assert cw.load("out/model.safetensors").labels_.tolist() == pytest.approx(labels["label"])
    assert "<h2>Workers</h2>" in Path("out/report.html").read_text()
    rated = {(t, w) for t, w in zip(*(c.tolist() for c in _pairs(files[name == "numbers"])), strict=True)}
    proposed = pc.read_csv("out/next.csv").to_pydict()
    assert len(proposed["task"]) == 12
    assert not rated & set(zip(proposed["task"], proposed["worker"], strict=True))


def _pairs(ratings):
    return ratings.tasks[ratings.task], ratings.workers[ratings.worker]


def test_gold_is_kept_and_truth_is_not_used(tmp_path):
    ratings = rating_crowd(100, 10, seed=2)
    gold = {int(ratings.tasks[0]): 1, int(ratings.tasks[1]): 5}
    result = run_ratings(ratings, tmp_path / "a", gold=gold, method="ordinal-dawid-skene")
    assert result.labels.column("label").to_pylist()[:2] == [1, 5]
    assert result.labels.column("gold").to_pylist()[:3] == [True, True, False]
    plain = run_ratings(ratings.with_truth(None), tmp_path / "b", gold=gold, method="ordinal-dawid-skene")
    assert plain.labels.equals(result.labels)


@pytest.mark.usefixtures("files")
def test_aggregate_tells_the_kind_and_obeys_the_option():
    output = json.loads(run("aggregate numbers.csv --truth numbers_truth.csv --json -o labels.csv").stdout)
    assert (output["kind"], output["method"]) == ("ratings", "gaussian-workers")
    assert output["scores"]["mae"] < 15
    assert json.loads(run("aggregate scale.csv --method median --json").stdout)["kind"] == "ratings"
    assert "kind" not in json.loads(run("aggregate scale.csv --kind classes --no-check --json").stdout)
    failed = run("aggregate scale.csv --method median --kind classes", 1)
    assert "median" in failed.output.lower()


def test_codes_of_unordered_classes_stay_classes(tmp_path):
    answers = simulate(300, n_classes=5, answers_per_task=5, seed=3, classes=[1, 2, 3, 4, 5])
    cw.write(answers, tmp_path / "a.csv")
    with pytest.warns(AnswerKindWarning, match="treated as unordered classes"):
        assert isinstance(cw.read(tmp_path / "a.csv"), cw.Answers)
    assert isinstance(cw.read(tmp_path / "a.csv", kind="ratings"), cw.Ratings)


def test_a_clear_improvement_replaces_the_median_and_noise_does_not(tmp_path):
    from crowdwise.choose.ratings import choose_for_ratings

    assert choose_for_ratings(rating_crowd(300, careless=0.3, seed=1)).best.startswith("ordinal")
    rng = np.random.default_rng(0)
    same = cw.Ratings.from_arrays(np.repeat(np.arange(60), 5), np.tile(np.arange(5), 60), rng.normal(size=300))
    assert choose_for_ratings(same, ["mean", "catd"]).best == "mean"
