"""CrowdInG warns of divergence with a remedy, and does not warn otherwise."""

import warnings

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.augment.crowding import divergence
from crowdwise.augment.crowding.crowding import CrowdInG
from crowdwise.errors import CrowdwiseWarning, DivergenceWarning
from tests.helpers.crowding_crowds import FEW, crowd


@pytest.fixture(scope="module")
def data():
    return crowd()


def test_a_diverged_game_warns(data):
    X, answers, _ = data
    with pytest.warns(DivergenceWarning, match="diverged"):
        CrowdInG(**{**FEW, "adversarial_lr": 0.3}, multiplier=5.0).fit(X, answers)


@pytest.fixture(scope="module")
def digits():
    return cw.simulate.digits_crowd()


SHORT = {"epochs": 2, "generator_epochs": 1, "discriminator_epochs": 1, "adversarial_epochs": 1}
DIVERGING = [
    ({"generator_lr": 1e4}, "generator fits .* after pre-training, a uniform guess at -2.3; lower generator_lr"),
    ({"lr": 1e6}, "classifier fits .* after pre-training, a uniform guess at -2.3; lower lr"),
    ({"adversarial_lr": 1.0, "threshold": 2.0}, "generator fits .* after the game.* lower adversarial_lr"),
    (
        {"discriminator_lr": 10.0, "adversarial_epochs": 0, "discriminator_epochs": 5},
        "at chance it is 1.81; lower discriminator_lr",
    ),
    (
        {"classifier_lr": 5.0, "threshold": 0.01, "adversarial_epochs": 3},
        "changed its class for .* lower classifier_lr",
    ),
    ({"generator_lr": 1e4, "adversarial_epochs": 0, "discriminator_epochs": 0}, "lower generator_lr"),
]


@pytest.mark.parametrize(("options", "message"), DIVERGING)
@pytest.mark.filterwarnings("ignore:the .* of CrowdInG did not train")
def test_diverging_fits_warn_with_a_remedy(digits, options, message):
    with pytest.warns(DivergenceWarning, match=message):
        CrowdInG(**{**SHORT, **options}).fit(*digits)


def test_a_diverged_generator_warns_without_a_game():
    X, answers, _ = crowd(n_workers=3, per_task=3)
    with pytest.warns(DivergenceWarning, match="lower generator_lr"):
        CrowdInG(**{**FEW, "generator_lr": 1e4}).fit(X, answers)


@pytest.mark.parametrize(("n_classes", "per_task", "seed"), [(2, 2, 0), (3, 3, 1), (8, 3, 2)])
@pytest.mark.filterwarnings("ignore:the .* of CrowdInG did not train")
def test_default_rates_do_not_warn(n_classes, per_task, seed):
    """Default rates, one epoch or ten of each: a DivergenceWarning would be an error."""
    X, answers, _ = crowd(n_tasks=100, n_workers=15, n_classes=n_classes, per_task=per_task, seed=seed)
    for n in (1, 10):
        lengths = {"epochs": n, "generator_epochs": n, "discriminator_epochs": n, "adversarial_epochs": n}
        model = CrowdInG(**lengths, random_state=seed).fit(X, answers)
        assert model.history_[-1]["agreement"] > 0.9


def test_agreement_is_with_the_classifier_before_the_game(data):
    X, answers, _ = data
    weight = np.where(np.arange(90) < 30, 0.0, 1.0)  # tasks of weight zero are ignored
    options = {**FEW, "classifier_lr": 0.02, "threshold": 0.3, "n_models": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        after = CrowdInG(**options).fit(X, answers, sample_weight=weight)
    before = CrowdInG(**{**options, "adversarial_epochs": 0}).fit(X, answers, sample_weight=weight)
    alike = after.member_proba(X).argmax(2) == before.member_proba(X).argmax(2)
    assert alike[:, 30:].mean() < 1
    np.testing.assert_allclose(after.history_[-1]["agreement"], alike[:, 30:].mean())


GOOD = {"same": 0.4, "ratio": 1.0, "generator_fit": -1.0, "classifier_fit": -1.0, "agreement": 1.0, "loss_d": 0.7}
LEVEL = divergence.ReferenceLevels(real_share=0.5, uniform=-2.0, judges=0.7)


def figures(**of_one):
    """Figures of two models; the first did well."""
    return {name: np.array([value, of_one.get(name, value)]) for name, value in GOOD.items()}


@pytest.mark.parametrize(
    ("after", "message"),
    [({"same": 1.0}, "collapsed"), ({"ratio": 0.3}, "G / G0 is 0.30"), ({"ratio": 1.8}, "G / G0 is 1.80"),
     ({"generator_fit": -1.6}, "generator fits the real answers 0.60 nats worse.*adversarial_lr"),
     ({"classifier_fit": -1.6}, "classifier fits the real answers 0.60 nats worse.*classifier_lr"),
     ({"generator_fit": -2.3}, "-2.3 nats after the game, a uniform guess at -2"),
     ({"generator_fit": np.nan}, "nan nats after the game"),
     ({"agreement": 0.6}, "changed its class for 40% of the tasks"),
     ({"loss_d": 2.2}, "reached 2.2.*discriminator_lr")],
)  # fmt: skip
def test_each_kind_of_divergence_has_a_remedy(after, message):
    with pytest.warns(DivergenceWarning, match=message):
        divergence.warn_on_divergence(figures(), figures(**after), LEVEL)


def test_divergence_in_pre_training_is_not_blamed_on_the_game():
    bad = figures(classifier_fit=-2.3)
    with pytest.warns(DivergenceWarning, match="after pre-training.*lower lr") as caught:
        divergence.warn_on_divergence(bad, bad, LEVEL)
    assert "classifier_lr" not in str(caught[0].message)


def test_a_normal_game_does_not_warn():
    well = figures(ratio=1.2, generator_fit=-0.5, classifier_fit=-1.2, agreement=0.8, loss_d=1.9)
    near = figures(generator_fit=-2.2)  # hardly trained
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        divergence.warn_on_divergence(figures(), well, LEVEL)
        divergence.warn_on_divergence(near, near, LEVEL)
        divergence.warn_on_divergence(figures(), figures(same=1.0), LEVEL._replace(real_share=0.95))
    assert said == []
