"""Vote shares as soft labels."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.truth.methods.naive_soft import to_shares, vote_sums


@pytest.fixture
def answers():
    return cw.Answers.from_arrays([0, 0, 0, 1, 1], list("abcab"), ["x", "x", "y", "y", "z"], tasks=[0, 1, 2])


def test_proba_holds_vote_shares(answers):
    np.testing.assert_allclose(cw.NaiveSoft().fit(answers).proba_, [[2 / 3, 1 / 3, 0], [0, 1 / 2, 1 / 2], [1 / 3] * 3])


def test_smoothing_adds_votes_to_every_class(answers):
    proba = cw.NaiveSoft(smoothing=0.5).fit(answers).proba_
    votes = answers.counts(dense=True) + 0.5
    np.testing.assert_allclose(proba, votes / votes.sum(axis=1, keepdims=True))


def test_smoothing_makes_two_votes_less_certain_than_twenty():
    task, worker = np.repeat([0, 1], [2, 20]), np.arange(22)
    answers = cw.Answers.from_arrays(task, worker, np.zeros(22, int), classes=[0, 1])
    few, many = cw.NaiveSoft(smoothing=1).fit(answers).proba_[:, 0]
    assert few == pytest.approx(3 / 4)
    assert many == pytest.approx(21 / 22)


def test_weights_and_gold_are_used():
    answers = cw.Answers.from_arrays([0, 0, 1], list("aba"), ["x", "y", "x"], weight=[3.0, 1.0, 2.0])
    model = cw.NaiveSoft().fit(answers, gold={1: "y"})
    np.testing.assert_allclose(model.proba_, [[0.75, 0.25], [0, 1]])


def test_rows_without_weight_fall_back_to_plain_vote_shares(answers):
    score = np.array([0.0, 0.0, 0.0, 2.0, 6.0])
    np.testing.assert_allclose(
        to_shares(answers, vote_sums(answers, score)), [[2 / 3, 1 / 3, 0], [0, 1 / 4, 3 / 4], [1 / 3] * 3]
    )


@pytest.mark.parametrize("smoothing", [-1, np.inf, np.nan])
def test_invalid_parameters_raise(answers, smoothing):
    with pytest.raises(ParameterError, match="smoothing"):
        cw.NaiveSoft(smoothing=smoothing).fit(answers)
