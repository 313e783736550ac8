"""How long a run will still take, from its first fit on.

A method that has been fitted takes as long as its fastest fit so far, since the first one may include compilation. The
others are expected to take their usual share: `COSTS` says how much longer fits of one method take than those of
another. All are fitted once per fold and once to all answers. The pool is fitted again to parts of the answers, for the
curve of accuracy. The rest of the run takes `REST` seconds, and more where fits take more than their usual seconds: on
larger data, though not in proportion, or on a busy machine.
"""

from __future__ import annotations

from collections.abc import Iterable

from crowdwise.choose.candidates import POOL

COSTS = {  # processor seconds of a fit to about 2,000 answers to 500 tasks, three classes, eight features
    "majority-vote": 0.009, "wawa": 0.007, "one-coin": 0.008, "mace": 0.009, "glad": 0.016, "dawid-skene": 0.008,
    "ibcc": 0.01, "ebcc": 0.026, POOL: 0.065, "crowdlab": 0.02, "raykar": 0.07, "joint-em": 1.2, "aggnet": 0.5,
    "crowdlayer": 0.4, "conal": 0.6, "waum(crowdlayer)": 0.5, "dasc(crowdlayer)": 1.1,
}  # fmt: skip
UNKNOWN = 0.4  # of methods that a user names
CURVE = 2.0  # fits of the pool that take as long as those to 20 to 80 % of the answers
REST = 2.0


class TimeLeft:
    """Estimates the seconds that are left.

    Examples
    --------
    >>> left = TimeLeft(["majority-vote", "pool"], folds=5, n_jobs=1)
    >>> left.fitted("majority-vote", 0.09)
    >>> round(left.seconds(done=1, total=10), 1)  # the pool probably takes 0.65 s
    16.9
    """

    def __init__(self, candidates: Iterable[str], folds: int, n_jobs: int) -> None:
        self.folds, self.n_jobs = folds, n_jobs
        self.durations: dict[str, list[float]] = {name: [] for name in candidates}

    def fitted(self, candidate: str, seconds: float) -> None:
        """Record a fit."""
        self.durations[candidate].append(seconds)

    def seconds(self, done: int, total: int) -> float:
        """Return the estimate when `done` of `total` fits to folds have been made."""
        known = {name: min(durations) for name, durations in self.durations.items() if durations}
        speed = sum(known.values()) / sum(COSTS.get(name, UNKNOWN) for name in known)
        each = {name: known.get(name, speed * COSTS.get(name, UNKNOWN)) for name in self.durations}
        missing = {name: max(self.folds - len(durations), 0) for name, durations in self.durations.items()}
        of_folds = sum(number * each[name] for name, number in missing.items())
        made = (total - done) / max(sum(missing.values()), 1)  # some candidates may have been left out
        return (made * of_folds + sum(each.values())) / self.n_jobs + CURVE * each.get(POOL, 0.0) + REST * speed**0.75
