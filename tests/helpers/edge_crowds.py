"""Extreme crowds: unanimous, adversarial, disconnected, tiny, or with extreme weights."""

from __future__ import annotations

import numpy as np

from crowdwise import Answers

N_TASKS, N_WORKERS = 24, 6


def _ordinary_crowd(seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return task, worker and label of three answers per task, and the truth; workers are 70% accurate."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, N_TASKS)
    task = np.repeat(np.arange(N_TASKS), 3)
    worker = np.concatenate([rng.permutation(N_WORKERS)[:3] for _ in range(N_TASKS)])
    wrong = (truth[task] + rng.integers(1, 3, len(task))) % 3
    return task, worker, np.where(rng.random(len(task)) < 0.7, truth[task], wrong), truth


def edge_crowds() -> dict[str, Answers]:
    """Return crowds by name. All but the last three are also suitable for learners."""
    make = Answers.from_arrays
    task, worker, label, truth = _ordinary_crowd()
    task2, worker2, label2, _ = _ordinary_crowd(1)
    correct, three = truth[task], [0, 1, 2]
    rng, n = np.random.default_rng(2), 400
    rare = np.where(label == 2, 1, label)
    rare[0] = 2
    crowds = {
        "all equal": make(task, worker, np.ones_like(label), classes=three),
        "perfect": make(task, worker, correct, classes=three),
        "adversarial": make(task, worker, (correct + 1) % 3, classes=three),
        "half adversarial": make(task, worker, np.where(worker < 3, correct, (correct + 1) % 3), classes=three),
        "two against two": make(task, worker, np.where(worker % 2, correct % 2, 1 - correct % 2), classes=[0, 1]),
        "islands": make([*task, *(task2 + N_TASKS)], [*worker, *(worker2 + N_WORKERS)], [*label, *label2]),
        "one answer per task": make(range(N_TASKS), np.arange(N_TASKS) % 5, truth, classes=three),
        "one answer per worker": make(range(N_TASKS), range(N_TASKS), truth, classes=three),
        "one worker": make(range(6), [0] * 6, [0, 1, 1, 2, 2, 2]),
        "always tied": make(np.repeat(np.arange(9), 2), [0, 1] * 9, [0, 1] * 9),
        "a class of one answer": make(task, worker, rare),
        "a class nobody chose": make(task, worker, label % 2, classes=three),
        "tasks and workers without answers": make(task, worker, label, tasks=range(27), workers=range(9)),
        "long tasks": make(np.repeat([0, 1], n), [*range(n)] * 2, [*(rng.random(n) < 0.4), *(rng.random(n) < 0.9)]),
    }
    weights = {
        "equal": np.ones(len(task)), "tiny": np.full(len(task), 1e-30), "denormal": np.full(len(task), 5e-324),
        "largest": np.full(len(task), 1e6), "of all magnitudes": 10.0 ** rng.integers(-300, 7, len(task)),
        "from 1e-12 to 1e6": 10.0 ** rng.integers(-12, 7, len(task)), "some zero": np.arange(len(task)) % 3 > 0,
        "zero for a worker": worker > 1, "zero for a task": task > 3, "float32": np.full(len(task), 0.1, np.float32),
    }  # fmt: skip
    crowds |= {f"weights {name}": make(task, worker, label, weight=weight) for name, weight in weights.items()}
    return crowds | {
        "one task": make([0] * 5, range(5), [0, 0, 1, 1, 2]),
        "one answer": make([0], [0], [0], classes=[0, 1]),
        "one class": make(task, worker, label * 0),
    }


FEATURES = {
    "float64": lambda x: x.astype(np.float64), "float16": lambda x: x.astype(np.float16),
    "integers": lambda x: (10 * x).astype(np.int64), "constant": lambda x: np.ones_like(x), "zero": lambda x: 0 * x,
    "one constant": lambda x: np.where(np.arange(x.shape[1]) == 1, np.float32(3), x), "1e30": lambda x: x * 1e30,
    "1e-30": lambda x: x * 1e-30, "1e-44": lambda x: (x * 1e-44).astype(np.float32),
    "of all magnitudes": lambda x: (x * 10.0 ** np.linspace(-30, 30, x.shape[1])).astype(np.float32),
    "far from zero": lambda x: x + 1e7, "one outlier": lambda x: np.where(np.arange(len(x))[:, None] == 0, 1e30, x),
}  # fmt: skip
