"""Every example runs on small data, writes a complete run folder, and prints the figures of that run."""

import os
import re
import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.report.source import REPORT_FILE
from crowdwise.run.stored_files import CLASSIFIER, LABELS_CSV, METRICS, MODEL, NEXT, TASKS, WORKERS

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FILES = (LABELS_CSV, METRICS, MODEL, NEXT, REPORT_FILE, TASKS, WORKERS)


def example(name):
    spec = spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def need_data(name):
    if not (Path(os.environ.get("CROWDWISE_DATA", "")) / name / "features.npz").is_file():
        pytest.skip(f"example not run: set CROWDWISE_DATA to the folder that holds {name}/")


def percents(text):
    """Return all percentages in a text, as numbers."""
    return [float(number) for number in re.findall(r"([\d.]+)%", text)]


def shown(share):
    """Return a share as the examples print it, in percent."""
    return float(f"{share:.1%}".removesuffix("%"))


def line(text, start):
    """Return the only line of a text that starts this way."""
    (found,) = [each for each in text.splitlines() if each.strip().startswith(start)]
    return found


def assert_complete(run, text):
    assert all((run.path / name).is_file() for name in FILES)
    assert str(run.path / REPORT_FILE) in text
    assert run.metrics["why"] in text


def test_images_labelme(tmp_path, capsys):
    need_data("labelme")
    run = example("images_labelme").main(tmp_path / "run", small=True)
    text, scores = capsys.readouterr().out, run.metrics["truth"]
    assert_complete(run, text)
    assert percents(line(text, "Labels by")) == [shown(scores["vote_accuracy"]), shown(scores["accuracy"])]
    data = cw.datasets.load("labelme")
    vote, own, ceiling = (percents(line(text, start))[0] for start in ("majority votes", "the run", "the truth"))
    assert own == shown(np.mean(run.classifier.predict(data.X_test) == data.truth_test))
    assert ceiling > max(vote, own)
    if data.images is not None:
        first = run.tasks.column("image")[0].as_py()
        assert (run.path / first).read_bytes().startswith(b"\x89PNG")


def test_pairs_product(tmp_path, capsys):
    need_data("product")
    run = example("pairs_product").main(tmp_path / "run", small=True)
    text, scores = capsys.readouterr().out, run.metrics["truth"]["scores"]
    assert_complete(run, text)
    assert run.classifier is None  # the texts are shown, not learned from
    assert "(chosen)" in text
    chosen = line(text, f"{run.metrics['method']} (chosen)")
    assert percents(chosen) == [shown(scores["accuracy"]), shown(scores["balanced_accuracy"])]
    assert chosen.split()[-1] == f"{scores['per_class'][1]['f1']:.3f}"
    baseline, vote = line(text, "always"), line(text, "majority-vote ")
    assert percents(baseline)[1] == 50.0 and float(baseline.split()[-1]) == 0.0
    assert percents(baseline)[0] > 85 and float(vote.split()[-1]) > 0.5  # accuracy misleads: the baseline finds nothing
    found = [percents(line(text, f"{level:.2f}:"))[2] for level in (0.8, 0.9, 0.99)]
    assert found == sorted(found, reverse=True)
    if cw.datasets.load("product").texts is not None:
        assert "\nor\n" in run.tasks.column("text")[0].as_py()


def test_label_studio(tmp_path, capsys):
    module = example("label_studio")
    run = module.main(tmp_path / "project", small=True)
    text = capsys.readouterr().out
    assert_complete(run, text)
    answers = cw.read(tmp_path / "project" / "export.json")
    assert answers.n_workers == module.TEAM and run.gold.num_rows == module.CHECKED  # the lead's labels are gold
    assert sum(answers.removed.values()) > 0 and f"{dict(answers.removed)}" in text
    assert (run.path / CLASSIFIER).is_file() or hasattr(run.model, "predict_proba")
    assert percents(line(text, "The model of the run"))[0] > 50
    assert str(run.feedback(module.MIXES_UP)) in text
    confusions = {(each.truth, each.said) for each in run.feedback(module.MIXES_UP).confusions}
    assert ("7", "1") in confusions
    assert None not in run.workers.column("seconds").to_pylist()


def test_a_vote_of_families_beats_a_vote_of_llm_judges(tmp_path, capsys):
    module = example("llm_judges")
    table = module.main(tmp_path, small=True)
    text = capsys.readouterr().out
    vote, families = np.array(table["majority vote"]), np.array(table["vote, families known"])
    assert (families > vote + 0.05).all()
    assert (np.array(table[module.FIND]) > vote).all()
    assert np.mean(table["Dawid-Skene"]) < vote.mean()  # who agrees is trusted
    assert percents(line(text, "majority vote"))[0] == shown(vote.mean())
    judges = float(re.search(r"worth ([\d.]+) independent", text)[1])
    assert len(module.OTHERS) < judges < len(module.OTHERS) + 2
    counted, by_family = (cw.run.Run(tmp_path / name) for name in ("counted", "families"))
    for run in (counted, by_family):
        assert all((run.path / name).is_file() for name in FILES)
        scores = run.metrics["truth"]
        figures = [run.metrics["expected_accuracy"], scores["accuracy"], scores["vote_accuracy"]]
        assert percents(line(text, f"Run '{run.path.name}'")) == [shown(figure) for figure in figures]
    assert counted.metrics["expected_accuracy"] < counted.metrics["truth"]["high"]  # wrong, but not confident
    assert by_family.metrics["truth"]["accuracy"] > counted.metrics["truth"]["vote_accuracy"]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_explain_how_to_run_them(file, monkeypatch, capsys):
    assert f"    python examples/{file.name} [--out runs/" in file.read_text()
    assert 60 <= len(file.read_text().splitlines()) <= 140
    monkeypatch.setattr(sys, "argv", [str(file), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(file), run_name="__main__")
    shown = capsys.readouterr().out
    assert not ended.value.code and "--out" in shown and example(file.stem).__doc__.splitlines()[0] in shown
