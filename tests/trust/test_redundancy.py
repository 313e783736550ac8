"""Labels without some workers, against counting by hand, and the promise of what can be dropped."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.trust import dependence, estimate
from crowdwise.trust.redundancy import PanelVote, find_droppable


@pytest.fixture(scope="module")
def crowd():
    """Six workers, and two who copy the first, with gaps."""
    answers = cw.simulate.simulate(400, n_workers=6, n_classes=3, answers_per_task=6, accuracy=(0.6, 0.8), seed=4)
    first = answers.take(np.flatnonzero(answers.worker == 0))
    for copy in (6, 7):
        copied = cw.Answers.from_arrays(first.task, first.worker + copy, first.label)
        answers = answers.merge(copied)
    return answers.take(np.flatnonzero(np.random.default_rng(0).random(answers.n_answers) < 0.9))


def counted(answers, dropped, weight):
    """Count the votes task by task; `weight` gives the total weight of n answers by the copies."""
    label = np.zeros((answers.n_tasks, answers.n_classes))
    for t in range(answers.n_tasks):
        own = slice(answers.task_starts[t], answers.task_starts[t + 1])
        pairs = [pair for pair in zip(answers.worker[own], answers.label[own], strict=True) if pair[0] not in dropped]
        copies = [label for worker, label in pairs if worker in (0, 6, 7)]
        votes = np.zeros(answers.n_classes)
        for worker, said in pairs:
            votes[said] += weight(len(copies)) / len(copies) if worker in (0, 6, 7) else 1
        label[t] = np.isclose(votes, votes.max())
    return label / label.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dropped", [[], [6], [0, 7], [2, 6]])
def test_labels_equal_those_counted_by_hand(crowd, dropped):
    found = dependence(crowd, families={0: "x", 6: "x", 7: "x"})
    vote = PanelVote(crowd, found, named=True)
    excess = found.families[0].excess
    assert excess > 0.9

    def votes(n):
        return n / (1 + (n - 1) * excess)

    expected = counted(crowd, dropped, votes)
    np.testing.assert_allclose(vote.labels(dropped), expected)
    changed = np.mean([1 - np.minimum(*pair).sum() for pair in zip(expected, counted(crowd, [], votes), strict=True)])
    assert vote.removal(dropped).changed == pytest.approx(changed)


def test_a_family_that_was_found_and_shares_few_mistakes_keeps_its_votes(crowd):
    found = dependence(crowd, families=dict.fromkeys([1, 2, 3], "independent"))
    np.testing.assert_allclose(PanelVote(crowd, found).weights([]), 1)


def test_without_gold_the_bound_is_the_share_of_changed_labels(crowd):
    vote = PanelVote(crowd, dependence(crowd), named=True)
    found = find_droppable(vote, 0.03)
    assert {6, 7, 0} & set(found.workers) and 0 < found.changed <= 0.03
    assert (found.low, found.high, found.gain) == (-found.changed, found.changed, None)
    codes = list(found.workers)
    assert all(vote.removal([*codes, other]).changed > 0.03 for other in range(8) if other not in codes)


def test_gold_bounds_the_loss_in_nearly_all_crowds():
    missed, n_dropped = 0, []
    for seed in range(20):
        answers = cw.simulate.simulate(300, n_workers=7, n_classes=2, answers_per_task=7, difficulty=0.2, seed=seed)
        drawn = np.random.default_rng(seed).choice(300, 150, replace=False)
        estimates = estimate(answers, {int(t): int(answers.truth[t]) for t in drawn})
        vote = PanelVote(answers, dependence(answers), estimates)
        found = find_droppable(vote, 0.04)
        if found is None:
            continue
        right = np.arange(300), answers.truth
        lost = (vote.label[right] - vote.labels(list(found.workers))[right]).mean()
        missed += lost > 0.04
        n_dropped.append(len(found.workers))
    assert missed <= 1 and sum(n_dropped) >= 10
