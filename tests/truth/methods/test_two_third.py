"""The two-thirds rule."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError


def votes(*tasks, **options):
    """Answers from one list of labels per task."""
    task = np.repeat(np.arange(len(tasks)), [len(t) for t in tasks])
    worker = np.concatenate([np.arange(len(t)) for t in tasks])
    return cw.Answers.from_arrays(task, worker, [label for t in tasks for label in t], **options)


def test_two_thirds_of_at_least_two_answers_decide():
    answers = votes("aab", "ab", "aa", "a", "aaabb", "aaaabb", tasks=range(7))
    model = cw.TwoThird().fit(answers)
    assert model.decided_.tolist() == [True, False, True, False, False, True, False]


def test_shares_and_labels_are_those_of_the_vote():
    answers = votes("aab", "aaabb", "bbc", tasks=range(4))
    model, vote = cw.TwoThird().fit(answers), cw.MajorityVote().fit(answers)
    np.testing.assert_array_equal(model.proba_, vote.proba_)
    np.testing.assert_array_equal(model.labels_, vote.labels_)
    assert answers[model.decided_].tasks.tolist() == [0, 2]


def test_threshold_and_min_answers_change_the_rule():
    answers = votes("aab", "a", "aaaab")
    assert cw.TwoThird(threshold=0.8).fit(answers).decided_.tolist() == [False, False, True]
    assert cw.TwoThird(min_answers=1).fit(answers).decided_.tolist() == [True, True, True]
    assert cw.TwoThird(min_answers=4).fit(answers).decided_.tolist() == [False, False, True]


def test_gold_tasks_are_decided():
    model = cw.TwoThird().fit(votes("ab", "ab"), gold={1: "b"})
    assert model.decided_.tolist() == [False, True]
    assert model.labels_[1] == "b"


def test_weights_change_shares_but_not_the_number_of_answers():
    answers = votes("aab", "ab", "aa", weight=[1, 1, 2, 9, 1, 1, 0])
    assert cw.TwoThird().fit(answers).decided_.tolist() == [False, True, False]


@pytest.mark.parametrize("parameters", [{"threshold": 0}, {"threshold": 1.1}, {"min_answers": 0}])
def test_invalid_parameters_raise(parameters):
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        cw.TwoThird(**parameters).fit(votes("ab"))
