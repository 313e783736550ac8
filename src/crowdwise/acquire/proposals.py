"""Propose answers to buy: pairs of a task and a worker, best first, each with its reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.display import html_table
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.acquire.beliefs import CELLS, Beliefs
from crowdwise.acquire.information import BITS, OUTCOMES, entropy, gain, heard
from crowdwise.acquire.market import Market
from crowdwise.acquire.selection import choose
from crowdwise.acquire.strategies import STRATEGIES, hopeless_tasks, rare_weight, rule_of
from crowdwise.answers import Answers
from crowdwise.answers.rows import check_ids
from crowdwise.errors import ParameterError, SingleClassError
from crowdwise.learn.base import Array, CrowdClassifier
from crowdwise.truth.base import TruthModel

SHOWN = 10  # pairs, in a notebook
MAX_PAIRS, MAX_PAIRS_X = 100_000_000, 2_000_000


@dataclass(frozen=True)
class Proposal:
    """Pairs worth buying.

    Attributes
    ----------
    table : pyarrow.Table
        A row for each pair, best first: `task`, `worker`; `score`, what the strategy ranks by (bits for `information`
        and `uncertainty`; with `balance`, times the weight of the task); `gain`, the bits its answer is expected to
        tell about the truth, after the rows above; `lift`, by how much the probability that the label is right is
        expected to rise; `belief`, the class the task is believed to be, and `confidence`, its probability;
        `uncertainty`, the bits that are not known of the task; `answers` it has so far; `expected`, what the worker
        will most likely say, and `expected_proba`; `right`, the probability that the worker is right on this task.
    strategy : str
    asked : int
        The budget. Fewer pairs come where `per_task` and `per_worker` allow no more, or no more are `available`.
    available : int
        Pairs that could be bought if nothing but money were short.
    pairs_scored : int
    whole : bool
        Whether every pair that could matter was scored.
    """

    table: pa.Table
    strategy: str
    asked: int
    available: int
    pairs_scored: int
    whole: bool

    def __len__(self) -> int:
        return self.table.num_rows

    def _repr_html_(self) -> str:
        columns = ("task", "worker", "gain", "lift", "belief", "confidence")
        rows = [[f"{row[c]:.3f}" if isinstance(row[c], float) else row[c] for c in columns]
                for row in self.table.slice(0, SHOWN).to_pylist()]  # fmt: skip
        words = f"{len(self):,} answers to buy by {self.strategy}, {self.gain:.4g} bits expected in all"
        return html_table(rows, columns, [words])

    @property
    def gain(self) -> float:
        """Bits that all answers together are expected to tell."""
        return float(np.sum(self.table.column("gain").to_numpy()))


def propose(
    model: Any,
    budget: int,
    *,
    X: Any = None,
    strategy: str = "information",
    balance: bool = False,
    hopeless: Any = None,
    alpha: float | None = None,
    per_task: int = 1,
    per_worker: int | None = None,
    workers: Iterable[Any] | None = None,
    among: Answers | None = None,
    caution: float = 2.0,
    max_pairs: int | None = None,
    random_state: int = 0,
) -> Proposal:
    """Propose which answers to buy next.

    Parameters
    ----------
    model : fitted truth model or learner
        What is believed so far. Tasks without answers are proposed too when they are in its table of tasks.
    budget : int
        How many answers to buy, at most: with `per_task=1` there are no more pairs than tasks (`Proposal.asked`).
    X : features, optional
        Of the tasks, for learners: belief and answers then follow from features (see `acquire.beliefs`). Without,
        `proba_` and `confusion_` are used.
    strategy : str
        One of `STRATEGIES`; see `acquire.strategies`.
    balance : bool
        Count tasks believed to be of rare classes for more.
    hopeless : object with `scores_`, (tasks,) scores, or (tasks,) flags, optional
        Tasks not to pay for: of a fitted `WAUM` or of scores, where low means ambiguous, those at or below the `alpha`
        quantile (none where all score the same).
    alpha : float, optional
        Share of the tasks that are hopeless, .01 if not given; with scores alone.
    per_task, per_worker : int
        At most so many of the batch to one task, and by one worker (None: no limit; the best may get all of it).
    workers : sequence of ids, optional
        Who is available; an id that the model does not know is a new worker, taken for an average one.
    among : Answers, optional
        Only pairs that are answered here can be bought (what is said there is not looked at).
    caution : float
        How many answers of the average worker each worker's are mixed with: few answers say little of a worker.
    max_pairs : int, optional
        At most so many pairs are scored: 100 million, or 2 million with X.
    random_state : int
        Seed of what is drawn at random.

    Examples
    --------
    >>> from crowdwise import DawidSkene, simulate
    >>> model = DawidSkene().fit(simulate.simulate(100, n_workers=8, seed=1))
    >>> proposal = propose(model, 3, workers=[2, 5])
    >>> proposal.table.column_names[:4], len(proposal), proposal.whole
    (['task', 'worker', 'score', 'gain'], 3, True)
    """
    require(is_integer(budget, 1), "budget", budget, "a whole number of answers, 1 or more")
    require(strategy in STRATEGIES, "strategy", strategy, f"one of {', '.join(STRATEGIES)}")
    require(is_integer(per_task, 1), "per_task", per_task, "a whole number, 1 or more")
    require(per_worker is None or is_integer(per_worker, 1), "per_worker", per_worker, "a whole number, or None")
    require(is_number(caution) and caution >= 0, "caution", caution, "a number, 0 or more")
    require(max_pairs is None or is_integer(max_pairs, 1), "max_pairs", max_pairs, "a whole number, or None")
    require(alpha is None or hopeless is not None, "alpha", alpha, "it with hopeless=, of which it is the share")
    require(isinstance(balance, (bool, np.bool_)), "balance", balance, "True or False")
    require(is_integer(random_state, 0), "random_state", random_state, "a whole number, 0 or more")
    fits = isinstance(model, (TruthModel, CrowdClassifier))
    require(fits, "model", model, "a fitted truth model or learner, such as DawidSkene().fit(answers)")
    answers = model.answers_
    if answers.n_classes < 2:
        message = f"all answers say {answers.classes.tolist()[0]!r}: there is nothing to find out."
        raise SingleClassError(message)
    if answers.pseudo is not None:  # what a model made up can still be asked
        answers = answers.take(np.flatnonzero(~answers.pseudo))
    asked, worker_ids = _available(answers, workers)
    beliefs = Beliefs(model, answers, X=X, caution=caution, n_new=len(worker_ids) - answers.n_workers)
    wanted = np.ones(answers.n_tasks, bool)
    if hopeless is not None:
        wanted &= ~hopeless_tasks(hopeless, alpha, answers.tasks)
    weight = rare_weight(beliefs.belief) if balance else np.ones(answers.n_tasks)
    rule = rule_of(strategy, beliefs, answers, weight, np.random.default_rng(random_state))
    market = Market(answers, wanted, asked, len(worker_ids), among)
    if max_pairs is None:
        max_pairs = MAX_PAIRS_X if beliefs.bends else MAX_PAIRS
    task, worker, score, whole = choose(rule, market, budget, per_task, per_worker, max_pairs)
    table = _table(beliefs, answers, worker_ids, task, worker, score)
    return Proposal(table, strategy, budget, int(market.count.sum()), market.n_scored, whole)


def _available(answers: Answers, workers: Iterable[Any] | None) -> tuple[Array, pa.Array]:
    """Codes of the workers who can be asked, and the table of all workers: the model's, then new ones."""
    if workers is None:
        return np.arange(answers.n_workers), answers.worker_ids
    given = check_ids(list(workers), "worker")
    if len(given) == 0:
        message = "workers= names nobody: leave it out to ask everybody."
        raise ParameterError(message)
    if given.type != answers.worker_ids.type:
        message = (
            f"workers= holds ids of type {given.type}, the answers' are {answers.worker_ids.type}: write them alike."
        )
        raise ParameterError(message)
    code = pc.index_in(given, answers.worker_ids).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    new = np.flatnonzero(code < 0)
    code[new] = answers.n_workers + np.arange(len(new))
    return np.sort(code), pa.concat_arrays([answers.worker_ids, given.take(pa.array(new))])


def _table(
    beliefs: Beliefs, answers: Answers, worker_ids: pa.Array, task: Array, worker: Array, score: Array
) -> pa.Table:
    """The chosen pairs with reasons."""
    n, p = len(task), beliefs.belief[task]  # (pairs, classes)
    expected, sure, right = np.empty(n, np.int64), np.empty(n), np.empty(n)
    for part in beliefs.parts(n):
        channel = beliefs.channel(task[part], worker[part])
        said = np.matmul(p[part][:, None], channel)[:, 0]  # (pairs, labels)
        expected[part], sure[part] = said.argmax(axis=1), said.max(axis=1)
        right[part] = (p[part] * np.diagonal(channel, axis1=1, axis2=2)).sum(axis=1)
    told, lift = brought_in_turn(beliefs, task, worker)
    return pa.table(
        {
            "task": answers.task_ids.take(pa.array(task)),
            "worker": worker_ids.take(pa.array(worker)),
            "score": score,
            "gain": BITS * told,
            "lift": lift,
            "belief": answers.class_ids.take(pa.array(p.argmax(axis=1))),
            "confidence": p.max(axis=1),
            "uncertainty": BITS * entropy(p),
            "answers": np.diff(answers.task_starts)[task],
            "expected": answers.class_ids.take(pa.array(expected)),
            "expected_proba": sure,
            "right": right,
        }
    )


def brought_in_turn(beliefs: Beliefs, task: Array, worker: Array) -> tuple[Array, Array]:
    """What each answer brings after those to the same task before it: nats it tells, and how much surer the label is.

    The label is the most probable class, so its probability of being right, sum over outcomes o of max over c of
    q[o, c], never falls with another answer.
    """
    told, lift = np.empty(len(task)), np.empty(len(task))
    order = np.argsort(task, kind="stable")
    first = np.flatnonzero(np.diff(task[order], prepend=-1))
    length = np.diff(np.append(first, len(task)))
    most, n_classes = int(length.max(initial=0)), beliefs.belief.shape[1]
    size = max(1, CELLS // (n_classes**2 * min(n_classes ** max(most - 1, 0), OUTCOMES)))  # tasks at a time
    for block in range(0, len(first), size):
        start, left = first[block : block + size], length[block : block + size]
        q = beliefs.belief[task[order[start]]][:, None]  # (tasks, 1, classes)
        for turn in range(most):
            q, start, left = q[left > turn], start[left > turn], left[left > turn]
            at = order[start + turn]
            if len(at):
                channel = beliefs.channel(task[at], worker[at])
                told[at] = gain(q, channel)
                before, q = q.max(axis=2).sum(axis=1), heard(q, channel)
                lift[at] = np.maximum(q.max(axis=2).sum(axis=1) - before, 0.0)
    return told, lift
