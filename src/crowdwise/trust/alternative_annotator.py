"""May this worker, for example a language model, replace a person? The alternative annotator test.

Calderon, Reichart and Dror, "The alternative annotator test for LLM-as-a-judge: how to statistically justify replacing
human annotators with LLMs" (ACL 2025). Leave one person j out, and ask who agrees better with the others: j, or the
candidate f. For each task i that j, f and at least one more person answered:

    score(x, i, j)   share of the people other than j who gave the same answer to i as x           x = f or j
    W_f[i, j]        [score(f, i, j) >= score(j, i, j)]          W_j[i, j]  the reverse; both are 1 for equal scores
    rho_f[j], rho[j] means of W_f and W_j over tasks: the advantage probabilities

    H0[j]: rho_f[j] <= rho[j] - epsilon      rejected by a one-sided t test of d[i] = W_j[i, j] - W_f[i, j] < epsilon,
                                             or Wilcoxon's signed-rank test with fewer than `T_TEST_TASKS` tasks
    winning rate                             share of people j whose H0 is rejected, with the false discovery rate
                                             controlled under any dependence (Benjamini and Yekutieli, 2001)
    average advantage probability            mean of rho_f[j] over people: compares candidates with each other

The candidate passes if the winning rate is at least .5. `epsilon` is what the candidate may fall behind because it is
cheaper: the authors advise .2 for experts, .15 for trained people and .1 for crowd workers, less if people agree
little. Passing means that it represents these people as well as one of them does, not that it is right: if people
share a mistake, a candidate that shares it passes. Use three people or more; with two, there is no consensus.

Time and memory grow with the number of answers, and with tasks x classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp, wilcoxon

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers, as_answers
from crowdwise.errors import EmptyError, ParameterError, UnknownIdError

Array = np.ndarray[Any, np.dtype[Any]]

T_TEST_TASKS = 30  # fewer tasks are tested with Wilcoxon's test


@dataclass(frozen=True)
class PersonComparison:
    """The candidate compared with one person.

    `advantage` is the probability that the candidate agrees with the others at least as well as this person does,
    `person_advantage` the reverse. `wins` says whether the hypothesis that the candidate is worse was rejected.
    """

    person: Any
    n_tasks: int
    advantage: float
    person_advantage: float
    p_value: float
    wins: bool


@dataclass(frozen=True)
class AlternativeAnnotatorTest:
    """Result of the alternative annotator test.

    Attributes
    ----------
    candidate : id
        The worker who might replace people.
    passed : bool
        Whether the winning rate is at least `threshold`.
    winning_rate : float
        Share of people whom the candidate may replace.
    advantage : float
        Average advantage probability.
    comparisons : tuple of PersonComparison
        One per person tested.
    excluded : tuple
        People with too few tasks.
    epsilon, alpha, threshold : float
        The parameters of the test.
    """

    candidate: Any
    passed: bool
    winning_rate: float
    advantage: float
    comparisons: tuple[PersonComparison, ...]
    excluded: tuple[Any, ...]
    epsilon: float
    alpha: float
    threshold: float

    def __str__(self) -> str:
        verdict = "may replace" if self.passed else "has not been shown to replace"
        wins = sum(each.wins for each in self.comparisons)
        return (
            f"{self.candidate} {verdict} a person (epsilon {self.epsilon:g}): it wins against {wins} of "
            f"{len(self.comparisons)} people, average advantage probability {self.advantage:.2f}"
        )


def alternative_annotator_test(
    answers: Any,
    candidate: Any,
    people: Iterable[Any] | None = None,
    *,
    epsilon: float = 0.1,
    alpha: float = 0.05,
    threshold: float = 0.5,
    min_tasks: int = 10,
) -> AlternativeAnnotatorTest:
    """Test whether a candidate, such as a language model, may replace a human worker.

    Parameters
    ----------
    answers : Answers or data frame
        Answers of the candidate and of people to the same tasks. No gold is needed.
    candidate : worker id
        The worker who might replace a person.
    people : worker ids, optional
        The people to compare with; all other workers by default. List them if there are other models among them.
    epsilon : float
        How much smaller the candidate's advantage probability may be, 0 to 1: .2 for experts, .15 for trained people,
        .1 for crowd workers.
    alpha : float
        False discovery rate of the tests.
    threshold : float
        Winning rate needed to pass.
    min_tasks : int
        People with fewer tasks in common with the candidate and another person are excluded. The authors advise 50 to
        100 tasks for each person.

    Examples
    --------
    >>> from crowdwise import simulate
    >>> answers = simulate.simulate(200, n_workers=5, n_classes=3, answers_per_task=5, accuracy=(0.7, 0.9), seed=1)
    >>> print(alternative_annotator_test(answers, 1))
    1 may replace a person (epsilon 0.1): it wins against 4 of 4 people, average advantage probability 0.87
    """
    require(is_number(epsilon) and 0 <= epsilon < 1, "epsilon", epsilon, "a number from 0 to less than 1")
    require(is_number(alpha) and 0 < alpha < 1, "alpha", alpha, "a number between 0 and 1")
    require(is_number(threshold) and 0 < threshold <= 1, "threshold", threshold, "a number above 0, up to 1")
    require(is_integer(min_tasks, 5), "min_tasks", min_tasks, "an integer, 5 or more")
    answers = as_answers(answers)
    ids = answers.worker_ids.to_pylist()
    code = {worker: number for number, worker in enumerate(ids)}
    chosen = [worker for worker in ids if worker != candidate] if people is None else list(people)
    unknown = next((worker for worker in [candidate, *chosen] if worker not in code), None)
    if unknown is not None:
        message = f"no worker {unknown!r} in these answers."
        raise UnknownIdError(message)
    if candidate in chosen or len(set(chosen)) != len(chosen) or len(chosen) < 2:
        message = f"people must be two or more different workers other than the candidate {candidate!r}."
        raise ParameterError(message)

    worker, difference, ahead, behind = _compare(answers, code[candidate], np.array([code[each] for each in chosen]))
    order = np.argsort(worker, kind="stable")
    starts = np.searchsorted(worker[order], np.arange(len(ids) + 1))
    parts = {each: order[starts[code[each]] : starts[code[each] + 1]] for each in chosen}
    tested = [each for each in chosen if len(parts[each]) >= min_tasks]
    if not tested:
        message = (
            f"no person has {min_tasks} tasks that the candidate {candidate!r} and at least one more person answered. "
            f"Collect more answers to the same tasks."
        )
        raise EmptyError(message)
    p = np.array([_p_value(difference[parts[each]], epsilon) for each in tested])
    wins = benjamini_yekutieli(p, alpha)
    comparisons = tuple(
        PersonComparison(
            each, len(parts[each]), float(ahead[parts[each]].mean()), float(behind[parts[each]].mean()),
            float(p[number]), bool(wins[number]),
        )
        for number, each in enumerate(tested)
    )  # fmt: skip
    rate = float(wins.mean())
    return AlternativeAnnotatorTest(
        candidate, rate >= threshold, rate, float(np.mean([each.advantage for each in comparisons])), comparisons,
        tuple(each for each in chosen if len(parts[each]) < min_tasks), epsilon, alpha, threshold,
    )  # fmt: skip


def benjamini_yekutieli(p: Array, alpha: float) -> Array:
    """Return which hypotheses are rejected, with false discovery rate `alpha` under any dependence.

    >>> benjamini_yekutieli(np.array([0.001, 0.2, 0.012]), 0.05).tolist()
    [True, False, True]
    """
    m = len(p)
    order = np.argsort(p, kind="stable")
    limits = alpha * np.arange(1, m + 1) / (m * np.sum(1 / np.arange(1, m + 1)))
    below = np.flatnonzero(p[order] <= limits)
    rejected = np.zeros(m, bool)
    rejected[order[: below[-1] + 1 if len(below) else 0]] = True
    return rejected


def _compare(answers: Answers, candidate: int, people: Array) -> tuple[Array, Array, Array, Array]:
    """Return person, d, W_f and W_j for each person's answer that can be compared, (comparisons,) each."""
    k = answers.n_classes
    answer_of_candidate = np.full(answers.n_tasks, -1, np.int64)
    own = answers.worker == candidate
    answer_of_candidate[answers.task[own]] = answers.label[own]
    rows = np.flatnonzero(np.isin(answers.worker, people) & (answer_of_candidate[answers.task] >= 0))
    task, label = answers.task[rows].astype(np.int64), answers.label[rows]
    votes = np.bincount(task * k + label, minlength=answers.n_tasks * k).reshape(-1, k)  # (tasks, classes)
    has_others = votes.sum(axis=1)[task] >= 2
    rows, task, label = rows[has_others], task[has_others], label[has_others]
    said = answer_of_candidate[task]
    candidate_score = votes[task, said] - (said == label)  # the person who is left out does not count
    person_score = votes[task, label] - 1
    ahead, behind = candidate_score >= person_score, person_score >= candidate_score
    return answers.worker[rows], behind.astype(float) - ahead, ahead, behind


def _p_value(d: Array, epsilon: float) -> float:
    """Return the one-sided p value of the hypothesis that the mean of d is at least epsilon."""
    if np.ptp(d) == 0:  # no variance: both tests are undefined
        return 0.0 if d[0] < epsilon else 1.0
    if len(d) >= T_TEST_TASKS:
        return float(ttest_1samp(d, epsilon, alternative="less").pvalue)
    shifted = d - epsilon
    return float(wilcoxon(shifted[shifted != 0], alternative="less").pvalue) if (shifted != 0).any() else 1.0
