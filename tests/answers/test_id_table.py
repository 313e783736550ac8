import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.answers import id_table
from crowdwise.answers.encoding import text_buffers
from crowdwise.answers.id_table import IdTable
from crowdwise.errors import TooLargeError

# Few values, so that they repeat. The texts differ in length, in the last byte, or only by a zero byte.
IDS = {
    pa.int64(): st.sampled_from([None, 0, 1, -1, 2**63 - 1, -(2**63), 256]),
    pa.large_string(): st.sampled_from([None, "", "a", "a\0", "aa", "ab", "é", "task_1", "task_10"]),
}


@settings(deadline=None)  # the first example compiles
@pytest.mark.parametrize("kind", IDS)
@given(data=st.data(), same_hash=st.sampled_from([None, 0, -1, 2**31 - 1]))
def test_codes_of_parts_follow_the_order_of_first_appearance(kind, data, same_hash):
    """Also if all ids have the same hash, as some do among many millions."""
    values = data.draw(st.lists(IDS[kind], max_size=40))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=5)))
    column, ids = pa.array(values, kind), IdTable(kind)
    edges = [0, *cuts, len(values)]
    with pytest.MonkeyPatch.context() as patch:
        if same_hash is not None:
            patch.setattr(id_table, "_hashes", lambda offsets, *_: np.full(len(offsets) - 1, same_hash << 32))
        codes = np.concatenate([ids.add(column[a:b]) for a, b in pairwise(edges)])
    expected = column.dictionary_encode()
    assert codes.tolist() == expected.indices.fill_null(-1).to_pylist()
    assert ids.table.equals(expected.dictionary)
    assert len(ids) == len(expected.dictionary)


@pytest.mark.parametrize("text", [False, True])
def test_ids_stay_distinct_as_the_table_grows(text):
    """Each id appears twice, the second time long after the first: the table has grown in between."""
    numbers = np.tile(np.random.default_rng(0).integers(-(2**40), 2**40, 60_000), 2)
    column = pa.array(numbers).cast(pa.large_string()) if text else pa.array(numbers)
    ids = IdTable(column.type)
    codes = np.concatenate([ids.add(column[start : start + 7001]) for start in range(0, len(column), 7001)])
    assert ids.table.equals(column.unique())
    assert ids.table.take(pa.array(codes)).equals(column)


def test_more_ids_than_codes_are_rejected(monkeypatch):
    monkeypatch.setattr(id_table, "MAX_CODES", 3)
    ids = IdTable(pa.int64())
    ids.add(pa.array([1, 2]))
    with pytest.raises(TooLargeError, match="distinct ids"):
        ids.add(pa.array([3, 4]))


def test_hash_equals_the_siphash_of_python():
    """Compared with Python's own hash with a key of zeros; only the upper half is used."""
    assert sys.hash_info.algorithm == "siphash13"
    texts = ["a", "ab", "seven77", "eight888", "nine99999", "é" * 20, "\0", "x" * 1000]
    program = f"print([hash(text.encode()) for text in {texts!r}])"
    python = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env={"PYTHONHASHSEED": "0"}
    )
    offsets, data = text_buffers(pa.array(texts, pa.large_string()))
    hashes = id_table._hashes(offsets, data, np.zeros(2, np.uint64))
    assert hashes.tolist() == [value >> 32 << 32 for value in json.loads(python.stdout)]


def test_hashes_depend_on_a_random_key_and_codes_do_not():
    """Each table has its own key, which does not affect the codes."""
    ids = pa.array([f"task_{i}" for i in range(50)], pa.large_string())
    tables = [IdTable(ids.type) for _ in range(2)]
    codes = [table.add(ids).tolist() for table in tables]
    hashes = [id_table._hashes(*text_buffers(ids), table._key).tolist() for table in tables]
    assert codes[0] == codes[1] == list(range(50))
    assert hashes[0] != hashes[1]
