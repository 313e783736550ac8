"""Time and memory of self-training and of buying answers on large crowds: `make bench-systems-scale`.

    dasc      100,000 tasks x 1,000 workers x 4 classes, two answers a task: one iteration over a learner of one epoch
    propose   1,000,000 tasks x 10,000 workers x 4 classes, three answers a task: 1,000 answers to buy

Each in a process of its own; memory is the peak of the process, before (with the data and the fitted model) and after.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import crowdwise as cw
from crowdwise.errors import CrowdwiseWarning


def peak() -> float:
    """Most memory the process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)


def dasc() -> str:
    """Self-training over a logistic CrowdLayer."""
    warnings.simplefilter("ignore", CrowdwiseWarning)
    answers = cw.simulate.simulate(100_000, n_workers=1000, n_classes=4, answers_per_task=2)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(4, 8))[answers.truth] * 2 + rng.normal(size=(len(answers), 8))).astype(np.float32)
    base = cw.CrowdLayer(network="logistic", epochs=1, batch_size=1024, lr=0.01).fit(X, answers)
    before, start = peak(), time.perf_counter()
    cw.DASC(base, iterations=1, hidden=0.0).fit(X, answers)
    return f"dasc: {time.perf_counter() - start:.0f} s, {before:.0f} MB before, {peak():.0f} MB after"


def propose() -> str:
    """A thousand answers to buy."""
    warnings.simplefilter("ignore", CrowdwiseWarning)
    answers = cw.simulate.simulate(1_000_000, n_workers=10_000, n_classes=4, answers_per_task=3)
    model = cw.DawidSkene(max_iter=20).fit(answers)
    before, start = peak(), time.perf_counter()
    found = cw.acquire.propose(model, 1000)
    took = time.perf_counter() - start
    return f"propose: {took:.1f} s, {found.pairs_scored:,} pairs, {before:.0f} MB before, {peak():.0f} MB after"


if __name__ == "__main__":
    for job in (dasc, propose):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            print(pool.submit(job).result(), flush=True)
