"""The networks of `JointEM(classifier="mlp")`: AggNet's rounds, with the workers and the class prior of `JointEM`."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.joint_em.class_prior import ClassPrior, declared_shares
from crowdwise.learn.joint_em.engine import ConfusionWorkers, Joint
from crowdwise.learn.methods.aggnet import AggNet
from crowdwise.truth.base import vote_shares
from crowdwise.truth.kernels.shared import FLOOR


class JointNetwork(AggNet):
    """AggNet as a part of `JointEM`.

    Takes a declared class prior with its strength, whether to leave one out, for how much an answer counts, and which
    classes can be true, (classes,) bool.
    """

    def __init__(
        self, declared: tuple[ClassPrior, float], leave_one_out: bool, count: Any, named: Array, **options: Any
    ) -> None:
        super().__init__(**options)
        self.declared, self.leave_one_out, self.count, self.named = declared, leave_one_out, count, named

    def _workers(self, answers: Answers, weight: Array | None) -> ConfusionWorkers:
        return ConfusionWorkers(answers, self.prior, weight, leave_one_out=self.leave_one_out, renew=True)

    def _declared(self, answers: Answers) -> tuple[Array, float] | None:
        return declared_shares(*self.declared, answers.classes, self.named)

    def _named(self) -> Array:
        return self.named

    def _count(self) -> Any:
        return self.count

    def _finish(self, joint: Joint) -> None:
        super()._finish(joint)
        self.count_ = float(joint.counts[0])
        share = np.maximum(vote_shares(joint.answers).mean(axis=0), FLOOR)
        self.evidence, self.blind = (
            joint.evidence(),
            joint.workers[0].evidence(np.tile(share, (joint.answers.n_tasks, 1))),
        )

    def restored(self, answers: Answers, shape: tuple[int, ...], tensors: dict[str, Array]) -> None:
        """Stand as after the fit whose numbers these are."""
        self.answers_, self.shape_in_, self.columns_in_ = answers, shape, None
        self._restore(tensors)
