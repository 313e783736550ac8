"""All fits of one choice: in order, in parallel, stored on disk, and within a time budget.

Fits run fold by fold, so that after the first fold the duration of each candidate is known. Under a time budget, the
slowest candidates are then skipped until the rest fits in; majority vote never is. In the first fold, a candidate is
not started once the fold has used its share of the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from joblib import delayed, effective_n_jobs

from crowdwise._core.child_processes import Process, current_process, exit_with_parent, parallel
from crowdwise.answers import Answers
from crowdwise.choose import checkpoint
from crowdwise.choose.scores import Array, Candidate, Criterion, Outcome, score

# Called after each fit with candidate, fold, done, total, seconds, log_likelihood, failure and kept.
Callback = Callable[[Mapping[str, Any]], None]

SKIPPED = "left out: "  # start of the reason why a candidate was skipped
NOT_STARTED = f"{SKIPPED}not started, earlier candidates use the time budget"


class FoldJob(NamedTuple):
    """One fit: a candidate without one fold."""

    candidate: str
    repeat: int
    fold: int


@dataclass
class FoldFits:
    """The fits of one choice, and how to run them. `done` and `total` count fits."""

    candidates: Mapping[str, Candidate]  # majority vote first
    X: Any
    answers: Answers
    criterion: Criterion
    splits: list[Array]  # fold of each answer, (answers,), per repeat
    folds: int
    n_jobs: int = 1
    store: checkpoint.FitStore | None = None
    callback: Callback | None = None
    done: int = 0
    total: int = 0

    def run_all(self, time_budget: float | None, spent: float = 0.0) -> dict[FoldJob, Outcome]:
        """Run all fits, or those within the budget, of which some seconds are spent.

        The outcome of a skipped candidate has the reason.
        """
        jobs = [FoldJob(n, r, f) for r in range(len(self.splits)) for f in range(self.folds) for n in self.candidates]
        self.done, self.total = 0, len(jobs)
        if time_budget is None:
            return dict(self.run(jobs))
        first, rest = jobs[: len(self.candidates)], jobs[len(self.candidates) :]
        file = None if self.store is None else self.store.skipped_path(self.candidates, self.splits, time_budget)
        skipped = None if file is None else checkpoint.read_json(file)
        if skipped is None:
            skipped, found = self.run_first_fold(time_budget - spent, first, len(rest) // len(first))
            if file is not None:
                checkpoint.write_json(file, skipped)
        else:
            found = dict(self.run([job for job in first if skipped.get(job.candidate) != NOT_STARTED]))
        failed = {job.candidate for job, outcome in found.items() if outcome.failure}
        rest = [job for job in rest if job.candidate not in failed | set(skipped)]
        self.total = self.done + len(rest)
        reasons = {FoldJob(name, 0, -1): Outcome(None, 0.0, text, ()) for name, text in skipped.items()}
        return {**found, **reasons, **dict(self.run(rest))}

    def run_first_fold(
        self, budget: float, first: list[FoldJob], n_rest: int
    ) -> tuple[dict[str, str], dict[FoldJob, Outcome]]:
        """Run the first fold. Return which candidates to skip and why, and the outcomes."""
        workers = effective_n_jobs(self.n_jobs)
        before = sum(outcome.seconds for outcome in self.stored(first).values()) / workers  # by the killed run
        start = time.time()
        found = dict(self.run(first, start + budget / (n_rest + 1) - before))
        not_started = {job.candidate: NOT_STARTED for job, outcome in found.items() if outcome.failure == NOT_STARTED}
        found = {job: outcome for job, outcome in found.items() if job.candidate not in not_started}
        seconds = {job.candidate: outcome.seconds for job, outcome in found.items() if not outcome.failure}
        left = budget - before - (time.time() - start)
        return not_started | drop_slowest(seconds, n_rest, left * workers, first[0].candidate), found

    def run(self, jobs: list[FoldJob], deadline: float | None = None) -> Iterator[tuple[FoldJob, Outcome]]:
        """Run these fits, or read stored ones, in order; only majority vote starts after the deadline."""
        stored = self.stored(jobs)
        vote = next(iter(self.candidates))
        new = parallel(self.n_jobs)(
            delayed(fit)(
                current_process(), self._file(job), None if job.candidate == vote else deadline,
                self.candidates[job.candidate], self.X, self.answers, self.splits[job.repeat] == job.fold,
                self.criterion,
            )
            for job in jobs if job not in stored
        )  # fmt: skip
        for job in jobs:
            outcome = stored[job] if job in stored else next(new)
            self.done += 1
            if self.callback is not None:
                scores = outcome.scores
                self.callback({
                    "candidate": job.candidate, "fold": job.repeat * self.folds + job.fold,
                    "done": self.done, "total": self.total, "seconds": outcome.seconds,
                    "log_likelihood": None if scores is None or not len(scores) else float(scores.mean()),
                    "failure": outcome.failure, "kept": job in stored,
                })  # fmt: skip
            yield job, outcome
        next(new, None)  # joblib cleans up only at the end

    def stored(self, jobs: list[FoldJob]) -> dict[FoldJob, Outcome]:
        """Return the outcomes stored by an earlier run."""
        files = {job: file for job in jobs if (file := self._file(job)) is not None}
        found = {job: checkpoint.read(file) for job, file in files.items()}
        return {job: outcome for job, outcome in found.items() if outcome is not None}

    def _file(self, job: FoldJob) -> Path | None:
        held = self.splits[job.repeat] == job.fold
        return None if self.store is None else self.store.fit_path(self.candidates[job.candidate], held)


def fit(parent: Process, file: Path | None, deadline: float | None, *what: Any) -> Outcome:
    """Run `score` unless the deadline has passed, and store the outcome from the same process."""
    exit_with_parent(parent)
    if deadline is not None and time.time() > deadline:
        return Outcome(None, 0.0, NOT_STARTED, ())
    outcome = score(*what)
    if file is not None:
        checkpoint.write(file, outcome)
    return outcome


def drop_slowest(seconds: Mapping[str, float], n_more: int, left: float, never: str) -> dict[str, str]:
    """Return the candidates to skip, slowest first, until `n_more` fits of the others take at most `left`; and why.

    >>> drop_slowest({"vote": 1, "quick": 2, "slow": 50}, 4, 60, "vote")
    {'slow': 'left out: about 50 s per fold, 4 min in total, over the time budget'}
    """
    remaining, skipped = dict(seconds), {}
    while n_more * sum(remaining.values()) > left and (others := [name for name in remaining if name != never]):
        name = max(others, key=remaining.__getitem__)
        each = remaining.pop(name)
        in_all = each * (n_more + 1)
        skipped[name] = f"{SKIPPED}about {_duration(each)} per fold, {_duration(in_all)} in total, over the time budget"
    return skipped


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min"
