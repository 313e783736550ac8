import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.answers.encoding import as_arrow, encode, lookup, preview, sorted_order, stable_order, starts
from crowdwise.errors import IdTypeError, UnknownIdError


@given(st.lists(st.integers(-5, 5), min_size=1), st.booleans())
def test_codes_spell_the_ids(ids, text):
    values = [str(i) for i in ids] if text else ids
    codes, table = encode(as_arrow(values, "task"), "task")
    assert table.take(pa.array(codes)).to_pylist() == values
    assert table.to_pylist() == sorted(set(values))
    assert codes.dtype == np.int32


@settings(deadline=None)
@given(st.lists(st.text("ab\0é", max_size=4), unique=True), st.sampled_from(["", "task_", "of the same length "]))
def test_texts_are_sorted_by_their_bytes(tails, begin):
    texts = [begin + tail for tail in tails] + ([begin * 2] if begin and begin not in tails else [])
    texts = list(dict.fromkeys(texts))
    order = sorted_order(pa.array(["left out", *texts], pa.large_string())[1:])
    assert [texts[i] for i in order] == sorted(texts, key=str.encode)


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1))
def test_stable_order_is_numpys(keys):
    keys = np.array(keys, np.int32)
    order = stable_order(keys, 7)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(np.diff(starts(keys, 7)), np.bincount(keys, minlength=7))


def test_lookup_names_what_is_unknown():
    table = pa.array([1, 2, 3])
    assert lookup(pa.array([3, 1]), table, "task").tolist() == [2, 0]
    with pytest.raises(UnknownIdError, match=r"unknown task: 9\. Known are 1, 2, 3"):
        lookup(pa.array([9]), table, "task")
    with pytest.raises(IdTypeError, match="text where integers are declared"):
        lookup(as_arrow(["1"], "task"), table, "task")


def test_whole_floats_are_integers_and_gaps_stay_gaps():
    array = as_arrow([1.0, float("nan"), 3.0], "task")
    assert array.to_pylist() == [1, None, 3]
    with pytest.raises(IdTypeError, match="fractional"):
        as_arrow([1.0, float("inf")], "task")


@pytest.mark.parametrize(
    ("kind", "largest"), [(np.float16, 2**11 - 1), (np.float32, 2**24 - 1), (np.float64, 2**53 - 1)]
)
def test_floats_are_ids_while_they_tell_whole_numbers_apart(kind, largest):
    """Beyond, two ids may have become one number before they came here; 2**63 and up do not fit either."""
    assert as_arrow(np.array([largest, -largest], kind), "task").to_pylist() == [largest, -largest]
    for number in (largest + 1, -largest - 1, 2 * largest + 2, 2.0**63, -(2.0**63), 1e300):
        with np.errstate(over="ignore"), pytest.raises(IdTypeError, match="so large"):
            as_arrow(np.array([1, number]).astype(kind), "task")


def test_large_and_unsigned_integers():
    assert as_arrow(np.array([2**63 - 1], np.uint64), "task").to_pylist() == [2**63 - 1]
    with pytest.raises(IdTypeError, match="above 2"):
        as_arrow(np.array([2**63], np.uint64), "task")


def test_some_counts_the_rest():
    assert preview(["a"]) == "'a'"
    assert preview(np.arange(5)) == "0, 1, 2 and 2 more"
