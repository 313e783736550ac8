"""How self-training goes on: from the last network, and from a file after it was killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


def start_of(model: CrowdClassifier) -> dict[str, Tensor]:
    """What the next network starts from: the network and all other parameters, but nothing that is set from answers."""
    assert isinstance(model, NetworkLearner)
    parameters = {name for name, _ in model.module_.named_parameters()}
    state = model.module_.state_dict()
    return {name: v.clone() for name, v in state.items() if name in parameters or name.startswith("network.")}


@contextmanager
def started_from(start: dict[str, Tensor], model: CrowdClassifier) -> Iterator[None]:
    """Let the fit of a network learner start from these weights, if there are any."""
    if not start:
        yield
        return
    assert isinstance(model, NetworkLearner)
    make = model._module

    def module(network: Network, answers: Answers) -> CrowdModule:
        made = make(network, answers)
        if unknown := start.keys() - made.state_dict().keys():  # they would be passed over
            message = f"warm_start=True: a new {model} has no {', '.join(sorted(unknown))} to start from; use False."
            raise ParameterError(message)
        try:
            made.load_state_dict(start, strict=False)
        except RuntimeError:
            message = f"warm_start=True: {model} trains other networks than it ends with; use False."
            raise ParameterError(message) from None
        return made

    model._module = module  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model._module


@contextmanager
def fitted_to(pools: Sequence[Answers], model: CrowdClassifier) -> Iterator[None]:
    """Let the fit of a network learner train each of its networks on answers of its own."""
    assert isinstance(model, NetworkLearner)
    assert len(pools) == model.n_models
    model._pools = pools
    try:
        yield
    finally:
        del model._pools


class State(NamedTuple):
    """Where a fit stands between two iterations."""

    pseudo: PseudoAnswers
    history: list[dict[str, Any]]
    best: Array  # (held,) log-likelihood of the hidden answers in the iteration where it was highest
    start: dict[str, Tensor]  # weights to start from

    @classmethod
    def new(cls) -> State:
        """Before the first fit."""
        return cls(PseudoAnswers.none(), [], np.empty(0), {})


class SavedState(CheckpointFile):
    """A state on disk, replaced whole after each iteration."""

    def keep(self, state: State) -> None:
        """Write it, whole or not at all."""
        arrays = {**{f"pseudo/{name}": column for name, column in state.pseudo._asdict().items()}, "best": state.best}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        tensors |= {f"start/{name}": value for name, value in state.start.items()}
        self.write(tensors, {"history": state.history})

    def load(self) -> State:
        """The state that was written; a new one when there is no file."""
        found = self.read()
        if found is None:
            return State.new()
        header, tensors = found
        pseudo = PseudoAnswers(*(tensors[f"pseudo/{name}"].numpy() for name in PseudoAnswers._fields))
        start = {name.removeprefix("start/"): value for name, value in tensors.items() if name.startswith("start/")}
        return State(pseudo, header["history"], tensors["best"].numpy(), start)
