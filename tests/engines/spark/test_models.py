"""The models on a real Spark session against the local models: every table, to 1e-8.

`test_em_on_lists` compares every model and setting; here a few fits show that Spark itself adds nothing.
"""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.engines.spark import driver, joined_em, packing
from crowdwise.errors import (
    CrowdwiseWarning,
    DuplicateError,
    NullError,
    ParameterError,
    UnknownIdError,
    WeightError,
)
from crowdwise.truth.tables import label_table, worker_table

engine = pytest.importorskip("crowdwise.engines.spark")
STEPS = {"max_iter": 3, "tol": 0}


@pytest.fixture(scope="module")
def crowds(spark, answers, frame):
    """Answers, their DataFrame, gold, its DataFrame; first without weights and gold, then with both."""
    table = answers.to_arrow()
    table = table.append_column("weight", [np.random.default_rng(5).integers(0, 4, len(table)) / 2])
    gold = {"t3": "cat", "t7": "owl", "t100": "dog"}
    known = spark.createDataFrame(list(gold.items()), "task string, label string")
    weighted = cw.Answers.from_frame(table, weight="weight")
    return (answers, frame, None, None), (weighted, spark.createDataFrame(table).persist(), gold, known)


def values(table, name):
    column = table[name].to_pylist()
    return np.array([np.nan if value is None else value for value in column]) if name != "proba" else np.array(column)


def assert_same(model, local):
    """Assert that all tables of both models are equal."""
    assert_histories(model, local)
    labels, workers = model.labels.sort("task").toArrow(), model.workers.sort("worker").toArrow()
    np.testing.assert_allclose(np.array(labels["proba"].to_pylist()), local.proba_, atol=1e-8)
    assert workers.column_names == worker_table(local).column_names
    more = ["difficulty"] * hasattr(local, "difficulty_")
    assert labels.column_names == [*label_table(local).column_names, *more, "proba"]
    for found, expected in ((labels, label_table(local)), (workers, worker_table(local, "belief"))):
        for name in expected.column_names:
            if expected[name].type in ("double", "int64"):
                np.testing.assert_allclose(values(found, name), values(expected, name), atol=1e-8, err_msg=name)
            else:
                assert found[name].to_pylist() == expected[name].to_pylist(), name
    if more:
        np.testing.assert_allclose(values(labels, "difficulty"), local.difficulty_, rtol=1e-8)
    if model.confusion is not None:
        cells = model.confusion.toPandas().pivot(index="worker", columns=["truth", "label"], values="probability")
        np.testing.assert_allclose(cells.sort_index(axis=1).to_numpy().ravel(), local.confusion_.ravel(), atol=1e-8)


def assert_histories(model, local):
    assert len(model.history_) == len(local.history_)
    np.testing.assert_allclose(model.history_, local.history_, rtol=1e-10)


def fit_both(crowd, name, settings, **options):
    """Fit the model on Spark and the local one."""
    answers, frame, gold, known = crowd
    weight = None if answers.weight is None else "weight"
    model = getattr(engine, name)(**settings).fit(frame, gold=known, weight=weight, **options)
    return model, getattr(cw, name)(**settings).fit(answers, gold)


@pytest.mark.parametrize(
    ("name", "settings", "weighted"),
    [
        ("MajorityVote", {"random_state": 3}, False),
        ("DawidSkene", {"prior": "hierarchical", **STEPS}, True),
        pytest.param("OneCoin", {"class_prior": "estimated", **STEPS}, True, marks=pytest.mark.slow),
        pytest.param("DawidSkene", {"tol": 1e-3}, False, marks=pytest.mark.slow),
        pytest.param("WDS", {"base": cw.IBCC(**STEPS)}, False, marks=pytest.mark.slow),
        pytest.param("NaiveSoft", {"smoothing": 1.0}, True, marks=pytest.mark.slow),
    ],
)
def test_equals_the_local_model(crowds, name, settings, weighted):
    model, local = fit_both(crowds[weighted], name, settings, parts=3)
    if name == "MajorityVote":
        assert ((local.proba_ == local.proba_.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum() > 9  # ties
    assert_same(model, local)
    assert model.removed_ == {} and model.rejected.isEmpty()


@pytest.mark.parametrize(("name", "limit", "folder"), [("IBCC", 54, "blocks-0"), ("GLAD", 10**6, "easiness-0")])
def test_state_that_stays_in_the_cluster_gives_the_local_result(crowds, tmp_path, monkeypatch, name, limit, folder):
    monkeypatch.setattr(joined_em, "CELLS", 54)  # two blocks of six workers
    options = {"parts": 2, "checkpoint": tmp_path, "broadcast_limit": limit}
    model, local = fit_both(crowds[False], name, {"max_iter": 2, "tol": 0}, **options)
    assert (tmp_path / folder).exists()
    assert_same(model, local)


@pytest.mark.slow
def test_more_parts_than_the_driver_collects_and_any_order_of_rows_give_the_same_result(answers, frame, monkeypatch):
    monkeypatch.setattr(driver, "MAX_DRIVER_SUMS", 2)  # with five parts, sums are first added in the cluster
    assert_same(engine.DawidSkene(**STEPS).fit(frame.orderBy("label"), parts=5), cw.DawidSkene(**STEPS).fit(answers))


def test_matrices_above_the_broadcast_limit_need_a_checkpoint_folder(frame, monkeypatch):
    monkeypatch.setattr(packing, "pack", None)  # raised before the answers are packed
    with pytest.raises(ParameterError, match=r"11 workers and 3 classes are 99 .*all machines share.*--checkpoint"):
        engine.WDS().fit(frame, broadcast_limit=98)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "limit"),
    [
        ("DawidSkene", {"prior": "hierarchical", **STEPS}, 10**6),
        ("WDS", {"base": cw.IBCC(**STEPS)}, 54),  # joined
        ("GLAD", STEPS, 10**6),
    ],
)
def test_an_interrupted_fit_resumes_to_the_same_result(crowds, tmp_path, monkeypatch, name, settings, limit):
    monkeypatch.setattr(joined_em, "CELLS", 54)  # two blocks of six workers

    def interrupt(iteration, bound):
        if iteration == 1:
            raise KeyboardInterrupt

    answers, frame, gold, known = crowds[True]
    options = {"parts": 2, "checkpoint": tmp_path, "broadcast_limit": limit, "weight": "weight", "gold": known}
    with pytest.raises(KeyboardInterrupt):
        getattr(engine, name)(**settings).fit(frame, callback=interrupt, **options)
    assert (tmp_path / "blocks-0").exists() == (limit == 54) and (tmp_path / "easiness-0").exists() == (name == "GLAD")
    iterations = []
    model = getattr(engine, name)(**settings)
    model.fit(frame, resume=True, callback=lambda iteration, bound: iterations.append(iteration), **options)
    assert iterations == [1, 2]
    assert_same(model, getattr(cw, name)(**settings).fit(answers, gold))


@pytest.fixture(scope="module")
def bad_rows(spark):
    """A DataFrame with one row of each kind that cannot be used, and the options to fit it."""
    rows = [
        ("a", 1, "x", 1.0), ("a", 2, "y", 1.0), ("b", 1, "x", 1.0), ("b", 1, "y", 1.0), ("b", 2, "y", 1.0),
        (None, 1, "x", 1.0), ("c", None, "x", 1.0), ("c", 2, None, 1.0), ("c", 3, "z", 1.0), ("c", 4, "x", -1.0),
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, "item string, worker int, label string, sure double").coalesce(1).persist()
    return frame, {"task": "item", "classes": ["y", "x"], "parts": 1}


def test_bad_rows_are_counted_and_written_to_rejected(spark, bad_rows, tmp_path):
    frame, options = bad_rows
    model = engine.MajorityVote().fit(frame, weight="sure", duplicates="last", **options)
    model.write(str(tmp_path / "out"))
    rejected = spark.read.parquet(str(tmp_path / "out" / "rejected")).collect()
    assert sorted((row.reason, row.task, row.worker, row.label) for row in rejected) == [
        ("label is missing", "c", 2, None),
        ("label is not among the classes", "c", 3, "z"),
        ("task is missing", None, 1, "x"),
        (packing.BAD_WEIGHT, "c", 4, "x"),
        ("worker gave this task another answer", "b", 1, "x"),
        ("worker is missing", "c", None, "x"),
    ]
    assert {row.file for row in rejected} == {None}
    assert model.removed_ == {row.reason: 1 for row in rejected}
    labels = {row.task: row for row in spark.read.parquet(str(tmp_path / "out" / "labels")).collect()}
    assert labels["b"].label == "y" and labels["b"].proba == [1.0, 0.0] and set(labels) == {"a", "b"}
    assert spark.read.parquet(str(tmp_path / "out" / "fit")).first().model == "MajorityVote"
    (tmp_path / "out" / "confusion").mkdir()  # of an earlier model with matrices
    model.classes = None
    with pytest.raises(AttributeError):  # interrupted after the labels: `fit`, which marks completeness, is missing
        model.write(str(tmp_path / "out"), overwrite=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["classes", "labels", "rejected", "workers"]


def test_duplicates_raise_by_default_and_bad_rows_on_request(bad_rows):
    frame, options = bad_rows
    with pytest.raises(DuplicateError, match=r"worker 1 on task 'b'.*duplicates='first'"):
        engine.MajorityVote().fit(frame, **options)
    with pytest.raises(NullError, match="1 where the worker is missing"):
        engine.MajorityVote().fit(frame, bad="error", **options)


def test_alpha_warns_about_rows_left_out(bad_rows):
    frame, options = bad_rows
    with pytest.warns(CrowdwiseWarning, match="task is missing"):
        alpha = engine.alpha(frame, duplicates="last", **options)
    used = cw.Answers.from_arrays(list("aabbc"), [1, 2, 1, 2, 4], list("xyyyx"))
    assert alpha == pytest.approx(cw.evaluate.krippendorff_alpha(used), abs=1e-12)


def test_unsupported_arguments_are_refused(answers, frame):
    from pyspark.sql import functions as f

    with pytest.raises(ParameterError, match="n_init"):
        engine.DawidSkene(n_init=2).fit(frame)
    with pytest.raises(ParameterError, match="reads as patterns"):
        engine.OneCoin().fit(frame, checkpoint="runs [1]")
    with pytest.raises(ParameterError, match="checkpoint"):
        engine.MajorityVote().fit(frame, checkpoint="x")
    with pytest.raises(ParameterError, match="Spark DataFrame"):
        engine.MajorityVote().fit(answers)
    with pytest.raises(ParameterError, match=r"gold.* not dict"):
        engine.MajorityVote().fit(frame, gold={"t1": "cat"})
    with pytest.raises(WeightError, match="type string"):
        engine.MajorityVote().fit(frame, weight="label")
    with pytest.raises(ParameterError, match=r"Connect session.*spark.api.mode"):
        engine.MajorityVote().fit(type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})())
    with pytest.raises(WeightError, match="drop"):
        engine.MajorityVote().fit(frame.withColumn("weight", f.lit(1.0)))


@pytest.mark.slow
def test_gold_of_tasks_without_answers_is_refused(spark, frame):
    gold = spark.createDataFrame([("no one", "cat"), ("t1", "cat")], "task string, label string")
    with pytest.raises(UnknownIdError, match="tasks without answers: 'no one'"):
        engine.NaiveSoft().fit(frame, gold=gold, parts=1)


@pytest.mark.slow
def test_agreement_equals_the_local_coefficients(answers, frame):
    result = engine.agreement(frame, parts=3)
    assert result.alpha == pytest.approx(cw.evaluate.krippendorff_alpha(answers), abs=1e-12)
    assert result.pairwise == cw.evaluate.pairwise_agreement(answers)
    assert result.kappa == pytest.approx(cw.evaluate.fleiss_kappa(answers), abs=1e-12)
    assert result.removed == {} and result.rejected.isEmpty()
