"""Networks that continue with more answers (`partial_fit`): from which weights, and for how long.

    weights   those of the fitted network; a layer per worker keeps the known workers and adds the new ones
    epochs    as many as the fit took, times the share of the answers that are new, at least one

Where answers are few, the search of a fit may train for longer than it would for all: the share then counts the epochs
of the fit that came before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.answers import Answers
from crowdwise.learn.network.torch_support import Tensor, torch
from crowdwise.learn.network.training import CrowdModule
from crowdwise.learn.network.training_length import TrainingPlan

if TYPE_CHECKING:
    from crowdwise.learn.network.learner import NetworkLearner


class Continuation(NamedTuple):
    """Where a network continues."""

    weights: dict[str, Tensor]  # parameters and the network's buffers, by name
    plan: TrainingPlan
    n_workers: tuple[int, int]  # before and now


def copy_weights(model: Any) -> dict[str, Tensor]:
    """Return the parameters of a fitted model and all of its network, but no buffers set from answers."""
    parameters = {name for name, _ in model.module_.named_parameters()}
    state = model.module_.state_dict()
    return {name: value.clone() for name, value in state.items() if name in parameters or name.startswith("network.")}


def continuation(model: NetworkLearner, answers: Answers) -> Continuation:
    """Return where a fitted model continues with these answers, which contain its own."""
    before = model.answers_
    share = 1 - before.n_answers / answers.n_answers
    epochs = model._round_epochs(max(1, round(share * model.epochs_)))
    plan = TrainingPlan(epochs, model.weight_decay_, model.scaling_)
    return Continuation(copy_weights(model), plan, (before.n_workers, answers.n_workers))


def use_weights(module: CrowdModule, start: Continuation) -> None:
    """Put the weights into a new module; what depends on a worker is kept for the workers known before."""
    state = module.state_dict()
    for name, old in start.weights.items():
        new = state[name]
        changed = [axis for axis in range(old.ndim) if old.shape[axis] != new.shape[axis]]
        if not changed:
            state[name] = old
        elif [(old.shape[axis], new.shape[axis]) for axis in changed] == [start.n_workers]:
            known = torch.arange(start.n_workers[0], device=new.device)
            state[name] = new.index_copy(changed[0], known, old)
    module.load_state_dict(state)
