"""The embedded digits: quick runs train for all epochs too."""

from __future__ import annotations

import pytest

from reproduction.cells import Cell, Setting
from reproduction.papers import digits

(EXPERIMENT,) = digits.EXPERIMENTS


@pytest.mark.parametrize("method", digits.METHODS)
def test_quick_run_trains_for_all_epochs(method: str) -> None:
    whole, quick = (digits.METHODS[method].make(Setting("digits", 2, 3, q)) for q in (False, True))
    assert str(whole.get_params(deep=True)) == str(quick.get_params(deep=True))
    assert len(EXPERIMENT.cells(1, quick=True)) == len(digits.METHODS)


def test_ceiling_is_above_majority_vote_in_a_quick_run() -> None:
    run = EXPERIMENT.family.run
    ceiling, vote = (run(Cell("digits", row, "digits", (0,), quick=True))[0]["last"] for row in ("ceiling", "MV-DL"))
    assert ceiling > vote
