import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import crowdwise as cw
from crowdwise.errors import ModelFileError, NotFittedError


@pytest.fixture
def model():
    answers = cw.Answers.from_arrays([1, 1, 2, 2], ["é", "b", "é", "b"], [True, True, False, False])
    return cw.DawidSkene(prior=np.array([[2.0, 0.5], [0.5, 2.0]])).fit(answers, gold={1: True})


def test_array_parameters_and_types_survive(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = cw.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.prior, model.prior)
    assert loaded.labels_.tolist() == [True, False]
    assert loaded.workers_.tolist() == ["b", "é"]
    assert loaded.gold_.tolist() == [1, -1]
    assert loaded.converged_ is True


def test_a_loaded_model_goes_on(model, tmp_path):
    model.save(tmp_path / "m")
    more = cw.Answers.from_arrays([3], ["b"], [False])
    np.testing.assert_array_equal(cw.load(tmp_path / "m").partial_fit(more).proba_, model.partial_fit(more).proba_)


def test_nothing_half_written_is_left(model, tmp_path):
    model.save(tmp_path / "m")
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    with pytest.raises(ModelFileError, match="cannot be written"):
        model.save(tmp_path / "no" / "folder")
    with pytest.raises(NotFittedError):
        cw.DawidSkene().save(tmp_path / "n")


def test_bad_files(model, tmp_path):
    good = tmp_path / "good"
    model.save(good)
    with pytest.raises(ModelFileError, match="no model"):
        cw.load(tmp_path / "absent")
    cut = tmp_path / "cut"
    cut.write_bytes(good.read_bytes()[:-20])
    with pytest.raises(ModelFileError, match="damaged"):
        cw.load(cut)
    (tmp_path / "noise").write_bytes(b"not a model at all")
    with pytest.raises(ModelFileError, match="damaged"):
        cw.load(tmp_path / "noise")
    save_file({"x": np.zeros(2)}, tmp_path / "other")
    with pytest.raises(ModelFileError, match="no crowdwise model"):
        cw.load(tmp_path / "other")


@pytest.mark.parametrize(
    ("change", "message"),
    [({"version": 99}, "upgrade"), ({"method": "no-such"}, "damaged"), ({"parameters": {"x": 1}}, "damaged"),
     ({"scalars": 3}, "damaged")],
)  # fmt: skip
def test_changed_headers(model, tmp_path, change, message):
    model.save(tmp_path / "m")
    from safetensors import safe_open

    with safe_open(tmp_path / "m", framework="numpy") as file:
        header = json.loads(file.metadata()["crowdwise"])
    save_file(load_file(tmp_path / "m"), tmp_path / "n", metadata={"crowdwise": json.dumps(header | change)})
    with pytest.raises(ModelFileError, match=message):
        cw.load(tmp_path / "n")
