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

# Few values, so that they recur; those of text differ in length, in the last byte, and in nothing but a zero byte.
IDS = {
    pa.int64(): st.sampled_from([None, 0, 1, -1, 2**63 - 1, -(2**63), 256]),
    pa.large_string(): st.sampled_from([None, "", "a", "a\0", "aa", "ab", "é", "task_1", "task_10"]),
}


@settings(deadline=None)  # the first example compiles
@pytest.mark.parametrize("kind", IDS)
@given(data=st.data(), same_hash=st.sampled_from([None, 0, -1, 2**31 - 1]))
def test_codes_of_parts_spell_the_ids_in_the_order_they_came(kind, data, same_hash):
    """Also where all ids have one hash, as some have among many millions."""
    values = data.draw(st.lists(IDS[kind], max_size=40))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=5)))
    whole, ids = pa.array(values, kind), IdTable(kind)
    edges = [0, *cuts, len(values)]
    with pytest.MonkeyPatch.context() as patch:
        if same_hash is not None:
            patch.setattr(id_table, "_hashes", lambda ends, *_: np.full(len(ends) - 1, same_hash << 32))
        codes = np.concatenate([ids.add(whole[a:b]) for a, b in pairwise(edges)])
    expected = whole.dictionary_encode()
    assert codes.tolist() == expected.indices.fill_null(-1).to_pylist()
    assert ids.table.equals(expected.dictionary)
    assert len(ids) == len(expected.dictionary)


@pytest.mark.parametrize("text", [False, True])
def test_many_ids_are_kept_apart_as_the_table_grows(text):
    """Each comes twice, the second time long after the first: the table has grown in between."""
    numbers = np.tile(np.random.default_rng(0).integers(-(2**40), 2**40, 60_000), 2)
    whole = pa.array(numbers).cast(pa.large_string()) if text else pa.array(numbers)
    ids = IdTable(whole.type)
    codes = np.concatenate([ids.add(whole[start : start + 7001]) for start in range(0, len(whole), 7001)])
    assert ids.table.equals(whole.unique())
    assert ids.table.take(pa.array(codes)).equals(whole)


def test_more_ids_than_codes_are_refused(monkeypatch):
    monkeypatch.setattr(id_table, "MAX_CODES", 3)
    ids = IdTable(pa.int64())
    ids.add(pa.array([1, 2]))
    with pytest.raises(TooLargeError, match="distinct ids"):
        ids.add(pa.array([3, 4]))


def test_the_hash_is_siphash_as_python_has_it():
    """Of Python's own with a key of zeros; the upper half is kept."""
    assert sys.hash_info.algorithm == "siphash13"
    texts = ["a", "ab", "seven77", "eight888", "nine99999", "é" * 20, "\0", "x" * 1000]
    program = f"print([hash(text.encode()) for text in {texts!r}])"
    python = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env={"PYTHONHASHSEED": "0"}
    )
    ends, data = text_buffers(pa.array(texts, pa.large_string()))
    found = id_table._hashes(ends, data, np.zeros(2, np.uint64))
    assert found.tolist() == [value >> 32 << 32 for value in json.loads(python.stdout)]


def test_the_hash_of_an_id_cannot_be_foreseen():
    """Each table has a key of its own; what comes out does not depend on it."""
    ids = pa.array([f"task_{i}" for i in range(50)], pa.large_string())
    tables = [IdTable(ids.type) for _ in range(2)]
    codes = [table.add(ids).tolist() for table in tables]
    hashes = [id_table._hashes(*text_buffers(ids), table._key).tolist() for table in tables]
    assert codes[0] == codes[1] == list(range(50))
    assert hashes[0] != hashes[1]
