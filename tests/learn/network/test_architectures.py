import numpy as np
import pytest
import torch
from torch import nn

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.learn.network.architectures import build_network
from crowdwise.learn.network.modules import BatchNorm, Dropout
from tests.helpers.crowds import answers_of, blobs, uneven


@pytest.mark.parametrize("network", [cw.Logistic(), cw.MLP(16), cw.MLP((8, 4), batchnorm=True)])
def test_the_logits_of_a_model_depend_only_on_its_own_weights_and_rows(network):
    four = build_network(network, (5,), 3, 4, seed=1).eval()
    x = torch.randn(4, 7, 5, generator=torch.Generator().manual_seed(0))
    one = build_network(network, (5,), 3, 4, seed=1).eval()
    one.keep([2])
    torch.testing.assert_close(one(x[2:3]), four(x)[2:3])


def test_batch_normalisation_equals_that_of_torch():
    ours, theirs = BatchNorm(2, 4), [nn.BatchNorm1d(4) for _ in range(2)]
    x = torch.randn(2, 9, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(x), torch.stack([norm(x[i]) for i, norm in enumerate(theirs)]))
    ours.eval()
    torch.testing.assert_close(ours(x), torch.stack([norm.eval()(x[i]) for i, norm in enumerate(theirs)]))


def test_dropout_preserves_the_mean_and_repeats_with_a_seed():
    layer = Dropout(0.3)
    x = torch.ones(1, 1000, 50)
    layer.reseed(5)
    first = layer(x)
    assert abs(float(first.mean()) - 1) < 0.02
    layer.reseed(5)
    torch.testing.assert_close(layer(x), first)
    torch.testing.assert_close(layer.eval()(x), x)


def test_the_scale_of_features_does_not_matter():
    X, truth = blobs()
    answers = answers_of(truth, uneven())
    scaled = X * np.array([1e4, 1e-4, 1, 100, 1, 1], np.float32) + 7
    plain = cw.CrowdLayer(epochs=5).fit(X, answers).predict_proba(X)
    np.testing.assert_allclose(cw.CrowdLayer(epochs=5).fit(scaled, answers).predict_proba(scaled), plain, atol=1e-3)


def test_constant_features_are_harmless():
    X, truth = blobs()
    answers = answers_of(truth, uneven())
    constant = np.column_stack([X, np.full(len(X), 3e5, np.float32)])
    assert np.isfinite(cw.CrowdLayer(epochs=2).fit(constant, answers).predict_proba(constant)).all()


def test_convolutions_learn_from_images():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    images = rng.normal(size=(200, 1, 16, 16)).astype(np.float32) * 0.3
    images[truth == 1, :, 2:6, 2:6] += 2
    answers = answers_of(truth, uneven(n_classes=2, good=(0.8, 0.95)))
    model = cw.CrowdLayer(epochs=12, lr=3e-3, batch_size=32, network=cw.CNN((8, 8), 16), n_models=2).fit(
        images, answers
    )
    assert model.score(images, truth) > 0.95
    assert model.member_proba(images).shape == (2, 200, 2)
    default = cw.CrowdLayer(epochs=1).fit(images, answers)  # images get a CNN by default
    assert type(default.module_.network.members[0]).__name__ == "Convolutions"


def test_a_users_module_is_copied_seeded_and_checked():
    X, truth = blobs()
    answers = answers_of(truth, uneven())
    module = nn.Sequential(nn.Linear(6, 16), nn.RReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    before = [p.clone() for p in module.parameters()]
    state = torch.random.get_rng_state()
    first = cw.CrowdLayer(epochs=10, lr=0.01, network=module).fit(X, answers)
    second = cw.CrowdLayer(epochs=10, lr=0.01, network=module).fit(X, answers)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))  # its dropout is seeded
    assert torch.equal(state, torch.random.get_rng_state())  # torch's generator is restored
    assert first.score(X, truth) > 0.85
    for old, new in zip(before, module.parameters(), strict=True):
        assert torch.equal(old, new)  # the user's module is unchanged
    with pytest.raises(ParameterError, match="shape"):
        cw.CrowdLayer(network=nn.Linear(5, 3)).fit(X, answers)
    with pytest.raises(ParameterError, match="network"):
        cw.CrowdLayer(network=cw.MLP).fit(X, answers)
    with pytest.raises(ParameterError, match="logits"):
        cw.CrowdLayer(network=nn.Linear(6, 5)).fit(X, answers)


def test_invalid_network_settings_are_rejected():
    X, truth = blobs(50)
    answers = answers_of(truth, uneven())
    for network, word in ((cw.MLP(0), "hidden"), (cw.MLP(dropout=1.0), "dropout"), (cw.CNN(), "MLP")):
        with pytest.raises(ParameterError, match=word):
            cw.CrowdLayer(network=network).fit(X, answers)
