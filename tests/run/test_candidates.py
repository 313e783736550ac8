"""What a run tries, by what there is to learn from."""

import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.run import candidates as module
from crowdwise.run.candidates import LEARNERS, QUICK, QUICK_LEARNERS, WITHOUT_TORCH, candidates


@pytest.fixture(scope="module")
def answers():
    return cw.simulate.simulate(30, n_workers=5, n_classes=3)


def names(answers, method="auto", features=False):
    return list(candidates(answers, method, features=features, seed=0).models)


def test_majority_vote_is_always_first(answers):
    for method in ("auto", "glad", ["dawid-skene", "majority-vote"]):
        assert names(answers, method)[0] == "majority-vote"
    assert names(answers, "majority-vote") == ["majority-vote"]


def test_features_bring_learners(answers):
    assert set(LEARNERS) & set(names(answers)) == set()
    assert names(answers, features=True) == [*QUICK, *LEARNERS]


def test_large_data_gets_fewer_and_is_told_so(answers, monkeypatch):
    monkeypatch.setattr(module, "MANY_TASKS", 10)
    found = candidates(answers, "auto", features=True, seed=0)
    assert list(found.models) == [*QUICK, *QUICK_LEARNERS] and "tasks" in found.notes[0]
    monkeypatch.setattr(module, "MANY_ANSWERS", 10)
    found = candidates(answers, "auto", features=False, seed=0)
    assert list(found.models) == list(QUICK) and "answers" in found.notes[0]


def test_without_torch_there_are_no_networks(answers, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    found = candidates(answers, "auto", features=True, seed=0)
    assert list(found.models) == [*QUICK, *WITHOUT_TORCH] and "crowdwise[torch]" in found.notes[0]


def test_one_name_is_an_order_and_several_a_choice(answers):
    assert candidates(answers, "glad", features=False, seed=0).told == "glad"
    assert candidates(answers, ["glad", "mace"], features=False, seed=0).told is None
    assert candidates(answers, "auto", features=False, seed=0).told is None


def test_the_seed_reaches_every_part(answers):
    models = candidates(answers, "dasc", features=True, seed=7).models
    seeds = {name: value for name, value in models["dasc"].get_params().items() if name.endswith("random_state")}
    assert set(seeds.values()) == {7} and "base__random_state" in seeds


def test_joint_em_is_the_default_where_there_is_a_choice(answers):
    def default(method, features=True):
        return candidates(answers, method, features=features, seed=0).default

    assert default("auto") == default(["glad", "joint-em"]) == "joint-em"
    assert default("auto", features=False) is default(["glad", "raykar"]) is None
    assert default("joint-em") is None  # it was asked for: nothing is chosen


@pytest.mark.parametrize("shares", ["balanced", {0: 1, 1: 2, 2: 1}])
def test_declared_shares_reach_joint_em_and_are_told(answers, shares):
    found = candidates(answers, "auto", features=True, seed=0, class_prior=shares)
    assert found.models["joint-em"].class_prior == shares
    assert "joint-em" in found.notes[-1]


@pytest.mark.parametrize(
    ("method", "shares", "message"),
    [("raykar", "balanced", "joint-em"), ("auto", {0: 1}, "a share for each class"), ("auto", "even", "balanced")],
)
def test_declared_shares_that_nothing_could_use_are_refused(answers, method, shares, message):
    with pytest.raises(ParameterError, match=message):
        candidates(answers, method, features=True, seed=0, class_prior=shares)


@pytest.mark.parametrize("method", ["nonsense", "crowdlayer", "gold-vote", [], ["auto", "glad"]])
def test_what_cannot_be_tried_is_refused(answers, method):
    with pytest.raises(ParameterError):
        candidates(answers, method, features=False, seed=0)
