"""Whether a fit fits into memory, asked before it begins: with a million classes the system would end the process.

    numbers = 3 tasks x classes                                      probabilities, votes, and what is made of them
            + groups (10 pairs x classes + 3 classes x classes)      where every worker has a confusion matrix

Measured (`tracemalloc`) on 300 to 600 tasks and 1,000 to 2,000 classes; pairs are the distinct (worker, label).
"""

from __future__ import annotations

from crowdwise._core.memory import available, gigabytes
from crowdwise.answers import Answers
from crowdwise.errors import TooLargeError

FREELY = 10_000_000  # numbers that are never counted: looking what memory is free takes longer than most small fits


def check_memory(name: str, answers: Answers, *, matrices: bool, groups: int = 1) -> None:
    """Refuse a fit that needs more memory than there is, with what to do instead."""
    numbers = 3.0 * answers.n_tasks * answers.n_classes
    if matrices:
        n_pairs = min(answers.n_answers, answers.n_workers * answers.n_classes)
        numbers += groups * answers.n_classes * (10.0 * n_pairs + 3.0 * answers.n_classes)
    if numbers <= FREELY:
        return
    needed, free = 8 * numbers, available()
    if needed > free:
        other = " A method without confusion matrices, as one-coin, needs less." if matrices else ""
        message = (
            f"{name} on {answers.n_tasks:,} tasks and {answers.n_classes:,} classes needs about {gigabytes(needed)}, "
            f"with {gigabytes(free)} free: it keeps a number for each task and class. Is the label the right column? "
            f"Make rare classes one, or fit fewer tasks at a time.{other}"
        )
        raise TooLargeError(message)
