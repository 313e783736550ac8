"""The alternative annotator test against a direct reading of the paper, and on crowds with a known answer."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control, ttest_1samp

import crowdwise as cw
from crowdwise.errors import EmptyError, ParameterError, UnknownIdError
from crowdwise.trust import alternative_annotator_test
from crowdwise.trust.alternative_annotator import benjamini_yekutieli


def panel(accuracies, n_tasks=120, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_tasks)
    rows = [
        (t, f"w{w}", truth[t] if rng.random() < accuracy else rng.integers(3))
        for w, accuracy in enumerate(accuracies)
        for t in range(n_tasks)
        if rng.random() >= missing
    ]
    return cw.Answers.from_arrays(*(list(column) for column in zip(*rows, strict=True)))


def direct(answers, candidate, epsilon, alpha):
    """The paper's definitions, task by task."""
    said = {
        (t, w): label for t, w, label in zip(answers.task, answers.workers[answers.worker], answers.label, strict=True)
    }
    people = [w for w in answers.workers if w != candidate]
    p, advantages = [], []
    for j in people:
        wins, losses = [], []
        for t in range(answers.n_tasks):
            others = [said[t, k] for k in people if k != j and (t, k) in said]
            if (t, j) in said and (t, candidate) in said and others:
                scores = [np.mean([said[t, x] == other for other in others]) for x in (candidate, j)]
                wins.append(scores[0] >= scores[1])
                losses.append(scores[1] >= scores[0])
        difference = np.array(losses, float) - np.array(wins, float)
        p.append(ttest_1samp(difference, epsilon, alternative="less").pvalue)
        advantages.append(np.mean(wins))
    return p, np.mean(advantages), np.mean(false_discovery_control(p, method="by") <= alpha)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_equals_the_definitions(missing):
    answers = panel([0.7, 0.8, 0.6, 0.75, 0.5], missing=missing)
    for candidate in answers.workers:
        found = alternative_annotator_test(answers, candidate, epsilon=0.15)
        p, advantage, rate = direct(answers, candidate, 0.15, 0.05)
        np.testing.assert_allclose([each.p_value for each in found.comparisons], p)
        assert (found.advantage, found.winning_rate) == pytest.approx((advantage, rate))
        assert found.passed == (rate >= 0.5)


def test_good_passes_and_poor_fails():
    answers = panel([0.95, 0.7, 0.7, 0.7, 0.1], n_tasks=200)
    people = ["w1", "w2", "w3"]
    assert alternative_annotator_test(answers, "w0", people).winning_rate == 1
    poor = alternative_annotator_test(answers, "w4", people)
    assert not poor.passed and poor.winning_rate == 0
    assert "has not been shown" in str(poor)


def test_worse_than_everyone_does_not_pass():
    panels = [panel([0.45, 0.7, 0.7, 0.7], seed=seed) for seed in range(30)]
    assert not any(alternative_annotator_test(answers, "w0", epsilon=0.0).passed for answers in panels)


def test_benjamini_yekutieli():
    rng = np.random.default_rng(3)
    for _ in range(50):
        p = rng.random(rng.integers(1, 12)) ** 3
        np.testing.assert_array_equal(benjamini_yekutieli(p, 0.05), false_discovery_control(p, method="by") <= 0.05)


def test_few_tasks():
    answers = panel([0.9, 0.8, 0.8, 0.8], n_tasks=20)
    found = alternative_annotator_test(answers, "w0")
    assert all(0 <= each.p_value <= 1 and each.n_tasks == 20 for each in found.comparisons)
    with pytest.raises(EmptyError, match="30 tasks"):
        alternative_annotator_test(answers, "w0", min_tasks=30)


def test_identical_answers_are_always_at_least_as_good():
    answers = cw.Answers.from_arrays(
        np.repeat(np.arange(40), 4), ["a", "b", "c", "d"] * 40, np.arange(40).repeat(4) % 2
    )
    found = alternative_annotator_test(answers, "a")
    assert found.passed and found.advantage == 1 and found.comparisons[0].p_value == 0


def test_refusals():
    answers = panel([0.9, 0.8, 0.8])
    with pytest.raises(UnknownIdError, match="no worker 'gpt'"):
        alternative_annotator_test(answers, "gpt")
    with pytest.raises(ParameterError, match="two or more different workers"):
        alternative_annotator_test(answers, "w0", ["w1"])
    with pytest.raises(ParameterError, match="epsilon"):
        alternative_annotator_test(answers, "w0", epsilon=1)
