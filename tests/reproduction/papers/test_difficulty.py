"""The difficulty paper's problems and figures, compared with oracles; noisy clouds of numbers replace pictures."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from reproduction.cells import Cell
from reproduction.crowds.difficulty import SKILL
from reproduction.experiments import lines
from reproduction.papers import difficulty
from reproduction.papers.difficulty import (
    EXPERIMENTS,
    FAMILY,
    GRID,
    MODELS,
    PUBLISHED,
    SETS,
    draw,
    run,
    score,
    sets,
    stamp,
)
from reproduction.store import Store

NAMED = {experiment.name: experiment for experiment in EXPERIMENTS}


def cell(method: str, problem: str, *seeds: int, quick: bool = False) -> Cell:
    return Cell("difficulty", method, problem, seeds or (0,), quick=quick)


def test_paper_points_are_fixed_and_answers_are_redrawn():
    (one, _), (other, _) = (draw("gaussian-paper", seed) for seed in (0, 1))
    assert np.array_equal(one.X, other.X) and np.array_equal(one.X_test, other.X_test)
    assert (one.answers.label != other.answers.label).any()
    assert not np.array_equal(draw("gaussian-structural", 0).problem.X, draw("gaussian-structural", 1).problem.X)


@pytest.mark.parametrize(("kind", "share"), [("structural", 0.585), ("unstructured", 0.797), ("by-task", 0.725)])
def test_answers_are_right_as_often_as_planted(kind, share):
    problem, skill = draw(f"gaussian-{kind}", 3)
    answers = problem.answers
    assert np.mean(answers.label == answers.truth[answers.task]) == pytest.approx(share, abs=0.03)
    assert (skill is SKILL) == (kind == "structural")


def test_each_seed_draws_its_own_data_sets():
    found = [number for seed in range(5) for number in sets(cell("Fixed", "gaussian-paper", seed))]
    assert found == list(range(5 * SETS))
    assert len(run(cell("best rule", "gaussian-structural", 1))) == SETS
    assert sets(cell("Fixed", "gaussian-paper", 0, quick=True)) == [0]


def test_best_rule_reaches_its_theoretical_accuracy():
    found = [each["last"] for each in run(cell("best rule", "gaussian-structural", *range(5)))]
    assert np.mean(found) == pytest.approx(
        100 * norm.cdf(np.sqrt(2)), abs=0.6
    )  # the standard error over 25,000 tasks is 0.17
    assert run(cell("best rule", "gaussian-paper"))[0]["last"] == pytest.approx(94.1)


@pytest.mark.slow
def test_no_classifier_beats_the_ceiling_by_more_than_chance():
    drawn = draw("gaussian-unstructured", 0)
    ceiling = score("ceiling", drawn)["last"]
    assert all(score(method, drawn)["last"] < ceiling + 2 for method in ("MV", "Raykar", "Fixed"))


@pytest.mark.parametrize("method", ["MV", "Raykar", "Adaptive", "Fixed"])
def test_figures_are_those_of_the_fitted_model(method):
    drawn = draw("gaussian-structural", 1)
    problem = drawn.problem
    found = score(method, drawn)
    model = MODELS[method].__class__(**MODELS[method].get_params(deep=False)).fit(problem.X, problem.answers)
    assert found["auc"] == pytest.approx(100 * roc_auc_score(problem.answers.truth, model.proba_[:, 1]))
    assert found["labels"] == pytest.approx(100 * np.mean(model.labels_ == problem.answers.truth))
    assert found["last"] == pytest.approx(100 * np.mean(model.predict(problem.X_test) == problem.y_test))
    estimated = np.column_stack([found["specificity"], found["sensitivity"]])
    assert found["skill"] == pytest.approx(100 * np.abs(estimated - SKILL).mean(), abs=0.01)


def test_roc_curve_rises_from_corner_to_corner_with_the_stated_area():
    found = score("Raykar", draw("gaussian-structural", 0))
    assert len(found["roc"]) == len(GRID) and (np.diff(found["roc"]) >= 0).all() and found["roc"][-1] == 1
    assert 100 * np.trapezoid(found["roc"], GRID) == pytest.approx(found["auc"], abs=2)  # the grid is coarse


def test_workers_without_a_planted_skill_have_no_curves():
    assert not {"skill", "roc", "sensitivity"} & set(score("MV", draw("gaussian-unstructured", 0)))


def test_modelling_difficulty_improves_the_inferred_truth():
    """The claim of the paper that holds, over five data sets: Adaptive infers the truth better than Raykar."""
    found = {m: [each["labels"] for each in run(cell(m, "gaussian-structural"))] for m in ("MV", "Raykar", "Adaptive")}
    mean = {method: np.mean(labels) for method, labels in found.items()}
    assert mean["MV"] + 10 < mean["Raykar"] < mean["Adaptive"] - 1


def test_stamp_changes_with_the_settings(monkeypatch):
    methods = ("Fixed", "Fixed newton", "Adaptive")
    cells = [cell(method, "gaussian-paper", quick=quick) for method in methods for quick in (False, True)]
    assert len({stamp(each) for each in cells}) == len(cells)
    before = stamp(cells[0])
    monkeypatch.setitem(MODELS, "Fixed", difficulty.FixedDifficultyEM(ridge=2.0))
    assert stamp(cells[0]) != before


def test_published_numbers_belong_to_rows():
    tables = NAMED["difficulty-tables"]
    assert len(PUBLISHED) == 15 and PUBLISHED["Fixed", "dogs-structural"] == (74.3, 1.7)
    assert PUBLISHED["Raykar", "gaussian-paper"] == (94.0, 0.11) and PUBLISHED["Adaptive", "dogs-unstructured"] == (
        76.7,
        0.8,
    )
    assert all(method in tables.methods and problem in tables.problems for method, problem in PUBLISHED)
    assert not [each for each in tables.cells(5) if each.method == "best rule" and each.problem.startswith("dogs")]


def test_experiments_have_lines(tmp_path):
    store, problem = Store(tmp_path), "gaussian-structural"
    for method in ("Raykar", "planted", "ceiling", "best rule"):
        one = cell(method, problem, quick=True)
        store.put(one, stamp(one), [{**each, "seconds": 1.0} for each in FAMILY.run(one)])
    roc = lines(NAMED["difficulty-figures"], store, 1, quick=True)
    assert [line["x"] for line in roc] == list(GRID)
    workers = lines(NAMED["difficulty-workers"], store, 1, quick=True)
    planted = [line["mean"] for line in workers if (line["method"], line["measure"]) == ("planted", "sensitivity")]
    assert planted == SKILL[:, 1].tolist() and {line["x"] for line in workers} == {1, 2, 3, 4, 5}
    table = lines(NAMED["difficulty-tables"], store, 1, quick=True)
    assert [line["measure"] for line in table if line["method"] == "Raykar"] == ["last", "labels", "auc", "skill"]
    assert all(line["ceiling"] > 85 for line in table if line["measure"] == "last")


class Clouds:
    """Two noisy clouds of 1280 numbers that replace pictures."""

    n_per_class = 600

    def rows(self, index):
        return np.where(np.asarray(index) < self.n_per_class, -1.0, 1.0)[:, None] * 0.1 + self.noise[index]

    noise = np.random.default_rng(0).normal(size=(1200, 80))


@pytest.fixture
def clouds(monkeypatch):
    calls = []
    names = np.array(["cat", "dog"])
    data = SimpleNamespace(images={"train": Clouds()}, truth=np.repeat(names, 600), classes=names)
    monkeypatch.setattr(difficulty, "load", lambda name: data)
    monkeypatch.setattr(difficulty, "open_source", lambda images: images)
    monkeypatch.setattr(difficulty, "encode_images", lambda rows: (calls.append(len(rows)), rows)[1])
    difficulty.encoded.cache_clear()
    yield calls
    difficulty.encoded.cache_clear()


def test_pictures_are_encoded_once_in_complete_batches_and_in_order(clouds):
    found = difficulty.encoded(500)
    assert clouds == [difficulty.PART] * 4
    expected = np.r_[0:500, 600:1100]
    assert np.array_equal(found, Clouds().rows(expected))
    assert difficulty.encoded(500) is found and len(clouds) == 4


@pytest.mark.parametrize("kind", ["structural", "unstructured"])
def test_training_and_test_pictures_are_disjoint(clouds, kind):
    problem = draw(f"dogs-{kind}", 0, quick=True).problem
    assert problem.X.shape == (334, 64) and problem.X_test.shape == (333, 64)
    assert problem.answers.n_tasks == 334 and problem.answers.n_workers == 5
    np.testing.assert_allclose(problem.X.std(axis=0), 1)
    assert not {tuple(row) for row in problem.X.tolist()} & {tuple(row) for row in problem.X_test.tolist()}
    assert score("ceiling", draw(f"dogs-{kind}", 0, quick=True))["last"] > 65


@pytest.mark.parametrize("part", ["test", "other"])
def test_training_tasks_do_not_depend_on_test_pictures_nor_the_crowd_on_its_own_tasks(clouds, monkeypatch, part):
    """Test pictures change nothing in training; pictures that train the model of p change the answers only."""
    before = draw("dogs-structural", 0, quick=True).problem
    parts = np.array_split(np.random.default_rng(0).permutation(1000), 3)
    rows = np.r_[0:500, 600:1100][parts[1 if part == "test" else 2]]
    noise = Clouds.noise.copy()
    noise[rows] = -5 * noise[rows] + 1
    monkeypatch.setattr(Clouds, "noise", noise)
    difficulty.encoded.cache_clear()
    after = draw("dogs-structural", 0, quick=True).problem
    np.testing.assert_array_equal(after.X, before.X)
    assert (after.answers == before.answers) == (part == "test")
    assert np.array_equal(after.X_test, before.X_test) == (part == "other")
