"""Answers in which workers who repeat each other count as the independent votes that they are worth.

    copies    identical answers are one answer: a group of copies becomes one worker (`trust.copies`)
    families  the answers of a family to a task count as n / (1 + (n - 1) excess) of n answers, if the user named the
              family, or its errors correlate by `COPIES` or more

Families that were found and share only some mistakes keep their full weight in the labels: to reduce it made labels of
real crowds worse about as often as better, since judges of one family are often the better ones. The confidence must
not rest on repeated votes, though: a second pool, of `cautious_votes`, gives all families their effective votes, and
a label is believed as much as the lower of the two log odds for it allows (`trust.features`). The calibrator is
trained without this step, so it only ever lowers a confidence (`python -m benchmarks trust`, rows "ten judges").
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crowdwise.answers import Answers
from crowdwise.trust.copies import merge_copies
from crowdwise.trust.shared_errors import COPIES, Dependence, family_weights
from crowdwise.truth.base import Array


def independent_votes(answers: Answers, found: Dependence | None, *, named: bool = False) -> Answers:
    """Return the answers with less weight for workers who repeat each other.

    Parameters
    ----------
    answers : Answers
    found : Dependence or None
        Of these answers; None if it could not be measured. Then nothing changes.
    named : bool
        Whether the user named the families.

    Examples
    --------
    >>> import crowdwise as cw
    >>> answers = cw.simulate.simulate(200, n_workers=8, n_classes=3, answers_per_task=4, seed=1)
    >>> first = answers.take(np.flatnonzero(answers.worker == 0))
    >>> for copy in (8, 9):
    ...     answers = answers.merge(cw.Answers.from_arrays(first.task, first.worker + copy, first.label))
    >>> independent_votes(answers, cw.trust.dependence(answers)).n_answers
    800
    """
    if found is None or not found.families:
        return answers
    answers = merge_copies(answers, found.copies)
    excess = repeated_excess(found, named=named)
    if not excess.any():
        return answers
    weight = family_weights(answers, found.worker_family, excess)
    return replace(answers, weight=weight if answers.weight is None else weight * answers.weight)


def cautious_votes(answers: Answers, found: Dependence | None) -> Answers | None:
    """Return the answers with every family as its effective votes; None if that changes nothing.

    Weights that the user gave are taken to say how far answers repeat each other already.
    """
    if (
        found is None
        or answers.weight is not None
        or not (repeated_excess(found, named=True) > repeated_excess(found, named=False)).any()
    ):
        return None
    return independent_votes(answers, found, named=True)


def repeated_excess(found: Dependence, *, named: bool) -> Array:
    """Return the excess of each family for `family_weights`, (families,): 0 if its answers keep their full weight.

    Families that were found and share only some mistakes keep it: to reduce it made labels of real crowds worse about
    as often as better. Families that the user `named` and near copies count as their effective votes.
    """
    return np.array([each.excess if named or each.rho >= COPIES else 0.0 for each in found.families])
