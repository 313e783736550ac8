import enum
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sklearn.linear_model import SGDClassifier
from torch import nn

import crowdwise as cw
from crowdwise._core import checksums
from crowdwise.errors import ModelFileError, NotFittedError, ParameterError, UnwritableError
from crowdwise.io.id_bytes import ids_to_bytes
from crowdwise.io.model_files import KEY, VERSION, _Reader, _Writer, load_answers
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.crowdlayer import CrowdLayer
from crowdwise.learn.network.architectures import CNN, MLP, Logistic

VERSION_1 = Path(__file__).parents[1] / "fixtures" / "dawid_skene_v1.safetensors"  # written with format version 1


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


def test_a_loaded_model_continues_with_partial_fit(model, tmp_path):
    model.save(tmp_path / "m")
    more = cw.Answers.from_arrays([3], ["b"], [False])
    np.testing.assert_array_equal(cw.load(tmp_path / "m").partial_fit(more).proba_, model.partial_fit(more).proba_)


def test_a_failed_save_leaves_no_partial_file(model, tmp_path):
    model.save(tmp_path / "m")
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    with pytest.raises(UnwritableError, match=r"cannot be written.* Create the folder first"):
        model.save(tmp_path / "no" / "folder")
    with pytest.raises(NotFittedError):
        cw.DawidSkene().save(tmp_path / "n")


def test_a_model_is_loaded_from_its_folder(model, tmp_path):
    with pytest.raises(ModelFileError, match=r"no model file .*model\.safetensors"):
        cw.load(tmp_path)
    model.save(tmp_path / "model.safetensors")
    assert cw.load(tmp_path).labels_.tolist() == model.labels_.tolist()


def test_invalid_files_are_rejected(model, tmp_path):
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
    with pytest.raises(ModelFileError, match="not a crowdwise model"):
        cw.load(tmp_path / "other")


def rewrite(file, target, header=None, *, listed=False, **tensors):
    """Copy a file with another header and with tensors replaced or (None) removed; the checksum is valid.

    With `listed`, the list of tensors is valid as well.
    """
    remaining = {name: tensor for name, tensor in (load_file(file) | tensors).items() if tensor is not None}
    new_header = checksums.read_metadata(file, KEY, VERSION) | (header or {})
    if listed:
        new_header["tensors"] = {name: [str(tensor.dtype), *tensor.shape] for name, tensor in remaining.items()}
    checksums.write_with_checksum(
        target, KEY, new_header, lambda metadata: save_file(remaining, target, metadata=metadata)
    )
    return target


@pytest.mark.parametrize(
    ("change", "message"),
    [({"version": 99}, "upgrade"), ({"method": "no-such"}, "damaged"), ({"parameters": {"x": 1}}, "damaged"),
     ({"scalars": 3}, "damaged"), ({"scalars": {"a_": {"what": 1}}}, "damaged"), ({"tensors": {"no": [1]}}, "damaged")],
)  # fmt: skip
def test_changed_headers_are_rejected(model, tmp_path, change, message):
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match=message):
        cw.load(rewrite(tmp_path / "m", tmp_path / "n", change))


@pytest.mark.parametrize(
    ("name", "tensor"),
    [("fitted/proba_", None), ("fitted/proba_", np.zeros((3, 2))), ("fitted/proba_", np.zeros((2, 2), np.float32)),
     ("answers/task", None), ("answers/task_ids", None), ("answers/task", np.zeros(3, np.int32)),
     ("answers/task_ids", np.zeros(9, np.uint8))],
)  # fmt: skip
def test_changed_tensors_are_rejected(model, tmp_path, name, tensor):
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="damaged"):
        cw.load(rewrite(tmp_path / "m", tmp_path / "n", **{name: tensor}))


@pytest.mark.parametrize(
    ("name", "tensor"),
    [("worker", np.array([0, 1, 0, 2], np.int32)), ("label", np.array([0, 1, -1, 0], np.int32)),
     ("truth", np.array([2, 0], np.int32)), ("weight", np.ones(3))],
)  # fmt: skip
def test_invalid_answers_never_reach_compiled_code(model, tmp_path, name, tensor):
    """Also if the checksum and the list of tensors of the file are valid."""
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match=f"{name}"):
        cw.load(rewrite(tmp_path / "m", tmp_path / "n", listed=True, **{f"answers/{name}": tensor}))


def id_bytes(ends):
    """Return the ids of two workers as Arrow bytes with these offsets."""
    buffers = [None, pa.py_buffer(np.array(ends, np.int64)), pa.py_buffer(b"ab")]
    return ids_to_bytes(pa.Array.from_buffers(pa.large_string(), 2, buffers))


@pytest.mark.parametrize("ends", [[0, 2**40, 2], [0, 5, 2], [0, -8, 2], [0, 0, 0]], ids=str)
def test_invalid_offsets_and_duplicate_ids_are_rejected(model, tmp_path, ends):
    model.save(tmp_path / "m")
    good = rewrite(tmp_path / "m", tmp_path / "n", listed=True, **{"answers/worker_ids": id_bytes([0, 1, 2])})
    assert cw.load(good).workers_.tolist() == ["a", "b"]
    bad = rewrite(tmp_path / "m", tmp_path / "n", listed=True, **{"answers/worker_ids": id_bytes(ends)})
    for read in (cw.load, load_answers):
        with pytest.raises(ModelFileError, match="damaged"):
            read(bad)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [("fitted/proba_", np.array([[np.nan, 1], [0, 1]]), "not a probability"),
     ("fitted/codes_", np.array([0, 7]), "not a class"),
     ("fitted/codes_", np.array([0.0, 1.0]), "float64"), ("answers/task", np.array([0, 0, 1, 1]), "int32"),
     ("answers/task", np.array([1, 1, 0, 0], np.int32), "not sorted"),
     ("answers/weight", np.array([1, 1, np.nan, 1]), "not finite"), ("more", np.ones(2), "do not match the list")],
)  # fmt: skip
def test_results_that_no_fit_can_produce_are_rejected(model, tmp_path, name, tensor, message):
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match=message):
        cw.load(rewrite(tmp_path / "m", tmp_path / "n", listed=name != "more", **{name: tensor}))


@pytest.mark.parametrize("name", ["fit", "_tensors", "answers_", "__class__"])
def test_a_header_can_only_set_results(model, tmp_path, name):
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match=f"'{name}' is not a result"):
        cw.load(rewrite(tmp_path / "m", tmp_path / "n", {"scalars": {name: 3}}))


def test_files_of_version_1_load():
    answers = cw.Answers.from_arrays([1, 1, 2, 2, 3], ["é", "b", "é", "b", "b"], [True, True, False, False, True])
    again = cw.DawidSkene(prior=np.array([[2.0, 0.5], [0.5, 2.0]]), max_iter=50).fit(answers, gold={1: True})
    loaded = cw.load(VERSION_1)
    assert loaded.answers_ == answers
    assert loaded.max_iter == 50
    assert loaded.gold_.tolist() == [1, -1, -1]
    assert loaded.n_iter_ == again.n_iter_
    np.testing.assert_array_equal(loaded.prior, again.prior)
    np.testing.assert_allclose(loaded.confusion_, again.confusion_, rtol=1e-9)
    np.testing.assert_allclose(loaded.proba_, again.proba_, rtol=1e-9)


def test_plain_values_survive_saving():
    class Colour(enum.StrEnum):
        red = "red"

    value = {
        "none": None, "enum": Colour.red, "path": Path("a") / "b", "number": np.float64(0.5), "flag": np.bool_(True),
        "nested": [(1, (2.0, "x")), {"tensor": "not a marker", "deep": [np.arange(3)]}], "single": np.array(7),
    }  # fmt: skip
    writer = _Writer()
    saved = json.loads(json.dumps(writer.write_value(value, "here", "it")))
    back = _Reader(writer.tensors, None, "file").read_value(saved)
    assert (back["none"], back["enum"], back["path"]) == (None, "red", "a/b")
    assert (back["number"], back["flag"]) == (0.5, True)
    assert back["nested"][0] == (1, (2.0, "x"))
    assert back["nested"][1]["tensor"] == "not a marker"
    assert back["nested"][1]["deep"][0].tolist() == [0, 1, 2]
    assert back["single"].shape == ()
    assert sorted(writer.tensors) == ["here/nested/1/deep/0", "here/single"]


def test_a_file_has_the_default_permissions(model, tmp_path):
    model.save(tmp_path / "m")
    (tmp_path / "other").touch()
    assert (tmp_path / "m").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_user_defined_class_can_be_loaded_where_it_is_known(model, tmp_path, monkeypatch):
    class Mine(cw.DawidSkene):
        pass

    Mine(max_iter=7).fit(model.answers_).save(tmp_path / "m")
    assert repr(cw.load(tmp_path / "m")) == "Mine(max_iter=7)"
    monkeypatch.setattr("crowdwise._core.own_classes._KNOWN", {})
    with pytest.raises(ModelFileError, match=r"Mine of the module tests\.io\.test_model_files, whose code is not"):
        cw.load(tmp_path / "m")


# Learners


@pytest.fixture(scope="module")
def digits():
    X, answers = cw.simulate.digits_crowd()
    return X[:120], answers[np.arange(120)]


class Net(nn.Module):
    def __init__(self, n_classes=10):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, n_classes))

    def forward(self, x):
        return self.layers(x)


def assert_same(loaded, model, X):
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    assert loaded.answers_ == model.answers_
    assert loaded.history_ == model.history_
    assert loaded.shape_in_ == model.shape_in_
    np.testing.assert_array_equal(loaded.proba_, model.proba_)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    np.testing.assert_array_equal(loaded.confusion_, model.confusion_)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    worker = model.workers_[0]
    np.testing.assert_array_equal(loaded.answer_proba(X, worker), model.answer_proba(X, worker))


@pytest.mark.parametrize(
    "options",
    [{}, {"network": "mlp", "kind": "vw+b"}, {"network": Logistic(standardise=False), "n_models": 3},
     {"network": MLP((8, 6), batchnorm=True), "select": "held_out"}],
    ids=str,
)  # fmt: skip
def test_learners_are_restored_exactly(digits, tmp_path, options):
    X, answers = digits
    model = CrowdLayer(epochs=2, **options).fit(X, answers)
    model.save(tmp_path / "m")
    assert_same(cw.load(tmp_path / "m"), model, X)


def test_image_learners_and_scalar_tensors(digits, tmp_path):
    X, answers = digits
    images = (X.reshape(-1, 8, 8, 1) * 15).astype(np.uint8)
    model = CrowdLayer(epochs=1, network=CNN(channels=(2, 2), hidden=4)).fit(images, answers)
    model.save(tmp_path / "m")
    assert any(tensor.shape == () for tensor in load_file(tmp_path / "m").values())  # the batch counts of BatchNorm
    assert_same(cw.load(tmp_path / "m"), model, images)


@pytest.mark.parametrize("select", ["last", "held_out"])
def test_nested_models_keep_their_results(digits, tmp_path, select):
    """The answers are stored twice only if the inner model was fitted on other answers."""
    X, answers = digits
    model = Aggregated(cw.DawidSkene(prior=np.eye(10), max_iter=5), epochs=1, select=select)
    with pytest.warns(cw.errors.ConvergenceWarning):
        model.fit(X, answers, gold={answers.tasks[0]: answers.classes[1]})
    model.save(tmp_path / "m")
    loaded = cw.load(tmp_path / "m")
    assert_same(loaded, model, X)
    assert (loaded.truth_.answers_ is loaded.answers_) == (model.truth_.answers_ is model.answers_)
    assert loaded.truth_.answers_ == model.truth_.answers_
    np.testing.assert_array_equal(loaded.truth_.proba_, model.truth_.proba_)
    np.testing.assert_array_equal(loaded.truth.prior, np.eye(10))


def test_a_user_defined_network_is_passed_to_load(digits, tmp_path):
    X, answers = digits
    model = CrowdLayer(epochs=1, network=Net()).fit(X, answers)
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"your own torch module \(Net\).*network=Net\(\.\.\.\)"):
        cw.load(tmp_path / "m")
    loaded = cw.load(tmp_path / "m", network=Net())
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for other in (Net(9), nn.Linear(64, 10), nn.Linear(3, 10)):
        with pytest.raises(ModelFileError, match="does not fit this network"):
            cw.load(tmp_path / "m", network=other)


def test_an_unneeded_network_is_rejected(model, tmp_path):
    model.save(tmp_path / "m")
    with pytest.raises(ParameterError, match="leave out network="):
        cw.load(tmp_path / "m", network=Net())


@pytest.mark.parametrize(
    ("options", "message"),
    [({"network": SGDClassifier(loss="log_loss")}, r"network=.*SGDClassifier.*pickle.*'logistic'.*GaussianNB"),
     ({"scheduler": lambda done: 1 - done / 2}, r"scheduler=.*pickle.*'cosine'")],
)  # fmt: skip
def test_values_that_need_pickle_cannot_be_saved(digits, tmp_path, options, message):
    model = Aggregated(epochs=1, **options).fit(*digits)
    with pytest.raises(ModelFileError, match=message):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", ["missing", "shape", "type", "extra"])
def test_damaged_networks_are_rejected(digits, tmp_path, change):
    CrowdLayer(epochs=1, network="logistic").fit(*digits).save(tmp_path / "m")
    name = "module/network.head.weight"
    weight = load_file(tmp_path / "m")[name]
    new = {
        "missing": {name: None}, "shape": {name: weight[:, :-1]}, "type": {name: weight.astype(np.int64)},
        "extra": {"module/other": weight},
    }[change]  # fmt: skip
    with pytest.raises(ModelFileError, match="damaged"):
        cw.load(rewrite(tmp_path / "m", tmp_path / "n", **new))
    if change != "type":  # also if the list of tensors is valid
        with pytest.raises(ModelFileError, match="damaged"):
            cw.load(rewrite(tmp_path / "m", tmp_path / "n", listed=True, **new))


def test_a_network_with_non_finite_parameters_is_neither_saved_nor_loaded(digits, tmp_path):
    model = CrowdLayer(epochs=1, network="logistic").fit(*digits)
    model.save(tmp_path / "m")
    weight = load_file(tmp_path / "m")["module/network.head.weight"] * np.nan
    with pytest.raises(ModelFileError, match="not finite"):
        cw.load(rewrite(tmp_path / "m", tmp_path / "n", **{"module/network.head.weight": weight}))
    with torch.no_grad():
        next(model.module_.parameters()).fill_(float("inf"))
    with pytest.raises(ModelFileError, match="Retrain with a lower lr"):
        model.save(tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_loading_does_not_unpickle(digits, tmp_path, monkeypatch):
    CrowdLayer(epochs=1).fit(*digits).save(tmp_path / "m")

    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    for home, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(home, name, refuse)
    assert repr(cw.load(tmp_path / "m")) == "CrowdLayer(epochs=1)"


def test_loading_truth_models_does_not_import_torch():
    code = "import sys, crowdwise as cw; cw.load(sys.argv[1]); print('torch' in sys.modules)"
    command = [sys.executable, "-c", code, str(VERSION_1)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    "model",
    [
        cw.WAUM(epochs=2, trust=cw.DawidSkene("hierarchical")),
        cw.Pruned(cw.CrowdLayer(epochs=2), by=cw.WAUM(epochs=2)),
        cw.Completed(cw.CrowdLayer(epochs=2), fill=cw.CoNAL(epochs=2)),
    ],
    ids=["ranker", "framework with a ranker", "framework with a filler"],
)
def test_models_outside_the_method_registry(model, tmp_path):
    X, answers = cw.simulate.digits_crowd()
    X, answers = X[:60], answers[np.arange(60)]
    model.fit(X, answers).save(tmp_path / "model.safetensors")
    loaded = cw.load(tmp_path / "model.safetensors")
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    if hasattr(model, "ranking"):
        assert loaded.ranking().equals(model.ranking())


def test_answers_are_loaded_without_the_model(tmp_path):
    answers = cw.simulate.simulate(20, n_workers=4, n_classes=3, seed=1)
    cw.DawidSkene().fit(answers).save(tmp_path / "model.safetensors")
    again = load_answers(tmp_path / "model.safetensors")
    assert again.to_arrow().equals(answers.to_arrow()) and again.truth.tolist() == answers.truth.tolist()
    (tmp_path / "no.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelFileError, match="damaged"):
        load_answers(tmp_path / "no.safetensors")
