"""Base class of the rankers by margin: a network that records the margins of its training steps."""

from __future__ import annotations

from typing import Any, ClassVar

from crowdwise._core.validation import is_integer, require
from crowdwise.ambiguity.margins import Margin, Scale, StackedModule
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.answers import Answers
from crowdwise.learn.base import FitInput
from crowdwise.learn.network.architectures import Spec
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions


class MarginRecorder(TaskRanker, NetworkLearner):
    """Trains a network with each answer as a label of its task, and records the margins of the training steps.

    Parameters
    ----------
    network : as in `TrainingOptions`
        Network to train.
    margin : {"yang", "pleiss"}
        Score to compare a label with: the second largest of all, or the largest of the other classes.
    scale : {"probabilities", "logits"}
        Which scores to use.
    top_k : int
        Compare with the (k + 1)-th largest of all scores ("yang") or the k-th largest of the others ("pleiss").
    double_softmax : bool
        Apply a second softmax to the probabilities in training, as the authors' LabelMe network does.
    **training
        See `TrainingOptions`.
    """

    # As in the paper: with a lower rate, margins are those of the random initial network.
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
        require(is_integer(self.top_k, 1), "top_k", self.top_k, "an integer of 1 or more")

    def _fit(self, inputs: FitInput) -> None:
        n_classes = inputs.answers.n_classes
        require(self.top_k < n_classes, "top_k", self.top_k, f"less than the number of classes, {n_classes}")
        super()._fit(inputs)

    def _module(self, network: Network, answers: Answers) -> StackedModule:
        return StackedModule(
            network,
            answers.n_workers,
            answers.n_tasks,
            self.margin,
            self.scale,
            self.top_k,
            double_softmax=self.double_softmax,
        )
