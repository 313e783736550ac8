"""Gold in a run: labels, fits, the choice of a method, confidence, estimates."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.run import run


def panel(seed=0, n_tasks=400):
    """Twelve workers who share most of their mistakes: on half of the tasks all but two say the same wrong class."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n_tasks)
    wrong = np.where(rng.random(n_tasks) < 0.5, 1 - truth, truth)
    task, worker = (each.ravel() for each in np.meshgrid(np.arange(n_tasks), np.arange(12), indexing="ij"))
    label = np.where((worker >= 2) & (rng.random(len(task)) < 0.9), wrong[task], truth[task])
    label = np.where(rng.random(len(task)) < 0.1, 1 - label, label)
    return cw.Answers.from_arrays(task, worker, label), truth


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    answers, truth = panel()
    gold = {int(t): int(truth[t]) for t in np.random.default_rng(1).choice(400, 80, replace=False)}
    folder = tmp_path_factory.mktemp("gold")
    return run(answers, folder / "without"), run(answers, folder / "with", gold=gold), gold, truth


def test_the_label_of_a_gold_task_is_its_gold_label(made):
    _, with_gold, gold, _ = made
    rows = {row["task"]: row for row in with_gold.labels.to_pylist()}
    assert {task: rows[task]["label"] for task in gold} == gold
    assert all(rows[task]["confidence"] == 1 for task in gold)


def test_gold_corrects_labels_and_confidence_that_shared_mistakes_spoil(made):
    without, with_gold, gold, truth = made
    free = [task for task in range(400) if task not in gold]

    def accuracy_and_confidence(result):
        rows = {row["task"]: row for row in result.labels.to_pylist()}
        right = np.mean([rows[task]["label"] == truth[task] for task in free])
        return right, np.mean([rows[task]["confidence"] for task in free])

    spoiled, promised = accuracy_and_confidence(without)
    right, confidence = accuracy_and_confidence(with_gold)
    assert promised - spoiled > 0.2 and right - spoiled > 0.2
    assert abs(confidence - right) < 0.1


def test_gold_gives_an_interval_that_leads_the_headline(made):
    _, with_gold, gold, truth = made
    found = with_gold.metrics["trust"]["estimates"]["accuracy"]
    assert found["n_gold"] == len(gold) and found["low"] < found["value"] < found["high"]
    assert f"from {len(gold)} gold labels" in with_gold.metrics["words"][0]
    shares = with_gold.metrics["trust"]["estimates"]["shares"]
    assert all(each["low"] <= np.mean(truth == int(each["class"])) <= each["high"] for each in shares)


def test_gold_tasks_are_predicted_on_the_scale_of_other_tasks(tmp_path, monkeypatch):
    """Otherwise the predictions would shift the estimates, and intervals would miss the truth."""
    passed = []

    def spy(answers, gold, *, proba, **options):
        passed.append((np.asarray(gold) >= 0, proba.max(axis=1)))
        return cw.trust.estimate(answers, gold, proba=proba, **options)

    monkeypatch.setattr("crowdwise.run.trust_figures.estimate", spy)
    answers, truth = panel(n_tasks=200)
    run(answers, tmp_path / "run", gold={t: int(truth[t]) for t in range(60)}, method="wawa")
    (is_gold, top), *_ = passed
    assert is_gold.sum() == 60 and abs(top[is_gold].mean() - top[~is_gold].mean()) < 0.06


def test_without_gold_the_headline_says_what_it_assumes(made):
    without = made[0].metrics
    assert without["trust"]["basis"] == "other crowds" and without["trust"]["n_gold"] == 0
    assert without["trust"]["assumes"].startswith("This assumes")


def test_truth_of_gold_tasks_is_not_scored(tmp_path):
    answers, truth = panel(n_tasks=60)
    known = dict(enumerate(truth.tolist()))
    made = run(answers, tmp_path / "run", gold={0: known[0], 1: known[1]}, truth=known, method="one-coin")
    assert made.metrics["truth"]["tasks"] == 58


def test_a_class_that_only_gold_has_can_be_a_label(tmp_path):
    answers, _ = panel(n_tasks=60)
    made = run(answers, tmp_path / "run", gold={0: 7}, method="dawid-skene")
    assert made.labels.column("label").to_pylist()[0] == 7


def test_families_named_by_the_user_count_as_fewer_votes(tmp_path):
    answers = cw.simulate.simulate(150, n_workers=10, n_classes=2, answers_per_task=6, seed=3)
    copies = answers.take(np.flatnonzero(answers.worker == 0))
    copies = [cw.Answers.from_arrays(copies.task, copies.worker + 10 + i, copies.label) for i in range(4)]
    for each in copies:
        answers = answers.merge(each)
    made = run(answers, tmp_path / "run", families={0: "same", 10: "same", 11: "same", 12: "same", 13: "same"})
    assert made.metrics["trust"]["families"][0]["workers"] == ["0", "10", "11", "12", "13"]
    weight = made.model.answers_.weight
    copied = np.isin(made.model.answers_.worker, [0, 10, 11, 12, 13])
    assert (weight[copied] < 0.5).all() and (weight[~copied] == 1).all()
