"""Replay real answers: hide most of them, buy them back step by step, and record how fast accuracy rises.

Each round fits a new model on the known answers, asks `propose` for the next pairs, and reveals them. Only pairs that
exist in the data can be bought, so a strategy can only choose workers who answered: if tasks have few answers, replay
underestimates the value of choosing workers. With `oracle` (a simulated or a real crowd) any pair can be bought.

Truth is used only to score, never to fit or to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.base import clone

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.acquire.proposals import propose
from crowdwise.acquire.strategies import STRATEGIES
from crowdwise.answers import Answers, as_answers
from crowdwise.answers.encoding import lookup
from crowdwise.errors import GoldError, ParameterError
from crowdwise.learn.adapter import as_model
from crowdwise.learn.base import Array, CrowdClassifier

Oracle = Callable[[Array, Array], Any]  # codes of tasks and workers -> codes of labels
Score = Callable[[Any], float]


def replay(
    answers: Any,
    strategies: str | Iterable[str] = ("random", "information"),
    *,
    model: Any = "dawid-skene",
    X: Any = None,
    truth: Any = None,
    score: Score | None = None,
    start: float | None = None,
    step: float = 0.05,
    budget: float | None = None,
    seeds: Iterable[int] = range(5),
    oracle: Oracle | None = None,
    callback: Callable[[Mapping[str, Any]], None] | None = None,
    **options: Any,
) -> pa.Table:
    """Record accuracy against answers bought, for several strategies.

    Parameters
    ----------
    answers : Answers or data frame
        All answers; with `oracle`, those known at the start.
    strategies : name or names
        From `STRATEGIES`. All have the same start.
    model : name or estimator
        Truth model or learner, fitted in each round.
    X : features, optional
        For a learner.
    truth : as in `Answers.with_truth`, optional
        Labels to score against (default: the truth of the answers).
    score : callable, optional
        Score of the fitted model to record instead of the accuracy of its labels.
    start : int, share, or None
        Number or share of the answers known at first, drawn at random; None: one per task.
    step, budget : int or share
        Number of answers to buy per round, and in total (None: all hidden ones).
    seeds : ints
        Seeds of the start, of the models' `random_state` and of random choices.
    oracle : callable, optional
        Returns the workers' answers, from arrays of task and worker codes. Then any pair can be bought, and `budget`
        is required.
    callback : callable, optional
        Called with each record.
    **options
        Options of `propose`: `balance`, `hopeless`, ... Unless `per_task` is given, a task gets more than one answer in
        a round only if the round cannot be filled otherwise.

    Returns
    -------
    pyarrow.Table
        One row per fit: `strategy`, `seed`, `answers` known, `bought`, `accuracy`.

    Examples
    --------
    >>> from crowdwise import simulate
    >>> answers = simulate.simulate(60, n_workers=6, n_classes=2, answers_per_task=3, seed=0)
    >>> table = replay(answers, step=0.25, seeds=[0])
    >>> table.column("answers").to_pylist()[:5]
    [60, 105, 150, 180, 60]
    """
    answers = as_answers(answers)
    names = [strategies] if isinstance(strategies, str) else list(strategies)
    known_names = len(names) > 0 and all(name in STRATEGIES for name in names)
    require(known_names, "strategies", names, f"one or more of {', '.join(STRATEGIES)}")
    draws = list(seeds) if isinstance(seeds, Iterable) else []
    valid = len(draws) > 0 and all(is_integer(seed, 0) for seed in draws)
    require(valid, "seeds", seeds, "a list of one or more integers >= 0, such as [0] or range(5)")
    model = _resolve_model(model, X)
    measure = score or _accuracy(answers, truth)
    n = answers.n_answers
    step, start = _amount("step", step, n), None if start is None else _amount("start", start, n)
    if oracle is not None and budget is None:
        message = "budget=None: an oracle has no end of answers. Give the number to buy."
        raise ParameterError(message)
    budget = n if budget is None else _amount("budget", budget, n)
    records: list[dict[str, Any]] = []
    for seed in draws:
        first = answers if oracle is not None else answers.take(_initial_rows(answers, start, seed))
        for name in names:
            known, bought = first, 0
            while True:
                fitted = _fit(model, known, X, seed)
                record = {"strategy": name, "seed": seed, "answers": known.n_answers, "bought": bought,
                          "accuracy": measure(fitted)}  # fmt: skip
                records.append(record)
                if callback is not None:
                    callback(record)
                most = min(step, budget - bought)
                if most == 0:
                    break
                more = _buy(fitted, name, most, X, seed + bought, None if oracle else answers, options)
                if len(more) == 0:
                    break
                known = known.merge(_reveal(answers, more, oracle))
                bought += len(more)
    return pa.Table.from_pylist(records)


def mean_curve(table: pa.Table) -> pa.Table:
    """Return means of `replay`'s records over seeds, with standard deviation and standard error (empty for one seed).

    >>> table = pa.table({"strategy": ["a", "a"], "answers": [9, 9], "bought": [3, 3], "accuracy": [0.5, 0.7]})
    >>> mean_curve(table).drop_columns(["deviation", "error"]).to_pylist()
    [{'strategy': 'a', 'bought': 3, 'answers': 9, 'accuracy': 0.6, 'seeds': 2}]
    """
    grouped = table.group_by(["strategy", "bought", "answers"], use_threads=False).aggregate(
        [("accuracy", "mean"), ("accuracy", "stddev", pc.VarianceOptions(ddof=1)), ("accuracy", "count")]
    )
    count = grouped.column("accuracy_count").to_numpy()
    deviation = grouped.column("accuracy_stddev").to_numpy()
    return pa.table(
        {
            "strategy": grouped.column("strategy"),
            "bought": grouped.column("bought"),
            "answers": grouped.column("answers"),
            "accuracy": grouped.column("accuracy_mean"),
            "deviation": pa.array(deviation, mask=count < 2),
            "error": pa.array(deviation / np.sqrt(count), mask=count < 2),
            "seeds": count,
        }
    )


def _accuracy(answers: Answers, truth: Any) -> Score:
    """Return a function that gives a model's accuracy on tasks with known truth."""
    known = answers.truth if truth is None else answers.codes_of_truth(truth)
    if known is None or not (known >= 0).any():
        message = "replay scores labels against the truth: give truth=, answers with truth, or score=."
        raise GoldError(message)
    rows = np.flatnonzero(known >= 0)
    return lambda fitted: float((fitted.codes_[rows] == known[rows]).mean())


def _amount(name: str, value: float, n_answers: int) -> int:
    """Return a number of answers from a number or a share."""
    fits = is_integer(value, 1) or (is_number(value) and 0 < value <= 1)
    require(fits, name, value, "an integer of 1 or more, or a share above 0 and up to 1")
    return int(value) if is_integer(value, 1) else max(1, round(value * n_answers))


def _initial_rows(answers: Answers, start: int | None, seed: int) -> Array:
    """Return the rows of the answers known at the start."""
    if start is None:
        return answers.thinned(1 - 1e-12, seed=seed)
    return np.sort(np.random.default_rng(seed).permutation(answers.n_answers)[:start])


def _resolve_model(model: Any, X: Any) -> Any:
    """Return the model to fit. Raise if it needs features and X is missing, or does not take X."""
    model = as_model(model)
    name, learns = type(model).__name__, isinstance(model, CrowdClassifier)
    if learns and X is None:
        message = f"{name} learns from features: give X."
        raise ParameterError(message)
    if X is not None and not learns:
        message = f"{name} learns from answers alone. Do not pass X."
        raise ParameterError(message)
    return model


def _fit(model: Any, answers: Answers, X: Any, seed: int) -> Any:
    fresh = clone(model)
    if "random_state" in fresh.get_params():
        fresh.set_params(random_state=seed)
    return fresh.fit(answers) if X is None else fresh.fit(X, answers)


def _buy(
    fitted: Any, strategy: str, budget: int, X: Any, seed: int, among: Answers | None, options: Mapping[str, Any]
) -> Array:
    """Return the codes (task, worker) of the pairs to buy, (pairs, 2)."""
    answers, settings = fitted.answers_, {"per_task": 1, **options}
    while True:
        proposal = propose(fitted, budget, X=X, strategy=strategy, among=among, random_state=seed, **settings).table
        if proposal.num_rows == budget or "per_task" in options or settings["per_task"] >= answers.n_workers:
            break
        settings["per_task"] *= 2  # too few tasks left for one answer each
    task = lookup(proposal.column("task").combine_chunks(), answers.task_ids, "task")
    worker = lookup(proposal.column("worker").combine_chunks(), answers.worker_ids, "worker")
    return np.column_stack([task, worker])


def _reveal(answers: Answers, pairs: Array, oracle: Oracle | None) -> Answers:
    """Return the answers to these pairs, from the data or from the oracle."""
    if oracle is None:
        code = answers.task.astype(np.int64) * answers.n_workers + answers.worker  # increasing
        wanted = pairs[:, 0].astype(np.int64) * answers.n_workers + pairs[:, 1]
        return answers.take(np.sort(np.searchsorted(code, wanted)))
    label = np.asarray(oracle(pairs[:, 0], pairs[:, 1]))
    return Answers.from_codes(
        pairs[:, 0], pairs[:, 1], label, tasks=answers.task_ids, workers=answers.worker_ids, classes=answers.class_ids
    )
