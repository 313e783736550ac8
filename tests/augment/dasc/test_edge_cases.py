"""Self-training of several networks at once, each with its own pseudo-answers."""

import json

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.augment.dasc import dasc
from crowdwise.augment.dasc.pseudo_answers import PseudoAnswers, merge_pseudo_answers
from crowdwise.augment.dasc.resume import use_separate_answers
from crowdwise.errors import ModelFileError, ParameterError
from tests.helpers.dasc_crowds import chosen_by_hand, crowd, plain, tiny

BASES = (cw.CrowdLayer, cw.AnnoReg, cw.GeoCrowdNet, cw.CoNAL, cw.DoctorNet)
STILL = cw.MLP(8, dropout=0.0)  # no dropout: its masks are drawn from one stream for all networks


def small(kind=cw.CrowdLayer, **options):
    own = {"weight_epochs": 3} if kind is cw.DoctorNet else {}
    return kind(**{"network": cw.MLP(8), "epochs": 3, "lr": 0.01, "batch_size": 32, **own, **options})


def even(n_tasks=100, n_each=3, n_workers=6, seed=0):
    """A crowd with equally many answers per task."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, n_tasks, p=[0.6, 0.3, 0.1])
    worker = np.array([rng.permutation(n_workers)[:n_each] for _ in range(n_tasks)])
    label = np.where(rng.random(worker.shape) < 0.7, truth[:, None], rng.integers(0, 3, worker.shape))
    task = np.repeat(np.arange(n_tasks), n_each)
    answers = cw.Answers.from_codes(task, worker.ravel(), label.ravel(), tasks=n_tasks, workers=n_workers, classes=3)
    return (np.eye(3)[truth] * 2 + rng.normal(size=(n_tasks, 3))).astype(np.float32), answers


def copy_of(answers):
    return answers.take(np.arange(answers.n_answers))


def some_pseudo(answers, seed, n=60):
    """The answers and some pseudo-answers."""
    rng = np.random.default_rng(seed)
    missing = np.ones((answers.n_tasks, answers.n_workers), bool)
    missing[answers.task, answers.worker] = False
    chosen = rng.permutation(missing.sum())[:n]
    task, worker = (column[chosen] for column in np.nonzero(missing))
    label = rng.integers(0, 3, n)
    return merge_pseudo_answers(
        answers, PseudoAnswers(task, worker, label, np.ones(n), np.ones(n, int), np.zeros(n, int))
    )


def fit_apart(base, X, pools, **options):
    base.set_params(n_models=len(pools))
    with use_separate_answers(pools, base):
        return base.fit(X, pools[0], **options)


def made_for(model, member, iteration=None):
    made = model.pseudo_
    mine = made["member"] == member
    if iteration is not None:
        mine &= made["iteration"] == iteration
    return set(zip(*(made[name][mine].tolist() for name in ("task", "worker", "label")), strict=True))


@pytest.fixture(scope="module")
def data():
    X, answers, *_ = crowd()
    return X, answers


# Learners whose networks have their own answers


@pytest.mark.parametrize("kind", BASES)
def test_a_shared_pool_gives_the_same_result(kind, data):
    X, answers = data
    weight = np.random.default_rng(0).random(answers.n_tasks)
    for options in ({}, {"loss": "cb_focal"}, {"sampling": "resample"}):
        one = small(kind, n_models=3, **options).fit(X, answers, sample_weight=weight)
        apart = fit_apart(small(kind, **options), X, [answers] * 3, sample_weight=weight)
        np.testing.assert_array_equal(apart.member_proba(X), one.member_proba(X))
        assert apart.history_ == one.history_
    assert "_pools" not in vars(apart)  # the next fit is not affected


@pytest.mark.parametrize("kind", BASES)
@pytest.mark.parametrize("options", [{}, {"loss": "cb_focal"}, {"sampling": "resample"}])
def test_equal_copies_of_a_pool_give_the_same_result(kind, options):
    """Separate but equal pools; with equally many answers per task, each network's mean is that of all."""
    X, answers = even()
    one = small(kind, n_models=2, **options).fit(X, answers)
    apart = fit_apart(small(kind, **options), X, [answers, copy_of(answers)])
    np.testing.assert_array_equal(apart.member_proba(X), one.member_proba(X))


@pytest.mark.parametrize("kind", BASES)
def test_a_network_depends_only_on_its_own_pool(kind, data):
    """A network does not depend on the pools of the others, nor on their number."""
    X, answers = data
    pools = [some_pseudo(answers, seed, n) for seed, n in enumerate((60, 10, 200))]
    for options in ({}, {"loss": "reweight"}, {"sampling": "resample"}):
        base = {"network": STILL, **options}
        first = fit_apart(small(kind, **base), X, pools[:2])
        second = fit_apart(small(kind, **base), X, [pools[0], pools[2], pools[1]])
        ours, theirs = first.member_proba(X), second.member_proba(X)
        np.testing.assert_allclose(ours[0], theirs[0], atol=1e-6)
        assert np.abs(ours[1] - theirs[1]).max() > 1e-3


def test_doctor_net_has_votes_by_pool(data):
    X, answers = data
    pools = [some_pseudo(answers, seed) for seed in range(2)]
    model = fit_apart(small(cw.DoctorNet), X, pools)
    shares = [cw.MajorityVote().fit(pool).proba_ for pool in pools]
    np.testing.assert_allclose(model.module_.votes, shares, atol=1e-6)


# DASC


@pytest.mark.parametrize(
    "options",
    [
        {}, {"select": "confidence"}, {"select": "random"}, {"balance": "pool", "redistribute": True}, {"soft": True},
        {"max_pairs": 100}, {"warm_start": True},
    ],
)  # fmt: skip
def test_apart_with_one_network_changes_nothing(data, options):
    X, answers = data
    one, apart = (
        plain(tiny(), iterations=2, per_iteration=40, apart=a, **options).fit(X, answers) for a in (False, True)
    )
    np.testing.assert_array_equal(apart.predict_proba(X), one.predict_proba(X))
    assert apart.model_.answers_ == one.model_.answers_
    for ours, theirs in zip(one.history_, apart.history_, strict=True):
        assert {k: v for k, v in theirs.items() if k != "members"} == ours
        assert theirs["members"] == [{k: v for k, v in ours.items() if k not in ("iteration", "iterations")}]


@pytest.mark.parametrize("select", ["distribution", "confidence"])
@pytest.mark.parametrize("pairs", [dasc.PAIRS, 20])
def test_each_network_selects_its_own_pseudo_answers(data, select, pairs, monkeypatch):
    X, answers = data
    monkeypatch.setattr(dasc, "PAIRS", pairs)
    model = plain(tiny(n_models=3), apart=True, select=select, per_iteration=40, iterations=1).fit(X, answers)
    fitted = tiny(n_models=3).fit(X, answers)
    for member in range(3):
        alone = one_of(fitted, member)
        assert made_for(model, member) == chosen_by_hand(alone, X, answers, 40, select)
    assert made_for(model, 0) != made_for(model, 1)


def one_of(fitted, member):
    """One network of a model, with the predictions of that network."""
    from crowdwise.learn.network.prediction import predict_answers

    class One:
        def answer_proba(self, X):
            n, w = len(X), fitted.module_.n_workers
            log_p = predict_answers(fitted.module_, X, np.repeat(np.arange(n), w), np.tile(np.arange(w), n), "cpu")
            return log_p.exp().numpy()[member].reshape(n, w, -1)

    return One()


@pytest.mark.parametrize("select", ["distribution", "confidence", "random"])
def test_members_are_independent_runs(select):
    """A third network does not change the other two: exactly while pools are equal, then up to rounding."""
    X, answers = even()
    options = {"apart": True, "select": select, "per_iteration": 50, "iterations": 2}
    two, three = (plain(small(n_models=n, network=STILL), **options).fit(X, answers) for n in (2, 3))
    for member in (0, 1):
        for iteration in (1, 2):
            assert made_for(two, member, iteration) == made_for(three, member, iteration)
        assert len(made_for(two, member)) > 0
    np.testing.assert_allclose(two.member_proba(X), three.member_proba(X)[:2], atol=1e-6)


@pytest.mark.parametrize("options", [{"select": "random"}, {"max_pairs": 50}])
def test_each_network_samples_its_own_pairs(options):
    """Drawn at random: 50 of 300, so by chance two networks have a sixth of them in common, and never all."""
    X, answers = even()
    model = plain(small(n_models=3), apart=True, per_iteration=50, iterations=1, **options).fit(X, answers)
    pairs = [{(task, worker) for task, worker, _ in made_for(model, member)} for member in range(3)]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert 0 < len(pairs[one] & pairs[other]) < len(pairs[one]) / 2


@pytest.mark.parametrize("kind", BASES)
@pytest.mark.parametrize("select", ["distribution", "confidence", "random"])
def test_no_pair_is_added_twice(kind, select, data):
    X, answers = data
    model = plain(small(kind, n_models=2), apart=True, select=select, per_iteration=50, iterations=3).fit(X, answers)
    given = set(zip(answers.task.tolist(), answers.worker.tolist(), strict=True))
    for member in range(2):
        made = made_for(model, member)
        pairs = {(t, w) for t, w, _ in made}
        assert len(pairs) == len(made) == (model.pseudo_["member"] == member).sum()
        assert not pairs & given
        assert [h["members"][member]["answers"] for h in model.history_][-1] == answers.n_answers + len(made)
    first = model.model_.answers_
    assert first.n_answers == answers.n_answers + len(made_for(model, 0))
    assert model.member_proba(X).shape == (2, answers.n_tasks, 3)
    np.testing.assert_allclose(model.member_proba(X).mean(axis=0), model.predict_proba(X), atol=1e-7)


def test_history_has_means_and_members(data):
    X, answers = data
    model = plain(tiny(n_models=3), apart=True, iterations=2, per_iteration=40).fit(X, answers)
    assert json.loads(json.dumps(model.history_)) == model.history_
    for record in model.history_:
        assert len(record["members"]) == 3
        for name in ("imbalance", "answers", "chosen"):
            np.testing.assert_allclose(record[name], np.mean([m[name] for m in record["members"]], axis=0))
    assert {"accuracy", "precision_majority", "recall_minority"} <= set(model.history_[1]["members"][2])


def test_pairs_run_out_per_network(data):
    X, answers = data
    model = plain(tiny(epochs=1, n_models=2), apart=True, per_iteration=10**6, iterations=5).fit(X, answers)
    full = answers.n_tasks * answers.n_workers
    assert [m["answers"] for m in model.history_[-1]["members"]] == [full, full]
    assert len(model.history_) == 2


def test_tasks_without_answers_or_weight(data):
    """A task with answers in only some pools, and one of weight zero."""
    X, answers = data
    fewer = answers.take(np.flatnonzero((answers.worker != 2) & (answers.task >= 8)))
    weight = np.ones(answers.n_tasks)
    weight[-5:] = 0
    model = plain(tiny(n_models=2), apart=True, per_iteration=20, iterations=2).fit(X, fewer, sample_weight=weight)
    assert np.isfinite(model.proba_).all()
    assert 2 not in model.pseudo_["worker"]
    assert model.pseudo_["task"].max() < answers.n_tasks - 5


def test_saved_and_loaded(data, tmp_path):
    X, answers = data
    model = plain(small(cw.DoctorNet, n_models=2), apart=True, iterations=1).fit(X, answers)
    model.save(tmp_path / "model.safetensors")
    loaded = cw.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.member_proba(X), model.member_proba(X))
    assert loaded.history_ == model.history_
    np.testing.assert_array_equal(loaded.pseudo_["member"], model.pseudo_["member"])


@pytest.mark.parametrize("warm_start", [False, True])
def test_resumes_from_a_checkpoint(data, tmp_path, warm_start):
    X, answers = data
    options = {"apart": True, "iterations": 3, "per_iteration": 40, "warm_start": warm_start}
    whole = plain(tiny(n_models=2), **options).fit(X, answers)
    file = tmp_path / "run"

    def kill(record):
        if record.get("iteration") == 2 and "chosen" not in record:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plain(tiny(n_models=2), checkpoint=str(file), **options).fit(X, answers, callback=kill)
    resumed = plain(tiny(n_models=2), checkpoint=str(file), **options).fit(X, answers)
    np.testing.assert_array_equal(resumed.member_proba(X), whole.member_proba(X))
    assert resumed.history_ == whole.history_
    with pytest.raises(ModelFileError, match="other data or settings"):
        plain(tiny(n_models=2), checkpoint=str(file), **{**options, "apart": False}).fit(X, answers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "aggregated"}, "apart=True: use False: Aggregated"),
        ({"base": "crowdlab"}, "apart=True"),
        ({"base": "unionnet"}, "apart=True"),
        ({"hidden": 0.1}, "hidden=0.1: use 0 with apart=True"),
        ({"base": tiny(select="held_out")}, "select='held_out': use 'last' in the base with apart=True"),
        ({"base": tiny(clip=1.0)}, "clip=1.0: use None in the base"),
    ],
)
def test_options_that_couple_networks_are_rejected(data, options, message):
    with pytest.raises(ParameterError, match=message):
        plain(**{"base": tiny(), "apart": True, **options}).fit(*data)
