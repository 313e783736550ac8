"""How to train, as found once and used again: in the other fits of a framework, and in the folds of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import clone

from crowdwise._core.fingerprints import fingerprint
from crowdwise.answers import Answers
from crowdwise.learn.base import FitInput
from crowdwise.learn.features import open_features
from crowdwise.learn.network.architectures import resolve_spec
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.training_length import TrainingPlan
from crowdwise.learn.wrapper import Wrapper


def found_plan(model: Any) -> TrainingPlan | None:
    """Return how a search found to train a fitted learner; None if nothing was searched."""
    if not isinstance(model, NetworkLearner) or not model._uses_training_loop or model.epochs != "auto":
        return None
    return TrainingPlan(model.epochs_, model.weight_decay_, model.scaling_)


def follow_plan(model: Any, plan: TrainingPlan | None, shape: tuple[int, ...]) -> Any:
    """Set the options of a learner of features of this shape to a plan, if there is one, and return the learner."""
    if plan is None or not isinstance(model, NetworkLearner):
        return model
    network = resolve_spec(model.network, shape)
    if getattr(network, "standardise", None) == "auto":
        network = clone(network).set_params(standardise=True if plan.scaling == "each" else "common")
    return model.set_params(network=network, epochs=plan.epochs, weight_decay=plan.weight_decay)


def plan_learner(learner: NetworkLearner, inputs: FitInput) -> NetworkLearner:
    """Return the learner, set to train as a search on these inputs finds, if its fit would search."""
    if not learner._uses_training_loop or learner.epochs != "auto":
        return learner
    planned: NetworkLearner = follow_plan(learner, learner._find_plan(inputs, None), inputs.features.shape)
    return planned


def plan_ahead(models: Mapping[str, Any], X: Any, answers: Answers) -> dict[str, Any]:
    """Search how to train each of these models, and return copies that do not search again.

    Equal learners, such as the bases of several frameworks, are searched once. Models that do not search are returned
    as they are, and so are those whose search fails: their fit will raise the error.
    """
    found: dict[str, NetworkLearner] = {}

    def planned(model: Any) -> Any:
        if isinstance(model, Wrapper):
            if model.own_length:
                return model
            return clone(model).set_params(base=planned(model._new_base()))
        if not isinstance(model, NetworkLearner):
            return model
        key = fingerprint(model)
        if key not in found:
            found[key] = plan_learner(
                clone(model), FitInput(open_features(X, answers), answers, None, None, None, None)
            )
        return found[key]

    done = {}
    for name, model in models.items():
        try:
            done[name] = planned(model)
        except Exception:  # of any kind, from a model that cannot be fitted
            done[name] = model
    return done
