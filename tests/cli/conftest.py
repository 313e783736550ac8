"""A folder with features, answers and known labels, for the tests of `fit` and `predict`."""

from pathlib import Path

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.io import write


@pytest.fixture(scope="module")
def digits():
    X, answers = cw.simulate.digits_crowd()
    return X[:150].astype(np.float32), answers[np.arange(150)]


@pytest.fixture
def folder(tmp_path, monkeypatch, digits):
    X, answers = digits
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    write(answers.with_truth(None), "answers.csv")
    rows = [f"{t},{answers.classes[c]}\n" for t, c in zip(answers.tasks, answers.truth, strict=True)]
    Path("truth.csv").write_text("task,label\n" + "".join(rows))
    Path("gold.csv").write_text("task,label\n" + "".join(rows[:50]))
    return tmp_path
