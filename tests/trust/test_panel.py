"""A panel: accuracies, agreement, families, abstentions, people."""

from dataclasses import replace

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import EmptyError, UnknownIdError
from crowdwise.trust import alternative_annotator_test, estimate, panel

N_GOLD = 200


@pytest.fixture(scope="module")
def crowd():
    """Seven independent judges of 400 tasks, and two copies of the first with a few changed answers."""
    answers = cw.simulate.simulate(400, n_workers=7, n_classes=3, answers_per_task=6, accuracy=(0.5, 0.9), seed=4)
    first = answers.take(np.flatnonzero(answers.worker == 0))
    for copy in (7, 8):
        label = np.where(np.arange(first.n_answers) % 20 == copy, 0, first.label)
        answers = answers.merge(cw.Answers.from_arrays(first.task, first.worker + copy, label))
    return replace(answers, abstentions={3: 11, 99: 4})


@pytest.fixture(scope="module")
def gold(crowd):
    drawn = np.random.default_rng(1).choice(400, N_GOLD, replace=False)
    return {int(t): int(crowd.truth[t]) for t in drawn}


@pytest.fixture(scope="module")
def measured(crowd, gold):
    return panel(crowd, gold)


def test_accuracies_and_shares_lie_in_their_intervals(crowd, measured):
    right = crowd.label == crowd.truth[crowd.task]
    true = np.bincount(crowd.worker, right) / np.bincount(crowd.worker)
    found = {each.worker: each.accuracy for each in measured.members if each.accuracy is not None}
    assert len(found) == 9 and measured.n_gold == N_GOLD
    assert sum(each.low <= true[worker] <= each.high for worker, each in found.items()) >= 8
    assert [each.accuracy.value for each in measured.members[:9]] == sorted(x.value for x in found.values())[::-1]
    share = np.bincount(crowd.truth) / 400
    assert all(part.low <= share[c] <= part.high for c, part in measured.estimates.shares.items())


def test_agreement_is_that_with_the_vote_of_the_others(crowd, measured):
    for each in measured.members[:9]:
        own = np.flatnonzero(crowd.worker == each.worker)
        agrees = []
        for t, said in zip(crowd.task[own], crowd.label[own], strict=True):
            others = crowd.label[(crowd.task == t) & (crowd.worker != each.worker)]
            votes = np.bincount(others, minlength=3)
            agrees.append((votes == votes.max())[said] / (votes == votes.max()).sum())
        assert each.agreement == pytest.approx(np.mean(agrees))


def test_families_are_named_and_copies_can_be_dropped(crowd, measured):
    family = {each.worker: each.family for each in measured.members}
    assert {worker for worker, name in family.items() if name == "F1"} == {0, 7, 8}
    assert set(measured.droppable.workers) & {0, 7, 8}
    given = panel(crowd, families={0: "fox", 7: "fox", 1: "owl"})
    family = {each.worker: each.family for each in given.members}
    assert (family[0], family[7], family[1], family[8]) == ("fox", "fox", "owl", None)
    assert [each.workers.tolist() for each in given.dependence.families] == [[0, 7]]


def test_abstentions_are_counted_also_of_those_who_never_answered(measured):
    counted = {each.worker: (each.answers, each.abstentions) for each in measured.members}
    assert counted[3][1] == 11 and counted[99] == (0, 4) and measured.members[-1].worker == 99
    table = measured.to_arrow()
    assert table.num_rows == 10 and table.column("accuracy").null_count == 1
    assert sum(table.column("drop").to_pylist()) == len(measured.droppable.workers)


def test_people_are_the_reference_of_every_judge(crowd):
    found = panel(crowd.with_truth(None), people=[1, 2, 3], epsilon=0.2)
    assert {each.candidate for each in found.tests} == {0, 4, 5, 6, 7, 8}
    expected = alternative_annotator_test(crowd, 5, [1, 2, 3], epsilon=0.2)
    assert next(each for each in found.tests if each.candidate == 5) == expected
    with pytest.raises(UnknownIdError, match="no worker 'nobody'"):
        panel(crowd, people=["nobody", 1])


def test_without_gold_nothing_is_measured(crowd):
    found = panel(crowd.with_truth(None))
    assert found.estimates is None and found.n_gold == 0
    assert all(each.accuracy is None for each in found.members)
    few = panel(crowd, {0: 1, 1: 0})
    assert few.estimates is None and "2 gold labels are too few" in few.notes[0]


def test_known_labels_of_the_answers_are_the_default(crowd):
    found = panel(crowd)
    assert found.n_gold == 400
    exact = estimate(crowd.with_truth(None), crowd.truth, population="source").workers[5]
    value = {each.worker: each.accuracy for each in found.members}[5]
    assert (value.low, value.high) == pytest.approx((exact.low, exact.high), abs=0.005)
    own = crowd.worker == 5
    assert value.value == pytest.approx((crowd.label == crowd.truth[crowd.task])[own].mean())


def test_bad_input(crowd):
    with pytest.raises(EmptyError):
        panel(crowd.take(np.array([], dtype=int)))
    with pytest.raises(ValueError, match="tolerance"):
        panel(crowd, tolerance=1.5)


def test_workers_who_never_disagree_are_not_called_one_vote():
    task, worker = np.repeat(np.arange(30), 4), np.tile(np.arange(4), 30)
    found = panel(cw.Answers.from_arrays(task, worker, task % 2))
    assert found.dependence is None and found.droppable is None
    assert "all answers to a task agree" in found.notes[0] and "worth" in found.notes[0]
    named = panel(cw.Answers.from_arrays(task, worker, task % 2), families={0: "a", 1: "a"})
    assert [each.family for each in named.members] == ["a", "a", None, None]


def test_a_notebook_shows_the_workers_with_their_intervals():
    answers = cw.simulate.simulate(100, n_workers=4, n_classes=2, answers_per_task=4, seed=1)
    found = cw.trust.panel(answers)
    page, table = found._repr_html_(), found.to_pandas()
    assert page.count("<tr>") == 5 and "independent votes" in page and repr(found) == str(found)
    best = found.members[0]
    assert f"{best.accuracy.low:.1%} to {best.accuracy.high:.1%}" in page
    assert table["worker"].tolist() == [each.worker for each in found.members] == found.to_polars()["worker"].to_list()
