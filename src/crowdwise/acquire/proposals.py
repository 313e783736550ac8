"""Propose answers to buy: pairs of a task and a worker, best first, each with its reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.display import html_table
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.acquire.available_pairs import AvailablePairs
from crowdwise.acquire.beliefs import CELLS, Beliefs
from crowdwise.acquire.information import BITS, OUTCOMES, entropy, extend_outcomes, gain
from crowdwise.acquire.selection import choose_pairs
from crowdwise.acquire.strategies import STRATEGIES, hopeless_tasks, make_rule, rare_weight
from crowdwise.answers import Answers
from crowdwise.answers.rows import check_ids
from crowdwise.errors import ParameterError, SingleClassError
from crowdwise.learn.base import Array, CrowdClassifier
from crowdwise.truth.base import TruthModel

SHOWN = 10  # pairs, in a notebook
MAX_PAIRS, MAX_PAIRS_X = 100_000_000, 2_000_000


@dataclass(frozen=True)
class Proposal:
    """The pairs worth buying.

    Attributes
    ----------
    table : pyarrow.Table
        One row per pair, best first: `task`, `worker`; `score` of the strategy (bits for `information` and
        `uncertainty`; with `balance`, times the weight of the task); `gain`, expected bits of information about the
        truth, after the rows above; `lift`, the expected increase of the probability that the label is right;
        `belief`, the most probable class, and `confidence`, its probability; `uncertainty`, the entropy of the belief
        in bits; `answers` so far; `expected`, the worker's most probable answer, and `expected_proba`; `right`, the
        probability that the worker is right on this task.
    strategy : str
    asked : int
        The budget. There are fewer pairs if `per_task`, `per_worker` or `available` allow no more.
    available : int
        Number of pairs that can be bought, without limits.
    pairs_scored : int
    whole : bool
        Whether every pair that could be among the best was scored.
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
        words = f"{len(self):,} answers to buy by {self.strategy}, {self.gain:.4g} bits expected in total"
        return html_table(rows, columns, [words])

    @property
    def gain(self) -> float:
        """Expected bits of information in all answers together."""
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
    per_worker: int | Literal["fair"] | None = None,
    workers: Iterable[Any] | None = None,
    among: Answers | None = None,
    caution: float = 2.0,
    max_pairs: int | None = None,
    proba: Array | None = None,
    random_state: int = 0,
) -> Proposal:
    """Propose which answers to buy next.

    Parameters
    ----------
    model : fitted truth model or learner
        Source of the beliefs. Tasks without answers are proposed too if they are in its table of tasks.
    budget : int
        Largest number of answers to buy. With `per_task=1` there are at most as many pairs as tasks.
    X : features, optional
        Features of the tasks, for learners: beliefs then use them (see `acquire.beliefs`). Without them, `proba_` and
        `confusion_` are used.
    strategy : str
        One of `STRATEGIES`; see `acquire.strategies`.
    balance : bool
        Whether to give tasks of probably rare classes more weight.
    hopeless : object with `scores_`, (tasks,) scores, or (tasks,) flags, optional
        Tasks not to buy answers for. Of a fitted `WAUM` or of scores, where low is ambiguous, those at or below the
        `alpha` quantile (none if all score the same).
    alpha : float, optional
        Share of hopeless tasks (default 0.01). Only with scores.
    per_task, per_worker : int
        Largest number of answers in the batch per task and per worker (None: no limit). "fair" allows each worker twice
        the average number of answers, and more only if the budget could not be used otherwise.
    workers : sequence of ids, optional
        Available workers. An id unknown to the model is a new worker, who is assumed to be average.
    among : Answers, optional
        Only pairs that have an answer here can be bought. The labels are not used.
    caution : float
        Number of answers of the average worker added to each worker's, since few answers say little about a worker.
    max_pairs : int, optional
        Largest number of pairs to score (default: 100 million, or 2 million with X).
    proba : (tasks, classes) array, optional
        Class probabilities to use instead of the `proba_` of the model, such as calibrated ones.
    random_state : int
        Seed of random choices.

    Examples
    --------
    >>> from crowdwise import DawidSkene, simulate
    >>> model = DawidSkene().fit(simulate.simulate(100, n_workers=8, seed=1))
    >>> proposal = propose(model, 3, workers=[2, 5])
    >>> proposal.table.column_names[:4], len(proposal), proposal.whole
    (['task', 'worker', 'score', 'gain'], 3, True)
    """
    require(is_integer(budget, 1), "budget", budget, "an integer of 1 or more")
    require(strategy in STRATEGIES, "strategy", strategy, f"one of {', '.join(STRATEGIES)}")
    require(is_integer(per_task, 1), "per_task", per_task, "an integer of 1 or more")
    limited = per_worker in (None, "fair") or is_integer(per_worker, 1)
    require(limited, "per_worker", per_worker, "an integer of 1 or more, 'fair' or None")
    require(is_number(caution) and caution >= 0, "caution", caution, "a number of 0 or more")
    require(max_pairs is None or is_integer(max_pairs, 1), "max_pairs", max_pairs, "an integer of 1 or more, or None")
    require(alpha is None or hopeless is not None, "alpha", alpha, "None unless hopeless= has scores")
    require(isinstance(balance, (bool, np.bool_)), "balance", balance, "True or False")
    require(is_integer(random_state, 0), "random_state", random_state, "an integer of 0 or more")
    fits = isinstance(model, (TruthModel, CrowdClassifier))
    require(fits, "model", model, "a fitted truth model or learner, such as DawidSkene().fit(answers)")
    answers = model.answers_
    if answers.n_classes < 2:
        message = f"all answers are {answers.classes.tolist()[0]!r}: with one class there is nothing to propose."
        raise SingleClassError(message)
    if answers.pseudo is not None:  # pseudo-answers can still be bought from the worker
        answers = answers.take(np.flatnonzero(~answers.pseudo))
    asked, worker_ids = _available(answers, workers)
    beliefs = Beliefs(model, answers, X=X, caution=caution, n_new=len(worker_ids) - answers.n_workers, proba=proba)
    wanted = np.ones(answers.n_tasks, bool)
    if hopeless is not None:
        wanted &= ~hopeless_tasks(hopeless, alpha, answers.tasks)
    weight = rare_weight(beliefs.belief) if balance else np.ones(answers.n_tasks)
    rule = make_rule(strategy, beliefs, answers, weight, np.random.default_rng(random_state))
    available = AvailablePairs(answers, wanted, asked, len(worker_ids), among)
    if max_pairs is None:
        max_pairs = MAX_PAIRS_X if beliefs.task_specific else MAX_PAIRS
    limit = -(-2 * budget // max(len(asked), 1)) if per_worker == "fair" else per_worker
    task, worker, score, whole = choose_pairs(rule, available, budget, per_task, limit, max_pairs)
    while per_worker == "fair" and limit is not None and len(task) < budget and limit < budget:
        limit = None if len(asked) < 2 else 2 * limit  # one worker cannot share the work
        rule = make_rule(strategy, beliefs, answers, weight, np.random.default_rng(random_state))
        available = AvailablePairs(answers, wanted, asked, len(worker_ids), among)
        task, worker, score, whole = choose_pairs(rule, available, budget, per_task, limit, max_pairs)
    table = _table(beliefs, answers, worker_ids, task, worker, score)
    return Proposal(table, strategy, budget, int(available.count.sum()), available.n_scored, whole)


def _available(answers: Answers, workers: Iterable[Any] | None) -> tuple[Array, pa.Array]:
    """Return the codes of available workers, and the ids of all workers: the model's, then new ones."""
    if workers is None:
        return np.arange(answers.n_workers), answers.worker_ids
    ids = check_ids(list(workers), "worker")
    if len(ids) == 0:
        message = "workers= is empty: leave it out for all workers."
        raise ParameterError(message)
    if ids.type != answers.worker_ids.type:
        message = (
            f"workers= has ids of type {ids.type}, the answers of type {answers.worker_ids.type}: use the same type."
        )
        raise ParameterError(message)
    code = pc.index_in(ids, answers.worker_ids).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    new = np.flatnonzero(code < 0)
    code[new] = answers.n_workers + np.arange(len(new))
    return np.sort(code), pa.concat_arrays([answers.worker_ids, ids.take(pa.array(new))])


def _table(
    beliefs: Beliefs, answers: Answers, worker_ids: pa.Array, task: Array, worker: Array, score: Array
) -> pa.Table:
    """Return the table of the chosen pairs with reasons."""
    n, p = len(task), beliefs.belief[task]  # (pairs, classes)
    expected, sure, right = np.empty(n, np.int64), np.empty(n), np.empty(n)
    for part in beliefs.parts(n):
        channel = beliefs.channel(task[part], worker[part])
        answer = np.matmul(p[part][:, None], channel)[:, 0]  # (pairs, labels)
        expected[part], sure[part] = answer.argmax(axis=1), answer.max(axis=1)
        right[part] = (p[part] * np.diagonal(channel, axis1=1, axis2=2)).sum(axis=1)
    gains, lift = sequential_gains(beliefs, task, worker)
    return pa.table(
        {
            "task": answers.task_ids.take(pa.array(task)),
            "worker": worker_ids.take(pa.array(worker)),
            "score": score,
            "gain": BITS * gains,
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


def sequential_gains(beliefs: Beliefs, task: Array, worker: Array) -> tuple[Array, Array]:
    """Return the expected gain of each answer after earlier ones to its task, in nats, and the lift of its label.

    The label is the most probable class. Its probability of being right, the sum over outcomes o of max over c of
    q[o, c], never decreases with another answer.
    """
    gains, lift = np.empty(len(task)), np.empty(len(task))
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
                gains[at] = gain(q, channel)
                before, q = q.max(axis=2).sum(axis=1), extend_outcomes(q, channel)
                lift[at] = np.maximum(q.max(axis=2).sum(axis=1) - before, 0.0)
    return gains, lift
