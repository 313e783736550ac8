"""Charts of answers, models and runs, as Altair charts that notebooks show.

    balance           shares of the classes                         Answers, models, runs
    agreement         how many of a task's answers equal its label  Answers, models, runs
    confidence        how sure the labels are                       models, runs
    reliability       accuracy against confidence                   models, runs; needs known truth
    workers           quality of each worker with an interval       Answers, models, runs
    confusion         what a worker answers, per true class         Answers, models, runs
    dependence        which pairs of workers err together           Answers, models, runs, results of `trust.dependence`
    shared_mistakes   how strongly groups of workers err together   the same
    methods           lead of methods over majority vote            results of `choose` and `bench`, runs
    budget            accuracy against number of answers            runs, tables of `acquire.replay`
    forecast          expected accuracy after more answers          runs
    margins           the answers to a task that WAUM found hard    WAUM, AUM, Pruned
    self_training     class imbalance after each iteration          DASC, runs

The report of a run consists of these charts. They need Altair, which is imported on first use. A chart can be changed
like any other, as in `chart.properties(width=300)`, combined with `|` and `&`, and saved, as in `chart.save("a.svg")`.

>>> import crowdwise as cw
>>> chart = cw.plots.workers(cw.DawidSkene().fit(cw.simulate.simulate(200, seed=1)))
>>> chart.properties(width=300).to_dict()["width"]
300
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crowdwise._core.installation import install_command
from crowdwise.errors import MissingDependencyError

if TYPE_CHECKING:
    from crowdwise.plots.answers_bought import budget, forecast
    from crowdwise.plots.comparison import methods
    from crowdwise.plots.crowd import confusion, workers
    from crowdwise.plots.labels import agreement, balance, confidence, reliability
    from crowdwise.plots.mistakes import dependence, shared_mistakes
    from crowdwise.plots.training import margins, self_training

__all__ = [
    "agreement",
    "balance",
    "budget",
    "confidence",
    "confusion",
    "dependence",
    "forecast",
    "margins",
    "methods",
    "reliability",
    "self_training",
    "shared_mistakes",
    "workers",
]

_HOME = {
    "agreement": "labels", "balance": "labels", "budget": "answers_bought", "confidence": "labels",
    "confusion": "crowd", "dependence": "mistakes", "forecast": "answers_bought", "margins": "training",
    "methods": "comparison", "reliability": "labels", "self_training": "training", "shared_mistakes": "mistakes",
    "workers": "crowd",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module 'crowdwise.plots' has no attribute {name!r}"
        raise AttributeError(message)
    try:
        module = import_module(f"crowdwise.plots.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if error.name != "altair":
            raise
        message = f"charts need altair: {install_command('plots')}."
        raise MissingDependencyError(message) from None
    function = getattr(module, name)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return __all__
