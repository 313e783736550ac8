"""All fits of one choice: in order, several at once, kept on disk, and within a time budget.

Fits go fold by fold, all candidates of a fold before the next, so that after the first fold it is known how long each
candidate takes. Under a time budget, the slowest are then left out until the rest fits; majority vote never is. While
the first fold runs, a candidate is not begun once this fold has used its share of the budget: those before it would
fill it already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from joblib import Parallel, delayed, effective_n_jobs

from crowdwise._core.child_processes import Process, current_process, exit_with_parent
from crowdwise.answers import Answers
from crowdwise.choose import checkpoint
from crowdwise.choose.scores import Array, Candidate, Criterion, Outcome, score

# Called after each fit with candidate, fold, done, total, seconds, log_likelihood, failure and kept.
Callback = Callable[[Mapping[str, Any]], None]

LEFT_OUT = "left out: "  # so begins why a candidate was not fitted to the end
NOT_BEGUN = f"{LEFT_OUT}not begun, those before it fill the time budget"


class FoldJob(NamedTuple):
    """One fit."""

    candidate: str
    repeat: int
    fold: int


@dataclass
class Fits:
    """What is to be fitted, and how. `done` and `total` count fits."""

    given: Mapping[str, Candidate]  # majority vote first
    X: Any
    answers: Answers
    criterion: Criterion
    splits: list[Array]  # fold of each answer, (answers,), one a repeat
    folds: int
    n_jobs: int = 1
    keep: checkpoint.Keep | None = None
    callback: Callback | None = None
    done: int = 0
    total: int = 0

    def all(self, time_budget: float | None) -> dict[FoldJob, Outcome]:
        """Fit all, or what the budget allows; a candidate left out has an outcome that says so."""
        jobs = [FoldJob(n, r, f) for r in range(len(self.splits)) for f in range(self.folds) for n in self.given]
        self.done, self.total = 0, len(jobs)
        if time_budget is None:
            return dict(self.run(jobs))
        first, rest = jobs[: len(self.given)], jobs[len(self.given) :]
        file = None if self.keep is None else self.keep.left_out(self.given, self.splits, time_budget)
        left = None if file is None else checkpoint.read_json(file)
        if left is None:
            left, found = self.within(time_budget, first, len(rest) // len(first))
            if file is not None:
                checkpoint.write_json(file, left)
        else:
            found = dict(self.run([job for job in first if left.get(job.candidate) != NOT_BEGUN]))
        failed = {job.candidate for job, outcome in found.items() if outcome.failure}
        rest = [job for job in rest if job.candidate not in failed | set(left)]
        self.total = self.done + len(rest)
        told = {FoldJob(name, 0, -1): Outcome(None, 0.0, text, ()) for name, text in left.items()}
        return {**found, **told, **dict(self.run(rest))}

    def within(self, budget: float, first: list[FoldJob], n_rest: int) -> tuple[dict[str, str], dict[FoldJob, Outcome]]:
        """Fit the first fold, and decide: what is left out and why, and the fits."""
        workers = effective_n_jobs(self.n_jobs)
        before = sum(outcome.seconds for outcome in self.kept(first).values()) / workers  # of the run that was killed
        start = time.time()
        found = dict(self.run(first, start + budget / (n_rest + 1) - before))
        late = {job.candidate: NOT_BEGUN for job, outcome in found.items() if outcome.failure == NOT_BEGUN}
        found = {job: outcome for job, outcome in found.items() if job.candidate not in late}
        seconds = {job.candidate: outcome.seconds for job, outcome in found.items() if not outcome.failure}
        left = budget - before - (time.time() - start)
        return late | slowest(seconds, n_rest, left * workers, first[0].candidate), found

    def run(self, jobs: list[FoldJob], deadline: float | None = None) -> Iterator[tuple[FoldJob, Outcome]]:
        """Fit these, or take what is kept, in this order; none but majority vote begins after the deadline."""
        kept = self.kept(jobs)
        vote = next(iter(self.given))
        new = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(fit)(
                current_process(), self._file(job), None if job.candidate == vote else deadline,
                self.given[job.candidate], self.X, self.answers, self.splits[job.repeat] == job.fold, self.criterion,
            )
            for job in jobs if job not in kept
        )  # fmt: skip
        for job in jobs:
            outcome = kept[job] if job in kept else next(new)
            self.done += 1
            if self.callback is not None:
                scores = outcome.scores
                self.callback({
                    "candidate": job.candidate, "fold": job.repeat * self.folds + job.fold,
                    "done": self.done, "total": self.total, "seconds": outcome.seconds,
                    "log_likelihood": None if scores is None or not len(scores) else float(scores.mean()),
                    "failure": outcome.failure, "kept": job in kept,
                })  # fmt: skip
            yield job, outcome
        next(new, None)  # joblib closes its side at the end only

    def kept(self, jobs: list[FoldJob]) -> dict[FoldJob, Outcome]:
        """Those of the fits that an earlier run has kept."""
        files = {job: file for job in jobs if (file := self._file(job)) is not None}
        found = {job: checkpoint.read(file) for job, file in files.items()}
        return {job: outcome for job, outcome in found.items() if outcome is not None}

    def _file(self, job: FoldJob) -> Path | None:
        held = self.splits[job.repeat] == job.fold
        return None if self.keep is None else self.keep.fit(self.given[job.candidate], held)


def fit(parent: Process, file: Path | None, deadline: float | None, *what: Any) -> Outcome:
    """`score`, unless it is too late to begin; kept at once, by the process that did it."""
    exit_with_parent(parent)
    if deadline is not None and time.time() > deadline:
        return Outcome(None, 0.0, NOT_BEGUN, ())
    outcome = score(*what)
    if file is not None:
        checkpoint.write(file, outcome)
    return outcome


def slowest(seconds: Mapping[str, float], n_more: int, left: float, never: str) -> dict[str, str]:
    """Candidates to leave out, slowest first, until `n_more` fits of all others take no longer than is left; and why.

    >>> slowest({"vote": 1, "quick": 2, "slow": 50}, 4, 60, "vote")
    {'slow': 'left out: about 50 s a fold, 4 min in all, over the time budget'}
    """
    going, out = dict(seconds), {}
    while n_more * sum(going.values()) > left and (others := [name for name in going if name != never]):
        name = max(others, key=going.__getitem__)
        each = going.pop(name)
        in_all = each * (n_more + 1)
        out[name] = f"{LEFT_OUT}about {_duration(each)} a fold, {_duration(in_all)} in all, over the time budget"
    return out


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min"
