"""The main job: from answers to labels, workers, hard tasks, what to buy next, a model and a report.

>>> import crowdwise as cw, tempfile
>>> answers = cw.simulate.simulate(200, n_classes=3, answers_per_task=3, seed=1)
>>> run = cw.run.run(answers, tempfile.mkdtemp() + "/run")
>>> run.labels.column_names[:3], sum(run.metrics["counts"].values())
(['task', 'label', 'confidence'], 200)
"""

from crowdwise.run.advice import Feedback
from crowdwise.run.comparison import Comparison, compare
from crowdwise.run.feedback import feedback
from crowdwise.run.folder import Run
from crowdwise.run.main import run
from crowdwise.run.progress import Progress

__all__ = ["Comparison", "Feedback", "Progress", "Run", "compare", "feedback", "run"]
