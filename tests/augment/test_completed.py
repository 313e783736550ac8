"""Filling in missing answers, then fitting on all."""

from collections import namedtuple

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import crowdwise as cw
from crowdwise.augment.completed import Completed
from crowdwise.errors import ParameterError
from reproduction.baselines.graph_completion import GraphCompletion
from reproduction.baselines.irgan import IRGAN

NETWORK = cw.MLP(8, dropout=0.0)
BASE = cw.CrowdLayer(epochs=6, lr=0.01, network=NETWORK)
GCN = GraphCompletion(epochs=3, network=NETWORK)
GAN = IRGAN(epochs=3, rounds=1, discriminator_epochs=1, network=NETWORK)


def crowd(seed=0, n_tasks=60, n_classes=3, n_workers=8, per_task=2.5):
    answers = cw.simulate.simulate(
        n_tasks, n_workers=n_workers, n_classes=n_classes, answers_per_task=per_task, accuracy=(0.6, 0.95), seed=seed
    )
    rng = np.random.default_rng(seed)
    centre = 2 * rng.normal(size=(n_classes, 9))
    return (centre[answers.truth] + rng.normal(size=(n_tasks, 9))).astype(np.float32), answers


def pairs(answers):
    return set(zip(answers.task.tolist(), answers.worker.tolist(), strict=True))


def test_self_equals_the_steps_by_hand():
    X, answers = crowd()
    first = cw.CrowdLayer(epochs=6, lr=0.01, network=NETWORK).fit(X, answers)
    task, worker = (a.ravel() for a in np.indices((60, 8)))
    said = first.answer_proba(X)[task, worker].argmax(1)
    new = [(t, w) not in pairs(answers) for t, w in zip(task.tolist(), worker.tolist(), strict=True)]
    filled = cw.Answers.from_codes(task[new], worker[new], said[new], tasks=60, workers=8, classes=3)
    second = cw.CrowdLayer(epochs=6, lr=0.01, network=NETWORK).fit(X, answers.merge(filled, pseudo=True))
    model = Completed(BASE).fit(X, answers)
    assert (model.filled_.task == filled.task).all()
    assert (model.filled_.worker == filled.worker).all()
    assert (model.filled_.label == filled.label).all()
    np.testing.assert_array_equal(model.predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(model.answer_proba(X), second.answer_proba(X))
    np.testing.assert_array_equal(model.proba_, second.proba_)


@pytest.mark.parametrize("fill", ["self", GCN, GAN, "annoreg"])
@pytest.mark.parametrize("n_classes", [2, 8])
@pytest.mark.parametrize("hard", [True, False])
def test_only_missing_pairs_are_filled(fill, n_classes, hard):
    X, answers = crowd(n_classes=n_classes)
    answers = answers.take(np.flatnonzero((answers.task != 7) & (answers.worker != 3)))  # both without answers
    model = Completed(cw.CrowdLayer(epochs=2, network=NETWORK), fill, hard=hard).fit(X, answers)
    filled = model.filled_
    assert filled.pseudo.all()
    assert not pairs(filled) & pairs(answers)
    assert filled.n_answers + answers.n_answers == 60 * 8
    both = model.model_.answers_
    np.testing.assert_array_equal(both.label[~both.pseudo], answers.label)
    assert model.answers_ == answers
    assert np.isfinite(model.proba_).all()
    (record,) = model.history_
    assert record["filled"] == np.bincount(filled.label, minlength=n_classes).tolist()
    counts = np.bincount(both.label, minlength=n_classes)
    assert record["imbalance_after"] == counts[counts > 0].max() / counts[counts > 0].min()
    counts = np.bincount(answers.label, minlength=n_classes)
    assert record["imbalance_before"] == counts[counts > 0].max() / counts[counts > 0].min()
    assert record["filled_accuracy"] == (filled.label == answers.truth[filled.task]).mean()


def test_max_pairs_is_a_limit():
    X, answers = crowd()
    some = Completed(BASE, max_pairs=50).fit(X, answers).filled_
    assert some.n_answers == 50
    everything = Completed(BASE, max_pairs=None).fit(X, answers).filled_
    assert everything.n_answers == 60 * 8 - answers.n_answers
    assert pairs(some) < pairs(everything)
    other = Completed(BASE, max_pairs=50, random_state=1).fit(X, answers).filled_
    assert pairs(other) != pairs(some)


def test_truth_is_not_used():
    X, answers = crowd()
    model, blind = (Completed(BASE, max_pairs=90).fit(X, a) for a in (answers, answers.with_truth(None)))
    np.testing.assert_array_equal(model.proba_, blind.proba_)
    assert "filled_accuracy" not in blind.history_[0]


def test_results_do_not_depend_on_blocks(monkeypatch):
    X, answers = crowd()
    plain = Completed(BASE).fit(X, answers).filled_
    monkeypatch.setattr("crowdwise.augment.completed.BLOCK", 7)
    assert Completed(BASE).fit(X, answers).filled_ == plain


def test_most_probable_answers_are_more_accurate_than_drawn_ones():
    gain = []
    for seed in range(5):
        X, answers = crowd(seed)
        hard, drawn = (Completed(BASE, hard=h).fit(X, answers).history_[0]["filled_accuracy"] for h in (True, False))
        gain.append(hard - drawn)
    assert np.mean(gain) > 3 * np.std(gain, ddof=1) / np.sqrt(5)


Made = namedtuple("Made", "answers proba")


class Repeats:
    """A user's generator: every worker answers class 1 to every task, also those with answers."""

    def fit(self, X, answers):
        self.answers = answers
        return self

    def generate(self, X):
        a = self.answers
        task, worker = (x.ravel() for x in np.indices((a.n_tasks, a.n_workers)))
        made = cw.Answers.from_codes(
            task, worker, np.ones(len(task), int), tasks=a.tasks, workers=a.workers, classes=a.classes
        )
        return Made(made, None)


def test_any_generator():
    X, answers = crowd()
    generator = Repeats()
    model = Completed(BASE, generator).fit(X, answers)
    assert not hasattr(generator, "answers")  # a copy was fitted
    assert (model.filled_.label == 1).all()
    assert model.filled_.n_answers == 60 * 8 - answers.n_answers
    assert not pairs(model.filled_) & pairs(answers)
    assert Completed(BASE, generator, max_pairs=20).fit(X, answers).filled_.n_answers == 20
    for hard in (True, False):
        with pytest.raises(ParameterError, match=r"hard.*Repeats"):
            Completed(BASE, generator, hard=hard).fit(X, answers)


def test_crowding_fills_in():
    X, answers = crowd()
    filler = cw.CrowdInG(
        epochs=2,
        generator_epochs=1,
        discriminator_epochs=1,
        adversarial_epochs=1,
        steps=1,
        network=NETWORK,
        two_step=False,
    )
    for most in (None, 100):  # the same pairs as the learner itself fills in
        by_crowding, by_self = (Completed(BASE, fill, max_pairs=most).fit(X, answers) for fill in (filler, "self"))
        assert pairs(by_crowding.filled_) == pairs(by_self.filled_)
    hard = Completed(BASE, filler, hard=True, max_pairs=100).fit(X, answers)
    assert hard.filled_ != by_crowding.filled_
    proba = filler.fit(X, answers).answer_proba(X)[hard.filled_.task, hard.filled_.worker]
    np.testing.assert_array_equal(hard.filled_.label, proba.argmax(1))
    assert isinstance(Completed(BASE, "crowding")._filler(BASE), cw.CrowdInG)


def test_a_named_filler_takes_the_network_of_the_base():
    base = cw.AnnoReg(network=NETWORK, random_state=5, lr=0.5)
    for name in ("crowdlayer", "conal"):
        filler = Completed(base, name)._filler(base)
        assert repr(filler.network) == repr(NETWORK)
        assert filler.random_state == 5
        assert filler.lr != 0.5
    same = Completed(cw.CrowdLayer("vw", lr=0.5, checkpoint="file"), "crowdlayer")
    generator = same._filler(same._new_base())  # CrowdLayer too
    assert (generator.kind, generator.lr, generator.checkpoint) == ("vw", 0.5, None)
    outside = cw.Aggregated("dawid-skene", LogisticRegression())
    assert Completed(outside, "conal")._filler(outside).network is None


def test_any_base():
    X, answers = crowd(n_tasks=90)
    for base in ("dawid-skene", cw.Aggregated("majority-vote", LogisticRegression()), cw.Raykar(max_iter=5, tol=0)):
        model = Completed(base, max_pairs=100).fit(X, answers)
        assert model.filled_.n_answers == 100
        assert model.score(X, answers.truth) > 0.5


def test_gold_is_passed_on():
    X, answers = crowd()
    gold = np.where(np.arange(60) < 20, (answers.truth + 1) % 3, -1)  # wrong, so that its use is visible
    model = Completed(cw.AggNet(epochs=2), max_pairs=50).fit(X, answers, gold=gold)
    assert (model.codes_[:20] == gold[:20]).all()
    with pytest.raises(ParameterError, match="gold"):
        Completed(BASE).fit(X, answers, gold=gold)


def test_the_checkpoint_is_of_the_final_fit(tmp_path):
    X, answers = crowd()
    plain = Completed(BASE).fit(X, answers)
    base = cw.CrowdLayer(epochs=6, lr=0.01, network=NETWORK, checkpoint=str(tmp_path / "state"))
    for _ in range(2):  # the second resumes from the checkpoint of the first
        np.testing.assert_array_equal(Completed(base).fit(X, answers).proba_, plain.proba_)


def test_nothing_to_fill():
    X = np.random.default_rng(0).normal(size=(12, 9)).astype(np.float32)
    task, worker = np.divmod(np.arange(36), 3)
    answers = cw.Answers.from_codes(task, worker, task % 2, tasks=12, workers=3, classes=2)
    model = Completed(BASE).fit(X, answers)
    assert model.filled_.n_answers == 0
    np.testing.assert_array_equal(
        model.proba_, cw.CrowdLayer(epochs=6, lr=0.01, network=NETWORK).fit(X, answers).proba_
    )


def test_saving_keeps_filled_in_answers(tmp_path):
    X, answers = crowd()
    model = Completed(BASE, max_pairs=30).fit(X, answers)
    model.save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model")
    assert loaded.filled_ == model.filled_
    assert loaded.history_ == model.history_
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_by_name():
    model = cw.make("completed(annoreg)", fill="conal")
    assert isinstance(model._new_base(), cw.AnnoReg)
    assert isinstance(model._filler(model._new_base()), cw.CoNAL)


def test_learns_an_easy_task():
    X, answers = crowd(n_tasks=300)
    base = cw.CrowdLayer(epochs=30, lr=0.01, network=NETWORK)
    for fill in ("self", GraphCompletion(epochs=20, network=NETWORK)):
        assert Completed(base, fill).fit(X, answers).score(X, answers.truth) > 0.85


@pytest.mark.parametrize(
    "bad", [{"fill": "nobody"}, {"fill": "majority-vote"}, {"fill": 3}, {"hard": "yes"}, {"hard": 1}, {"max_pairs": 0},
            {"random_state": -1}, {"base": 3}]
)  # fmt: skip
def test_invalid_parameters_are_rejected(bad):
    X, answers = crowd()
    with pytest.raises(ParameterError, match="nobody" if "nobody" in bad.values() else next(iter(bad))):
        Completed(**bad).fit(X, answers)
