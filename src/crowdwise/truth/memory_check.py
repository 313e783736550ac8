"""Check before a fit that it fits into memory: with a million classes the system would kill the process.

    numbers = 3 tasks x classes                                      probabilities, votes and intermediate arrays
            + groups (10 pairs x classes + 3 classes x classes)      for models with a confusion matrix per worker

The factors were measured with `tracemalloc` on 300 to 600 tasks and 1,000 to 2,000 classes. Pairs are the distinct
(worker, label) pairs.
"""

from __future__ import annotations

from crowdwise._core.memory import available, gigabytes
from crowdwise.answers import Answers
from crowdwise.errors import TooLargeError

UNCHECKED = 10_000_000  # up to this many numbers nothing is checked: reading the free memory would dominate small fits


def check_memory(name: str, answers: Answers, *, matrices: bool, groups: int = 1) -> None:
    """Raise TooLargeError, with what to do instead, for a fit that needs more memory than is free."""
    numbers = 3.0 * answers.n_tasks * answers.n_classes
    if matrices:
        n_pairs = min(answers.n_answers, answers.n_workers * answers.n_classes)
        numbers += groups * answers.n_classes * (10.0 * n_pairs + 3.0 * answers.n_classes)
    if numbers <= UNCHECKED:
        return
    needed, free = 8 * numbers, available()
    if needed > free:
        other = " A method without confusion matrices, such as one-coin, needs less." if matrices else ""
        message = (
            f"{name} on {answers.n_tasks:,} tasks and {answers.n_classes:,} classes needs about {gigabytes(needed)} "
            f"of memory; {gigabytes(free)} are free. Check that the labels come from the right column. "
            f"If they do, merge rare classes or fit fewer tasks at a time.{other}"
        )
        raise TooLargeError(message)
