"""Every method on extreme crowds, weights and features: results are finite, and no library warns."""

import warnings

import numpy as np
import pytest

import crowdwise as cw
from crowdwise import acquire, choose, evaluate
from crowdwise.errors import CrowdwiseWarning, EmptyError, ParameterError, WeightError
from crowdwise.evaluate import summarise
from crowdwise.run.tables.workers import rate_workers
from crowdwise.truth.em import EMModel
from crowdwise.truth.tables import label_table, worker_table
from crowdwise.truth.vote_check import check_against_vote
from tests.helpers.edge_crowds import FEATURES, edge_crowds
from tests.helpers.every_method import FEWEST, LEARNERS, TRUTH, fitted, quick

CROWDS = edge_crowds()
# Unusual priors and starting values, which could lead to overflow.
VARIANTS = [
    ("dawid-skene", {"prior": None}), ("dawid-skene", {"prior": "hierarchical"}), ("dawid-skene", {"hard": True}),
    ("dawid-skene", {"prior": 1e-300}), ("dawid-skene", {"prior": 1e6}), ("one-coin", {"prior": None}),
    ("one-coin", {"prior": (0.0, 0.0), "class_prior": "estimated"}), ("one-coin", {"prior": (5.0, 0.0)}),
    ("glad", {"class_prior": "estimated"}), ("glad", {"ability_mean": -50.0, "log_easiness_mean": 5.0}),
    ("mace", {"method": "em", "smoothing": 1e-12}), ("mace", {"alpha": 1e-6, "beta": 1e-6, "strategy_prior": 1e-6}),
    ("ibcc", {"a_v": 0.02, "b_v": 0.02, "alpha": 0.02}), ("ibcc", {"a_v": 1e6, "b_v": 1e6}),
    ("ebcc", {"num_groups": 2, "a_pi": 1e-6}), ("kos", {"average": False}), ("gold-vote", {"smoothing": 0.0}),
]  # fmt: skip


@pytest.fixture(autouse=True)
def strict():
    """Every warning is an error, except those of crowdwise, which inform about the result."""
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CrowdwiseWarning)
        yield


def assert_probabilities(proba, shape, atol=1e-9):
    assert np.shape(proba) == shape
    assert np.isfinite(proba).all()
    assert np.min(proba, initial=0) >= 0
    np.testing.assert_allclose(np.sum(proba, axis=-1), 1, atol=atol)


def assert_bound_never_falls(model, answers):
    """Except for rounding: 1e-9 of the bound and of the total weight, and 1e-14 of the terms that cancel in it.

    These terms are ability times easiness in GLAD (1e13 if an answer has weight one million), and the gamma functions
    of the prior counts in IBCC.
    """
    history = np.array(model.history_)
    assert np.isfinite(history).all()
    weight = answers.n_answers if answers.weight is None else answers.weight.sum()
    terms = answers.n_workers * answers.n_classes**2 * 20 * getattr(model, "a_v", 0.0)
    if hasattr(model, "ability_"):
        terms += weight * np.abs(model.ability_).max() * model.easiness_.max()
    slack = 1e-9 * (np.abs(history[1:]) + weight) + 1e-14 * terms
    assert (np.diff(history) >= -slack).all()


def golds(answers):
    """Return no gold, and gold for every second task, regardless of its answers."""
    known = np.arange(answers.n_tasks)
    return None, np.where(known % 2, -1, known // 2 % answers.n_classes).astype(np.int32)


@pytest.mark.parametrize(("name", "parameters"), [*((name, {}) for name in TRUTH), *VARIANTS])
def test_truth_methods_on_edge_crowds(name, parameters):
    for case, answers in CROWDS.items():
        for gold in golds(answers):
            model = cw.make(name, **parameters)
            if (model.needs_gold and gold is None) or (answers.weight is not None and not model.uses_weights):
                continue
            try:
                model.fit(answers, gold)
                assert_probabilities(model.proba_, (answers.n_tasks, answers.n_classes))
                assert np.isin(model.labels_, answers.classes).all()
                if isinstance(model, EMModel):
                    assert_bound_never_falls(model, answers)
                for attribute in ("confusion_", "strategy_", "class_prior_", "subtype_share_"):
                    if hasattr(model, attribute):
                        value = getattr(model, attribute)
                        assert_probabilities(value, value.shape, atol=1e-6)
                for attribute in ("skill_", "ability_", "difficulty_", "competence_"):
                    assert np.isfinite(getattr(model, attribute, 0)).all()
            except Exception as error:
                error.add_note(f"on {case!r}, gold {None if gold is None else (gold >= 0).mean()}")
                raise


def test_values_in_tables_are_within_their_range():
    for case, answers in CROWDS.items():
        model = cw.MajorityVote().fit(answers)
        tables = (label_table(model), worker_table(model), worker_table(model, "belief"),
                  rate_workers(answers, model.proba_, model.codes_))  # fmt: skip
        for table in tables:
            for name in ("confidence", "agreement", "quality", "quality_low", "quality_high", "informativeness"):
                if name in table.column_names and table[name].type == "double":
                    values = table[name].drop_null().to_numpy()
                    most = np.log2(answers.n_classes) if name == "informativeness" else 1
                    assert ((values >= 0) & (values <= most + 1e-9)).all(), (case, name)


TOO_SMALL = {"one task", "one answer", "one class"}  # for a classifier
REDUNDANT = {  # similar to other crowds
    "two against two",
    "perfect",
    "weights equal",
    "weights float32",
    "weights zero for a worker",
    "long tasks",
}


def assert_valid(model, X, answers):
    for proba in (model.proba_, model.predict_proba(X)):
        assert_probabilities(proba, (answers.n_tasks, answers.n_classes), atol=1e-6)
    answer_proba = model.answer_proba(X)
    assert_probabilities(answer_proba, (answers.n_tasks, answers.n_workers, answers.n_classes), atol=1e-5)
    assert np.isin(model.predict(X), answers.classes).all()
    assert np.isfinite(model.score(X, answers))


def features(n_tasks):
    return np.random.default_rng(0).normal(size=(n_tasks, 4)).astype(np.float32)


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_on_edge_crowds(name):
    for case in sorted(CROWDS.keys() - TOO_SMALL - REDUNDANT):
        answers = CROWDS[case]
        X = features(answers.n_tasks)
        try:
            assert_valid(fitted(name, X, answers, FEWEST), X, answers)
        except Exception as error:
            error.add_note(f"on {case!r}")
            raise


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_on_edge_features(name):
    answers = CROWDS["half adversarial"]
    for case, change in FEATURES.items():
        X = change(features(answers.n_tasks))
        try:
            assert_valid(fitted(name, X, answers, FEWEST), X, answers)
        except Exception as error:
            error.add_note(f"on {case!r}")
            raise
    weight = 10.0 ** np.arange(-300, 300, 25)
    assert_valid(quick(name, FEWEST).fit(X, answers, sample_weight=weight), X, answers)


@pytest.mark.parametrize("name", [*TRUTH, *LEARNERS])
def test_zero_weights_are_rejected(name):
    answers = cw.Answers.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1], weight=np.zeros(4))
    uses = getattr(cw.make(name), "uses_weights", True)
    with pytest.raises(EmptyError if uses else (EmptyError, WeightError), match="weight"):
        fitted(name, features(2), answers)


def test_invalid_weights_are_rejected():
    for weight in (2e6, 1e300, np.inf, np.nan, -1e-300):
        with pytest.raises(WeightError, match="from 0 to 1e\\+06"):
            cw.Answers.from_arrays([0, 1], [0, 1], [0, 1], weight=[1.0, weight])


def test_agreement_and_summary_on_edge_crowds():
    for case, answers in CROWDS.items():
        figures = [evaluate.krippendorff_alpha(answers), evaluate.fleiss_kappa(answers)]
        figures += [evaluate.pairwise_agreement(answers)]
        assert all(value is None or (np.isfinite(value) and value <= 1 + 1e-12) for value in figures), case
        assert str(summarise(answers))
        evaluate.cliques.alike(answers)


def test_scores_of_probabilities_0_and_1_are_finite():
    truth = np.array([0, 1, 1, 0, -1])
    for kind in (np.float32, np.float64):
        for proba in (np.eye(2)[[0, 1, 1, 0, 0]], np.eye(2)[[1, 0, 0, 1, 0]], np.full((5, 2), 0.5)):
            found = evaluate.evaluate(proba.astype(kind), truth).as_dict()
            assert all(np.isfinite(value) for value in found.values() if isinstance(value, float))
            for temperature in (1e-3, 1.0, 1e3):
                cooled = evaluate.calibration.tempered(proba.astype(kind), temperature)
                assert_probabilities(cooled, (5, 2), atol=1e-6)


@pytest.mark.parametrize("strategy", acquire.STRATEGIES)
def test_proposals_on_edge_crowds(strategy):
    for case, answers in CROWDS.items():
        if answers.n_classes > 1:
            proposal = acquire.propose(cw.OneCoin().fit(answers), 2, strategy=strategy)
            for column in proposal.table.columns:
                if column.type == "double":
                    assert np.isfinite(column.drop_null().to_numpy()).all(), case


def test_choice_of_a_method_on_edge_crowds():
    for case, answers in CROWDS.items():
        try:
            choice = choose.choose(answers, None, ["majority-vote", "one-coin", "dawid-skene"], folds=2)
            assert np.isfinite([t for t in choice.temperatures.values() if t is not None]).all()
            assert np.isfinite(check_against_vote(cw.OneCoin(), answers).difference)
        except cw.errors.CrowdwiseError as error:
            assert "too few" in str(error) or "can be held out" in str(error), (case, error)


def test_bound_is_correct_if_gold_contradicts_all_answers():
    """2,000 workers answer 0 to a task whose gold is 1: its likelihood underflows to zero."""
    n = 2000
    answers = cw.Answers.from_arrays([0] * n + [1], [*range(n), 0], [0] * n + [1], classes=[0, 1])
    model = cw.DawidSkene(class_prior="uniform", max_iter=2, tol=0).fit(answers, np.array([1, -1], np.int32))
    contradicting = model.confusion_[:, 1, 0]
    lone = 0.5 * (model.confusion_[0, 0, 1] + model.confusion_[0, 1, 1])
    prior = (0.1 + np.eye(2)) * np.log(model.confusion_)  # log density of the matrices, up to a constant
    bound = np.log(0.5) + np.log(contradicting).sum() + np.log(lone) + prior.sum()
    assert model.history_[-1] == pytest.approx(bound, rel=1e-9)


def test_crowdlab_needs_two_tasks():
    with pytest.raises(ParameterError, match="two answered tasks"):
        fitted("crowdlab", features(1), CROWDS["one task"])
