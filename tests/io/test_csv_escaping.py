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
def test_undo_gives_back_what_was_escaped(values):
    column = pa.array(sorted(values))
    cells = escape(column)
    assert unescape(cells).equals(column)
    assert "" not in cells.to_pylist()  # an empty cell would be a missing value
    assert not is_integers(cells)  # and text does not turn into numbers


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


def test_plain_numbers_and_words_stay_as_they_are():
    column = pa.array(["-3", "+1.5", "-2e5", "cat", "'quoted'", "it's", "-.5"])
    assert escape(column).equals(column)


def test_a_column_that_escape_cannot_have_written_is_left_alone():
    foreign = pa.array(["'=1", "=1"])  # we would have escaped the second
    assert unescape(foreign).equals(foreign)
    merging = pa.array(["'7", "7"])  # undoing would make two ids one
    assert unescape(merging).equals(merging)
