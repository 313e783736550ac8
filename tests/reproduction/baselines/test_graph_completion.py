"""GC-MC: messages against dense matrices, hidden answers, and prediction of held-out answers."""

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.learn.features import open_features
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.modules import Dense
from crowdwise.truth.vote_check import split_answers
from reproduction.baselines.graph_completion import GraphCompletion, GraphModule

# task 3 and worker 2 have no answers
TASK, WORKER, LABEL = [0, 0, 1, 2, 2], [0, 1, 1, 0, 3], [1, 0, 2, 1, 1]
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 3.0])


def small(weight=None):
    return cw.Answers.from_codes(TASK, WORKER, LABEL, tasks=4, workers=4, classes=3, weight=weight)


def graph(norm="left", weight=None, width=5, unseen=0.5):
    network = Dense(2, [6], 3, 1, 0, standardise=False)
    return GraphModule(network, small(weight), width, norm, unseen, 0)


def dense_graph(norm, keep, weight=None):
    """Normalised links (classes, tasks, workers), to tasks and to workers."""
    links = np.zeros((3, 4, 4))
    links[LABEL, TASK, WORKER] = keep * (1.0 if weight is None else weight)
    of_task, of_worker = links.sum((0, 2)), links.sum((0, 1))
    of_task, of_worker = np.where(of_task > 0, of_task, 1), np.where(of_worker > 0, of_worker, 1)
    if norm == "left":
        return links / of_task[:, None], links / of_worker
    both = links / np.sqrt(of_task[:, None] * of_worker)
    return both, both


def relu(x):
    return np.maximum(x, 0)


@pytest.mark.parametrize("norm", ["left", "symmetric"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("keep", [np.ones(5), np.array([1.0, 0, 1, 1, 0])])
def test_messages_and_probabilities_are_those_of_dense_matrices(norm, weight, keep):
    module = graph(norm, weight).eval()
    p = {name: value.detach().double().numpy() for name, value in module.named_parameters()}
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    to_tasks, to_workers = dense_graph(norm, keep, weight)
    h_tasks = np.einsum("cik,kcd->id", to_tasks, p["from_workers"].reshape(4, 3, 5))
    h_workers = np.einsum("cik,icd->kd", to_workers, p["from_tasks"].reshape(4, 3, 5))
    f = relu(x @ p["network.layers.0.weight"] + p["network.layers.0.bias"])
    u = relu(h_tasks) @ p["task_layer.weight"] + p["task_layer.bias"]
    u = relu(u + f @ p["feature_layer.weight"] + p["feature_layer.bias"])
    v = relu(relu(h_workers) @ p["worker_layer.weight"] + p["worker_layer.bias"])
    logits = np.einsum("id,cde,ke->ikc", u, p["decoder"], v)
    expected = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    with torch.no_grad():
        links = module.links(torch.tensor(keep, dtype=torch.float32))
        message = module.task_messages(links[0])
        np.testing.assert_allclose(message, h_tasks, atol=1e-6)
        vectors = module.worker_vectors(links[1])
        np.testing.assert_allclose(vectors[:4], v, atol=1e-6)
        np.testing.assert_allclose(vectors[4], v.mean(0), atol=1e-6)
        row, worker = torch.arange(4).repeat_interleave(4), torch.arange(4).repeat(4)
        log_p = module.decode(
            module.task_vectors(module.network.embed(torch.tensor(x)[None]), message), vectors, row, worker
        )
    np.testing.assert_allclose(log_p.exp().view(4, 4, 3), expected, atol=1e-6)


def test_an_answer_does_not_predict_itself():
    """The loss of a hidden answer does not depend on what is sent along its own link."""
    module, answers = graph(), small()
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    batch = next(Batches(open_features(x), answers, batch_size=4).epoch(0))
    for seed in range(8):  # for any hidden answers
        module.hide.reseed(seed)
        module.zero_grad()
        module.loss(batch).backward()
        module.hide.reseed(seed)
        hidden = (module.hide(torch.ones(5)) == 0).numpy()  # in the order of the batch
        if not hidden.any():
            continue
        own = batch.worker[hidden] * 3 + batch.label[hidden]
        others = batch.worker[~hidden] * 3 + batch.label[~hidden]
        alone = np.setdiff1d(own, others)  # sent along hidden links only
        assert (module.from_workers.grad[alone] == 0).all()
        sent = batch.task[batch.row] * 3 + batch.label
        alone = np.setdiff1d(sent[hidden], sent[~hidden])
        assert (module.from_tasks.grad[alone] == 0).all()
    assert hidden.any()


def test_loss_is_the_mean_over_hidden_answers_on_average():
    """Divided by the hidden share, it is the mean over all answers, each predicted without hidden ones."""
    module, answers = graph(unseen=0.5), small()
    for parameter in (module.from_workers, module.from_tasks):
        parameter.data.zero_()  # without messages the probabilities do not depend on what is hidden
    module.network.eval()
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    batch = next(Batches(open_features(x), answers, batch_size=4).epoch(0))
    with torch.no_grad():
        losses = []
        for seed in range(600):
            module.hide.reseed(seed)
            losses.append(float(module.loss(batch)))
        log_p = module.answer_log_proba(batch.x, batch.x, batch.tensor(batch.row), batch.tensor(batch.worker))
    expected = -float(log_p.gather(1, batch.tensor(batch.label)[:, None]).mean())
    error = np.std(losses) / np.sqrt(len(losses))
    assert abs(np.mean(losses) - expected) < 4 * error


def test_gradient_agrees_with_finite_differences():
    module = graph().double()
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    batch = next(Batches(open_features(x), small(), batch_size=4).epoch(0))
    batch.x = batch.x.double()

    def loss():
        module.hide.reseed(3)
        return module.loss(batch)

    loss().backward()
    rng = np.random.default_rng(1)
    for name in ("from_workers", "from_tasks", "decoder", "worker_layer.weight", "feature_layer.weight"):
        parameter = module.get_parameter(name)
        turn = torch.tensor(rng.normal(size=tuple(parameter.shape)))
        slope = float((parameter.grad * turn).sum())
        values = []
        for step in (1e-6, -1e-6):
            parameter.data.add_(step * turn)
            values.append(float(loss().detach()))
            parameter.data.add_(-step * turn)
        np.testing.assert_allclose((values[0] - values[1]) / 2e-6, slope, rtol=1e-4, atol=1e-8, err_msg=name)


def crowd(seed, n_tasks=300, n_classes=3, n_workers=12):
    """Partly informative features, and workers of uneven skill."""
    rng = np.random.default_rng(seed)
    answers = cw.simulate.simulate(
        n_tasks, n_workers=n_workers, n_classes=n_classes, answers_per_task=4, accuracy=(0.65, 0.95), seed=seed
    )
    centre = rng.normal(size=(n_classes, 9))
    return (centre[answers.truth] + rng.normal(size=(n_tasks, 9))).astype(np.float32), answers


def held_out_gain(model, X, answers, seed):
    """Mean log probability of hidden answers above that of a uniform guess."""
    kept, held = split_answers(answers, 0.2, seed)
    model.fit(X, kept)
    tasks, row = np.unique(held.task, return_inverse=True)
    proba = model.complete(open_features(X), tasks, row, held.worker.astype(np.int64))
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-6)
    return float(np.log(proba[np.arange(len(row)), held.label]).mean() + np.log(answers.n_classes))


@pytest.mark.parametrize("n_classes", [2, 8])
def test_predicts_held_out_answers_better_than_a_guess(n_classes):
    gain = [
        held_out_gain(GraphCompletion(network=cw.MLP(16), random_state=s), *crowd(s, n_classes=n_classes), s)
        for s in range(5)
    ]
    assert np.mean(gain) > 3 * np.std(gain, ddof=1) / np.sqrt(5)


def test_messages_improve_on_features_alone():
    """The features are noise, so only the answers of other workers inform about a task."""
    gain = []
    for seed in range(4):
        X, answers = crowd(seed, n_tasks=400)
        X = np.random.default_rng(seed).normal(size=X.shape).astype(np.float32)
        kept, held = split_answers(answers, 0.2, seed)
        model = GraphCompletion(epochs=20, network=cw.MLP(8), random_state=seed).fit(X, kept)
        tasks, row = np.unique(held.task, return_inverse=True)
        worker, at = held.worker.astype(np.int64), np.arange(held.n_answers)
        with_messages = model.complete(open_features(X), tasks, row, worker)[at, held.label]
        alone = model._proba_of_answers(open_features(X), tasks, row, worker)[at, held.label]
        gain.append(np.log(with_messages).mean() - np.log(alone).mean())
    assert np.mean(gain) > 4 * np.std(gain, ddof=1) / 2


def test_weight_zero_sends_nothing():
    X, answers = crowd(0, n_tasks=60)
    weight = (np.arange(60) % 3 > 0).astype(float)
    out = weight[answers.task] == 0
    label = np.where(out, (answers.label + 1) % 3, answers.label)
    other = cw.Answers.from_codes(answers.task, answers.worker, label, tasks=60, workers=12, classes=3)
    first, second = (GraphCompletion(epochs=4).fit(X, a, sample_weight=weight) for a in (answers, other))
    np.testing.assert_allclose(first.answer_proba(X), second.answer_proba(X), atol=1e-6)


def test_tasks_and_workers_without_answers_get_predictions():
    X = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    model = GraphCompletion(epochs=3).fit(X, small())
    proba = model.complete(open_features(X), np.array([0, 3]), np.array([0, 1]), np.array([2, 2]))
    assert np.isfinite(proba).all()
    assert model.proba_.shape == (4, 3)
    np.testing.assert_allclose(model.predict_proba(X)[3], model.proba_[3], atol=1e-6)  # no messages: features alone
    np.testing.assert_array_equal(model.proba_, GraphCompletion(epochs=3).fit(X, small()).proba_)


@pytest.mark.parametrize("bad", [{"width": 0}, {"norm": "right"}, {"unseen": 1.0}, {"n_models": 2}])
def test_invalid_parameters_are_rejected(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        GraphCompletion(**bad).fit(np.zeros((4, 9)), small())
