"""Pruned: any learner without the most ambiguous tasks."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError

SMALL = cw.MLP(8, dropout=0.0)
QUICK = {"network": SMALL, "epochs": 3, "lr": 0.01}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 80)
    X = (3 * np.eye(3, 5)[truth] + rng.normal(size=(80, 5))).astype(np.float32)
    task = np.repeat(np.arange(80), 3)
    worker = np.argsort(rng.random((80, 6)), axis=1)[:, :3].ravel()
    label = np.where(rng.random(240) < 0.75, truth[task], rng.integers(0, 3, 240))
    return X, cw.Answers.from_codes(task, worker, label, tasks=80, workers=6, classes=3)


def test_equals_rank_prune_and_fit(data):
    X, answers = data
    model = cw.Pruned(cw.CrowdLayer(**QUICK), cw.WAUM(**QUICK), alpha=0.1).fit(X, answers)
    waum = cw.WAUM(**QUICK).fit(X, answers)
    kept = waum.prune(0.1)
    np.testing.assert_array_equal(model.scores_, waum.scores_)
    assert np.flatnonzero(~model.kept_).tolist() == sorted(kept.removed)
    left = answers.take(np.flatnonzero(model.kept_[answers.task]))
    base = cw.CrowdLayer(**QUICK).fit(X, left)
    np.testing.assert_array_equal(model.predict_proba(X), base.predict_proba(X))
    np.testing.assert_array_equal(model.answer_proba(X[:4]), base.answer_proba(X[:4]))
    np.testing.assert_array_equal(model.proba_, base.proba_)
    assert model.answers_ is answers
    assert model.ranking(5).equals(waum.ranking(5))
    np.testing.assert_array_equal(model.worker_trust_, waum.worker_trust_)
    assert [record["stage"] for record in model.history_] == ["ranking"] * 3 + ["fitting"] * 3


def test_removed_tasks_are_predicted(data):
    """Labels are those of the truth model on the kept tasks alone, as in the paper."""
    X, answers = data
    model = cw.Pruned(cw.Aggregated("wds", **QUICK), alpha=0.1).fit(X, answers)
    rows = np.flatnonzero(model.kept_)
    assert len(rows) == 72
    alone = cw.WDS().fit(answers[rows]).proba_  # the same up to where EM stops: tasks without answers slow it a little
    np.testing.assert_allclose(model.proba_[rows], alone, atol=1e-3)
    np.testing.assert_allclose(model.proba_[~model.kept_], model.predict_proba(X[~model.kept_]), atol=1e-7)


def test_a_ranker_given_by_name_takes_the_options_of_the_base(data):
    X, answers = data
    named = cw.Pruned(cw.CrowdLayer(random_state=5, **QUICK), random_state=3).fit(X, answers)
    np.testing.assert_array_equal(named.scores_, cw.WAUM(random_state=3, **QUICK).fit(X, answers).scores_)
    named = cw.Pruned(cw.CrowdLayer(**QUICK), "aum").fit(X, answers)
    np.testing.assert_array_equal(named.scores_, cw.AUM(**QUICK).fit(X, answers).scores_)


@pytest.mark.parametrize(
    "base",
    ["majority-vote", "wds", "crowdlayer", "conal", "aggnet", "raykar", "doctornet", "maxmig", "mbem", "crowdlab",
     "annoreg", "aggregated(dawid-skene)", cw.Aggregated("glad", "logistic", epochs=2), cw.DawidSkene()],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")
def test_every_kind_of_base(base, data):
    X, answers = data
    model = cw.Pruned(base, cw.WAUM(SMALL, epochs=2), alpha=0.05)
    if isinstance(base, str) and not base.startswith(("majority", "wds")):
        made = cw.make(base)
        few = {name: 2 for name in ("epochs", "weight_epochs", "max_iter", "rounds") if name in made.get_params()}
        model.set_params(base=made.set_params(**few))
    model.fit(X, answers)
    assert (~model.kept_).sum() == 4
    np.testing.assert_allclose(model.proba_.sum(axis=1), 1, atol=1e-6)
    assert model.predict(X).shape == (80,)


def test_workers_and_classes_seen_only_in_removed_tasks(data):
    X, answers = data
    others = answers.task != 7  # task 7 has a fourth class by a seventh worker, which a network cannot learn
    task, worker, label = (
        np.append(c[others], x) for c, x in zip((answers.task, answers.worker, answers.label), (7, 6, 3), strict=True)
    )
    known = cw.Answers.from_codes(task, worker, label, tasks=80, workers=7, classes=4)
    model = cw.Pruned(cw.CrowdLayer(network=SMALL, epochs=20, lr=0.01), alpha=0.2).fit(X, known)
    assert not model.kept_[7]
    assert model.proba_.shape == (80, 4)
    assert model.answer_proba(X[:2]).shape == (2, 7, 4)


def test_tasks_with_gold_are_kept(data):
    X, answers = data
    plain = cw.Pruned(cw.Aggregated("wds", **QUICK), alpha=0.1).fit(X, answers)
    out = np.flatnonzero(~plain.kept_)
    gold = np.full(80, -1, np.int32)
    gold[out[:3]] = 2
    told = cw.Pruned(cw.Aggregated("wds", **QUICK), alpha=0.1).fit(X, answers, gold=gold)
    assert np.flatnonzero(~told.kept_).tolist() == out[3:].tolist()
    assert (told.proba_[out[:3], 2] == 1).all()


def test_soft_weights_tasks_instead_of_removing_them(data):
    X, answers = data
    weight = np.random.default_rng(0).uniform(0.5, 2, 80)
    soft = cw.Pruned(cw.CrowdLayer(**QUICK), soft=True, alpha=0.2).fit(X, answers, sample_weight=weight)
    assert soft.kept_.all()
    by_hand = cw.WAUM(**QUICK).fit(X, answers, sample_weight=weight).weights(0.2) * weight
    np.testing.assert_allclose(
        soft.predict_proba(X), cw.CrowdLayer(**QUICK).fit(X, answers, sample_weight=by_hand).predict_proba(X), atol=1e-6
    )


def test_random_control_with_soft_weights(data):
    X, answers = data
    soft = cw.Pruned(cw.CrowdLayer(**QUICK), soft=True, random=True, alpha=0.2).fit(X, answers)
    waum = cw.WAUM(**QUICK).fit(X, answers)
    dealt, own = (
        cw.CrowdLayer(**QUICK).fit(X, answers, sample_weight=waum.weights(0.2, random=r)).predict_proba(X)
        for r in (True, False)
    )
    np.testing.assert_allclose(soft.predict_proba(X), dealt, atol=1e-6)
    assert np.abs(soft.predict_proba(X) - own).max() > 1e-4


def test_default_alpha(data):
    for soft, alpha in ((False, 0.01), (True, 0.1)):
        plain, told = (cw.Pruned(cw.CrowdLayer(**QUICK), soft=soft, alpha=a).fit(*data) for a in (None, alpha))
        np.testing.assert_array_equal(plain.predict_proba(data[0]), told.predict_proba(data[0]))
        assert plain.kept_.sum() == (80 if soft else 79)


def test_random_control(data):
    X, answers = data
    models = [cw.Pruned(cw.CrowdLayer(**QUICK), alpha=0.2, random=r).fit(X, answers) for r in (False, True)]
    assert [int((~model.kept_).sum()) for model in models] == [16, 16]
    assert not np.array_equal(models[0].kept_, models[1].kept_)


def test_names_of_the_registry_and_the_command_line(data, tmp_path):
    X, answers = data
    for name, kind in (("waum(conal)", cw.CoNAL), ("waum(dawid-skene)", cw.Aggregated), ("waum(wds)", cw.Aggregated)):
        model = cw.make(name, alpha=0.1)
        if "conal" in name:
            model.set_params(base__epochs=2)
        assert isinstance(model.fit(X, answers).model_, kind)
    assert isinstance(cw.make("waum").base.truth, str)
    assert cw.make("waum").set_params(base__epochs=2).base.epochs == 2


def test_save_and_load(data, tmp_path):
    X, answers = data
    model = cw.Pruned(cw.CrowdLayer(**QUICK), "aum", alpha=0.1).fit(X, answers)
    model.save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model")
    assert loaded.ranking().equals(model.ranking())
    np.testing.assert_array_equal(loaded.kept_, model.kept_)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.prune(0.3).rows.tolist() == model.prune(0.3).rows.tolist()


def test_callback_names_the_stage(data):
    told = []
    cw.Pruned(cw.CrowdLayer(**QUICK)).fit(*data, callback=told.append)
    assert [(record["stage"], record["epoch"]) for record in told] == [
        *(("ranking", n) for n in (1, 2, 3)),
        *(("fitting", n) for n in (1, 2, 3)),
    ]


def test_invalid_arguments_are_rejected(data):
    X, answers = data
    for name, values in {
        "alpha": (1, -1, "a"), "by": ("wam", 3, cw.CrowdLayer()), "base": (3, cw.WAUM), "random": ("no", 1),
        "soft": ("maybe", 0),
    }.items():  # fmt: skip
        for value in values:
            with pytest.raises(ParameterError, match=name):
                cw.Pruned(**{"base": cw.CrowdLayer(**QUICK), name: value}).fit(X, answers)
    for alpha in (0, 1, 50):
        with pytest.raises(ParameterError, match="above 0 and below 1"):
            cw.Pruned(soft=True, alpha=alpha).fit(X, answers)
