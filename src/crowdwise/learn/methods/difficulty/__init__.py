"""EM with a difficulty per task: `AdaptiveDifficultyEM` and `FixedDifficultyEM`.

models.py         the two models, with their equations; start here
workers.py        the worker model: how errors depend on the easiness of a task
classifiers.py    the logistic classifier that also sets the easiness (`exact`)
collapse.py       the warning that nearly all labels are one class
"""
