"""The models on Spark against those on one machine: every iteration, every table, to 1e-8."""

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.engines.spark import driver, joined_em, packing
from crowdwise.engines.spark.columns import Columns, known_labels
from crowdwise.errors import (
    CrowdwiseWarning,
    DuplicateError,
    IdTypeError,
    ModelFileError,
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
    """Answers, the same as a DataFrame, known labels, the same as a DataFrame: without weights and gold, and with."""
    table = answers.to_arrow()
    table = table.append_column("weight", [np.random.default_rng(5).integers(0, 4, len(table)) / 2])
    gold = {"t3": "cat", "t7": "owl", "t100": "dog"}
    known = spark.createDataFrame(list(gold.items()), "task string, label string")
    weighed = cw.Answers.from_frame(table, weight="weight")
    return (answers, frame, None, None), (weighed, spark.createDataFrame(table).persist(), gold, known)


def values(table, name):
    column = table[name].to_pylist()
    return np.array([np.nan if value is None else value for value in column]) if name != "proba" else np.array(column)


def same(model, local):
    """All tables of both, row by row."""
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


@pytest.mark.parametrize(
    ("name", "settings", "weighed"),
    [
        ("DawidSkene", {"prior": "hierarchical", "tol": 1e-3}, False),
        ("OneCoin", {"class_prior": "estimated", **STEPS}, True),
        ("WDS", {"base": cw.IBCC(**STEPS)}, False),
        ("MajorityVote", {"random_state": 3}, False),
        ("NaiveSoft", {"smoothing": 1.0}, True),
    ],
)
def test_equals_the_local_model(crowds, name, settings, weighed):
    answers, frame, gold, known = crowds[weighed]
    local = getattr(cw, name)(**settings).fit(answers, gold)
    model = getattr(engine, name)(**settings).fit(frame, parts=3, gold=known, weight="weight" if weighed else None)
    if name == "MajorityVote":
        assert ((local.proba_ == local.proba_.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum() > 9  # ties
    same(model, local)
    assert model.removed_ == {} and model.rejected.isEmpty()


def test_parameters_are_the_same_at_every_iteration_and_rows_may_come_in_any_order(answers, frame, monkeypatch):
    seen = []
    step = cw.DawidSkene._m_step

    def recorded(self, work, statistics, parameters):
        parameters = step(self, work, statistics, parameters)
        seen[-1].append((parameters.class_prior, parameters.table.copy(), parameters.log_prior))
        return parameters

    monkeypatch.setattr(cw.DawidSkene, "_m_step", recorded)
    monkeypatch.setattr(driver, "MAX_DRIVER_SUMS", 2)  # with five parts, sums are added in the cluster first
    seen.append([])
    cw.DawidSkene(**STEPS).fit(answers)
    seen.append([])
    engine.DawidSkene(**STEPS).fit(frame.orderBy("label"), parts=5)
    assert [len(run) for run in seen] == [2, 2]
    for iteration, expected in zip(*seen, strict=True):
        for found, wanted in zip(iteration, expected, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-8)


@pytest.mark.parametrize("name", ["IBCC", "WDS"])
def test_crowds_too_large_for_a_broadcast_need_a_folder_before_they_are_packed(frame, monkeypatch, name):
    monkeypatch.setattr(packing, "pack", None)
    with pytest.raises(ParameterError, match=r"11 workers and 3 classes are 99 .*all machines share.*--checkpoint"):
        getattr(engine, name)().fit(frame, broadcast_limit=98)


@pytest.mark.parametrize(
    ("name", "settings", "limit"),
    [
        ("DawidSkene", {"prior": "hierarchical", **STEPS}, 10**6),
        ("WDS", {"base": cw.IBCC(**STEPS)}, 54),  # joined
        ("GLAD", STEPS, 10**6),
    ],
)
def test_a_fit_broken_off_goes_on_to_the_same_result(crowds, tmp_path, monkeypatch, name, settings, limit):
    monkeypatch.setattr(joined_em, "CELLS", 54)  # two blocks of six workers

    def die(iteration, bound):
        if iteration == 1:
            raise KeyboardInterrupt

    answers, frame, gold, known = crowds[True]
    options = {"parts": 2, "checkpoint": tmp_path, "broadcast_limit": limit, "weight": "weight", "gold": known}
    with pytest.raises(KeyboardInterrupt):
        getattr(engine, name)(**settings).fit(frame, callback=die, **options)
    assert (tmp_path / "blocks-0").exists() == (limit == 54) and (tmp_path / "easiness-0").exists() == (name == "GLAD")
    iterations = []
    model = getattr(engine, name)(**settings)
    model.fit(frame, resume=True, callback=lambda iteration, bound: iterations.append(iteration), **options)
    assert iterations == [1, 2]
    same(model, getattr(cw, name)(**settings).fit(answers, gold))


def test_a_checkpoint_of_another_fit_is_refused(frame, tmp_path):
    engine.OneCoin(max_iter=2, tol=0).fit(frame, checkpoint=tmp_path)
    with pytest.raises(ModelFileError, match=r"another fit \(settings differ\)"):
        engine.OneCoin(prior=None, **STEPS).fit(frame, checkpoint=tmp_path, resume=True)
    (tmp_path / "state.safetensors").write_bytes(b"half a file")
    with pytest.raises(ModelFileError, match="cannot be read"):
        engine.OneCoin(**STEPS).fit(frame, checkpoint=tmp_path, resume=True)


def test_bad_rows_are_counted_and_written_aside(spark, tmp_path):
    rows = [
        ("a", 1, "x", 1.0), ("a", 2, "y", 1.0), ("b", 1, "x", 1.0), ("b", 1, "y", 1.0), ("b", 2, "y", 1.0),
        (None, 1, "x", 1.0), ("c", None, "x", 1.0), ("c", 2, None, 1.0), ("c", 3, "z", 1.0), ("c", 4, "x", -1.0),
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, "item string, worker int, label string, sure double").coalesce(1)
    options = {"task": "item", "classes": ["y", "x"], "parts": 2}
    with pytest.raises(DuplicateError, match=r"worker 1 on task 'b'.*duplicates='first'"):
        engine.MajorityVote().fit(frame, **options)
    with pytest.raises(NullError, match="1 where the worker is missing"):
        engine.MajorityVote().fit(frame, bad="error", **options)
    options["duplicates"] = "last"
    model = engine.MajorityVote().fit(frame, weight="sure", **options)
    model.write(str(tmp_path / "out"))
    aside = spark.read.parquet(str(tmp_path / "out" / "rejected")).collect()
    assert sorted((row.reason, row.task, row.worker, row.label) for row in aside) == [
        ("label is missing", "c", 2, None),
        ("label is not among the classes", "c", 3, "z"),
        ("task is missing", None, 1, "x"),
        (packing.BAD_WEIGHT, "c", 4, "x"),
        ("worker gave this task another answer", "b", 1, "x"),
        ("worker is missing", "c", None, "x"),
    ]
    assert model.removed_ == {row.reason: 1 for row in aside}
    labels = {row.task: row for row in spark.read.parquet(str(tmp_path / "out" / "labels")).collect()}
    assert labels["b"].label == "y" and labels["b"].proba == [1.0, 0.0] and set(labels) == {"a", "b"}
    assert spark.read.parquet(str(tmp_path / "out" / "fit")).first().model == "MajorityVote"
    (tmp_path / "out" / "confusion").mkdir()  # of a model that had matrices
    classes, model.classes = model.classes, None
    with pytest.raises(AttributeError):  # broken off after the labels: `fit` does not say that all is there
        model.write(str(tmp_path / "out"), overwrite=True)
    model.classes = classes
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["classes", "labels", "rejected", "workers"]
    left_out = {why: n for why, n in model.removed_.items() if not why.startswith("weight")}
    with pytest.warns(CrowdwiseWarning, match="task is missing"):
        alpha = engine.alpha(frame, **options)
    used = cw.Answers.from_arrays(list("aabbc"), [1, 2, 1, 2, 4], list("xyyyx"))
    assert alpha == pytest.approx(cw.evaluate.krippendorff_alpha(used), abs=1e-12)
    assert engine.agreement(frame.dropna(), **options).removed == {
        why: left_out[why] for why in (packing.UNKNOWN_LABEL, packing.DUPLICATE)
    }


def test_agreement_is_the_local_one(crowds):
    answers, frame = crowds[False][:2]
    found = engine.agreement(frame, parts=3)
    assert found.alpha == pytest.approx(cw.evaluate.krippendorff_alpha(answers), abs=1e-12)
    assert found.pairwise == cw.evaluate.pairwise_agreement(answers)
    assert found.kappa == pytest.approx(cw.evaluate.fleiss_kappa(answers), abs=1e-12)
    assert found.removed == {} and found.rejected.isEmpty()


def test_wrong_known_labels_are_named(spark, frame):
    codes = spark.createDataFrame([("cat", 0), ("dog", 1), ("owl", 2)], "label string, class int")

    def check(rows, kind="string"):
        gold = spark.createDataFrame(rows, f"task {kind}, label string")
        return known_labels(gold, Columns(), frame, codes)

    with pytest.raises(UnknownIdError, match=r"'cow' for task 't2'.*'cat'"):
        check([("t1", "cat"), ("t2", "cow")])
    with pytest.raises(NullError, match="no label for task 't1'"):
        check([("t1", None)])
    with pytest.raises(NullError, match="has no task"):
        check([(None, "cat")])
    with pytest.raises(DuplicateError, match="task 't1' two labels"):
        check([("t1", "cat"), ("t1", "dog")])
    with pytest.raises(IdTypeError, match="bigint where the answers have string"):
        check([(1, "cat")], "int")
    known, digest = check([("t1", "cat"), ("t1", "cat")])
    assert known.collect() == [("t1", 0)] and digest
    with pytest.raises(UnknownIdError, match="tasks without answers: 'nobody'"):
        strange = spark.createDataFrame([("nobody", "cat"), ("t1", "cat")], "task string, label string")
        engine.NaiveSoft().fit(frame, gold=strange)


def test_what_the_engine_does_not_do_is_refused(answers, frame):
    from pyspark.sql import functions as f

    with pytest.raises(ParameterError, match="n_init"):
        engine.DawidSkene(n_init=2).fit(frame)
    with pytest.raises(ParameterError, match="takes for patterns"):
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
