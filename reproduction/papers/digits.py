"""No paper's: some methods on the embedded digits, to see in a minute how a benchmark runs, with no data at hand.

It is quick anyway: `--quick` leaves seeds out, but no epochs, for a fifth of them says nothing of the methods.
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


def whole(make: Make) -> Make:
    """All epochs, also when it has to be quick."""
    return lambda setting: make(replace(setting, quick=False))


METHODS = {
    "ceiling": replace(CEILING, make=whole(CEILING.make)),
    "MV-DL": Method(whole(aggregated("majority-vote", soft=False))),
    "DS-DL": Method(whole(aggregated("dawid-skene", soft=False))),
    "CrowdLayer": Method(whole(learner("crowdlayer")), together=True),
    "CrowdLayer + DASC": Method(whole(_dasc), together=True),
}
EXPERIMENTS = (
    Experiment(
        "digits", "Embedded digits with a simulated crowd: test accuracy",
        "how a benchmark looks, the ceiling above all methods",
        learners("digits", METHODS), tuple(METHODS)[1:], ("digits",), "ceiling", hide=True,
    ),
)  # fmt: skip
