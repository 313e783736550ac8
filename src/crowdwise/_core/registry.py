"""The registry: one line per method, the methods of users, and the module of every other public name.

One line of `_METHODS` gives a method its name in `cw.make` and on the command line, its class in `crowdwise`, its place
in the documentation, the README and the benchmarks, and its generic tests. `make generate` writes the derived files.

Methods of users are added by `register`, or by an installed package with an entry point in the group `ENTRY_POINTS`,
which is imported when the methods are listed or a name is not found.
"""

from __future__ import annotations

import difflib
import inspect
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from crowdwise._core.own_classes import home_of, remember
from crowdwise.errors import CrowdwiseWarning, ParameterError

ENTRY_POINTS = "crowdwise.methods"


@dataclass(frozen=True)
class Method:
    """One method: its name, class, paper and purpose."""

    name: str
    home: str  # "module:class", the module relative to crowdwise; imported only when the method is built
    paper: str
    what_for: str
    needs_features: bool = False
    takes_model: bool = False  # as its first argument: `aggregated(dawid-skene)`
    kind: str = "classes"  # of the answers it takes; the same as its class attribute `answer_kind`
    own: type | None = None  # the class, if a user registered it

    def load(self) -> type:
        """Import and return the class."""
        return self.own or load_class(self.home)

    def build(self, *arguments: Any, **parameters: Any) -> Any:
        """Return a model. A class of a user that is not a subclass of ours is adapted (`learn.adapter`)."""
        model = self.load()(*arguments, **parameters)
        return model if self.own is None else load_class("learn.adapter:as_model")(model)


def load_class(home: str) -> type:
    """Import and return the class at `module:class`, the module relative to `crowdwise`."""
    module, name = home.split(":")
    return getattr(import_module(f"crowdwise.{module}"), name)


_METHODS = (
    Method("majority-vote", "truth.methods.majority_vote:MajorityVote", "-",
           "the baseline; ties are broken at random"),
    Method("naive-soft", "truth.methods.naive_soft:NaiveSoft", "-",
           "vote shares as soft labels"),
    Method("dawid-skene", "truth.methods.dawid_skene:DawidSkene", "Dawid and Skene 1979",
           "one confusion matrix per worker, the default of `aggregate`"),
    Method("one-coin", "truth.methods.one_coin:OneCoin", "Zhang et al. 2014",
           "one accuracy per worker, for few answers per worker"),
    Method("wds", "truth.methods.wds:WDS", "Lefort et al. 2024 (WAUM)",
           "votes weighted by each worker's Dawid-Skene accuracy on the class"),
    Method("glad", "truth.methods.glad:GLAD", "Whitehill et al. 2009",
           "worker ability and task difficulty"),
    Method("mace", "truth.methods.mace:MACE", "Hovy et al. 2013",
           "workers who sometimes answer without looking at the task"),
    Method("kos", "truth.methods.kos:KOS", "Karger, Oh and Shah 2011",
           "message passing, for tasks assigned to workers at random"),
    Method("wawa", "truth.methods.wawa:Wawa", "Appen 2021",
           "votes weighted by agreement with the majority"),
    Method("zero-based-skill", "truth.methods.zero_based_skill:ZeroBasedSkill", "Toloka 2021",
           "votes weighted by skills that start at zero"),
    Method("mmsr", "truth.methods.mmsr:MMSR", "Ma and Olshevsky 2020",
           "robust to a minority of adversarial workers"),
    Method("iwmv", "truth.methods.iwmv:IWMV", "Li and Yu 2014",
           "iterative weighted majority vote, near optimal for one accuracy per worker"),
    Method("two-third", "truth.methods.two_third:TwoThird", "iNaturalist",
           "a label only where two thirds of the votes agree"),
    Method("ibcc", "truth.methods.ibcc:IBCC", "Kim and Ghahramani 2012",
           "Bayesian Dawid-Skene, for few answers per worker"),
    Method("ebcc", "truth.methods.ebcc:EBCC", "Li, Rubinstein and Cohn 2019",
           "workers who make the same mistakes on subtypes of a class"),
    Method("pool", "truth.methods.pool:Pool", "Crowdwise",
           "the average of eight methods, which `crowdwise run` takes the labels from without features"),
    Method("gold-vote", "truth.methods.gold_vote:GoldVote", "-",
           "votes weighted by accuracy on gold tasks"),
    Method("joint-em", "learn.joint_em.joint_em:JointEM", "Crowdwise",
           "the default with features: a cross-fitted, calibrated classifier inside EM", needs_features=True),
    Method("aggregated", "learn.methods.aggregated:Aggregated", "-",
           "two steps: infer labels, then train a classifier on them", needs_features=True, takes_model=True),
    Method("raykar", "learn.methods.raykar:Raykar", "Raykar et al. 2010",
           "logistic classifier and confusion matrices, fitted jointly by EM", needs_features=True),
    Method("aggnet", "learn.methods.aggnet:AggNet", "Albarqouni et al. 2016",
           "network and confusion matrices, fitted jointly by EM", needs_features=True),
    Method("crowdlayer", "learn.methods.crowdlayer:CrowdLayer", "Rodrigues and Pereira 2018",
           "one output layer per worker on top of the network", needs_features=True),
    Method("annoreg", "learn.methods.annoreg:AnnoReg", "Tanno et al. 2019",
           "confusion matrices in the network, regularised by their trace", needs_features=True),
    Method("conal", "learn.methods.conal:CoNAL", "Chu, Ma and Wang 2021",
           "noise shared by all workers in addition to individual noise", needs_features=True),
    Method("doctornet", "learn.methods.doctornet:DoctorNet", "Guan et al. 2018",
           "one classifier per worker, averaged", needs_features=True),
    Method("maxmig", "learn.methods.maxmig:MaxMIG", "Cao et al. 2019",
           "correlated mistakes: maximises mutual information between classifier and answers", needs_features=True),
    Method("mbem", "learn.methods.mbem:MBEM", "Khetan, Lipton and Anandkumar 2018",
           "one answer per task, many tasks per worker", needs_features=True),
    Method("cpc", "learn.methods.cpc:CPC", "Kajino, Tsuboi and Kashima 2013",
           "groups of workers who answer alike", needs_features=True),
    Method("adaptive-difficulty", "learn.methods.difficulty.models:AdaptiveDifficultyEM", "Xu et al. (Data Difficulty)",
           "task difficulty estimated from the uncertainty of the labels", needs_features=True),
    Method("fixed-difficulty", "learn.methods.difficulty.models:FixedDifficultyEM", "Xu et al. (Data Difficulty)",
           "task difficulty estimated from disagreement of the votes", needs_features=True),
    Method("unionnet", "learn.methods.unionnet:UnionNet", "Wei et al. 2022",
           "one confusion matrix for all workers together", needs_features=True),
    Method("geocrowdnet", "learn.methods.geocrowdnet:GeoCrowdNet", "Ibrahim, Nguyen and Fu 2023",
           "confusion matrices made identifiable by volume regularisation", needs_features=True),
    Method("crowdlab", "learn.methods.crowdlab:CrowdLab", "Goh, Tkachenko and Mueller 2022",
           "probabilities of any classifier combined with the answers", needs_features=True),
    Method("dasc", "augment.dasc.dasc:DASC", "DASC (Distribution-Aware Self-training for Crowdsourcing)",
           "self-training of any learner, with more answers of rare classes", needs_features=True, takes_model=True),
    Method("iced", "augment.iced.iced:ICED", "ICED",
           "alternates between inferring labels and creating synthetic tasks of rare classes", needs_features=True),
    Method("crowding", "augment.crowding.crowding:CrowdInG", "Chu and Wang 2021 (CrowdInG)",
           "missing answers filled in by an adversarially trained generator", needs_features=True),
    Method("completed", "augment.completed:Completed", "baselines of CrowdInG",
           "any learner, trained on answers that another learner filled in", needs_features=True, takes_model=True),
    Method("waum", "ambiguity.pruned:Pruned", "Lefort et al. 2024 (WAUM)",
           "any learner, trained without the most ambiguous tasks", needs_features=True, takes_model=True),
    Method("mean", "kinds.ratings.methods.averages:Mean", "-",
           "the mean of the ratings, the baseline for numbers", kind="ratings"),
    Method("median", "kinds.ratings.methods.averages:Median", "-",
           "the median of the ratings, the baseline on a scale", kind="ratings"),
    Method("trimmed-mean", "kinds.ratings.methods.averages:TrimmedMean", "-",
           "the mean without the lowest and highest ratings", kind="ratings"),
    Method("mean-rounded", "kinds.ratings.methods.averages:MeanRounded", "-",
           "the mean, rounded to a level of the scale", kind="ratings"),
    Method("ordinal-dawid-skene", "kinds.ratings.methods.ordinal:OrdinalDawidSkene", "Crowdwise",
           "bias, spread and thresholds of each worker on a scale", kind="ratings"),
    Method("ordinal-glad", "kinds.ratings.methods.ordinal_glad:OrdinalGLAD", "Whitehill et al. 2009",
           "the same, with tasks that differ in difficulty", kind="ratings"),
    Method("ordinal-pool", "kinds.ratings.methods.ordinal_pool:OrdinalPool", "Crowdwise",
           "the ordinal model averaged with the pool of methods for classes", kind="ratings"),
    Method("gaussian-workers", "kinds.ratings.methods.gaussian:GaussianWorkers", "Raykar et al. 2010",
           "bias, scale and variance of each worker", kind="ratings"),
    Method("student-workers", "kinds.ratings.methods.gaussian:StudentWorkers", "Crowdwise",
           "the same, robust to ratings far from the others", kind="ratings"),
    Method("gtm", "kinds.ratings.methods.gtm:GTM", "Zhao and Han 2012",
           "one variance per worker", kind="ratings"),
    Method("catd", "kinds.ratings.methods.catd:CATD", "Li et al. 2014",
           "weighted means, with little weight for workers with few ratings", kind="ratings"),
    Method("bradley-terry", "kinds.comparisons.methods.bradley_terry:BradleyTerry", "Bradley and Terry 1952",
           "scores of items from comparisons; a tie is half a win for both", kind="comparisons"),
    Method("davidson", "kinds.comparisons.methods.bradley_terry:Davidson", "Davidson 1970",
           "the same, with ties as an outcome of their own", kind="comparisons"),
    Method("crowd-bradley-terry", "kinds.comparisons.methods.crowd_bradley_terry:CrowdBradleyTerry", "Chen et al. 2013",
           "scores of items and the reliability of each worker", kind="comparisons"),
)  # fmt: skip

_BY_NAME = {method.name: method for method in _METHODS}
_OWN: dict[str, Method] = {}  # methods of users

# Networks, by the names that `network=` and model files use.
NETWORKS = {
    "logistic": "learn.network.architectures:Logistic",
    "mlp": "learn.network.architectures:MLP",
    "cnn": "learn.network.architectures:CNN",
}
# Public models without a method name: they rank tasks, or are used inside other methods.
MODELS = {"AUM": "ambiguity.aum", "WAUM": "ambiguity.waum"}
# Models around objects of users, in model files.
ADAPTERS = {"TruthAdapter": "truth.adapter", "LearnerAdapter": "learn.adapter"}
# Other public names of the package, and the module each one lives in.
NAMES = {
    "Answers": "answers",
    "Comparisons": "answers",
    "Ratings": "answers",
    "CrowdwiseError": "errors",
    "CrowdwiseWarning": "errors",
    "bench": "choose.benchmark",
    "load": "io.model_files",
    "make": "_core.registry",
    "methods": "_core.registry",
    "pseudonymised": "answers.pseudonyms",
    "read": "io",
    "register": "_core.registry",
    "write": "io",
}
PACKAGES = (
    "acquire",
    "choose",
    "datasets",
    "engines",
    "errors",
    "evaluate",
    "plots",
    "report",
    "run",
    "simulate",
    "testing",
    "trust",
)


def public_names() -> dict[str, str]:
    """Return the module of every public name of `crowdwise`, packages excepted.

    >>> public_names()["DawidSkene"]
    'truth.methods.dawid_skene'
    """
    classes = dict(home.split(":")[::-1] for home in (*(method.home for method in _METHODS), *NETWORKS.values()))
    return {**NAMES, **MODELS, **classes}


def methods(kind: str | None = None) -> list[Method]:
    """Return the methods of crowdwise, then those of users: all, or those for one kind of answers ("ratings", ...).

    >>> [m.name for m in methods()][:2]
    ['majority-vote', 'naive-soft']
    """
    _register_installed()
    found = [*_METHODS, *_OWN.values()]
    kinds = list(dict.fromkeys(method.kind for method in found))
    if kind is not None and kind not in kinds:
        message = f"no methods for the kind {kind!r}; the kinds are {', '.join(kinds)}."
        raise ParameterError(message)
    return [method for method in found if kind in (None, method.kind)]


def register(name: str, method: type, *, paper: str = "-", what_for: str | None = None) -> None:
    """Make your own method known by a name, in `crowdwise.make`, in `crowdwise.run(method=name)` and when it is loaded.

    A package makes its methods known wherever it is installed, also to the command line, by an entry point:

        [project.entry-points."crowdwise.methods"]
        my-method = "my_package.my_module:MyMethod"

    Parameters
    ----------
    name : str
        Lower-case letters, digits and hyphens. Not a name of crowdwise; a name that you registered before is replaced.
    method : class
        A subclass of `TruthModel` or `CrowdClassifier`, or any class with their main methods: `fit(answers)`, after
        which `proba_` or `labels_` are set; or `fit(X, answers)` and `predict_proba(X)`. If the first argument of
        its constructor is called `base`, the name takes another method in brackets.
    paper, what_for : str, optional
        For the list of methods. `what_for` defaults to the first line of the docstring.

    Examples
    --------
    >>> class AnyAnswer:
    ...     "The first answer to each task."
    ...     def fit(self, answers):
    ...         self.labels_ = answers.classes[answers.label[answers.task_starts[:-1]]]
    >>> register("any-answer", AnyAnswer)
    >>> from crowdwise import Answers
    >>> make("any-answer").fit(Answers.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "y", "y"])).labels_.tolist()
    ['x', 'y']
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        message = f"name={name!r}: use lower-case letters, digits and hyphens, such as 'my-method'."
        raise ParameterError(message)
    if name in _BY_NAME:
        message = f"name={name!r} is a method of crowdwise: choose another name."
        raise ParameterError(message)
    if not isinstance(method, type) or not callable(getattr(method, "fit", None)):
        message = f"method={method!r}: use a class with fit(answers), or with fit(X, answers) and predict_proba(X)."
        raise ParameterError(message)
    if what_for is None:
        what_for = (inspect.getdoc(method) or "").partition("\n")[0].rstrip(".")
    first = next(iter(inspect.signature(method).parameters), None)
    needs_features = hasattr(method, "predict_proba")
    remember(method)
    kind = getattr(method, "answer_kind", "classes")
    _OWN[name] = Method(name, home_of(method), paper, what_for, needs_features, first == "base", kind, method)


def own_methods() -> tuple[Method, ...]:
    """Return the methods registered by users, for `adopt` in a child process."""
    return tuple(_OWN.values())


def adopt(found: Iterable[Method]) -> None:
    """Register the methods of the parent process."""
    _OWN.update({method.name: method for method in found})


@cache
def _register_installed() -> None:
    """Register the methods of installed packages."""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            register(entry.name, entry.load())
        except Exception as error:  # of any kind: the package is not ours, and must not break the others
            package = "a package" if entry.dist is None else entry.dist.name
            text = f"The method {entry.name!r} of {package} was not registered: {type(error).__name__}: {error}"
            warnings.warn(text, CrowdwiseWarning, stacklevel=2)


def make(name: str, **parameters: Any) -> Any:
    """Build a method from its registry name.

    `outer(inner)` passes the inner method to the outer one as its first argument; `parameters` go to the outer one.

    >>> make("dawid-skene", max_iter=10)
    DawidSkene(max_iter=10)
    """
    outermost, *inner = _parse(name)
    argument: tuple[Any, ...] = ()
    for method in reversed(inner):
        argument = (method.build(*argument),)
    return outermost.build(*argument, **parameters)


def find_method(name: str) -> Method:
    """Return the method of a name; of a composite `outer(inner)`, the outer one.

    >>> find_method("dawid-skene").paper
    'Dawid and Skene 1979'
    """
    return _parse(name)[0]


def _parse(text: str) -> list[Method]:
    """Return the methods of `a(b(c))`, outermost first."""
    if not isinstance(text, str):
        message = f"{text!r} is not the name of a method: `crowdwise methods` lists them all."
        raise ParameterError(message)
    match = re.fullmatch(r"([^)]*)([)\s]*)", text)
    if match is None:
        at = re.search(r"\)\s*[^)\s]", text).end()  # type: ignore[union-attr]
        message = f"{text!r}: nothing may follow a closing bracket, but {text[at - 1]!r} does at position {at}."
        raise ParameterError(message)
    names, n_closed = match[1].split("("), match[2].count(")")
    if len(names) - 1 != n_closed:
        message = f"{text!r}: {len(names) - 1} opening and {n_closed} closing brackets; write outer(inner)."
        raise ParameterError(message)
    out, position = [], 1
    for i, name in enumerate(names):
        method = _find(name.strip(), text, position + len(name) - len(name.lstrip()))
        if i + 1 < len(names) and not method.takes_model:
            takers = ", ".join(m.name for m in methods() if m.takes_model)
            message = f"{text!r}: {method.name} takes no other method in brackets (these do: {takers})."
            raise ParameterError(message)
        out.append(method)
        position += len(name) + 1
    return out


def _find(name: str, text: str, position: int) -> Method:
    if name in _BY_NAME:
        return _BY_NAME[name]
    _register_installed()
    if name in _OWN:
        return _OWN[name]
    where = "" if name == text else f" at position {position} of {text!r}"
    by_class = {m.home.partition(":")[2].lower(): m.name for m in methods()}  # CrowdLayer for crowdlayer
    near = difflib.get_close_matches(name.lower(), [*_BY_NAME, *_OWN, *by_class], n=3)
    suggestions = dict.fromkeys(by_class.get(word, word) for word in near)
    hint = f" Did you mean {', '.join(suggestions)}?" if suggestions else ""
    message = f"no method {name!r}{where}.{hint} `crowdwise methods` lists them all."
    raise ParameterError(message)
