"""Tests of the real data sets: set CROWDWISE_DATA to their folder."""

from __future__ import annotations

import gzip
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from crowdwise import datasets
from crowdwise.datasets import gas_drift, integrity, labelme, music
from crowdwise.errors import FormatError
from crowdwise.learn.features.sources import open_source

REAL = os.environ.get("CROWDWISE_DATA")
# Majority vote from the README of the data folder; ties were broken at random once, hence the tolerance.
VOTES = {
    "labelme": 0.767, "music": 0.704, "product": 0.897, "truth/bluebird": 0.759, "truth/dog": 0.826, "truth/rte": 0.895,
    "truth/web": 0.731, "truth/d_possent": 0.933, "truth/face": 0.638, "truth/s_rel": 0.540, "truth/weather_cf": 0.875,
    "truth/zencrowd_us": 0.863, "truth/leaves": 0.640, "truth/fej2013": 0.902,
}  # fmt: skip


def require_data(name: str) -> Path:
    if not REAL or not (Path(REAL) / name).is_dir():
        message = f"real data not checked: set CROWDWISE_DATA to the folder that holds {name}/"
        warnings.warn(message, stacklevel=2)  # pytest lists warnings even where it hides the reasons of skips
        pytest.skip(message)
    return Path(REAL) / name


@pytest.mark.parametrize("name", datasets.names())
def test_every_data_set_loads_and_passes_its_checks(name):
    if datasets._ENTRIES[name].needs:
        require_data(name)
    data = datasets.load(name)
    for X, truth in data.splits.values():
        assert X is None or (X.dtype == np.float32 and len(X) == len(truth) and np.isfinite(X).all())
    if data.answers is not None:
        codes = data.answers.truth
        assert (codes is not None) and len(codes) == data.answers.n_tasks == len(data.truth)
        assert (data.classes[codes[codes >= 0]] == data.truth[codes >= 0]).all()
        assert all(known is None for known in data.truth[codes < 0])
        assert data.X is None or len(data.X) == data.answers.n_tasks
    if name in VOTES:
        assert integrity.measure(data).majority_vote == pytest.approx(VOTES[name], abs=0.008)


def test_labelme_matches_its_files():
    folder = require_data("labelme")
    data = datasets.load("labelme")
    with np.load(folder / "features.npz", allow_pickle=False) as file:
        assert (file["X_train"] == data.X).all() and (data.X_test == file["X_test"]).all()
        assert (data.truth == file["classes"][file["y_train"]]).all()
        assert (data.truth_valid == file["classes"][file["y_valid"]]).all()
    assert (data.answers.tasks == np.arange(1000)).all()
    found = integrity.measure(data)
    assert (found.answer_imbalance, found.truth_imbalance, found.test_imbalance) == (2.4802, 1.7303, 1.541)


def test_cifar10h_has_its_counts_and_cifar10n_its_first_features():
    require_data("cifar10h"), require_data("cifar10n")
    data = datasets.load("cifar10h")
    counts = data.extra["counts"]
    assert counts.shape == (10000, 10) and len(data.extra["X_all"]) == len(data.extra["truth_all"]) == 10000
    rows = data.answers.tasks
    assert (data.extra["X_all"][rows] == data.X).all() and (data.truth == data.extra["truth_all"][rows]).all()
    votes = np.zeros((500, 10), int)
    np.add.at(votes, (data.answers.task, data.answers.label), 1)
    assert np.corrcoef(votes.ravel(), counts[rows].ravel())[0, 1] > 0.99  # the columns are in the same order of classes
    more = datasets.load("cifar10n")
    assert len(more.extra["X_first"]) == more.answers[:10000].n_tasks == 10000


@pytest.mark.parametrize(("name", "sizes"), [("labelme", (1000, 500, 1188)), ("dogs_vs_cats", (10000,))])
def test_images_are_read_on_first_access(name, sizes):
    pytest.importorskip("PIL")
    require_data(name)
    images = datasets.load(name).images
    assert tuple(len(images[split]) for split in images) == sizes
    batch = open_source(images["train"]).rows(np.arange(2))
    assert batch.shape[:2] == (2, 3) and images["train"] is images["train"]
    np.testing.assert_array_equal(open_source(images["train"][1:3]).rows(np.arange(1)), batch[1:])


def test_product_texts_follow_the_tasks():
    require_data("product")
    data = datasets.load("product")
    assert {len(column) for column in data.texts.values()} == {data.answers.n_tasks}
    assert data.texts["left_name"][0].startswith("Netgear ProSafe") and len(data.extra["names"]) == 12


@pytest.mark.parametrize("name", ["labelme", "truth/rte"])
def test_two_swapped_labels_in_a_real_copy_are_rejected(home, tmp_path, monkeypatch, name):
    shutil.copytree(require_data(name), tmp_path / name, ignore=shutil.ignore_patterns("images*"))
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    datasets.load(name)
    table = next((tmp_path / name).glob("answers.csv*"))
    table.chmod(0o644), table.parent.chmod(0o755)
    lines = (gzip.decompress(table.read_bytes()) if table.suffix == ".gz" else table.read_bytes()).decode().splitlines()
    first, last = next((a, b) for a in range(1, 9) for b in range(9, 99) if lines[a][-1] != lines[b][-1])
    swapped = [line.rsplit(",", 1)[1] for line in (lines[last], lines[first])]
    for row, label in zip((first, last), swapped, strict=True):  # class counts stay the same
        lines[row] = f"{lines[row].rsplit(',', 1)[0]},{label}"
    body = ("\n".join(lines) + "\n").encode()
    table.write_bytes(gzip.compress(body) if table.suffix == ".gz" else body)
    with pytest.raises(
        FormatError, match=rf"{name} in .* is not the expected data: .*(accuracy|vote|digest of answers)"
    ):
        datasets.load(name)


@pytest.mark.parametrize(
    ("array", "change", "statistic"),
    [
        ("y_test", lambda y: np.random.default_rng(0).permutation(y), "digest of truth_test is"),
        ("X_test", lambda X: 0 * X, "projection of X_test is"),
        ("X_test", lambda X: X[:, :50], r"shape of X_test is \(300, 50\), expected \(300, 124\)"),
        ("X_test", lambda X: X[:200], r"y_test is int64 of shape \(300,\), not one code for each of 200 tasks"),
        ("X_train", lambda X: np.random.default_rng(0).permutation(X), "projection of X is"),
    ],
)
def test_a_changed_array_in_a_real_copy_is_rejected(home, tmp_path, monkeypatch, array, change, statistic):
    shutil.copytree(require_data("music"), tmp_path / "music", copy_function=shutil.copyfile)
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    (tmp_path / "music").chmod(0o755)  # the original may be read-only
    datasets.load("music")
    file = tmp_path / "music" / "features.npz"
    with np.load(file) as stored:
        parts = dict(stored)
    np.savez(file, **{**parts, array: change(parts[array])})
    with pytest.raises(FormatError, match=statistic):
        datasets.load("music")


def write_originals(name: str, folder: Path, raw: Path, archive) -> None:
    """Rebuild the original files from the real data, in their published form."""
    if name.startswith("truth/"):
        for ours, theirs in (("answers.csv.gz", "label.csv"), ("truth.csv.gz", "truth.csv")):
            (raw / theirs).write_bytes(gzip.decompress((folder / ours).read_bytes()).replace(b"task", b"item", 1))
        return
    with np.load(folder / "features.npz", allow_pickle=False) as file:
        stored = dict(file)
    if name == "labelme":
        labels = np.full((1000, 77), -1)  # 77 workers hired, 18 of them without answers
        column = np.sort(np.random.default_rng(0).choice(77, 59, replace=False))
        for line in (folder / "answers.csv").read_text().splitlines()[1:]:
            task, worker, label = line.split(",")
            labels[int(task), column[int(worker[1:])]] = labelme.CLASSES.index(label)
        np.savetxt(raw / "answers.txt", labels, "%d")
        for split in labelme.SPLITS:
            np.save(raw / f"LabelMe_VGG_avg_{split}.npy", stored[f"X_{split}"])
            np.savetxt(raw / f"LabelMe_Z_{split}.txt", stored[f"y_{split}"], "%d")
    elif name == "music":
        tables = {}
        for split, table in (("train", music.TABLES[0]), ("test", music.TABLES[1])):
            rows = [
                ",".join([f"song{split}{i}", *map(repr, x.tolist()), str(stored["classes"][y])])
                for i, (x, y) in enumerate(zip(stored[f"X_{split}"], stored[f"y_{split}"], strict=True))
            ]
            tables[table] = "\n".join([",".join(["id", *(f"f{i}" for i in range(124)), "class"]), *rows])
        rows = [line.split(",") for line in (folder / "answers.csv").read_text().splitlines()[1:]]
        rows = [f"songtrain{t},0.5,A{w},{label}" for t, w, label in reversed(rows)]
        tables[music.TABLES[2]] = "\n".join(["id,f0,annotator,class", *rows])
        archive(raw / music.ARCHIVE.name, {f"music_genre_classification/{n}": t.encode() for n, t in tables.items()})
    elif name == "gas_drift":
        batches = {}
        for batch in range(1, 11):
            rows = stored["batch"] == batch
            lines = (
                f"{y + 1};{c:.6f} " + " ".join(f"{i + 1}:{v:.6f}" for i, v in enumerate(x)) + " "
                for x, y, c in zip(stored["X"][rows], stored["y"][rows], stored["concentration"][rows], strict=True)
            )
            batches[f"Dataset/batch{batch}.dat"] = ("\n".join(lines) + "\n").encode()
        archive(raw / "gas_drift.zip", batches)


@pytest.mark.parametrize("name", [n for n, e in datasets._ENTRIES.items() if e.prepare and n != "usps"])
def test_original_files_convert_to_the_same_data(home, serve, archive, tmp_path, monkeypatch, name):
    folder, raw = require_data(name), tmp_path / "raw"
    raw.mkdir()
    write_originals(name, folder, raw, archive)
    serve(name, raw)
    fetched = datasets.load(name, download=True)
    monkeypatch.setenv("CROWDWISE_DATA", REAL)
    ours = datasets.load(name)
    if ours.answers is not None and name != "music":  # music numbers its workers differently
        assert fetched.answers == ours.answers
    assert (fetched.truth == ours.truth).all() and (fetched.classes == ours.classes).all()
    for (X, truth), (X_ours, truth_ours) in zip(fetched.splits.values(), ours.splits.values(), strict=True):
        assert (truth == truth_ours).all()
        if X_ours is not None:
            np.testing.assert_allclose(X, X_ours, rtol=1e-4, atol=1e-5)
    for extra in ours.extra:
        np.testing.assert_allclose(fetched.extra[extra], ours.extra[extra], rtol=1e-5)


def test_gas_drift_has_eight_batches():
    require_data("gas_drift")
    assert np.unique(datasets.load("gas_drift").extra["batch"]).tolist() == list(gas_drift.BATCHES)
