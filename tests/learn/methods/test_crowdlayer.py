import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.learn.features import open_features
from crowdwise.learn.methods.crowdlayer import CrowdLayerModule
from crowdwise.learn.network.architectures import build_network
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.training import CrowdModule, Settings, Trainer
from tests.helpers.crowds import answers_of, blobs, swapping, uneven

KINDS = ["mw", "vw", "vb", "vw+b", "sw"]


def first_batch(n_models=1, gamma=0.0, weighted=False):
    X, truth = blobs(n_tasks=40)
    answers = answers_of(truth, uneven())
    weight = np.random.default_rng(0).uniform(0.2, 3, answers.n_answers) if weighted else None
    batches = Batches(open_features(X), answers, batch_size=20, n_models=n_models, gamma=gamma, weight=weight)
    return next(iter(batches.epoch(0))), answers


def make_module(kind, n_models=1, seed=0):
    network = build_network("logistic", (6,), 3, n_models, seed=seed)
    module = CrowdLayerModule(network, 8, kind, 1.0)
    with torch.no_grad():
        for parameter in module.crowd_parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
    return module


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_gradients_match_finite_differences(kind, gamma):
    batch, _ = first_batch(gamma=gamma, weighted=True)
    module = make_module(kind).double()
    batch.x = batch.x.double()
    module.loss(batch).backward()
    rng = np.random.default_rng(0)
    for parameter in module.parameters():
        flat, slope = parameter.data.view(-1), parameter.grad.view(-1)
        for i in rng.integers(0, len(flat), 5):
            kept = float(flat[i])
            flat[i] = kept + 1e-5
            up = module.loss(batch).item()
            flat[i] = kept - 1e-5
            down = module.loss(batch).item()
            flat[i] = kept
            np.testing.assert_allclose(float(slope[i]), (up - down) / 2e-5, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("gamma", [0.0, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_fused_loss_equals_the_plain_one(n_models, gamma, weighted):
    """The compiled kernel and torch give the same loss and gradients."""
    batch, _ = first_batch(n_models, gamma, weighted)
    fused, plain = make_module("mw", n_models), make_module("mw", n_models)
    expected = plain.loss(batch)
    np.testing.assert_allclose(fused.backward(batch).item(), expected.item(), rtol=1e-5)
    expected.backward()
    for a, b in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)


def test_identity_workers_equal_supervised_training():
    """With workers fixed at the identity the loss is a softmax of the classifier's softmax."""
    batch, _ = first_batch()
    module = CrowdLayerModule(build_network("logistic", (6,), 3, 1, seed=0), 8, "mw", 1.0)
    f = module.class_log_proba(batch.x).exp().flatten(0, 1)[torch.from_numpy(batch.row)]
    expected = torch.nn.functional.cross_entropy(f, torch.from_numpy(batch.label))
    torch.testing.assert_close(module.loss(batch), expected, rtol=1e-5, atol=1e-6)
    one_worker = torch.zeros(len(batch.row), dtype=torch.int64)
    log_proba = module.answer_log_proba(
        batch.x, module.class_log_proba(batch.x).flatten(0, 1), torch.from_numpy(batch.row), one_worker
    )
    torch.testing.assert_close(log_proba, torch.log_softmax(f, dim=1))


@pytest.mark.parametrize("kind", ["mw", "vw+b"])
def test_beats_training_on_the_vote_if_workers_swap_classes(kind):
    """Half of the workers call class 0 class 1: training on the vote learns the mistake, CrowdLayer does not."""
    gain = []
    for seed in range(4):
        X, truth = blobs(n_tasks=600, seed=seed, distance=3.5)
        answers = answers_of(truth, swapping(), seed=seed)
        X_new, new = blobs(n_tasks=1000, seed=100 + seed, distance=3.5)
        options = {"epochs": 40, "lr": 0.01, "network": "logistic", "random_state": seed}
        ours = cw.CrowdLayer(kind, **options).fit(X, answers).score(X_new, new)
        gain.append(ours - cw.Aggregated("majority-vote", soft=False, **options).fit(X, answers).score(X_new, new))
    assert np.mean(gain) > 0.03
    assert np.mean(gain) > 2 * np.std(gain) / 2  # more than two standard errors


def test_recovers_which_workers_swap_classes():
    X, truth = blobs(n_tasks=1500, distance=4)
    confusion = swapping()
    model = cw.CrowdLayer(epochs=60, lr=0.02, network="logistic").fit(X, answers_of(truth, confusion, per_task=4))
    found = model.confusion_
    np.testing.assert_allclose(found.sum(axis=2), 1, atol=1e-6)
    np.testing.assert_allclose(found[4:, 0, 1], 0.7, atol=0.15)
    np.testing.assert_allclose(found[:4, 0, 0], 0.85, atol=0.15)


def test_focal_losses_are_less_confident():
    """Focal losses give little weight to answers that are already predicted well."""
    X, truth = blobs(n_tasks=400, distance=4)
    answers = answers_of(truth, uneven(good=(0.9, 0.97)))
    sure = {
        loss: cw.CrowdLayer(epochs=30, lr=0.01, loss=loss).fit(X, answers).answer_proba(X).max(axis=2).mean()
        for loss in ("ce", "focal", "cb_focal")
    }
    assert sure["focal"] < sure["ce"] - 0.02
    assert sure["cb_focal"] < sure["ce"] - 0.02


@pytest.mark.parametrize("loss", ["cb_focal", "reweight"])
def test_imbalance_losses_help_the_rare_class(loss):
    recall = {"ce": [], loss: []}
    for seed in range(3):
        X, truth = blobs(n_tasks=800, shares=[0.86, 0.08, 0.06], distance=2.0, seed=seed)
        answers = answers_of(truth, uneven(good=(0.75, 0.9)), seed=seed)
        for name, values in recall.items():
            model = cw.CrowdLayer(epochs=15, lr=0.01, loss=name, random_state=seed).fit(X, answers)
            values.append(np.mean([(model.predict(X)[truth == c] == c).mean() for c in (1, 2)]))
    assert np.mean(recall[loss]) > np.mean(recall["ce"]) + 0.02


def test_identity_workers_equal_training_on_all_answers():
    """With matrices fixed at the identity, training equals that of the network alone on one answer per task."""
    X, truth = blobs(n_tasks=80)
    answers = answers_of(truth, np.eye(3)[None].repeat(4, axis=0), per_task=1)
    batches = Batches(open_features(X), answers, batch_size=20)
    crowd = CrowdLayerModule(build_network("mlp", (6,), 3, 1, seed=0), 4, "mw", 1.0)
    plain = CrowdModule(build_network("mlp", (6,), 3, 1, seed=0), 4)

    def softmax_twice(batch):
        f = plain.class_log_proba(batch.x).exp().flatten(0, 1)
        return torch.nn.functional.cross_entropy(f, torch.from_numpy(truth[batch.task]))

    settings = Settings(epochs=3, lr=0.01)
    Trainer(crowd, batches, settings, parameters=list(crowd.network.parameters())).run()
    Trainer(plain, batches, settings, loss=softmax_twice).run()
    for a, b in zip(crowd.network.parameters(), plain.network.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
