import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise import simulate
from crowdwise.errors import ParameterError
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.annoreg import AnnoReg, AnnoRegModule
from crowdwise.learn.methods.geocrowdnet import GeoCrowdNet, GeoCrowdNetModule, log_volume
from tests.helpers.network_checks import (
    QUICK,
    SPAM,
    assert_gradients,
    assert_members_differ,
    assert_members_stand_alone,
    dense,
    gaussian_crowd,
    shaken,
    small,
)


@pytest.mark.parametrize("kind", ["F", "W"])
@pytest.mark.parametrize(("gamma", "weight"), [(0.0, False), (2.0, True)])
def test_gradients_match_finite_differences(kind, gamma, weight):
    answers, batch = small(gamma=gamma, weight=weight)
    assert_gradients(shaken(GeoCrowdNetModule(dense(), answers, 1.0, kind, 0.5)), batch)


@pytest.mark.parametrize("kind", ["F", "W"])
def test_the_penalty_equals_its_formula(kind):
    answers, batch = small()
    module = shaken(GeoCrowdNetModule(dense(), answers, 1.0, kind, 0.5))
    plain = shaken(AnnoRegModule(dense(), answers, 1.0, 0.0))
    total = 0.0
    for m in range(2):
        F = module.class_log_proba(batch.x)[m].exp().detach().numpy()
        S = module.logits[4 * m : 4 * m + 3].softmax(1).mT.detach().numpy()  # without the worker who has no answers
        stacked = np.concatenate([s.T for s in S])  # (workers * labels, classes)
        gram = F.T @ F if kind == "F" else stacked.T @ stacked
        total += np.log(np.linalg.det(gram))
    assert module.loss(batch).item() == pytest.approx(plain.loss(batch).item() - 0.5 * total, rel=1e-9)


def test_log_volume_ignores_singular_matrices():
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(rng.normal(size=(3, 6, 4)))
    rows[1, :, 0] = rows[1, :, 1]  # two classes with equal probabilities
    rows[2, 2:] = 0  # two rows for four classes
    rows.requires_grad_()
    volume = log_volume(rows.mT @ rows)
    volume.sum().backward()
    regular = rows[0].detach().numpy()
    assert volume[0].item() == pytest.approx(np.linalg.slogdet(regular.T @ regular)[1])
    assert volume[1].item() == volume[2].item() == 0
    np.testing.assert_allclose(rows.grad[0], 2 * np.linalg.pinv(regular).T, atol=1e-9)
    np.testing.assert_array_equal(rows.grad[1:], 0)


def test_without_volume_it_equals_annoreg_without_penalty():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    plain = AnnoReg(0, start=1.0, epochs=3).fit(X, answers)
    for model in (GeoCrowdNet(None, epochs=3), GeoCrowdNet("W", lam=0, epochs=3)):
        np.testing.assert_allclose(model.fit(X, answers).proba_, plain.proba_, atol=1e-6)


def test_batches_smaller_than_the_classes_have_no_volume():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=40)
    plain, tiny = (GeoCrowdNet(kind, lam=1.0, batch_size=2, epochs=3).fit(X, answers) for kind in (None, "F"))
    np.testing.assert_array_equal(plain.proba_, tiny.proba_)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["F", "W"])
def test_recovers_confusion_matrices(kind, seed):
    confusion = simulate.crowd(8, 3, "class-dependent", accuracy=(0.4, 0.9), seed=seed)
    X, answers, _, _ = gaussian_crowd(confusion, seed)
    model = GeoCrowdNet(kind, **QUICK).fit(X, answers)
    assert np.abs(model.confusion_ - confusion).mean() < 0.06  # the distance of the identity is 0.18 to 0.21
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["F", "W"])
def test_beats_training_on_votes(kind, seed):
    X, answers, X_test, truth = gaussian_crowd(SPAM, seed)
    votes = Aggregated("majority-vote", soft=False, **QUICK).fit(X, answers)
    assert GeoCrowdNet(kind, **QUICK).fit(X, answers).score(X_test, truth) > votes.score(X_test, truth) + 0.2


@pytest.mark.parametrize("kind", ["F", "W"])
def test_the_volume_grows_with_lam(kind):
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=200, spread=1.0)

    def volume(model):
        rows = model.proba_ if kind == "F" else model.confusion_.transpose(0, 2, 1).reshape(-1, 3)
        return np.linalg.slogdet(rows.T @ rows)[1]

    longer = {**QUICK, "epochs": 120}  # F starts without volume, and grows it slowly
    without, with_it = (GeoCrowdNet(k, lam=0.1, **longer).fit(X, answers) for k in (None, kind))
    assert volume(with_it) > volume(without) + 0.3


def test_a_worker_without_answers_keeps_the_initial_matrix():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    more = cw.Answers.from_codes(answers.task, answers.worker, answers.label, tasks=100, workers=11, classes=3)
    start = np.exp(np.eye(3))
    model = GeoCrowdNet("W", lam=0.1, **QUICK).fit(X, more)
    np.testing.assert_allclose(model.confusion_[10], start / start.sum(axis=1), rtol=1e-6)


@pytest.mark.parametrize("kind", ["F", "W"])
def test_models_trained_together_equal_models_trained_alone(kind):
    answers, batch = small(n_models=3)
    assert_members_stand_alone(shaken(GeoCrowdNetModule(dense(3), answers, 1.0, kind, 0.5)), batch)
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    assert_members_differ(GeoCrowdNet(kind, n_models=3, epochs=2).fit(X, answers), X)


def test_the_same_seed_gives_the_same_result():
    X, answers, _, _ = gaussian_crowd(SPAM, 0, n_tasks=100)
    first, again, other = (GeoCrowdNet(epochs=2, random_state=s).fit(X, answers).proba_ for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


@pytest.mark.parametrize(("parameters", "message"), [({"kind": "f"}, "kind='f'"), ({"lam": -1}, "lam=-1")])
def test_invalid_use_is_rejected(parameters, message):
    with pytest.raises(ParameterError, match=message):
        GeoCrowdNet(**parameters).fit(*gaussian_crowd(SPAM, 0, n_tasks=20)[:2])
