"""Expected information about the truth in an answer, before it is given.

    p[c]          belief: P(truth of the task is c)                        t = task, w = worker, c = truth, l = label
    K[c, l]       channel: P(worker answers l | truth c)
    m[l]          = sum over c of p[c] K[c, l]                             the expected answer
    gain          = I(truth; answer) = H(m) - sum over c of p[c] H(K[c])   in nats: 0 <= gain <= min(H(p), log classes)

Of several answers to a task in a batch, later ones carry less information, as answers are independent only given the
truth. With outcomes o of the answers bought before, and q[o, c] = P(outcome o, truth c),

    gain          = sum over o, l of H'(m[o, l]) - sum over o of H'(q[o]) - sum over c of p[c] H(K[c])
    m[o, l]       = sum over c of q[o, c] K[c, l]                          H'(x) = -x log x

which is I(truth; answer | earlier answers). It never grows with more earlier answers. There are labels^k outcomes of k
answers; the `OUTCOMES` most probable are tracked, the rest are merged into one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr

from crowdwise.learn.base import Array

BITS = 1 / np.log(2)  # per nat
OUTCOMES = 256  # of earlier answers, tracked separately
TINY = 1e-12
ROUNDS = 25  # of proportional fitting, and of the capacity iteration


def entropy(p: Array) -> Array:
    """Return the entropy of each row, in nats."""
    return entr(p).sum(axis=-1)


def gain(q: Array, channel: Array) -> Array:
    """Return the expected information of one more answer, (pairs,) in nats.

    Parameters
    ----------
    q : (pairs, outcomes, classes) array
        P(outcome of earlier answers, truth); a single outcome, the belief, if there are none.
    channel : (pairs, classes, labels) array

    Examples
    --------
    >>> half = np.array([[[0.5, 0.5]]])
    >>> (gain(half, np.eye(2)[None]) / np.log(2)).tolist(), gain(half, np.full((1, 2, 2), 0.5)).tolist()
    ([1.0], [0.0])
    """
    answer = np.matmul(q, channel)  # (pairs, outcomes, labels)
    noise = (q.sum(axis=1) * entropy(channel)).sum(axis=1)
    information = entr(answer).sum(axis=(1, 2)) - entr(q.sum(axis=2)).sum(axis=1) - noise
    return np.maximum(information, 0.0)


def extend_outcomes(q: Array, channel: Array) -> Array:
    """Return P(outcome of earlier answers and one more, truth), (pairs, outcomes, classes)."""
    n_pairs, n_outcomes, n_classes = q.shape
    joint = q[:, :, None, :] * channel.swapaxes(1, 2)[:, None]  # (pairs, outcomes, labels, classes)
    joint = joint.reshape(n_pairs, n_outcomes * channel.shape[2], n_classes)
    if joint.shape[1] <= OUTCOMES:
        return joint
    order = np.argsort(-joint.sum(axis=2), axis=1, kind="stable")[:, :, None]
    joint = np.take_along_axis(joint, order, axis=1)
    rest = joint[:, OUTCOMES - 1 :].sum(axis=1, keepdims=True)
    return np.concatenate([joint[:, : OUTCOMES - 1], rest], axis=1)


def capacity(channel: Array) -> Array:
    """Return an upper bound, (workers,) in nats, on the information of an answer, for any belief.

    For any distribution r of labels, max over c of KL(K[c] || r) is such a bound; the Blahut-Arimoto iteration finds a
    good r.

    >>> capacity(np.array([np.eye(2), np.full((2, 2), 0.5)])).round(6).tolist()
    [0.693147, 0.0]
    """
    n_workers, n_classes, _ = channel.shape
    p = np.full((n_workers, n_classes), 1 / n_classes)
    noise = entropy(channel)  # (workers, classes)
    best = np.full(n_workers, np.inf)
    for _ in range(ROUNDS):
        answer = np.matmul(p[:, None], channel)[:, 0]  # (workers, labels)
        divergence = (
            -np.matmul(channel, np.log(np.maximum(answer, TINY))[:, :, None])[:, :, 0] - noise
        )  # KL, (workers, classes)
        best = np.minimum(best, divergence.max(axis=1))
        p = p * np.exp(divergence - divergence.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
    return np.maximum(best, 0.0)


def match_channels(p: Array, channel: Array, answer: Array) -> Array:
    """Return the nearest channels under which beliefs `p` predict `answer`, (pairs, classes, labels).

    Nearest in relative entropy: the joint p[c] K[c, l] is fitted to both margins in turn (iterative proportional
    fitting). This uses a learner's own P(answer | features), which does not separate the truth from the worker.

    >>> p, K = np.array([[0.5, 0.5]]), np.array([[[0.8, 0.2], [0.2, 0.8]]])
    >>> bool(np.allclose(match_channels(p, K, np.matmul(p, K[0])), K))
    True
    """
    p, answer = np.maximum(p, TINY), np.maximum(answer, TINY)
    joint = p[:, :, None] * np.maximum(channel, TINY)
    for _ in range(ROUNDS):
        joint = joint * (answer / joint.sum(axis=1))[:, None]
        joint = joint * (p / joint.sum(axis=2))[:, :, None]
    return joint / p[:, :, None]
