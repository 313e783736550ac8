"""The main job: labels, worker ratings, hard tasks, answers to buy, a model and a report from a table of answers.

>>> import crowdwise as cw, tempfile
>>> answers = cw.simulate.simulate(200, n_classes=3, answers_per_task=3, seed=1)
>>> run = cw.run.run(answers, tempfile.mkdtemp() + "/run")
>>> run.labels.column_names[:3], sum(run.metrics["counts"].values())
(['task', 'label', 'confidence'], 200)
"""

from crowdwise.run.comparison import Comparison, compare
from crowdwise.run.feedback import Feedback, feedback
from crowdwise.run.folder import Run
from crowdwise.run.pipeline import run
from crowdwise.run.progress import Progress

__all__ = ["Comparison", "Feedback", "Progress", "Run", "compare", "feedback", "run"]
