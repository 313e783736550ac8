"""Files of earlier versions can be read, and a format only changes together with its version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from safetensors.numpy import load_file

import crowdwise as cw
from crowdwise.errors import CrowdwiseError, FormatError
from crowdwise.io.model_files import VERSION
from crowdwise.run import Run, compare
from crowdwise.run.feedback import feedback_all
from crowdwise.run.stored_files import FORMAT
from tests.helpers.damaged import damage
from tests.helpers.old_files import answers, learner, model, structure, write_all

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_models_of_every_version_load(version):
    learned = learner() if version > 2 else cw.load(FIXTURES / "learner_v2.safetensors")  # other defaults until then
    for name, made in (("model", model()), ("learner", learned)):
        loaded = cw.load(FIXTURES / f"{name}_v{version}.safetensors")
        assert repr(loaded) == repr(made) and loaded.answers_ == answers()
        np.testing.assert_allclose(loaded.proba_, made.proba_, rtol=1e-4, atol=1e-5)
    X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
    expected = _predict(FIXTURES / f"learner_v{version}.safetensors", X)
    np.testing.assert_allclose(loaded.predict_proba(X), expected, rtol=1e-4)


def _predict(file, X):
    """Return the probabilities of the network in a file, which has one hidden layer."""
    tensors = load_file(file)
    part = {name: tensors[f"module/network.{name}"] for name in ("mean", "scale", "head.weight", "head.bias")}
    hidden = (X - part["mean"]) * part["scale"] @ tensors["module/network.layers.0.weight"]
    hidden = np.maximum(hidden + tensors["module/network.layers.0.bias"], 0)
    return scipy.special.softmax(hidden @ part["head.weight"] + part["head.bias"], axis=1)


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_run_folders_of_every_version_load(version, tmp_path):
    made = Run(FIXTURES / f"run_v{version}")
    assert made.metrics["format"] == version and made.config["format"] == version
    assert made.answers == answers() and made.proba.shape == (24, 2)
    assert sorted(made.workers.column("worker").to_pylist()) == made.answers.workers.tolist()
    assert sorted(made.tasks.column("task").to_pylist()) == made.answers.tasks.tolist()
    assert made.next.num_rows == 5 and made.model.labels_.tolist() == made.model.labels_.tolist()
    assert len(feedback_all(made, None)) == 5
    assert "0 of 24 labels changed" in str(compare(made, Run(FIXTURES / f"run_v{FORMAT}")))
    assert "text 3" in made.report(tmp_path / "report.html").read_text("utf-8")


def test_a_changed_format_has_a_new_version(tmp_path):
    """If this fails, the structure of a file has changed. Raise the version in `io/model_files.py` or
    `run/folder_format.py`, and add fixtures of the new version (`python -m tests.helpers.old_files tests/fixtures`);
    keep those of earlier versions."""
    write_all(tmp_path, VERSION, FORMAT)
    for file in sorted(tmp_path.iterdir()):
        assert structure(file) == structure(FIXTURES / file.name), file.name


def test_newer_folders_ask_for_an_upgrade(tmp_path):
    folder = shutil.copytree(FIXTURES / f"run_v{FORMAT}", tmp_path / "run")
    text = (folder / "metrics.json").read_text("utf-8")
    (folder / "metrics.json").write_text(text.replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}'), "utf-8")
    with pytest.raises(FormatError, match=f"run format {FORMAT + 1}.*upgrade"):
        Run(folder)


@pytest.mark.parametrize("name", sorted(each.name for each in (FIXTURES / f"run_v{FORMAT}").iterdir()))
def test_the_error_names_the_damaged_file(name, tmp_path):
    """Except labels.csv, which is never read back."""
    folder = shutil.copytree(FIXTURES / f"run_v{FORMAT}", tmp_path / "run")
    content, rng = (folder / name).read_bytes(), np.random.default_rng(0)
    for _ in range(15 if name != "labels.csv" else 0):
        changed = damage(content, rng)
        (folder / name).write_bytes(changed)
        if _is_equivalent(name, changed, content):
            continue
        with pytest.raises(CrowdwiseError, match=name if name != "metrics.json" else "run"):
            _read(folder)


def _is_equivalent(name: str, changed: bytes, content: bytes) -> bool:
    try:
        return changed == content or (name == "metrics.json" and json.loads(changed) == json.loads(content))
    except ValueError:
        return False


def _read(folder: Path) -> None:
    made = Run(folder)
    made.config, made.labels, made.workers, made.tasks, made.next, made.model  # noqa: B018


def test_damage_without_checksums_raises_only_crowdwise_errors(tmp_path):
    folder = shutil.copytree(FIXTURES / "run_v1", tmp_path / "run")
    rng = np.random.default_rng(3)
    for name in ("metrics.json", "labels.parquet", "workers.csv", "tasks.csv", "next.csv", "model.safetensors"):
        content = (folder / name).read_bytes()
        for _ in range(15):
            (folder / name).write_bytes(damage(content, rng))
            try:
                _read(folder)
            except CrowdwiseError as error:
                assert str(folder) in str(error)
        (folder / name).write_bytes(content)
