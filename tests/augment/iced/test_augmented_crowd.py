"""The decoder, and real and synthetic tasks together."""

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.answers import Answers
from crowdwise.augment.iced.augmented_crowd import LabelModule, append_tasks, assign_task_ids
from crowdwise.augment.iced.decoder import Autoencoder, encode
from crowdwise.errors import FeaturesError, ParameterError
from crowdwise.learn.features import open_features
from crowdwise.learn.features.base import MoreRows, SomeRows
from crowdwise.learn.network.architectures import build_network
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.training import Settings


def some_answers(n_tasks, label=None):
    label = np.arange(n_tasks) % 2 if label is None else label
    return Answers.from_codes(np.arange(n_tasks), np.zeros(n_tasks, int), label, tasks=n_tasks, workers=1, classes=2)


class TestDecoder:
    def low_rank(self, n_models=1):
        rng = np.random.default_rng(0)
        X = (rng.normal(size=(300, 3)) @ rng.normal(size=(3, 10)) * 5 + 7).astype(np.float32)
        features = open_features(X)
        network = build_network(cw.MLP(32, dropout=0.0, standardise=False), (10,), 2, n_models, 0)
        batches = Batches(features, some_answers(300), batch_size=32)
        return X, features, Autoencoder(network, features, 0), batches

    @pytest.mark.parametrize("n_models", [1, 2])
    def test_decoding_reverses_encoding(self, n_models):
        X, features, model, batches = self.low_rank(n_models)
        model.train_on(batches, Settings(lr=0.01), 30, phase=1)
        z = encode(model.network, features, "cpu")
        assert z.shape == (300, 32 * n_models)
        assert np.square(model.decode(z) - X).sum() < 0.03 * np.square(X - X.mean(axis=0)).sum()

    def test_the_encoder_does_not_change(self):
        X, features, model, batches = self.low_rank()
        network = {name: value.clone() for name, value in model.network.state_dict().items()}
        z = encode(model.network, features, "cpu")
        before = np.square(model.decode(z) - X).sum()
        model.train_on(batches, Settings(lr=0.01), 10, phase=1)
        assert np.square(model.decode(z) - X).sum() < 0.2 * before
        assert all(torch.equal(value, network[name]) for name, value in model.network.state_dict().items())

    def test_images_are_rejected(self):
        features = open_features(np.zeros((4, 1, 8, 8), np.float32))
        network = build_network(cw.MLP(4), (1, 8, 8), 2, 1, 0)
        with pytest.raises(FeaturesError, match=r"\(1, 8, 8\).*decode=False"):
            Autoencoder(network, features, 0)


class TestModule:
    def setting(self, n_models):
        """Four real tasks, two made from tasks 3 and 0."""
        rng = np.random.default_rng(1)
        X = rng.normal(size=(4, 5)).astype(np.float32)
        features = SomeRows(open_features(X), np.array([0, 1, 2, 3, 3, 0]))
        network = build_network(cw.MLP(6, dropout=0.0, standardise=False), (5,), 2, n_models, 0)
        module = LabelModule(network, 3)
        made = rng.normal(size=(2, n_models * 6)).astype(np.float32)
        batch = next(iter(Batches(features, some_answers(6), batch_size=6, n_models=n_models).epoch(0)))
        return X, module, made, batch, np.array([0, 1, 1, 0, 1, 0])

    @pytest.mark.parametrize("n_models", [1, 2])
    def test_loss_by_hand(self, n_models):
        """Real tasks pass the full network, synthetic ones start in each model's hidden layer."""
        X, module, made, batch, labels = self.setting(n_models)
        module.learn(np.eye(2)[labels], made)
        expected = 0.0
        with torch.no_grad():
            hidden = module.network.embed(torch.from_numpy(X)[None].expand(n_models, 4, 5))
            for m in range(n_models):
                z = torch.cat([hidden[m], torch.from_numpy(made[:, 6 * m : 6 * m + 6])])
                logits = module.network.classify(z[None].expand(n_models, 6, 6))[m]
                expected += float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)))
        np.testing.assert_allclose(float(module.loss(batch).detach()), expected, rtol=1e-5)

    def test_synthetic_tasks_train_only_the_last_layer(self):
        _, module, made, batch, labels = self.setting(1)
        torch.nn.init.normal_(module.network.head.weight, generator=torch.Generator().manual_seed(0))
        gradients = []
        for points in (made, made + 1):
            module.zero_grad()
            module.learn(np.eye(2)[labels], points)
            module.loss(batch).backward()
            gradients.append([p.grad.clone() for p in (module.network.layers[0].weight, module.network.head.weight)])
        torch.testing.assert_close(gradients[0][0], gradients[1][0])
        assert (gradients[0][1] - gradients[1][1]).abs().max() > 1e-3

    def test_decoded_tasks_train_the_full_network(self):
        """Without hidden layers, synthetic tasks are used through their features."""
        _, module, _, batch, labels = self.setting(1)
        module.learn(np.eye(2)[labels])
        logits = module.network(batch.x)[0]
        expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels[batch.task]))
        np.testing.assert_allclose(float(module.loss(batch).detach()), float(expected.detach()), rtol=1e-5)

    def test_answers_through_confusion(self):
        """f = (0.8, 0.2); worker 2 says 1 of class 0 with 0.3, of class 1 with 0.9: 0.8 * 0.3 + 0.2 * 0.9 = 0.42."""
        _, module, *_ = self.setting(2)
        confusion = np.full((3, 2, 2), 0.5)
        confusion[2] = [[0.7, 0.3], [0.1, 0.9]]
        module.set_workers(confusion, np.ones(2))
        log_f = torch.log(torch.tensor([[0.8, 0.2], [0.8, 0.2]]))
        said = module.answer_log_proba(torch.empty(0), log_f, torch.tensor([0, 1]), torch.tensor([2, 5])).exp()
        np.testing.assert_allclose(said, [[0.58, 0.42]] * 2, rtol=1e-6)
        module.set_workers(confusion, np.array([1, 8]) / 4.5)  # class 1 is more frequent among the real tasks: 1/3, 2/3
        said = module.answer_log_proba(torch.empty(0), log_f, torch.tensor([0]), torch.tensor([2])).exp()
        np.testing.assert_allclose(said, [[0.7 / 3 + 0.2 / 3, 0.3 / 3 + 1.8 / 3]], rtol=1e-6)


class TestTogether:
    def test_synthetic_tasks_are_appended(self):
        real, made = some_answers(3), some_answers(2, np.array([1, 1]))
        both = append_tasks(real, made)
        assert both.task.tolist() == [0, 1, 2, 3, 4]
        assert both.label.tolist() == [0, 1, 0, 1, 1]
        assert both.weight is None

    def test_new_ids(self):
        made = some_answers(2)
        for ids, expected in (
            ([7, 3], [8, 9]),
            (["a", "b"], ["synthetic-0", "synthetic-1"]),
            (["synthetic-0", "b"], ["more-synthetic-0", "more-synthetic-1"]),
        ):
            real = Answers.from_codes([0, 1], [0, 0], [0, 1], tasks=ids, workers=["w"], classes=["n", "y"])
            assert assign_task_ids(made, real).tasks.tolist() == expected
            assert real.merge(assign_task_ids(made, real), pseudo=True).tasks.tolist() == ids + expected
        real = Answers.from_codes([0, 1], [0, 0], [0, 1], tasks=[True, False], workers=["w"], classes=["n", "y"])
        with pytest.raises(ParameterError, match="booleans"):
            assign_task_ids(made, real)

    def test_some_rows(self):
        features = SomeRows(open_features(np.arange(6.0).reshape(3, 2)), np.array([2, 0, 2]))
        assert features.n_rows == 3
        assert features.matrix().tolist() == [[4, 5], [0, 1], [4, 5]]

    def test_more_rows_come_after_the_others(self):
        features = MoreRows(open_features(np.arange(6.0).reshape(3, 2)), np.full((2, 2), 9, np.float32))
        assert (features.n_rows, features.shape) == (5, (2,))
        assert features.rows(np.array([4, 1, 3, 0])).tolist() == [[9, 9], [2, 3], [9, 9], [0, 1]]
        assert features.matrix().tolist() == [[0, 1], [2, 3], [4, 5], [9, 9], [9, 9]]
