"""Labels of real and synthetic tasks together, the class shares of the real ones, and a check for a dominant worker.

    T          labels by Dawid-Skene on the answers to real and synthetic tasks, whose classes are balanced  (2.1, 2.2)
    share[c]   share of class c among the real tasks, by EM with the likelihoods of T held fixed
    proba      of a real task, proportional to share[c] * likelihood[t, c]

Hard decisions, as in the paper, make EM settle on a single worker: whoever starts with the highest weight confirms
themselves. Posteriors do not. T is for training, where classes are to be balanced; 10 to 1, equal shares label many
tasks of the common class as rare, so the labels of the real tasks use their own shares.
"""

from __future__ import annotations

import warnings

import numpy as np

from crowdwise.answers import Answers
from crowdwise.errors import DominantWorkerWarning
from crowdwise.learn.base import Array

MAX_STEPS, TOLERANCE = 200, 1e-6  # of the estimation of shares
SAME, DIFFERENT = 0.99, 0.95  # a dominant worker agrees with the labels at least, and with the vote at most, so often


def estimate_shares(likelihood: Array) -> Array:
    """Return the class shares (classes,) that maximise the likelihood of the answers (tasks, classes).

    >>> estimate_shares(np.eye(2)[[0, 0, 0, 1]]).tolist()
    [0.75, 0.25]
    >>> estimate_shares(np.array([[0.9, 0.1]] * 3 + [[0.1, 0.9]])).round(2).tolist()
    [0.81, 0.19]
    """
    share = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(MAX_STEPS):
        before, share = share, posterior(likelihood, share).mean(axis=0)
        if np.abs(share - before).max() < TOLERANCE:
            break
    return share


def posterior(likelihood: Array, share: Array) -> Array:
    """Return class probabilities (tasks, classes) from likelihoods (tasks, classes) and class shares (classes,)."""
    joint = likelihood * share
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def find_dominant_worker(answers: Answers, labels: Array, vote: Array) -> int | None:
    """Return the worker whose answers the labels repeat, or None.

    The worker has answered at least half of the tasks. The labels are their answers (99 % or more), and the majority
    vote is not (95 % or less).

    Parameters
    ----------
    answers : Answers
    labels, vote : (tasks,) class codes

    Examples
    --------
    >>> answers = Answers.from_codes([0, 0, 0, 1], [0, 1, 2, 0], [0, 1, 1, 1], tasks=2, workers=3, classes=2)
    >>> find_dominant_worker(answers, np.array([0, 1]), vote=np.array([1, 1]))
    0
    """
    agreement = [
        np.bincount(answers.worker, codes[answers.task] == answers.label, minlength=answers.n_workers)
        for codes in (labels, vote)
    ]
    count = np.bincount(answers.worker, minlength=answers.n_workers)
    found = np.flatnonzero(
        (count >= answers.n_tasks / 2) & (agreement[0] >= SAME * count) & (agreement[1] <= DIFFERENT * count)
    )
    return int(found[0]) if len(found) else None


def warn_of_dominant_worker(answers: Answers, labels: Array, vote: Array) -> None:
    """Warn if the labels repeat the answers of one worker."""
    worker = find_dominant_worker(answers, labels, vote)
    if worker is None:
        return
    own = answers.worker == worker
    differs = (vote[answers.task[own]] != answers.label[own]).mean()
    message = (
        f"the labels repeat the answers of one worker, {answers.workers[worker]}; the majority vote differs from them "
        f"on {differs:.0%} of the tasks they answered. Check this worker against known labels (gold). If they are not "
        f"an expert, do not use these labels, and set hard=False if it is True."
    )
    warnings.warn(message, DominantWorkerWarning, stacklevel=2)
