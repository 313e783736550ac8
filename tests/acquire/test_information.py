import itertools

import numpy as np
import pytest
from scipy.special import entr, rel_entr

from crowdwise.acquire import information
from crowdwise.acquire.information import capacity, entropy, extend_outcomes, gain, match_channels


def crowd(n, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(classes), n), rng.dirichlet(np.ones(classes), (n, classes))


def enumerated(p, channels):
    """I(truth; last answer | the answers before), by the joint of truth and all answers."""
    classes = len(p)
    joint = np.zeros((classes,) * (len(channels) + 1))
    for c in range(classes):
        for said in itertools.product(range(classes), repeat=len(channels)):
            joint[(c, *said)] = p[c] * np.prod([k[c, label] for k, label in zip(channels, said, strict=True)])
    told = [entr(joint.sum(axis=tuple(range(j + 1, joint.ndim)))).sum() for j in (len(channels) - 1, len(channels))]
    without = [entr(joint.sum(axis=0)).sum(), entr(joint.sum(axis=(0, joint.ndim - 1))).sum()]
    return told[0] - told[1] + without[0] - without[1]  # H(c, before) - H(c, all) + H(all) - H(before)


def test_gain_by_hand():
    """A worker who is right in 3 of 4 cases, on an even belief: log 2 - H(1/4)."""
    told = gain(np.array([[[0.5, 0.5]]]), np.array([[[0.75, 0.25], [0.25, 0.75]]]))
    np.testing.assert_allclose(told, np.log(2) + 0.25 * np.log(0.25) + 0.75 * np.log(0.75))


def test_gain_of_one_answer_is_that_of_the_enumerated_joint():
    p, channel = crowd(50)
    joint = p[:, :, None] * channel
    exact = rel_entr(joint, p[:, :, None] * joint.sum(axis=1, keepdims=True)).sum(axis=(1, 2))
    np.testing.assert_allclose(gain(p[:, None], channel), exact, atol=1e-12)
    np.testing.assert_allclose([enumerated(*pair) for pair in zip(p[:5], channel[:5, None], strict=True)], exact[:5])


@pytest.mark.parametrize("before", [1, 2, 3])
def test_gain_after_others_is_that_of_the_enumerated_joint(before):
    p, channels = crowd(1, seed=before)[0], crowd(before + 1, seed=9)[1]
    q = p[:, None]
    for channel in channels[:-1]:
        q = extend_outcomes(q, channel[None])
    np.testing.assert_allclose(q.sum(axis=1), p)
    np.testing.assert_allclose(gain(q, channels[-1:]), enumerated(p[0], channels))


def test_gain_is_bounded():
    p, channel = crowd(500, 4)
    told = gain(p[:, None], channel)
    assert (told >= 0).all()
    assert (told <= entropy(p) + 1e-12).all()
    assert (told <= np.log(4)).all()
    assert (told <= capacity(channel) + 1e-12).all()


def test_random_workers_and_certain_tasks_have_no_gain():
    p, channel = crowd(20)
    spammer = np.repeat(channel[:, :1], 3, axis=1)  # answers do not depend on the truth
    np.testing.assert_allclose(gain(p[:, None], spammer), 0, atol=1e-12)
    np.testing.assert_allclose(gain(np.eye(3)[[0, 1, 2]][:, None], channel[:3]), 0, atol=1e-12)
    np.testing.assert_allclose(gain(p[:, None], np.repeat(np.eye(3)[None], 20, axis=0)), entropy(p))  # never errs


def test_returns_diminish():
    p, channel = crowd(200, 3)
    q, told = p[:, None], []
    for _ in range(4):
        told.append(gain(q, channel))
        q = extend_outcomes(q, channel)
    assert (np.diff(told, axis=0) <= 1e-12).all()
    assert (np.sum(told, axis=0) <= entropy(p) + 1e-12).all()


def test_rare_outcomes_are_merged(monkeypatch):
    p, channel = crowd(30, 3)
    exact = gain(extend_outcomes(extend_outcomes(p[:, None], channel), channel), channel)
    monkeypatch.setattr(information, "OUTCOMES", 6)
    q = extend_outcomes(extend_outcomes(p[:, None], channel), channel)
    assert q.shape == (30, 6, 3)
    np.testing.assert_allclose(q.sum(axis=1), p)
    merged = gain(q, channel)
    assert (merged >= exact - 1e-12).all()  # merged outcomes carry less information
    assert (merged <= gain(p[:, None], channel) + 1e-12).all()


def test_capacity_of_known_channels():
    """Binary symmetric, log 2 - H(e); the Z channel with its closed form; some belief reaches it."""
    symmetric = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    z = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    np.testing.assert_allclose(capacity(symmetric), np.log(2) - entropy(np.array([0.1, 0.9])))
    np.testing.assert_allclose(capacity(z), np.log(5 / 4), atol=1e-3)
    belief = np.stack([np.linspace(0, 1, 1001), 1 - np.linspace(0, 1, 1001)], axis=1)
    channel = crowd(20, 2)[1]
    best = np.array([gain(belief[:, None], np.repeat(k[None], 1001, axis=0)).max() for k in channel])
    assert (best <= capacity(channel) + 1e-9).all()
    np.testing.assert_allclose(best, capacity(channel), atol=2e-3)


def test_matched_channels_have_both_margins():
    p, channel = crowd(40)
    said = np.random.default_rng(5).dirichlet(np.ones(3), 40)
    bent = match_channels(p, channel, said)
    np.testing.assert_allclose(bent.sum(axis=2), 1)
    np.testing.assert_allclose(np.einsum("pc,pcl->pl", p, bent), said, atol=1e-4)
    same = np.einsum("pc,pcl->pl", p, channel)
    np.testing.assert_allclose(match_channels(p, channel, same), channel, atol=1e-9)


def test_matched_channels_are_the_nearest():
    """No joint of the same margins is nearer: odds ratios of the joint are kept."""
    p, channel = crowd(10, 2)
    bent = match_channels(p, channel, np.random.default_rng(6).dirichlet(np.ones(2) * 3, 10))

    def odds(k):
        return k[:, 0, 0] * k[:, 1, 1] / (k[:, 0, 1] * k[:, 1, 0])

    np.testing.assert_allclose(odds(bent), odds(channel), rtol=1e-6)
