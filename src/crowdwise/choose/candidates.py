"""The candidate methods, simplest first, and which of them a run compares.

`choose` compares a short list unless it is given candidates. `crowdwise run` compares a longer one, which depends on
whether tasks have features and on how many tasks and answers there are. The rule looks only at sizes, so the same data
gives the same candidates on every machine.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

from sklearn.base import clone

from crowdwise._core.installation import install_command
from crowdwise._core.registry import find_method, make
from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.learn.adapter import as_model
from crowdwise.learn.base import CrowdClassifier
from crowdwise.learn.joint_em.class_prior import ClassPrior, parse_shares
from crowdwise.truth.adapter import is_own

VOTE = "majority-vote"
POOL = "pool"  # the default of a run without features
DEFAULT = "joint-em"  # with features

# Compared by `choose` unless it is given candidates. Simplest first: parameters per worker, then of tasks and crowd.
WITHOUT_FEATURES = (VOTE, "wawa", "one-coin", "mace", "glad", "dawid-skene", "ibcc", "ebcc")
WITH_FEATURES = (VOTE, "aggregated(dawid-skene)", "raykar", DEFAULT, "crowdlayer", "conal", "aggnet")

# Compared by a run with features: QUICK_TRUTH, then LEARNERS, sorted by the cost of a training and how many it takes.
LEARNERS = ("crowdlab", "raykar", DEFAULT, "aggnet", "crowdlayer", "conal", "waum(crowdlayer)", "dasc(crowdlayer)")
LEARNERS_WITHOUT_TORCH = ("crowdlab", "raykar", DEFAULT)
QUICK_LEARNERS = ("raykar", DEFAULT, "crowdlayer")  # for more than MANY_TASKS tasks
QUICK_TRUTH = (VOTE, "one-coin", "dawid-skene")  # for more than MANY_ANSWERS answers, and next to learners
MANY_TASKS, MANY_ANSWERS = 50_000, 3_000_000

# Compared by `bench` with features: the five systems of the papers beside their baselines, which come first.
SYSTEMS = (
    VOTE, "dawid-skene", "aggregated(dawid-skene)", "raykar", DEFAULT, "crowdlayer", "dasc(crowdlayer)", "iced",
    "crowding", "waum(crowdlayer)", "adaptive-difficulty",
)  # fmt: skip

# Parameters of candidates that differ from the method's defaults. Without cross-fitting raykar trusts its own labels.
SETTINGS: dict[str, dict[str, Any]] = {"raykar": {"cross_fit": 5}}


class Candidates(NamedTuple):
    """The models that a run compares, by name, and notes for the user."""

    models: dict[str, Any]  # majority vote first
    notes: list[str]
    requested: str | None  # the one method that the user asked for
    default: str | None  # JointEM or the pool, if it is one of several: another must lead it by one standard error


def default_candidates(with_features: bool) -> list[Any]:
    """Return the candidates of `choose`, names or models, for tasks with or without features."""
    names = WITH_FEATURES if with_features else WITHOUT_FEATURES
    return [make(name, **SETTINGS[name]) if name in SETTINGS else name for name in names]


def benchmark_methods(*, with_features: bool) -> list[str]:
    """Return the methods that `bench` compares by default."""
    return list(SYSTEMS) if with_features else [*WITHOUT_FEATURES, POOL]


def select_candidates(
    answers: Answers, method: Any, *, with_features: bool, seed: int, class_prior: ClassPrior = None,
    with_gold: bool = False,
) -> Candidates:  # fmt: skip
    """Return the models to compare on these answers. Majority vote is always one of them.

    Parameters
    ----------
    answers : Answers
    method : str, model, or sequence of these
        "auto", one method, or several to choose from, simplest first. A method is given by its name, or as a model,
        ours or your own.
    with_features : bool
        Whether tasks have features.
    seed : int
        Random seed of every candidate given by name. A model keeps its own.
    class_prior : as `JointEM` takes, optional
        Declared class shares. Only JointEM uses them.
    with_gold : bool
        Whether some labels are known. A method that needs gold is rejected otherwise.

    Examples
    --------
    >>> from crowdwise import simulate
    >>> list(select_candidates(simulate.simulate(20), "dawid-skene", with_features=False, seed=0).models)
    ['majority-vote', 'dawid-skene']
    """
    wanted = requested_methods(method)
    notes: list[str] = []
    requested = next(iter(wanted)) if len(wanted) == 1 and wanted != {"auto": "auto"} else None
    if wanted == {"auto": "auto"}:
        names, notes = _names_by_size(answers, with_features)
        wanted = {name: name for name in names}
    elif "auto" in wanted or not wanted:
        message = f"method={list(wanted)}: use either 'auto' or names of methods."
        raise ParameterError(message)
    for name, each in wanted.items():
        learns = find_method(each).needs_features if isinstance(each, str) else isinstance(each, CrowdClassifier)
        if learns and not with_features:
            message = f"{name} learns from features: pass features, images or texts, or choose another method."
            raise ParameterError(message)
    models = {name: _build_model(each, seed) for name, each in ({VOTE: VOTE} | wanted).items()}
    gold_only = [name for name, model in models.items() if getattr(model, "needs_gold", False)]
    if gold_only and not with_gold:
        message = f"{gold_only[0]} needs gold labels to fit: pass them with --gold (gold= in Python)."
        raise ParameterError(message)
    if class_prior is not None:
        need = f"None unless {DEFAULT} is a candidate, which needs features: no other method uses it"
        require(DEFAULT in models, "class_prior", class_prior, need)
        parse_shares(class_prior, answers.classes)  # raises if a class is missing or unknown
        models[DEFAULT].set_params(class_prior=class_prior)
        notes.append(f"The declared class shares were passed to {DEFAULT}, the only method that uses them.")
    default = None if requested is not None else next((name for name in (DEFAULT, POOL) if name in models), None)
    return Candidates(models, notes, requested, default)


def _names_by_size(answers: Answers, with_features: bool) -> tuple[list[str], list[str]]:
    """Return the names of the candidates for "auto", and a note for each list that was shortened."""
    notes = []
    names: list[str] = [*WITHOUT_FEATURES, POOL]
    if answers.n_answers > MANY_ANSWERS or with_features:
        names = list(QUICK_TRUTH)
    if answers.n_answers > MANY_ANSWERS:
        notes.append(f"There are over {MANY_ANSWERS:,} answers: only {', '.join(QUICK_TRUTH)} were compared.")
    if with_features:
        learners: tuple[str, ...] = LEARNERS
        if answers.n_tasks > MANY_TASKS:
            learners = QUICK_LEARNERS
            notes.append(f"There are over {MANY_TASKS:,} tasks: the only learners tried were {', '.join(learners)}.")
        if find_spec("torch") is None:
            learners = tuple(name for name in learners if name in LEARNERS_WITHOUT_TORCH)
            notes.append(f"torch is not installed, so networks were not tried: {install_command('torch')}.")
        names += learners
    return names, notes


def requested_methods(method: Any) -> dict[str, Any]:
    """Return the names and models in the argument `method` of a run, by label."""
    methods = [method] if isinstance(method, str) or is_own(method) else list(method)
    methods = [each if isinstance(each, str) else as_model(each, "method") for each in methods]
    labels = [label_of(each) for each in methods]
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    if repeated is not None and any(each is not repeated for each in methods if label_of(each) == repeated):
        message = f"method: two models are shown as {repeated!r}; give the class a __repr__ that tells them apart."
        raise ParameterError(message)
    return dict(zip(labels, methods, strict=True))


def label_of(model: Any) -> str:
    """Return the label of a candidate: its name, or its display on one line."""
    return model if isinstance(model, str) else " ".join(str(model).split())


def _build_model(method: Any, seed: int) -> Any:
    """Build a method by name, with this seed in every part of it; copy a model."""
    from crowdwise.learn.wrapper import resolve_base

    if not isinstance(method, str):
        return resolve_base(clone(method))
    return with_seed(make(method, **SETTINGS.get(method, {})), seed)


def with_seed(candidate: Any, seed: int) -> Any:
    """Return an unfitted copy of a model, or the method of a name, with this seed in every part of it."""
    from crowdwise.learn.wrapper import resolve_base

    model = resolve_base(make(candidate) if isinstance(candidate, str) else clone(candidate))
    seeds = [parameter for parameter in model.get_params() if parameter.rpartition("__")[2] == "random_state"]
    return model.set_params(**dict.fromkeys(seeds, seed))
