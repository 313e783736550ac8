import os

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.errors import BusyError, ModelFileError, ParameterError, TrainingError, UnknownIdError
from crowdwise.learn.features import open_features
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.checkpoint import fit_fingerprint
from crowdwise.learn.network.training import rate_factor
from tests.helpers.crowds import answers_of, blobs, uneven


@pytest.fixture(scope="module")
def data():
    X, truth = blobs(n_tasks=150)
    return X, answers_of(truth, uneven()), truth


def batches(X, answers, **options):
    return Batches(open_features(X), answers, **{"batch_size": 16, **options})


# Batches


def test_an_epoch_contains_every_answer_once(data):
    X, answers, _ = data
    seen = []
    for batch in batches(X, answers).epoch(3):
        assert batch.x.shape[1] <= 16
        np.testing.assert_array_equal(batch.x[0].numpy(), X[batch.task])
        seen += list(zip(batch.task[batch.row], batch.worker, batch.label, strict=True))
    assert sorted(seen) == sorted(zip(answers.task, answers.worker, answers.label, strict=True))


def test_each_model_has_its_own_batches(data):
    X, answers, _ = data
    tasks = [[], [], []]
    for batch in batches(X, answers, n_models=3).epoch(0):
        rows = batch.task.reshape(3, -1)
        model = batch.row // rows.shape[1]
        np.testing.assert_array_equal(batch.worker // answers.n_workers, model)
        codes = list(zip(batch.task[batch.row], batch.worker % answers.n_workers, batch.label, strict=True))
        known = set(zip(answers.task, answers.worker, answers.label, strict=True))
        assert set(codes) <= known
        for m in range(3):
            tasks[m] += rows[m].tolist()
    assert sorted(tasks[0]) == sorted(tasks[1]) == list(range(150))
    assert tasks[0] != tasks[1]


def test_batches_have_similar_sizes(data):
    X, answers, _ = data
    sizes = [len(batch.task) for batch in batches(X, answers, batch_size=149).epoch(0)]
    assert sizes == [75, 75]


def test_weights_of_tasks_and_answers_are_multiplied(data):
    X, answers, _ = data
    by_answer, by_task = np.random.default_rng(0).uniform(0.5, 2, answers.n_answers), np.arange(150) % 3
    code = {key: a for a, key in enumerate(zip(answers.task, answers.worker, strict=True))}
    for batch in batches(X, answers, weight=by_answer, task_weight=by_task).epoch(0):
        task = batch.task[batch.row]
        rows = [code[key] for key in zip(task, batch.worker, strict=True)]
        expected = by_answer[rows] / by_answer.mean() * by_task[task] / by_task[by_task > 0].mean()
        np.testing.assert_allclose(batch.weight, expected, rtol=1e-5)
        np.testing.assert_allclose(batch.task_weight, by_task[batch.task] / by_task[by_task > 0].mean(), rtol=1e-6)


def some_pools(answers):
    """Three subsets of the answers; in the second, some tasks have none."""
    rng = np.random.default_rng(0)
    keep = [rng.random(answers.n_answers) < share for share in (0.9, 0.2, 0.6)]
    return [answers.take(np.flatnonzero(each)) for each in keep]


@pytest.mark.parametrize("resample", [False, True])
def test_each_model_samples_from_its_own_pool(data, resample):
    X, answers, _ = data
    pools = some_pools(answers)
    own = [np.random.default_rng(m).uniform(0.5, 2, pool.n_answers) for m, pool in enumerate(pools)]
    seen = {}
    for batch in batches(X, pools, n_models=3, weight=own, resample=resample).epoch(1):
        rows = len(batch.task) // 3
        model = batch.row // rows
        count = np.bincount(model, minlength=3)
        for m in np.unique(model):
            pool, mine = pools[m], model == m
            np.testing.assert_array_equal(batch.x[m].numpy(), X[batch.task[m * rows : (m + 1) * rows]])
            keys = zip(
                batch.task[batch.row[mine]], batch.worker[mine] - m * pool.n_workers, batch.label[mine], strict=True
            )
            scale = len(model) / 3 / count[m]  # turns the mean over all answers into that of the model
            seen |= {(m, *key): w / scale for key, w in zip(keys, batch.weight[mine], strict=True)}
    for m, pool in enumerate(pools):
        keys = [(m, *key) for key in zip(pool.task, pool.worker, pool.label, strict=True)]
        weights = np.array([seen.pop(key) for key in keys])
        if resample:
            np.testing.assert_allclose(weights.sum(), pool.n_answers, rtol=1e-5)  # as many samples as answers
        else:
            np.testing.assert_allclose(weights, own[m] / own[m].mean(), rtol=1e-5)
    assert not seen


def test_the_loss_sums_the_means_of_the_pools(data):
    X, answers, _ = data
    rng = np.random.default_rng(0)
    for batch in batches(X, some_pools(answers), n_models=3, gamma=2.0).epoch(0):
        log_p = torch.from_numpy(-rng.exponential(size=len(batch.row)).astype(np.float32))
        model, loss = batch.row // (len(batch.task) // 3), (1 - log_p.exp()) ** 2 * -log_p
        means = [loss[model == m].mean() for m in np.unique(model)]
        np.testing.assert_allclose(batch.answer_loss(log_p), sum(means), rtol=1e-5)


def test_resampling_balances_the_labels():
    X, truth = blobs(n_tasks=2000, shares=[0.8, 0.15, 0.05])
    answers = answers_of(truth, uneven(good=(0.9, 0.95)))
    drawn = np.zeros(3)
    for epoch in range(3):
        for batch in batches(X, answers, resample=True, batch_size=500).epoch(epoch):
            drawn += np.bincount(batch.label, batch.weight, minlength=3)
    np.testing.assert_allclose(drawn / drawn.sum(), 1 / 3, atol=0.03)


# The training loop


def test_a_resumed_run_equals_an_uninterrupted_one(data, tmp_path):
    X, answers, _ = data
    options = {"epochs": 6, "batch_size": 32, "lr": 0.01, "scheduler": "cosine", "select": "held_out", "n_models": 2}
    expected = cw.CrowdLayer(**options).fit(X, answers)

    class Killed(Exception):
        pass

    def kill(record):
        if record["epoch"] == 4:
            raise Killed

    resumed = cw.CrowdLayer(checkpoint=str(tmp_path / "a" / "state.safetensors"), **options)
    with pytest.raises(Killed):
        resumed.fit(X, answers, callback=kill)
    epochs = []
    resumed.fit(X, answers, callback=lambda record: epochs.append(record["epoch"]))
    assert epochs == [4, 5, 6]  # the fourth was not saved before the run was killed
    np.testing.assert_array_equal(resumed.predict_proba(X), expected.predict_proba(X))
    assert resumed.history_ == expected.history_
    again = cw.CrowdLayer(checkpoint=str(tmp_path / "a" / "state.safetensors"), **options).fit(X, answers)
    np.testing.assert_array_equal(again.predict_proba(X), expected.predict_proba(X))


def test_a_run_with_a_scheduler_function_can_be_resumed(data, tmp_path):
    X, answers, _ = data
    path = str(tmp_path / "state.safetensors")
    first = cw.CrowdLayer(epochs=1, scheduler=lambda done: 1 - done, checkpoint=path).fit(X, answers)
    again = cw.CrowdLayer(epochs=1, scheduler=lambda done: 1 - done, checkpoint=path).fit(X, answers)
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))


def test_fingerprints_cover_parameters_but_not_the_weights_of_a_network(data):
    X, answers, _ = data
    prior, network = np.zeros(5000), torch.nn.Linear(4, 2)
    settings = {"prior": prior, "network": network, "base": cw.CrowdLayer(network=network), "scheduler": str.lower}

    def digest(**changed):
        return fit_fingerprint(answers, open_features(X), {**settings, **changed})

    assert digest(network=torch.nn.Linear(4, 2), base=cw.CrowdLayer(network=torch.nn.Linear(4, 2))) == digest()
    other = prior.copy()
    other[2500] = 1e-9  # not visible in the repr of numpy
    changes = [{}, {"prior": other}, {"network": torch.nn.Linear(4, 3)}, {"scheduler": str.upper}]
    assert len({digest(**changed) for changed in changes}) == 4


def test_a_checkpoint_in_use_is_locked(data, tmp_path):
    X, answers, _ = data
    path = str(tmp_path / "state.safetensors")

    def fit_again(record):
        with pytest.raises(BusyError, match=rf"state.safetensors is in use by process {os.getpid()}"):
            cw.CrowdLayer(epochs=1, checkpoint=path).fit(X, answers)
        cw.CrowdLayer(epochs=1, checkpoint=f"{path}-other").fit(X, answers)

    (tmp_path / ".state.safetensors.lock").write_text("{")  # left by a killed process
    cw.CrowdLayer(epochs=1, checkpoint=path).fit(X, answers, callback=fit_again)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state.safetensors", "state.safetensors-other"]


def test_checkpoints_of_other_fits_are_rejected(data, tmp_path):
    X, answers, _ = data
    path = str(tmp_path / "state.safetensors")
    cw.CrowdLayer(epochs=1, checkpoint=path).fit(X, answers)
    with pytest.raises(ModelFileError, match="other data or settings"):
        cw.CrowdLayer(epochs=2, checkpoint=path).fit(X, answers)
    with pytest.raises(ModelFileError, match="other data or settings"):
        cw.CrowdLayer(epochs=1, checkpoint=path).fit(X + 1, answers)
    with pytest.raises(ModelFileError, match="other data or settings"):
        cw.CrowdLayer(epochs=1, checkpoint=path).fit(X, answers, sample_weight=np.arange(1, 151))
    (tmp_path / "state.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ModelFileError, match="Delete it"):
        cw.CrowdLayer(epochs=1, checkpoint=path).fit(X, answers)


def test_a_model_trained_with_others_equals_the_same_model_alone(data):
    X, answers, _ = data
    options = {"epochs": 3, "lr": 0.01, "network": cw.MLP(16, dropout=0.0, batchnorm=True), "weight_decay": 1e-3}
    alone = cw.CrowdLayer(**options).fit(X, answers).predict_proba(X)
    first = cw.CrowdLayer(n_models=5, **options).fit(X, answers).member_proba(X)[0]
    np.testing.assert_allclose(first, alone, atol=1e-4)


def test_all_sources_of_features_train_the_same_model(data, tmp_path):
    X, answers, _ = data
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = cw.CrowdLayer(epochs=2).fit(X, answers)
    for source in (mapped, tmp_path / "X.npy", X.astype(np.float64), torch.from_numpy(X)):
        np.testing.assert_array_equal(
            cw.CrowdLayer(epochs=2).fit(source, answers).predict_proba(X), model.predict_proba(X)
        )


def test_datasets_train_the_same_model_as_arrays(data):
    X, answers, truth = data
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(truth))
    model = cw.CrowdLayer(epochs=2).fit(dataset, answers)
    np.testing.assert_array_equal(
        model.predict_proba(X), cw.CrowdLayer(epochs=2).fit(X, answers).predict_proba(dataset)
    )


def test_validation_selects_the_most_accurate_epoch(data):
    X, answers, truth = data
    model = cw.CrowdLayer(epochs=10, lr=0.01, select="validation", patience=3).fit(X, answers, validation=(X, truth))
    scores = [record["validation"] for record in model.history_]
    assert model.score(X, truth) == max(scores)
    with pytest.raises(ParameterError, match="validation"):
        cw.CrowdLayer(select="validation").fit(X, answers)
    with pytest.raises(UnknownIdError, match="none of the labels"):
        cw.CrowdLayer(select="validation").fit(X, answers, validation=(X, truth.astype(str)))
    with pytest.raises(ParameterError, match="select='validation'"):
        cw.CrowdLayer().fit(X, answers, validation=(X, truth))
    with pytest.raises(ParameterError, match=r"150 rows.*3 labels"):
        cw.CrowdLayer(select="validation").fit(X, answers, validation=(X, truth[:3]))


def test_the_selected_epoch_has_the_recorded_held_out_likelihood(data):
    X, answers, _ = data
    model = cw.CrowdLayer(epochs=12, lr=0.02, select="held_out", hidden=0.3).fit(X, answers)
    from crowdwise.truth.vote_check import split_answers

    _, held_out = split_answers(answers, 0.3, 0)
    best = max(record["held_out"] for record in model.history_)
    np.testing.assert_allclose(model.answer_log_likelihood(X, held_out).mean(), best, atol=1e-5)


def test_patience_stops_the_training(data):
    X, answers, _ = data
    rng = np.random.default_rng(0)
    noise = cw.CrowdLayer(epochs=200, lr=0.05, select="held_out", patience=5).fit(rng.normal(size=X.shape), answers)
    assert len(noise.history_) < 200


def test_history_and_callback_get_the_same_losses(data):
    X, answers, _ = data
    seen = []
    model = cw.CrowdLayer(epochs=3).fit(X, answers, callback=seen.append)
    assert [record["epoch"] for record in model.history_] == [1, 2, 3]
    assert [record["loss"] for record in seen] == [record["loss"] for record in model.history_]
    assert all("seconds" in record for record in seen)
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]


def test_a_loss_that_is_not_finite_is_an_error(data):
    X, answers, _ = data

    class Broken(torch.nn.Linear):
        def forward(self, x):
            return torch.log(super().forward(x))  # NaN for negative values

    for kind in ("mw", "vw"):  # the fused loss and torch's
        with pytest.raises(TrainingError, match="Lower lr"):
            cw.CrowdLayer(kind, epochs=2, network=Broken(6, 3)).fit(X, answers)


def test_clipping_limits_the_gradient_step(data):
    X, answers, _ = data
    start = cw.CrowdLayer(epochs=1, lr=1e-9, optimizer="sgd").fit(X, answers).predict_proba(X)
    free = cw.CrowdLayer(epochs=1, lr=1.0, optimizer="sgd").fit(X, answers).predict_proba(X)
    clipped = cw.CrowdLayer(epochs=1, lr=1.0, optimizer="sgd", clip=1e-6).fit(X, answers).predict_proba(X)
    assert np.abs(free - start).max() > 0.1
    np.testing.assert_allclose(clipped, start, atol=1e-3)


def test_weight_decay_applies_to_the_network_only(data):
    X, answers, _ = data
    model = cw.CrowdLayer(epochs=30, lr=0.01, weight_decay=10.0, network="logistic").fit(X, answers)
    assert model.module_.network.head.weight.abs().max() < 0.05
    assert model.module_.matrix.diagonal(dim1=1, dim2=2).min() > 0.5


def test_schedules_give_their_factors():
    assert rate_factor(None, 0.7) == 1
    assert rate_factor("step", 0.5) == pytest.approx(0.1)
    assert rate_factor(lambda done: 1 - done, 0.25) == 0.75
    cycle = [rate_factor("cyclic", d) for d in np.linspace(0, 0.99, 100)]
    assert min(cycle) == pytest.approx(0.1, abs=0.05)
    assert max(cycle) == 1
    assert np.sum(np.diff(np.sign(np.diff(cycle))) > 0) == 5  # five cycles
    with pytest.raises(ParameterError, match="cosine"):
        rate_factor("linear", 0.5)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("epochs", 0), ("epochs", 1.5), ("batch_size", 0), ("lr", 0), ("weight_decay", -1), ("optimizer", "lbfgs"),
     ("loss", "hinge"), ("sampling", "all"), ("select", "best"), ("n_models", 0), ("random_state", -1),
     ("network", "resnet"), ("network", 3), ("scheduler", "linear"), ("device", "gpu"), ("device", "cuda:7"),
     ("lr", "fast"), ("clip", -1), ("clip", 0), ("patience", 0), ("hidden", 0), ("hidden", 1.5), ("epochs", "5")],
)  # fmt: skip
def test_invalid_options_are_rejected(data, parameter, value):
    X, answers, _ = data
    with pytest.raises(ParameterError, match=parameter):
        cw.CrowdLayer(**{parameter: value}).fit(X, answers)
    with pytest.raises(ParameterError, match="learning_rate"):
        cw.CrowdLayer(learning_rate=0.1)
