"""The warning that labels disagree with the answers."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise import simulate
from crowdwise.errors import LabelsWarning
from crowdwise.learn.network.label_check import agreement_with_others, warn_of_poor_labels


def check(answers, codes):
    warn_of_poor_labels("X", answers, codes, np.ones(answers.n_tasks, bool), stacklevel=1)


@pytest.mark.parametrize("per_task", [1, 3])
def test_swapped_classes_are_reported_and_good_labels_are_not(per_task, recwarn):
    answers = simulate.simulate(300, n_classes=3, answers_per_task=per_task, seed=0)
    check(answers, answers.truth)
    check(answers, cw.DawidSkene().fit(answers).codes_)
    assert not recwarn
    with pytest.warns(LabelsWarning, match="Many labels are probably wrong"):
        check(answers, (answers.truth + 1) % 3)


def test_tasks_that_are_not_used_do_not_count(recwarn):
    answers = simulate.simulate(300, n_classes=3, answers_per_task=3, seed=0)
    used = np.arange(300) < 100
    warn_of_poor_labels("X", answers, np.where(used, answers.truth, (answers.truth + 1) % 3), used, stacklevel=1)
    assert not recwarn


def test_the_others_vote_without_the_answer_itself():
    answers = simulate.simulate(40, n_classes=3, answers_per_task=4, seed=2)
    votes = [answers.label[answers.task == t] for t in range(40)]
    expected = []
    for labels in votes:
        for i in range(len(labels)):
            counts = np.bincount(np.delete(labels, i), minlength=3)
            top = np.flatnonzero(counts == counts.max())
            expected.append((labels[i] in top) / len(top))
    np.testing.assert_allclose(agreement_with_others(answers), expected)


def test_a_fit_that_learns_nothing_warns():
    answers = simulate.simulate(200, n_classes=3, answers_per_task=3, seed=0)
    noise = np.random.default_rng(0).normal(size=(200, 3))
    with pytest.warns(LabelsWarning):
        cw.CrowdLayer(epochs=2).fit(noise, answers)
