"""The core of every package in seconds: `make smoke`. The details are tested in the folders that mirror the source.

`scripts/check_release.py` runs these tests with nothing installed but the wheel, so those of networks need torch.
"""

from importlib.util import find_spec

import numpy as np
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise._core.registry import find_method
from crowdwise.cli import app


@pytest.fixture(scope="module")
def crowd():
    """Features that separate three classes, and three answers per task."""
    answers = cw.simulate.simulate(90, n_workers=8, n_classes=3, answers_per_task=3, accuracy=(0.7, 0.9), seed=0)
    noise = np.random.default_rng(0).normal(size=(90, 5))
    return (np.eye(3, 5)[answers.truth] * 4 + noise).astype(np.float32), answers


def accuracy(model, answers):
    return (model.codes_ == answers.truth).mean()


def test_io_and_answers(crowd, tmp_path):
    answers = crowd[1]
    for name in ("answers.csv", "answers.parquet", "answers.jsonl"):
        cw.write(answers, tmp_path / name)
        assert cw.read(tmp_path / name) == answers


def test_truth(crowd, tmp_path):
    answers = crowd[1]
    model = cw.DawidSkene().fit(answers)
    assert accuracy(model, answers) >= accuracy(cw.MajorityVote().fit(answers), answers) - 0.05
    model.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(cw.load(tmp_path / "model.safetensors").proba_, model.proba_)


def test_learn(crowd):
    X, answers = crowd
    assert accuracy(cw.JointEM().fit(X, answers), answers) > 0.9
    pytest.importorskip("torch")
    assert accuracy(cw.CrowdLayer(epochs=30, lr=0.02).fit(X, answers), answers) > 0.8


def test_augment_and_ambiguity(crowd):
    pytest.importorskip("torch")
    X, answers = crowd
    assert cw.DASC(cw.CrowdLayer(epochs=5), iterations=1).fit(X, answers).proba_.shape == (90, 3)
    assert cw.WAUM(epochs=5).fit(X, answers).ranking().num_rows == 90


def test_acquire_evaluate_and_choose(crowd):
    answers = crowd[1]
    model = cw.DawidSkene().fit(answers)
    assert len(cw.acquire.propose(model, 5)) == 5
    assert cw.evaluate.evaluate(model, answers.truth).accuracy == accuracy(model, answers)
    assert cw.choose.choose(answers, folds=2).best_ in {method.name for method in cw.methods()}


def test_run_report_and_command_line(crowd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cw.write(crowd[1].with_truth(None), "answers.csv")
    np.save("X.npy", crowd[0])
    for line in (
        "run answers.csv --out run --method one-coin --method dawid-skene --folds 2",
        "aggregate answers.csv --out labels.csv",
        "fit answers.csv --features X.npy --out model",
        "predict model X.npy --out predictions.csv",
        "next answers.csv --budget 3",
        "inspect answers.csv",
        "methods",
    ):
        result = CliRunner().invoke(app, line.split())
        assert result.exit_code == 0, f"crowdwise {line}\n{result.output}"
    assert cw.run.Run("run").labels.num_rows == 90
    assert (tmp_path / "run/report.html").stat().st_size > 10_000


@pytest.mark.parametrize("name", [method.name for method in cw.methods()])
def test_registry(name):
    if find_spec("torch") is None and find_method(name).needs_features:
        pytest.skip("most learners need torch")
    assert type(cw.make(name)).__name__ in dir(cw)
