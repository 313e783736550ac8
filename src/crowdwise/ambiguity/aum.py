"""AUM, the area under the margin: how hard it was for a network to learn the label of a task.

    y            the label of the task: inferred by a truth model, or gold
    AUM(x, y)    mean over epochs of the margin of y in the training steps (see `margins`)

    score = AUM(x, y): low if the label is wrong or the task is ambiguous

Pleiss, Zhang, Elenberg and Weinberger, "Identifying mislabeled data using the area under the margin ranking", NeurIPS
2020, is `margin="pleiss", scale="logits"`; the defaults are those of Lefort et al. (WAUM, eq. 2). With one hard label
per task it does not see how workers disagreed; WAUM uses each answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from crowdwise._core.validation import require
from crowdwise.ambiguity.margins import StackedModule
from crowdwise.ambiguity.recorder import MarginRecorder
from crowdwise.learn.base import FitInput, training_mask
from crowdwise.learn.network.architectures import Spec
from crowdwise.truth.adapter import as_truth_model
from crowdwise.truth.base import TruthModel


class AUM(MarginRecorder):
    """Ranks tasks by the area under the margin of one label per task.

    Parameters
    ----------
    network, margin, scale, top_k, double_softmax
        See `WAUM`.
    truth : truth model or its name
        Model that infers the labels. Labels passed to `fit` as `gold` replace them.
    **training
        See `TrainingOptions`. `select="held_out"` is not available: a task has one label, so none can be hidden.

    Attributes
    ----------
    scores_ : (tasks,) array
        AUM of each task's label; +infinity for tasks without a label or of weight zero, which are never removed.
    aum_, trust_ : (answers,) arrays
        AUM of the label of each answer; and 1 if that is the task's label, otherwise 0.

    Examples
    --------
    >>> from crowdwise import AUM, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> AUM(epochs=5).fit(X, answers).prune(alpha=0.1).answers
    Answers(664 tasks, 40 workers, ... answers, 10 classes)
    """

    def __init__(self, network: Spec = None, *, truth: TruthModel | str = "majority-vote", **training: Any) -> None:
        super().__init__(network, **training)
        self.truth = truth

    def _check_parameters(self) -> None:
        super()._check_parameters()
        as_truth_model(self.truth, "truth")
        require(self.select != "held_out", "select", self.select, "'last' or 'validation': a task has one label")

    def _fit(self, inputs: FitInput) -> None:
        answers, gold = inputs.answers, inputs.gold
        truth = clone(as_truth_model(self.truth, "truth"))
        codes = truth.fit(answers, gold).codes_  # (tasks,)
        task = np.flatnonzero(training_mask(answers, None, gold)).astype(np.int32)
        labels = replace(
            answers, task=task, worker=np.zeros(len(task), np.int32), label=codes[task].astype(np.int32), weight=None,
            pseudo=None,
        )  # fmt: skip
        super()._fit(inputs._replace(answers=labels, gold=None))
        assert isinstance(self.module_, StackedModule)
        table, seen = self.module_.recorded(np.arange(answers.n_tasks))  # (tasks, classes)
        self.aum_ = table[answers.task, answers.label]
        self.trust_ = (answers.label == codes[answers.task]).astype(float)
        self.scores_ = np.where(seen, table[np.arange(len(table)), codes], np.inf)
