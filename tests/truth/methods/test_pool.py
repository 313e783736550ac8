"""The pool of methods."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.truth.methods.pool import METHODS, Pool, logit


@pytest.fixture(scope="module")
def answers():
    return cw.simulate.simulate(120, n_workers=12, n_classes=3, answers_per_task=5, seed=3)


@pytest.fixture(scope="module")
def pool(answers):
    return Pool().fit(answers)


def test_the_pool_is_the_weighted_mean_of_its_methods(answers, pool):
    each = np.array([cw.make(name).fit(answers).proba_ for name in METHODS])
    np.testing.assert_allclose(pool.proba_, np.tensordot(pool.weights_, each, 1), atol=1e-12)
    drift = 0.5 * np.abs(each.mean(axis=1) - each[0].mean(axis=0)).sum(axis=1)  # the first is the vote
    np.testing.assert_allclose(pool.weights_, (1 / (1 + drift / 0.1)) / (1 / (1 + drift / 0.1)).sum())
    chosen = each[:, np.arange(answers.n_tasks), pool.codes_]
    np.testing.assert_allclose(pool.log_odds_, logit(each).mean(axis=0), atol=1e-12)
    np.testing.assert_array_equal(pool.method_agrees_, chosen >= each.max(axis=2) - 1e-9)


def test_gold_is_the_label_whatever_the_answers_say(answers):
    gold = {task: int(2 - label) for task, label in enumerate(Pool().fit(answers).codes_[:10])}
    pool = Pool().fit(answers, gold)
    assert pool.codes_[:10].tolist() == list(gold.values())
    assert (pool.proba_[np.arange(10), list(gold.values())] == 1).all()


def test_names_and_order_of_classes_do_not_matter(answers, pool):
    names = np.array(["z", "m", "a"])
    other = cw.Answers.from_arrays(
        [f"t{t:03d}" for t in answers.task], [f"w{w:02d}" for w in answers.worker], names[answers.label],
        tasks=[f"t{t:03d}" for t in range(answers.n_tasks)], classes=["a", "m", "z"],
    )  # fmt: skip
    renamed = Pool().fit(other)
    np.testing.assert_allclose(renamed.proba_[:, ::-1], pool.proba_, atol=1e-6)


def test_wrong_arguments_are_named(answers):
    with pytest.raises(ParameterError, match="methods="):
        Pool(methods="glad").fit(answers)
    with pytest.raises(ParameterError, match="scale="):
        Pool(scale=0).fit(answers)


def test_a_minority_that_agrees_with_itself_does_not_outvote_the_majority():
    """Eight of 20 always say the next class: a method that believes them takes the other twelve to be always wrong."""
    rng = np.random.default_rng(3)
    truth, worker = rng.integers(0, 3, 300), np.argsort(rng.random((300, 20)), axis=1)[:, :6]
    right = rng.random(worker.shape) < rng.uniform(0.6, 0.95, 20)[worker]
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, worker.shape)) % 3)
    said = np.where(worker < 8, (truth[:, None] + 1) % 3, said)
    answers = cw.Answers.from_arrays(np.repeat(np.arange(300), 6), worker.ravel(), said.ravel())
    pool = cw.Pool().fit(answers)
    assert pool.refitted_.any() and not pool.refitted_.all()
    assert (pool.codes_ == truth).mean() > 0.8


def test_no_method_is_fitted_again_and_nobody_left_out_of_ordinary_crowds():
    for seed in range(3):
        answers = cw.simulate.simulate(200, n_workers=12, n_classes=2 + seed, workers="one-coin", seed=seed)
        pool = cw.Pool().fit(answers)
        assert not pool.refitted_.any() and not pool.left_out_.any()


def crowd_with_constant_workers(n_constant, seed):
    """20 workers of whom some always say class 0; returns the answers, the truth and the others' answers."""
    rng = np.random.default_rng(seed)
    truth, worker = rng.integers(0, 3, 300), np.argsort(rng.random((300, 20)), axis=1)[:, :6]
    right = rng.random(worker.shape) < rng.uniform(0.6, 0.95, 20)[worker]
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, worker.shape)) % 3)
    said = np.where(worker < n_constant, 0, said)
    answers = cw.Answers.from_codes(np.repeat(np.arange(300), 6), worker.ravel(), said.ravel(),
                                    tasks=300, workers=20, classes=3)  # fmt: skip
    return answers, truth, answers.take(np.flatnonzero(answers.worker >= n_constant))


@pytest.mark.parametrize("n_constant", [4, 10, 12])
def test_workers_who_always_say_the_same_do_not_count(n_constant):
    answers, truth, others = crowd_with_constant_workers(n_constant, 1)
    pool = Pool().fit(answers)
    assert np.flatnonzero(pool.left_out_).tolist() == list(range(n_constant))
    np.testing.assert_allclose(pool.proba_, Pool().fit(others).proba_, atol=1e-9)
    right = [(codes == truth).mean() for codes in (pool.codes_, cw.MajorityVote().fit(answers).codes_)]
    assert right[0] > right[1] + 0.02


def test_not_everybody_is_left_out():
    said = np.repeat([0, 1, 2], 20)
    answers = cw.Answers.from_arrays(np.tile(np.arange(20), 3), said, said)
    pool = Pool().fit(answers)
    assert not pool.left_out_.all() and np.isfinite(pool.proba_).all()
