import numpy as np
from scipy.special import entr

from crowdwise.augment.dasc.selection import lowest_entropy_pairs, quotas


def test_each_member_has_its_own_pairs():
    """Against a loop over all pairs."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.full(3, 0.5), (2, 40))
    mine = rng.random((2, 40)) < 0.6
    task, worker = np.arange(40), np.arange(40) % 7
    blocks = [(task[part], worker[part], q[:, part], list(mine[:, part])) for part in (slice(0, 25), slice(25, 40))]
    for by_class in (True, False):
        best, count = lowest_entropy_pairs(blocks, [4, 6], 3, by_class=by_class)
        for member, m in enumerate((4, 6)):
            own = np.flatnonzero(mine[member])
            label, entropy = q[member].argmax(axis=1), entr(q[member]).sum(axis=1)
            assert count[member].tolist() == np.bincount(label[own], minlength=3).tolist()
            groups = [own[label[own] == c] for c in range(3)] if by_class else [own]
            wanted = [i for group in groups for i in group[np.argsort(entropy[group])][:m]]
            found = best[member].first(np.full(len(groups), m))
            expected = task[wanted], worker[wanted], label[wanted], q[member].max(axis=1)[wanted]
            for column, right in zip(found, expected, strict=True):
                np.testing.assert_array_equal(column, right)


# Quotas, against cases computed by hand


def test_quotas_are_inverse_to_the_counts():
    # 1/60 : 1/30 : 1/20 = 1 : 2 : 3, of 12
    assert quotas(np.array([60, 30, 20]), 12).tolist() == [2, 4, 6]


def test_a_class_without_pseudo_answers_has_no_share():
    # 1/90 : 1/10 = 1 : 9
    assert quotas(np.array([90, 0, 10]), 10).tolist() == [1, 0, 9]


def test_missing_pseudo_answers_are_dropped_or_redistributed():
    # 1/100 : 1/50 : 1/4 = 1 : 2 : 25, of 56: 2, 4 and 50, of which there are 4
    found = np.array([100, 50, 4])
    assert quotas(found, 56).tolist() == [2, 4, 4]
    # 52 are left for the others, by 1 : 2: 17.3 and 34.7
    assert quotas(found, 56, redistribute=True).tolist() == [17, 35, 4]
    # of 110, 106 are left: 35.3 and 70.7, but of those there are 50, and 56 are left for the first
    assert quotas(found, 110, redistribute=True).tolist() == [56, 50, 4]


def test_by_the_pool():
    # what is inverted is the pool's 10 : 40, what caps is found
    assert quotas(np.array([50, 50]), 20, np.array([10, 40])).tolist() == [16, 4]
    assert quotas(np.array([5, 50]), 20, np.array([10, 40])).tolist() == [5, 4]
    assert quotas(np.array([5, 50]), 20, np.array([0, 40]), redistribute=True).tolist() == [5, 15]


def test_quotas_are_within_bounds():
    rng = np.random.default_rng(0)
    for _ in range(200):
        found, m = rng.integers(0, 40, rng.integers(1, 6)), int(rng.integers(1, 100))
        n = quotas(found, m)
        assert (n <= found).all()
        assert n.sum() <= m
        n = quotas(found, m, redistribute=True)
        tau = np.where(found > 0, 1 / np.maximum(found, 1), 0)
        levels = np.linspace(0, 40 * 40, 20_001)[:, None]  # water rises until m are under it
        under = np.minimum(found, levels * tau)
        level = under[np.searchsorted(under.sum(axis=1), min(m, found.sum()) - 1e-9)]
        assert n.sum() == min(m, found.sum())
        assert (np.abs(n - level) < 1.1).all()
