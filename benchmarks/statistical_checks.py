"""Are probabilities and intervals right on data drawn from the model itself? `python -m benchmarks statistics`.

    python -m benchmarks statistics [--quick] [--resume] [ranks] [classes] [intervals]

ranks      Simulation-based calibration (Talts et al. 2018): parameters from the prior, answers from the model, and the
           rank of the true parameter among draws from the posterior, uniform if the posterior is right. Run for the
           exact posterior (enumerates all truths of a tiny crowd; validates the check itself) and the variational one
           of IBCC. `p` is that of a chi-squared test of 16 bins; `cover` how often the central interval of this mass
           contains the true value: with 64 ranks, .5, .8125, .906 and .9375 if the posterior is right.
classes    Each method on crowds from its own prior: labels with probability 0.8 should be right 8 times in 10.
           `confidence` is the mean probability of the labels, `accuracy` how often they are right, `ece` the
           calibration error (15 bins, all crowds together).
intervals  How often the interval of a worker's quality contains the worker's accuracy, sum_c share[c] confusion[c, c]:
           the interval in the table of workers of `aggregate` ("peers", as in `run` except for the model's own quality,
           which it includes too; "belief", as on Spark), on 10 crowds of 20 workers each, at 95 %; for Dawid-Skene with
           3 answers per task and 50 per worker also at other levels.

One choice was made with these crowds: the interval of `aggregate` is now computed from peers, as in `run`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, softmax
from scipy.stats import chisquare, norm

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from crowdwise.evaluate import ece
from crowdwise.run.tables.workers import rate_workers
from crowdwise.truth import tables

Array = np.ndarray
LEVELS = (0.5, 0.8, 0.9, 0.95)
DRAWS, BINS = 63, 16  # draws from each posterior: 64 ranks, four per bin


# Crowds


def assign_workers(rng: np.random.Generator, n_tasks: int, n_workers: int, per_task: int) -> tuple[Array, Array]:
    """Return task and worker of each answer: `per_task` workers per task, as evenly as possible."""
    if n_workers < per_task:
        raise ValueError
    start = rng.permutation(n_workers)
    worker = np.concatenate([rng.permutation(n_workers) for _ in range(-(-n_tasks * per_task // n_workers))])
    worker = worker[: n_tasks * per_task].reshape(n_tasks, per_task)
    for row in np.flatnonzero([len(set(row)) < per_task for row in worker.tolist()]):  # nobody answers a task twice
        worker[row] = rng.permutation(start)[:per_task]
    return np.repeat(np.arange(n_tasks), per_task), worker.ravel()


def crowd(rng: np.random.Generator, shares: Array, confusion: Array, n_tasks: int, per_task: int) -> cw.Answers:
    """Return answers with truth, by workers with these confusion matrices [w, c, l]."""
    n_workers, k, _ = confusion.shape
    truth = rng.choice(k, n_tasks, p=shares)
    task, worker = assign_workers(rng, n_tasks, n_workers, per_task)
    cumulative = confusion[worker, truth[task]].cumsum(axis=1)
    label = np.minimum((rng.random((len(task), 1)) > cumulative).sum(axis=1), k - 1)
    answers = cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=k)
    return answers.with_truth(truth.astype(np.int32))


def dirichlet_rows(rng: np.random.Generator, weights: Array) -> Array:
    """Draw from the Dirichlet distribution of each row of weights."""
    draws = rng.standard_gamma(np.maximum(weights, 1e-3))
    return draws / draws.sum(axis=-1, keepdims=True)


def diagonal(n_workers: int, k: int, right: float, wrong: float) -> Array:
    """Return Dirichlet weights of confusion matrices, (workers, classes, labels)."""
    return np.broadcast_to(np.where(np.eye(k, dtype=bool), right, wrong), (n_workers, k, k))


# Ranks


def accuracy_of(shares: Array, confusion: Array) -> Array:
    """Return the accuracy of each worker, (..., workers)."""
    return np.einsum("...c,...wcc->...w", shares, confusion)


def exact_draws(answers: cw.Answers, rng: np.random.Generator, prior: tuple[float, float, float], n: int) -> Any:
    """Draw shares (n, classes) and confusion (n, workers, classes, labels) from the posterior; also P(truth).

    Enumerates all classes ** tasks truths.
    """
    k, n_workers = answers.n_classes, answers.n_workers
    truths = np.array(list(itertools.product(range(k), repeat=answers.n_tasks)))  # (truths, tasks)
    sizes = np.stack([(truths == c).sum(axis=1) for c in range(k)], axis=1) + prior[0]  # (truths, classes)
    weights = np.tile(diagonal(n_workers, k, *prior[1:]), (len(truths), 1, 1, 1)).astype(float)
    rows = np.arange(len(truths))[:, None]
    np.add.at(weights, (rows, answers.worker, truths[:, answers.task], answers.label), 1.0)

    def log_beta(x: Array) -> Array:
        return gammaln(x).sum(axis=-1) - gammaln(x.sum(axis=-1))

    p = softmax(log_beta(sizes) + log_beta(weights).sum(axis=(1, 2)))  # (truths,)
    at = rng.choice(len(p), n, p=p)
    proba = np.stack([p @ (truths == c) for c in range(k)], axis=1)  # (tasks, classes)
    return dirichlet_rows(rng, sizes[at]), dirichlet_rows(rng, weights[at]), proba


def variational_draws(answers: cw.Answers, rng: np.random.Generator, prior: tuple[float, float, float], n: int) -> Any:
    """Draw the same from IBCC's posterior."""
    model = cw.IBCC(*prior, max_iter=2000).fit(answers.with_truth(None))
    sizes = model.class_prior_ * (answers.n_tasks + prior[0] * answers.n_classes)
    weights = model.confusion_ * model.totals_[:, :, None]
    each = np.broadcast_to(weights, (n, *weights.shape))
    return dirichlet_rows(rng, np.broadcast_to(sizes, (n, len(sizes)))), dirichlet_rows(rng, each), model.proba_


def rank_check(
    draws: Callable[..., Any], n_tasks: int, n_workers: int, k: int, per_task: int, replicates: int, seed: int = 0,
    prior: tuple[float, float, float] = (1.0, 3.0, 0.5),
) -> dict[str, Any]:  # fmt: skip
    """Rank the accuracy of a worker and the share of the first class among draws, over crowds from the prior."""
    ranks: dict[str, list[Array]] = {"accuracy": [], "share": []}
    posteriors, truths = [], []
    for r in range(replicates):
        rng = np.random.default_rng([seed, r])
        shares = dirichlet_rows(rng, np.full(k, prior[0]))
        confusion = dirichlet_rows(rng, diagonal(n_workers, k, *prior[1:]))
        answers = crowd(rng, shares, confusion, n_tasks, per_task)
        pi, matrices, proba = draws(answers, rng, prior, DRAWS)
        # The workers of a crowd share its truth. Only one of them is ranked, so that ranks are independent.
        ranks["accuracy"].append((accuracy_of(pi, matrices)[:, 0] < accuracy_of(shares, confusion)[0]).sum())
        ranks["share"].append((pi[:, 0] < shares[0]).sum())
        posteriors.append(proba)
        truths.append(answers.truth)
    out: dict[str, Any] = {"replicates": replicates}
    for name, values in ranks.items():
        counts = np.bincount(np.array(values) * BINS // (DRAWS + 1), minlength=BINS)
        tail = {
            str(level): float(np.mean(np.abs(np.array(values) - DRAWS / 2) <= level * (DRAWS + 1) / 2))
            for level in LEVELS
        }
        out[name] = {"p": float(chisquare(counts).pvalue), "bins": counts.tolist(), "cover": tail}
    proba, truth = np.concatenate(posteriors), np.concatenate(truths)
    return out | {"classes": calibration_figures(proba, truth)}


def calibration_figures(proba: Array, truth: Array) -> dict[str, float]:
    """Return mean confidence and accuracy of the labels, and the calibration error."""
    label = proba.argmax(axis=1)
    return {
        "confidence": float(proba.max(axis=1).mean()), "accuracy": float((label == truth).mean()),
        "ece": float(ece(truth, proba, label) or 0.0), "tasks": len(truth),
    }  # fmt: skip


# Classes


def from_prior(name: str, rng: np.random.Generator, n_workers: int, k: int) -> tuple[Array, Array]:
    """Draw class shares and confusion matrices from the prior of a method."""
    even = np.full(k, 1 / k)
    if name in ("ibcc", "ebcc", "majority-vote"):
        weights = diagonal(n_workers, k, *((4.0, 1.0) if name == "ebcc" else (3.0, 0.5)))
        return dirichlet_rows(rng, np.ones(k)), dirichlet_rows(rng, weights)
    if name == "dawid-skene":  # its prior is 1.1 and 0.1 pseudo-counts beyond a flat Dirichlet
        return dirichlet_rows(rng, np.ones(k)), dirichlet_rows(rng, diagonal(n_workers, k, 2.1, 1.1))
    if name == "one-coin":
        right, wrong = cw.OneCoin().prior or (0.0, 0.0)
        skill = rng.beta(1 + right, 1 + wrong, n_workers)
        return even, np.where(np.eye(k, dtype=bool), skill[:, None, None], (1 - skill[:, None, None]) / (k - 1))
    if name == "mace":
        knows, habit = rng.beta(0.5, 0.5, n_workers)[:, None, None], rng.dirichlet(np.full(k, 10.0), n_workers)
        return even, knows * np.eye(k) + (1 - knows) * habit[:, None, :]
    raise ValueError(name)


def glad_crowd(rng: np.random.Generator, n_tasks: int, n_workers: int, k: int, per_task: int) -> cw.Answers:
    """Draw answers from GLAD's prior: abilities of workers and easiness of tasks."""
    truth = rng.integers(k, size=n_tasks)
    task, worker = assign_workers(rng, n_tasks, n_workers, per_task)
    x = rng.normal(1, 1, n_workers)[worker] * np.exp(rng.normal(1, 1, n_tasks))[task]
    right = rng.random(len(task)) < 1 / (1 + np.exp(-x))
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, k, len(task))) % k)
    answers = cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=k)
    return answers.with_truth(truth.astype(np.int32))


METHODS = ("majority-vote", "dawid-skene", "one-coin", "glad", "mace", "ibcc", "ebcc")


def class_check(name: str, n_tasks: int, n_workers: int, k: int, per_task: int, replicates: int) -> dict[str, float]:
    """Return confidence and accuracy of a method on crowds from its own prior."""
    posteriors, truths = [], []
    for r in range(replicates):
        rng = np.random.default_rng([1, r, k, per_task])
        if name == "glad":
            answers = glad_crowd(rng, n_tasks, n_workers, k, per_task)
        else:
            answers = crowd(rng, *from_prior(name, rng, n_workers, k), n_tasks, per_task)
        posteriors.append(cw.make(name).fit(answers.with_truth(None)).proba_)
        truths.append(answers.truth)
    return calibration_figures(np.concatenate(posteriors), np.concatenate(truths))


# Intervals


def interval_check(
    name: str, k: int, shares: Array | None, per_task: int, per_worker: int, replicates: int, n_workers: int = 20,
    levels: tuple[float, ...] = LEVELS, kinds: tuple[str, ...] = ("peers", "belief"),
) -> dict[str, Any]:  # fmt: skip
    """Return how often intervals contain the accuracy of workers, and their width, by kind and level."""
    held: dict[str, dict[float, list[Array]]] = {kind: {level: [] for level in levels} for kind in kinds}
    width: dict[str, list[float]] = {kind: [] for kind in kinds}
    for r in range(replicates):
        rng = np.random.default_rng([2, r, k, per_task, per_worker])
        pi = dirichlet_rows(rng, np.full(k, 5.0)) if shares is None else np.asarray(shares)
        confusion = dirichlet_rows(rng, diagonal(n_workers, k, 3.0, 0.5))
        answers = crowd(rng, pi, confusion, n_workers * per_worker // per_task, per_task).with_truth(None)
        true = accuracy_of(pi, confusion)
        model = cw.make(name).fit(answers)
        for kind, level in itertools.product(kinds, levels):
            low, high = interval(kind, model, level)
            held[kind][level].append((low <= true) & (true <= high))
            if level == max(levels):
                width[kind].append(float(np.mean(high - low)))
    return {
        kind: {"cover": {str(level): float(np.mean(each)) for level, each in held[kind].items()},
               "width": float(np.mean(width[kind]))}
        for kind in kinds
    }  # fmt: skip


def interval(kind: str, model: Any, level: float) -> tuple[Array, Array]:
    """Return the bounds of one kind at one level; users see that of 95 %."""
    before = tables._NORMAL_95
    tables._NORMAL_95 = float(norm.ppf((1 + level) / 2))
    try:
        answers = model.answers_
        table = rate_workers(answers, model.proba_, model.codes_) if kind == "run" else tables.worker_table(model, kind)
    finally:
        tables._NORMAL_95 = before
    return table["quality_low"].to_numpy(), table["quality_high"].to_numpy()


def main() -> None:
    """Run all checks, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checks", nargs="*", help="ranks, classes, intervals (default: all)")
    parser.add_argument("--resume", action="store_true", help="keep stored rows and compute only missing ones")
    parser.add_argument("--quick", action="store_true", help="a tenth of the crowds")
    parser.add_argument("--json", type=Path, default=RESULTS / "statistics.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore", cw.errors.ConvergenceWarning)
    result = read_results(options.json, {}) if options.resume else {}
    for check, name, work in jobs(10 if options.quick else 1):
        if check in (options.checks or [check]) and name not in result.setdefault(check, {}):
            result[check][name] = found = work()
            print(check, name, json.dumps(found), flush=True)
            write_results(options.json, result)


def jobs(few: int) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield check, name and function of each measurement, with one in `few` of the crowds."""
    tiny = {"n_tasks": 7, "n_workers": 4, "k": 2, "per_task": 3, "replicates": 4000 // few}
    yield "ranks", "exact, 7 tasks", partial(rank_check, exact_draws, **tiny)
    yield "ranks", "ibcc, 7 tasks", partial(rank_check, variational_draws, **tiny)
    for per_task, per_worker in ((3, 30), (5, 30), (10, 30), (5, 100)):
        name = f"ibcc, {per_task} answers a task, {per_worker} a worker, 3 classes"
        sizes = 20 * per_worker // per_task, 20, 3, per_task
        yield "ranks", name, partial(rank_check, variational_draws, *sizes, replicates=1000 // few)
    for method, (k, per_task) in itertools.product(METHODS, ((2, 2), (2, 3), (2, 5), (4, 3), (4, 5), (10, 5))):
        name = f"{method}, {k} classes, {per_task} answers a task"
        yield "classes", name, partial(class_check, method, 300, 20, k, per_task, 100 // few)
    mixes = ((2, None), (2, [0.9, 0.1]), (4, None), (4, [0.85, 0.05, 0.05, 0.05]), (10, None))
    methods = ("majority-vote", "dawid-skene", "ibcc")
    for (k, shares), per_task, per_worker, method in itertools.product(mixes, (1, 2, 3, 5), (10, 50), methods):
        levels = LEVELS if (method, per_task, per_worker) == ("dawid-skene", 3, 50) else (0.95,)
        mix = "even" if shares is None else f"{shares[0]:g} of one"
        name = f"{method}, {k} classes, {mix}, {per_task} answers a task, {per_worker} a worker"
        sizes = k, shares, per_task, per_worker, max(1, 10 // few)
        yield "intervals", name, partial(interval_check, method, *sizes, levels=levels)


if __name__ == "__main__":
    main()
