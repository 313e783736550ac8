"""Damaged and forged models of every registered kind: refused by name, or the same model; never another exception."""

from __future__ import annotations

import numpy as np
import pytest

import crowdwise as cw
from crowdwise._core.registry import methods
from tests.helpers.damaged import attack, crowd, damage, outcome


@pytest.mark.parametrize("name", [method.name for method in methods()])
def test_damage_is_refused_or_harmless(name, tmp_path):
    count = attack(name, tmp_path, n_damaged=25, n_forged=12, seed=0)
    assert not [kind for kind in count if "FAULT" in kind]
    assert count["damaged: refused"] >= 24  # a piece of no length lost or doubled is no damage


def test_the_harness_finds_a_fault(tmp_path):
    model = cw.MajorityVote().fit(crowd()[1])
    model.save(tmp_path / "m")
    assert outcome(tmp_path / "m", [model.proba_]) == "the same"
    assert outcome(tmp_path / "m", [model.proba_ + 0.01]) == "FAULT: silently another model"
    rng = np.random.default_rng(0)
    content = (tmp_path / "m").read_bytes()
    assert sum(damage(content, rng) == content for _ in range(200)) < 10
