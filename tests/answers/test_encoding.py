import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.answers import Answers
from crowdwise.answers.encoding import as_arrow, encode, lookup, preview, sorted_order, stable_order, starts
from crowdwise.errors import IdTypeError, NullError, UnknownIdError
from crowdwise.io import read


@given(st.lists(st.integers(-5, 5), min_size=1), st.booleans())
def test_codes_and_table_reproduce_the_ids(ids, text):
    values = [str(i) for i in ids] if text else ids
    codes, table = encode(as_arrow(values, "task"), "task")
    assert table.take(pa.array(codes)).to_pylist() == values
    assert table.to_pylist() == sorted(set(values))
    assert codes.dtype == np.int32


@settings(deadline=None)
@given(st.lists(st.text("ab\0é", max_size=4), unique=True), st.sampled_from(["", "task_", "a long common prefix "]))
def test_texts_are_sorted_by_their_bytes(suffixes, prefix):
    texts = [prefix + suffix for suffix in suffixes] + ([prefix * 2] if prefix and prefix not in suffixes else [])
    texts = list(dict.fromkeys(texts))
    order = sorted_order(pa.array(["sliced off", *texts], pa.large_string())[1:])
    assert [texts[i] for i in order] == sorted(texts, key=str.encode)


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1))
def test_stable_order_matches_numpy(keys):
    keys = np.array(keys, np.int32)
    order = stable_order(keys, 7)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(np.diff(starts(keys, 7)), np.bincount(keys, minlength=7))


def test_lookup_error_names_the_unknown_id():
    table = pa.array([1, 2, 3])
    assert lookup(pa.array([3, 1]), table, "task").tolist() == [2, 0]
    with pytest.raises(UnknownIdError, match=r"unknown task: 9\. Known ids are 1, 2, 3"):
        lookup(pa.array([9]), table, "task")
    with pytest.raises(IdTypeError, match="text, but the declared ids are integers"):
        lookup(as_arrow(["1"], "task"), table, "task")


def test_integral_floats_become_integers_and_nan_becomes_null():
    array = as_arrow([1.0, float("nan"), 3.0], "task")
    assert array.to_pylist() == [1, None, 3]
    with pytest.raises(IdTypeError, match="fractional"):
        as_arrow([1.0, float("inf")], "task")


@pytest.mark.parametrize(
    ("kind", "largest"), [(np.float16, 2**11 - 1), (np.float32, 2**24 - 1), (np.float64, 2**53 - 1)]
)
def test_floats_are_accepted_up_to_the_largest_exact_integer(kind, largest):
    """Beyond it, two ids may already have been rounded to one number; 2**63 and above do not fit int64 either."""
    assert as_arrow(np.array([largest, -largest], kind), "task").to_pylist() == [largest, -largest]
    for number in (largest + 1, -largest - 1, 2 * largest + 2, 2.0**63, -(2.0**63), 1e300):
        with np.errstate(over="ignore"), pytest.raises(IdTypeError, match="too large"):
            as_arrow(np.array([1, number]).astype(kind), "task")


def test_unsigned_integers_above_int64_are_rejected():
    assert as_arrow(np.array([2**63 - 1], np.uint64), "task").to_pylist() == [2**63 - 1]
    with pytest.raises(IdTypeError, match="above 2"):
        as_arrow(np.array([2**63], np.uint64), "task")


def _dictionary(values, indices):
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values, pa.string()), safe=False)


def test_dictionaries_from_elsewhere_may_repeat_values_or_contain_null(tmp_path):
    repeated = _dictionary(["cat", "dog", "cat"], [0, 1, 2, 2])
    table = pa.table({"task": _dictionary(["b", "a", "b"], [0, 1, 2, 1]), "worker": [1, 1, 2, 2], "label": repeated})
    pq.write_table(table, tmp_path / "answers.parquet")
    for answers in (Answers.from_frame(table), read(tmp_path / "answers.parquet")):
        assert (answers.tasks.tolist(), answers.classes.tolist()) == (["a", "b"], ["cat", "dog"])
        assert answers.to_arrow().column("label").to_pylist() == ["dog", "cat", "cat", "cat"]
    missing = table.set_column(2, "label", _dictionary(["cat", None], [0, 1, 0, 0]))
    with pytest.raises(NullError, match="'label' is empty in 1 of 4 rows"):
        Answers.from_frame(missing)
    assert Answers.from_frame(missing, nulls="drop").removed == {"rows with a missing value": 1}
    assert Answers.from_frame(table, classes=_dictionary(["dog", "cat"], [0, 1])).classes.tolist() == ["dog", "cat"]


def test_dictionaries_of_floats_with_nan_and_chunks_with_null():
    floats = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array([2.0, float("nan"), 2.0]))
    assert as_arrow(floats, "label").to_pylist() == [2, None, 2]
    chunks = pa.chunked_array([_dictionary(["p", None], [0, 1]), _dictionary(["q", "p"], [0, 1])])
    assert as_arrow(chunks, "label").to_pylist() == ["p", None, "q", "p"]


@pytest.mark.parametrize("index", [9, -1])
def test_dictionary_indices_out_of_bounds_are_rejected(index):
    with pytest.raises(IdTypeError, match=r"label ids are an invalid Arrow array.* out of bounds"):
        Answers.from_arrays([1, 1, 2], ["a", "b", "a"], _dictionary(["p", "q"], [0, index, 1]))


def test_preview_counts_the_remaining_values():
    assert preview(["a"]) == "'a'"
    assert preview(np.arange(5)) == "0, 1, 2 and 2 more"
