"""Workers who copy one another."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.trust.copies import copy_groups, identical_workers


@pytest.mark.parametrize("n_copies", [2, 8])
def test_copies_of_one_worker_are_one_group_and_nobody_else_is_named(n_copies):
    answers = cw.simulate.simulate(300, n_workers=12, n_classes=3, answers_per_task=5, seed=2)
    rows = answers.worker == 3
    for copy in range(n_copies):
        who = np.full(rows.sum(), 12 + copy)
        answers = answers.merge(cw.Answers.from_arrays(answers.task[rows], who, answers.label[rows]))
        rows = answers.worker == 3
    assert [group.tolist() for group in identical_workers(answers)] == [[3, *range(12, 12 + n_copies)]]


def test_independent_workers_and_easy_tasks_give_no_group():
    for seed in range(5):
        answers = cw.simulate.simulate(300, n_workers=15, n_classes=2, answers_per_task=6, seed=seed)
        assert identical_workers(answers) == []
    easy = cw.simulate.simulate(300, n_workers=10, n_classes=3, answers_per_task=5, workers="hammer", seed=0)
    assert identical_workers(easy) == []


def test_a_worker_who_agrees_with_one_copy_on_a_dozen_tasks_hides_no_group():
    rng = np.random.default_rng(0)
    said = rng.integers(0, 3, 100)
    rows = [(t, copy, said[t]) for copy in range(4) for t in range(100) if copy == 3 or t < 80]
    rows += [(t, 4, said[t] if t >= 80 else (said[t] + 1) % 3) for t in range(60, 95)]  # with copy 3 alone: 15 tasks
    rows = [row for row in rows if not (row[1] == 3 and row[0] < 80 and row[0] >= 60)]
    rows += [(t, 5, said[t] if t % 2 else (said[t] + 1) % 3) for t in range(50)]
    task, worker, label = map(list, zip(*rows, strict=True))
    assert [group.tolist() for group in identical_workers(cw.Answers.from_arrays(task, worker, label))] == [
        [0, 1, 2, 3]
    ]


def repeated(rng: np.random.Generator, answer: np.ndarray, truth: np.ndarray, n_copies: int) -> cw.Answers:
    """A crowd of 20 workers, 5 answers per task; `n_copies` give this answer, the others are right in 75 %."""
    shape = (len(truth), 5)
    worker = np.argsort(rng.random((len(truth), 20)), axis=1)[:, :5]  # (tasks, answers)
    wrong = (truth[:, None] + rng.integers(1, 3, shape)) % 3
    said = np.where(worker < n_copies, answer[:, None], np.where(rng.random(shape) < 0.75, truth[:, None], wrong))
    task = np.repeat(np.arange(len(truth)), 5)
    return cw.Answers.from_codes(
        task, worker.ravel(), said.ravel(), tasks=len(truth), workers=20, classes=3, truth=truth
    )


@pytest.mark.parametrize(("n_copies", "kind"), [(10, "copy"), (12, "against")])
def test_copies_do_not_outvote_the_others(n_copies, kind):
    rng = np.random.default_rng(n_copies)
    truth = rng.integers(0, 3, 400)
    answer = np.where(rng.random(400) < 0.7, truth, rng.integers(0, 3, 400)) if kind == "copy" else (truth + 1) % 3
    answers = repeated(rng, answer, truth, n_copies)
    found = cw.trust.dependence(answers)
    assert [family.workers.tolist() for family in found.families] == [list(range(n_copies))]
    assert found.families[0].rho > 0.99
    labels = cw.trust.calibrated(answers)
    right = labels.codes == answers.truth
    vote = cw.MajorityVote().fit(answers).codes_ == answers.truth
    assert right.mean() > max(vote.mean() + 0.02, 0.8)
    assert right[labels.confidence >= 0.9].mean() > 0.93


def test_workers_who_are_always_right_copy_nobody():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, 400)
    answers = repeated(rng, truth, truth, 6)
    assert [group.tolist() for group in identical_workers(answers)] == [[0, 1, 2, 3, 4, 5]]
    assert copy_groups(answers) == []
