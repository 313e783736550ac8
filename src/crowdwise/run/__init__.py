"""The main job: labels, worker ratings, hard tasks, answers to buy, a model and a report from a table of answers.

`crowdwise.run(...)` itself is the call: the module is a function and a package.

>>> import crowdwise as cw
>>> answers = cw.simulate.simulate(200, n_classes=3, answers_per_task=3, seed=1)
>>> run = cw.run(answers, method=["one-coin", "dawid-skene"])
>>> run.labels.column_names[:3], sum(run.metrics["counts"].values())
(['task', 'label', 'confidence'], 200)
"""

import inspect
import sys
from types import ModuleType

from crowdwise.run.comparison import Comparison, compare
from crowdwise.run.feedback import Feedback, feedback
from crowdwise.run.folder import Run
from crowdwise.run.pipeline import run
from crowdwise.run.progress import Progress

__all__ = ["Comparison", "Feedback", "Progress", "Run", "compare", "feedback", "run"]


class _CallableModule(ModuleType):
    """A module that is called as its function `run`."""

    __call__ = staticmethod(run)


sys.modules[__name__].__class__ = _CallableModule
__signature__ = inspect.signature(run)  # what help() and editors show of the call
