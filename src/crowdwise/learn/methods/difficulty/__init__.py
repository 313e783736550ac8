"""EM with a difficulty per task: `AdaptiveDifficultyEM` and `FixedDifficultyEM`.

models.py         the two models, with their equations; start here
workers.py        the worker model: how errors depend on the easiness of a task
classifiers.py    logistic classifiers that also set the easiness (`exact`, `hold`)
"""
