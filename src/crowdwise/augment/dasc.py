"""DASC: self-training that adds the answers a learner is sure of, more of the rare classes than of the common ones.

    q        P(worker w says each label of task t) by the learner, for every pair (t, w) without an answer
    c        its most probable label: the pseudo-answer
    H        entropy of q; the lower the surer                                                          eq. 2
    N'_c     pairs without an answer whose pseudo-answer is c
    tau_c    proportional to 1 / N'_c, summing to one                                                   eq. 4
    M_c      tau_c M, at most N'_c: how many pseudo-answers c are added, those of lowest H              eq. 3

    fit the learner on the answers
    T times: add the chosen pseudo-answers to those there are; fit the learner anew on all of them

so T iterations are T + 1 fits (one more if answers are hidden), and the last one has seen all pseudo-answers. What was
added stays as it is. Selecting by confidence takes the M pairs of lowest H whatever their class, which feeds the common
classes; at random, any M.

Where M_c exceeds N'_c the rest is dropped, as printed; `redistribute` gives it to the other classes in proportion to
tau (water-filling). `balance="pool"` takes for N'_c in tau the answers and pseudo-answers that say c so far, whose
imbalance R = max / min the paper's figure 4 shows. A worker without answers gets none made up: nothing is known of him.
Of all pairs without an answer a block is held at a time, and of those seen the M surest of each class, twice at most.

"Distribution aware self-training based crowdsourcing learning", Machine Learning 112 (2023) 1823-1845. It trains until
"expected performance"; here T times, or until hidden answers become clearly less likely. Pseudo-answers sharpen what
the learner says and shift it to rare classes, so likelihood may fall while accuracy rises: only clear falls count, of
more than two standard errors and of more than 0.05 nats per answer, as with much data any fall is beyond its error.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

import numpy as np
from scipy.special import entr

from crowdwise.answers import Answers
from crowdwise.augment.going_on import SavedState, State, start_of, started_from
from crowdwise.augment.pairs import PAIRS, Lowest, blocks_of, draw_missing, missing_blocks, n_missing
from crowdwise.augment.pseudo import Pseudo, eligible, facts, joined
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning
from crowdwise.learn import checkpoint
from crowdwise.learn.base import Array, CrowdClassifier, Given
from crowdwise.learn.network_learner import NetworkLearner
from crowdwise.learn.torched import Tensor
from crowdwise.learn.wrapping import Wrapper
from crowdwise.simulate.balance import split
from crowdwise.truth.base import TruthModel, is_number, is_whole, require
from crowdwise.truth.check import LEAST_HIDDEN, mean_and_error, split_answers

SHARE = 0.4  # M over the answers; the paper's are from 0.1 (Data1) over 0.3 (Music) and 0.45 (CIFAR10-H) to 0.8
# The fall of the hidden answers' log-likelihood, in nats each, that is worth stopping for: they are 5% less likely. On
# simulated crowds where stopping helped, falls beyond two standard errors were of 0.09 and more.
FALL = 0.05
CELLS = 20_000_000  # numbers in the largest array of a block: pairs x classes x classes


class DASC(Wrapper):
    """Distribution-aware self-training over any learner: pseudo-answers that make up for rare classes.

    A task without answers gets pseudo-answers like the others, unless its `sample_weight` is 0.

    Parameters
    ----------
    base : learner, truth model, or the name of one
        What is trained; a truth model becomes the learner that trains on its labels.
    select : {"distribution", "confidence", "random"}
        Which pseudo-answers are added: the surest of each class, more of rare classes; the surest; any.
    per_iteration : int or None
        M, pseudo-answers added in an iteration. None is 0.4 times the number of answers, about the middle of what the
        paper takes.
    iterations : int
        T.
    balance : {"pseudo", "pool"}
        Which classes are rare: those among the pseudo-answers to choose from, or among what was added and given so far.
    redistribute : bool
        Whether classes that run out of pseudo-answers leave their share to the others.
    warm_start : bool
        Train on from the last network in place of a new one.
    soft : bool
        Weigh pseudo-answers by their probability.
    hidden : float
        Share of the answers hidden to judge iterations by: when they become less likely than in the best iteration by
        more than two standard errors and 0.05 nats, what was added last is undone. Then they join the rest for one
        last fit. 0, or fewer than ten answers to hide: all T iterations, as in the paper.
    max_pairs : int or None
        Choose among so many pairs drawn at random, for huge crowds.
    checkpoint : path or None
        File that keeps the pseudo-answers after each iteration; a fit that finds one goes on from there.
    random_state : int
        Seed of what is drawn at random; the base has its own.

    Attributes
    ----------
    model_ : CrowdClassifier
        The learner as it was fitted last; `model_.answers_` are the answers with the pseudo-answers.
    history_ : list of dict
        For each fit from the first (iteration 0) on: size and imbalance R of the pool, pseudo-answers `chosen` last by
        class; where answers are hidden, their log-likelihood `held_out` with its `change` since the likeliest iteration
        and its `error`, and whether the iteration was `undone`, which only the last can be. Where truth is known, of
        the chosen: `accuracy`, `precision_majority` (mean over the more frequent half of the classes) and
        `recall_minority` (over the other half).

    Examples
    --------
    >>> from crowdwise import CrowdLayer, DASC, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = DASC(CrowdLayer(epochs=5), iterations=2).fit(X, answers)
    >>> len(model.history_), model.predict(X[:3]).shape
    (3, (3,))
    """

    def __init__(
        self,
        base: CrowdClassifier | TruthModel | str = "crowdlayer",
        *,
        select: Literal["distribution", "confidence", "random"] = "distribution",
        per_iteration: int | None = None,
        iterations: int = 5,
        balance: Literal["pseudo", "pool"] = "pseudo",
        redistribute: bool = False,
        warm_start: bool = False,
        soft: bool = False,
        hidden: float = 0.1,
        max_pairs: int | None = None,
        checkpoint: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.base = base
        self.select = select
        self.per_iteration = per_iteration
        self.iterations = iterations
        self.balance = balance
        self.redistribute = redistribute
        self.warm_start = warm_start
        self.soft = soft
        self.hidden = hidden
        self.max_pairs = max_pairs
        self.checkpoint = checkpoint
        self.random_state = random_state

    def _check_parameters(self) -> None:
        base = self._new_base()
        base._check_parameters()
        require(getattr(base, "checkpoint", None) is None, "checkpoint", getattr(base, "checkpoint", None),
                "None in the base, and the path in DASC: the base is fitted to other answers each time")  # fmt: skip
        trains = isinstance(base, NetworkLearner) and not hasattr(base.network, "predict_proba")
        require(trains or not self.warm_start, "warm_start", self.warm_start, f"False: {base} trains no network")
        by_class = self.select == "distribution"
        require(by_class or self.select in ("confidence", "random"), "select", self.select,
                "'distribution', 'confidence' or 'random'")  # fmt: skip
        require(self.balance in ("pseudo", "pool"), "balance", self.balance, "'pseudo' or 'pool'")
        for name, idle in (("balance", "pseudo"), ("redistribute", False)):
            value = getattr(self, name)
            require(by_class or value == idle, name, value, f"{idle!r} unless select='distribution'")
        require(is_whole(self.iterations, 1), "iterations", self.iterations, "a whole number, 1 or more")
        for name in ("per_iteration", "max_pairs"):
            value = getattr(self, name)
            require(value is None or is_whole(value, 1), name, value, "a whole number, 1 or more, or None")
        idle = self.max_pairs is None or self.select != "random"
        require(idle, "max_pairs", self.max_pairs, "None with select='random', which draws no more than it adds")
        share = is_number(self.hidden) and 0 <= self.hidden < 1
        require(share, "hidden", self.hidden, "the share of answers to hide, 0 or more and below 1")
        require(is_whole(self.random_state, 0), "random_state", self.random_state, "a whole number, 0 or more")

    def _fit(self, given: Given) -> None:
        kept, held = self._hide(given)
        saved = self._saved(given)
        state = State.new() if saved is None else saved.load()
        self.history_ += state.history
        for iteration in range(len(self.history_), self.iterations + 1):
            began = time.perf_counter()
            self.model_ = self._fit_base(given, joined(kept, state.pseudo, soft=self.soft), state.start, iteration)
            record = {"iteration": iteration, "iterations": self.iterations}
            record |= facts(given.answers, state.pseudo, iteration)
            if held is not None:
                judged, best = self._judge(given, held, state.best)
                record, state = record | judged, state._replace(best=best)
            self.history_.append(record)
            if given.callback is not None:
                given.callback({**record, "seconds": time.perf_counter() - began})
            if record.get("undone"):
                state = self._undo(state, iteration)
                break
            if iteration == self.iterations or (following := self._add(given, state, iteration + 1)) is None:
                break
            state = following
            if saved is not None:
                saved.keep(state)
        if held is not None:  # all that is known, at last
            pool = joined(given.answers, state.pseudo, soft=self.soft)
            self.model_ = self._fit_base(given, pool, state.start, len(self.history_) - 1)
        self.proba_ = self.model_.proba_

    def _judge(self, given: Given, held: Answers, best: Array) -> tuple[dict[str, Any], Array]:
        """What hidden answers say of the model that was fitted last; and their log-likelihood (held,) at its best."""
        now = self.model_.answer_log_likelihood(given.features, held)
        change, error = mean_and_error(now - best, held.task) if len(best) else (0.0, 0.0)
        found = {
            "held_out": float(now.mean()), "change": change, "error": error, "undone": clearly_fell(change, error),
        }  # fmt: skip
        return found, best if len(best) and change <= 0 else now

    def _undo(self, state: State, iteration: int) -> State:
        """The state without what was added last."""
        if iteration == 1:
            message = (
                "no pseudo-answers were added: with the first, hidden answers became clearly less likely. The result "
                "is that of the base alone; a smaller per_iteration may help, and hidden=0 adds them whatever comes."
            )
            warnings.warn(message, CrowdwiseWarning, stacklevel=4)
        return state._replace(pseudo=state.pseudo.before(iteration))

    def _add(self, given: Given, state: State, iteration: int) -> State | None:
        """The state from which an iteration starts, None where there is nothing left to add."""
        chosen = self._choose(given, joined(given.answers, state.pseudo), iteration)
        if len(chosen.task) == 0:
            return None
        start = start_of(self.model_) if self.warm_start else {}
        return State(state.pseudo.and_(chosen), self.history_, state.best, start)

    def _hide(self, given: Given) -> tuple[Answers, Answers | None]:
        """The answers to fit on and those to judge by: of tasks that count, none if there are too few."""
        if self.hidden:
            with suppress(CrowdwiseError):  # nothing to hide
                kept, held = split_answers(given.answers, self.hidden, self.random_state)
                if given.weight is not None:
                    held = held.take(np.flatnonzero(given.weight[held.task] > 0))
                if held.n_answers >= LEAST_HIDDEN:
                    return kept, held
        return given.answers, None

    def _fit_base(self, given: Given, pool: Answers, start: dict[str, Tensor], iteration: int) -> CrowdClassifier:
        """The base fitted on answers and pseudo-answers; its epochs are told with the iteration they are of."""
        callback = given.callback

        def told(record: Mapping[str, Any]) -> None:
            assert callback is not None
            callback({**record, "iteration": iteration, "iterations": self.iterations})

        model = self._new_base()
        with started_from(start, model):
            return model.fit(
                given.features, pool, sample_weight=given.weight, gold=given.gold, validation=given.validation,
                callback=None if callback is None else told,
            )  # fmt: skip

    def _choose(self, given: Given, pool: Answers, iteration: int) -> Pseudo:
        """The pseudo-answers to add to a pool, by the model that was fitted last."""
        rng = np.random.default_rng([self.random_state, iteration])
        part, tasks, workers = eligible(pool, given.weight)
        share = round(SHARE * given.answers.n_answers)
        m = min(max(share, 1) if self.per_iteration is None else self.per_iteration, n_missing(part))
        if m == 0:
            return Pseudo.none()
        n_models = getattr(self.model_, "n_models", 1)
        size = max(1, min(PAIRS, CELLS // (n_models * pool.n_classes**2)))
        if self.select == "random" or self.max_pairs is not None:
            drawn = draw_missing(part, m if self.max_pairs is None else self.max_pairs, rng)
            blocks = blocks_of(*drawn, size)
        else:
            blocks = missing_blocks(part, size)
        by_class = self.select == "distribution"
        best = Lowest(pool.n_classes if by_class else 1, m)
        found = np.zeros(pool.n_classes, np.int64)  # N'
        for block, row, worker in blocks:
            q = self.model_._proba_of_answers(given.features, tasks[block], row, workers[worker])  # (pairs, classes)
            label = q.argmax(axis=1)
            found += np.bincount(label, minlength=pool.n_classes)
            group = label if by_class else np.zeros_like(label)
            best.add(group, entr(q).sum(axis=1), tasks[block][row], workers[worker], label, q.max(axis=1))
        if by_class:
            fitted = self.model_.answers_.label  # without those that are hidden
            counts = np.bincount(fitted, minlength=pool.n_classes) if self.balance == "pool" else found
            n = quotas(found, m, counts, redistribute=self.redistribute)
        else:
            n = np.array([m])
        task, worker, label, proba = best.first(n)
        return Pseudo(task, worker, label, proba, np.full(len(task), iteration))

    def _saved(self, given: Given) -> SavedState | None:
        if self.checkpoint is None:
            return None
        settings = {name: value for name, value in self.get_params().items() if name != "checkpoint"}
        stamp = checkpoint.fingerprint(given.answers, given.features, settings, given.weight, given.gold)
        return SavedState(self.checkpoint, stamp)


def clearly_fell(change: float, error: float) -> bool:
    """Whether a log-likelihood per answer changed for the worse, beyond chance and by enough to matter.

    >>> clearly_fell(-0.3, 0.1), clearly_fell(-0.3, 0.2), clearly_fell(-0.013, 0.0002)
    (True, False, False)
    """
    return change < -max(2 * error, FALL)


def quotas(found: Array, m: int, counts: Array | None = None, *, redistribute: bool = False) -> Array:
    """M_c: how many pseudo-answers of each class to add.

    Parameters
    ----------
    found : (classes,) array
        N'_c, how many there are to choose from.
    m : int
        M, how many in all.
    counts : (classes,) array, optional
        What tau is inverse to, `found` unless given.
    redistribute : bool
        Whether what a class has not is taken from the others.

    Examples
    --------
    >>> quotas(np.array([60, 30, 20]), 12).tolist()
    [2, 4, 6]
    >>> quotas(np.array([600, 300, 2]), 100).tolist(), quotas(np.array([600, 300, 2]), 100, redistribute=True).tolist()
    ([0, 1, 2], [33, 65, 2])
    """
    if m >= found.sum():
        return found.copy()
    tau = np.where(found > 0, 1 / np.maximum(found if counts is None else counts, 1), 0.0)
    exact = m * tau / tau.sum()
    full = np.zeros(len(found), bool)
    while redistribute and (over := ~full & (exact > found)).any():
        full |= over
        exact = np.where(full, found, (m - found[full].sum()) * tau / tau[~full].sum())
    return np.minimum(split(m, exact / m), found)
