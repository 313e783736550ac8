"""Folds of held-out answers and their scores, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.choose import choose, scores, temperature
from crowdwise.choose.scores import answer_folds, task_folds
from crowdwise.truth import vote_check
from tests.helpers.choose_candidates import QUICK, Fixed


def uneven(seed=0):
    """Tasks with 0 to 5 answers."""
    per_task = np.random.default_rng(seed).integers(1, 6, 60)
    answers = cw.simulate.simulate(60, n_workers=9, n_classes=3, answers_per_task=per_task, seed=seed)
    return answers.take(np.flatnonzero(answers.task % 10 != 3))  # every tenth task has none


# Folds


@pytest.mark.parametrize("folds", [2, 3, 5, 50])
def test_answers_are_held_out_once_and_every_task_keeps_one(folds):
    answers = uneven()
    per_task = np.diff(answers.task_starts)
    fold = answer_folds(answers, folds, np.random.default_rng(0))
    assert ((fold >= 0) == (per_task[answers.task] > 1)).all()  # only a task's only answer is never held out
    sizes = np.bincount(fold[fold >= 0], minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    for k in range(folds):
        kept = np.bincount(answers.task[fold != k], minlength=answers.n_tasks)
        assert ((kept > 0) == (per_task > 0)).all()


def test_answers_of_tasks_are_held_out_together():
    answers = uneven()
    fold = task_folds(answers, 4, np.random.default_rng(0))
    assert fold.min() == 0
    first = answers.task_starts[:-1][np.diff(answers.task_starts) > 0]
    of_task = fold[first]
    assert (fold == np.repeat(of_task, np.diff(np.append(first, len(fold))))).all()
    assert np.ptp(np.bincount(of_task)) <= 1


@pytest.mark.parametrize("make_folds", [answer_folds, task_folds])
def test_pseudo_answers_are_never_held_out(make_folds):
    answers = uneven()
    pseudo = np.random.default_rng(1).random(answers.n_answers) < 0.3
    answers = replace(answers, pseudo=pseudo)
    fold = make_folds(answers, 3, np.random.default_rng(0))
    assert (fold[pseudo] == -1).all()
    assert (fold[~pseudo] >= 0).any()
    for k in range(3) if make_folds is answer_folds else ():
        assert len(np.unique(answers.task[fold != k])) == len(np.unique(answers.task))


def test_folds_are_drawn_from_the_seed():
    answers = uneven()
    one, same, other = (answer_folds(answers, 3, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()


# Scores


def test_common_likelihood_by_hand(tiny):
    belief = np.random.default_rng(0).dirichlet([1, 1], 8)
    choice = choose(tiny, candidates={"fixed": Fixed(tuple(map(tuple, belief)))}, folds=2)
    fold = answer_folds(tiny, 2, np.random.default_rng([0, 0]))
    expected = np.empty(16)
    for a in range(16):
        counts = np.zeros((2, 2, 2))  # [worker, class, label], by plain loops
        for b in range(16):
            if fold[b] != fold[a]:
                counts[tiny.worker[b], :, tiny.label[b]] += belief[tiny.task[b]]
        pooled = counts.sum(axis=0) + 0.05
        pooled /= pooled.sum(axis=1, keepdims=True)
        own = counts[tiny.worker[a]] + 5 * pooled
        own /= own.sum(axis=1, keepdims=True)
        expected[a] = np.log(belief[tiny.task[a]] @ own[:, tiny.label[a]])
    np.testing.assert_allclose(choice.scores["fixed"], expected, rtol=1e-10)
    entry = choice.entries[1]
    assert entry.log_likelihood == pytest.approx(expected.mean())


def test_own_likelihood_by_hand(tiny):
    says = (((0.8, 0.2), (0.3, 0.7)), ((0.6, 0.4), (0.5, 0.5)))
    choice = choose(tiny, candidates={"fixed": Fixed(((0.9, 0.1),), says)}, criterion="own", folds=2)
    p = np.array([[0.9 * says[w][0][label] + 0.1 * says[w][1][label] for label in range(2)] for w in range(2)])
    np.testing.assert_allclose(choice.scores["fixed"], np.log(p[tiny.worker, tiny.label]), rtol=1e-12)


def test_own_likelihood_of_a_learner_is_that_of_its_answer_proba(featured):
    X, answers = featured
    choice = choose(answers, X, cw.Raykar(max_iter=3, tol=0), criterion="own", folds=2)
    fold = answer_folds(answers, 2, np.random.default_rng([0, 0]))
    for k in range(2):
        model = cw.Raykar(max_iter=3, tol=0).fit(X, answers.take(np.flatnonzero(fold != k)))
        held = np.flatnonzero(fold == k)
        p = model.answer_proba(X)[answers.task[held], answers.worker[held], answers.label[held]]
        np.testing.assert_allclose(choice.scores[choice.entries[1].candidate][np.isin(choice.rows, held)], np.log(p))


def test_tasks_criterion_uses_only_the_classifier(featured):
    """Answers to a held-out task must not affect its prediction: probabilities of all answers sum to one."""
    X, answers = featured
    held = task_folds(answers, 3, np.random.default_rng([0, 0])) == 0
    first = np.append(True, answers.task[1:] != answers.task[:-1])  # of the two answers to each task
    models = {"raykar": cw.Raykar(max_iter=3, tol=0)}
    total, seen = np.zeros(answers.n_tasks), []
    for flip in (first & ~first, first, ~first, first | ~first):
        flipped = replace(answers, label=np.where(held & flip, 1 - answers.label, answers.label).astype(np.int32))
        scores = choose(flipped, X, models, criterion="tasks", folds=3).scores["raykar"]
        total += np.exp(np.bincount(answers.task, scores))
        seen.append(scores[~held])
    np.testing.assert_allclose(total[np.unique(answers.task[held])], 1.0, rtol=1e-9)
    assert (seen[0] != seen[3]).all()


def test_answers_to_a_task_are_scored_together():
    """By hand: log of the sum over truths of belief times the likelihood of the answers, divided equally over them."""
    answers = cw.simulate.simulate(60, n_workers=5, n_classes=3, answers_per_task=3, seed=2)
    answers = replace(answers, weight=np.random.default_rng(0).uniform(0.5, 2, answers.n_answers))
    kept, held = (answers.take(np.flatnonzero((answers.task % 3 > 0) == kept)) for kept in (True, False))
    belief = np.random.default_rng(1).dirichlet(np.ones(3), 60)
    says = vote_check.label_likelihood(kept, held, belief)
    np.testing.assert_allclose(
        vote_check.log_likelihood(kept, held, belief), np.log((says * belief[held.task]).sum(axis=1))
    )
    found = vote_check.log_likelihood_of_tasks(kept, held, belief)
    for task in np.unique(held.task):
        own = held.task == task
        by_hand = np.log((belief[task] * np.prod(says[own] ** held.weight[own, None], axis=0)).sum())
        assert found[own] @ held.weight[own] == pytest.approx(by_hand)
        assert np.ptp(found[own]) == 0


def test_truth_models_are_scored_through_a_classifier_for_new_tasks(featured):
    X, answers = featured
    one = choose(answers, X, {"a": cw.Aggregated("dawid-skene"), "b": "dawid-skene"}, criterion="tasks", folds=2)
    assert np.array_equal(one.scores["a"], one.scores["b"])
    assert isinstance(one.best_model_, cw.Aggregated)


def test_majority_vote_is_scored_by_its_best_reading(crowd):
    """Its score is no worse than that of its shares."""
    choice = choose(crowd, candidates=["naive-soft"])
    vote, shares = choice.entries
    assert vote.log_likelihood >= shares.log_likelihood


def test_scores_are_averaged_over_repeats(tiny):
    twice = choose(tiny, candidates=QUICK, folds=2, repeats=2)
    parts = []
    for repeat in range(2):
        fold = answer_folds(tiny, 2, np.random.default_rng([0, repeat]))
        score = np.empty(16)
        for k in range(2):
            kept, held = tiny.take(np.flatnonzero(fold != k)), tiny.take(np.flatnonzero(fold == k))
            score[fold == k] = cw.truth.vote_check.log_likelihood(kept, held, cw.OneCoin().fit(kept).proba_)
        parts.append(score)
    np.testing.assert_allclose(twice.scores["one-coin"], np.mean(parts, axis=0), rtol=1e-12)


# Work


def many_classes():
    """90 answers of 100 classes by 1,500 workers: 15,000,000 numbers in their confusion matrices."""
    task = np.repeat(np.arange(30), 3)
    return cw.Answers.from_codes(task, np.arange(90), task, tasks=30, workers=1500, classes=100)


def test_huge_confusion_matrices_are_not_fitted():
    choice = choose(many_classes(), candidates=["one-coin", "dawid-skene", "ibcc", "ebcc"], folds=2)
    assert set(choice.scores) == {"majority-vote", "one-coin"}
    for entry in choice.entries[2:]:
        assert "1,500 confusion matrices of 100 classes" in entry.failure


def test_large_confusion_matrices_are_fitted_with_enough_answers(monkeypatch):
    monkeypatch.setattr(scores, "MOST_NUMBERS", 10)
    answers = uneven()  # 9 workers, 3 classes: 81 numbers
    assert "dawid-skene" in choose(answers, candidates="dawid-skene", folds=2).scores
    monkeypatch.setattr(scores, "PER_ANSWER", 0.1)
    assert set(choose(answers, candidates=["dawid-skene", "one-coin"], folds=2).scores) == {"majority-vote", "one-coin"}


def test_with_many_classes_the_vote_has_two_readings(monkeypatch):
    calls = []
    likely = scores.log_likelihood
    monkeypatch.setattr(scores, "log_likelihood", lambda *given: calls.append(1) or likely(*given))
    choose(uneven(), candidates="majority-vote", folds=2)
    assert len(calls) == 2 * (1 + len(scores.SHARPNESS))
    calls.clear()
    monkeypatch.setattr(temperature, "MOST_WORK", 10)
    choose(uneven(), candidates="majority-vote", folds=2)
    assert len(calls) == 2 * 2
