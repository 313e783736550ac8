"""`bench`: figures against those computed by hand, pairing, and the systems beside their baselines."""

import numpy as np
import pandas as pd
import pytest

import crowdwise as cw
from crowdwise.choose.benchmark import FOLDS
from crowdwise.choose.candidates import benchmark_methods
from crowdwise.errors import CrowdwiseError, ParameterError


@pytest.fixture(scope="module")
def answers():
    return cw.simulate.simulate(150, n_workers=8, n_classes=2, answers_per_task=3, class_balance=3, seed=1)


@pytest.fixture(scope="module")
def X(answers):
    return np.eye(2)[answers.truth] * 2 + np.random.default_rng(0).normal(size=(150, 2))


def figures(result):
    return {row.method: row for row in result.figures}


def test_accuracies_are_means_over_seeds(answers):
    result = cw.bench(["dawid-skene"], answers=answers, seeds=[3, 5])
    fitted = {
        "majority-vote": [cw.MajorityVote(random_state=seed).fit(answers) for seed in (3, 5)],
        "dawid-skene": [cw.DawidSkene().fit(answers)] * 2,
    }
    for name, models in fitted.items():
        scores, row = [cw.evaluate.evaluate(model) for model in models], figures(result)[name]
        assert row.accuracy == pytest.approx(np.mean([each.accuracy for each in scores]))
        assert row.balanced_accuracy == pytest.approx(np.mean([each.balanced_accuracy for each in scores]))
        assert row.log_loss == pytest.approx(np.mean([each.log_loss for each in scores]))
        assert row.calibration_error == pytest.approx(np.mean([each.ece for each in scores]))
    row, vote = figures(result)["dawid-skene"], figures(result)["majority-vote"]
    assert row.accuracy_to_vote == pytest.approx(row.accuracy - vote.accuracy)
    assert row.balanced_accuracy_to_vote == pytest.approx(row.balanced_accuracy - vote.balanced_accuracy)
    assert row.log_likelihood is None and not result.held_out


def test_the_error_covers_tasks_and_seeds():
    answers = cw.simulate.simulate(100, n_workers=8, n_classes=3, answers_per_task=2, seed=1)  # with ties
    right = np.array([
        cw.MajorityVote(random_state=seed).fit(answers).codes_ == answers.truth for seed in range(4)
    ], float)  # fmt: skip
    lead = (cw.DawidSkene().fit(answers).codes_ == answers.truth) - right  # (seeds, tasks)
    over_tasks = lead.mean(axis=0).std() / np.sqrt(answers.n_tasks)
    over_seeds = lead.mean(axis=1).std(ddof=1) / 2
    row = figures(cw.bench(["dawid-skene"], answers=answers, seeds=4))["dawid-skene"]
    assert row.accuracy_to_vote_error == pytest.approx(np.hypot(over_tasks, over_seeds))
    assert over_seeds > 0


def test_without_truth_held_out_answers_are_scored_as_choose_does(answers):
    """One seed per fold and no randomness in the methods: a cross-validation, as `choose` makes one."""
    blind = answers.with_truth(None)
    result = cw.bench(["one-coin", "dawid-skene"], answers=blind, seeds=FOLDS)
    choice = cw.choose.choose(blind, candidates=["one-coin", "dawid-skene"], folds=FOLDS)
    for entry in choice.entries:
        row = figures(result)[entry.candidate]
        assert row.log_likelihood == pytest.approx(entry.log_likelihood, rel=1e-3)
        assert row.temperature == pytest.approx(entry.temperature, rel=0.1)
        assert row.accuracy is None
        assert row.log_likelihood_to_vote == pytest.approx(entry.to_vote, abs=1e-3)
        assert row.log_likelihood_to_vote_error == pytest.approx(entry.to_vote_error, rel=0.05, abs=1e-9)
    assert result.measure == "log_likelihood" and "nobody" not in str(result)


def test_names_specifications_and_objects_are_methods_and_results_repeat(answers, X):
    methods = {"named": "crowdlab", "spec": "aggregated(majority-vote)", "object": cw.JointEM(random_state=9)}
    seen = []
    result = cw.bench(methods, X, answers.to_frame(), truth_frame(answers), seeds=[7], callback=seen.append)
    assert [row.method for row in result.figures] == ["majority-vote", *methods]
    again = cw.bench(methods, X, answers, seeds=[7])
    assert drop_times(result) == drop_times(again)
    assert [record["done"] for record in seen] == [1, 2, 3, 4] and seen[-1]["total"] == 4
    assert {record["seed"] for record in seen} == {7} and all(record["accuracy"] > 0.5 for record in seen)


def truth_frame(answers):
    return pd.DataFrame({"task": answers.tasks, "label": answers.classes[answers.truth]})


def drop_times(result):
    return [row._replace(seconds=None) for row in result.figures]


def test_truth_of_some_tasks_is_only_used_to_score(answers):
    known = np.where(np.arange(150) < 40, answers.truth, -1)
    result = cw.bench(["dawid-skene"], answers=answers.with_truth(None), truth=known, seeds=1, held_out=True)
    row = figures(result)["dawid-skene"]
    assert result.n_known == 40 and "40 with known truth" in str(result)
    assert row.accuracy == (cw.DawidSkene().fit(answers).codes_ == answers.truth)[:40].mean()
    assert row.log_likelihood is not None and result.measure == "accuracy"


def test_the_systems_stand_beside_their_baselines(answers, X):
    quick = {"epochs": 2, "random_state": 1}
    methods = {
        "crowdlayer": cw.CrowdLayer(**quick),
        "dasc": cw.DASC(cw.CrowdLayer(**quick), iterations=1),
        "iced": cw.ICED(**quick, decoder_epochs=1, warmup_epochs=1),
        "crowding": cw.CrowdInG(**quick),
        "waum": cw.make("waum(crowdlayer)").set_params(base__epochs=2),
        "difficulty": "adaptive-difficulty",
    }
    result = cw.bench(methods, X, answers, seeds=1)
    assert not [row.failure for row in result.figures if row.failure]
    assert all(row.seconds > 0 and row.accuracy > 0.4 for row in result.figures)


def test_the_default_methods_have_the_systems_and_their_baselines():
    names = benchmark_methods(with_features=True)
    assert {"dasc(crowdlayer)", "iced", "crowding", "waum(crowdlayer)", "adaptive-difficulty"} < set(names)
    assert {"majority-vote", "raykar", "crowdlayer", "aggregated(dawid-skene)"} < set(names)


class Broken(cw.MajorityVote):
    """A method that cannot be fitted."""

    def _fit(self, *_):
        raise ParameterError("it takes two classes")


def test_a_method_that_fails_is_listed_with_the_reason():
    answers = cw.simulate.simulate(60, n_workers=6, n_classes=3, answers_per_task=3, seed=1)
    result = cw.bench({"vote": "majority-vote", "broken": Broken(), "one-coin": "one-coin"}, answers=answers, seeds=1)
    row = figures(result)["broken"]
    assert "two classes" in row.failure and row.accuracy is None
    assert result.ranking[-1] is row and "broken failed" in str(result) and "failed" in result._repr_html_()
    table = result.to_pandas()
    assert table["method"].tolist() == [each.method for each in result.ranking] and len(result.to_polars()) == 3


def test_the_chart_holds_the_leads(answers):
    result = cw.bench(["one-coin"], answers=answers, seeds=2, held_out=True)
    for measure in (None, "balanced_accuracy", "log_likelihood"):
        name = measure or "accuracy"
        spec = cw.plots.methods(result, measure).to_dict()
        drawn = {row["name"]: row for rows in spec["datasets"].values() for row in rows if "lead" in row}
        for row in result.figures:
            assert drawn[row.method]["lead"] == getattr(row, f"{name}_to_vote")
    with pytest.raises(ParameterError, match="'accuracy', 'balanced_accuracy', 'log_likelihood'"):
        cw.plots.methods(result, "f1")


def test_mistakes_are_named(answers, X):
    with pytest.raises(ParameterError, match=r"answers are missing: bench\(methods, X, answers\)"):
        cw.bench(["glad"], answers)
    with pytest.raises(ParameterError, match=r"crowdlayer learns from features: pass X"):
        cw.bench(["crowdlayer"], answers=answers)
    for seeds in (0, [1, 1], "five"):
        with pytest.raises(ParameterError, match="the number of seeds"):
            cw.bench(["glad"], answers=answers, seeds=seeds)
    with pytest.raises(ParameterError, match="if no truth is known"):
        cw.bench(["glad"], answers=answers.with_truth(None), held_out=False)
    single = cw.Answers.from_arrays(range(9), ["a"] * 9, ["x", "y", "x"] * 3)
    with pytest.raises(CrowdwiseError, match="pass truth="):
        cw.bench(["one-coin"], answers=single)
