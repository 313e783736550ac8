"""Files of earlier versions are read, and a format does not change without its version being raised."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import CrowdwiseError, FormatError
from crowdwise.io.model_files import VERSION
from crowdwise.run import Run, compare
from crowdwise.run.feedback import feedback_all
from crowdwise.run.folder import FORMAT
from tests.helpers.damaged import damage
from tests.helpers.old_files import answers, learner, model, structure, write_all

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_models_of_every_version_are_read(version):
    for name, made in (("model", model()), ("learner", learner())):
        loaded = cw.load(FIXTURES / f"{name}_v{version}.safetensors")
        assert repr(loaded) == repr(made) and loaded.answers_ == answers()
        np.testing.assert_allclose(loaded.proba_, made.proba_, rtol=1e-4, atol=1e-5)
    X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
    np.testing.assert_allclose(loaded.predict_proba(X), made.predict_proba(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_run_folders_of_every_version_are_read(version, tmp_path):
    made = Run(FIXTURES / f"run_v{version}")
    assert made.metrics["format"] == version and made.config["format"] == version
    assert made.answers == answers() and made.proba.shape == (24, 2)
    assert sorted(made.workers.column("worker").to_pylist()) == made.answers.workers.tolist()
    assert sorted(made.tasks.column("task").to_pylist()) == made.answers.tasks.tolist()
    assert made.next.num_rows == 5 and made.model.labels_.tolist() == made.model.labels_.tolist()
    assert len(feedback_all(made, None)) == 5
    assert "0 of 24 labels changed" in str(compare(made, Run(FIXTURES / f"run_v{FORMAT}")))
    assert "text 3" in made.report(tmp_path / "report.html").read_text("utf-8")


def test_a_format_that_changes_has_a_new_version(tmp_path):
    """If this fails, what is written has another structure: raise the version in `saving.py` or `run/layout.py`, and
    keep fixtures of it (`python tests/old_files.py tests/fixtures`); those of the version before stay."""
    write_all(tmp_path, VERSION, FORMAT)
    for file in sorted(tmp_path.iterdir()):
        assert structure(file) == structure(FIXTURES / file.name), file.name


def test_newer_folders_and_models_say_upgrade(tmp_path):
    folder = shutil.copytree(FIXTURES / f"run_v{FORMAT}", tmp_path / "run")
    text = (folder / "metrics.json").read_text("utf-8")
    (folder / "metrics.json").write_text(text.replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}'), "utf-8")
    with pytest.raises(FormatError, match=f"run format {FORMAT + 1}.*upgrade"):
        Run(folder)


@pytest.mark.parametrize("name", sorted(each.name for each in (FIXTURES / f"run_v{FORMAT}").iterdir()))
def test_damage_to_any_file_of_a_folder_is_named(name, tmp_path):
    """All but labels.csv, which nothing reads again."""
    folder = shutil.copytree(FIXTURES / f"run_v{FORMAT}", tmp_path / "run")
    content, rng = (folder / name).read_bytes(), np.random.default_rng(0)
    for _ in range(15 if name != "labels.csv" else 0):
        changed = damage(content, rng)
        (folder / name).write_bytes(changed)
        if _means_the_same(name, changed, content):
            continue
        with pytest.raises(CrowdwiseError, match=name if name != "metrics.json" else "run"):
            _read(folder)


def _means_the_same(name: str, changed: bytes, content: bytes) -> bool:
    try:
        return changed == content or (name == "metrics.json" and json.loads(changed) == json.loads(content))
    except ValueError:
        return False


def _read(folder: Path) -> None:
    made = Run(folder)
    made.config, made.labels, made.workers, made.tasks, made.next, made.model  # noqa: B018


def test_damage_to_a_folder_without_checksums_is_an_error_of_ours_or_none(tmp_path):
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
