"""Self-training: checkpoints, warm starts and saving."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.augment.dasc.resume import use_start_weights
from crowdwise.errors import ModelFileError, ParameterError
from crowdwise.learn.network.continuing import copy_weights
from tests.helpers.dasc_crowds import crowd, plain, tiny

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    return crowd()[:2]


def test_a_killed_fit_resumes_to_the_same_bits(data, tmp_path):
    X, answers = data
    for n, options in enumerate(({}, {"warm_start": True, "hidden": 0.2}, {"select": "random", "soft": True})):
        whole = plain(tiny(), iterations=3, **options).fit(X, answers)
        file = tmp_path / f"{n}.safetensors"

        def kill(record):
            if record["iteration"] == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            plain(tiny(), iterations=3, checkpoint=file, **options).fit(X, answers, callback=kill)
        told = []
        resumed = plain(tiny(), iterations=3, checkpoint=file, **options).fit(X, answers, callback=told.append)
        assert min(record["iteration"] for record in told) == 2
        np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
        assert resumed.model_.answers_ == whole.model_.answers_
        assert resumed.history_ == whole.history_
        assert list(tmp_path.glob("*.partial")) == []
        with pytest.raises(ModelFileError, match="other data or settings"):
            plain(tiny(lr=0.5), iterations=3, checkpoint=file, **options).fit(X, answers)


def test_a_warm_start_begins_with_the_last_network(data):
    X, answers = data
    still = {"epochs": 1, "lr": 1e-12}  # does not change the weights
    for base in (
        tiny,
        lambda **o: cw.DoctorNet(network=cw.MLP(8), weight_epochs=1, weight_lr=1e-12, **o),
        lambda **o: cw.AggNet(network=cw.MLP(8), **o),
    ):
        earlier = base(epochs=5).fit(X, answers)
        model = base(**still)
        with use_start_weights(copy_weights(earlier), model):
            model.fit(X, answers)
        np.testing.assert_allclose(model.predict_proba(X), earlier.predict_proba(X), atol=1e-5)
        assert "_module" not in vars(model)
    cold, warm = (plain(tiny(), iterations=2, warm_start=w).fit(X, answers) for w in (False, True))
    assert not np.array_equal(cold.predict_proba(X), warm.predict_proba(X))


def test_incompatible_start_weights_are_rejected(data):
    X, answers = data
    start = copy_weights(tiny().fit(X, answers))
    model = tiny()
    name = next(iter(start))
    with (
        use_start_weights({**start, "gone": start[name]}, model),
        pytest.raises(ParameterError, match="has no gone"),
    ):
        model.fit(X, answers)
    with use_start_weights({name: start[name][..., :1]}, model), pytest.raises(ParameterError, match="another shape"):
        model.fit(X, answers)


def test_invalid_checkpoints_are_rejected(data, tmp_path):
    with pytest.raises(ModelFileError, match=r"is a folder. Use the path of a file"):
        plain(tiny(), checkpoint=tmp_path).fit(*data)
    with pytest.raises(ModelFileError, match="its folder does not exist"):
        plain(tiny(), checkpoint=tmp_path / "no" / "where" / "state").fit(*data)
    assert list(tmp_path.iterdir()) == []


def test_save_and_load_keep_the_pool(data, tmp_path):
    X, answers = data
    model = plain(tiny(), iterations=1, soft=True).fit(X, answers)
    model.save(tmp_path / "m.safetensors")
    loaded = cw.load(tmp_path / "m.safetensors")
    assert loaded.answers_ == answers
    assert loaded.model_.answers_ == model.model_.answers_
    assert loaded.history_ == model.history_
    np.testing.assert_array_equal(loaded.member_proba(X), model.member_proba(X))
