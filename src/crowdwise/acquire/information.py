"""What an answer is expected to tell about the truth, before it is given.

    p[c]          belief: P(truth of the task is c)                        t = task, w = worker, c = truth, l = label
    K[c, l]       channel: P(worker says l | truth c)
    m[l]          = sum over c of p[c] K[c, l]                             what the worker is expected to say
    gain          = I(truth; answer) = H(m) - sum over c of p[c] H(K[c])   in nats: 0 <= gain <= min(H(p), log classes)

Of several answers to one task, in a batch, the later ones tell less: they are independent given the truth only. With
the answers bought before as outcomes o, and q[o, c] = P(they turn out as o, truth is c),

    gain          = sum over o, l of H'(m[o, l]) - sum over o of H'(q[o]) - sum over c of p[c] H(K[c])
    m[o, l]       = sum over c of q[o, c] K[c, l]                          H'(x) = -x log x

which is I(truth; answer | answers before): it never grows with what was bought before. There are labels^k outcomes of k
answers; the `OUTCOMES` most probable are kept apart, the rest count as one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr

from crowdwise.learn.base import Array

BITS = 1 / np.log(2)  # in a nat
OUTCOMES = 256  # of answers bought before, kept apart
TINY = 1e-12
ROUNDS = 25  # of proportional fitting, and of the search for a capacity


def entropy(p: Array) -> Array:
    """Entropy of each row, in nats."""
    return entr(p).sum(axis=-1)


def gain(q: Array, channel: Array) -> Array:
    """Expected information of one more answer, (pairs,) in nats.

    Parameters
    ----------
    q : (pairs, outcomes, classes) array
        P(answers bought before, truth); one outcome, the belief, when there are none.
    channel : (pairs, classes, labels) array

    Examples
    --------
    >>> half = np.array([[[0.5, 0.5]]])
    >>> (gain(half, np.eye(2)[None]) / np.log(2)).tolist(), gain(half, np.full((1, 2, 2), 0.5)).tolist()
    ([1.0], [0.0])
    """
    said = np.matmul(q, channel)  # (pairs, outcomes, labels)
    noise = (q.sum(axis=1) * entropy(channel)).sum(axis=1)
    told = entr(said).sum(axis=(1, 2)) - entr(q.sum(axis=2)).sum(axis=1) - noise
    return np.maximum(told, 0.0)


def heard(q: Array, channel: Array) -> Array:
    """P(answers bought before and one more, truth), (pairs, outcomes, classes)."""
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
    """Upper bound, (workers,) in nats, of what an answer through each channel can tell, whatever the belief.

    For any distribution r of labels, max over c of KL(K[c] || r) is one; Blahut's and Arimoto's iteration finds a good
    r.

    >>> capacity(np.array([np.eye(2), np.full((2, 2), 0.5)])).round(6).tolist()
    [0.693147, 0.0]
    """
    n_workers, n_classes, _ = channel.shape
    p = np.full((n_workers, n_classes), 1 / n_classes)
    noise = entropy(channel)  # (workers, classes)
    best = np.full(n_workers, np.inf)
    for _ in range(ROUNDS):
        said = np.matmul(p[:, None], channel)[:, 0]  # (workers, labels)
        away = (
            -np.matmul(channel, np.log(np.maximum(said, TINY))[:, :, None])[:, :, 0] - noise
        )  # KL, (workers, classes)
        best = np.minimum(best, away.max(axis=1))
        p = p * np.exp(away - away.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
    return np.maximum(best, 0.0)


def matched(p: Array, channel: Array, said: Array) -> Array:
    """The channels nearest to these under which beliefs `p` make workers say `said`, (pairs, classes, labels).

    Nearest in relative entropy: the joint p[c] K[c, l] is fitted to both margins by turns (iterative proportional
    fitting). This is how a learner's own P(answer | features) enters, which knows of no truth between.

    >>> p, K = np.array([[0.5, 0.5]]), np.array([[[0.8, 0.2], [0.2, 0.8]]])
    >>> bool(np.allclose(matched(p, K, np.matmul(p, K[0])), K))
    True
    """
    p, said = np.maximum(p, TINY), np.maximum(said, TINY)
    joint = p[:, :, None] * np.maximum(channel, TINY)
    for _ in range(ROUNDS):
        joint = joint * (said / joint.sum(axis=1))[:, None]
        joint = joint * (p / joint.sum(axis=2))[:, :, None]
    return joint / p[:, :, None]
