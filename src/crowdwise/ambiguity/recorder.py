"""The base class of what ranks tasks by margins: a network, trained by the training loop, that records them."""

from __future__ import annotations

from typing import Any, ClassVar

from crowdwise._core.validation import is_integer, require
from crowdwise.ambiguity.margins import Margin, Scale, StackedModule
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.answers import Answers
from crowdwise.learn.base import FitInput
from crowdwise.learn.network.architectures import Spec
from crowdwise.learn.network.learner import NetworkLearner, TrainingOptions
from crowdwise.learn.network.modules import Network


class Recorder(TaskRanker, NetworkLearner):
    """Trains a network on answers, each one a label of its task, and records the margins of the training steps.

    Parameters
    ----------
    network : as in `TrainingOptions`
        What is trained.
    margin : {"yang", "pleiss"}
        What a label is compared to: the second largest of all scores, or the largest of the other classes.
    scale : {"probabilities", "logits"}
        What scores are.
    top_k : int
        The (k + 1)-th largest score takes the place of the second, the k-th of the others that of the largest.
    double_softmax : bool
        Train through one more softmax on top of the probabilities, as the authors' LabelMe network does.
    **training
        See `TrainingOptions`.
    """

    # The rate of the paper: margins of a network that has hardly learnt are those of its random start.
    defaults: ClassVar[TrainingOptions] = {"lr": 5e-3}

    def __init__(
        self,
        network: Spec = None,
        *,
        margin: Margin = "yang",
        scale: Scale = "probabilities",
        top_k: int = 1,
        double_softmax: bool = False,
        **training: Any,
    ) -> None:
        super().__init__(**{**training, "network": network})
        self.margin: Margin = margin
        self.scale: Scale = scale
        self.top_k = top_k
        self.double_softmax = double_softmax

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(self.margin in ("yang", "pleiss"), "margin", self.margin, "'yang' or 'pleiss'")
        require(self.scale in ("probabilities", "logits"), "scale", self.scale, "'probabilities' or 'logits'")
        require(is_integer(self.top_k, 1), "top_k", self.top_k, "a whole number, 1 or more")

    def _fit(self, inputs: FitInput) -> None:
        n_classes = inputs.answers.n_classes
        require(self.top_k < n_classes, "top_k", self.top_k, f"less than the number of classes, {n_classes}")
        super()._fit(inputs)

    def _module(self, network: Network, answers: Answers) -> StackedModule:
        return StackedModule(
            network, answers.n_workers, answers.n_tasks, self.margin, self.scale, self.top_k, again=self.double_softmax
        )
