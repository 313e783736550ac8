"""Runs in memory, and frames in and out."""

import gc
import inspect
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise._core.frames import Frame
from crowdwise.errors import ParameterError

METHODS = ["one-coin", "dawid-skene"]


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(120, n_workers=8, n_classes=3, answers_per_task=3, seed=5)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The system's folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "times.json"}


def test_the_package_is_the_call(crowd):
    assert callable(cw.run) and cw.run.run is not cw.run
    assert inspect.signature(cw.run) == inspect.signature(cw.run.run)
    assert isinstance(cw.run(crowd, method=METHODS), cw.run.Run)


def test_a_saved_run_has_the_files_of_one_in_a_folder(crowd, tmp_path):
    seen = []
    made = cw.run(crowd, method=METHODS, callback=seen.append)
    assert {at.steps for at in seen} == {5}  # the report is written when it is asked for
    saved = made.save(tmp_path / "saved")
    written = cw.run(crowd, tmp_path / "written" / "saved", method=METHODS)
    assert files(saved.path) == files(written.path)
    assert saved.labels == made.labels and np.array_equal(saved.proba, made.proba)
    assert made.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert repr(made).startswith("Run(in memory") and "run.save" in made._repr_html_()
    with pytest.raises(ParameterError, match="holds a run"):
        made.save(tmp_path / "saved")


def test_images_are_saved_too(tmp_path):
    X, answers = cw.simulate.digits_crowd()
    chosen = np.arange(0, answers.n_tasks, 20)
    images = X[chosen].reshape(-1, 8, 8)
    made = cw.run(answers[chosen], images=images, encode=False, method="majority-vote")
    saved = made.save(tmp_path / "saved")
    assert (saved.path / saved.tables.tasks.column("image")[0].as_py()).is_file()


def test_no_files_are_left(crowd, temporary):
    made = cw.run(crowd, method=METHODS)
    page = made.report()
    assert "<iframe" in page._repr_html_() and made.feedback(made.answers.workers[0])
    assert page.is_relative_to(temporary)
    del made, page
    gc.collect()
    assert list(temporary.iterdir()) == []
    with pytest.raises(ParameterError):
        cw.run(crowd, method="no-such-method")
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_a_run_in_memory_cannot_be_resumed_or_pickled(crowd):
    with pytest.raises(ParameterError, match="resume"):
        cw.run(crowd, resume=True)
    with pytest.raises(TypeError, match="save"):
        pickle.dumps(cw.run(crowd, method=METHODS))


@pytest.mark.parametrize(
    ("convert", "kind"),
    [
        (lambda table: table.to_pandas(), pd.DataFrame),
        (pl.from_arrow, pl.DataFrame),
        (lambda table: pl.from_arrow(table).lazy(), pl.DataFrame),
        (lambda table: table, Frame),
    ],
    ids=["pandas", "polars", "lazy polars", "arrow"],
)
def test_frames_of_the_kind_that_came_in(crowd, convert, kind):
    """Gold and truth are frames too."""
    truth = pa.table({"task": crowd.tasks, "label": crowd.classes[crowd.truth]})
    gold = convert(truth.slice(0, 30))
    made = cw.run(convert(crowd.to_arrow()), method=METHODS, gold=gold, truth=convert(truth.slice(30)))
    assert all(type(frame) is kind for frame in (made.labels, made.workers, made.tasks, made.next, made.gold))
    expected = cw.run(crowd, method=METHODS, gold=truth.slice(0, 30))
    assert made.tables.labels.column("label") == expected.tables.labels.column("label")
    assert made.metrics["truth"]["tasks"] == crowd.n_tasks - 30


def test_files_give_arrow_frames(crowd, tmp_path):
    cw.write(crowd, tmp_path / "answers.csv")
    made = cw.run(tmp_path / "answers.csv", method=METHODS)
    assert type(made.labels) is Frame
    assert made.labels.to_polars().height == len(made.labels.to_pandas()) == crowd.n_tasks
    folder = made.save(tmp_path / "run").path
    assert isinstance(cw.run.Run(folder, kind="pandas").workers, pd.DataFrame)
    with pytest.raises(ParameterError, match="kind"):
        cw.run.Run(folder, kind="excel")


def test_one_command_is_not_run_twice_for_the_report(crowd, tmp_path):
    """A report that was deleted is written again by --resume, without other work."""
    made = cw.run(crowd, tmp_path / "run", method=METHODS)
    before = files(made.path)
    Path(made.path / "report.html").unlink()
    seen = []
    cw.run(crowd, tmp_path / "run", method=METHODS, resume=True, callback=seen.append)
    assert [at.what for at in seen] == ["Writing the report"] and files(made.path) == before
