"""Id tables in model files: a compressed one could unpack to any size."""

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.errors import ModelFileError
from crowdwise.io import model_files
from crowdwise.io.id_bytes import ids_from_bytes, ids_to_bytes
from tests.helpers.damaged import compressed


@pytest.mark.parametrize("ids", [[1, 2, 2**40], ["a", "é" * 50], [True, False], []])
def test_ids_are_read_as_they_were_written(ids):
    table = pa.array(ids, None if ids else pa.large_string())
    assert ids_from_bytes(ids_to_bytes(table)).equals(table)


def test_compressed_table_is_rejected_before_it_is_unpacked(tmp_path, monkeypatch):
    million = pa.array(np.arange(10**6))
    bomb = compressed(ids_to_bytes(million))
    assert ids_from_bytes(ids_to_bytes(million)).equals(million)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(ValueError, match="an id table is compressed"):
        ids_from_bytes(bomb)
    assert pa.default_memory_pool().max_memory() == before
    model = cw.MajorityVote().fit(cw.Answers.from_arrays([0, 1], ["w", "v"], ["x", "y"]))
    monkeypatch.setattr(model_files, "ids_to_bytes", lambda ids: compressed(ids_to_bytes(ids)))
    model.save(tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError, match=r"model\.safetensors.* an id table is compressed"):
        cw.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (pa.array(["a", "a"]), "occurs twice"),
        (pa.array(["a", None]), "missing"),
        (pa.array([1.5], pa.float32()), "float"),
        (pa.array(["a"]).dictionary_encode(), "dictionary"),
    ],
)
def test_other_tables_are_rejected(table, problem):
    with pytest.raises(ValueError, match=problem):
        ids_from_bytes(ids_to_bytes(table))


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_damaged_tables_are_rejected_or_the_same(cut):
    data = ids_to_bytes(pa.array(["a", "b", "c"]))
    for damaged in (data[:cut], np.concatenate([data[:cut], data[cut : cut + 1] ^ 255, data[cut + 1 :]])):
        try:
            assert len(ids_from_bytes(damaged)) == 3
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OSError,
            pa.ArrowException,
            __import__("struct").error,
        ):
            continue
