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
