"""Small crowds with features, for tests of learners."""

import numpy as np

import crowdwise as cw


def blobs(n_tasks=300, n_classes=3, n_features=6, distance=3.0, shares=None, seed=0):
    """Return features (tasks, features), float32, in Gaussian blobs, and the true class codes."""
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(99).normal(size=(n_classes, n_features))
    centre *= distance / np.linalg.norm(centre, axis=1, keepdims=True)
    truth = rng.choice(n_classes, n_tasks, p=shares)
    return (centre[truth] + rng.normal(size=(n_tasks, n_features))).astype(np.float32), truth


def answers_of(truth, confusion, per_task=3, seed=0):
    """Return answers of workers with these confusion matrices [w, c, l], `per_task` per task."""
    rng = np.random.default_rng([seed, 1])
    n_tasks, (n_workers, n_classes, _) = len(truth), confusion.shape
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :per_task].ravel()
    cumulative = confusion[worker, truth[task]].cumsum(axis=1)
    label = np.minimum((rng.random((len(task), 1)) > cumulative).sum(axis=1), n_classes - 1)
    return cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)


def uneven(n_workers=8, n_classes=3, good=(0.55, 0.95), seed=0):
    """Return confusion matrices of workers with different accuracies and unevenly distributed errors."""
    rng = np.random.default_rng([seed, 2])
    confusion = rng.dirichlet(np.ones(n_classes), size=(n_workers, n_classes))
    right = rng.uniform(*good, size=(n_workers, n_classes))
    diagonal = np.arange(n_classes)
    confusion[:, diagonal, diagonal] = 0
    confusion *= ((1 - right) / confusion.sum(axis=2))[:, :, None]
    confusion[:, diagonal, diagonal] = right
    return confusion


def swapping(n_workers=8, n_classes=3, swap=0.7, n_good=4, accuracy=0.85):
    """Return confusion matrices of good workers, and of workers who mostly answer 1 for class 0: votes are wrong."""
    confusion = np.full((n_workers, n_classes, n_classes), (1 - accuracy) / (n_classes - 1))
    diagonal = np.arange(n_classes)
    confusion[:, diagonal, diagonal] = accuracy
    confusion[n_good:, 0] = (1 - swap) / (n_classes - 1)
    confusion[n_good:, 0, 1] = swap
    return confusion


def copied(answers, times):
    """Return each answer `times` times, by workers who copy each other."""
    n = answers.n_answers
    worker = np.repeat(answers.worker, times) * times + np.tile(np.arange(times), n)
    return cw.Answers.from_codes(
        np.repeat(answers.task, times), worker, np.repeat(answers.label, times),
        tasks=answers.n_tasks, workers=answers.n_workers * times, classes=answers.n_classes,
    )  # fmt: skip
