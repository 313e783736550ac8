import numpy as np
import pytest
import torch
from scipy.special import softmax

import crowdwise as cw
from crowdwise.errors import ParameterError
from tests.helpers.crowds import answers_of, blobs, swapping, uneven


@pytest.fixture(scope="module")
def data():
    X, truth = blobs(n_tasks=120)
    return X, answers_of(truth, uneven()), truth


def test_recovers_confusion_and_beats_the_vote():
    for seed in range(2):
        X, truth = blobs(n_tasks=800, distance=3, seed=seed)
        confusion = swapping()
        answers = answers_of(truth, confusion, seed=seed)
        options = {"epochs": 25, "lr": 0.01, "network": cw.MLP(16)}
        model = cw.AggNet(**options).fit(X, answers)
        assert np.abs(model.confusion_ - confusion).mean() < 0.05
        assert (model.labels_ == truth).mean() > (cw.MajorityVote().fit(answers).labels_ == truth).mean() + 0.05
        X_new, new = blobs(n_tasks=800, distance=3, seed=seed + 50)
        assert model.score(X_new, new) > cw.Aggregated(soft=False, **options).fit(X, answers).score(X_new, new)


def test_a_long_training_with_a_linear_network_approaches_raykar():
    """A logistic network trained to the end in each round is Raykar's model."""
    X, truth = blobs(n_tasks=200, distance=1.5)
    answers = answers_of(truth, uneven())
    network = cw.AggNet(
        network="logistic", epochs=600, epochs_per_round=20, batch_size=200, lr=0.05, weight_decay=0.0
    ).fit(X, answers)
    closed = cw.Raykar(ridge=1e-6, max_iter=30, tol=0).fit(X, answers)
    np.testing.assert_allclose(network.proba_, closed.proba_, atol=0.03)


@pytest.mark.parametrize(
    "options", [{}, {"cross_fit": 3, "n_models": 2}, {"select": "held_out"}, {"prior": "hierarchical"}]
)
def test_a_resumed_fit_equals_an_uninterrupted_one(data, tmp_path, options):
    X, answers, _ = data
    settings = {"epochs": 6, "batch_size": 40, "lr": 0.01, "epochs_per_round": 2, **options}
    expected = cw.AggNet(**settings).fit(X, answers)

    def kill(record):
        if record["epoch"] == 4:
            raise KeyboardInterrupt

    path = str(tmp_path / "state.safetensors")
    interrupted = cw.AggNet(checkpoint=path, **settings)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X, answers, callback=kill)
    interrupted.fit(X, answers)
    np.testing.assert_array_equal(interrupted.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_allclose(interrupted.proba_, expected.proba_, atol=1e-6)  # labels are stored as float32
    assert interrupted.history_ == expected.history_


def test_cross_fitting_hides_the_answers_of_a_task_from_its_classifier():
    _, truth = blobs(n_tasks=150)
    answers = answers_of(truth, uneven(good=(0.5, 0.7)))
    names = np.eye(150, dtype=np.float32)
    options = {"epochs": 40, "lr": 0.05, "network": cw.Logistic(standardise=False)}
    heart, apart = cw.AggNet(**options).fit(names, answers), cw.AggNet(cross_fit=5, **options).fit(names, answers)
    assert heart.proba_.max(axis=1).mean() > apart.proba_.max(axis=1).mean() + 0.02


def test_a_fold_without_weight_is_accepted(data):
    X, answers, _ = data
    weight = np.zeros(120)
    weight[:3] = 1
    assert np.isfinite(cw.AggNet(cross_fit=5, epochs=2).fit(X, answers, sample_weight=weight).proba_).all()


def test_predictions_use_the_calibrated_temperature(data):
    X, answers, _ = data
    model = cw.AggNet(cross_fit=3, epochs=6, lr=0.01, calibrate=True).fit(X, answers)
    logits = model.module_.network(torch.from_numpy(X)[None])[0].detach().double().numpy()
    expected = softmax(logits / float(model.module_.temperature[0]), axis=1)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


def test_models_with_folds_are_independent(data):
    """Two cross-fitted models trained together equal the models trained alone."""
    X, answers, _ = data
    options = {"epochs": 4, "lr": 0.01, "cross_fit": 3, "network": cw.MLP(8, dropout=0.0)}
    both = cw.AggNet(n_models=2, **options).fit(X, answers)
    assert both.member_proba(X).shape == (2, 120, 3)
    alone = cw.AggNet(**options).fit(X, answers)
    np.testing.assert_allclose(both.member_proba(X)[0], alone.predict_proba(X), atol=1e-4)
    assert np.abs(both.member_proba(X)[0] - both.member_proba(X)[1]).max() > 1e-3
    assert both.module_.n_models == both.module_.network.n_models == 2


def test_gold_is_kept_and_settings_are_checked(data):
    X, answers, truth = data
    gold = np.where(np.arange(120) < 20, (truth + 1) % 3, -1).astype(np.int32)
    model = cw.AggNet(epochs=3).fit(X, answers, gold=gold)
    np.testing.assert_array_equal(model.codes_[:20], gold[:20])
    for parameters, word in (
        ({"epochs": 5, "epochs_per_round": 2}, "epochs_per_round"), ({"calibrate": True}, "cross_fit"),
        ({"loss": "focal"}, "loss"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=word):
            cw.AggNet(**parameters).fit(X, answers)
