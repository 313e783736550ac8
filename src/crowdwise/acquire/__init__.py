"""Which answers to buy next, given a budget: pairs of a task and a worker, most informative first.

    propose      the pairs worth buying, best first, with reasons             `proposals`
    replay       accuracy against answers bought, for several strategies      `replays`
    mean_curve   its mean and standard deviation over seeds

`strategies` has the strategies, `information` the expected information of an answer, and `beliefs` what a fitted model
believes about tasks and workers.

Every strategy but `random` relies on the model. With one answer per task, plain Dawid-Skene can be confident and wrong:
begin with two or three answers per task, or with a model of fewer parameters such as one-coin.
"""

from __future__ import annotations

from crowdwise.acquire.proposals import Proposal, propose
from crowdwise.acquire.replays import mean_curve, replay
from crowdwise.acquire.strategies import STRATEGIES

__all__ = ["STRATEGIES", "Proposal", "mean_curve", "propose", "replay"]
