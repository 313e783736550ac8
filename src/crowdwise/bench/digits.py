"""No paper's: some methods on the embedded digits, to see in a minute how a benchmark runs, with no data at hand."""

from __future__ import annotations

from typing import Any

from crowdwise.augment.dasc import DASC
from crowdwise.bench.cells import Method, Setting
from crowdwise.bench.experiments import Experiment
from crowdwise.bench.measuring import learners
from crowdwise.bench.settings import CEILING, aggregated, learner


def _dasc(setting: Setting) -> Any:
    return DASC(
        learner("crowdlayer")(setting), iterations=setting.rounds(3), hidden=0.0, apart=True, random_state=setting.seed
    )


METHODS = {
    "ceiling": CEILING,
    "MV-DL": Method(aggregated("majority-vote", soft=False)),
    "DS-DL": Method(aggregated("dawid-skene", soft=False)),
    "CrowdLayer": Method(learner("crowdlayer"), together=True),
    "CrowdLayer + DASC": Method(_dasc, together=True),
}
EXPERIMENTS = (
    Experiment(
        "digits", "Embedded digits with a simulated crowd: test accuracy", "the learners above the vote",
        learners("digits", METHODS), tuple(METHODS)[1:], ("digits",), "ceiling", hide=True,
    ),
)  # fmt: skip
