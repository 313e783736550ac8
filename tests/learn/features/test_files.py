import gzip
import io
import re
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import crowdwise as cw
from crowdwise import Answers
from crowdwise._core.installation import install_command
from crowdwise.errors import CrowdwiseError, FeaturesError, FormatError, MissingDependencyError
from crowdwise.learn.features import open_features

RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(-9, 9, (7, 3)).astype(np.float64)
BYTES = RNG.integers(0, 256, (5, 6, 5, 3), dtype=np.uint8)


def answers_for(tasks):
    return Answers.from_arrays(tasks, ["w"] * len(tasks), ["x", *["y"] * (len(tasks) - 1)], tasks=tasks)


@pytest.mark.parametrize("ids", [list("abcdefg"), list(range(7))])
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "pandas", "polars"])
def test_tables_are_matched_to_tasks_by_id(ids, ending, tmp_path):
    frame = pd.DataFrame(NUMBERS, columns=["one", "two", "three"])
    frame.insert(1, "task_id", ids)
    frame = frame.iloc[np.arange(7)[::-1]]
    X = path = tmp_path / f"x.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)  # writes the index as a column, which is not a feature
    elif ending in ("pandas", "polars"):
        X = frame if ending == "pandas" else pl.from_pandas(frame)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ";" if ending == "csv" else ",")
    chosen = [4, 0, 5]
    features = open_features(X, answers_for([ids[i] for i in chosen]))
    np.testing.assert_array_equal(features.matrix(), NUMBERS[chosen])
    assert features.n_ignored == 4
    assert features.tasks.tolist() == [str(ids[i]) for i in chosen]
    np.testing.assert_array_equal(open_features(X).matrix(), NUMBERS[::-1])  # without answers, in file order
    with pytest.raises(FeaturesError, match=r"1 of 2 tasks have no features: '99'"):
        open_features(X, answers_for([ids[0], type(ids[0])(99)]))


def test_the_index_of_a_parquet_file_may_hold_the_ids(tmp_path):
    frame = pd.DataFrame({"one": [1.0, 2.0]}, index=["b", "a"])
    frame.to_parquet(tmp_path / "x.parquet")
    assert open_features(tmp_path / "x.parquet", answers_for(["a", "b"])).matrix().tolist() == [[2], [1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task,a,b\n1,2,red\n2,3,4\n", "column 'b' .*'red'"),
        ("task,a\n1,2\n1,3\n", "contains an id twice"),
        ("task,a\n1,2\n2,\n", "tasks 2"),
        ("a,b\n1,2\n", "no column of task ids among 'a', 'b'"),
        ("task,a\n1,2,3\n", "cannot be read: .*Expected 2 columns, got 3"),
    ],
)
def test_invalid_tables_are_rejected(text, message, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(CrowdwiseError, match=message):
        open_features(tmp_path / "x.csv", answers_for([1, 2]))


def test_csv_columns_may_be_boolean_or_become_fractional_late(tmp_path):
    lines = "".join(f"{i},{i},true\n" for i in range(100_000))  # beyond the first block that is parsed
    with gzip.open(tmp_path / "x.csv.gz", "wt") as stream:
        stream.write(f"task,a,b\n{lines}x,0.5,false\n")
    assert open_features(tmp_path / "x.csv.gz").matrix()[-2:].tolist() == [[99999, 1], [0.5, 0]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.npy", b"junk", "not a plain numpy file"),
        ("x.npz", b"PK\x03\x04junk", "cannot be read"),
        ("x.txt", b"1 2", ".npy, .npz, .csv"),
        ("x.npy", None, "no file or folder"),
        ("x.npy::a", None, "no file or folder"),
    ],
)
def test_invalid_files_are_rejected(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((FeaturesError, FormatError), match=message):
        open_features(tmp_path / name)


def test_pickles_are_never_loaded(tmp_path):
    objects = np.array([[{}, 1]], dtype=object)
    np.save(tmp_path / "x.npy", objects)
    np.savez(tmp_path / "x.npz", X=objects)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(FeaturesError, match="Python objects, which are not loaded"):
            open_features(tmp_path / name)


def test_an_npz_file_with_several_arrays_needs_a_choice(tmp_path):
    np.savez(tmp_path / "x.npz", X_train=NUMBERS, X_test=NUMBERS, y_train=[1])
    with pytest.raises(FeaturesError, match=r"splits: train, test\). Select a split with 'file.npz::train'"):
        open_features(tmp_path / "x.npz")
    with pytest.raises(FeaturesError, match="train, test"):
        open_features(f"{tmp_path / 'x.npz'}::other")
    assert open_features(f"{tmp_path / 'x.npz'}::X_test").n_rows == 7
    np.savez(tmp_path / "y.npz", a=[1], b=[2])
    with pytest.raises(FeaturesError, match=r"which array holds the features: a, b\. Save the features as X"):
        open_features(tmp_path / "y.npz")


# Encoded images


@pytest.fixture
def pillow():
    return pytest.importorskip("PIL.Image", reason="Pillow is not installed (crowdwise[images]): images are NOT tested")


@pytest.fixture
def folder(tmp_path, pillow):
    home = tmp_path / "images"
    (home / "more").mkdir(parents=True)
    for name, pixels in zip(["b.png", "a.png", "more/a.png", "10.PNG", "c.d.png"], BYTES, strict=True):
        pillow.fromarray(pixels).save(home / name)
    (home / "notes.txt").write_text("not an image")
    return home


EXPECTED = BYTES.transpose(0, 3, 1, 2) / np.float32(255)


def test_images_in_a_folder_are_matched_to_tasks_by_name(folder):
    features = open_features(folder, answers_for(["c.d", "more/a", "b.png"]))
    assert (features.n_rows, features.shape, features.n_ignored) == (3, (3, 6, 5), 2)
    np.testing.assert_array_equal(features.rows(np.array([1, -1, 0])), EXPECTED[[2, 0, 4]])
    np.testing.assert_array_equal(features.matrix(), EXPECTED[[4, 2, 0]].reshape(3, -1))
    np.testing.assert_array_equal(open_features(str(folder), answers_for([10])).rows(np.array([0])), EXPECTED[[3]])
    everything = open_features(folder)
    assert everything.tasks.tolist() == ["10.PNG", "a.png", "b.png", "c.d.png", "more/a.png"]
    np.testing.assert_array_equal(next(everything.blocks()), EXPECTED[[3, 1, 0, 4, 2]])


def test_invalid_folders_are_rejected(folder, pillow):
    with pytest.raises(FeaturesError, match=r"2 of 3 tasks have no features: 'x', 'a.jpg'"):
        open_features(folder, answers_for(["a", "x", "a.jpg"]))
    pillow.fromarray(BYTES[0]).save(folder / "a.bmp")
    with pytest.raises(FeaturesError, match="several files match task 'a'"):
        open_features(folder, answers_for(["a", "b"]))
    assert open_features(folder, answers_for(["a.png"])).n_rows == 1
    pillow.fromarray(BYTES[0, 1:]).save(folder / "z.png")
    with pytest.raises(FeaturesError, match=r"z.png has 5 x 5 pixels, the first 5 x 6.*encode_images"):
        open_features(folder)
    (folder / "z.png").write_bytes(b"junk")
    with pytest.raises(FeaturesError, match=r"image z.png cannot be decoded"):
        open_features(folder)
    (folder / "empty").mkdir()
    with pytest.raises(FeaturesError, match="the folder has no images"):
        open_features(folder / "empty")


def encoded(pillow, arrays):
    files = []
    for pixels in arrays:
        stream = io.BytesIO()
        pillow.fromarray(pixels).save(stream, "png")
        files.append(stream.getvalue())
    return np.frombuffer(b"".join(files), np.uint8), np.cumsum([0, *map(len, files)])


def test_an_npz_file_may_hold_encoded_images(tmp_path, pillow):
    data, offsets = encoded(pillow, BYTES)
    path = tmp_path / "x.npz"
    np.savez(path, jpeg=data, offsets=offsets, y=np.zeros(5))
    np.testing.assert_array_equal(open_features(path).rows(np.array([4, -4])), EXPECTED[[4, 1]])
    np.savez(path, jpeg_train=data, offsets_train=offsets, jpeg_test=data, offsets_test=offsets[:3])
    assert open_features(f"{path}::test").n_rows == 2
    with pytest.raises(FeaturesError, match=r"splits: train, test.*::train"):
        open_features(path)
    np.savez(path, jpeg=data[:-9], offsets=offsets)
    with pytest.raises(FeaturesError, match="increasing offsets into it"):
        open_features(path)


def test_datasets_may_return_pillow_images(pillow):
    images = [pillow.fromarray(pixels) for pixels in BYTES]
    np.testing.assert_array_equal(open_features(images).rows(np.array([2])), EXPECTED[[2]])
    assert open_features([(image.convert("L"), 0) for image in images]).shape == (1, 6, 5)
    assert open_features([image.convert("RGBA") for image in images]).shape == (3, 6, 5)


def test_images_without_pillow_name_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("images"))):
        open_features(tmp_path)


def test_escaped_ids_are_matched_and_columns_must_keep_their_order(tmp_path):
    """`write` escapes ids that a spreadsheet would execute."""
    answers = cw.Answers.from_arrays(["=a", "=a", "b", "b"], list("xyxy"), [0, 0, 1, 1])
    (tmp_path / "X.csv").write_text("task,height,width\n'=a,1,2\nb,3,4\n")
    model = cw.Raykar(max_iter=2, tol=0).fit(tmp_path / "X.csv", answers)
    assert model.columns_in_ == ["height", "width"]
    (tmp_path / "turned.csv").write_text("task,width,height\nc,1,2\n")
    with pytest.raises(FeaturesError, match=r"'width'.*'height'"):
        model.predict(tmp_path / "turned.csv")
    assert model.predict(np.array([[1.0, 2.0]])).shape == (1,)
