"""Correlation of errors against brute force, effective votes by hand, and families that were planted."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import EmptyError, ParameterError, TooLargeError, UnknownIdError
from crowdwise.trust import families as module
from crowdwise.trust.shared_errors import SMOOTHING, dependence, effective_votes, residual_rho


def panel(family, *, n_tasks=600, n_classes=3, seed=0):
    """Workers who are right on 65 to 85 %; members of a family give a shared answer to 80 % of the tasks."""
    rng, family = np.random.default_rng(seed), np.asarray(family)
    truth = rng.integers(n_classes, size=n_tasks)

    def draw():
        right = rng.random(n_tasks) < rng.uniform(0.65, 0.85)
        return np.where(right, truth, (truth + rng.integers(1, n_classes, n_tasks)) % n_classes)

    shared = {f: draw() for f in sorted(set(family.tolist()))}
    labels = [draw() if f < 0 else np.where(rng.random(n_tasks) < 0.8, shared[f], draw()) for f in family.tolist()]
    task, worker = np.nonzero(rng.random((n_tasks, len(family))) < 0.9)
    codes = np.stack(labels, axis=1)[task, worker]
    return cw.Answers.from_codes(
        task, worker, codes, tasks=n_tasks, workers=len(family), classes=n_classes, truth=truth
    )


def groups(found):
    return sorted(family.workers.tolist() for family in found.families)


def test_rho_is_the_one_of_the_definition():
    answers = cw.simulate.simulate(40, n_workers=5, n_classes=3, answers_per_task=4, seed=3)
    q = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    q[:3] = 0.0  # unknown truth
    family = np.array([0, 0, -1, -1, -1])
    count = np.zeros((5, 3, 3))
    for t, w, label in zip(answers.task, answers.worker, answers.label, strict=True):
        count[w, :, label] += q[t]
    crowd = count.sum(axis=0) + 0.1 * np.eye(3) + 0.01
    crowd /= crowd.sum(axis=1, keepdims=True)
    confusion = (count + SMOOTHING * crowd) / (count.sum(axis=2, keepdims=True) + SMOOTHING)
    excess = scale = 0.0
    for t in range(3, 40):
        rows = np.flatnonzero(answers.task == t)
        for a, b in combinations(rows.tolist(), 2):
            i, j = answers.worker[a], answers.worker[b]
            if family[i] == family[j] >= 0:
                continue
            excess += float(answers.label[a] == answers.label[b])
            for c in range(3):
                excess -= q[t, c] * confusion[i, c] @ confusion[j, c]
                scale += q[t, c] * np.sqrt((1 - (confusion[i, c] ** 2).sum()) * (1 - (confusion[j, c] ** 2).sum()))
    assert residual_rho(answers, q, family) == pytest.approx(excess / scale)


def test_effective_votes_by_hand():
    answers = cw.Answers.from_arrays([1, 1, 1, 2, 2, 3], list("abcacb"), list("xxyxyx"), tasks=[1, 2, 3, 4])
    family = np.array([0, 0, -1])  # a and b
    rho, votes = effective_votes(answers, family, np.array([0.7]), 0.1)
    assert rho.tolist() == pytest.approx([0.3, 0.1, 0.0, 0.0])
    assert votes.tolist() == pytest.approx([3 / 1.6, 2 / 1.1, 1.0, 0.0])


@pytest.mark.parametrize("seed", range(3))
def test_planted_families_are_found(seed):
    family = [0, 0, 0, 1, 1, 1, -1, -1, -1, -1, -1]
    found = dependence(panel(family, seed=seed))
    assert groups(found) == [[0, 1, 2], [3, 4, 5]]
    assert all(0.3 < each.rho < 0.9 for each in found.families)  # 0.8 squared, for equal skills
    assert 3 < found.effective_votes.mean() < 9
    table = found.pair_table()
    assert table.column("family").to_pylist()[:6] == [True] * 6
    assert "Family 2" in found.summary()


def test_three_judges_with_shared_errors_do_not_make_the_others_look_alike():
    assert groups(dependence(panel([0, 0, 0, -1, -1, -1, -1, -1], seed=5))) == [[0, 1, 2]]


@pytest.mark.parametrize("seed", range(5))
def test_nobody_is_named_in_an_independent_crowd(seed):
    answers = panel([-1] * 12, n_classes=2 + seed % 3, seed=seed)
    found = dependence(answers)
    assert found.families == () and (found.worker_family == -1).all()
    assert found.background_rho < 0.1
    known = dependence(answers, np.eye(answers.n_classes)[answers.truth])
    assert abs(known.visible_rho) < 0.03


def test_known_truth_shows_errors_that_everybody_shares():
    answers = panel([0] * 6, seed=1)  # one family, nobody else: invisible without the truth
    known = dependence(answers, np.eye(3)[answers.truth])
    assert dependence(answers).families == ()
    assert known.background_rho > 0.4
    assert known.effective_votes.mean() < 2.5


def test_families_may_be_given():
    answers = panel([0, 0, -1, -1, -1, -1], seed=2)
    by_name = dependence(answers, families={0: "gpt", 1: "gpt", 2: "alone"})
    in_order = dependence(answers, families=["gpt", "gpt", "alone", None, None, None])
    assert groups(by_name) == groups(in_order) == [[0, 1]]
    assert by_name.families[0].excess > 0.3
    assert by_name.effective_votes.tolist() == in_order.effective_votes.tolist()
    none = dependence(answers, families={2: "a", 3: "a"})
    assert groups(none) == [[2, 3]] and none.families[0].excess < 0.15  # believed, and found to be independent


def test_nobody_is_named_if_either_half_may_err_together():
    found = dependence(panel([0, 0, 0, -1, -1, -1], n_tasks=400, seed=0))
    assert found.ambiguous and found.families == ()
    assert "do not show which" in found.summary()


def test_order_of_workers_and_classes_does_not_matter():
    family = np.array([0, 0, 0, -1, -1, -1, -1, 1, 1])
    answers = panel(family, seed=4)
    names = np.array(list("ihgfedcba"))
    other = cw.Answers.from_arrays(answers.task, names[answers.worker], np.array(list("zyx"))[answers.label])
    assert sorted(groups(dependence(other))) == [["a", "b"], ["g", "h", "i"]]


def test_small_and_degenerate_crowds():
    few = cw.Answers.from_arrays([1, 1, 2], list("aba"), list("xyx"))
    found = dependence(few)
    assert found.families == () and found.pair_table().num_rows == 0
    assert np.isfinite(found.effective_votes).all()
    task, worker = np.repeat(np.arange(30), 3), np.tile(list("abc"), 30)
    nearly = cw.Answers.from_arrays(task, worker, ["y"] + ["x"] * 89)
    assert dependence(nearly).families == ()


def test_wrong_arguments_are_named(monkeypatch):
    answers = panel([-1] * 4, n_tasks=50)
    with pytest.raises(ParameterError, match=r"shape \(50, 2\)"):
        dependence(answers, np.ones((50, 2)))
    with pytest.raises(ParameterError, match="row 0 of proba"):
        dependence(answers, np.ones((50, 3)))
    with pytest.raises(UnknownIdError, match="'x'"):
        dependence(answers, families={"x": 1})
    with pytest.raises(ParameterError, match="2 names for 4 workers"):
        dependence(answers, families=["a", "b"])
    monkeypatch.setattr(module, "MAX_CELLS", 10)
    with pytest.raises(TooLargeError, match="fewer workers"):
        dependence(answers)


def test_large_crowds_are_sampled(monkeypatch):
    answers = panel([0, 0, 0, -1, -1, -1, -1, -1], n_tasks=1500)
    monkeypatch.setattr(module, "MAX_ANSWER_PAIRS", 12_000)
    found = dependence(answers, seed=1)
    assert found.pair_table().column("common_tasks").to_numpy().max() < 800
    assert groups(found) == [[0, 1, 2]]


def test_weights_of_tasks_count_as_copies_of_them():
    """Gold tasks that stand for two tasks have the weight of two."""
    answers = cw.simulate.simulate(60, n_workers=6, n_classes=2, answers_per_task=5, together=0.5, seed=2)
    twice = np.arange(60) < 20
    again = answers.task[twice[answers.task]]
    rows = np.flatnonzero(twice[answers.task])
    both = cw.Answers.from_arrays(
        np.concatenate([answers.task, again + 60]),
        np.concatenate([answers.worker, answers.worker[rows]]),
        np.concatenate([answers.label, answers.label[rows]]),
    )
    known = np.eye(2)[answers.truth]
    family = np.full(6, -1)
    one = residual_rho(answers, known, family, np.where(twice, 2.0, 1.0) * 60 / 80)
    other = residual_rho(both, np.concatenate([known, known[:20]]), family)
    assert one == pytest.approx(other, abs=0.01)


def test_answers_that_never_differ_show_nothing():
    task, worker = np.repeat(np.arange(30), 4), np.tile(np.arange(4), 30)
    answers = cw.Answers.from_arrays(task, worker, task % 2)
    with pytest.raises(EmptyError, match="all answers to a task agree"):
        dependence(answers)
    gold = np.eye(2)[np.arange(30) % 2]
    with pytest.raises(EmptyError, match="all answers to a task agree"):
        dependence(answers, gold)
    gold[:9] = gold[:9, ::-1]  # all four are wrong together
    assert dependence(answers, gold).background_rho > 0.5
