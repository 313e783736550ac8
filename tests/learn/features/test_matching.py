import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from crowdwise import Answers, CrowdLayer
from crowdwise.errors import FeaturesError
from crowdwise.learn.features import open_features

X = np.arange(12.0, dtype=np.float32).reshape(6, 2)


def answers_for(tasks):
    return Answers.from_arrays(tasks, ["w"] * len(tasks), ["x", *["y"] * (len(tasks) - 1)], tasks=tasks)


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "X.npy", X)
    return tmp_path / "X.npy"


def test_rows_of_a_file_follow_the_tasks_in_order(path):
    features = open_features(path, answers_for(list("abcdef")))
    np.testing.assert_array_equal(features.matrix(), X)
    assert (
        features.match_note
        == f"{path} has no task ids: its rows are matched to the tasks in order ('a', 'b', 'c', ..., 'f')."
    )
    assert open_features(path, answers_for(range(6))).match_note is None
    assert open_features(path).match_note is None


@pytest.mark.parametrize("name", ["X.npy", "X.npz"])
def test_integer_ids_select_rows_of_a_longer_file(tmp_path, name):
    np.save(tmp_path / name, X) if name == "X.npy" else np.savez(tmp_path / name, X=X)
    features = open_features(tmp_path / name, answers_for([1, 4, 5]))
    np.testing.assert_array_equal(features.matrix(), X[[1, 4, 5]])
    np.testing.assert_array_equal(features.rows(np.array([2, 0])), X[[5, 1]])
    assert features.n_ignored == 3
    assert "6 rows for 3 tasks: task ids are used as row numbers" in features.match_note


@pytest.mark.parametrize("tasks", [list("abc"), [1, 4, 6], [-1, 2, 3], range(7)])
def test_rows_that_cannot_be_matched_are_rejected(path, tasks):
    with pytest.raises(FeaturesError, match=r"X.npy has 6 rows; the answers have \d tasks\. Pass one row per task"):
        open_features(path, answers_for(tasks))


def test_arrays_in_memory_need_one_row_per_task():
    with pytest.raises(FeaturesError, match=r"X has 6 rows; the answers have 3 tasks\."):
        open_features(X, answers_for([1, 4, 5]))


def test_all_rows_of_a_longer_file_are_checked(tmp_path):
    np.save(tmp_path / "X.npy", np.where(X == 4, np.nan, X))
    with pytest.raises(FeaturesError, match=r"1 of 6 rows of X .*: rows 2, counted from 0"):
        open_features(tmp_path / "X.npy", answers_for([1, 4, 5]))


def test_ignored_rows_of_a_table_are_noted(tmp_path):
    pd.DataFrame({"task": list("fedcba"), "size": X[:, 0]}).to_csv(tmp_path / "X.csv", index=False)
    features = open_features(tmp_path / "X.csv", answers_for(["b", "f"]))
    assert features.matrix().tolist() == [[8.0], [0.0]]
    assert features.match_note == f"4 rows or images of {tmp_path / 'X.csv'} belong to no task and are ignored."
    assert open_features(tmp_path / "X.csv", answers_for(list("abcdef"))).match_note is None


def test_encoded_images_are_selected_by_id(tmp_path):
    image = pytest.importorskip("PIL.Image")
    parts = []
    for value in (0, 100, 200):
        image.new("RGB", (4, 4), (value, value, value)).save(tmp_path / "image.png")
        parts.append((tmp_path / "image.png").read_bytes())
    offsets = np.cumsum([0, *map(len, parts)])
    np.savez(tmp_path / "X.npz", jpeg=np.frombuffer(b"".join(parts), np.uint8), offsets=offsets)
    features = open_features(tmp_path / "X.npz", answers_for([0, 2]))
    np.testing.assert_allclose(features.rows(np.array([1, 0]))[:, 0, 0, 0], [200 / 255, 0])


def test_fit_takes_a_longer_file_and_a_frame_with_ids(tmp_path):
    """The same model from rows matched by number, by id, and by hand."""
    data, labels = load_iris(return_X_y=True)
    tasks = np.arange(0, 150, 2)
    answers = Answers.from_arrays(tasks, ["w"] * len(tasks), labels[tasks])
    np.save(tmp_path / "X.npy", data)
    frame = pd.DataFrame(data).assign(task=np.arange(150))[::-1]
    expected = CrowdLayer(epochs=1).fit(data[tasks], answers).proba_
    for source in (tmp_path / "X.npy", frame):
        np.testing.assert_array_equal(CrowdLayer(epochs=1).fit(source, answers).proba_, expected)
