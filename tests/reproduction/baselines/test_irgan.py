"""IRGAN: the policy gradient against enumeration, the discriminator by hand, and complete fits."""

from itertools import product

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.learn.features import open_features
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.modules import Dense
from crowdwise.truth.vote_check import split_answers
from reproduction.baselines.irgan import IRGAN, Discriminator, GameModule, policy_loss

TASK, WORKER, LABEL = [0, 0, 1, 2], [0, 1, 1, 0], [1, 0, 2, 1]  # task 3 and worker 2 have no answers
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def small():
    return cw.Answers.from_codes(TASK, WORKER, LABEL, tasks=4, workers=3, classes=3)


def game(n_models=1):
    network, judge = (Dense(3, [5], 3, n_models, seed, standardise=False) for seed in (0, 1))
    module = GameModule(network, small(), "mw", 2.0, Discriminator(judge, 3, 4, 0))
    return module.double()


def batch_of(n_models=1, weight=None):
    batch = next(Batches(open_features(X), small(), batch_size=4, n_models=n_models, weight=weight).epoch(0))
    batch.x = batch.x.double()
    return batch


def rewards(module, batch, row, worker):
    """Reward of each label of each pair, (pairs, classes), from the formulas."""
    p = {name: value.detach().numpy() for name, value in module.discriminator.named_parameters()}
    hidden = np.maximum(batch.x[0].numpy() @ p["network.layers.0.weight"] + p["network.layers.0.bias"], 0)
    v = hidden @ p["task.weight"] + p["task.bias"]  # (rows, width)
    score = np.einsum("ad,cde,ae->ac", p["worker"][worker], p["matrix"][0], v[row])
    return np.log1p(np.exp(score))


def test_policy_gradient_is_that_of_the_expected_reward():
    """The mean gradient over all possible draws equals finite differences of the expected reward."""
    module, batch = game(), batch_of()
    row, worker = np.array([0, 1, 2, 2]), np.array([2, 0, 1, 2])
    missing = np.array([True, True, False, True])  # the third must not count
    pairs = torch.from_numpy(row), torch.from_numpy(worker), torch.from_numpy(missing)
    module.missing_pairs = lambda _: pairs
    reward = rewards(module, batch, row, worker)

    def chances():
        with torch.no_grad():
            return module.log_generator(batch, *pairs[:2]).exp().numpy()  # (pairs, classes)

    mean = {name: torch.zeros_like(module.get_parameter(name)) for name in ("matrix", "network.head.weight")}
    chance = chances()
    for labels in product(range(3), repeat=3):
        drawn = np.array([labels[0], labels[1], 0, labels[2]])
        module.draw = lambda _, drawn=drawn: torch.from_numpy(drawn)
        module.zero_grad()
        module.generator_loss(batch).backward()
        probability = chance[np.arange(4), drawn][missing].prod()
        for name in mean:
            mean[name] += probability * module.get_parameter(name).grad
    rng = np.random.default_rng(1)
    for name, gradient in mean.items():
        parameter = module.get_parameter(name)
        turn = torch.tensor(rng.normal(size=tuple(parameter.shape)))
        values = []
        for step in (1e-5, -1e-5):
            parameter.data.add_(step * turn)
            values.append((chances() * reward).sum(1)[missing].mean())
            parameter.data.add_(-step * turn)
        slope = (values[0] - values[1]) / 2e-5
        assert abs(slope) > 1e-4
        np.testing.assert_allclose(-float((gradient * turn).sum()), slope, rtol=1e-5, err_msg=name)


def test_baseline_makes_the_gradient_less_noisy():
    """All rewards are far from zero, so without a baseline their level adds noise."""
    rng = np.random.default_rng(0)
    reward, weight = torch.tensor(10 + rng.normal(size=50)), torch.full((50,), 1 / 50)
    score = torch.tensor(rng.normal(size=50))  # gradients of log_p
    plain = (weight * reward * score).sum()
    assert abs(policy_loss(score, reward, weight)) < abs(plain) / 2
    one = torch.tensor([1.0, 0.0])
    np.testing.assert_allclose(policy_loss(torch.tensor([-3.0, -1.0]), torch.tensor([2.0, 5.0]), one), 6.0)


@pytest.mark.parametrize("weight", [None, np.array([1.0, 3.0, 0.0, 2.0])])
def test_loss_of_the_discriminator(weight):
    module, batch = game(), batch_of(weight=weight)
    row, worker, label = batch.row, np.array([2, 0, 1, 2]), np.array([0, 1, 2, 0])
    missing = np.array([True, True, False, True])
    module.missing_pairs = lambda _: (torch.from_numpy(row), torch.from_numpy(worker), torch.from_numpy(missing))
    module.draw = lambda _: torch.from_numpy(label)
    at = np.arange(4)
    # r = -log(1 - D); and -log D = r - s, with s = log(exp(r) - 1)
    r = rewards(module, batch, row, batch.worker)[at, batch.label]
    real = r - np.log(np.expm1(r))
    fake = rewards(module, batch, row, worker)[at, label]
    w = np.ones(4) if batch.weight is None else batch.weight
    expected = np.average(real, weights=w) + np.average(fake, weights=w * missing)
    np.testing.assert_allclose(float(module.discriminator_loss(batch).detach()), expected, rtol=1e-6)


@pytest.mark.parametrize("loss", ["discriminator_loss", "generator_loss"])
def test_each_side_learns_alone(loss):
    module = game()
    getattr(module, loss)(batch_of()).backward()
    own = {id(p) for p in module.discriminator.parameters()}
    for name, p in module.named_parameters():
        if name == "discriminator.network.head.weight" or name == "discriminator.network.head.bias":
            continue  # the class outputs of the discriminator's network are not used
        moved = p.grad is not None and bool((p.grad != 0).any())
        if (id(p) in own) != (loss == "discriminator_loss"):
            assert not moved, name
    assert any(p.grad is not None for p in module.parameters())


@pytest.mark.parametrize("n_models", [1, 2])
def test_drawn_pairs_have_no_answer(n_models):
    module, batch, seen = game(n_models), batch_of(n_models), set()
    given = set(zip(TASK, WORKER, strict=True))
    for seed in range(60):
        module.draws.reseed(seed)
        row, worker, missing = (a.numpy() for a in module.missing_pairs(batch))
        np.testing.assert_array_equal(worker // 3, batch.worker // 3)  # of the same model
        for t, w, is_missing in zip(batch.task[row].tolist(), (worker % 3).tolist(), missing.tolist(), strict=True):
            assert ((t, w) not in given) == is_missing
            seen.add((t, w))
    assert seen == {(t, w) for t in range(3) for w in range(3)}  # task 3 has no answers, so no pair is drawn for it


def test_labels_are_drawn_by_their_probabilities():
    module = game()
    proba = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
    label = module.draw(proba.log().repeat(20_000, 1))
    np.testing.assert_allclose(np.bincount(label, minlength=3) / 20_000, proba[0], atol=0.015)


def crowd(seed, n_tasks=200, n_classes=3):
    answers = cw.simulate.simulate(
        n_tasks, n_workers=12, n_classes=n_classes, answers_per_task=4, accuracy=(0.65, 0.95), seed=seed
    )
    rng = np.random.default_rng(seed)
    centre = 2 * rng.normal(size=(n_classes, 9))
    return (centre[answers.truth] + rng.normal(size=(n_tasks, 9))).astype(np.float32), answers


FEW = {"epochs": 15, "rounds": 3, "discriminator_epochs": 2, "lr": 0.01, "network": cw.MLP(16)}


@pytest.mark.parametrize("n_classes", [2, 8])
def test_predicts_held_out_answers_better_than_a_guess(n_classes):
    gain = []
    for seed in range(4):
        X, answers = crowd(seed, n_classes=n_classes)
        kept, held = split_answers(answers, 0.2, seed)
        model = IRGAN(**FEW, random_state=seed).fit(X, kept)
        gain.append(model.answer_log_likelihood(X, held).mean() + np.log(n_classes))
    assert np.mean(gain) > 3 * np.std(gain, ddof=1) / 2


def test_generator_follows_its_rewards():
    """With a discriminator that accepts only answers of class 0, all generated answers become 0."""
    X, answers = crowd(0)
    model = IRGAN(**{**FEW, "rounds": 20, "discriminator_epochs": 1, "generator_lr": 0.05})

    class Rigged(Discriminator):
        def score(self, scores, row, worker, label):
            return super().score(scores, row, worker, label) * 0 + torch.where(label == 0, 5.0, -5.0)

    build = model._module

    def rigged(network, answers):
        module = build(network, answers)
        module.discriminator.__class__ = Rigged
        return module

    before = model.fit(X, answers).answer_proba(X)[..., 0].mean()
    model._module = rigged
    assert model.fit(X, answers).answer_proba(X)[..., 0].mean() > max(0.9, before + 0.1)


def test_with_a_rate_near_zero_it_equals_crowdlayer():
    X, answers = crowd(0)
    plain = cw.CrowdLayer(epochs=4, network=cw.MLP(8)).fit(X, answers)
    still = IRGAN(epochs=4, network=cw.MLP(8), rounds=1, generator_lr=1e-12).fit(X, answers)
    np.testing.assert_allclose(still.predict_proba(X), plain.predict_proba(X), atol=1e-6)
    assert [record["epoch"] for record in still.history_[:4]] == [1, 2, 3, 4]
    assert still.history_[4]["round"] == 1
    assert len(still.history_) == 5


def test_seed_repeats_and_members_differ():
    X, answers = crowd(0, n_tasks=60)
    first, second = (IRGAN(**FEW, n_models=2).fit(X, answers) for _ in range(2))
    np.testing.assert_array_equal(first.member_proba(X), second.member_proba(X))
    assert np.abs(np.diff(first.member_proba(X), axis=0)).max() > 1e-4
    assert first.history_ == second.history_


def test_complete_answers_need_no_adversarial_rounds():
    task, worker = np.divmod(np.arange(12), 3)
    answers = cw.Answers.from_codes(task, worker, task % 2, tasks=4, workers=3, classes=2)
    assert len(IRGAN(epochs=2).fit(X, answers).history_) == 2


@pytest.mark.parametrize("bad", [{"rounds": 0}, {"discriminator_epochs": 0}, {"generator_lr": 0.0}, {"width": 0}])
def test_invalid_parameters_are_rejected(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        IRGAN(**bad).fit(X, small())
