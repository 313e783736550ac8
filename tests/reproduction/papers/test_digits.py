"""The first benchmark anyone tries: quick or not, it trains to the end."""

from __future__ import annotations

import pytest

from reproduction.cells import Cell, Setting
from reproduction.papers import digits

(EXPERIMENT,) = digits.EXPERIMENTS


@pytest.mark.parametrize("method", digits.METHODS)
def test_quick_leaves_out_no_epochs(method: str) -> None:
    whole, quick = (digits.METHODS[method].make(Setting("digits", 2, 3, q)) for q in (False, True))
    assert str(whole.get_params(deep=True)) == str(quick.get_params(deep=True))
    assert len(EXPERIMENT.cells(1, quick=True)) == len(digits.METHODS)


def test_the_ceiling_is_above_the_vote_when_quick() -> None:
    run = EXPERIMENT.family.run
    ceiling, vote = (run(Cell("digits", row, "digits", (0,), quick=True))[0]["last"] for row in ("ceiling", "MV-DL"))
    assert ceiling > vote
