"""Data sets are found, checked, refused and fetched: in made-up folders, so that it needs no data."""

from __future__ import annotations

import bz2
import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from crowdwise import datasets
from crowdwise.datasets import cifar, facts, labelme, usps
from crowdwise.errors import CrowdwiseError, FormatError, ParameterError

pytest_plugins = ["dataset_server"]  # fixtures home, server, serve, archive


def small(folder: Path, name: str = "truth/bluebird") -> Path:
    """A made-up set in the layout of truth/*: three tasks, truth of two."""
    folder = folder / name
    folder.mkdir(parents=True)
    write(folder / "answers.csv.gz", "task,worker,label\n7,0,1\n7,1,0\n8,0,1\n9,0,0\n9,1,0\n9,1,1\n")
    write(folder / "truth.csv.gz", "task,truth\n7,1\n9,2\n")
    return folder


def write(path: Path, text: str) -> None:
    with gzip.open(path, "wt") as file:
        file.write(text)


@pytest.fixture
def facts_of_small(monkeypatch):
    """Assert the figures of the made-up set instead of bluebird's."""
    expected = facts.Facts(3, classes=3, workers=2, answers=5, known=2, answer_accuracy=0.25, majority_vote=0.25)
    monkeypatch.setitem(facts.FACTS, "truth/bluebird", expected)


def test_every_data_set_has_facts_licence_and_a_way_to_get_it():
    assert len(datasets.names()) == len(set(datasets.names())) == 21
    assert set(facts.FACTS) == set(datasets.names())
    for name, entry in datasets._ENTRIES.items():
        assert entry.licence.endswith(".") and entry.source, name
        if entry.needs:  # fetched, or by hand; never both
            assert (entry.prepare is None) == bool(entry.by_hand) == (not entry.files), name


def test_loading_a_small_set(home, tmp_path, monkeypatch, facts_of_small):
    small(tmp_path)
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    data = datasets.load("truth/bluebird")
    assert data.answers.truth.tolist() == [1, -1, 2] and data.truth.tolist() == [1, None, 2]
    assert data.answers.removed == {"answers a worker gave twice": 1}
    assert data.splits.keys() == {"train"} and data.sizes["train"] == 3 and data.X is None
    assert repr(data) == "Dataset('truth/bluebird': tasks 3 train; 2 workers, 5 answers, 3 classes)"
    assert "Welinder" in data.licence and data.source.startswith("https://")


def test_measures_by_hand(home, tmp_path):
    data = datasets.truth_sets.load(small(tmp_path), name="bluebird")
    found = facts.measure(data)
    assert (found.train, found.workers, found.answers, found.known, found.classes) == (3, 2, 5, 2, 3)
    assert found.answer_accuracy == 0.25  # of the four answers to tasks of known truth one is right
    assert found.majority_vote == 0.25  # of two tasks, one tied between right and wrong
    assert found.answer_imbalance == 1.5 and found.truth_imbalance == 1.0


def test_the_environment_comes_before_the_cache(home, tmp_path, monkeypatch, facts_of_small):
    write(small(home) / "truth.csv.gz", "task,truth\n7,1\n")  # wrong, and not to be read
    small(tmp_path / "mine")
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path / "mine"))
    assert datasets.load("truth/bluebird").answers.n_tasks == 3
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(FormatError, match=re.escape(str(home))):
        datasets.load("truth/bluebird")


def test_missing_data_says_the_three_remedies(home, tmp_path, monkeypatch):
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    (small(tmp_path) / "truth.csv.gz").unlink()
    with pytest.raises(CrowdwiseError) as caught:
        datasets.load("truth/bluebird")
    said = str(caught.value)
    assert f"{tmp_path / 'truth' / 'bluebird'} (no truth.csv.gz)" in said
    assert "download=True" in said and "set CROWDWISE_DATA" in said and f"into {home}" in said


@pytest.mark.parametrize("name", [n for n, e in datasets._ENTRIES.items() if e.by_hand])
def test_what_cannot_be_fetched_says_where_to_get_it(home, name):
    for ask in (lambda: datasets.load(name), lambda: datasets.load(name, download=True), lambda: datasets.fetch(name)):
        with pytest.raises(CrowdwiseError, match="cannot be fetched") as caught:
            ask()
        assert all(file in str(caught.value) for file in datasets._ENTRIES[name].needs)
        assert f"{name}/" in str(caught.value) and "http" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "near"), [("labelmee", "labelme"), ("bluebird", "truth/bluebird"), ("CIFAR-10H", "cifar10h")]
)
def test_an_unknown_name_gets_the_nearest(name, near):
    with pytest.raises(ParameterError, match=rf"no data set '{name}'.*'{near}'"):
        datasets.load(name)
    with pytest.raises(ParameterError, match=r"see datasets\.names"):
        datasets.load("qqqqqqqq")


def test_flags_are_flags():
    with pytest.raises(ParameterError, match="download='yes'"):
        datasets.load("digits", download="yes")


def test_made_sets_need_no_folder_and_are_not_fetched(home):
    data = datasets.load("gaussian")
    assert data.X.dtype == data.X_test.dtype == np.float32 and set(data.splits) == {"train", "test"}
    assert np.mean((data.X_test.sum(axis=1) > 0) == data.truth_test) == 0.941  # what METHODS has for these points
    with pytest.raises(CrowdwiseError, match="nothing to fetch"):
        datasets.fetch("gaussian")
    assert not home.exists()


# Damage


@pytest.mark.parametrize(
    ("file", "text", "figure"),
    [
        ("answers.csv.gz", "task,worker,label\n7,0,0\n7,1,0\n8,0,1\n9,0,0\n9,1,1\n", "answer accuracy is 0.0, exp"),
        ("answers.csv.gz", "task,worker,label\n7,0,1\n7,1,0\n8,0,1\n9,0,0\n", "answers is 4, expected 5"),
        ("truth.csv.gz", "task,truth\n7,1\n", "classes is 2, expected 3"),
    ],
)  # fmt: skip
def test_a_changed_copy_is_refused_by_the_figure(home, tmp_path, monkeypatch, facts_of_small, file, text, figure):
    folder = small(tmp_path)
    write(folder / file, text)
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    with pytest.raises(FormatError, match=f"truth/bluebird in .*{figure}.*check=False"):
        datasets.load("truth/bluebird")
    assert datasets.load("truth/bluebird", check=False).answers.n_tasks == 3


@pytest.mark.parametrize("keep", [0, 100, 0.5, -5])
def test_a_truncated_npz_is_refused_by_name(tmp_path, keep):
    file = tmp_path / "features.npz"
    np.savez_compressed(file, X=np.random.default_rng(0).random((50, 256)), y=np.zeros(50, np.int8))
    whole = file.read_bytes()
    file.write_bytes(whole[: int(keep * len(whole)) if isinstance(keep, float) else keep])
    with pytest.raises(FormatError, match=r"features.npz is damaged.*whole copy"):
        usps.load(tmp_path)


def test_flipped_bytes_missing_arrays_and_pickles_are_refused(tmp_path):
    file = tmp_path / "features.npz"
    np.savez(file, X=np.zeros((50, 256), np.uint8), y=np.zeros(50, np.int8))
    body = bytearray(file.read_bytes())
    body[5000] ^= 1
    file.write_bytes(body)
    with pytest.raises(FormatError, match="damaged"):
        usps.load(tmp_path)
    np.savez(file, X=np.zeros((50, 256)))
    with pytest.raises(FormatError, match="no array 'y"):
        usps.load(tmp_path)
    np.savez(file, X=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(FormatError, match="damaged"):
        usps.load(tmp_path)


def tiny_music(folder: Path, **changed: np.ndarray) -> Path:
    folder = folder / "music"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "answers.csv").write_text("task,worker,label\n0,a,rock\n0,b,jazz\n1,a,jazz\n")
    parts = {
        "X_train": np.eye(2),
        "X_test": np.ones((3, 2)),
        "y_train": np.array([1, 0]),
        "y_test": np.array([0, 1, 1]),
    }
    np.savez(folder / "features.npz", classes=np.array(["jazz", "rock"]), **{**parts, **changed})
    return folder


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"y_train": np.array([1, 2])}, r"y_train\[1\] is 2, but codes of classes go from 0 to 1"),
        ({"y_test": np.array([0, -1, 1])}, r"y_test\[1\] is -1"),
        ({"y_test": np.array([0.0, 1.0, 1.0])}, r"y_test is float64 of shape \(3,\)"),
        ({"y_train": np.array([1])}, r"y_train is int64 of shape \(1,\), not a code for each of 2 tasks"),
        ({"X_test": np.ones((2, 2))}, r"y_test is int64 of shape \(3,\), not a code for each of 2 tasks"),
        ({"X_test": np.ones(3)}, r"features have shape \(3,\)"),
    ],
)
def test_truth_that_does_not_fit_is_refused_by_name(home, tmp_path, monkeypatch, changed, said):
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    tiny_music(tmp_path)
    assert datasets.load("music", check=False).truth_test.tolist() == ["jazz", "rock", "rock"]
    tiny_music(tmp_path, **changed)
    with pytest.raises(FormatError, match=rf"features\.npz: {said}.*replace the file by a whole copy"):
        datasets.load("music", check=False)


def tiny_cifar10h(folder: Path, tasks: str = "34", **changed: np.ndarray) -> None:
    write(folder / "answers_500.csv.gz", "task,worker,label\n" + "".join(f"{t},a,1\n{t},b,0\n" for t in tasks))
    parts = {"counts": np.ones((5, 2), int), "y": np.array([0, 1, 0, 1, 0]), "classes": np.array(["cat", "dog"])}
    np.savez(folder / "counts.npz", **{**parts, **changed})
    np.savez(folder / "features.npz", X=np.ones((5, 3)))


def test_parts_of_cifar_that_do_not_go_together_are_refused(tmp_path):
    tiny_cifar10h(tmp_path)
    assert cifar.load_10h(tmp_path).truth.tolist() == ["dog", "cat"]
    for changed, said in (
        ({"counts": np.ones((4, 2), int)}, r"counts of shape \(4, 2\) for 5 images"),
        ({"y": np.array([0, 1, 0, 1, 7])}, r"y\[4\] is 7"),
        ({"tasks": "35"}, "tasks are not rows of the 5 images"),
        ({"tasks": "3x"}, "tasks are not rows of the 5 images"),
    ):
        tiny_cifar10h(tmp_path, **changed)
        with pytest.raises(FormatError, match=said):
            cifar.load_10h(tmp_path)
    codes = {"y": np.array([0, 1]), "classes": np.array(["cat", "dog"]), "workers": np.zeros((2, 3), int)}
    np.savez(tmp_path / "labels.npz", labels=np.zeros((2, 2), int), **codes)
    with pytest.raises(FormatError, match=r"shapes \(2, 3\) and \(2, 2\)"):
        cifar.load_10n(tmp_path)


def test_usps_is_made_of_libsvms_files(tmp_path):
    for file, label, pixel in zip(usps.FILES, (7, 10), (-1, 1), strict=True):
        (tmp_path / file.name).write_bytes(bz2.compress(f"{label} 1:{pixel} 2:0 256:1\n".encode()))
    usps.prepare(tmp_path, tmp_path)
    data = usps.load(tmp_path)
    assert data.truth.tolist() == [6, 9] and data.X.shape == (2, 256)
    assert data.X[:, [0, 1, 255]].tolist() == [[0, 127, 255], [255, 127, 255]]


# Fetching


def raw_small(folder):
    (folder / "label.csv").write_text("item,worker,label\n7,0,1\n7,1,0\n8,0,1\n9,0,0\n9,1,0\n9,1,1\n")
    (folder / "truth.csv").write_text("item,truth\n7,1\n9,2\n")


def test_download_then_cache_without_network(home, server, serve, tmp_path, monkeypatch, facts_of_small):
    raw_small(tmp_path)
    serve("truth/bluebird", tmp_path)
    assert datasets.load("truth/bluebird", download=True).answers.n_answers == 5
    server.close()
    for download in (False, True):
        assert datasets.load("truth/bluebird", download=download).answers.n_answers == 5
    assert datasets.fetch("truth/bluebird") == home / "truth" / "bluebird" and len(server.asked) == 2
    assert sorted(p.name for p in home.iterdir()) == ["original", "truth"]  # no temporary folder is left


def test_fetch_into_a_folder_for_crowdwise_data(home, server, serve, tmp_path, monkeypatch, facts_of_small):
    raw_small(tmp_path)
    serve("truth/bluebird", tmp_path)
    folder = datasets.fetch("truth/bluebird", tmp_path / "mine")
    assert folder == tmp_path / "mine" / "truth" / "bluebird" and not home.exists()
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path / "mine"))
    assert datasets.load("truth/bluebird").answers.n_answers == 5


def test_what_is_fetched_must_have_the_figures(home, server, serve, tmp_path, monkeypatch):
    raw_small(tmp_path)  # not the real bluebird
    serve("truth/bluebird", tmp_path)
    with pytest.raises(FormatError, match="train is 3, expected 108"):
        datasets.fetch("truth/bluebird")
    assert not (home / "truth").exists()


def test_originals_of_another_form_are_refused(home, server, serve, tmp_path, monkeypatch):
    raw_small(tmp_path)
    (tmp_path / "label.csv").write_text("<html>gone</html>")
    serve("truth/bluebird", tmp_path)
    with pytest.raises(FormatError, match=r"label\.csv begins with '<html>"):
        datasets.fetch("truth/bluebird")
    for file in labelme.FILES:
        (tmp_path / file.name).write_text("gone")
    serve("labelme", tmp_path)
    with pytest.raises(CrowdwiseError, match=r"the originals of labelme in .* are not as they should be"):
        datasets.fetch("labelme")
    assert sorted(p.name for p in home.iterdir()) == ["original"]
