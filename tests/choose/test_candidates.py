"""Which candidates a run compares."""

import pytest

import crowdwise as cw
from crowdwise._core.installation import install_command
from crowdwise.choose import candidates as module
from crowdwise.choose.candidates import (
    LEARNERS,
    LEARNERS_WITHOUT_TORCH,
    QUICK_LEARNERS,
    QUICK_TRUTH,
    select_candidates,
)
from crowdwise.errors import ParameterError


@pytest.fixture(scope="module")
def answers():
    return cw.simulate.simulate(30, n_workers=5, n_classes=3)


def names(answers, method="auto", with_features=False):
    return list(select_candidates(answers, method, with_features=with_features, seed=0).models)


def test_majority_vote_is_always_first(answers):
    for method in ("auto", "glad", ["dawid-skene", "majority-vote"]):
        assert names(answers, method)[0] == "majority-vote"
    assert names(answers, "majority-vote") == ["majority-vote"]


def test_learners_are_compared_only_with_features(answers):
    assert set(LEARNERS) & set(names(answers)) == set()
    assert names(answers, with_features=True) == [*QUICK_TRUTH, *LEARNERS]


def test_large_data_has_fewer_candidates_and_a_note(answers, monkeypatch):
    monkeypatch.setattr(module, "MANY_TASKS", 10)
    selected = select_candidates(answers, "auto", with_features=True, seed=0)
    assert list(selected.models) == [*QUICK_TRUTH, *QUICK_LEARNERS] and "tasks" in selected.notes[0]
    monkeypatch.setattr(module, "MANY_ANSWERS", 10)
    selected = select_candidates(answers, "auto", with_features=False, seed=0)
    assert list(selected.models) == list(QUICK_TRUTH) and "answers" in selected.notes[0]


def test_without_torch_there_are_no_networks(answers, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    selected = select_candidates(answers, "auto", with_features=True, seed=0)
    assert (
        list(selected.models) == [*QUICK_TRUTH, *LEARNERS_WITHOUT_TORCH]
        and install_command("torch") in selected.notes[0]
    )


def test_one_name_is_a_request_and_several_are_a_choice(answers):
    assert select_candidates(answers, "glad", with_features=False, seed=0).requested == "glad"
    assert select_candidates(answers, ["glad", "mace"], with_features=False, seed=0).requested is None
    assert select_candidates(answers, "auto", with_features=False, seed=0).requested is None


def test_the_seed_reaches_every_part(answers):
    models = select_candidates(answers, "dasc", with_features=True, seed=7).models
    seeds = {name: value for name, value in models["dasc"].get_params().items() if name.endswith("random_state")}
    assert set(seeds.values()) == {7} and "base__random_state" in seeds


def test_joint_em_or_the_pool_is_the_default_among_several(answers):
    def default(method, with_features=True):
        return select_candidates(answers, method, with_features=with_features, seed=0).default

    assert default("auto") == default(["glad", "joint-em"]) == "joint-em"
    assert default("auto", with_features=False) == "pool" and default(["glad", "raykar"]) is None
    assert default("joint-em") is None  # it was requested, so there is nothing to choose


@pytest.mark.parametrize("shares", ["balanced", {0: 1, 1: 2, 2: 1}])
def test_declared_class_shares_reach_joint_em_with_a_note(answers, shares):
    selected = select_candidates(answers, "auto", with_features=True, seed=0, class_prior=shares)
    assert selected.models["joint-em"].class_prior == shares
    assert "joint-em" in selected.notes[-1]


@pytest.mark.parametrize(
    ("method", "shares", "message"),
    [("raykar", "balanced", "joint-em"), ("auto", {0: 1}, "class_prior"), ("auto", "even", "balanced")],
)
def test_class_shares_that_no_candidate_can_use_are_rejected(answers, method, shares, message):
    with pytest.raises(ParameterError, match=message):
        select_candidates(answers, method, with_features=True, seed=0, class_prior=shares)


@pytest.mark.parametrize("method", ["nonsense", "crowdlayer", "gold-vote", [], ["auto", "glad"]])
def test_methods_that_cannot_run_are_rejected(answers, method):
    with pytest.raises(ParameterError):
        select_candidates(answers, method, with_features=False, seed=0)
