"""A complete run: the files of the folder, and that they agree with each other."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import crowdwise as cw
from crowdwise.errors import FeaturesError, GoldError, ParameterError, SingleClassError
from crowdwise.report.source import VERDICTS
from crowdwise.run import Run, run
from crowdwise.run.stored_tables import read_csv

FILES = ("config.json", "labels.parquet", "labels.csv", "workers.csv", "tasks.csv", "next.csv", "metrics.json",
         "model.safetensors", "times.json", "report.html")  # fmt: skip
QUICK = ["one-coin", "dawid-skene"]


def crowd(seed=1, **options):
    given = {"n_workers": 12, "n_classes": 3, "answers_per_task": 3, "workers": "class-dependent", **options}
    return cw.simulate.simulate(240, seed=seed, **given)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return run(crowd(), tmp_path_factory.mktemp("runs") / "plain", method=QUICK)


@pytest.fixture(scope="module")
def featured(tmp_path_factory):
    X, answers = cw.simulate.digits_crowd()
    chosen = np.arange(0, answers.n_tasks, 3)
    place = tmp_path_factory.mktemp("runs") / "featured"
    X, methods = X[chosen], ["dawid-skene", "raykar"]
    images = X.reshape(-1, 8, 8)
    return run(answers[chosen], place, features=X, images=images, method=methods, folds=2, n_jobs=1)


def test_the_folder_has_all_files_and_no_others(made, featured):
    assert {file.name for file in made.path.iterdir()} == set(FILES)
    assert {file.name for file in featured.path.iterdir()} == {*FILES, "images"}


def test_tables_match_the_answers(made):
    answers = crowd()
    assert made.labels.column("task").to_pylist() == answers.tasks.tolist()
    assert sum(made.metrics["counts"].values()) == answers.n_tasks
    assert list(made.metrics["counts"]) == list(VERDICTS)
    np.testing.assert_allclose(made.proba.sum(axis=1), 1)
    np.testing.assert_allclose(made.proba[np.arange(len(made.proba)), made.codes], made.labels.column("confidence"))
    assert made.workers.column("worker").to_pylist() == answers.workers.tolist()
    assert sum(made.workers.column("answers").to_pylist()) == answers.n_answers
    assert sorted(made.tasks.column("task").to_pylist()) == answers.tasks.tolist()
    first = made.tasks.slice(0, 1).to_pylist()[0]
    assert len(json.loads(first["workers"])) == len(json.loads(first["labels"])) == first["answers"]
    assert made.answers.truth is None  # no fit has seen it
    assert set(made.workers.column("flag").to_pylist()) >= {None}  # empty cells: most workers have no flag
    assert not any("'" in (made.path / name).read_text() for name in ("labels.csv", "workers.csv"))
    hopeless = set(made.labels.filter(np.array(made.labels.column("verdict")) == "hopeless").column("task").to_pylist())
    assert not hopeless & set(made.next.column("task").to_pylist())


def test_figures_match_the_tables(made):
    figures, answers = made.metrics, crowd()
    confidence = made.labels.column("confidence").to_numpy()
    assert figures["expected_accuracy"] == pytest.approx(confidence.mean())
    right = made.labels.column("label").to_numpy() == answers.classes[answers.truth]
    assert figures["truth"]["accuracy"] == pytest.approx(right.mean())
    accepted = np.array(made.labels.column("verdict").to_pylist()) == "accept"
    assert figures["truth"]["accepted_accuracy"] == pytest.approx(right[accepted].mean())
    assert any(f"measured {right[accepted].mean():.1%} on {accepted.sum()}" in text for text in figures["words"])
    assert sum(figures["confidence"]["counts"]) == answers.n_tasks
    assert [line["name"] for line in figures["methods"] if line["chosen"]] == [figures["method"]]
    assert {line["name"] for line in figures["methods"]} == {"majority-vote", "pool", *QUICK}
    assert [point["answers"] for point in figures["curve"]] == sorted(point["answers"] for point in figures["curve"])
    assert figures["curve"][-1]["answers"] == answers.n_answers
    bought = [point["expected"] for point in figures["forecast"]]
    assert bought == sorted(bought) and bought[0] == pytest.approx(figures["expected_accuracy"])
    json.dumps(figures, allow_nan=False)


def test_truth_changes_only_scores(made, tmp_path):
    answers = crowd()
    blind = run(cw.Answers.from_frame(answers.to_arrow(), classes=answers.classes), tmp_path / "blind", method=QUICK)
    assert blind.metrics["truth"] is None and made.metrics["truth"] is not None
    assert blind.labels.equals(made.labels.drop_columns(["truth"]))
    for name in ("workers.csv", "tasks.csv", "next.csv"):
        assert (blind.path / name).read_bytes() == (made.path / name).read_bytes()


def test_the_same_seed_gives_the_same_bytes(made, tmp_path):
    again = run(crowd(), tmp_path / "again" / "plain", method=QUICK)
    for name in FILES:
        if name != "times.json":
            assert (again.path / name).read_bytes() == (made.path / name).read_bytes(), name


def test_the_order_of_answers_and_names_of_workers_do_not_matter(made, tmp_path):
    answers = crowd()
    table = answers.to_arrow()
    renamed = [f"w{worker:02}" for worker in table.column("worker").to_pylist()]
    table = table.set_column(1, "worker", [renamed]).take(np.random.default_rng(0).permutation(table.num_rows))
    other = run(cw.Answers.from_frame(table, classes=answers.classes), tmp_path / "other", method=QUICK)
    assert other.metrics["method"] == made.metrics["method"]
    assert other.labels.column("label").to_pylist() == made.labels.column("label").to_pylist()
    np.testing.assert_allclose(other.proba, made.proba, atol=1e-6)


def test_features_give_a_classifier_and_a_ranking_by_waum(featured):
    assert featured.metrics["ambiguity"]["by"] == "waum"
    X, _ = cw.simulate.digits_crowd()
    assert featured.classifier.predict(X[:5]).shape == (5,)
    shown = [row for row in featured.tasks.column("image").to_pylist() if row]
    assert len(shown) == 60 and all((featured.path / name).is_file() for name in shown)
    assert featured.metrics["truth"]["accuracy"] > featured.metrics["truth"]["vote_accuracy"]


def test_a_truth_model_with_features_also_writes_a_classifier(tmp_path):
    X, answers = cw.simulate.digits_crowd()
    chosen = np.arange(0, answers.n_tasks, 6)
    made = run(answers[chosen], tmp_path / "run", features=X[chosen], method="dawid-skene", folds=2, n_jobs=1)
    assert made.metrics["method"] == "dawid-skene" and "was requested" in made.metrics["why"]
    assert not hasattr(made.model, "predict_proba")
    assert made.classifier.predict_proba(X[:3]).shape == (3, 10)


def test_one_answer_per_task_gives_majority_vote_and_a_note(tmp_path):
    answers = crowd(answers_per_task=1)
    made = run(answers, tmp_path / "run")
    assert made.metrics["method"] == "majority-vote" and not made.metrics["beats_vote"]
    assert made.metrics["choice"] is None and any("held-out" in text for text in made.metrics["notes"])
    assert made.metrics["counts"]["needs more answers"] == answers.n_tasks  # no answer is confirmed by another
    assert made.metrics["expected_accuracy"] < 0.9
    asked = run(answers, tmp_path / "asked", method="one-coin")
    assert asked.metrics["counts"]["accept"] == 0


@pytest.mark.parametrize(
    ("task", "worker", "label"),
    [
        ([1, 1], ["a", "b"], ["x", "y"]),
        ([1, 2], ["a", "a"], ["x", "y"]),
        ([1, 2, 2], ["a", "a", "b"], [True, False, True]),
        ([1, 1, 1], ["a", "b", "c"], ["x", "x", "y"]),
    ],
)
def test_two_answers_are_enough_for_a_run(tmp_path, task, worker, label):
    answers = cw.Answers.from_arrays(task, worker, label)
    made = run(answers, tmp_path / "run")
    assert made.labels.num_rows == answers.n_tasks and (made.path / "report.html").is_file()
    assert made.next.num_rows <= answers.n_tasks and made.metrics["curve"]


def test_worthless_answers_give_majority_vote(tmp_path):
    rng = np.random.default_rng(0)
    task, worker = np.repeat(np.arange(300), 4), np.concatenate([rng.permutation(30)[:4] for _ in range(300)])
    answers = cw.Answers.from_arrays(task, worker, rng.integers(0, 2, len(task)))  # random answers
    made = run(answers, tmp_path / "run", method=QUICK)
    assert made.metrics["method"] == "majority-vote" and not made.metrics["beats_vote"]
    assert "majority vote" in made.metrics["why"] and made.metrics["why"] in made.metrics["words"]
    asked = run(answers, tmp_path / "asked", method="dawid-skene")
    assert asked.metrics["method"] == "dawid-skene" and "does NOT beat majority vote" in asked.metrics["why"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"accept": 0.3}, ParameterError, "accept"),
        ({"budget": 0}, ParameterError, "budget"),
        ({"folds": 1}, ParameterError, "folds"),
        ({"time_budget": -1.0}, ParameterError, "time_budget"),
        ({"seed": -1}, ParameterError, "seed"),
        ({"n_jobs": 0}, ParameterError, "n_jobs"),
        ({"method": "dawid"}, ParameterError, "dawid-skene"),
        ({"method": "crowdlayer"}, ParameterError, "features"),
        ({"method": "gold-vote"}, ParameterError, "gold labels"),
        ({"method": ["auto", "glad"]}, ParameterError, "auto"),
        ({"texts": ["a"]}, ParameterError, "texts"),
        ({"seconds": [1.0]}, ParameterError, "seconds"),
        ({"images": np.zeros((3, 4, 4))}, FeaturesError, "images"),
        ({"features": np.zeros((3, 4))}, FeaturesError, "rows"),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected_before_anything_is_written(tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        run(crowd(), tmp_path / "run", **change)
    assert not (tmp_path / "run").exists()


def test_invalid_answers_are_rejected(tmp_path):
    with pytest.raises(SingleClassError, match="at least two classes"):
        run(cw.Answers.from_arrays([1, 2], ["a", "a"], ["x", "x"]), tmp_path / "run")
    with pytest.raises(ParameterError, match="table of answers"):
        run([1, 2], tmp_path / "run")


def test_files_are_read_and_truth_of_an_unanswered_class_is_scored(tmp_path):
    answers = crowd()
    cw.write(cw.Answers.from_frame(answers.to_arrow(), classes=answers.classes), tmp_path / "answers.csv")
    tasks = answers.tasks.tolist()
    names = [9, *answers.classes[answers.truth[1:]]]
    rows = [f"{task},{name}" for task, name in zip(tasks, names, strict=True)]
    (tmp_path / "gold.csv").write_text("task,label\n" + "\n".join(rows) + "\n")
    made = run(tmp_path / "answers.csv", tmp_path / "run", truth=tmp_path / "gold.csv", method=QUICK)
    assert made.labels.column("truth").to_pylist()[0] == 9
    assert made.metrics["truth"]["tasks"] == answers.n_tasks
    balance = made.metrics["balance"]
    assert balance["classes"][-1] == "(never answered)" and balance["truth"][-1] == pytest.approx(1 / answers.n_tasks)
    (tmp_path / "wrong.csv").write_text("task,label\n9999,1\n")
    with pytest.raises(GoldError):
        run(tmp_path / "answers.csv", tmp_path / "other", truth=tmp_path / "wrong.csv")


def test_seconds_and_texts_reach_the_tables(tmp_path):
    answers = crowd()
    seconds, texts = np.full(answers.n_answers, 7.0), [f"text {i}" for i in range(240)]
    made = run(answers, tmp_path / "run", method=QUICK, seconds=seconds, texts=texts, encode=False)
    assert set(made.workers.column("seconds").to_pylist()) == {7.0}
    first = made.tasks.slice(0, 1).to_pylist()[0]
    assert first["text"] == f"text {answers.tasks.tolist().index(first['task'])}"


def test_labels_csv_and_parquet_are_equal(made):
    again = read_csv(
        made.path / "labels.csv", {"label": pq.read_schema(made.path / "labels.parquet").field("label").type}
    )
    assert again.column("label").to_pylist() == made.labels.column("label").to_pylist()
    np.testing.assert_allclose(again.column("confidence").to_numpy(), made.labels.column("confidence").to_numpy())


def test_without_shared_tasks_the_headline_says_that_it_is_unchecked(tmp_path):
    """One worker; two workers who share no task; and one shared task, which is too little to hold out answers."""
    label = ["cat", "dog", "dog"] * 10
    for name, worker, ends in (
        ("one", ["ann"] * 30, "this cannot be checked: no task has answers from two workers."),
        ("disjoint", ["ann", "bob"] * 15, "this cannot be checked: no task has answers from two workers."),
        ("shared", [*["ann"] * 29, "bob"], "this could not be checked on held-out answers."),
    ):
        task = [*range(29), 28 if name == "shared" else 29]
        made = run(cw.Answers.from_arrays(task, worker, label), tmp_path / name, method=QUICK)
        assert f"labels are expected to be right, but {ends}" in made.metrics["words"][0]
        assert str(made).startswith(made.metrics["words"][0])
        page = made.report().read_text()
        assert page.lower().count(ends.rstrip(".")) == 3, "in the headline, with the figure, and in how we know"
        assert "The confidence of the labels" in page and "calibrated confidence" not in page


def test_text_and_html_of_a_run(made):
    assert "labels are expected to be right" in str(made)
    assert "accept" in made._repr_html_() and "<script" not in made._repr_html_()
    assert repr(made).startswith("Run(")
    assert isinstance(Run(made.path).model, cw.MajorityVote | cw.OneCoin | cw.DawidSkene)


def test_proposals_have_the_labels_and_confidences_of_the_run(tmp_path):
    """next.csv and labels.csv agree, for tied votes too."""
    answers = cw.simulate.simulate(120, n_workers=8, n_classes=3, answers_per_task=2, seed=3)
    for method in ("majority-vote", "dawid-skene"):
        made = run(answers, tmp_path / method, method=method, budget=60)
        label = dict(zip(made.labels.column("task").to_pylist(), made.labels.to_pylist(), strict=True))
        rows = made.next.to_pylist()
        assert len(rows) > 20
        for row in rows:
            assert row["belief"] == str(label[row["task"]]["label"])
            np.testing.assert_allclose(row["confidence"], label[row["task"]]["confidence"], rtol=1e-6)


def test_an_unsuitable_folder_is_rejected_before_data_is_read(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ParameterError, match="not from a run"):
        run(tmp_path / "missing.csv", tmp_path)
