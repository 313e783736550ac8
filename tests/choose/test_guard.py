"""Reasons not to believe a method that held-out answers prefer."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.choose.guard import doubt


@pytest.fixture(scope="module")
def answers():
    return cw.simulate.simulate(300, n_workers=15, n_classes=3, answers_per_task=5, workers={"one-coin": 1.0}, seed=1)


def test_the_vote_and_good_methods_are_not_doubted(answers):
    for name in ("majority-vote", "dawid-skene", "pool"):
        assert doubt(answers, cw.make(name).fit(answers).codes_) is None


def test_overruled_majorities_moved_shares_and_shared_mistakes_are_reasons(answers):
    vote = cw.MajorityVote().fit(answers).codes_
    assert "clear majorities" in doubt(answers, (vote + 1) % 3)
    unclear = np.array([np.bincount(answers.label[answers.task == t]).max() < 4 for t in range(answers.n_tasks)])
    assert unclear.mean() > 0.3
    moved = np.where(unclear, 0, vote)
    assert "class shares" in doubt(answers, moved)
    assert "share mistakes" in doubt(answers, vote, dependence=0.3)
