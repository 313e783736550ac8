"""Labels and confidence anchored to gold."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.trust.gold_anchor import anchor, gold_evidence
from crowdwise.trust.gold_folds import MIN_GOLD


def crowd(n_tasks=1200, seed=0):
    """Six workers see every task; four of them say "1" for half of the tasks of class 0, together."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n_tasks)
    lured = (truth == 0) & (rng.random(n_tasks) < 0.5)
    said = np.where(lured[:, None] & (np.arange(6) < 4), 1, truth[:, None])
    said = np.where(rng.random(said.shape) < 0.1, 1 - said, said)
    task, worker = np.indices(said.shape)
    return cw.Answers.from_arrays(task.ravel(), worker.ravel(), said.ravel()), truth


@pytest.fixture(scope="module")
def voted():
    answers, truth = crowd()
    vote = cw.MajorityVote().fit(answers)
    return answers, truth, vote.proba_, vote.codes_


def draw(truth, n, seed=0):
    gold = np.full(len(truth), -1)
    rows = np.random.default_rng(seed).permutation(len(truth))[:n]
    gold[rows] = truth[rows]
    return gold


def test_gold_shows_mistakes_that_answers_cannot(voted):
    answers, truth, proba, codes = voted
    gold = draw(truth, 100)
    found, free = anchor(answers, proba, codes, gold), gold < 0
    before, after = (codes == truth)[free].mean(), (found.codes == truth)[free].mean()
    assert before < 0.82 and after > before + 0.05 and found.changed
    assert abs(found.proba.max(axis=1)[free].mean() - after) < 0.06
    assert (found.codes[~free] == truth[~free]).all() and (found.proba[~free].max(axis=1) == 1).all()


def test_few_gold_labels_change_no_label_but_the_confidence(voted):
    answers, truth, proba, codes = voted
    gold = draw(truth, MIN_GOLD - 1)
    proba = proba**8 / (proba**8).sum(axis=1, keepdims=True)  # far too sure
    found, free = anchor(answers, proba, codes, gold), gold < 0
    assert not found.changed
    np.testing.assert_array_equal(found.codes[free], codes[free])
    assert (found.proba[free, codes[free]] >= found.proba[free].max(axis=1) - 1e-9).all()
    assert found.proba[free].max(axis=1).mean() < proba[free].max(axis=1).mean() - 0.02


def test_gold_that_says_nothing_new_changes_little():
    answers = cw.simulate.simulate(600, n_workers=15, n_classes=3, answers_per_task=6, seed=3)
    pool = cw.Pool().fit(answers)
    gold = draw(answers.truth, 40)
    found, free = anchor(answers, pool.proba_, pool.codes_, gold), gold < 0
    accuracy = [(codes == answers.truth)[free].mean() for codes in (pool.codes_, found.codes)]
    assert accuracy[1] > accuracy[0] - 0.01


def test_the_evidence_of_a_gold_task_does_not_know_its_label(voted):
    answers, truth, proba, _ = voted
    gold = draw(truth, 60)
    row = np.flatnonzero(gold >= 0)[7]
    hidden = gold.copy()
    hidden[row] = -1
    np.testing.assert_allclose(
        gold_evidence(answers, proba, gold)[row], gold_evidence(answers, proba, hidden)[row], atol=1e-12
    )


def test_held_out_predictions_are_on_the_scale_of_other_tasks(voted):
    answers, truth, proba, codes = voted
    gold = draw(truth, 300)
    found = anchor(answers, proba, codes, gold)
    right = (found.held_out_codes == gold[gold >= 0]).mean()
    assert abs(right - (found.codes == truth)[gold < 0].mean()) < 0.06
    assert abs(found.held_out.max(axis=1).mean() - found.proba[gold < 0].max(axis=1).mean()) < 0.04


def test_weights_of_gold_tasks_replace_a_random_sample(voted):
    """Drawing nine in ten of the gold tasks from one class does not shift the class shares if weights say so."""
    answers, truth, proba, codes = voted
    rng = np.random.default_rng(5)
    rows = np.concatenate([rng.permutation(np.flatnonzero(truth == c))[:n] for c, n in ((0, 30), (1, 270))])
    gold = np.full(len(truth), -1)
    gold[rows] = truth[rows]
    weight = np.where(gold[gold >= 0] == 0, 9.0, 1.0)
    free = gold < 0
    plain, weighted = (anchor(answers, proba, codes, gold, w).proba[free, 0].mean() for w in (None, weight))
    share = (truth[free] == 0).mean()
    assert abs(weighted - share) < abs(plain - share)
