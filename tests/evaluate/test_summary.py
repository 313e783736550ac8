"""The summary, by hand and on real data (in the folder CROWDWISE_DATA)."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

from crowdwise import Answers, simulate
from crowdwise.evaluate import imbalance_ratio, summarise


def test_statistics_by_hand():
    answers = Answers.from_arrays(
        [1, 1, 2, 2, 2, 3], list("ababca"), ["cat", "cat", "dog", "cat", "dog", "cat"], tasks=[1, 2, 3, 4]
    ).with_truth({1: "cat", 2: "cat"})
    summary = summarise(answers)
    assert (summary.n_tasks, summary.n_workers, summary.n_answers, summary.n_classes) == (4, 3, 6, 2)
    assert summary.unanswered == 1
    assert summary.per_task == (0, 0.75, 1.5, 2.25, 3, 1.5)
    assert summary.per_worker == (1, 1.5, 2, 2.5, 3, 2.0)
    assert summary.votes == [4, 2]
    assert summary.imbalance == 2.0
    assert summary.agreement == (2 + 2) / (2 + 6)
    assert summary.kappa is None
    assert (summary.n_known, summary.answer_accuracy, summary.truth_imbalance) == (2, 0.6, 1.0)


def test_page_and_json_have_no_nan():
    summary = summarise(simulate.simulate(200, n_classes=20, seed=1))
    page = str(summary)
    assert "200" in page and "Krippendorff's alpha" in page and "and 8 more classes" in page
    assert "nan" not in page and "None" not in page
    assert json.loads(json.dumps(summary.as_dict(), allow_nan=False))["n_answers"] == 500
    assert repr(summary) == page


@pytest.mark.parametrize(
    ("accuracy", "meaning"),
    [(1.0, "workers agree;"), (0.93, "fairly well"), (0.8, "often disagree"), (0.55, "by chance")],
)
def test_alpha_is_explained_in_words(accuracy, meaning):
    options = {"n_classes": 2, "workers": "one-coin", "accuracy": (accuracy, accuracy), "answers_per_task": 4}
    assert meaning in summarise(simulate.simulate(3000, **options)).reading


def test_html_is_escaped():
    malicious = "<script>alert(1)</script>"
    answers = Answers.from_arrays([1, 1], ["a", "b"], ["x", "y"])
    removed = summarise(Answers.from_frame({"task": [1], "worker": ["a"], "label": ["x"]}, removed={malicious: 3}))
    assert malicious not in removed._repr_html_()
    assert "&lt;script&gt;" in removed._repr_html_()
    assert summarise(answers)._repr_html_().count("<tr>") == len(summarise(answers).rows())


def test_dropped_rows_are_reported():
    answers = Answers.from_arrays([1, 1, 2], ["a", "a", "b"], ["x", "y", "x"], duplicates="first")
    assert summarise(answers).removed == {"answers a worker gave twice": 1}
    assert "1 answers a worker gave twice" in str(summarise(answers))


def test_pseudo_answers_do_not_count_as_agreement():
    answers = Answers.from_arrays([1, 1], ["a", "b"], ["x", "y"])
    both = answers.merge(Answers.from_arrays([1, 1], ["c", "d"], ["x", "x"]), pseudo=True)
    assert summarise(both).n_pseudo == 2
    assert summarise(both).agreement == summarise(answers).agreement == 0.0
    assert "2 made by a model" in str(summarise(both))


def test_empty_answers_have_a_summary():
    summary = summarise(Answers.from_codes(*(np.empty(0, np.int32),) * 3, tasks=0, workers=0, classes=2))
    assert summary.per_task is None and summary.imbalance is None and summary.answer_accuracy is None
    assert "undefined" in str(summary)


def data_folder(name: str) -> Path:
    root = os.environ.get("CROWDWISE_DATA")
    if not root or not (Path(root) / name).is_dir():
        message = f"real data not checked: set CROWDWISE_DATA to the folder that holds {name}/"
        warnings.warn(message, stacklevel=2)  # pytest lists warnings even where it hides the reasons of skips
        pytest.skip(message)
    return Path(root) / name


@pytest.mark.parametrize(
    # DASC, table 1: R of the answers and of the truth (Music there 1.753 / 1.188; the data gives these).
    ("name", "of_answers", "of_truth", "test", "accuracy"),
    [("labelme", 2.480, 1.730, 1.541, 0.740), ("music", 1.756, 1.190, 1.480, 0.560)],
)
def test_imbalance_ratio_matches_the_paper(name, of_answers, of_truth, test, accuracy):
    folder = data_folder(name)
    answers = Answers.from_frame(pyarrow.csv.read_csv(folder / "answers.csv"))
    features = np.load(folder / "features.npz", allow_pickle=False)
    position = {c: i for i, c in enumerate(answers.classes.tolist())}
    truth = np.array([position[str(c)] for c in features["classes"][features["y_train"]]])
    summary = summarise(answers.with_truth(truth[answers.tasks]))
    assert summary.imbalance == pytest.approx(of_answers, abs=5e-4)
    assert summary.truth_imbalance == pytest.approx(of_truth, abs=5e-4)
    assert imbalance_ratio(np.bincount(features["y_test"])) == pytest.approx(test, abs=5e-4)
    assert summary.answer_accuracy == pytest.approx(accuracy, abs=5e-4)
