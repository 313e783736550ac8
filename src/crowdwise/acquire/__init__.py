"""Which answers to buy next, given a budget: the pairs of a task and a worker that promise most.

    propose      the pairs worth buying, best first, with reasons             `proposing`
    replay       accuracy against answers bought, strategies side by side     `replaying`
    mean_curve   its mean and deviation over seeds
    draw         the same as a figure                                         `drawing`

What a strategy looks at is in `strategies`; what an answer is expected to tell, in `information`; what a fitted model
believes of tasks and workers, in `beliefs`.

Every strategy but `random` trusts the model. Where tasks have one answer each, plain Dawid-Skene can be sure and wrong:
begin with two or three answers a task, or with a model of fewer parameters such as one-coin.
"""

from __future__ import annotations

from crowdwise.acquire.draws import draw
from crowdwise.acquire.proposals import Proposal, propose
from crowdwise.acquire.replays import mean_curve, replay
from crowdwise.acquire.strategies import STRATEGIES

__all__ = ["STRATEGIES", "Proposal", "draw", "mean_curve", "propose", "replay"]
