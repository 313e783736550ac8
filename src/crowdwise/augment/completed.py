"""Completed: fill in the answers nobody gave, then fit a learner anew on real and filled-in answers together.

The baselines of CrowdInG's table 1, there with CrowdLayer (DL-CL) as the learner:

    Completed("crowdlayer")                      DL-CL+Self   the learner itself says what the missing answers are
    Completed("crowdlayer", fill="crowding")     DL-CL+InG    CrowdInG's generator
    Completed("crowdlayer", fill=model)          DL-CL+GCN, DL-CL+GAN, with the models in `reproduction.baselines`

A filler is fitted on the real answers, P(k says c of i) is computed for the pairs of a task i and a worker k without
one, and the answer is the most probable class or a draw. Any learner can be the base, any learner the filler. What is
filled in by a model of the answers adds no evidence: it smooths, and carries on the mistakes of the filler.

Chu, Ma and Wang, "Improve learning from crowds via generative augmentation", KDD 2021, section 4.4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from crowdwise._core.registry import make
from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers
from crowdwise.augment.pairs import blocks_of, draw_missing
from crowdwise.evaluate.metrics import imbalance_ratio
from crowdwise.learn.base import Array, Callback, CrowdClassifier, FitInput
from crowdwise.learn.features import Features
from crowdwise.learn.wrapper import Wrapper
from crowdwise.simulate.answers import draw_labels
from crowdwise.truth.base import TruthModel, pick

BLOCK = 4096  # pairs scored at a time
SHARED = ("network", "device", "random_state")  # options that a filler known by name takes over from the base


class Completed(Wrapper):
    """A learner on answers of which the missing ones were filled in by another.

    Parameters
    ----------
    base : learner, truth model, or the name of one
        What is fitted on the completed answers.
    fill : {"self", "crowding"}, the name of a learner, a learner, or a generator
        What fills in: the base fitted on the real answers; CrowdInG; or any other model with `fit(X,
        answers)` that predicts answers, or has `generate(X)` which returns them as `.answers`. Those given by name take
        network, device and seed of the base, and all options of a base of their kind.
    hard : bool, optional
        Fill in the most probable class (True, also where nothing is said), or draw one (False). A generator draws by
        itself.
    max_pairs : int or None
        At most so many pairs are filled in, drawn uniformly; None fills in all there are.
    random_state : int
        Seed of the draws of pairs and answers.

    Attributes
    ----------
    model_ : CrowdClassifier
        The base as fitted on all answers.
    filled_ : Answers
        Those filled in.
    history_ : list of dict
        One record: answers `filled` in of each class, imbalance ratio R before and after, and the accuracy of what was
        filled in where truth is known.

    Examples
    --------
    >>> from crowdwise import Completed, CrowdLayer, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = Completed(CrowdLayer(epochs=5), max_pairs=1000).fit(X, answers)
    >>> model.filled_
    Answers(738 tasks, 40 workers, 1000 answers, 10 classes)
    """

    def __init__(
        self,
        base: CrowdClassifier | TruthModel | str = "crowdlayer",
        fill: Any = "self",
        *,
        hard: bool | None = None,
        max_pairs: int | None = 1_000_000,
        random_state: int = 0,
    ) -> None:
        self.base = base
        self.fill = fill
        self.hard = hard
        self.max_pairs = max_pairs
        self.random_state = random_state

    def _check_parameters(self) -> None:
        given = self.hard is None or isinstance(self.hard, (bool, np.bool_))
        require(given, "hard", self.hard, "True, False, or None")
        whole = self.max_pairs is None or is_integer(self.max_pairs, 1)
        require(whole, "max_pairs", self.max_pairs, "a whole number, 1 or more, or None")
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "a whole number, 0 or more")

    @property
    def filled_(self) -> Answers:
        """The answers filled in."""
        return self.model_._fitted.take(np.flatnonzero(~_among(self.model_._fitted, self._fitted)))

    def _fit(self, inputs: FitInput) -> None:
        answers, base = inputs.answers, self._new_base()
        filled = self._fill(inputs, self._filler(base))
        self.model_ = base.fit(
            inputs.features, answers.merge(filled, pseudo=True),
            sample_weight=inputs.weight, gold=inputs.gold, validation=inputs.validation, callback=inputs.callback,
        )  # fmt: skip
        self.proba_ = self.model_.proba_
        self.history_.append(described(answers, filled))

    def _filler(self, base: CrowdClassifier) -> Any:
        """What fills in, not fitted yet."""
        if self.fill == "self":
            filler = clone(base)
            keeps = "checkpoint" in filler.get_params(deep=False)
            return filler.set_params(checkpoint=None) if keeps else filler  # the file is for the fit that stays
        if not isinstance(self.fill, str):
            answering = isinstance(self.fill, CrowdClassifier) or hasattr(self.fill, "generate")
            require(answering, "fill", self.fill, "'self', 'crowding', a learner, or what has `generate`")
            return clone(self.fill, safe=False)
        filler = _named(self.fill)
        ours, theirs = filler.get_params(deep=False), base.get_params(deep=False)
        names = theirs.keys() - {"checkpoint"} if isinstance(filler, type(base)) else SHARED
        shared = {name: theirs[name] for name in names if name in ours and name in theirs}
        if hasattr(shared.get("network"), "predict_proba"):  # a scikit-learn classifier: for `Aggregated` only
            del shared["network"]
        return filler.set_params(**shared)

    def _fill(self, inputs: FitInput, filler: Any) -> Answers:
        """Fit the filler, and let it answer in place of those who did not."""
        features, answers, rng = inputs.features, inputs.answers, np.random.default_rng(self.random_state)
        options: dict[str, Any] = {}
        if isinstance(filler, CrowdClassifier):
            options = {"sample_weight": inputs.weight, "callback": of_filler(inputs.callback)}
            if filler._takes_validation():
                options["validation"] = inputs.validation
        if self.fill == "self":
            options["gold"] = inputs.gold
        filler.fit(features, answers, **options)
        n = answers.n_tasks * answers.n_workers if self.max_pairs is None else self.max_pairs
        if hasattr(filler, "generate"):
            require(self.hard is None, "hard", self.hard, f"None: {type(filler).__name__} draws the answers itself")
            made = filler.generate(features).answers
            new = np.flatnonzero(~_among(made, answers))
            return made.take(np.sort(rng.permutation(new)[:n]))
        task, worker = draw_missing(answers, n, rng)
        label = fill_in(filler, features, task, worker, rng, hard=self.hard is None or bool(self.hard))
        return replace(
            answers, task=task.astype(np.int32), worker=worker.astype(np.int32), label=label,
            weight=None, pseudo=None, truth=None, removed={},
        )  # fmt: skip


def fill_in(
    filler: Any, features: Features, task: Array, worker: Array, rng: np.random.Generator, *, hard: bool
) -> Array:
    """What the workers would say, (pairs,) int32 codes, of training tasks; pairs in order of tasks."""
    # A model that knows training tasks by more than their features completes them by that.
    proba_of = getattr(filler, "complete", filler._proba_of_answers)
    parts = [np.empty(0, np.int32)]
    for tasks, row, who in blocks_of(task, worker, BLOCK, features.block_size(BLOCK)):
        proba = proba_of(features, tasks, row, who)  # (block, classes)
        parts.append(pick(proba, rng) if hard else draw_labels(proba, rng.random(len(proba))))
    return np.concatenate(parts)


def of_filler(callback: Callback | None) -> Callback | None:
    """The callback for the epochs of the filler: told apart from those of the learner that stays."""
    return None if callback is None else lambda record: callback({"stage": "filling", **record})


def described(answers: Answers, filled: Answers) -> dict[str, Any]:
    """What was filled in, for `history_`."""
    before = np.bincount(answers.label, minlength=answers.n_classes)
    added = np.bincount(filled.label, minlength=answers.n_classes)
    out = {
        "filled": added.tolist(),
        "imbalance_before": imbalance_ratio(before),
        "imbalance_after": imbalance_ratio(before + added),
    }
    if answers.truth is not None:
        truth = answers.truth[filled.task]
        known = truth >= 0
        if known.any():
            out["filled_accuracy"] = float((filled.label == truth)[known].mean())
    return out


def _named(name: str) -> Any:
    filler = make(name)
    answering = isinstance(filler, CrowdClassifier)
    require(answering, "fill", name, "'self', 'crowding', or the name of a learner that takes features")
    return filler


def _among(some: Answers, others: Answers) -> Array:
    """Which of some answers, (answers,), are to a task and by a worker that others hold an answer of."""
    n = max(some.n_workers, others.n_workers)
    code, theirs = (a.task.astype(np.int64) * n + a.worker for a in (some, others))  # increasing
    at = np.minimum(np.searchsorted(theirs, code), len(theirs) - 1)
    return np.asarray(theirs[at] == code)
