"""Checksums in safetensors files, and the checkpoints that rely on them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from crowdwise._core import checksums
from crowdwise._core.json_schema import Field, check
from crowdwise.choose import checkpoint
from crowdwise.choose.scores import CaughtWarning, Outcome
from crowdwise.engines.spark import checkpoint as spark_checkpoint
from crowdwise.errors import CrowdwiseError, ModelFileError
from crowdwise.truth.methods.dawid_skene import Parameters
from tests.helpers.damaged import damage

TENSORS = {"a": np.arange(5.0), "b": np.ones((2, 3), np.int32)}


def write(path, metadata, key="kind"):
    checksums.write_with_checksum(path, key, metadata, lambda header: save_file(TENSORS, path, metadata=header))
    return path


def test_metadata_and_tensors_round_trip_and_writing_is_deterministic(tmp_path):
    metadata = {"version": 2, "text": '"sha256": "not this one", é \\', "list": [1, None, {"sha256": "nor this"}]}
    file = write(tmp_path / "a", metadata)
    assert checksums.read_metadata(file, "kind", 2) == checksums.read_metadata(file.read_bytes(), "kind", 2) == metadata
    assert checksums.read_metadata(file, "another kind", 2) is None
    assert all((load_file(file)[name] == tensor).all() for name, tensor in TENSORS.items())
    assert write(tmp_path / "b", metadata).read_bytes() == file.read_bytes()


def test_every_flipped_bit_is_detected(tmp_path):
    content = write(tmp_path / "a", {"version": 2}).read_bytes()
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            found = checksums.read_metadata(bytes(changed), "kind", 2)
        except checksums.DamagedError:
            continue
        assert found is None or found["version"] > 2  # another kind or a newer version: left for the reader to reject


def test_only_old_versions_may_lack_a_checksum(tmp_path):
    save_file(TENSORS, tmp_path / "old", metadata={"kind": json.dumps({"version": 1})})
    assert checksums.read_metadata(tmp_path / "old", "kind", 2) == {"version": 1}
    for version in (2, None, "1", True):
        save_file(TENSORS, tmp_path / "cut", metadata={"kind": json.dumps({"version": version})})
        with pytest.raises(checksums.DamagedError):
            checksums.read_metadata(tmp_path / "cut", "kind", 2)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 7, (2**63).to_bytes(8, "little") + b"{}", (10**8).to_bytes(8, "little") + b"{}" * 50,
     (12).to_bytes(8, "little") + b'{"a":1,"a":2}'[:12], (16).to_bytes(8, "little") + b'{"a": 1, "a": 2}',
     (200_000).to_bytes(8, "little") + b"[" * 200_000, (2).to_bytes(8, "little") + b"\xff\xfe"],
    ids=["nothing", "short", "huge length", "length past end", "cut JSON", "repeated key", "too deep", "not text"],
)  # fmt: skip
def test_invalid_headers_are_rejected(content):
    with pytest.raises(checksums.DamagedError):
        checksums.read_metadata(content, "kind", 2)


def test_schema_error_names_the_field():
    fields = {"n": Field(int, "an integer"), "may": Field((str, type(None)), "a string", needed=False)}
    check({"n": 3}, fields)
    check({"n": 3, "may": None}, fields)
    check({"n": 3, "more": 1}, fields, allow_unknown=True)
    for content, error in (
        ({}, "'n' is missing"), ({"n": True}, "'n' is True, not an int"), ({"n": 3, "may": 1}, "'may' is 1, not a str"),
        ({"n": 3, "more": 1}, "'more' is not a field"), ([], "a JSON object"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=error):
            check(content, fields)


def test_damaged_fold_checkpoints_are_ignored(tmp_path):
    caught = (CaughtWarning("UserWarning", "text"),)
    checkpoint.write(tmp_path / "fit", Outcome(np.arange(9.0), 1.0, None, caught, np.ones((2, 13))))
    content, rng = (tmp_path / "fit").read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        changed = damage(content, rng)
        (tmp_path / "fit").write_bytes(changed)
        assert changed == content or checkpoint.read(tmp_path / "fit") is None


def test_damaged_spark_checkpoints_are_rejected(tmp_path):
    file, stamp = tmp_path / "state.safetensors", {"version": spark_checkpoint.FORMAT, "model": "DawidSkene"}
    parameters = Parameters(*(np.full(3, 0.5) for _ in Parameters._fields))
    spark_checkpoint.save(file, stamp, parameters, [-3.0])
    assert spark_checkpoint.load(file, stamp, Parameters)[1] == [-3.0]
    content, rng = file.read_bytes(), np.random.default_rng(1)
    for _ in range(200):
        changed = damage(content, rng)
        file.write_bytes(changed)
        if changed != content:
            with pytest.raises(CrowdwiseError, match=r"state\.safetensors"):
                spark_checkpoint.load(file, stamp, Parameters)


def test_damaged_training_checkpoints_are_rejected(tmp_path):
    pytest.importorskip("torch")
    import torch

    from crowdwise.learn.network.checkpoint import CheckpointFile

    saved = CheckpointFile(tmp_path / "state", "of these data")
    saved.write({"module/w": torch.arange(6.0)}, {"phase": 0, "epoch": 3})
    content, rng = (tmp_path / "state").read_bytes(), np.random.default_rng(2)
    for _ in range(200):
        changed = damage(content, rng)
        (tmp_path / "state").write_bytes(changed)
        if changed != content:
            with pytest.raises(ModelFileError, match="state"):
                saved.read()
    saved.write({"module/w": torch.arange(6.0)}, {"phase": 0})  # intact, but of another training
    trainer = SimpleNamespace(phase=0, module=torch.nn.Linear(2, 2), history=[])
    with pytest.raises(ModelFileError, match="not a checkpoint of this training"):
        saved.load_into(trainer)
