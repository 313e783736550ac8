"""Margins, and the module that records them."""

import numpy as np
import pytest

from crowdwise.ambiguity.margins import StackedModule, margins
from crowdwise.answers import Answers
from crowdwise.learn.features import open_features
from crowdwise.learn.network.architectures import MLP, build_network
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.torch_support import torch

ONE = torch.tensor([[0.5, 0.3, 0.15, 0.05]])


@pytest.mark.parametrize(
    ("kind", "top_k", "by_hand"),
    [
        ("yang", 1, [0.2, 0.0, -0.15, -0.25]),  # minus the second of all, 0.3
        ("pleiss", 1, [0.2, -0.2, -0.35, -0.45]),  # minus the largest of the others
        ("yang", 2, [0.35, 0.15, 0.0, -0.1]),  # minus the third, 0.15
        ("pleiss", 2, [0.35, 0.15, -0.15, -0.25]),  # minus the second of the others
        ("yang", 3, [0.45, 0.25, 0.1, 0.0]),
        ("pleiss", 3, [0.45, 0.25, 0.1, -0.1]),
    ],
)
def test_by_hand(kind, top_k, by_hand):
    np.testing.assert_allclose(margins(ONE, kind, top_k)[0], by_hand, atol=1e-6)


@pytest.mark.parametrize("kind", ["yang", "pleiss"])
@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_against_sorting_each_row(kind, top_k):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(50, 5))
    scores[:10, 1] = scores[:10, 3]  # ties
    found = margins(torch.from_numpy(scores), kind, top_k).numpy()
    for row, got in zip(scores, found, strict=True):
        for y in range(5):
            all_sorted, others = np.sort(row)[::-1], np.sort(np.delete(row, y))[::-1]
            against = all_sorted[top_k] if kind == "yang" else others[top_k - 1]
            assert got[y] == pytest.approx(row[y] - against)


def test_both_agree_on_the_argmax_and_yang_is_never_below():
    scores = torch.from_numpy(np.random.default_rng(1).normal(size=(200, 6)))
    yang, pleiss = margins(scores, "yang").numpy(), margins(scores, "pleiss").numpy()
    best = scores.argmax(1).numpy()
    assert (yang >= pleiss).all()
    assert ((yang == pleiss) == (np.arange(6) == best[:, None])).all()


def test_margins_follow_the_classes():
    scores = torch.from_numpy(np.random.default_rng(2).normal(size=(30, 4)))
    order = [2, 0, 3, 1]
    for kind in ("yang", "pleiss"):
        np.testing.assert_array_equal(margins(scores[:, order], kind), margins(scores, kind)[:, order])


@pytest.mark.parametrize("scale", ["probabilities", "logits"])
@pytest.mark.parametrize("n_models", [1, 3])
def test_records_every_task_once_per_epoch(scale, n_models):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(11, 4)).astype(np.float32)
    answers = Answers.from_codes(np.arange(10), np.arange(10) % 3, np.arange(10) % 3, tasks=11, workers=3, classes=3)
    network = build_network(MLP(5, dropout=0.0, standardise=False), (4,), 3, n_models, 0)
    module = StackedModule(network, 3, 11, "pleiss", scale, 1, double_softmax=False)
    batches = Batches(open_features(X), answers, batch_size=4, n_models=n_models)
    for epoch in range(2):  # no steps are taken: both epochs see the same network
        for batch in batches.epoch(epoch):
            module.loss(batch)
    with torch.no_grad():
        logits = network(torch.from_numpy(X).expand(n_models, 11, 4))
        scores = logits.softmax(2) if scale == "probabilities" else logits
    by_model = [margins(scores[m], "pleiss").numpy() for m in range(n_models)]
    table, seen = module.recorded(np.arange(11))
    np.testing.assert_allclose(table[:10], np.mean(by_model, axis=0)[:10], atol=1e-6)
    assert seen.tolist() == [True] * 10 + [False]  # the last task has no answers
    assert (module.seen.view(n_models, 11)[:, :10] == 2).all()
    np.testing.assert_array_equal(module.recorded(np.array([7, 2]))[0], table[[7, 2]])


def test_the_loss_is_the_cross_entropy_of_the_answers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 4)).astype(np.float32)
    answers = Answers.from_codes(np.repeat(np.arange(6), 2), np.tile([0, 1], 6), rng.integers(0, 3, 12),
                                 tasks=6, workers=2, classes=3)  # fmt: skip
    network = build_network(MLP(5, dropout=0.0, standardise=False), (4,), 3, 1, 0)
    (batch,) = Batches(open_features(X), answers, batch_size=6).epoch(0)
    logits = network(torch.from_numpy(X[answers.task])[None])[0]
    labels = torch.from_numpy(answers.label.astype(np.int64))
    for again, inputs in ((False, logits), (True, logits.softmax(1))):
        module = StackedModule(network, 2, 6, "yang", "probabilities", 1, double_softmax=again)
        expected = torch.nn.functional.cross_entropy(inputs, labels)
        np.testing.assert_allclose(module.loss(batch).item(), expected.item(), rtol=1e-5)
