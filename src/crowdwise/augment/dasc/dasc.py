"""DASC: self-training that adds confident pseudo-answers, more of rare classes than of common ones.

    q        P(worker w gives each label to task t) by the learner, for every pair (t, w) without an answer
    c        the most probable label: the pseudo-answer
    H        entropy of q; lower is more confident                                                      eq. 2
    N'_c     number of pairs without an answer whose pseudo-answer is c
    tau_c    proportional to 1 / N'_c, summing to one                                                   eq. 4
    M_c      tau_c M, at most N'_c: number of pseudo-answers c to add, those of lowest H                eq. 3

    fit the learner on the answers
    T times: add the selected pseudo-answers to the pool; fit a new learner on the pool

So T iterations are T + 1 fits (one more if answers are hidden), and the last fit uses all pseudo-answers.
Pseudo-answers once added do not change. Selection by confidence takes the M pairs of lowest H of any class, which
favours the common classes; selection at random takes any M pairs.

If the base finds how long to train, the first fit searches, and the others take longer in proportion to the pool (ours;
the paper has fixed epochs): with as many steps for each, a new network does not learn the rare classes of a large pool.

Where M_c exceeds N'_c the excess is dropped, as in the paper; `redistribute` gives it to the other classes in
proportion to tau (water-filling). `balance="pool"` replaces N'_c in tau by the number of answers and pseudo-answers c
so far, whose imbalance R = max / min the paper shows in figure 4. Workers without answers get no pseudo-answers:
nothing is known of them. Memory holds one block of pairs at a time, and at most twice the M best of each class. If
there are more than `max_pairs` pairs, that many are sampled. M stays the same, so the selected pairs are then less
confident.

"Distribution aware self-training based crowdsourcing learning", Machine Learning 112 (2023) 1823-1845. The paper trains
until "expected performance"; here T times, or until hidden answers become clearly less likely. Pseudo-answers sharpen
the learner's predictions and shift them to rare classes, so the likelihood may drop while accuracy rises. Only a clear
drop counts: more than two standard errors, and more than 0.05 nats per answer, since with much data any drop is
significant.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.augment.dasc.pseudo_answers import (
    PseudoAnswers,
    mean_statistics,
    merge_pseudo_answers,
    pool_statistics,
    restrict_to_eligible,
)
from crowdwise.augment.dasc.resume import SavedState, State, use_separate_answers, use_start_weights
from crowdwise.augment.dasc.selection import lowest_entropy_pairs, quotas
from crowdwise.augment.pairs import PAIRS, missing_blocks_by_pool, n_missing, sampled_blocks
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning
from crowdwise.learn.base import Array, CrowdClassifier, FitInput
from crowdwise.learn.features import Features
from crowdwise.learn.network import checkpoint
from crowdwise.learn.network.continuing import copy_weights
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.plans import follow_plan, found_plan
from crowdwise.learn.network.prediction import predict_answers
from crowdwise.learn.network.training_length import MOST_STEPS
from crowdwise.learn.wrapper import Wrapper
from crowdwise.truth.base import TruthModel
from crowdwise.truth.vote_check import MIN_HELD_OUT, mean_and_error, split_answers

SHARE = 0.4  # default M / number of answers; in the paper 0.1 (Data1), 0.3 (Music), 0.45 (CIFAR10-H), up to 0.8
# Smallest drop of the hidden answers' mean log-likelihood that stops training, in nats: they are 5% less likely. On
# simulated crowds where stopping helped, drops beyond two standard errors were at least 0.09.
MIN_DROP = 0.05
MAX_PAIRS = 100_000_000  # scored per iteration
CELLS = 20_000_000  # size of the largest array of a block: pairs x classes x classes


class DASC(Wrapper):
    """Distribution-aware self-training of any learner: pseudo-answers that balance the classes.

    Tasks without answers get pseudo-answers too, unless their `sample_weight` is 0.

    Parameters
    ----------
    base : learner, truth model, or the name of one
        The learner to train. A truth model is wrapped in the learner that trains on its labels.
    select : {"distribution", "confidence", "random"}
        Which pseudo-answers to add: the most confident of each class, more of rare classes; the most confident of all;
        or a random sample.
    per_iteration : int or None
        M, pseudo-answers added per iteration. None is 0.4 times the number of answers, about the middle of the range
        in the paper.
    iterations : int
        T, the number of iterations.
    balance : {"pseudo", "pool"}
        Where class frequencies are counted: in the pseudo-answers to choose from, or in the answers and pseudo-answers
        so far.
    redistribute : bool
        Whether other classes fill the quota of a class that has too few pseudo-answers.
    warm_start : bool
        Start each fit from the network of the last iteration instead of a new one.
    soft : bool
        Weight pseudo-answers by their probability.
    hidden : float
        Share of the answers that is hidden to evaluate iterations. When hidden answers become less likely than in the
        best iteration by more than two standard errors and 0.05 nats, the last pseudo-answers are removed and training
        stops. A final fit then uses the hidden answers too. With 0, or fewer than ten answers to hide, all T
        iterations run, as in the paper.
    max_pairs : int or None
        Score at most this many pairs per iteration, sampled at random (by default from about 10,000 tasks x 10,000
        workers on), so that time does not grow with tasks x workers. None scores all pairs.
    apart : bool
        Whether each of the base's `n_models` networks selects its own pseudo-answers. These are `n_models` independent
        runs, trained together: `member_proba` has the prediction of each, other predictions are their mean. By default
        all networks share pseudo-answers, selected by the mean of the networks.
    checkpoint : path or None
        File that stores the pseudo-answers after each iteration. A fit that finds it resumes from there.
    random_state : int
        Seed of the samples. The base has its own.

    Attributes
    ----------
    model_ : CrowdClassifier
        The learner of the last fit; `model_.answers_` are the answers and pseudo-answers (with `apart`, those of the
        first network).
    pseudo_ : dict of arrays
        Per pseudo-answer: `task`, `worker`, `label` (as codes), `proba`, the `iteration` that added it, and `member`,
        the network it was predicted for.
    history_ : list of dict
        One record per fit, from the first (iteration 0) on: size and imbalance R of the pool, and the pseudo-answers
        added last, `chosen`, per class. With hidden answers: their mean log-likelihood `held_out`, its `change` from
        the best iteration with standard `error`, and whether the iteration was `undone` (only the last can be). If the
        truth is known, for the chosen: `accuracy`, `precision_majority` (mean over the more frequent half of the
        classes) and `recall_minority` (over the other half). With `apart` these are means over networks, and `members`
        has the values of each.

    Examples
    --------
    >>> from crowdwise import CrowdLayer, DASC, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = DASC(CrowdLayer(epochs=5), iterations=2).fit(X, answers)
    >>> len(model.history_), model.predict(X[:3]).shape
    (3, (3,))
    """

    own_length = True

    pseudo_: dict[str, Any]
    history_: list[dict[str, Any]]
    proba_: Array

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
        max_pairs: int | None = MAX_PAIRS,
        apart: bool = False,
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
        self.apart = apart
        self.checkpoint = checkpoint
        self.random_state = random_state

    def _check_parameters(self) -> None:
        base = self._new_base()
        base._check_parameters()
        require(getattr(base, "checkpoint", None) is None, "checkpoint", getattr(base, "checkpoint", None),
                "None in the base and set it in DASC: the base is fitted to other answers each time")  # fmt: skip
        has_network = isinstance(base, NetworkLearner) and not hasattr(base.network, "predict_proba")
        require(has_network or not self.warm_start, "warm_start", self.warm_start, f"False: {base} has no network")
        by_class = self.select == "distribution"
        require(by_class or self.select in ("confidence", "random"), "select", self.select,
                "'distribution', 'confidence' or 'random'")  # fmt: skip
        require(self.balance in ("pseudo", "pool"), "balance", self.balance, "'pseudo' or 'pool'")
        for name, default in (("balance", "pseudo"), ("redistribute", False)):
            value = getattr(self, name)
            require(by_class or value == default, name, value, f"{default!r} unless select='distribution'")
        require(is_integer(self.iterations, 1), "iterations", self.iterations, "an integer of 1 or more")
        for name in ("per_iteration", "max_pairs"):
            value = getattr(self, name)
            require(value is None or is_integer(value, 1), name, value, "an integer of 1 or more, or None")
        effective = self.max_pairs in (None, MAX_PAIRS) or self.select != "random"
        require(effective, "max_pairs", self.max_pairs, "the default with select='random', which samples only M pairs")
        is_share = is_number(self.hidden) and 0 <= self.hidden < 1
        require(is_share, "hidden", self.hidden, "the share of answers to hide, at least 0 and below 1")
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "an integer of 0 or more")
        if self.apart:
            self._check_apart(base)

    def _check_apart(self, base: Any) -> None:
        """Reject options under which the networks would depend on each other."""
        capable = isinstance(base, NetworkLearner) and base.separate_answers
        require(capable, "apart", self.apart, f"False: {base} cannot train each network on its own answers")
        require(self.hidden == 0, "hidden", self.hidden, "0 with apart=True: each network would stop at another time")
        for name, default in (("select", "last"), ("clip", None)):
            value = getattr(base, name)
            require(value == default, name, value, f"{default!r} in the base with apart=True: it acts on all networks")

    def _fit(self, inputs: FitInput) -> None:
        kept, held = self._hide(inputs)
        saved = self._saved(inputs)
        state = State.new() if saved is None else saved.load()
        self.history_ += state.history
        for iteration in range(len(self.history_), self.iterations + 1):
            began = time.perf_counter()
            self.model_ = self._fit_base(inputs, self._pools(kept, state.pseudo), state, iteration)
            state = state._replace(plan=state.plan or found_plan(self.model_))
            record: dict[str, Any] = {"iteration": iteration, "iterations": self.iterations}
            members = [pool_statistics(inputs.answers, pseudo, iteration) for pseudo in self._by_member(state.pseudo)]
            record |= mean_statistics(members) if self.apart else members[0]
            if held is not None:
                evaluation, best = self._evaluate(inputs, held, state.best)
                record, state = record | evaluation, state._replace(best=best)
            self.history_.append(record)
            if inputs.callback is not None:
                inputs.callback({**record, "seconds": time.perf_counter() - began})
            if record.get("undone"):
                state = self._undo(state, iteration)
                break
            if iteration == self.iterations or (following := self._add(inputs, kept, state, iteration + 1)) is None:
                break
            state = following
            if saved is not None:
                saved.write_state(state)
        if held is not None:  # final fit on all answers
            pools = self._pools(inputs.answers, state.pseudo)
            self.model_ = self._fit_base(inputs, pools, state, len(self.history_) - 1)
        self.proba_, self.pseudo_ = self.model_.proba_, state.pseudo._asdict()

    def _by_member(self, pseudo: PseudoAnswers) -> list[PseudoAnswers]:
        """Return the pseudo-answers of each network if `apart`; otherwise one table for all."""
        n_members = getattr(self._new_base(), "n_models", 1) if self.apart else 1
        return [pseudo.for_member(member) for member in range(n_members)]

    def _pools(self, answers: Answers, pseudo: PseudoAnswers) -> list[Answers]:
        """Return the training answers of each network if `apart`; otherwise one pool for all."""
        if len(pseudo.task) == 0:  # one object: `Batches` recognises a shared pool by identity
            return [merge_pseudo_answers(answers, pseudo, soft=self.soft)] * len(self._by_member(pseudo))
        return [merge_pseudo_answers(answers, own, soft=self.soft) for own in self._by_member(pseudo)]

    def _evaluate(self, inputs: FitInput, held: Answers, best: Array) -> tuple[dict[str, Any], Array]:
        """Return how likely the last model finds hidden answers, and their best log-likelihood so far, (hidden,)."""
        now = self.model_.answer_log_likelihood(inputs.features, held)
        change, error = mean_and_error(now - best, held.task) if len(best) else (0.0, 0.0)
        record = {
            "held_out": float(now.mean()), "change": change, "error": error, "undone": is_clear_drop(change, error),
        }  # fmt: skip
        return record, best if len(best) and change <= 0 else now

    def _undo(self, state: State, iteration: int) -> State:
        """Return the state without the pseudo-answers added last."""
        if iteration == 1:
            message = (
                "no pseudo-answers were added: the first ones made hidden answers clearly less likely. The result is "
                "that of the base alone. Try a smaller per_iteration, or hidden=0 to add them without this check."
            )
            warnings.warn(message, CrowdwiseWarning, stacklevel=4)
        return state._replace(pseudo=state.pseudo.before(iteration))

    def _add(self, inputs: FitInput, kept: Answers, state: State, iteration: int) -> State | None:
        """Return the state at the start of an iteration, or None if there is nothing left to add."""
        chosen = self._choose(inputs, kept, state.pseudo, iteration)
        if len(chosen.task) == 0:
            return None
        start = copy_weights(self.model_) if self.warm_start else {}
        return state._replace(pseudo=state.pseudo.append(chosen), history=self.history_, start=start)

    def _hide(self, inputs: FitInput) -> tuple[Answers, Answers | None]:
        """Return the answers to fit on, and the hidden ones of tasks with positive weight or None if too few."""
        if self.hidden:
            with suppress(CrowdwiseError):  # no answer can be hidden
                kept, held = split_answers(inputs.answers, self.hidden, self.random_state)
                if inputs.weight is not None:
                    held = held.take(np.flatnonzero(inputs.weight[held.task] > 0))
                if held.n_answers >= MIN_HELD_OUT:
                    return kept, held
        return inputs.answers, None

    def _fit_base(self, inputs: FitInput, pools: list[Answers], state: State, iteration: int) -> CrowdClassifier:
        """Fit the base on answers and pseudo-answers. Its callback records include the iteration.

        The first fit finds how long to train; the others take more steps, in proportion to the size of the pool.
        """
        callback = inputs.callback

        def report(record: Mapping[str, Any]) -> None:
            assert callback is not None
            callback({**record, "iteration": iteration, "iterations": self.iterations})

        model = self._new_base()
        if state.plan is not None and isinstance(model, NetworkLearner):
            added = len(self._by_member(state.pseudo)[0].task)
            most = max(state.plan.epochs, MOST_STEPS // model._n_batches(pools[0], inputs.weight, inputs.gold))
            epochs = min(state.plan.epochs * pools[0].n_answers / (pools[0].n_answers - added), most)
            plan = replace(state.plan, epochs=model._round_epochs(round(epochs)))
            model = follow_plan(model, plan, inputs.features.shape)
        with ExitStack() as stack:
            stack.enter_context(use_start_weights(state.start, model))
            if self.apart:
                stack.enter_context(use_separate_answers(pools, model))
            return model.fit(
                inputs.features, pools[0], sample_weight=inputs.weight, gold=inputs.gold, validation=inputs.validation,
                callback=None if callback is None else report,
            )  # fmt: skip

    def _choose(self, inputs: FitInput, kept: Answers, pseudo: PseudoAnswers, iteration: int) -> PseudoAnswers:
        """Return the pseudo-answers to add, selected by the last model; with `apart`, by each of its networks."""
        n_classes, by_class = inputs.answers.n_classes, self.select == "distribution"
        each = self._by_member(pseudo)
        restricted = [restrict_to_eligible(merge_pseudo_answers(inputs.answers, own), inputs.weight) for own in each]
        pools, (_, tasks, workers) = (
            [pool for pool, *_ in restricted],
            restricted[0],
        )  # tasks and workers are the same for all
        share = max(round(SHARE * inputs.answers.n_answers), 1)
        most = share if self.per_iteration is None else self.per_iteration
        m = [min(most, n_missing(pool)) for pool in pools]
        if not any(m):
            return PseudoAnswers.empty()
        size = max(1, min(PAIRS, CELLS // (getattr(self.model_, "n_models", 1) * n_classes**2)))
        rows = inputs.features.block_size(PAIRS)
        sampled = self.max_pairs is not None and self.max_pairs < max(map(n_missing, pools))
        if self.select == "random" or sampled:
            # A trailing 0 in a seed changes nothing, so the first member draws what a single network would.
            seeds = [[self.random_state, iteration, member] for member in range(len(each))]
            n = m if self.select == "random" or self.max_pairs is None else [self.max_pairs] * len(each)
            blocks = sampled_blocks(pools, n, [np.random.default_rng(seed) for seed in seeds], size, rows)
        else:
            shared = pools[0] if len(pools) == 1 else restrict_to_eligible(inputs.answers, inputs.weight)[0]
            blocks = missing_blocks_by_pool(shared, pools, size, rows)
        scored = (
            (
                tasks[block][row],
                workers[worker],
                self._pair_proba(inputs.features, tasks[block], row, workers[worker]),
                choosable,
            )
            for block, row, worker, choosable in blocks
        )
        best, count = lowest_entropy_pairs(scored, m, n_classes, by_class=by_class)
        chosen = PseudoAnswers.empty()
        for member, n_wanted in enumerate(m):
            wanted = np.array([n_wanted])
            if by_class:
                pool = np.bincount(np.concatenate([kept.label, each[member].label]), minlength=n_classes)
                counts = pool if self.balance == "pool" else count[member]
                wanted = quotas(count[member], n_wanted, counts, redistribute=self.redistribute)
            columns = best[member].first(wanted)
            chosen = chosen.append(PseudoAnswers(*columns, *np.full((2, len(columns[0])), [[iteration], [member]])))
        return chosen

    def _pair_proba(self, features: Features, tasks: Array, row: Array, worker: Array) -> Array:
        """Return P(label), (members, pairs, classes): per network if `apart`, otherwise their mean."""
        model: Any = self.model_
        if not self.apart:
            return model._proba_of_answers(features, tasks, row, worker)[None]
        return predict_answers(model.module_, features.rows(tasks), row, worker, model.device).exp().numpy()

    def _saved(self, inputs: FitInput) -> SavedState | None:
        if self.checkpoint is None:
            return None
        settings = {name: value for name, value in self.get_params().items() if name != "checkpoint"}
        stamp = checkpoint.fit_fingerprint(inputs.answers, inputs.features, settings, inputs.weight, inputs.gold)
        return SavedState(self.checkpoint, stamp)


def is_clear_drop(change: float, error: float) -> bool:
    """Return whether a mean log-likelihood dropped by more than chance and by enough to matter.

    >>> is_clear_drop(-0.3, 0.1), is_clear_drop(-0.3, 0.2), is_clear_drop(-0.013, 0.0002)
    (True, False, False)
    """
    return change < -max(2 * error, MIN_DROP)
