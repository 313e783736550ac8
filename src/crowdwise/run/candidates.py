"""Which methods a run tries, simplest first: by what there is to learn from, and by how much of it.

The rule looks at sizes alone, so the same data gives the same candidates on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator

from crowdwise._core.registry import find_method, make
from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.choose.comparison import DEFAULT, VOTE, WITHOUT_FEATURES
from crowdwise.errors import ParameterError
from crowdwise.learn.joint_em.class_prior import ClassPrior, parse_shares

# Learners after the truth models, simplest first: what one training costs, then how many there are.
LEARNERS = ("crowdlab", "raykar", DEFAULT, "aggnet", "crowdlayer", "conal", "waum(crowdlayer)", "dasc(crowdlayer)")
WITHOUT_TORCH = ("crowdlab", "raykar", DEFAULT)
QUICK_LEARNERS = ("raykar", DEFAULT, "crowdlayer")  # where there are many tasks
QUICK = (VOTE, "one-coin", "dawid-skene")  # where there are many answers; and beside learners, which know more
MANY_TASKS, MANY_ANSWERS = 50_000, 3_000_000
SETTINGS: dict[str, dict[str, Any]] = {"raykar": {"cross_fit": 5}}  # or it believes its own labels


class Candidates(NamedTuple):
    """What is tried, by name, and what the user should know about it."""

    models: dict[str, Any]  # majority vote first
    notes: list[str]
    told: str | None  # the one method the user asked for
    default: str | None  # what stays unless another is better by its error: JointEM, where it is among several


def candidates(
    answers: Answers, method: str | Sequence[str], *, features: bool, seed: int, class_prior: ClassPrior = None
) -> Candidates:
    """Models to try for these answers, majority vote always among them.

    Parameters
    ----------
    answers : Answers
    method : str or sequence of str
        "auto", the name of one method, or of several to choose from, in order of simplicity.
    features : bool
        Whether tasks have features.
    seed : int
        Of every candidate.
    class_prior : as `JointEM` takes, optional
        Declared shares of the classes, which JointEM alone can use.

    Examples
    --------
    >>> from crowdwise import simulate
    >>> list(candidates(simulate.simulate(20), "dawid-skene", features=False, seed=0).models)
    ['majority-vote', 'dawid-skene']
    """
    names = [method] if isinstance(method, str) else list(method)
    notes: list[str] = []
    told = names[0] if len(names) == 1 and names != ["auto"] else None
    if names == ["auto"]:
        names, notes = _by_size(answers, features)
    elif "auto" in names or not names:
        message = f"method={names}: give 'auto', or the names of methods."
        raise ParameterError(message)
    for name in names:
        if find_method(name).needs_features and not features:
            message = f"{name} learns from features: give features, images or texts, or another method."
            raise ParameterError(message)
    models = {name: _made(name, seed) for name in dict.fromkeys([VOTE, *names])}
    without = [name for name, model in models.items() if getattr(model, "needs_gold", False)]
    if without:
        message = f"{without[0]} needs known labels of some tasks in the fit: use `crowdwise aggregate --gold`."
        raise ParameterError(message)
    if class_prior is not None:
        require(DEFAULT in models, "class_prior", class_prior, f"{DEFAULT} with it, which takes features: no other can")
        parse_shares(class_prior, answers.classes)  # refuses a class that is missing, or unknown
        models[DEFAULT].set_params(class_prior=class_prior)
        notes.append(f"The declared shares of the classes went to {DEFAULT}, the one method that takes them.")
    return Candidates(models, notes, told, DEFAULT if DEFAULT in models and told is None else None)


def _by_size(answers: Answers, features: bool) -> tuple[list[str], list[str]]:
    notes = []
    names: list[str] = list(WITHOUT_FEATURES)
    if answers.n_answers > MANY_ANSWERS or features:
        names = list(QUICK)
    if answers.n_answers > MANY_ANSWERS:
        notes.append(f"There are over {MANY_ANSWERS:,} answers, so only {', '.join(QUICK)} were tried.")
    if features:
        learners: tuple[str, ...] = LEARNERS
        if answers.n_tasks > MANY_TASKS:
            learners = QUICK_LEARNERS
            notes.append(f"There are over {MANY_TASKS:,} tasks, so of the learners only {', '.join(learners)} ran.")
        if find_spec("torch") is None:
            learners = tuple(name for name in learners if name in WITHOUT_TORCH)
            notes.append("torch is not installed, so networks were not tried: pip install 'crowdwise[torch]'.")
        names += learners
    return names, notes


def _made(name: str, seed: int) -> BaseEstimator:
    """A method by its name, with the seed in every part of it."""
    from crowdwise.learn.wrapper import resolve_base

    model = resolve_base(make(name, **SETTINGS.get(name, {})))
    seeds = [part for part in model.get_params() if part.rpartition("__")[2] == "random_state"]
    return model.set_params(**dict.fromkeys(seeds, seed))
