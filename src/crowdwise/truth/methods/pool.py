"""A linear pool of truth methods: fit eight, and average their probabilities instead of choosing one.

    proba[t, c] = sum_m weight[m] proba_m[t, c]                                        t = task, c = class, m = method
    weight[m]   proportional to 1 / (1 + drift[m] / SCALE)
    drift[m]    = 1/2 sum_c |share_m[c] - share_vote[c]|                               total variation, 0 to 1

`share_m[c]` is the mean over tasks of `proba_m[t, c]`, and `share_vote` that of the vote shares. A method that moves
the class shares far from the votes' may be right, but where workers make the same mistakes it is more often wrong. The
answers cannot tell the two apart, so it counts for less. With drift 0.1, it counts half.

Labels are known only up to a permutation of the classes: if 8 of 20 workers always say the class after the right one,
the answers fit equally well if the other 12 are wrong in every task, and some methods prefer what the 8 agree on. So if
workers with more than half of the answers are right less often than a guess, by a method's labels, it is fitted again
to the answers of these workers alone (`refitted_`): most workers answer better than chance.

Workers who give the same answer to every task, whatever the others say (`truth.peer_quality.constant_label`), tell
nothing about the truth, but they move the votes, the class shares and all that is measured against them. If there are
any by the pooled labels, all methods are fitted again without them (`left_out_`).

The opinion pool is Stone, "The opinion pool", Annals of Mathematical Statistics 32 (1961). The pooled methods differ in
what they assume: votes (naive-soft, wawa), one accuracy per worker (one-coin), with task difficulty (glad), guessing
(mace), a confusion matrix per worker (dawid-skene, ibcc) and subtypes that many workers mistake (ebcc).

Fails when all methods are wrong together: mistakes that most workers share are in every method's labels, and if half
of the workers or more answer against the truth, nothing in the answers shows it. The pooled probabilities are too
confident then; `crowdwise.trust.calibrated`, which `crowdwise run` uses, corrects for the former on average.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from crowdwise._core.registry import make
from crowdwise._core.validation import is_number, require
from crowdwise.answers import Answers
from crowdwise.errors import ConvergenceWarning
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, pick, vote_shares, weights_of
from crowdwise.truth.peer_quality import constant_label
from crowdwise.truth.tables import wilson

METHODS = ("naive-soft", "wawa", "one-coin", "dawid-skene", "glad", "mace", "ebcc", "ibcc")
SCALE = 0.1  # drift at which a method counts half
TIE = 1e-9  # probabilities this close are equal
MAX_LOGIT = 7.0  # probabilities from .0009 to .9991
MIN_ANSWERS = 5  # workers with fewer are not judged
MOST = 0.5  # share of answers by workers below chance from which a method is fitted again


class Pool(TruthModel):
    """Average the probabilities of several truth methods.

    Parameters
    ----------
    methods : sequence of str
        Registry names of the methods to pool. The shipped calibrator takes the default.
    scale : float
        Drift of the class shares from the votes' at which a method counts half. Infinity weights all equally.
    random_state : int
        Passed to every method, and used to break ties.

    Attributes
    ----------
    labels_, proba_
        As in every truth model: the class of highest pooled probability, and the pooled probabilities.
    log_odds_ : (tasks, classes) array
        Mean over the methods of the log odds that each gives to the class, clipped to +-7.
    method_agrees_ : (methods, tasks) bool array
        Whether the pool's label is the method's, or one of those that tie for it.
    weights_ : (methods,) array
        Weight of each method; they sum to one.
    drift_ : (methods,) array
        Distance of each method's class shares from the votes'.
    agreement_ : dict of str to float
        Share of tasks on which each method gives the pool's label.
    refitted_ : (methods,) bool array
        Methods that took the majority of workers to be wrong, and were fitted again to the answers of that majority.
    left_out_ : (workers,) bool array
        Workers who always give the same answer. The methods are fitted without them.

    Examples
    --------
    >>> import crowdwise as cw
    >>> answers = cw.simulate.simulate(100, n_workers=10, n_classes=3, answers_per_task=5, seed=1)
    >>> pool = cw.Pool().fit(answers, gold={0: 2})
    >>> pool.labels_[0], pool.proba_[0].tolist()
    (np.int64(2), [0.0, 0.0, 1.0])
    >>> sorted(pool.agreement_) == sorted(pool.methods)
    True
    """

    log_odds_: Array
    method_agrees_: Array
    weights_: Array
    drift_: Array
    agreement_: dict[str, float]
    refitted_: Array
    left_out_: Array

    proba_: Array

    def __init__(self, methods: tuple[str, ...] = METHODS, *, scale: float = SCALE, random_state: int = 0) -> None:
        self.methods = methods
        self.scale = scale
        self.random_state = random_state

    def _check_parameters(self) -> None:
        named = not isinstance(self.methods, str) and len(self.methods) > 0
        require(named, "methods", self.methods, "at least one name of a truth method, in a tuple")
        positive = self.scale == np.inf or (is_number(self.scale) and self.scale > 0)
        require(positive, "scale", self.scale, "a number above 0, or infinity")

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        proba = self._fit_methods(answers, gold, callback)
        idle = constant_label(answers, self._average(proba)) >= 0  # (workers,)
        self.left_out_ = np.zeros(answers.n_workers, bool) if idle[answers.worker].all() else idle
        if self.left_out_.any():
            proba = self._fit_methods(answers.take(np.flatnonzero(~idle[answers.worker])), gold, callback)
        self.proba_ = fix_gold(self._average(proba), gold)
        label = pick(self.proba_, np.random.default_rng(self.random_state))  # as `fit` will pick
        rows = np.arange(answers.n_tasks)
        self.log_odds_ = np.sum([logit(each) for each in proba], axis=0) / len(proba)
        self.method_agrees_ = np.array([each[rows, label] >= each.max(axis=1) - TIE for each in proba])
        self.agreement_ = dict(zip(self.methods, self.method_agrees_.mean(axis=1).tolist(), strict=True))

    def _fit_methods(self, answers: Answers, gold: Array | None, callback: Callback | None) -> list[Array]:
        """Return the probabilities of each method, (tasks, classes); set `refitted_`, `drift_` and `weights_`."""
        self.refitted_ = np.zeros(len(self.methods), bool)
        weight = weights_of(answers) if answers.weight is not None else np.ones(answers.n_answers)
        vote = fix_gold(vote_shares(answers), gold).mean(axis=0)  # (classes,)
        drift = np.empty(len(self.methods))
        proba: list[Array] = []
        for m, name in enumerate(self.methods):
            model = make(name, random_state=self.random_state)
            with warnings.catch_warnings():  # one method of eight that is not fully converged changes the mean little
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(answers, gold)
                below = below_chance(answers, model.codes_)[answers.worker]  # (answers,)
                if weight @ below > MOST * weight.sum():
                    self.refitted_[m] = True
                    model.fit(replace(answers, weight=weight * below), gold)
                proba.append(model.proba_)
            drift[m] = 0.5 * np.abs(proba[m].mean(axis=0) - vote).sum()
            if callback is not None:
                callback(m, float("nan"))
        shares = 1 / (1 + drift / self.scale)
        self.drift_, self.weights_ = drift, shares / shares.sum()
        return proba

    def _average(self, proba: list[Array]) -> Array:
        """Return the pooled probabilities, (tasks, classes)."""
        pooled = np.zeros_like(proba[0])
        for share, each in zip(self.weights_, proba, strict=True):
            pooled += share * each
        return np.asarray(pooled / pooled.sum(axis=1, keepdims=True))


def below_chance(answers: Answers, codes: Array) -> Array:
    """Return which workers, (workers,) bools, are right less often than a guess if these labels (tasks,) are right.

    >>> answers = Answers.from_arrays(np.arange(20) % 10, np.repeat(["a", "b"], 10), np.repeat(["x", "y"], 10))
    >>> below_chance(answers, np.zeros(10, int)).tolist()
    [False, True]
    """
    n = np.bincount(answers.worker, minlength=answers.n_workers)
    right = np.bincount(answers.worker, answers.label == codes[answers.task], answers.n_workers)
    return np.asarray((n >= MIN_ANSWERS) & (wilson(right, n)[1] < 1 / answers.n_classes))


def logit(probability: Array) -> Array:
    """Return log odds, clipped to +-`MAX_LOGIT`.

    >>> logit(np.array([0.0, 0.5, 1.0])).tolist()
    [-7.0, 0.0, 7.0]
    """
    with np.errstate(divide="ignore"):
        return np.clip(np.log(probability) - np.log1p(-np.asarray(probability)), -MAX_LOGIT, MAX_LOGIT)
