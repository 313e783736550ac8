from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crowdwise.io.csv_escaping import escape, unescape
from crowdwise.io.raw_columns import is_integers

texts = st.text(st.sampled_from("'=+-@\t\r\n 07.e\"a＝"), max_size=5)


@settings(deadline=None)
@given(st.sets(texts, min_size=1))
@example({"7", "-3"})
@example({"", "'", "''"})
@example({"'7", "7"})
def test_unescape_restores_escaped_text(values):
    column = pa.array(sorted(values))
    cells = escape(column)
    assert unescape(cells).equals(column)
    assert "" not in cells.to_pylist()  # an empty cell would be a missing value
    assert not is_integers(cells)  # and text must not turn into numbers


@settings(deadline=None)
@given(texts)
def test_no_escaped_cell_is_a_formula(text):
    (cell,) = escape(pa.array([text])).to_pylist()
    assert cell[0] not in "=+@\t\r\n-＝" or is_number(cell)


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_plain_numbers_and_words_are_unchanged():
    column = pa.array(["-3", "+1.5", "-2e5", "cat", "'quoted'", "it's", "-.5"])
    assert escape(column).equals(column)


def test_a_column_that_escape_cannot_have_written_is_unchanged():
    foreign = pa.array(["'=1", "=1"])  # escape would have changed the second
    assert unescape(foreign).equals(foreign)
    merging = pa.array(["'7", "7"])  # unescaping would merge two ids
    assert unescape(merging).equals(merging)
