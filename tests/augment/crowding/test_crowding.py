"""CrowdInG as a learner: variants, game, and generated answers."""

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.augment.crowding import divergence, objective
from crowdwise.augment.crowding.crowding import GRID, CrowdInG
from crowdwise.augment.crowding.game import Game
from crowdwise.augment.crowding.module import CrowdInGModule
from crowdwise.augment.crowding.objective import entropy
from crowdwise.errors import CrowdwiseWarning, NotFittedError, ParameterError
from crowdwise.truth.vote_check import split_answers
from tests.helpers.crowding_crowds import FEW, crowd

FAST = {**FEW, "generator_lr": 0.02, "discriminator_lr": 0.01, "classifier_lr": 0.01}


@pytest.fixture(scope="module")
def data():
    return crowd()


@pytest.fixture(scope="module")
def fitted(data):
    X, answers, _ = data
    return CrowdInG(**FEW).fit(X, answers)


@pytest.fixture(scope="module")
def plain(data):
    X, answers, _ = data
    return CrowdInG(**FAST).fit(X, answers)


# Pre-training and variants


@pytest.mark.parametrize(
    "game", [{"adversarial_epochs": 0}, {"classifier_lr": 1e-30}, {"scale": 2.0, "classifier_lr": 1e-30}]
)
def test_without_a_game_the_classifier_equals_crowdlayer(data, game):
    X, answers, _ = data
    none = CrowdInG(**{**FEW, **game}).fit(X, answers)
    plain = cw.CrowdLayer(network=FEW["network"], scale=game.get("scale", 1.0), epochs=8, lr=0.02, batch_size=32)
    plain.fit(X, answers)
    np.testing.assert_array_equal(none.predict_proba(X), plain.predict_proba(X))
    assert [r["loss"] for r in none.history_[:8]] == [r["loss"] for r in plain.history_]


def test_a_discriminator_that_knows_the_truth_teaches_it(data, monkeypatch):
    """The classifier moves to answers taken for real, through a generator that copies the classifier."""
    X, answers, truth = data

    def judge(module, pool):
        pool.unlikely[:] = (pool.labels != torch.from_numpy(truth[pool.answers.task])).float()

    monkeypatch.setattr(CrowdInGModule, "set_losses", judge)
    options = {**FAST, "epochs": 2, "generator_epochs": 40, "use_task": False, "two_step": False}
    options |= {"adversarial_lr": 1e-30, "adversarial_epochs": 5}
    sure = []
    for game in ({"classifier_lr": 1e-30}, {}):
        proba = CrowdInG(**options | game).fit(X, answers).predict_proba(X)
        sure.append(np.log(proba[np.arange(len(X)), truth]).mean())
    assert sure[1] > sure[0] + 0.1


def trained(answers, X, **options):
    """The parts that the game changed, compared with the same fit without it."""
    options = {**FEW, **options}
    before = CrowdInG(**{**options, "adversarial_epochs": 0, "discriminator_epochs": 0}).fit(X, answers)
    after = CrowdInG(**options).fit(X, answers)
    parts = ("network", "matrix", "generator", "discriminator", "auxiliary")
    new = after.module_.state_dict()
    changed = [name for name, value in before.module_.state_dict().items() if not torch.equal(value, new[name])]
    return {part for part in parts if any(name.startswith(part) for name in changed)}


def test_the_game_trains_all_but_the_crowd_layer(data):
    X, answers, _ = data
    everyone = {"network", "generator", "discriminator", "auxiliary"}
    assert trained(answers, X, threshold=0.9) == everyone
    assert trained(answers, X, two_step=False) == everyone


def test_without_information_the_auxiliary_network_is_not_trained(data):
    X, answers, _ = data
    assert trained(answers, X, information=0, threshold=0.9) == {"network", "generator", "discriminator"}


def test_threshold_decides_which_network_learns(data):
    X, answers, _ = data
    with pytest.warns(CrowdwiseWarning, match=r"classifier of CrowdInG did not train.*above threshold=2 .*lower"):
        assert "network" not in trained(answers, X, threshold=2.0)  # entropy is at most log 3
    with pytest.warns(CrowdwiseWarning, match=r"generator of CrowdInG did not train.*at most threshold=0 .*raise"):
        assert "generator" not in trained(answers, X, threshold=0.0)


def test_each_network_must_train_in_some_epoch():
    divergence.warn_if_untrained(
        np.array([[0.0, 1.0, 0.2], [0.1, 0.9, 0.2]]), 0.5
    )  # (epochs, models): each has its turn
    for still, who in ((0.0, "generator"), (1.0, "classifier")):
        with pytest.warns(CrowdwiseWarning, match=who):
            divergence.warn_if_untrained(np.array([[0.5, still], [0.5, still]]), 0.5)


@pytest.mark.parametrize(
    "variant",
    [{"information": 0}, {"use_task": False}, {"use_worker": False}, {"select_pairs": "random"},
     {"select_pairs": "entropy"}, {"two_step": False}, {"graph": False}, {"normalisation": "row"},
     {"objective": "printed"}, {"multiplier": 0.8}, {"sparsity": 0.5},
     {"noise": 0.0}, {"max_pairs": 30}, {"ratio_clip": 1.0}],
    ids=lambda variant: next(iter(variant)),
)  # fmt: skip
def test_variants_make_a_difference(data, plain, variant):
    X, answers, _ = data
    other = CrowdInG(**{**FAST, **variant}).fit(X, answers)
    assert not np.array_equal(plain.predict_proba(X), other.predict_proba(X))
    assert np.isfinite(other.answer_proba(X)).all()


def test_without_use_task_the_generator_sees_features_only_through_the_classifier(data):
    X, answers, _ = data
    model = CrowdInG(**FEW, use_task=False).fit(X, answers)
    module = model.module_
    x = torch.from_numpy(X[None, :5])
    row, worker = torch.arange(5), torch.zeros(5, dtype=torch.int64)
    with torch.no_grad():
        log_f = module.class_log_proba(x)[0]
        same = module.answer_log_proba(x, log_f, row, worker), module.answer_log_proba(x + 1, log_f, row, worker)
    torch.testing.assert_close(*same)


@pytest.mark.parametrize(
    "wrong",
    [{"multiplier": "best"}, {"threshold": -1}, {"two_step": False, "threshold": 0.2}, {"ratio_clip": 0.5},
     {"graph": False, "normalisation": "row"}, {"steps": 0}, {"objective": "wgan"}, {"max_pairs": 0},
     {"graph": "no"}, {"two_step": 1}, {"use_task": "no"}, {"use_worker": None},
     {"information": np.nan}, {"scale": "2"}, {"select_pairs": "best"}, {"generator_lr": 0},
     {"adversarial_epochs": -1}],
)  # fmt: skip
def test_invalid_options_are_named(data, wrong):
    X, answers, _ = data
    with pytest.raises(ParameterError, match="|".join(wrong)):
        CrowdInG(**wrong).fit(X, answers)


# The game


def a_game(X, answers, **options):
    model = CrowdInG(**{**FEW, "discriminator_epochs": 0, "adversarial_epochs": 0, **options}).fit(X, answers)
    weight = options.get("weight")
    trainer = model._trainer(model.module_, cw.learn.features.open_features(X), answers, weight)
    return Game(model, trainer, model.module_)


def test_tasks_are_split_by_the_entropy_of_the_classifier(data):
    X, answers, _ = data
    game = a_game(X, answers, threshold=0.8, n_models=2)
    pool, _ = game._draw_pool(0)
    f = game.options.member_proba(X)  # (models, tasks, classes)
    unsure = entropy(f)[:, pool.answers.task] > 0.8
    assert 0 < unsure.mean() < 1
    np.testing.assert_array_equal(pool.unsure, unsure & pool.generated)
    np.testing.assert_array_equal(pool.sure, ~unsure & pool.generated)


def test_one_step_uses_all_tasks(data):
    X, answers, _ = data
    pool, _ = a_game(X, answers, two_step=False)._draw_pool(0)
    for some in (pool.sure, pool.unsure):
        np.testing.assert_array_equal(some[0], pool.generated)


def test_discriminator_has_equally_many_real_and_generated_answers_per_worker(data):
    X, answers, _ = data
    pool, _ = a_game(X, answers, n_models=2)._draw_pool(0)
    given = np.bincount(answers.worker, minlength=8)
    for judged in pool.for_discriminator:
        assert judged[~pool.generated].all()
        made = np.bincount(pool.answers.worker[judged & pool.generated], minlength=8)
        np.testing.assert_array_equal(made, np.minimum(given, 90 - given))
    assert (pool.for_discriminator[0] != pool.for_discriminator[1]).any()


def test_matched_real_answers_are_weighted_by_one_over_entropy(data):
    X, answers, _ = data
    game = a_game(X, answers, n_models=2, generator_lr=0.02, generator_epochs=10)
    pool, _ = game._draw_pool(0)
    real = torch.from_numpy(~pool.generated)
    task, worker = pool.answers.task[real], pool.answers.worker[real]
    x = game.module._flat_features(torch.from_numpy(X).expand(2, -1, -1))
    f = torch.from_numpy(game.options.member_proba(X)).float()
    for m in range(2):
        at = torch.from_numpy(np.stack([task + m * len(X), worker + m * 8])).long()
        with torch.no_grad():
            proba = game.module.generator(x, f, *at, pool.noise[m, real]).exp().double().numpy()
        certainty = 1 / np.maximum(entropy(proba), objective.LEAST_MATCHED)
        mean = np.array([certainty[worker == w].mean() for w in range(8)])
        expected = np.minimum(certainty / mean[worker], objective.MOST_MATCHED)
        np.testing.assert_allclose(pool.judged_weight[m, real], expected, rtol=1e-4)
        assert expected.std() > 0.1
    assert (pool.judged_weight[:, ~real] == 1).all()
    equal, _ = a_game(X, answers, select_pairs="entropy")._draw_pool(0)
    assert (equal.judged_weight == 1).all()


def test_ratio_is_one_before_the_first_step(data):
    X, answers, _ = data
    game = a_game(X, answers, n_models=2)
    pool, _ = game._draw_pool(0)
    game.module.set_losses(pool)
    for batch in pool.epoch(0):
        game.module.generator_risk(batch)
    np.testing.assert_allclose(game.module.figures()["ratio"], 1, atol=1e-5)


def test_networks_train_independently(data):
    """Model 0 of two has the same pairs and answers as alone."""
    X, answers, _ = data
    # Masks of dropout, and noise before the game, are drawn for all models at once.
    options = {**FEW, "network": cw.MLP(8, dropout=0.0), "classifier_lr": 0.01, "noise": 0.0}
    one, two = (CrowdInG(**options, n_models=n).fit(X, answers).member_proba(X) for n in (1, 2))
    np.testing.assert_allclose(two[0], one[0], atol=1e-4)
    assert np.abs(two[0] - two[1]).max() > 0.01


def test_history_has_the_figures_of_each_epoch(fitted):
    games = [r for r in fitted.history_ if r.get("phase") == "adversarial"]
    assert [r["epoch"] for r in games] == [1, 2]
    for name in ("loss_d", "loss_g", "loss_c", "aux", "ratio", "entropy", "generator_fit", "classifier_fit", "same",
                 "agreement", "sure"):  # fmt: skip
        assert all(np.isfinite(r[name]) for r in games), name
    assert len([r for r in fitted.history_ if r.get("phase") == "discriminator"]) == 1


def test_resuming_from_a_checkpoint_gives_the_same_result(data, fitted, tmp_path):
    X, answers, _ = data

    def killed(record):
        if record.get("phase") == "adversarial":
            raise KeyboardInterrupt

    model = CrowdInG(**FEW, checkpoint=str(tmp_path / "state"))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, answers, callback=killed)
    model.fit(X, answers)
    np.testing.assert_array_equal(model.proba_, fitted.proba_)
    assert model.history_ == fitted.history_


def test_select_can_skip_a_harmful_game(data):
    """Hidden answers choose between the state before the game and its epochs."""
    X, answers, _ = data
    options = {**FEW, "select": "held_out", "adversarial_lr": 0.5, "ratio_clip": 100.0}
    model = CrowdInG(**options).fit(X, answers)
    scores = [record["held_out"] for record in model.history_[FEW["epochs"] :] if "held_out" in record]
    assert len(scores) == 1 + 2
    assert scores[0] > max(scores[1:])
    _, held = split_answers(answers, 0.1, 0)
    np.testing.assert_allclose(model.answer_log_likelihood(X, held).mean(), scores[0], atol=1e-5)
    none = CrowdInG(**{**options, "adversarial_epochs": 0, "discriminator_epochs": 0}).fit(X, answers)
    np.testing.assert_array_equal(model.predict_proba(X), none.predict_proba(X))


def test_multiplier_is_searched_on_hidden_answers(data):
    X, answers, _ = data
    options = {**FEW, "adversarial_lr": 0.005, "threshold": 0.9}
    model = CrowdInG(**options, multiplier="search").fit(X, answers)
    assert [trial["multiplier"] for trial in model.search_] == list(GRID)
    near = [trial for trial in model.search_ if abs(trial["ratio"] - 1) <= 0.1]
    best = max(near, key=lambda trial: trial["held_out"])
    assert model.multiplier_ == best["multiplier"]
    assert [trial["chosen"] for trial in model.search_] == [trial is best for trial in model.search_]
    kept, held = split_answers(answers, 0.1, 0)
    again = CrowdInG(**options, multiplier=0.6).fit(X, kept)
    np.testing.assert_allclose(model.search_[0]["held_out"], again.answer_log_likelihood(X, held).mean(), atol=1e-6)


def test_a_search_that_finds_no_difference_keeps_the_mean(data):
    """Where the generator does not learn, mu changes almost nothing, so no value is chosen."""
    X, answers, _ = data
    with pytest.warns(CrowdwiseWarning, match="threshold"):
        model = CrowdInG(**FEW, multiplier="search", threshold=0.0).fit(X, answers)
    scores = [trial["held_out"] for trial in model.search_]
    assert 0 < max(scores) - min(scores) < 1e-4
    assert model.multiplier_ is None
    assert not any(trial["chosen"] for trial in model.search_)
    with pytest.warns(CrowdwiseWarning, match="threshold"):
        plain = CrowdInG(**FEW, threshold=0.0).fit(X, answers)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_a_crowd_without_gaps_has_no_game():
    X, answers, _ = crowd(n_workers=3, per_task=3)
    model = CrowdInG(**FEW).fit(X, answers)
    assert not any("phase" in record for record in model.history_)
    assert model.generate(X).answers.n_answers == 0


# Generated answers


def test_only_pairs_without_an_answer_are_generated(data, fitted):
    X, answers, _ = data
    made, proba = fitted.generate(X)
    assert made.pseudo.all()
    given = np.bincount(answers.worker, minlength=8)
    np.testing.assert_array_equal(np.bincount(made.worker, minlength=8), np.minimum(given, 90 - given))
    both = answers.merge(made)  # raises if a worker has two answers to a task
    assert both.n_answers == answers.n_answers + made.n_answers
    np.testing.assert_allclose(proba, fitted.answer_proba(X)[made.task, made.worker], atol=1e-6)
    everything = fitted.generate(X, per_worker="all").answers
    assert everything.n_answers == 90 * 8 - answers.n_answers
    assert fitted.generate(X, per_worker="all", max_pairs=50).answers.n_answers == 50
    few = fitted.generate(X, per_worker=5).answers
    assert np.bincount(few.worker).tolist() == [5] * 8
    assert few == fitted.generate(X, per_worker=5).answers
    assert few != fitted.generate(X, per_worker=5, random_state=1).answers
    with pytest.raises(ParameterError, match="per_worker"):
        fitted.generate(X, per_worker=0)


def test_generate_fits_an_unfitted_model(data, fitted):
    X, answers, _ = data
    with pytest.raises(NotFittedError):
        CrowdInG(**FEW).generate(X)
    model = CrowdInG(**FEW)
    assert model.generate(X, answers).answers == fitted.generate(X).answers
    some = answers[np.arange(20)]  # other tasks than in `fit`: the model does not change
    made = model.generate(X[:20], some).answers
    assert made.n_tasks == 20
    np.testing.assert_array_equal(model.proba_, fitted.proba_)


def test_another_learner_fits_on_generated_answers():
    """Names of tasks, workers and classes are those of the answers."""
    X, answers, _ = crowd()
    named = cw.Answers.from_arrays(
        [f"t{t:03d}" for t in answers.task], [f"w{w}" for w in answers.worker], [f"c{c}" for c in answers.label]
    )
    made = CrowdInG(**FEW).fit(X, named).generate(X).answers
    both = named.merge(made, pseudo=True)
    assert both.n_tasks == named.n_tasks
    assert both.n_workers == named.n_workers
    assert both.n_classes == 3
    assert cw.AnnoReg(epochs=2).fit(X, both).proba_.shape == (90, 3)


# Claims

PLAIN = {"network": cw.MLP(16, dropout=0.2), "lr": 0.01, "batch_size": 64, "epochs": 15}
GAME = {"generator_lr": 1e-3, "generator_epochs": 20, "discriminator_epochs": 4, "adversarial_epochs": 8, "steps": 2}


def test_generator_predicts_hidden_answers_and_the_game_does_no_harm():
    """Over seeds: better than the shares of the labels, and a classifier not worse than before the game."""
    above, gain = [], []
    for seed in range(3):
        X, answers, _ = crowd(n_tasks=200, n_workers=15, per_task=3, seed=seed)
        X_new, _, truth = crowd(n_tasks=1000, seed=seed + 50)
        kept, held = split_answers(answers, 0.2, seed)
        model = CrowdInG(**PLAIN, **GAME, random_state=seed).fit(X, kept)
        share = np.bincount(kept.label, minlength=3) / kept.n_answers
        above.append((model.answer_log_likelihood(X, held) - np.log(share[held.label])).mean())
        before = cw.CrowdLayer(**PLAIN, random_state=seed).fit(X, kept)
        gain.append(model.score(X_new, truth) - before.score(X_new, truth))
    assert np.mean(above) > 5 * np.std(above, ddof=1) / np.sqrt(len(above))
    assert np.mean(gain) > -0.01
