"""Checks that every method must pass: run them on your own, as `sklearn.utils.estimator_checks.check_estimator` does.

    from crowdwise.testing import check_method

    def test_my_method():
        check_method(MyMethod())

With one test per check under pytest:

    from crowdwise.testing import Subject, checks

    @pytest.mark.parametrize("check", checks(MyMethod()), ids=lambda check: check.__name__)
    def test_my_method(check):
        check(Subject(MyMethod()))

The tests of crowdwise itself run the same checks on every registered method. They need neither pytest nor real data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseWarning, ParameterError
from crowdwise.learn.adapter import as_model
from crowdwise.testing import learner_checks, truth_checks
from crowdwise.testing.subject import Subject
from crowdwise.truth.base import TruthModel

__all__ = ["Check", "Subject", "check_method", "checks"]

Check = Callable[[Subject], None]


def checks(method: Any) -> list[Check]:
    """Return the checks for a method: those of truth models, or those of learners.

    Parameters
    ----------
    method : str, truth model, learner, or object with their main methods
    """
    model = as_model(method)
    if model.answer_kind != Answers.kind:
        message = f"{model} takes {model.answer_kind}; there are checks for methods that take classes."
        raise ParameterError(message)
    return truth_checks.CHECKS if isinstance(model, TruthModel) else learner_checks.CHECKS


def check_method(method: Any) -> None:
    """Run every check on a method; raise AssertionError that names the first one that fails.

    A learner is fitted about 30 times to 90 tasks: use settings with which that is quick. It must learn easy classes
    with them, so a network needs about 40 epochs.

    Parameters
    ----------
    method : str, truth model, learner, or object with their main methods
        A name, or an unfitted model. It is not changed.

    Examples
    --------
    >>> from crowdwise import Wawa
    >>> check_method(Wawa())
    """
    subject = Subject(method)
    for check in checks(method):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdwiseWarning)
            try:
                check(subject)
            except Exception as error:
                reason = str(error).strip() or type(error).__name__
                message = f"{check.__name__}: {(check.__doc__ or '').strip()}\n{reason}"
                raise AssertionError(message) from error
