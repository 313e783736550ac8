import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crowdwise as cw
from crowdwise.errors import ConvergenceWarning, ParameterError, TooLargeError
from crowdwise.truth.base import vote_shares
from crowdwise.truth.methods.dawid_skene import DawidSkene, dense_confusion

# Dawid and Skene (1979), table 1: 45 patients rated 1 to 4 by five anaesthetists, the first of whom rated three times.
# One word per patient: three ratings by the first, then one by each other.
ANAESTHESIA = """
1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223 4444444 2223343 1111111 2223212 1211111
1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 2322222 1111111 1111111 1121121
1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""


def anaesthesia():
    """Build answers directly: `Answers` rejects a worker who rates a task three times, but the model allows it."""
    label = np.array([[int(c) - 1 for c in word] for word in ANAESTHESIA.split()])
    task = np.repeat(np.arange(45), 7).astype(np.int32)
    worker = np.tile([0, 0, 0, 1, 2, 3, 4], 45).astype(np.int32)
    plain = cw.Answers.from_codes(np.arange(5), np.arange(5), np.zeros(5), tasks=45, workers=5, classes=4)
    ids = {"task_ids": plain.task_ids, "worker_ids": plain.worker_ids, "class_ids": plain.class_ids}
    return cw.Answers(task=task, worker=worker, label=label.ravel().astype(np.int32), **ids)


def plain_em(answers, n_iter):
    """EM as printed in the paper, with dense arrays and plain probabilities."""
    counts = np.zeros((answers.n_tasks, answers.n_workers, answers.n_classes))
    np.add.at(counts, (answers.task, answers.worker, answers.label), 1)
    proba = counts.sum(axis=1) / counts.sum(axis=(1, 2))[:, None]
    for _ in range(n_iter):
        confusion = np.einsum("tc,twl->wcl", proba, counts)
        confusion /= confusion.sum(axis=2, keepdims=True)
        prior = proba.mean(axis=0)
        likelihood = np.array([[np.prod(confusion[:, c] ** counts[t]) for c in range(answers.n_classes)]
                               for t in range(answers.n_tasks)])  # fmt: skip
        proba = prior * likelihood
        total = proba.sum(axis=1)
        proba /= total[:, None]
    return proba, prior, confusion, np.log(total).sum()


def test_the_example_of_the_1979_paper():
    answers = anaesthesia()
    model = DawidSkene(prior=None, max_iter=30, tol=0).fit(answers)
    proba, prior, confusion, log_likelihood = plain_em(answers, 30)
    np.testing.assert_allclose(model.proba_, proba, atol=1e-7)
    np.testing.assert_allclose(model.class_prior_, prior, atol=1e-7)
    np.testing.assert_allclose(model.confusion_, confusion, atol=1e-7)
    assert model.history_[-1] == pytest.approx(log_likelihood, abs=1e-6)
    np.testing.assert_array_equal(model.class_prior_.round(2), [0.40, 0.42, 0.11, 0.07])  # as the paper prints


def small_answers(draw_seed, n_classes=3, n_tasks=4, n_workers=3, share=0.8):
    rng = np.random.default_rng(draw_seed)
    cells = np.array(list(itertools.product(range(n_tasks), range(n_workers))))
    cells = cells[rng.random(len(cells)) < share]
    if not len(cells):
        cells = np.array([[0, 0]])
    label = rng.integers(0, n_classes, len(cells))
    weight = rng.uniform(0.1, 2, len(cells)) if rng.random() < 0.5 else None
    return cw.Answers.from_codes(cells[:, 0], cells[:, 1], label, tasks=n_tasks, workers=n_workers, classes=n_classes,
                                 weight=weight)  # fmt: skip


@given(st.integers(0, 10_000), st.sampled_from([1, 2, 3, 4, 5, 9, 17]))
@settings(max_examples=40, deadline=None)
def test_posteriors_and_bound_by_enumeration(seed, n_classes):
    """The likelihood is the sum over every assignment of truths to tasks."""
    answers = small_answers(seed, min(n_classes, 3), n_tasks=3) if n_classes < 4 else small_answers(seed, n_classes)
    model = DawidSkene(prior=0.3, max_iter=7, tol=0).fit(answers)
    k, confusion, prior = answers.n_classes, model.confusion_, model.class_prior_
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight

    def log_joint(t, c):
        mine = answers.task == t
        return np.log(prior[c]) + (weight[mine] * np.log(confusion[answers.worker[mine], c, answers.label[mine]])).sum()

    logs = np.array([[log_joint(t, c) for c in range(k)] for t in range(answers.n_tasks)])
    evidence = np.logaddexp.reduce(logs, axis=1)
    np.testing.assert_allclose(model.proba_, np.exp(logs - evidence[:, None]), atol=1e-9)
    log_prior = 0.3 * np.log(confusion).sum()
    assert model.history_[-1] == pytest.approx(evidence.sum() + log_prior, abs=1e-8)
    if k**answers.n_tasks < 100:
        total = np.logaddexp.reduce(
            [sum(logs[t, c] for t, c in enumerate(truth)) for truth in itertools.product(range(k), repeat=len(logs))]
        )
        assert total == pytest.approx(evidence.sum())


@pytest.mark.parametrize("prior", [None, 0.5, "diagonal", "hierarchical"])
def test_converges_to_a_stationary_point(prior):
    """Moving any worker's matrix a little, within the simplex, does not raise the bound to first order."""
    answers = cw.simulate.simulate(n_tasks=80, n_workers=6, n_classes=3, answers_per_task=4, seed=2)
    model = DawidSkene(prior=prior, max_iter=5000, tol=1e-13).fit(answers)
    confusion, counts = model.confusion_, model.prior_.T

    def bound(confusion):
        logs = np.tile(np.log(model.class_prior_), (answers.n_tasks, 1))
        np.add.at(logs, answers.task, np.log(confusion[answers.worker, :, answers.label]))
        return np.logaddexp.reduce(logs, axis=1).sum() + (counts * np.log(np.maximum(confusion, 1e-300))).sum()

    rng = np.random.default_rng(0)
    top = bound(confusion)
    for _ in range(20):
        other = rng.dirichlet(np.ones(3), size=confusion.shape[:2])
        moved = 0.9999 * confusion + 0.0001 * other
        assert bound(moved) - top < 1e-3 * 0.05  # a slope of at most 0.05 per unit step


def test_recovers_confusion_and_class_prior():
    confusion = 0.6 * np.eye(3) + 0.4 * np.random.default_rng(1).dirichlet(np.ones(3) * 0.7, (20, 3))
    rng = np.random.default_rng(2)
    truth = rng.choice(3, 3000, p=[0.6, 0.3, 0.1])
    task = np.repeat(np.arange(3000), 7)
    worker = np.argsort(rng.random((3000, 20)), axis=1)[:, :7].ravel()
    draw = rng.random(len(task))
    label = (draw[:, None] > confusion[worker, truth[task]].cumsum(axis=1)).sum(axis=1)
    model = DawidSkene().fit(cw.Answers.from_arrays(task, worker, label))
    assert (model.labels_ == truth).mean() > 0.95
    assert np.abs(model.confusion_ - confusion).mean() < 0.03
    np.testing.assert_allclose(model.class_prior_, np.bincount(truth) / 3000, atol=0.02)


def test_each_kind_of_prior_sets_the_pseudo_counts():
    answers = small_answers(5, n_tasks=20, n_workers=5)
    flat = DawidSkene(prior=0.25).fit(answers)
    matrix = DawidSkene(prior=np.full((3, 3), 0.25)).fit(answers)
    np.testing.assert_array_equal(flat.proba_, matrix.proba_)
    np.testing.assert_array_equal(DawidSkene(prior=0).fit(answers).proba_, DawidSkene(prior=None).fit(answers).proba_)
    lopsided = np.array([[50.0, 0, 0], [0, 50, 0], [50, 0, 0]])  # rows = truth: class 2 is always called 0
    confusion = DawidSkene(prior=lopsided).fit(answers).confusion_
    assert (confusion[:, 2].argmax(axis=1) == 0).all()
    assert (confusion[:, 1].argmax(axis=1) == 1).all()


def test_confusion_rows_sum_to_one():
    for prior in (None, 0.1, "diagonal", "hierarchical"):
        confusion = DawidSkene(prior=prior).fit(small_answers(3, n_tasks=9)).confusion_
        np.testing.assert_allclose(confusion.sum(axis=2), 1)


def test_uniform_class_prior():
    model = DawidSkene(class_prior="uniform").fit(small_answers(1))
    np.testing.assert_array_equal(model.class_prior_, 1 / 3)


def test_hard_em_is_a_fixed_point_of_deciding_and_counting():
    answers = cw.simulate.simulate(n_tasks=200, n_workers=8, n_classes=3, answers_per_task=4, seed=3)
    model = DawidSkene(prior=0.1, hard=True, tol=1e-12).fit(answers)
    decided = np.eye(3)[model.proba_.argmax(axis=1)]
    counts = np.zeros((8, 3, 3))
    np.add.at(counts, (answers.worker, model.proba_.argmax(axis=1)[answers.task], answers.label), 1)
    expected = (counts + 0.1) / (counts + 0.1).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(model.confusion_, expected, atol=1e-9)
    np.testing.assert_allclose(model.class_prior_, np.maximum(decided.mean(axis=0), 1e-10))
    assert (np.diff(model.history_) >= -1e-9).all()


def test_more_starts_never_end_lower():
    answers = small_answers(11, n_tasks=30, n_workers=6, share=0.5)
    one = DawidSkene(prior=0.01, random_state=1).fit(answers)
    many = DawidSkene(prior=0.01, n_init=10, random_state=1).fit(answers)
    assert many.history_[-1] >= one.history_[-1]


def test_warm_start_continues_from_the_last_fit():
    answers = cw.simulate.simulate(n_tasks=300, n_workers=10, n_classes=4, answers_per_task=3, seed=5)
    cold = DawidSkene(tol=1e-12, max_iter=5000).fit(answers)
    warm = DawidSkene(tol=1e-12, max_iter=5000, warm_start=True).fit(answers).fit(answers)
    assert warm.n_iter_ < cold.n_iter_ / 3
    np.testing.assert_allclose(warm.proba_, cold.proba_, atol=1e-4)


def test_partial_fit_with_new_tasks_workers_and_classes():
    first = cw.Answers.from_arrays([1, 1, 2, 2], ["a", "b", "a", "b"], ["x", "x", "y", "y"])
    model = DawidSkene().fit(first, gold={1: "x"})
    model.partial_fit(cw.Answers.from_arrays([2, 3, 3], ["c", "c", "a"], ["y", "z", "z"]), gold={3: "z"})
    assert model.tasks_.tolist() == [1, 2, 3]
    assert model.labels_.tolist() == ["x", "y", "z"]
    assert model.gold_.tolist() == [0, -1, 2]
    corrected = cw.Answers.from_arrays([2, 2, 2], ["a", "b", "c"], ["x", "x", "x"])
    assert model.partial_fit(corrected, duplicates="last").labels_.tolist() == ["x", "x", "z"]


def test_gold_changes_the_weights_of_workers():
    """Known labels show who is reliable, which decides the other tasks."""
    task = np.repeat(np.arange(40), 3)
    worker = np.tile(["good", "bad1", "bad2"], 40)
    truth = np.arange(40) % 2
    label = np.where(worker == "good", truth[task], 1 - truth[task])  # the bad ones always make the same error
    answers = cw.Answers.from_arrays(task, worker, label)
    assert (DawidSkene().fit(answers).labels_ == truth).mean() == 0
    gold = {t: int(truth[t]) for t in range(10)}
    assert (DawidSkene().fit(answers, gold).labels_ == truth).mean() == 1


def test_warns_when_it_does_not_converge():
    answers = cw.simulate.simulate(n_tasks=100, n_workers=5, n_classes=3, answers_per_task=3, seed=1)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        model = DawidSkene(max_iter=2).fit(answers)
    assert not model.converged_
    assert model.n_iter_ == 2


@pytest.mark.parametrize("parameters", [{"prior": "flat"}, {"prior": -1}, {"prior": np.eye(2)}, {"class_prior": "x"},
                                        {"prior": np.nan}])  # fmt: skip
def test_invalid_parameters_raise(parameters):
    with pytest.raises(ParameterError):
        DawidSkene(**parameters).fit(small_answers(0))


def test_confusion_too_large_for_memory_raises():
    model = DawidSkene().fit(small_answers(0))
    with pytest.raises(TooLargeError, match="workers"):
        dense_confusion(model.answers_, model.table_, model.prior_, model.totals_, max_cells=5)


def test_starts_from_the_votes():
    answers = small_answers(4, n_tasks=12)
    model = DawidSkene(prior=1e6, class_prior="uniform", max_iter=1, tol=0).fit(answers)
    np.testing.assert_allclose(model.proba_, 1 / 3, atol=1e-3)  # with a strong flat prior answers carry no information
    np.testing.assert_allclose(vote_shares(answers).sum(axis=1), 1)
