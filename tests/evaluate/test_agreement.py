"""Agreement compared with the `krippendorff` package, brute force over pairs, and published values."""

from __future__ import annotations

import itertools

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise import Answers, simulate
from crowdwise.evaluate import consistency, fleiss_kappa, krippendorff_alpha, pairwise_agreement, uncertainty

tables = st.integers(1, 8).flatmap(
    lambda workers: st.lists(
        st.lists(st.integers(-1, 3), min_size=workers, max_size=workers), min_size=1, max_size=12
    ).filter(lambda rows: any(cell >= 0 for row in rows for cell in row))
)


def wide(rows) -> Answers:
    return Answers.from_wide(np.array(rows), missing=-1, classes=[0, 1, 2, 3])


@given(tables)
@settings(max_examples=150, deadline=None)
def test_alpha_and_pairwise_agreement_match_their_definitions(rows):
    answers = wide(rows)
    pairs = [a == b for row in rows for a, b in itertools.permutations([c for c in row if c >= 0], 2)]
    if not pairs:
        assert pairwise_agreement(answers) is None
        assert krippendorff_alpha(answers) is None
        return
    assert pairwise_agreement(answers) == pytest.approx(np.mean(pairs), abs=1e-15)
    table = np.array(rows, dtype=float).T
    table[table < 0] = np.nan
    paired = table[:, (~np.isnan(table)).sum(axis=0) > 1]
    if len(np.unique(paired[~np.isnan(paired)])) < 2:  # the package raises an error; here perfect agreement is 1
        assert krippendorff_alpha(answers) == 1.0
        return
    expected = krippendorff.alpha(table, level_of_measurement="nominal", value_domain=[0, 1, 2, 3])
    assert krippendorff_alpha(answers) == pytest.approx(expected, abs=1e-10)


@given(tables, st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_agreement_is_invariant_to_ids_and_order(rows, seed):
    rng = np.random.default_rng(seed)
    rows = np.array(rows)
    shuffled = rows[rng.permutation(len(rows))][:, rng.permutation(rows.shape[1])]
    renamed = np.append(rng.permutation(4), -1)[shuffled]
    for measure in (krippendorff_alpha, pairwise_agreement, fleiss_kappa):
        assert measure(wide(renamed)) == pytest.approx(measure(wide(rows)), abs=1e-12)


# The worked examples of Wikipedia's articles on Krippendorff's alpha (nominal: 0.691) and Fleiss' kappa (0.210).
CODERS = ("*****34121133*3", "1*213343*******", "**21344*21133*4")
VOTES = (
    (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
)  # fmt: skip


def test_alpha_matches_a_published_example():
    table = np.array([list(coder) for coder in CODERS]).T  # units x coders
    assert krippendorff_alpha(Answers.from_wide(table, missing="*", as_classes=True)) == pytest.approx(0.691, abs=5e-4)


def test_kappa_matches_a_published_example():
    rows = [np.repeat(np.arange(5), votes) for votes in VOTES]
    assert fleiss_kappa(Answers.from_wide(rows)) == pytest.approx(0.210, abs=5e-4)


def test_kappa_is_defined_only_for_equal_numbers_of_answers():
    assert fleiss_kappa(wide([[0, 1, -1], [0, 0, 0]])) is None
    assert fleiss_kappa(wide([[0, -1], [1, -1]])) is None
    assert fleiss_kappa(wide([[0, 0], [-1, -1]])) == 1.0  # tasks without answers are ignored
    assert fleiss_kappa(wide([[0, 1], [1, 0]])) == pytest.approx(-1.0)


def test_agreement_without_answers_is_undefined():
    empty = Answers.from_codes(*(np.empty(0, np.int32),) * 3, tasks=2, workers=1, classes=2)
    for measure in (krippendorff_alpha, pairwise_agreement, fleiss_kappa):
        assert measure(empty) is None


def test_alpha_is_zero_for_guesses_and_one_for_perfect_workers():
    options = {"n_classes": 3, "answers_per_task": 3, "class_balance": 5}
    guesses = simulate.simulate(20_000, workers="uniform-guess", **options)
    assert krippendorff_alpha(guesses) == pytest.approx(0, abs=0.02)
    assert krippendorff_alpha(simulate.simulate(500, workers="hammer", **options)) == 1.0


# crowd-kit's consistency and uncertainty, computed with products and loops


def answer_probability(label, c, skill, n_classes):
    return skill if label == c else (1 - skill) / (n_classes - 1)


def test_consistency_is_the_posterior_of_the_label():
    answers = simulate.simulate(30, n_workers=6, n_classes=3, answers_per_task=3.5)
    skill = np.linspace(0.2, 0.9, 6)
    result = consistency(answers, answers.truth, skill)
    for t in range(30):
        rows = np.flatnonzero(answers.task == t)
        scores = [
            np.prod([answer_probability(answers.label[a], c, skill[answers.worker[a]], 3) for a in rows])
            for c in range(3)
        ]
        assert result[t] == pytest.approx(scores[answers.truth[t]] / sum(scores))


def test_consistency_handles_accuracy_one_and_many_answers():
    rows = [[0, 1] + [-1] * 1498, [0] * 1500]
    skill = np.append([1.0, 1.0], np.full(1498, 0.6))
    assert consistency(wide(rows), np.array([0, 0]), skill).tolist() == [0.0, 1.0]


def test_uncertainty_is_the_entropy_of_weighted_votes():
    answers = simulate.simulate(30, n_workers=6, n_classes=3, answers_per_task=3.5)
    skill = np.linspace(0.2, 0.9, 6)
    for by in ("task", "worker"):
        group = getattr(answers, by)
        for g, result in enumerate(uncertainty(answers, skill, by)):
            rows = np.flatnonzero(group == g)
            votes = [
                sum(answer_probability(answers.label[a], c, skill[answers.worker[a]], 3) for a in rows)
                for c in range(3)
            ]
            shares = np.array(votes) / sum(votes)
            assert result == pytest.approx(-(shares * np.log(shares)).sum())


def test_task_without_answers_has_maximal_uncertainty():
    answers = wide([[0, 0], [-1, -1]])
    np.testing.assert_allclose(uncertainty(answers), [0, np.log(4)])
    np.testing.assert_allclose(consistency(answers, np.array([0, 0]), np.full(2, 0.7))[1], 0.25)


def test_alpha_matches_the_package_on_a_large_sparse_crowd():
    answers = simulate.simulate(3000, n_workers=25, n_classes=6, answers_per_task=2.5, class_balance="long-tail")
    table = np.full((answers.n_workers, answers.n_tasks), np.nan)
    table[answers.worker, answers.task] = answers.label
    expected = krippendorff.alpha(table, level_of_measurement="nominal")
    assert krippendorff_alpha(answers) == pytest.approx(expected, abs=1e-10)
