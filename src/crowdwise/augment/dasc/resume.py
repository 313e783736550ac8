"""State of self-training between iterations: weights to start from, answers per network, and the checkpoint file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.augment.dasc.pseudo_answers import PseudoAnswers
from crowdwise.errors import ParameterError
from crowdwise.learn.base import Array, CrowdClassifier
from crowdwise.learn.network.checkpoint import CheckpointFile
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.torch_support import Tensor, torch
from crowdwise.learn.network.training import CrowdModule
from crowdwise.learn.network.training_length import TrainingPlan


@contextmanager
def use_start_weights(start: dict[str, Tensor], model: CrowdClassifier) -> Iterator[None]:
    """Make `model.fit` start from these weights, if there are any."""
    if not start:
        yield
        return
    assert isinstance(model, NetworkLearner)
    new_module = model._module

    def start_module(network: Network, answers: Answers) -> CrowdModule:
        module = new_module(network, answers)
        if unknown := start.keys() - module.state_dict().keys():  # they would be ignored
            message = f"warm_start=True: a new {model} has no {', '.join(sorted(unknown))} to start from. Use False."
            raise ParameterError(message)
        try:
            module.load_state_dict(start, strict=False)
        except RuntimeError:
            message = f"warm_start=True: {model} returns a network of another shape than it trains. Use False."
            raise ParameterError(message) from None
        return module

    model._module = start_module  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model._module


@contextmanager
def use_separate_answers(pools: Sequence[Answers], model: CrowdClassifier) -> Iterator[None]:
    """Make `model.fit` train each of its networks on its own answers."""
    assert isinstance(model, NetworkLearner)
    assert len(pools) == model.n_models
    model._pools = pools
    try:
        yield
    finally:
        del model._pools


class State(NamedTuple):
    """State of a fit between two iterations."""

    pseudo: PseudoAnswers
    history: list[dict[str, Any]]
    best: Array  # (hidden,) log-likelihood of the hidden answers in the best iteration so far
    start: dict[str, Tensor]  # weights to start from
    plan: TrainingPlan | None = None  # how to train, as the first fit found

    @classmethod
    def new(cls) -> State:
        """Return the state before the first fit."""
        return cls(PseudoAnswers.empty(), [], np.empty(0), {})


class SavedState(CheckpointFile):
    """A state on disk, replaced atomically after each iteration."""

    def write_state(self, state: State) -> None:
        """Write the state atomically."""
        arrays = {**{f"pseudo/{name}": column for name, column in state.pseudo._asdict().items()}, "best": state.best}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        tensors |= {f"start/{name}": value for name, value in state.start.items()}
        plan = None if state.plan is None else asdict(state.plan)
        self.write(tensors, {"history": state.history, "training": plan})

    def load(self) -> State:
        """Return the saved state, or a new one if there is no file."""
        found = self.read()
        if found is None:
            return State.new()
        header, tensors = found
        pseudo = PseudoAnswers(*(tensors[f"pseudo/{name}"].numpy() for name in PseudoAnswers._fields))
        start = {name.removeprefix("start/"): value for name, value in tensors.items() if name.startswith("start/")}
        plan = None if header["training"] is None else TrainingPlan(**header["training"])
        return State(pseudo, header["history"], tensors["best"].numpy(), start, plan)
