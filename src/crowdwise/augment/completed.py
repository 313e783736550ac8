"""Completed: fill in missing answers, then fit a learner on real and filled-in answers together.

The baselines of CrowdInG's table 1, there with CrowdLayer (DL-CL) as the learner:

    Completed("crowdlayer")                      DL-CL+Self   the learner itself predicts the missing answers
    Completed("crowdlayer", fill="crowding")     DL-CL+InG    CrowdInG's generator
    Completed("crowdlayer", fill=model)          DL-CL+GCN, DL-CL+GAN, with the models in `reproduction.baselines`

A filler is fitted on the real answers. It predicts P(worker k answers c to task i) for pairs without an answer; the
filled-in answer is the most probable class or a draw. Any learner can be the base or the filler. Filled-in answers add
no evidence: they smooth, and they repeat the filler's mistakes.

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
from crowdwise.augment.pairs import draw_missing, pair_blocks
from crowdwise.evaluate.metrics import imbalance_ratio
from crowdwise.learn.base import Array, Callback, CrowdClassifier, FitInput
from crowdwise.learn.features import Features
from crowdwise.learn.wrapper import Wrapper
from crowdwise.simulate.answers import draw_labels
from crowdwise.truth.base import TruthModel, pick

BLOCK = 4096  # pairs scored at a time
SHARED = ("network", "device", "random_state")  # options that a filler given by name takes from the base


class Completed(Wrapper):
    """A learner trained on answers whose missing ones were filled in by another.

    Parameters
    ----------
    base : learner, truth model, or the name of one
        The model to fit on the completed answers.
    fill : {"self", "crowding"}, the name of a learner, a learner, or a generator
        The filler: the base itself, fitted on the real answers; CrowdInG; or any model with `fit(X, answers)` that
        predicts answers, or whose `generate(X)` returns them as `.answers`. A filler given by name takes network,
        device and seed from the base, and all options if it is of the same class.
    hard : bool, optional
        Fill in the most probable class (True), or draw one (False). By default True, and False for CrowdInG, whose
        answers are draws. Another generator draws its own answers.
    max_pairs : int or None
        Fill in at most this many pairs, sampled uniformly. None fills in all.
    random_state : int
        Seed of the sampled pairs and drawn answers.

    Attributes
    ----------
    model_ : CrowdClassifier
        The base fitted on all answers.
    filled_ : Answers
        The filled-in answers.
    history_ : list of dict
        One record: answers `filled` in per class, imbalance ratio R before and after, and the accuracy of the filled-in
        answers if the truth is known.

    Examples
    --------
    >>> from crowdwise import Completed, CrowdLayer, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = Completed(CrowdLayer(epochs=5), max_pairs=1000).fit(X, answers)
    >>> model.filled_
    Answers(738 tasks, 40 workers, 1000 answers, 10 classes)
    """

    proba_: Array

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
        fits = self.hard is None or isinstance(self.hard, (bool, np.bool_))
        require(fits, "hard", self.hard, "True, False, or None")
        fits = self.max_pairs is None or is_integer(self.max_pairs, 1)
        require(fits, "max_pairs", self.max_pairs, "an integer of 1 or more, or None")
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "an integer of 0 or more")

    @property
    def filled_(self) -> Answers:
        """The filled-in answers."""
        return self.model_._fitted.take(np.flatnonzero(~_answered_in(self.model_._fitted, self._fitted)))

    def _fit(self, inputs: FitInput) -> None:
        answers, base = inputs.answers, self._new_base()
        filler = self._filler(base)
        filled = self._fill(inputs, filler)
        if self.fill == "self":
            base = _trained_like(filler, base, inputs.features)
        self.model_ = base.fit(
            inputs.features, answers.merge(filled, pseudo=True),
            sample_weight=inputs.weight, gold=inputs.gold, validation=inputs.validation, callback=inputs.callback,
        )  # fmt: skip
        self.proba_ = self.model_.proba_
        self.history_.append(fill_statistics(answers, filled))

    def _filler(self, base: CrowdClassifier) -> Any:
        """Return the filler, not fitted yet."""
        if self.fill == "self":
            filler = clone(base)
            has_checkpoint = "checkpoint" in filler.get_params(deep=False)
            return filler.set_params(checkpoint=None) if has_checkpoint else filler  # the file is for the final fit
        if not isinstance(self.fill, str):
            valid = isinstance(self.fill, CrowdClassifier) or hasattr(self.fill, "generate")
            require(valid, "fill", self.fill, "'self', 'crowding', a learner, or a model with `generate`")
            return clone(self.fill, safe=False)
        filler = _make_filler(self.fill)
        ours, theirs = filler.get_params(deep=False), base.get_params(deep=False)
        names = theirs.keys() - {"checkpoint"} if isinstance(filler, type(base)) else SHARED
        shared = {name: theirs[name] for name in names if name in ours and name in theirs}
        if hasattr(shared.get("network"), "predict_proba"):  # a scikit-learn classifier: for `Aggregated` only
            del shared["network"]
        return filler.set_params(**shared)

    def _fill(self, inputs: FitInput, filler: Any) -> Answers:
        """Fit the filler, and return its answers for missing pairs."""
        features, answers, rng = inputs.features, inputs.answers, np.random.default_rng(self.random_state)
        options: dict[str, Any] = {}
        if isinstance(filler, CrowdClassifier):
            options = {"sample_weight": inputs.weight, "callback": filler_callback(inputs.callback)}
            if filler._takes_validation():
                options["validation"] = inputs.validation
        if self.fill == "self":
            options["gold"] = inputs.gold
        filler.fit(features, answers, **options)
        n = answers.n_tasks * answers.n_workers if self.max_pairs is None else self.max_pairs
        generates = hasattr(filler, "generate")
        if generates and not isinstance(filler, CrowdClassifier):
            require(self.hard is None, "hard", self.hard, f"None: {type(filler).__name__} draws the answers itself")
            made = filler.generate(features).answers
            new = np.flatnonzero(~_answered_in(made, answers))
            return made.take(np.sort(rng.permutation(new)[:n]))
        task, worker = draw_missing(answers, n, rng)
        hard = not generates if self.hard is None else bool(self.hard)
        label = fill_in(filler, features, task, worker, rng, hard=hard)
        return replace(
            answers, task=task.astype(np.int32), worker=worker.astype(np.int32), label=label,
            weight=None, pseudo=None, truth=None, removed={},
        )  # fmt: skip


def _trained_like(filler: Any, base: CrowdClassifier, features: Features) -> CrowdClassifier:
    """Return the base, set to train for as long as its filler, the same learner, found."""
    if not hasattr(filler, "training_search_"):  # not a network
        return base
    from crowdwise.learn.network.plans import follow_plan, found_plan  # imports torch

    learner: CrowdClassifier = follow_plan(base, found_plan(filler), features.shape)
    return learner


def fill_in(
    filler: Any, features: Features, task: Array, worker: Array, rng: np.random.Generator, *, hard: bool
) -> Array:
    """Return predicted answers, (pairs,) int32 codes, to training tasks; pairs are sorted by task."""
    # A model that knows more of training tasks than their features has `complete`.
    proba_of = getattr(filler, "complete", filler._proba_of_answers)
    parts = [np.empty(0, np.int32)]
    for tasks, row, who in pair_blocks(task, worker, BLOCK, features.block_size(BLOCK)):
        proba = proba_of(features, tasks, row, who)  # (block, classes)
        parts.append(pick(proba, rng) if hard else draw_labels(proba, rng.random(len(proba))))
    return np.concatenate(parts)


def filler_callback(callback: Callback | None) -> Callback | None:
    """Return the callback for the filler's epochs, which marks its records with a stage."""
    return None if callback is None else lambda record: callback({"stage": "filling", **record})


def fill_statistics(answers: Answers, filled: Answers) -> dict[str, Any]:
    """Return the record for `history_`."""
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


def _make_filler(name: str) -> Any:
    filler = make(name)
    valid = isinstance(filler, CrowdClassifier)
    require(valid, "fill", name, "'self', 'crowding', or the name of a learner that takes features")
    return filler


def _answered_in(some: Answers, others: Answers) -> Array:
    """Return which answers, (answers,), have the same task and worker as one in `others`."""
    n = max(some.n_workers, others.n_workers)
    code, theirs = (a.task.astype(np.int64) * n + a.worker for a in (some, others))  # increasing
    at = np.minimum(np.searchsorted(theirs, code), len(theirs) - 1)
    return np.asarray(theirs[at] == code)
