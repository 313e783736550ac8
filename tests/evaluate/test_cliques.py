"""Groups of workers who agree more often than their accuracy explains."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.evaluate import alike
from crowdwise.evaluate.cliques import MIN_COMMON_TASKS, count_worker_pairs, estimate_skills


def independent(seed, n_tasks=400, n_workers=10, n_classes=4, **options):
    options = {"workers": "one-coin", "answers_per_task": 6, **options}
    return cw.simulate.simulate(n_tasks, n_workers=n_workers, n_classes=n_classes, seed=seed, **options)


def with_clique(seed, copies=3, faithful=0.95):
    """Ten independent workers, and a few more who mostly repeat the same opinion."""
    rng, answers = np.random.default_rng(seed), independent(seed)
    correct = rng.random(answers.n_tasks) < 0.6
    opinion = np.where(correct, answers.truth, rng.integers(0, 4, answers.n_tasks))
    task = np.repeat(np.arange(answers.n_tasks), copies)
    worker = np.tile(100 + np.arange(copies), answers.n_tasks)
    label = np.where(rng.random(len(task)) < faithful, opinion[task], rng.integers(0, 4, len(task)))
    return answers.merge(cw.Answers.from_arrays(task, worker, label, classes=answers.classes))


@pytest.mark.parametrize("seed", range(5))
def test_only_the_copying_workers_are_found(seed):
    (group,) = alike(with_clique(seed))
    assert group.workers.tolist() == [100, 101, 102]
    assert group.agreement > group.expected + 0.1


def test_independent_workers_are_not_reported():
    """Of every kind except spammers of one label, who do agree suspiciously."""
    kinds = ({}, {"workers": "class-dependent"}, {"n_classes": 2}, {"class_balance": 8}, {"workers": "uniform-guess"})
    for options in kinds:
        for seed in range(6):
            assert alike(independent(seed, **options)) == [], (options, seed)


def test_spammers_of_one_label_are_a_group():
    answers = independent(0)
    lazy = cw.Answers.from_arrays(
        np.tile(np.arange(200), 2), np.repeat([50, 51], 200), [1] * 400, classes=answers.classes
    )
    assert [group.workers.tolist() for group in alike(answers.merge(lazy))] == [[50, 51]]


def test_groups_are_invariant_to_ids_and_order():
    answers = with_clique(1)
    table = answers.to_arrow().take(np.random.default_rng(0).permutation(answers.n_answers))
    table = table.set_column(1, "worker", [[f"w{worker}" for worker in table.column("worker").to_pylist()]])
    (group,) = alike(cw.Answers.from_frame(table))
    assert sorted(group.workers.tolist()) == ["w100", "w101", "w102"]


def test_worker_pairs_match_enumeration(monkeypatch):
    answers = independent(3, n_tasks=30, n_workers=5, answers_per_task=3)
    i, j, both, same = count_worker_pairs(answers, np.random.default_rng(0))
    labels = {(t, w): label for t, w, label in zip(answers.task, answers.worker, answers.label, strict=True)}
    for one, other, n, n_same in zip(i, j, both, same, strict=True):
        shared = [t for t in range(30) if (t, one) in labels and (t, other) in labels]
        assert n == len(shared) and n_same == sum(labels[t, one] == labels[t, other] for t in shared)
    assert both.sum() == sum(c * (c - 1) // 2 for c in np.bincount(answers.task))
    monkeypatch.setattr("crowdwise.evaluate.cliques.MAX_PAIRS", 40)
    assert count_worker_pairs(answers, np.random.default_rng(0))[2].sum() < both.sum()


def test_skills_are_recovered_from_pairwise_agreement():
    true = np.linspace(0.4, 0.95, 12)
    i, j = np.triu_indices(12, 1)
    beyond = true[i] * true[j]
    estimated = estimate_skills(i, j, np.full(len(i), 100), beyond, 12)
    np.testing.assert_allclose(estimated, true, atol=0.06)
    beyond[(i < 3) & (j < 3)] = 1.0  # three copies do not make themselves look more skilled
    np.testing.assert_allclose(estimate_skills(i, j, np.full(len(i), 100), beyond, 12), true, atol=0.12)


def test_too_few_common_tasks_give_no_groups():
    copies = with_clique(0)
    few = copies[np.arange(MIN_COMMON_TASKS - 1)]
    assert alike(few) == []
    assert alike(cw.Answers.from_arrays([1, 2], ["a", "a"], ["x", "y"])) == []
