"""The networks of `JointEM(classifier="mlp")`: AggNet with the worker model and the class prior of `JointEM`."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.joint_em.class_prior import ClassPrior, parse_class_prior
from crowdwise.learn.joint_em.engine import ConfusionWorkers, JointEMEngine
from crowdwise.learn.methods.aggnet import AggNet
from crowdwise.truth.base import vote_shares
from crowdwise.truth.kernels.shared import FLOOR


class JointNetwork(AggNet):
    """AggNet as a part of `JointEM`.

    Parameters
    ----------
    class_prior : (prior, strength)
        As `JointEM` takes them.
    leave_one_out : bool
    answer_weight : float or "auto"
    possible : (classes,) bool array
        Classes that can be true.
    **options
        As `AggNet` takes them.
    """

    answer_weight: Any
    leave_one_out: bool
    possible: Array
    shape_in_: tuple[int, ...]

    answers_: Answers
    columns_in_: None

    def __init__(
        self,
        class_prior: tuple[ClassPrior, float],
        leave_one_out: bool,
        answer_weight: Any,
        possible: Array,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.class_prior, self.leave_one_out = class_prior, leave_one_out
        self.answer_weight, self.possible = answer_weight, possible

    def _make_workers(self, answers: Answers, weight: Array | None) -> ConfusionWorkers:
        return ConfusionWorkers(answers, self.prior, weight, leave_one_out=self.leave_one_out, refresh_prior=True)

    def _declared_shares(self, answers: Answers) -> tuple[Array, float] | None:
        return parse_class_prior(*self.class_prior, answers.classes, self.possible)

    def _possible_classes(self) -> Array:
        return self.possible

    def _em_answer_weight(self) -> Any:
        return self.answer_weight

    def _finish(self, engine: JointEMEngine) -> None:
        super()._finish(engine)
        self.answer_weight_: float = float(engine.answer_weights[0])
        share = np.maximum(vote_shares(engine.answers).mean(axis=0), FLOOR)
        self.evidence: Array = engine.evidence()
        self.evidence_without_features: Any = engine.workers[0].evidence(np.tile(share, (engine.answers.n_tasks, 1)))

    def restore(self, answers: Answers, shape: tuple[int, ...], tensors: dict[str, Array]) -> None:
        """Restore the state after the fit that gave these tensors."""
        self.answers_, self.shape_in_, self.columns_in_ = answers, shape, None
        self._restore(tensors)
