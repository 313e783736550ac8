"""Behaviour that every registered truth method must have: the checks of `crowdwise.testing`, and a few of our own."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.testing import Subject, truth_checks
from crowdwise.testing.subject import votes
from crowdwise.truth.kernels.threads import use_threads
from tests.helpers.every_method import TRUTH

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")


@pytest.mark.parametrize("name", TRUTH)
@pytest.mark.parametrize("check", truth_checks.CHECKS, ids=lambda check: check.__name__)
def test_check(check, name):
    check(Subject(name))


@pytest.mark.parametrize("name", TRUTH)
def test_result_does_not_depend_on_the_number_of_threads(name):
    subject, answers = Subject(name), votes(n_tasks=400).answers()
    with use_threads(1):
        one = subject.fit(answers)
    with use_threads(3):
        np.testing.assert_array_equal(one.proba_, subject.fit(answers).proba_)


@pytest.mark.parametrize("name", ["dawid-skene", "ibcc"])
def test_continued_partial_fit_may_end_in_another_optimum(name):
    """On this crowd; `restart=True` gives the result of a fit."""
    answers = cw.simulate.simulate(300, n_workers=15, n_classes=4, answers_per_task=3, seed=4).with_truth(None)
    continued = cw.make(name).fit(answers[:150]).partial_fit(answers[150:])
    assert np.abs(continued.proba_ - cw.make(name).fit(answers).proba_).max() > 0.5
