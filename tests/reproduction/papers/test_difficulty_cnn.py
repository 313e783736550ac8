"""The difficulty paper's network on pixels; small squares, bright or dark, replace pictures of dogs and cats."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.learn.network.architectures import CNN
from reproduction.cells import Cell
from reproduction.crowds.difficulty import SKILL
from reproduction.papers import difficulty_cnn
from reproduction.papers.difficulty_cnn import EXPERIMENTS, MODELS, draw, reference, run, stamp

SIZE = 200


@pytest.fixture(autouse=True)
def squares(monkeypatch):
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], SIZE // 2)
    x = np.uint8(np.clip(rng.normal(90 + 70 * truth[:, None, None, None], 60, (SIZE, 3, 16, 16)), 0, 255))
    x[:, 0, 0, 0] = np.arange(SIZE)  # names the picture
    monkeypatch.setattr(difficulty_cnn, "pictures", lambda: (x, truth))
    reference.cache_clear()
    yield x, truth
    reference.cache_clear()


def test_pictures_of_training_test_and_p_are_disjoint_and_seeds_split_them_again(squares):
    splits = []
    for seed in (0, 1):
        drawn = draw("pixels-structural", seed, quick=True)
        parts = [set(part[:, 0, 0, 0].tolist()) for part in (drawn.problem.X, drawn.problem.X_test)]
        parts.append(set(reference(True)[0].tolist()))
        assert [len(part) for part in parts] == [60, 60, 80] and len(set().union(*parts)) == SIZE
        assert drawn.skill is SKILL and drawn.problem.answers.n_workers == 5
        np.testing.assert_array_equal(drawn.problem.answers.truth, squares[1][drawn.problem.X[:, 0, 0, 0]])
        splits.append(parts)
    assert splits[0][2] == splits[1][2] and splits[0][0] != splits[1][0]
    assert draw("pixels-unstructured", 0, quick=True).skill is None


@pytest.mark.parametrize("method", ["MV", "Raykar", "Adaptive", "Fixed"])
def test_every_method_trains_the_papers_network(method):
    assert isinstance(MODELS[method].network, CNN) and MODELS[method].network.channels == (32, 32, 64, 64)
    cell = Cell("difficulty-cnn", method, "pixels-unstructured", (0,), quick=True)
    (found,) = run(cell)
    assert set(found) >= {"last", "labels", "auc"} and 0 <= found["last"] <= 100
    assert found["auc"] > 80  # five answers per task, four of five right
    assert stamp(cell) != stamp(cell._replace(method="Fixed prior=votes"))


def test_published_numbers_belong_to_rows():
    (experiment,) = EXPERIMENTS
    assert experiment.published["Fixed", "pixels-structural"] == (74.3, 1.7)
    assert all(m in experiment.methods and p in experiment.problems for m, p in experiment.published)
