"""From no paper: some methods on the embedded digits, to try the command in a minute without any data.

`--quick` uses one seed but all epochs, because a fifth of them says nothing about the methods.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crowdwise.augment.dasc.dasc import DASC
from reproduction.cells import Method, Setting
from reproduction.experiments import Experiment
from reproduction.measurement import learners
from reproduction.settings import CEILING, Make, aggregated, learner


def _dasc(setting: Setting) -> Any:
    return DASC(learner("crowdlayer")(setting), iterations=3, hidden=0.0, apart=True, random_state=setting.seed)


def all_epochs(make: Make) -> Make:
    """Train for all epochs, also in a quick run."""
    return lambda setting: make(replace(setting, quick=False))


METHODS = {
    "ceiling": replace(CEILING, make=all_epochs(CEILING.make)),
    "MV-DL": Method(all_epochs(aggregated("majority-vote", soft=False))),
    "DS-DL": Method(all_epochs(aggregated("dawid-skene", soft=False))),
    "CrowdLayer": Method(all_epochs(learner("crowdlayer")), together=True),
    "CrowdLayer + DASC": Method(all_epochs(_dasc), together=True),
}
EXPERIMENTS = (
    Experiment(
        "digits", "Embedded digits with a simulated crowd: test accuracy",
        "the ceiling above all methods",
        learners("digits", METHODS), tuple(METHODS)[1:], ("digits",), "ceiling", hide=True,
    ),
)  # fmt: skip
