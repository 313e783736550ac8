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
Where there are more than `max_pairs`, so many are drawn: M does not change, so the surest of fewer are less sure.

"Distribution aware self-training based crowdsourcing learning", Machine Learning 112 (2023) 1823-1845. It trains until
"expected performance"; here T times, or until hidden answers become clearly less likely. Pseudo-answers sharpen what
the learner says and shift it to rare classes, so likelihood may fall while accuracy rises: only clear falls count, of
more than two standard errors and of more than 0.05 nats per answer, as with much data any fall is beyond its error.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any, Literal

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.augment.dasc.pseudo_answers import PseudoAnswers, eligible, facts, joined, mean_facts
from crowdwise.augment.dasc.resume import SavedState, State, fitted_to, start_of, started_from
from crowdwise.augment.dasc.selection import quotas, surest
from crowdwise.augment.pairs import PAIRS, blocks_for_each, drawn_blocks, n_missing
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning
from crowdwise.learn.base import Array, CrowdClassifier, FitInput
from crowdwise.learn.features import Features
from crowdwise.learn.methods.annoreg import AnnoReg
from crowdwise.learn.methods.conal import CoNAL
from crowdwise.learn.methods.crowdlayer import CrowdLayer
from crowdwise.learn.methods.doctornet import DoctorNet
from crowdwise.learn.methods.geocrowdnet import GeoCrowdNet
from crowdwise.learn.network import checkpoint
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.prediction import predict_answers
from crowdwise.learn.network.torch_support import Tensor
from crowdwise.learn.wrapper import Wrapper
from crowdwise.truth.base import TruthModel
from crowdwise.truth.vote_check import MIN_HELD_OUT, mean_and_error, split_answers

SHARE = 0.4  # M over the answers; the paper's are from 0.1 (Data1) over 0.3 (Music) and 0.45 (CIFAR10-H) to 0.8
# The fall of the hidden answers' log-likelihood, in nats each, that is worth stopping for: they are 5% less likely. On
# simulated crowds where stopping helped, falls beyond two standard errors were of 0.09 and more.
FALL = 0.05
MAX_PAIRS = 100_000_000  # looked at in an iteration
CELLS = 20_000_000  # numbers in the largest array of a block: pairs x classes x classes
# Learners whose networks can have answers of their own: all that they know of answers comes in batches, or by pool.
# Others infer labels from all answers first, or draw pairs without one.
APART = (CrowdLayer, AnnoReg, GeoCrowdNet, CoNAL, DoctorNet)


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
        Choose among so many pairs drawn at random where there are more (beyond some 10,000 tasks x 10,000 workers
        unless given): time grows with them, not with tasks x workers. None looks at all there are.
    apart : bool
        Each of the base's `n_models` networks has pseudo-answers of its own, chosen by that network alone: as many
        independent runs, trained at once. `member_proba` says what each run predicts, the rest is their mean. Otherwise
        all have the same, chosen by the mean of the networks.
    checkpoint : path or None
        File that keeps the pseudo-answers after each iteration; a fit that finds one goes on from there.
    random_state : int
        Seed of what is drawn at random; the base has its own.

    Attributes
    ----------
    model_ : CrowdClassifier
        The learner as it was fitted last; `model_.answers_` are the answers with the pseudo-answers (with `apart`, of
        the first network).
    pseudo_ : dict of arrays
        Of each pseudo-answer `task`, `worker`, `label` (as codes), `proba`, the `iteration` it was added in, and the
        `member`, the network it was made for.
    history_ : list of dict
        For each fit from the first (iteration 0) on: size and imbalance R of the pool, pseudo-answers `chosen` last by
        class; where answers are hidden, their log-likelihood `held_out` with its `change` since the likeliest iteration
        and its `error`, and whether the iteration was `undone`, which only the last can be. Where truth is known, of
        the chosen: `accuracy`, `precision_majority` (mean over the more frequent half of the classes) and
        `recall_minority` (over the other half). With `apart` these are means, and `members` has those of each network.

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
                "None in the base, and the path in DASC: the base is fitted to other answers each time")  # fmt: skip
        trains = isinstance(base, NetworkLearner) and not hasattr(base.network, "predict_proba")
        going_on = trains or not self.warm_start
        require(going_on, "warm_start", self.warm_start, f"False: {base} has no network to go on from")
        by_class = self.select == "distribution"
        require(by_class or self.select in ("confidence", "random"), "select", self.select,
                "'distribution', 'confidence' or 'random'")  # fmt: skip
        require(self.balance in ("pseudo", "pool"), "balance", self.balance, "'pseudo' or 'pool'")
        for name, idle in (("balance", "pseudo"), ("redistribute", False)):
            value = getattr(self, name)
            require(by_class or value == idle, name, value, f"{idle!r} unless select='distribution'")
        require(is_integer(self.iterations, 1), "iterations", self.iterations, "a whole number, 1 or more")
        for name in ("per_iteration", "max_pairs"):
            value = getattr(self, name)
            require(value is None or is_integer(value, 1), name, value, "a whole number, 1 or more, or None")
        idle = self.max_pairs in (None, MAX_PAIRS) or self.select != "random"
        require(idle, "max_pairs", self.max_pairs, "as it is with select='random', which draws no more than it adds")
        share = is_number(self.hidden) and 0 <= self.hidden < 1
        require(share, "hidden", self.hidden, "the share of answers to hide, 0 or more and below 1")
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "a whole number, 0 or more")
        if self.apart:
            self._check_apart(base)

    def _check_apart(self, base: Any) -> None:
        """Refuse what would tie the networks to each other."""
        names = ", ".join(kind.__name__ for kind in APART)
        require(type(base) in APART, "apart", self.apart, f"False: of the bases only {names} train networks apart")
        require(self.hidden == 0, "hidden", self.hidden, "0 with apart=True: each network would end at another time")
        for name, idle in (("select", "last"), ("clip", None)):
            value = getattr(base, name)
            require(value == idle, name, value, f"{idle!r} in the base with apart=True: it is for all networks at once")

    def _fit(self, given: FitInput) -> None:
        kept, held = self._hide(given)
        saved = self._saved(given)
        state = State.new() if saved is None else saved.load()
        self.history_ += state.history
        for iteration in range(len(self.history_), self.iterations + 1):
            began = time.perf_counter()
            self.model_ = self._fit_base(given, self._pools(kept, state.pseudo), state.start, iteration)
            record: dict[str, Any] = {"iteration": iteration, "iterations": self.iterations}
            members = [facts(given.answers, pseudo, iteration) for pseudo in self._by_member(state.pseudo)]
            record |= mean_facts(members) if self.apart else members[0]
            if held is not None:
                judged, best = self._judge(given, held, state.best)
                record, state = record | judged, state._replace(best=best)
            self.history_.append(record)
            if given.callback is not None:
                given.callback({**record, "seconds": time.perf_counter() - began})
            if record.get("undone"):
                state = self._undo(state, iteration)
                break
            if iteration == self.iterations or (following := self._add(given, kept, state, iteration + 1)) is None:
                break
            state = following
            if saved is not None:
                saved.keep(state)
        if held is not None:  # all that is known, at last
            pools = self._pools(given.answers, state.pseudo)
            self.model_ = self._fit_base(given, pools, state.start, len(self.history_) - 1)
        self.proba_, self.pseudo_ = self.model_.proba_, state.pseudo._asdict()

    def _by_member(self, pseudo: PseudoAnswers) -> list[PseudoAnswers]:
        """The pseudo-answers of each network, or those of all."""
        n_members = getattr(self._new_base(), "n_models", 1) if self.apart else 1
        return [pseudo.of(member) for member in range(n_members)]

    def _pools(self, answers: Answers, pseudo: PseudoAnswers) -> list[Answers]:
        """What each network is fitted on, or all of them."""
        if len(pseudo.task) == 0:  # the same: not only equal
            return [joined(answers, pseudo, soft=self.soft)] * len(self._by_member(pseudo))
        return [joined(answers, own, soft=self.soft) for own in self._by_member(pseudo)]

    def _judge(self, given: FitInput, held: Answers, best: Array) -> tuple[dict[str, Any], Array]:
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

    def _add(self, given: FitInput, kept: Answers, state: State, iteration: int) -> State | None:
        """The state from which an iteration starts, None where there is nothing left to add."""
        chosen = self._choose(given, kept, state.pseudo, iteration)
        if len(chosen.task) == 0:
            return None
        start = start_of(self.model_) if self.warm_start else {}
        return State(state.pseudo.and_(chosen), self.history_, state.best, start)

    def _hide(self, given: FitInput) -> tuple[Answers, Answers | None]:
        """The answers to fit on and those to judge by: of tasks that count, none if there are too few."""
        if self.hidden:
            with suppress(CrowdwiseError):  # nothing to hide
                kept, held = split_answers(given.answers, self.hidden, self.random_state)
                if given.weight is not None:
                    held = held.take(np.flatnonzero(given.weight[held.task] > 0))
                if held.n_answers >= MIN_HELD_OUT:
                    return kept, held
        return given.answers, None

    def _fit_base(
        self, given: FitInput, pools: list[Answers], start: dict[str, Tensor], iteration: int
    ) -> CrowdClassifier:
        """The base fitted on answers and pseudo-answers; its epochs are told with the iteration they are of."""
        callback = given.callback

        def told(record: Mapping[str, Any]) -> None:
            assert callback is not None
            callback({**record, "iteration": iteration, "iterations": self.iterations})

        model = self._new_base()
        with ExitStack() as ways:
            ways.enter_context(started_from(start, model))
            if self.apart:
                ways.enter_context(fitted_to(pools, model))
            return model.fit(
                given.features, pools[0], sample_weight=given.weight, gold=given.gold, validation=given.validation,
                callback=None if callback is None else told,
            )  # fmt: skip

    def _choose(self, given: FitInput, kept: Answers, pseudo: PseudoAnswers, iteration: int) -> PseudoAnswers:
        """The pseudo-answers to add, by the model that was fitted last; for each network by that one, if `apart`."""
        n_classes, by_class = given.answers.n_classes, self.select == "distribution"
        each = self._by_member(pseudo)
        found = [eligible(joined(given.answers, own), given.weight) for own in each]
        pools, (_, tasks, workers) = [pool for pool, *_ in found], found[0]  # who and what counts is the same for all
        share = max(round(SHARE * given.answers.n_answers), 1)
        most = share if self.per_iteration is None else self.per_iteration
        m = [min(most, n_missing(pool)) for pool in pools]
        if not any(m):
            return PseudoAnswers.none()
        size = max(1, min(PAIRS, CELLS // (getattr(self.model_, "n_models", 1) * n_classes**2)))
        rows = given.features.together(PAIRS)
        some = self.max_pairs is not None and self.max_pairs < max(map(n_missing, pools))
        if self.select == "random" or some:
            # A trailing 0 draws what is drawn without it: the first member draws as one alone would.
            seeds = [[self.random_state, iteration, member] for member in range(len(each))]
            n = m if self.select == "random" or self.max_pairs is None else [self.max_pairs] * len(each)
            blocks = drawn_blocks(pools, n, [np.random.default_rng(seed) for seed in seeds], size, rows)
        else:
            shared = pools[0] if len(pools) == 1 else eligible(given.answers, given.weight)[0]
            blocks = blocks_for_each(shared, pools, size, rows)
        said = (
            (tasks[block][row], workers[worker], self._said(given.features, tasks[block], row, workers[worker]), whose)
            for block, row, worker, whose in blocks
        )
        best, count = surest(said, m, n_classes, by_class=by_class)
        chosen = PseudoAnswers.none()
        for member, n_wanted in enumerate(m):
            wanted = np.array([n_wanted])
            if by_class:
                pool = np.bincount(np.concatenate([kept.label, each[member].label]), minlength=n_classes)
                counts = pool if self.balance == "pool" else count[member]
                wanted = quotas(count[member], n_wanted, counts, redistribute=self.redistribute)
            columns = best[member].first(wanted)
            chosen = chosen.and_(PseudoAnswers(*columns, *np.full((2, len(columns[0])), [[iteration], [member]])))
        return chosen

    def _said(self, features: Features, tasks: Array, row: Array, worker: Array) -> Array:
        """P(label), (members, pairs, classes): of each network, or their mean."""
        model: Any = self.model_
        if not self.apart:
            return model._proba_of_answers(features, tasks, row, worker)[None]
        return predict_answers(model.module_, features.rows(tasks), row, worker, model.device).exp().numpy()

    def _saved(self, given: FitInput) -> SavedState | None:
        if self.checkpoint is None:
            return None
        settings = {name: value for name, value in self.get_params().items() if name != "checkpoint"}
        stamp = checkpoint.fit_fingerprint(given.answers, given.features, settings, given.weight, given.gold)
        return SavedState(self.checkpoint, stamp)


def clearly_fell(change: float, error: float) -> bool:
    """Whether a log-likelihood per answer changed for the worse, beyond chance and by enough to matter.

    >>> clearly_fell(-0.3, 0.1), clearly_fell(-0.3, 0.2), clearly_fell(-0.013, 0.0002)
    (True, False, False)
    """
    return change < -max(2 * error, FALL)
