"""Methods combine: the output of one is the input of another."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise._core.registry import find_method
from crowdwise.errors import ParameterError


@pytest.fixture(scope="module")
def crowd():
    """A sparse, uneven crowd of digits, and images without answers."""
    X, answers = cw.simulate.digits_crowd(seed=3)
    X = X.astype(np.float32)
    kept = np.flatnonzero(answers.truth < 4)
    rows, new = kept[::2], kept[1::2]
    asked = answers[rows].select(classes=[0, 1, 2, 3])
    return X[rows], asked, X[new], answers.classes[answers.truth[new]]


def learner(name="crowdlayer", **options):
    return cw.make(name, epochs=15, lr=0.01, **options)


def test_conal_learns_from_the_tasks_that_waum_keeps(crowd):
    X, answers, X_new, truth = crowd
    kept = cw.WAUM(epochs=5).fit(X, answers).prune(alpha=0.05)
    model = learner("conal").fit(X[kept.rows], kept.answers)
    assert set(model.tasks_.tolist()) == set(answers.tasks.tolist()) - set(answers.tasks[kept.removed].tolist())
    assert len(kept.removed) == np.ceil(0.05 * len(answers))
    assert model.score(X_new, truth) > 0.8


def test_pruned_equals_waum_followed_by_the_learner(crowd):
    X, answers, X_new, truth = crowd
    model = cw.Pruned(learner("conal"), by=cw.WAUM(epochs=5), alpha=0.05).fit(X, answers)
    kept = cw.WAUM(epochs=5).fit(X, answers).prune(alpha=0.05)
    assert np.array_equal(np.flatnonzero(model.kept_), kept.rows)
    assert np.isin(kept.removed, answers.task).all()
    assert not np.isin(kept.removed, model.model_.answers_.task).any()  # their answers are removed
    assert model.model_.answers_.n_answers == kept.answers.n_answers
    assert model.score(X_new, truth) > 0.8


def test_dasc_with_waum_before_or_inside(crowd):
    X, answers, X_new, truth = crowd
    kept = cw.WAUM(epochs=5).fit(X, answers).prune(alpha=0.05)
    by_hand = cw.DASC(learner(), iterations=2).fit(X[kept.rows], kept.answers)
    pool = by_hand.model_.answers_
    assert pool.n_tasks == len(kept.rows)
    assert pool.pseudo.sum() == pool.n_answers - kept.answers.n_answers > 0
    assert by_hand.score(X_new, truth) > 0.8
    pruned = cw.Pruned(learner(), by=cw.WAUM(epochs=5), alpha=0.05)
    nested = cw.DASC(pruned, iterations=1, hidden=0.0).fit(X, answers)
    seen = nested.model_.model_.answers_  # seen by the inner learner: with pseudo-answers, without ambiguous tasks
    assert seen.pseudo.any()
    assert not np.isin(np.flatnonzero(~nested.model_.kept_), seen.task).any()
    assert nested.score(X_new, truth) > 0.8


def test_dasc_adds_answers_for_aggnet(crowd):
    X, answers, X_new, truth = crowd
    model = cw.DASC(learner("aggnet"), iterations=2, hidden=0.0).fit(X, answers)
    assert model.model_.answers_.n_answers == answers.n_answers + sum(sum(h["chosen"]) for h in model.history_)
    assert model.score(X_new, truth) > 0.8


def test_crowdlayer_learns_from_synthetic_tasks_of_iced(crowd):
    X, answers, X_new, truth = crowd
    X_more, more = cw.ICED(epochs=5, random_state=0).fit_resample(X, answers)
    assert len(X_more) == len(more) > len(answers)
    np.testing.assert_array_equal(X_more[: len(X)], X)
    assert np.array_equal(more.pseudo, more.task >= len(answers))  # only answers to synthetic tasks
    model, plain = learner().fit(X_more, more), learner().fit(X, answers)
    assert np.abs(model.predict_proba(X_new) - plain.predict_proba(X_new)).max() > 0.01
    assert model.score(X_new, truth) > 0.8


def test_annoreg_learns_from_generated_answers_of_crowding(crowd):
    X, answers, X_new, truth = crowd
    made = (
        cw.CrowdInG(epochs=15, lr=0.01, generator_epochs=5, adversarial_epochs=3, two_step=False)
        .fit(X, answers)
        .generate(X)
    )
    both = answers.merge(made.answers, pseudo=True)  # rejects a pair that already has an answer
    assert both.n_answers == answers.n_answers + made.answers.n_answers > answers.n_answers
    with_them, without = learner("annoreg").fit(X, both), learner("annoreg").fit(X, answers)
    assert np.abs(with_them.predict_proba(X_new) - without.predict_proba(X_new)).max() > 0.01
    assert with_them.score(X_new, truth) > 0.8


@pytest.mark.parametrize(
    "name",
    [
        "dasc(crowdlayer)",
        "waum(conal)",
        "dasc(waum(crowdlayer))",
        "completed(annoreg)",
        "waum(wds)",
        "dasc(glad)",
        "dasc(joint-em)",
        "waum(joint-em)",
        "completed(joint-em)",
    ],
)
def test_names_with_brackets_build_nested_methods(name):
    outer, _, inner = name.rstrip(")").partition("(")
    model = cw.make(name)
    assert type(model) is find_method(outer).load()
    assert type(model.base) is find_method(inner.partition("(")[0]).load()


@pytest.mark.filterwarnings("ignore:no pseudo-answers were added")
@pytest.mark.parametrize("framework", [cw.DASC, cw.Pruned, cw.Completed])
def test_validation_tasks_select_the_epoch_of_the_learner(framework, crowd):
    X, answers, X_new, truth = crowd
    model = framework(learner(select="validation")).fit(X, answers, validation=(X_new, truth))
    best = max(record["validation"] for record in model.model_.history_)
    assert model.score(X_new, truth) == best
    with pytest.raises(ParameterError, match="validation"):
        framework(learner()).fit(X, answers, validation=(X_new, truth))


def rigid(**options):
    return cw.JointEM("lda", features="plain", **options)


@pytest.mark.parametrize(
    "framework",
    [
        cw.DASC(rigid(), iterations=2, hidden=0.0),
        cw.Pruned(rigid(), by=cw.WAUM(epochs=5), alpha=0.05),
        cw.Completed(rigid(), max_pairs=200),
    ],
    ids=lambda framework: type(framework).__name__,
)
def test_frameworks_over_joint_em(framework, crowd, tmp_path):
    X, answers, X_new, truth = crowd
    gold, weight = np.full(len(answers), -1), np.linspace(0.5, 1.5, len(answers))
    gold[:5], weight[-40:] = (answers.truth[:5] + 1) % 4, 0.0  # wrong gold, which no method would infer by itself
    model = framework.fit(X, answers, gold=gold, sample_weight=weight)
    assert np.array_equal(model.codes_[:5], gold[:5])
    assert model.score(X_new, truth) > 0.9
    seen = model.model_.answers_  # seen by JointEM, which also received gold and weights
    assert seen.n_answers != answers.n_answers
    by_hand = rigid().fit(X, seen, gold=gold, sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba(X_new), by_hand.predict_proba(X_new))
    model.save(tmp_path / "model")
    np.testing.assert_allclose(cw.load(tmp_path / "model").answer_proba(X_new[:5]), model.answer_proba(X_new[:5]))


def test_dasc_adds_no_answers_to_tasks_with_weight_zero(crowd):
    X, answers, *_ = crowd
    weight = (np.arange(len(answers)) < 200).astype(float)
    model = cw.DASC(rigid(), iterations=1, hidden=0.0).fit(X, answers, sample_weight=weight)
    assert len(model.pseudo_["task"]) > 0
    assert model.pseudo_["task"].max() < 200


def test_soft_waum_weights_reach_joint_em(crowd):
    X, answers, X_new, _ = crowd
    model = cw.Pruned(rigid(), by=cw.WAUM(epochs=5), soft=True).fit(X, answers)
    by_hand = rigid().fit(X, answers, sample_weight=cw.WAUM(epochs=5).fit(X, answers).weights())
    np.testing.assert_allclose(model.predict_proba(X_new), by_hand.predict_proba(X_new))
    assert np.abs(by_hand.predict_proba(X_new) - rigid().fit(X, answers).predict_proba(X_new)).max() > 1e-3


@pytest.mark.parametrize("classifier", ["auto", "mlp"])
@pytest.mark.parametrize("option", ["warm_start", "apart"])
def test_dasc_rejects_network_options_with_joint_em(option, classifier, crowd):
    X, answers, *_ = crowd
    with pytest.raises(ParameterError, match=r"has no network|cannot train each network"):
        cw.DASC(cw.JointEM(classifier), hidden=0.0, **{option: True}).fit(X, answers)
