"""Workers who copy one another."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.run.tables.copies import identical_workers


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
