"""AUM, the area under the margin: how a network struggled to learn the label of a task.

    y            the label of the task: a truth model's decision, or known (`gold`)
    AUM(x, y)    mean over epochs of the margin of y in the training steps (see `margins`)

    score = AUM(x, y): low where the label is wrong, or the task ambiguous

Pleiss, Zhang, Elenberg and Weinberger, "Identifying mislabeled data using the area under the margin ranking", NeurIPS
2020: theirs is `margin="pleiss", scale="logits"`; the defaults are those of Lefort et al. (WAUM, eq. 2). One hard label
hides from it how the workers disagreed; WAUM sees each answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from crowdwise._core.registry import make
from crowdwise._core.validation import require
from crowdwise.ambiguity.margins import StackedModule
from crowdwise.ambiguity.recorder import Recorder
from crowdwise.learn.base import FitInput, training_mask
from crowdwise.learn.network.architectures import Spec
from crowdwise.truth.base import TruthModel


class AUM(Recorder):
    """Ranks tasks by the area under the margin of one label each.

    Parameters
    ----------
    network, margin, scale, top_k, double_softmax
        See `WAUM`.
    truth : truth model or its name
        Where the labels come from; labels given to `fit` as `gold` take their place.
    **training
        See `TrainingOptions`; but `select="held_out"`, as there is one label a task, and none to hide.

    Attributes
    ----------
    scores_ : (tasks,) array
        The AUM of each task's label; +infinity for a task without a label or of weight zero, which is never removed.
    aum_, trust_ : (answers,) arrays
        AUM of what each answer says; and 1 where that is the task's label, otherwise 0.

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
        require(isinstance(self.truth, (str, TruthModel)), "truth", self.truth, "a truth model, or the name of one")
        require(self.select != "held_out", "select", self.select, "'last' or 'validation': a task has one label")

    def _fit(self, inputs: FitInput) -> None:
        answers, gold = inputs.answers, inputs.gold
        truth = make(self.truth) if isinstance(self.truth, str) else clone(self.truth)
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
