"""Compare methods on your own data: `crowdwise.bench`.

Each method is fitted with every seed, and majority vote with them. All methods have the same seeds, and the same
answers are hidden from them, so differences are paired.

    known truth    accuracy, balanced accuracy, log loss and calibration error (ECE) of the labels, on the tasks whose
                   truth is known; fitted to all answers. Truth is only used to score.
    held-out       log-likelihood of held-out answers, criterion "common" of `choose`; and the temperature that predicts
                   these best (`choose.temperature`): above 1, the probabilities are overconfident (of majority vote:
                   one over the log odds that a vote adds). Seed number i holds out fold i of the answers, and after
                   the last fold the answers are dealt anew.

Held-out answers are scored if no truth is known, or on request. The error of a difference in accuracy has two parts,
for the tasks and the seeds that happened to be drawn, d[s, t] for seed s and task t:

    error^2 = error over tasks of mean_s d[s, t], squared  +  variance over seeds of mean_t d[s, t] / number of seeds

so it is not zero for methods without random numbers. In balanced accuracy each task counts 1 / (tasks of its class). A
difference of held-out answers has an error over tasks. With one seed, the second part is missing.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import delayed

from crowdwise._core.child_processes import Process, current_process, exit_with_parent, parallel
from crowdwise._core.registry import find_method
from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers, as_answers
from crowdwise.choose.benchmark_table import Benchmark, MethodFigures
from crowdwise.choose.candidates import benchmark_methods, with_seed
from crowdwise.choose.comparison import label_candidates
from crowdwise.choose.scores import Array, Candidate, Outcome, answer_folds, score
from crowdwise.choose.temperature import best_temperature
from crowdwise.errors import CrowdwiseError, ParameterError
from crowdwise.evaluate import metrics
from crowdwise.truth.base import TruthModel
from crowdwise.truth.vote_check import MIN_HELD_OUT, mean_and_error

FOLDS = 5
# Called after each fit with method, seed, done, total, seconds, accuracy, log_likelihood and failure.
Callback = Callable[[Mapping[str, Any]], None]


class SeedFit(NamedTuple):
    """What one method achieved with one seed."""

    correct: Array | None = None  # (known tasks,)
    log_loss: float | None = None
    calibration_error: float | None = None
    held_out: Outcome | None = None
    seconds: float = 0.0  # of the fit to all answers, or else of the other
    failure: str | None = None


def bench(
    methods: Candidate | Iterable[Candidate] | Mapping[str, Candidate] | None = None,
    X: Any = None,
    answers: Any = None,
    truth: Any = None,
    seeds: int | Sequence[int] = 5,
    *,
    held_out: bool | None = None,
    n_jobs: int = 1,
    callback: Callback | None = None,
) -> Benchmark:
    """Compare methods on these answers, with several seeds.

    Parameters
    ----------
    methods : models or registry names, or mapping of labels to them
        Such as `["dawid-skene", "dasc(crowdlayer)", JointEM()]`. Majority vote is always one of them. Their
        `random_state` is replaced by the seed. The default is, with features, DASC, ICED, CrowdInG, WAUM and Difficulty
        EM beside their baselines, and without features the truth models that `choose` compares and the pool.
    X : features, optional
        Features of the tasks, for learners.
    answers : Answers or data frame
        The workers' answers.
    truth : as in `Answers.with_truth`, optional
        Known labels of some or all tasks, only used to score. The default is the truth of the answers.
    seeds : int or sequence of int
        Number of seeds, or the seeds.
    held_out : bool, optional
        Whether to score held-out answers. By default only if no truth is known: it takes another fit per seed.
    n_jobs : int
        Number of parallel fits, each in its own process; -1 uses all cores. Results do not depend on it.
    callback : callable, optional
        Called after each fit with a mapping: method, seed, done, total, seconds, accuracy, log_likelihood, failure.

    Returns
    -------
    Benchmark
        A table that notebooks show; `to_pandas()`, `to_polars()` and `to_arrow()` return it, and
        `crowdwise.plots.methods` draws it. A method that cannot be fitted is listed with the reason.

    Examples
    --------
    >>> import crowdwise as cw
    >>> answers = cw.simulate.simulate(300, n_workers=10, n_classes=3, seed=1)
    >>> result = cw.bench(["one-coin", "glad"], answers=answers, seeds=2)
    >>> result.to_pandas()["method"].tolist()[-1]
    'majority-vote'
    """
    if answers is None:
        message = "answers are missing: bench(methods, X, answers). Without features, X is None."
        raise ParameterError(message)
    answers = as_answers(answers)
    chosen = benchmark_methods(with_features=X is not None) if methods is None else methods
    models = label_candidates(chosen, X is not None)
    if X is None and (learners := [name for name, model in models.items() if _needs_features(model)]):
        message = f"{learners[0]} learns from features: pass X (--features), or leave it out."
        raise ParameterError(message)
    draws = _seeds(seeds)
    require(is_integer(n_jobs, -1) and n_jobs != 0, "n_jobs", n_jobs, "an integer of 1 or more, or -1 for all cores")
    known = answers.truth if truth is None else answers.codes_of_truth(truth)
    known = None if known is None or not (known >= 0).any() else np.asarray(known)
    answers = replace(answers, truth=None, truth_is_gold=False)
    hidden = _held_out(answers, len(draws)) if (known is None if held_out is None else held_out) else None
    require(known is not None or hidden is not None, "held_out", held_out, "True or None if no truth is known")
    fits = _fit_all(models, X, answers, known, draws, hidden, n_jobs, callback)
    if reason := next((fit.failure for fit in fits[next(iter(models))] if fit.failure), None):
        message = f"majority vote could not be scored: {reason}"
        raise CrowdwiseError(message)
    vote = fits[next(iter(models))]
    rows = [_figures(name, own, vote, answers, known, hidden) for name, own in fits.items()]
    n_known = 0 if known is None else int((known >= 0).sum())
    return Benchmark(tuple(rows), tuple(draws), answers.n_tasks, n_known, held_out=hidden is not None)


def _seeds(seeds: Any) -> list[int]:
    """Return the seeds, given their number or a list."""
    draws = list(range(seeds)) if is_integer(seeds, 1) else list(seeds) if isinstance(seeds, Iterable) else []
    valid = bool(draws) and all(is_integer(seed, 0) for seed in draws) and len(set(draws)) == len(draws)
    require(valid, "seeds", seeds, "the number of seeds, 1 or more, or a list of different ones, such as [0, 1]")
    return draws


def _held_out(answers: Answers, n_seeds: int) -> list[Array]:
    """Return which answers each seed holds out, (answers,) each."""
    deals = [answer_folds(answers, FOLDS, np.random.default_rng([0, deal])) for deal in range(-(-n_seeds // FOLDS))]
    n_held = int((deals[0] >= 0).sum())
    if n_held < max(MIN_HELD_OUT, FOLDS):
        message = (
            f"only {n_held} answers can be held out, but {MIN_HELD_OUT} are needed. Only answers to tasks with more "
            "than one can be. Compare with known truth instead: pass truth=."
        )
        raise CrowdwiseError(message)
    return [deals[i // FOLDS] == i % FOLDS for i in range(n_seeds)]


def _fit_all(
    models: Mapping[str, Candidate], X: Any, answers: Answers, known: Array | None, seeds: list[int],
    hidden: list[Array] | None, n_jobs: int, callback: Callback | None,
) -> dict[str, list[SeedFit]]:  # fmt: skip
    """Fit every method with every seed, seed by seed."""
    jobs = [(name, i) for i in range(len(seeds)) for name in models]
    results = parallel(n_jobs)(
        delayed(fit_one)(
            current_process(), models[name], seeds[i], X, answers, known, None if hidden is None else hidden[i]
        )
        for name, i in jobs
    )
    fits: dict[str, list[SeedFit]] = {name: [] for name in models}
    for done, ((name, i), found) in enumerate(zip(jobs, results, strict=True), 1):
        fits[name].append(found)
        if callback is not None:
            outcome = found.held_out
            callback({
                "method": name, "seed": seeds[i], "done": done, "total": len(jobs), "seconds": found.seconds,
                "accuracy": None if found.correct is None else float(found.correct.mean()),
                "log_likelihood": None if outcome is None or outcome.scores is None else float(outcome.scores.mean()),
                "failure": found.failure,
            })  # fmt: skip
    return fits


def fit_one(
    parent: Process, candidate: Candidate, seed: int, X: Any, answers: Answers, known: Array | None,
    held: Array | None,
) -> SeedFit:  # fmt: skip
    """Fit a method with a seed to all answers, and without the held-out ones; an error becomes the failure."""
    exit_with_parent(parent)
    found = SeedFit()
    try:
        model = with_seed(candidate, seed)
        if known is not None:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the same as when the method is fitted alone
                fitted = model.fit(answers) if isinstance(model, TruthModel) else model.fit(X, answers)
            seconds = time.perf_counter() - start
            at = np.flatnonzero(known >= 0)
            codes = np.where(known < answers.n_classes, known, -1)  # a class that nobody answered has no probability
            log_loss, ece = metrics.log_loss(codes, fitted.proba_), metrics.ece(codes, fitted.proba_, fitted.codes_)
            found = SeedFit(np.asarray(fitted.codes_)[at] == known[at], log_loss, ece, seconds=seconds)
        if held is not None:
            outcome = score(with_seed(candidate, seed), X, answers, held, "common")
            seconds = outcome.seconds if known is None else found.seconds
            found = found._replace(held_out=outcome, seconds=seconds, failure=outcome.failure)
    except Exception as error:  # a failing method must not lose the results of the others
        return SeedFit(failure=f"{type(error).__name__}: {error}")
    return found


def _needs_features(candidate: Candidate) -> bool:
    """Return whether a method is a learner."""
    if isinstance(candidate, str):
        return find_method(candidate).needs_features
    return not isinstance(candidate, TruthModel)


def _figures(
    name: str, fits: list[SeedFit], vote: list[SeedFit], answers: Answers, known: Array | None,
    hidden: list[Array] | None,
) -> MethodFigures:  # fmt: skip
    """Return the row of a method."""
    failure = next((fit.failure for fit in fits if fit.failure), None)
    seconds = float(np.mean([fit.seconds for fit in fits]))
    if failure is not None:
        return MethodFigures(name, failure=failure, seconds=None)
    row = MethodFigures(name, seconds=seconds)
    if known is not None:
        truth = known[known >= 0]
        per_class = 1 / np.bincount(truth)[truth]  # (known tasks,): weights of balanced accuracy
        correct, of_vote = (np.array([fit.correct for fit in each], float) for each in (fits, vote))  # (seeds, known)
        for measure, weight in (("accuracy", np.ones(len(truth))), ("balanced_accuracy", per_class)):
            by_seed = (correct - of_vote) @ weight / weight.sum()  # (seeds,)
            lead, over_tasks = mean_and_error((correct - of_vote).mean(axis=0), np.arange(len(truth)), weight)
            over_seeds = by_seed.std(ddof=1) / np.sqrt(len(by_seed)) if len(by_seed) > 1 else 0.0
            value, error = float((correct @ weight / weight.sum()).mean()), float(np.hypot(over_tasks, over_seeds))
            row = row._replace(
                **{measure: value, f"{measure}_to_vote": lead, f"{measure}_to_vote_error": error}  # type: ignore[arg-type]
            )
        row = row._replace(
            log_loss=_mean(fit.log_loss for fit in fits), calibration_error=_mean(fit.calibration_error for fit in fits)
        )
    if hidden is not None:
        rows = np.concatenate([np.flatnonzero(held) for held in hidden])  # of the held-out answers of all seeds
        task, weights = answers.task[rows], None if answers.weight is None else answers.weight[rows]
        own, base = (np.concatenate([outcome.scores for outcome in _outcomes(each)]) for each in (fits, vote))
        lead, error = mean_and_error(own - base, task, weights)
        row = row._replace(
            log_likelihood=mean_and_error(own, task, weights)[0], log_likelihood_to_vote=lead,
            log_likelihood_to_vote_error=error, temperature=best_temperature(each.curves for each in _outcomes(fits)),
        )  # fmt: skip
    return row


def _outcomes(fits: list[SeedFit]) -> list[Any]:
    return [fit.held_out for fit in fits]


def _mean(values: Iterable[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))
