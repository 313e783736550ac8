import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise import simulate
from crowdwise.errors import NotFittedError, ParameterError
from crowdwise.learn.features import open_features
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.mbem import MBEM, MBEMModule
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.modules import Dense
from crowdwise.learn.network.training import Trainer
from tests.helpers.crowds import answers_of, blobs, uneven

QUICK = {"network": "logistic", "epochs": 20, "lr": 2e-2}


def posterior_of(answers, confusion, class_prior):
    proba = np.tile(class_prior, (answers.n_tasks, 1))
    np.multiply.at(proba, answers.task, confusion[answers.worker, :, answers.label])
    return proba / proba.sum(axis=1, keepdims=True)


def count_confusion(answers, labels, pseudo, weight=None):
    """Return confusion matrices counted against predicted labels."""
    n = answers.n_classes
    counts = np.full((answers.n_workers, n, n), float(pseudo))
    np.add.at(
        counts, (answers.worker, labels[answers.task], answers.label), 1 if weight is None else weight[answers.task]
    )
    return counts / counts.sum(axis=2, keepdims=True)


def test_gradients_match_finite_differences():
    rng = np.random.default_rng(0)
    answers = answers_of(rng.integers(0, 3, 6), uneven(4), 2)
    module = MBEMModule(Dense(4, [5], 3, 2, 0), answers, estimates_prior=False).double()
    module.set_target(rng.dirichlet(np.ones(3), size=(2, 6)))
    (batch,) = Batches(open_features(rng.normal(size=(6, 4))), answers, batch_size=6, n_models=2).epoch(0)
    batch.x = batch.x.double()
    assert torch.autograd.gradcheck(lambda *_: module.loss(batch), tuple(module.parameters()))


@pytest.mark.parametrize("class_prior", ["uniform", "estimated"])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_round_follows_the_algorithm(class_prior, weighted):
    """Two models, each with its own predicted labels."""
    X, truth = blobs(80, shares=[0.6, 0.3, 0.1])
    answers = answers_of(truth, uneven())
    weight = np.random.default_rng(0).uniform(0, 2, 80) if weighted else None
    weight = None if weight is None else weight / weight.mean()
    model = MBEM(1, prior=0.2, class_prior=class_prior, n_models=2, epochs=3).fit(X, answers, sample_weight=weight)
    labels = model.member_proba(X).argmax(axis=2)  # (models, tasks)
    assert (labels[0] != labels[1]).any()
    confusion = [count_confusion(answers, t, 0.2, weight) for t in labels]
    shares = [np.full(3, 1 / 3) if class_prior == "uniform" else np.average(np.eye(3)[t], axis=0, weights=weight)
              for t in labels]  # fmt: skip
    np.testing.assert_allclose(model.confusion_, np.mean(confusion, axis=0), atol=1e-6)
    np.testing.assert_allclose(model.class_prior_, np.mean(shares, axis=0), atol=1e-9)
    wanted = [posterior_of(answers, *each) for each in zip(confusion, shares, strict=True)]
    np.testing.assert_allclose(model.proba_, np.mean(wanted, axis=0), atol=1e-5)
    expected = np.einsum("tc,wcl->twl", model.member_proba(X)[0], confusion[0])
    expected += np.einsum("tc,wcl->twl", model.member_proba(X)[1], confusion[1])
    np.testing.assert_allclose(model.answer_proba(X), expected / 2, atol=1e-5)


def test_trains_first_on_votes_and_then_on_posteriors():
    X, truth = blobs(80)
    answers = answers_of(truth, uneven())
    targets = []

    class Spy(MBEM):
        def _train(self, trainer):
            targets.append(trainer.module.target[0].numpy().copy())
            super()._train(trainer)
            targets.append(trainer.module.target[0].numpy().copy())

    model = Spy(1, **QUICK).fit(X, answers)
    votes = answers.counts(dense=True) / 3
    np.testing.assert_allclose(targets[0], votes, atol=1e-6)
    first = Aggregated("naive-soft", **QUICK).fit(X, answers)  # the same network on the same labels
    confusion = count_confusion(answers, first.predict_proba(X).argmax(axis=1), 0.01)
    np.testing.assert_allclose(targets[1], posterior_of(answers, confusion, np.ones(3) / 3), atol=1e-5)
    assert model.history_[:20] == first.history_
    assert len(model.history_) == 40


def test_each_training_starts_from_the_initial_weights(monkeypatch):
    X, truth = blobs(80)
    starts = []
    run = Trainer.run

    def watched(trainer):
        starts.append({name: value.clone() for name, value in trainer.module.network.state_dict().items()})
        run(trainer)

    monkeypatch.setattr(Trainer, "run", watched)
    MBEM(epochs=2).fit(X, answers_of(truth, uneven()))
    assert len(starts) == 3
    for name, value in starts[0].items():
        assert torch.equal(value, starts[1][name]), name
        assert torch.equal(value, starts[2][name]), name


def test_the_best_epoch_of_the_last_training_is_selected():
    X, truth = blobs(180)
    model = MBEM(epochs=6, lr=0.5, batch_size=10, select="validation", random_state=1)
    model.fit(X[:60], answers_of(truth[:60], uneven()), validation=(X[60:], truth[60:]))
    scores = [record["validation"] for record in model.history_[-6:]]
    assert scores[-1] < max(scores)
    assert model.score(X[60:], truth[60:]) == max(scores)


@pytest.mark.parametrize("seed", range(4))
def test_single_answers_separate_good_workers_from_guessers(seed):
    """With one answer per task workers cannot be compared; the classifier separates them."""
    X, truth = blobs(1200, distance=4, seed=seed)
    hammer = np.arange(12) < 4
    confusion = np.where(hammer[:, None, None], np.eye(3), 1 / 3)
    answers = answers_of(truth[:600], confusion, 1, seed=seed)
    model = MBEM(**QUICK).fit(X[:600], answers)
    right = np.diagonal(model.confusion_, axis1=1, axis2=2).mean(axis=1)
    assert right[hammer].min() > 0.85
    assert right[~hammer].max() < 0.6
    assert np.abs(model.confusion_ - confusion).mean() < 0.08
    assert model.score(X[600:], truth[600:]) > 0.9


@pytest.mark.parametrize("seed", range(4))
def test_beats_training_on_votes(seed):
    """One answer per task, five of twelve workers permute the classes: T corrects for it."""
    X, truth = blobs(1200, distance=4, seed=seed)
    kinds = {"one-coin": 7, "adversary": 5}
    kinds = [simulate.crowd(n, 3, kind, accuracy=(0.8, 0.95), seed=seed) for kind, n in kinds.items()]
    answers = answers_of(truth[:600], np.concatenate(kinds), 1, seed=seed)
    votes = Aggregated("majority-vote", soft=False, **QUICK).fit(X[:600], answers)
    model = MBEM(**QUICK).fit(X[:600], answers)
    assert model.score(X[600:], truth[600:]) > votes.score(X[600:], truth[600:]) + 0.04
    assert (model.labels_ == truth[:600]).mean() > (cw.MajorityVote().fit(answers).labels_ == truth[:600]).mean() + 0.1


def test_gold_stays_fixed():
    X, truth = blobs(200, n_classes=2)
    answers = answers_of(truth, np.tile(np.eye(2)[::-1] * 0.8 + 0.1, (6, 1, 1)), 3)  # all workers swap the classes
    gold = np.where(np.arange(200) < 150, truth, -1)
    model = MBEM(**QUICK).fit(X, answers, gold=gold)
    np.testing.assert_array_equal(model.proba_[:150], np.eye(2)[truth[:150]])
    assert model.score(X[150:], truth[150:]) > 0.9
    assert MBEM(**QUICK).fit(X, answers).score(X[150:], truth[150:]) < 0.1


def test_tasks_of_weight_zero_are_ignored():
    X, truth = blobs(90)
    answers = answers_of(truth, uneven())
    weight = np.where(np.arange(90) % 3, 1.0, 0.0)
    label = np.where(weight[answers.task] == 0, (answers.label + 1) % 3, answers.label)
    other = cw.Answers.from_codes(answers.task, answers.worker, label, tasks=90, workers=8, classes=3)
    first, second = (MBEM(**QUICK).fit(X, a, sample_weight=weight) for a in (answers, other))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(first.confusion_, second.confusion_)


def test_models_trained_together_equal_models_trained_alone():
    X, truth = blobs(90)
    answers = answers_of(truth, uneven())
    three, one = (MBEM(epochs=3, n_models=n).fit(X, answers) for n in (3, 1))
    members = three.member_proba(X)
    assert np.isfinite(members).all()
    assert np.abs(members[0] - members[1]).max() > 1e-3
    np.testing.assert_allclose(members[0], one.member_proba(X)[0], atol=1e-4)  # independent of the other model


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop", [1, 2, 3, 5])  # in the first training, early and late in the second, in the third
@pytest.mark.parametrize("options", [{}, {"select": "held_out", "patience": 1, "class_prior": "estimated"}])
def test_a_resumed_fit_equals_an_uninterrupted_one(tmp_path, stop, options):
    X, truth = blobs(60)
    answers = answers_of(truth, uneven())
    options = {"epochs": 2, "n_models": 2, "batch_size": 20, **options}
    expected = MBEM(**options).fit(X, answers)
    seen = []

    def callback(record):
        seen.append(record)
        if len(seen) > stop:
            raise Stop

    interrupted = MBEM(checkpoint=str(tmp_path / "fit"), **options)
    with pytest.raises(Stop):
        interrupted.fit(X, answers, callback=callback)
    again = interrupted.fit(X, answers)
    np.testing.assert_array_equal(again.member_proba(X), expected.member_proba(X))
    np.testing.assert_array_equal(again.proba_, expected.proba_)
    np.testing.assert_array_equal(again.confusion_, expected.confusion_)
    assert again.history_ == expected.history_
    assert len(expected.history_) == 6


def test_answers_used_for_selection_enter_the_final_labels():
    """`proba_` uses all answers, also those held out for selection."""
    X, truth = blobs(60)
    answers = answers_of(truth, uneven())
    model = MBEM(epochs=2, select="held_out", hidden=0.5).fit(X, answers)
    np.testing.assert_allclose(model.proba_, posterior_of(answers, model.confusion_, np.ones(3) / 3), atol=1e-5)


def test_invalid_use_is_rejected():
    X, truth = blobs(30)
    answers = answers_of(truth, uneven())
    for bad in ({"rounds": 0}, {"rounds": 1.5}, {"class_prior": "flat"}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            MBEM(**bad).fit(X, answers)
    with pytest.raises(ParameterError, match="no loss on answers"):
        MBEM(sampling="resample").fit(X, answers)
    for name in ("confusion_", "class_prior_"):
        with pytest.raises(NotFittedError):
            getattr(MBEM(), name)
