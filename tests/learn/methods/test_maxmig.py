import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise import simulate
from crowdwise.errors import NotFittedError, ParameterError
from crowdwise.learn.features import open_features
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.maxmig import MaxMIG, MaxMIGModule
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.modules import Dense
from tests.helpers.crowds import answers_of, blobs, uneven

QUICK = {"network": "logistic", "epochs": 30, "lr": 1e-2}
# Four good workers, and three who always answer class 0: they err together and win most votes.
TOGETHER = np.concatenate([np.tile(0.05 + 0.85 * np.eye(3), (4, 1, 1)), np.tile(np.eye(3)[[0, 0, 0]], (3, 1, 1))])


def small(n_models=2, gold=None, answer_weight=None, task_weight=None):
    """Return a module in double precision with random weights, and a batch of all five tasks."""
    rng = np.random.default_rng(0)
    task, worker = [0, 0, 0, 1, 2, 2, 3, 4, 4], [0, 1, 2, 0, 1, 2, 2, 0, 2]
    answers = cw.Answers.from_codes(task, worker, rng.integers(0, 3, 9), tasks=5, workers=3, classes=3)
    batches = Batches(
        open_features(rng.normal(size=(5, 4))), answers, batch_size=5, n_models=n_models, weight=answer_weight,
        task_weight=task_weight,
    )  # fmt: skip
    module = MaxMIGModule(Dense(4, [5], 3, n_models, 0), 3, learn_prior=True).double()
    with torch.no_grad():
        for p in module.parameters():
            p += 0.5 * torch.from_numpy(rng.normal(size=p.shape))
    if gold is not None:
        module.gold = torch.tensor(gold)
    (batch,) = batches.epoch(0)
    batch.x = batch.x.double()
    return module, answers, batch


def softmax(logits):
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


CASES = [
    {},
    {"gold": [1, -1, -1, 2, -1]},
    {"answer_weight": np.arange(1, 10)},
    {"task_weight": np.array([1, 2, 0.5, 1, 1])},
    {"answer_weight": np.arange(1, 10), "task_weight": np.array([1, 2, 0.5, 0, 1])},
]


@pytest.mark.parametrize("case", CASES)
def test_gradients_match_finite_differences(case):
    module, _, batch = small(**case)
    assert torch.autograd.gradcheck(lambda *_: module.loss(batch), tuple(module.parameters()))
    assert all(g.abs().max() > 1e-3 for g in torch.autograd.grad(module.loss(batch), [module.table, module.prior]))


@pytest.mark.parametrize("case", CASES)
def test_the_loss_equals_its_formula(case):
    """The formula is evaluated pair by pair and answer by answer."""
    module, answers, batch = small(**case)
    table = module.table.detach().numpy().reshape(2, 3, 3, 3)  # [model, worker, label, class]
    own = np.asarray(case.get("answer_weight", np.ones(9)), dtype=float)
    by_task = np.asarray(case.get("task_weight", np.ones(5)), dtype=float)
    own, by_task, total = own / own.mean(), by_task / by_task[by_task > 0].mean(), 0.0
    for m in range(2):
        tasks = batch.task[5 * m : 5 * m + 5]
        f = softmax(module.network(batch.x)[m].detach().numpy())  # (rows, classes)
        p = softmax(module.prior[m, 0].detach().numpy())
        g = np.empty((5, 3))
        for i, t in enumerate(tasks):
            mine = np.flatnonzero(answers.task == t)
            evidence = sum(own[a] * table[m, answers.worker[a], answers.label[a]] for a in mine)
            g[i] = softmax(evidence + np.log(p))
            if case.get("gold", [-1] * 5)[t] >= 0:
                g[i] = np.eye(3)[case["gold"][t]]
        M, w = (f / p) @ g.T, by_task[tasks]
        total -= np.mean(w * (1 + np.log(np.diag(M))))
        total += sum(w[i] * w[j] * M[i, j] for i in range(5) for j in range(5) if i != j) / 20
    assert module.loss(batch).item() == pytest.approx(total, rel=1e-5)


def test_the_aggregator_starts_from_one_step_of_dawid_skene():
    X, truth = blobs(60)
    answers = answers_of(truth, uneven())
    model = MaxMIG(epochs=1, lr=1e-12, n_models=2).fit(X, answers)
    shares = answers.counts(dense=True) / answers.counts(dense=True).sum(axis=1, keepdims=True)
    counts = np.zeros((8, 3, 3))
    np.add.at(counts.swapaxes(1, 2), (answers.worker, answers.label), shares[answers.task])
    confusion = counts / counts.sum(axis=2, keepdims=True) + 0.01
    posterior = np.ones((60, 3)) / 3
    np.multiply.at(posterior, answers.task, confusion[answers.worker, :, answers.label])
    g = softmax(model.module_.task_evidence(answers))
    np.testing.assert_allclose(g, np.tile(posterior / posterior.sum(axis=1, keepdims=True), (2, 1, 1)), atol=1e-5)
    np.testing.assert_allclose(model.confusion_, confusion / confusion.sum(axis=2, keepdims=True), atol=1e-5)
    joint = model.member_proba(X) * g  # p is uniform
    np.testing.assert_allclose(model.proba_, (joint / joint.sum(axis=2, keepdims=True)).mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_beats_the_vote_if_workers_err_together(seed):
    X, truth = blobs(600, seed=seed)
    answers = answers_of(truth[:300], TOGETHER, 3, seed=seed)
    votes = Aggregated("majority-vote", soft=False, **QUICK).fit(X[:300], answers)
    model = MaxMIG(**QUICK).fit(X[:300], answers)
    assert model.score(X[300:], truth[300:]) > max(0.85, votes.score(X[300:], truth[300:]) + 0.1)
    assert (model.labels_ == truth[:300]).mean() > 0.95
    right = np.diagonal(model.confusion_, axis1=1, axis2=2)
    assert right[:4].min() > right[4:, 1:].max() + 0.2


def test_a_learnt_prior_recovers_the_class_shares():
    shares = [0.7, 0.2, 0.1]
    X, truth = blobs(600, shares=shares)
    answers = answers_of(truth, uneven(good=(0.8, 0.95)), 4)
    model = MaxMIG(learn_prior=True, **QUICK).fit(X, answers)
    np.testing.assert_allclose(model.class_prior_, shares, atol=0.1)
    np.testing.assert_allclose(MaxMIG(epochs=1).fit(X, answers).class_prior_, 1 / 3, atol=1e-6)


def test_answer_proba_is_the_classifier_times_the_confusion():
    X, truth = blobs(60)
    model = MaxMIG(epochs=2).fit(X, answers_of(truth, uneven()))
    wanted = np.einsum("tc,wcl->twl", model.predict_proba(X), model.confusion_)
    np.testing.assert_allclose(model.answer_proba(X), wanted, atol=1e-6)


def test_gold_stays_fixed():
    """All workers swap two classes: gold labels identify them."""
    X, truth = blobs(200, n_classes=2)
    swapped = np.tile(np.eye(2)[::-1] * 0.8 + 0.1, (6, 1, 1))
    answers = answers_of(truth, swapped, 3)
    gold = np.where(np.arange(200) < 100, truth, -1)
    model = MaxMIG(**QUICK).fit(X, answers, gold=gold)
    np.testing.assert_array_equal(model.proba_[:100], np.eye(2)[truth[:100]])
    assert model.score(X[100:], truth[100:]) > 0.9
    assert MaxMIG(**QUICK).fit(X, answers).score(X[100:], truth[100:]) < 0.1


def test_answer_weights_scale_the_evidence():
    """Weights are relative to their mean, in inference and in training."""
    X, truth = blobs(60)
    plain = answers_of(truth, uneven())
    weight = np.random.default_rng(0).uniform(0.1, 2, plain.n_answers)
    answers = cw.Answers.from_codes(
        plain.task, plain.worker, plain.label, tasks=60, workers=8, classes=3, weight=weight
    )
    model = MaxMIG(epochs=2, n_models=2).fit(X, answers, sample_weight=np.arange(1, 61))
    table = model.module_.table.detach().numpy().reshape(2, 8, 3, 3)
    wanted = np.zeros((2, 60, 3))
    for m in range(2):
        evidence = table[m, answers.worker, answers.label] * (weight / weight.mean())[:, None]
        np.add.at(wanted[m], answers.task, evidence)
    np.testing.assert_allclose(model.module_.task_evidence(answers), wanted, rtol=1e-4)


def test_models_trained_together_equal_models_trained_alone():
    X, truth = blobs(90)
    answers = answers_of(truth, uneven())
    three = MaxMIG(epochs=3, lr=1e-2, n_models=3).fit(X, answers)
    one = MaxMIG(epochs=3, lr=1e-2).fit(X, answers)
    members = three.member_proba(X)
    assert np.isfinite(members).all()
    assert np.abs(members[0] - members[1]).max() > 1e-3
    np.testing.assert_allclose(members[0], one.member_proba(X)[0], atol=1e-4)  # independent of the other model
    assert three.confusion_.shape == (8, 3, 3)


class Stop(Exception):
    pass


@pytest.mark.parametrize("learn_prior", [False, True])
def test_a_resumed_fit_equals_an_uninterrupted_one(tmp_path, learn_prior):
    X, truth = blobs(60)
    answers = answers_of(truth, uneven())
    options = {"epochs": 4, "lr": 1e-2, "n_models": 2, "batch_size": 20, "learn_prior": learn_prior}
    expected = MaxMIG(**options).fit(X, answers)

    def callback(record):
        if record["epoch"] == 3:
            raise Stop

    interrupted = MaxMIG(checkpoint=str(tmp_path / "fit"), **options)
    with pytest.raises(Stop):
        interrupted.fit(X, answers, callback=callback)
    again = interrupted.fit(X, answers)
    np.testing.assert_array_equal(again.proba_, expected.proba_)
    np.testing.assert_array_equal(again.confusion_, expected.confusion_)
    assert again.history_ == expected.history_


def test_many_workers_and_classes():
    truth = np.random.default_rng(0).integers(0, 8, 300)
    X = 3 * np.eye(8)[truth] + np.random.default_rng(1).normal(size=(300, 8))
    answers = simulate.answer(truth, simulate.crowd(50, 8, seed=0), 3, seed=0)
    assert MaxMIG(**QUICK).fit(X, answers).score(X, truth) > 0.85


def test_invalid_use_is_rejected():
    X, truth = blobs(30)
    with pytest.raises(ParameterError, match="no loss on answers"):
        MaxMIG(loss="focal").fit(X, answers_of(truth, uneven()))
    for name in ("confusion_", "class_prior_"):
        with pytest.raises(NotFittedError):
            getattr(MaxMIG(), name)
