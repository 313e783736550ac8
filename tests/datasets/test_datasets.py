"""Data sets are found, checked and downloaded; uses small synthetic folders, so that no data is needed."""

from __future__ import annotations

import bz2
import gzip
import io
import re
from pathlib import Path

import numpy as np
import pytest

from crowdwise import datasets
from crowdwise.datasets import cifar, integrity, labelme, usps
from crowdwise.datasets.base import EncodedImages
from crowdwise.errors import CrowdwiseError, FormatError, ParameterError
from crowdwise.learn.features.sources import open_features


def small(folder: Path, name: str = "truth/bluebird") -> Path:
    """Write a small data set in the layout of truth/*: three tasks, two of them with known truth."""
    folder = folder / name
    folder.mkdir(parents=True)
    write(folder / "answers.csv.gz", "task,worker,label\n7,0,1\n7,1,0\n8,0,1\n9,0,0\n9,1,0\n9,1,1\n")
    write(folder / "truth.csv.gz", "task,truth\n7,1\n9,2\n")
    return folder


def write(path: Path, text: str) -> None:
    with gzip.open(path, "wt") as file:
        file.write(text)


@pytest.fixture
def statistics_of_small(monkeypatch):
    """Expect the statistics of the small data set instead of those of bluebird."""
    expected = integrity.Statistics(
        3, classes=3, workers=2, answers=5, known=2, answer_accuracy=0.25, majority_vote=0.25
    )
    monkeypatch.setitem(integrity.EXPECTED, "truth/bluebird", expected)


def test_every_data_set_has_statistics_a_licence_and_instructions():
    assert len(datasets.names()) == len(set(datasets.names())) == 20
    assert set(integrity.EXPECTED) == set(datasets.names())
    for name, entry in datasets._ENTRIES.items():
        assert entry.licence.endswith(".") and entry.source, name
        if entry.needs:  # downloaded or prepared by hand, never both
            assert (entry.prepare is None) == bool(entry.by_hand) == (not entry.files), name


def test_loading_a_small_set(home, tmp_path, monkeypatch, statistics_of_small):
    small(tmp_path)
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    data = datasets.load("truth/bluebird")
    assert data.answers.truth.tolist() == [1, -1, 2] and data.truth.tolist() == [1, None, 2]
    assert data.answers.removed == {"answers a worker gave twice": 1}
    assert data.splits.keys() == {"train"} and data.sizes["train"] == 3 and data.X is None
    assert repr(data) == "Dataset('truth/bluebird': tasks 3 train; 2 workers, 5 answers, 3 classes)"
    assert "Welinder" in data.licence and data.source.startswith("https://")


def test_statistics_computed_by_hand(home, tmp_path):
    data = datasets.truth_sets.load(small(tmp_path), name="bluebird")
    found = integrity.measure(data)
    assert (found.train, found.workers, found.answers, found.known, found.classes) == (3, 2, 5, 2, 3)
    assert found.answer_accuracy == 0.25  # one of the four answers to tasks with known truth is right
    assert found.majority_vote == 0.25  # two tasks: one wrong, one tied between right and wrong
    assert found.answer_imbalance == 1.5 and found.truth_imbalance == 1.0


def test_the_environment_comes_before_the_cache(home, tmp_path, monkeypatch, statistics_of_small):
    write(small(home) / "truth.csv.gz", "task,truth\n7,1\n")  # wrong; must not be read
    small(tmp_path / "mine")
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path / "mine"))
    assert datasets.load("truth/bluebird").answers.n_tasks == 3
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(FormatError, match=re.escape(str(home))):
        datasets.load("truth/bluebird")


def test_the_error_for_missing_data_lists_three_remedies(home, tmp_path, monkeypatch):
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    (small(tmp_path) / "truth.csv.gz").unlink()
    with pytest.raises(CrowdwiseError) as caught:
        datasets.load("truth/bluebird")
    message = str(caught.value)
    assert f"{tmp_path / 'truth' / 'bluebird'} (missing: truth.csv.gz)" in message
    assert "download=True" in message and "set CROWDWISE_DATA" in message and f"into {home}" in message


@pytest.mark.parametrize("name", [n for n, e in datasets._ENTRIES.items() if e.by_hand])
def test_data_that_cannot_be_downloaded_says_where_to_get_it(home, name):
    for ask in (lambda: datasets.load(name), lambda: datasets.load(name, download=True), lambda: datasets.fetch(name)):
        with pytest.raises(CrowdwiseError, match="cannot be downloaded") as caught:
            ask()
        assert all(file in str(caught.value) for file in datasets._ENTRIES[name].needs)
        assert f"{name}/" in str(caught.value) and "http" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "near"), [("labelmee", "labelme"), ("bluebird", "truth/bluebird"), ("CIFAR-10H", "cifar10h")]
)
def test_an_unknown_name_suggests_the_nearest(name, near):
    with pytest.raises(ParameterError, match=rf"unknown data set '{name}'.*'{near}'"):
        datasets.load(name)
    with pytest.raises(ParameterError, match=r"see datasets\.names"):
        datasets.load("qqqqqqqq")


def test_flags_must_be_booleans():
    with pytest.raises(ParameterError, match="download must be True or False, not 'yes'"):
        datasets.load("digits", download="yes")


def test_simulated_sets_need_no_folder_and_no_download(home):
    data = datasets.load("digits")
    assert data.X.dtype == np.float32 and set(data.splits) == {"train"}
    with pytest.raises(CrowdwiseError, match="nothing to download"):
        datasets.fetch("digits")
    assert not home.exists()


# Damage


@pytest.mark.parametrize(
    ("file", "text", "statistic"),
    [
        ("answers.csv.gz", "task,worker,label\n7,0,0\n7,1,0\n8,0,1\n9,0,0\n9,1,1\n", "answer accuracy is 0.0, exp"),
        ("answers.csv.gz", "task,worker,label\n7,0,1\n7,1,0\n8,0,1\n9,0,0\n", "answers is 4, expected 5"),
        ("truth.csv.gz", "task,truth\n7,1\n", "classes is 2, expected 3"),
    ],
)  # fmt: skip
def test_a_changed_copy_is_rejected_with_the_statistic(
    home, tmp_path, monkeypatch, statistics_of_small, file, text, statistic
):
    folder = small(tmp_path)
    write(folder / file, text)
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    with pytest.raises(FormatError, match=f"truth/bluebird in .*{statistic}.*check=False"):
        datasets.load("truth/bluebird")
    assert datasets.load("truth/bluebird", check=False).answers.n_tasks == 3


@pytest.mark.parametrize("keep", [0, 100, 0.5, -5])
def test_a_truncated_npz_is_rejected_by_name(tmp_path, keep):
    file = tmp_path / "features.npz"
    np.savez_compressed(file, X=np.random.default_rng(0).random((50, 256)), y=np.zeros(50, np.int8))
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(FormatError, match=r"features.npz is damaged.*intact copy"):
        usps.load(tmp_path)


def test_flipped_bytes_missing_arrays_and_pickles_are_rejected(tmp_path):
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
    ("changed", "message"),
    [
        ({"y_train": np.array([1, 2])}, r"y_train\[1\] is 2, but class codes range from 0 to 1"),
        ({"y_test": np.array([0, -1, 1])}, r"y_test\[1\] is -1"),
        ({"y_test": np.array([0.0, 1.0, 1.0])}, r"y_test is float64 of shape \(3,\)"),
        ({"y_train": np.array([1])}, r"y_train is int64 of shape \(1,\), not one code for each of 2 tasks"),
        ({"X_test": np.ones((2, 2))}, r"y_test is int64 of shape \(3,\), not one code for each of 2 tasks"),
        ({"X_test": np.ones(3)}, r"features have shape \(3,\)"),
    ],
)
def test_inconsistent_arrays_are_rejected_by_name(home, tmp_path, monkeypatch, changed, message):
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    tiny_music(tmp_path)
    assert datasets.load("music", check=False).truth_test.tolist() == ["jazz", "rock", "rock"]
    tiny_music(tmp_path, **changed)
    with pytest.raises(FormatError, match=rf"features\.npz: {message}.*Replace the file with an intact copy"):
        datasets.load("music", check=False)


def tiny_cifar10h(folder: Path, tasks: str = "34", **changed: np.ndarray) -> None:
    write(folder / "answers_500.csv.gz", "task,worker,label\n" + "".join(f"{t},a,1\n{t},b,0\n" for t in tasks))
    parts = {"counts": np.ones((5, 2), int), "y": np.array([0, 1, 0, 1, 0]), "classes": np.array(["cat", "dog"])}
    np.savez(folder / "counts.npz", **{**parts, **changed})
    np.savez(folder / "features.npz", X=np.ones((5, 3)))


def test_inconsistent_cifar_files_are_rejected(tmp_path):
    tiny_cifar10h(tmp_path)
    assert cifar.load_10h(tmp_path).truth.tolist() == ["dog", "cat"]
    for changed, message in (
        ({"counts": np.ones((4, 2), int)}, r"counts have shape \(4, 2\) for 5 images"),
        ({"y": np.array([0, 1, 0, 1, 7])}, r"y\[4\] is 7"),
        ({"tasks": "35"}, "tasks are not rows of the 5 images"),
        ({"tasks": "3x"}, "tasks are not rows of the 5 images"),
    ):
        tiny_cifar10h(tmp_path, **changed)
        with pytest.raises(FormatError, match=message):
            cifar.load_10h(tmp_path)
    codes = {"y": np.array([0, 1]), "classes": np.array(["cat", "dog"]), "workers": np.zeros((2, 3), int)}
    np.savez(tmp_path / "labels.npz", labels=np.zeros((2, 2), int), **codes)
    with pytest.raises(FormatError, match=r"have shapes \(2, 3\) and \(2, 2\)"):
        cifar.load_10n(tmp_path)


def test_usps_is_converted_from_libsvm_files(tmp_path):
    for file, label, pixel in zip(usps.FILES, (7, 10), (-1, 1), strict=True):
        (tmp_path / file.name).write_bytes(bz2.compress(f"{label} 1:{pixel} 2:0 256:1\n".encode()))
    usps.prepare(tmp_path, tmp_path)
    data = usps.load(tmp_path)
    assert data.truth.tolist() == [6, 9] and data.X.shape == (2, 256)
    assert data.X[:, [0, 1, 255]].tolist() == [[0, 127, 255], [255, 127, 255]]


# Downloads


def write_originals(folder):
    (folder / "label.csv").write_text("item,worker,label\n7,0,1\n7,1,0\n8,0,1\n9,0,0\n9,1,0\n9,1,1\n")
    (folder / "truth.csv").write_text("item,truth\n7,1\n9,2\n")


def test_download_then_cache_without_network(home, server, serve, tmp_path, monkeypatch, statistics_of_small):
    write_originals(tmp_path)
    serve("truth/bluebird", tmp_path)
    assert datasets.load("truth/bluebird", download=True).answers.n_answers == 5
    server.close()
    for download in (False, True):
        assert datasets.load("truth/bluebird", download=download).answers.n_answers == 5
    assert datasets.fetch("truth/bluebird") == home / "truth" / "bluebird" and len(server.requests) == 2
    assert sorted(p.name for p in home.iterdir()) == ["original", "truth"]  # no temporary folder is left


def test_fetch_into_a_folder_for_crowdwise_data(home, server, serve, tmp_path, monkeypatch, statistics_of_small):
    write_originals(tmp_path)
    serve("truth/bluebird", tmp_path)
    folder = datasets.fetch("truth/bluebird", tmp_path / "mine")
    assert folder == tmp_path / "mine" / "truth" / "bluebird" and not home.exists()
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path / "mine"))
    assert datasets.load("truth/bluebird").answers.n_answers == 5


def test_downloaded_data_must_have_the_expected_statistics(home, server, serve, tmp_path, monkeypatch):
    write_originals(tmp_path)  # not the real bluebird
    serve("truth/bluebird", tmp_path)
    with pytest.raises(FormatError, match="train is 3, expected 108"):
        datasets.fetch("truth/bluebird")
    assert not (home / "truth").exists()


def test_invalid_original_files_are_rejected(home, server, serve, tmp_path, monkeypatch):
    write_originals(tmp_path)
    (tmp_path / "label.csv").write_text("<html>gone</html>")
    serve("truth/bluebird", tmp_path)
    with pytest.raises(FormatError, match=r"label\.csv begins with '<html>"):
        datasets.fetch("truth/bluebird")
    for file in labelme.FILES:
        (tmp_path / file.name).write_text("gone")
    serve("labelme", tmp_path)
    with pytest.raises(CrowdwiseError, match=r"the original files of labelme in .* are invalid"):
        datasets.fetch("labelme")
    assert sorted(p.name for p in home.iterdir()) == ["original"]


# Images


def test_encoded_images_are_features(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), np.uint8)
    encoded = []
    for each in pixels:
        stream = io.BytesIO()
        image.fromarray(each).save(stream, "PNG")
        encoded.append(stream.getvalue())
    offsets = np.cumsum([0, *map(len, encoded)])
    images = EncodedImages(np.frombuffer(b"".join(encoded), np.uint8), offsets)
    assert [len(images), images[-1], len(images[5:])] == [3, encoded[2], 0]
    for part, expected in ((images, pixels), (images[1:], pixels[1:])):
        features = open_features(part)
        np.testing.assert_allclose(features.rows(np.arange(len(part))), expected.transpose(0, 3, 1, 2) / 255, atol=1e-6)
    with pytest.raises(IndexError, match="step 1"):
        images[::2]
