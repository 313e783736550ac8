"""Frames: Arrow tables that convert and display."""

import copy
import pickle

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise._core.frames import SHOWN, Frame, as_kind, frame_kind, to_table

TABLE = pa.table({"task": ["a", "b", "<b>"], "share": [0.123456, None, 1.0]})


def test_a_frame_has_the_methods_of_its_table_and_converts():
    frame = Frame(TABLE)
    assert frame.column_names == TABLE.column_names and frame["task"].to_pylist() == ["a", "b", "<b>"]
    assert isinstance(frame.slice(1), Frame) and frame.slice(1).num_rows == len(frame.slice(1)) == 2
    assert frame == TABLE and frame.equals(Frame(TABLE)) and frame != frame.slice(1)
    assert pa.table(frame).equals(TABLE) and pl.DataFrame(frame).equals(frame.to_polars())
    assert frame.to_pandas().equals(TABLE.to_pandas())
    for same in (copy.deepcopy(frame), pickle.loads(pickle.dumps(frame))):
        assert same == frame
    with pytest.raises(AttributeError):
        _ = frame.no_such_method


def test_a_notebook_shows_the_first_rows_escaped():
    html = Frame(TABLE)._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" not in html and "0.1235" in html and "3 rows" in html
    assert Frame(pa.table({"x": range(50)}))._repr_html_().count("<tr>") == SHOWN + 2  # the header and an ellipsis


@pytest.mark.parametrize(
    "frame", [TABLE.to_pandas(), pl.from_arrow(TABLE), pl.from_arrow(TABLE).lazy(), TABLE, Frame(TABLE)], ids=str
)
def test_every_kind_of_frame_comes_back(frame, tmp_path):
    assert to_table(frame).to_pylist() == TABLE.to_pylist()
    back = as_kind(to_table(frame), frame_kind(frame))
    assert type(back) is (pl.DataFrame if isinstance(frame, pl.LazyFrame) else type(as_kind(TABLE, frame_kind(frame))))
    cw.write(frame, tmp_path / "frame.parquet")
    assert pd.read_parquet(tmp_path / "frame.parquet")["task"].tolist() == ["a", "b", "<b>"]
