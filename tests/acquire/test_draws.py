import sys

import pytest

import crowdwise as cw
from crowdwise.acquire import draw, mean_curve, replay
from crowdwise.errors import MissingDependencyError


@pytest.fixture(scope="module")
def table():
    answers = cw.simulate.simulate(60, n_workers=6, n_classes=2, answers_per_task=3, seed=0)
    return replay(answers, step=0.25, seeds=[0, 1, 2])


def values(chart):
    """The rows that a figure holds."""
    (rows,) = chart.to_dict()["datasets"].values()
    return rows


def test_the_figure_holds_the_means_and_their_errors(table, tmp_path):
    drawn = values(draw(table))
    mean = mean_curve(table).to_pylist()
    assert [row["accuracy"] for row in drawn] == [row["accuracy"] for row in mean]
    assert [row["high"] - row["low"] for row in drawn] == pytest.approx([2 * row["error"] for row in mean])
    draw(table).save(tmp_path / "curve.html")
    assert "information" in (tmp_path / "curve.html").read_text()


def test_one_seed_has_no_band(table):
    one = table.filter([seed == 0 for seed in table.column("seed").to_pylist()])
    assert all(row["low"] == row["accuracy"] == row["high"] for row in values(draw(one)))


def test_missing_altair_is_reported(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingDependencyError, match="plots"):
        draw(table)
