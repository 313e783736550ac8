"""ICED: warm-up, rounds, labels, resampling, and that it beats its baselines on imbalanced crowds."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise import simulate
from crowdwise.augment.iced.iced import ICED
from crowdwise.augment.iced.neighbours import balancing_counts, interpolate_tasks
from crowdwise.errors import CrowdwiseError, FeaturesError, ParameterError
from crowdwise.truth.base import vote_shares

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")


def blobs(truth, seed, n_features=20, distance=2.0):
    centre = np.random.default_rng(99).normal(size=(int(truth.max()) + 1, n_features))
    centre *= distance / np.linalg.norm(centre, axis=1, keepdims=True)
    noise = np.random.default_rng([seed, 5]).normal(size=(len(truth), n_features))
    return (centre[truth] + noise).astype(np.float32)


def crowd(n_tasks=200, n_classes=2, balance=10.0, seed=0, distance=2.0, answers_per_task=2.5):
    answers = simulate.simulate(
        n_tasks, n_classes=n_classes, n_workers=15, answers_per_task=answers_per_task, class_balance=balance,
        workers="class-dependent", accuracy=(0.6, 0.95), seed=seed,
    )  # fmt: skip
    return blobs(answers.truth, seed, distance=distance), answers


def quick(**parameters):
    few = {"epochs": 4, "epochs_per_round": 2, "network": cw.MLP(16), "lr": 0.01}
    if parameters.get("warmup", "iced") is not None:  # parameters without effect are rejected
        few["warmup_epochs"] = 1
    if parameters.get("decode", True):
        few["decoder_epochs"] = 2
    return ICED(**{**few, **parameters})


@pytest.fixture(scope="module")
def data():
    return crowd()


class TestWarmUp:
    def test_empty_groups_are_skipped(self, data):
        """With two or three answers per task there is no third group."""
        X, answers = data
        model = quick(warmup_epochs=3).fit(X, answers)
        assert [record["epoch"] for record in model.history_] == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4]
        assert [record["epochs"] for record in model.history_] == [6] * 6 + [4] * 4
        assert len(quick(warmup="trad1", warmup_epochs=3).fit(X, answers).history_) == 3 * 3 + 4


class TestRounds:
    @pytest.mark.parametrize("decode", [True, False])
    @pytest.mark.parametrize("n_classes", [2, 4])
    def test_rare_classes_get_synthetic_tasks(self, decode, n_classes):
        """The synthetic tasks of a round balance the labels before it."""
        X, answers = crowd(n_classes=n_classes)
        model = quick(epochs=2, decode=decode, first="dawid-skene", real_shares=False).fit(X, answers)
        first = cw.DawidSkene("diagonal", "uniform").fit(answers)
        assert model.label_history_[1]["made"] == balancing_counts(first.codes_, n_classes).sum() > 0
        assert model.truth_.answers_.n_tasks == 200 + model.label_history_[1]["made"]
        assert (model.made_ is None) == (not decode)

    @pytest.mark.parametrize("hard", [True, False])
    def test_labels_are_those_of_the_last_inference(self, data, hard):
        X, answers = data
        model = quick(hard=hard, real_shares=False).fit(X, answers)
        np.testing.assert_array_equal(model.proba_, model.truth_.proba_[:200])
        table = model.truth_.confusion_[
            model.truth_.answers_.worker, :, model.truth_.answers_.label
        ]  # (answers, classes)
        log = np.log(np.maximum(table, 1e-10))
        score = np.array([np.bincount(model.truth_.answers_.task, log[:, c])[:200] for c in range(2)])
        clear = np.abs(score[0] - score[1]) > 1e-6
        np.testing.assert_array_equal(model.codes_[clear], score.argmax(axis=0)[clear])

    def test_the_first_round_balances_the_classes_of_the_vote(self):
        """Six tasks of class 0 and two of class 1, unanimous: four synthetic tasks are created and answered with 1."""
        label = np.repeat([0, 0, 0, 0, 0, 0, 1, 1], 3)
        answers = cw.Answers.from_codes(
            np.repeat(np.arange(8), 3), np.tile(np.arange(3), 8), label, tasks=8, workers=3, classes=2
        )
        X = np.random.default_rng(0).normal(size=(8, 9)) + 20 * label[::3, None]
        model = quick(k=2, epochs=2).fit(X, answers)
        both = model.truth_.answers_
        assert both.n_tasks == 12
        assert both.n_answers == 36
        assert (both.label[24:] == 1).all()
        assert model.truth_.codes_[8:].tolist() == [1, 1, 1, 1]
        assert model.label_history_[1] == {"round": 1, "made": 4, "changed": 0.0}

    def test_label_history(self, data):
        X, answers = data
        model = quick().fit(X, answers)
        first = cw.DawidSkene("diagonal", "uniform").fit(answers)
        history = model.label_history_
        assert [record["round"] for record in history] == [0, 1, 2]
        assert history[0]["made"] == 0
        assert history[0]["accuracy"] == (first.codes_ == answers.truth).mean()
        assert history[2]["accuracy"] == (model.truth_.codes_[:200] == answers.truth).mean()
        agreed = vote_shares(answers).max(axis=1) == 1  # ties are drawn; the others must have moved at most this often
        moved = (first.codes_ != vote_shares(answers).argmax(axis=1))[agreed].sum()
        assert moved <= history[0]["changed"] * 200 <= moved + (~agreed).sum()

    def test_truth_is_not_used(self, data):
        X, answers = data
        blind = answers.with_truth(None)
        one, other = quick().fit(X, answers), quick().fit(X, blind)
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
        assert all("accuracy" not in record for record in other.label_history_)
        assert [r["changed"] for r in other.label_history_] == [r["changed"] for r in one.label_history_]

    def test_gold_labels_do_not_change(self, data):
        X, answers = data
        gold = np.where(np.arange(200) < 60, 1 - answers.truth, -1)  # wrong, so that it cannot be inferred
        assert (quick().fit(X, answers, gold=gold).codes_[:60] == gold[:60]).all()
        thin = answers.take(np.flatnonzero(answers.task >= 10))  # some tasks have only gold
        model = quick().fit(X, thin, gold=gold)
        assert (model.codes_[:60] == gold[:60]).all()
        assert model.truth_.answers_.n_tasks == 200 + model.label_history_[-1]["made"]

    def test_tasks_without_answers_are_predicted_by_the_classifier(self, data):
        X, answers = data
        weight = np.ones(200)
        weight[:5] = 0
        thin = answers.take(np.flatnonzero(answers.task >= 10))
        model = quick().fit(X, thin, sample_weight=weight)
        np.testing.assert_array_equal(model.proba_[:10], model.predict_proba(X)[:10])
        assert model.truth_.answers_.n_tasks == 190 + model.label_history_[-1]["made"]

    @pytest.mark.parametrize(
        "options",
        [
            {"delta": "printed"}, {"delta": "uniform"}, {"simulate": "majority"}, {"prior": "estimated"},
            {"smoothing": None}, {"warmup": None}, {"first": "dawid-skene"}, {"k": 2}, {"noise": 0.3},
            {"certainty_eps": 1.0}, {"residual": False}, {"hard": True}, {"candidates": "all"}, {"soft": True},
            {"epochs_per_round": 1},
        ],
    )  # fmt: skip
    def test_every_option_changes_the_result(self, data, options):
        X, answers = data
        assert not np.array_equal(
            quick(**options).fit(X, answers).predict_proba(X), quick().fit(X, answers).predict_proba(X)
        )

    def test_several_models_without_decoding(self, data):
        X, answers = data
        members = quick(n_models=2, decode=False).fit(X, answers).member_proba(X)
        assert np.abs(members[0] - members[1]).max() > 1e-4

    def test_balanced_classes_need_no_synthetic_tasks(self):
        """Balanced classes: no synthetic tasks, and Dawid-Skene has only the real answers."""
        label = np.repeat(np.arange(2), 10).repeat(3)
        answers = cw.Answers.from_codes(
            np.repeat(np.arange(20), 3), np.tile(np.arange(3), 20), label, tasks=20, workers=3, classes=2
        )
        X = np.random.default_rng(0).normal(size=(20, 9))
        for decode in (True, False):
            model = quick(decode=decode).fit(X, answers)
            assert [record["made"] for record in model.label_history_] == [0, 0, 0]
            assert model.codes_.tolist() == np.repeat([0, 1], 10).tolist()

    def test_an_epoch_of_a_round_is_chosen_by_validation(self, data):
        X, answers = data
        model = quick(select="validation").fit(X, answers, validation=(X, answers.truth))
        scores = [record.get("validation") for record in model.history_]
        assert scores[:2] == [None, None]  # not among the epochs of the warm-up
        assert model.score(X, answers.truth) == max(scores[2:])

    def test_what_decoding_loses_of_real_tasks_is_added(self, data):
        """A decoder that has hardly been trained returns nearly the same for all; real tasks differ."""
        X, answers = data
        spread = [quick(residual=residual).fit(X, answers).made_.std(axis=0).mean() for residual in (True, False)]
        assert spread[0] > 0.5 * X.std(axis=0).mean() > spread[1]

    def test_patience_ends_the_rounds(self, data):
        X, answers = data
        model = quick(select="held_out", patience=1, epochs=60, lr=0.1).fit(X, answers)
        assert len(model.history_) < 2 + 60


class TestLength:
    def test_the_rounds_take_the_steps_that_were_found(self, data):
        """Found on 200 real tasks; with synthetic ones, an epoch has about 1.8 times as many steps."""
        X, answers = data
        options = {"batch_size": 16, "network": cw.MLP(16), "random_state": 3}
        model = ICED(decoder_epochs=2, **options).fit(X, answers)
        plain = cw.Aggregated(cw.DawidSkene("diagonal", "uniform", random_state=3), soft=False, **options)
        plain.fit(X, answers)
        assert model.training_search_ == plain.training_search_
        assert model.epochs_ < plain.epochs_
        tasks = 200 + model.label_history_[1]["made"]
        assert model.epochs_ * tasks == pytest.approx(plain.epochs_ * 200, rel=0.15)
        assert len(model.label_history_) == 1 + 2

    def test_a_number_is_obeyed(self, data):
        X, answers = data
        model = quick(epochs=7, epochs_per_round=3).fit(X, answers)
        assert model.epochs_ == 7
        assert len(model.label_history_) == 1 + 3
        assert model.training_search_ == []


class TestResampling:
    def test_real_tasks_come_before_synthetic_ones(self, data):
        X, answers = data
        model = quick()
        X_both, both = model.fit_resample(X, answers)
        n_made = model.label_history_[-1]["made"]
        assert both.n_tasks == len(X_both) == 200 + n_made
        np.testing.assert_array_equal(X_both[:200], X)
        assert both.tasks[:200].tolist() == answers.tasks.tolist()
        assert both.tasks[200:].tolist() == list(range(200, 200 + n_made))
        np.testing.assert_array_equal(both.pseudo, both.task >= 200)
        assert both[:200].take(np.arange(answers.n_answers)).label.tolist() == answers.label.tolist()
        assert (np.diff(both.task_starts) > 0).all()
        assert both.truth[200:].tolist() == [-1] * n_made
        np.testing.assert_array_equal(both[200:].label, model.truth_.answers_[200:].label)

    @pytest.mark.parametrize("n_classes", [2, 4])
    @pytest.mark.parametrize("rounds", [1, 2])
    def test_classes_are_balanced_under_the_labels_of_the_round(self, monkeypatch, rounds, n_classes):
        X, answers = crowd(n_classes=n_classes)
        seen = []

        def spy(z, labels, *args, **options):
            made = interpolate_tasks(z, labels, *args, **options)
            seen.append((labels, made))
            return made

        monkeypatch.setattr("crowdwise.augment.iced.rounds.interpolate_tasks", spy)
        model = quick(epochs=2 * rounds)
        _, both = model.fit_resample(X, answers)
        labels, made = seen[-1]  # of the last round
        np.testing.assert_array_equal(labels[made.second], labels[made.first])
        count = np.bincount(labels[made.first], minlength=n_classes)  # tasks made of each class
        np.testing.assert_array_equal(count, balancing_counts(labels, n_classes))
        assert both.n_tasks - 200 == count.sum() > 0
        assert len(set(count + np.bincount(labels, minlength=n_classes))) == 1
        if rounds == 1:
            shares = vote_shares(answers)
            clear = np.sort(shares, axis=1)[:, -2] < shares.max(axis=1)
            np.testing.assert_array_equal(labels[clear], shares.argmax(axis=1)[clear])
        else:  # the labels of the round before
            before = quick(epochs=2).fit(X, answers)
            np.testing.assert_array_equal(labels, before.proba_.argmax(axis=1))

    def test_other_learners_fit_on_resampled_answers(self, data):
        X, answers = data
        renamed = cw.Answers.from_codes(
            answers.task,
            answers.worker,
            answers.label,
            tasks=[f"t{i}" for i in range(200)],
            workers=15,
            classes=["n", "y"],
        )
        X_both, both = quick().fit_resample(X, renamed)
        assert both.tasks[200] == "synthetic-0"
        model = cw.CrowdLayer(epochs=2).fit(X_both, both)
        assert set(model.predict(X)) <= {"n", "y"}

    def test_unused_tasks_are_returned_too(self, data):
        X, answers = data
        X_both, both = quick().fit_resample(X, answers.take(np.flatnonzero(answers.task != 3)))
        np.testing.assert_array_equal(X_both[:200], X)
        assert np.diff(both.task_starts)[3] == 0
        assert (np.diff(both.task_starts)[200:] > 0).all()

    def test_resampling_without_decoding_is_rejected(self, data):
        X, answers = data
        with pytest.raises(ParameterError, match="decoded"):
            quick(decode=False).fit_resample(X, answers)
        with pytest.raises(FeaturesError, match="decode=False"):
            quick(network=None).fit(X[:, :16].reshape(200, 1, 4, 4), answers)
        assert quick(network=None, decode=False).fit(X[:, :16].reshape(200, 1, 4, 4), answers).proba_.shape == (200, 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs_per_round", 0), ("candidates", "few"), ("hard", 1), ("real_shares", "yes"), ("soft", 0),
        ("warmup", "trad3"), ("warmup_epochs", 0), ("delta", "random"), ("k", 0), ("noise", -0.1),
        ("noise", 2), ("certainty_eps", 0), ("simulate", "mode"), ("decode", "yes"), ("decode", 1),
        ("decoder_epochs", 0), ("residual", 1),
        ("prior", "flat"), ("first", "votes"), ("smoothing", -1), ("checkpoint", "file"), ("loss", "focal"),
    ],
)  # fmt: skip
def test_invalid_parameters_are_rejected(data, name, value):
    with pytest.raises(CrowdwiseError, match=name):
        quick(**{name: value}).fit(*data)


@pytest.mark.parametrize(
    ("name", "ignored"),
    [("noise", {"delta": "uniform", "noise": 0.9}), ("certainty_eps", {"delta": "uniform", "certainty_eps": 1.0}),
     ("warmup_epochs", {"warmup": None, "warmup_epochs": 7}),
     ("decoder_epochs", {"decode": False, "decoder_epochs": 3})],
)  # fmt: skip
def test_parameters_without_effect_are_rejected(data, name, ignored):
    with pytest.raises(ParameterError, match=f"^{name}="):
        ICED(**ignored).fit(*data)


def test_beats_its_baselines_on_balanced_accuracy(n_classes=2, balance=20.0, distance=2.5, seeds=14):
    """A rare class and a balanced test set: against networks on the labels of majority vote and the paper's D&S."""
    shared = {"network": cw.MLP(32), "lr": 5e-3}
    truth = np.arange(800) % n_classes
    X_test = blobs(truth, 10_000, distance=distance)
    gains = []
    for seed in range(seeds):
        X, answers = crowd(400, n_classes, balance, seed, distance, answers_per_task=4)
        labels = ("majority-vote", cw.DawidSkene(None, "uniform", hard=True))
        models = (
            ICED(epochs=10, warmup_epochs=2, decoder_epochs=4, random_state=seed, **shared),
            *(cw.Aggregated(label, soft=False, epochs=20, random_state=seed, **shared) for label in labels),
        )
        scores = [(model.fit(X, answers).predict(X_test) == truth).mean() for model in models]
        gains.append([scores[0] - score for score in scores[1:]])
    mean, error = np.mean(gains, axis=0), np.std(gains, axis=0, ddof=1) / np.sqrt(len(gains))
    assert (mean > 2 * error).all(), (mean, error)
