"""AUM: one label per task."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.ambiguity.margins import margins
from crowdwise.errors import ParameterError
from crowdwise.learn.network.architectures import build_network
from crowdwise.learn.network.torch_support import torch

PLAIN = cw.MLP(8, dropout=0.0, standardise=False)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4)).astype(np.float32)
    task = np.repeat(np.arange(39), 3)  # the last task has no answers
    label = rng.integers(0, 3, len(task))
    return X, cw.Answers.from_codes(task, np.tile([0, 1, 2], 39), label, tasks=40, workers=3, classes=3)


def test_the_record_is_that_of_the_training_replayed_by_hand(data):
    X, answers = data
    aum = cw.AUM(PLAIN, margin="pleiss", scale="logits", epochs=5, lr=0.05, batch_size=40).fit(X, answers)
    codes = cw.MajorityVote().fit(answers).codes_[:39].astype(np.int64)
    network = build_network(PLAIN, (4,), 3, 1, 0)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.05)
    total = np.zeros((39, 3))
    for _ in range(5):
        logits = network(torch.from_numpy(X[:39])[None])[0]
        total += margins(logits.detach(), "pleiss").numpy()
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(codes)).backward()
        optimiser.step()
    np.testing.assert_allclose(aum.scores_[:39], total[np.arange(39), codes] / 5, atol=1e-4)
    np.testing.assert_allclose(aum.aum_, total[answers.task, answers.label] / 5, atol=1e-4)
    assert np.isinf(aum.scores_[39])
    assert (aum.trust_ == (answers.label == codes[answers.task])).all()
    assert aum.answers_ is answers


def test_score_is_the_aum_of_the_label(data):
    X, answers = data
    aum = cw.AUM(PLAIN, epochs=2).fit(X, answers)
    by_task = [np.average(aum.aum_[3 * t : 3 * t + 3], weights=aum.trust_[3 * t : 3 * t + 3]) for t in range(39)]
    np.testing.assert_allclose(aum.scores_[:39], by_task)


def test_gold_labels_replace_inferred_ones(data):
    X, answers = data
    labels = np.random.default_rng(1).integers(0, 3, 40).astype(np.int32)
    given = cw.AUM(PLAIN, epochs=2).fit(X, answers, gold=labels)
    assert np.isfinite(given.scores_).all()  # the last task has a label now
    other = cw.AUM(PLAIN, truth="dawid-skene", epochs=2)
    np.testing.assert_array_equal(other.fit(X, answers, gold=labels).scores_, given.scores_)
    assert not np.array_equal(other.fit(X, answers).scores_[:39], given.scores_[:39])


def test_wrong_labels_are_found():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    X = (4 * np.eye(3, 5)[truth] + rng.normal(size=(300, 5))).astype(np.float32)
    wrong = rng.random(300) < 0.1
    answers = cw.Answers.from_codes(
        np.arange(300), np.zeros(300, int), np.where(wrong, (truth + 1) % 3, truth), tasks=300, workers=1, classes=3
    )
    for margin in ("yang", "pleiss"):
        worst = cw.AUM("mlp", epochs=20, margin=margin).fit(X, answers).prune(wrong.mean()).removed
        assert wrong[worst].mean() > 0.9


def test_invalid_arguments_are_rejected(data):
    X, answers = data
    with pytest.raises(ParameterError, match="select"):
        cw.AUM(select="held_out").fit(X, answers)
    with pytest.raises(ParameterError, match="truth"):
        cw.AUM(truth=3).fit(X, answers)
