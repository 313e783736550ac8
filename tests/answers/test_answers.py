import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, cross_val_score

import crowdwise as cw
from crowdwise import Answers
from crowdwise.errors import (
    CrowdwiseError,
    DuplicateError,
    EmptyError,
    FormatError,
    GoldError,
    IdTypeError,
    MissingColumnError,
    NullError,
    ParameterError,
    TooLargeError,
    TooManyClassesError,
    UnknownIdError,
    WeightError,
)

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.LookalikeWarning")  # random ids may look alike

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ids = st.sampled_from([st.integers(-(2**62), 2**62), text, st.booleans()])


def ids_like(first):
    """Up to four distinct ids of the type of the first."""
    others = st.from_type(type(first)).filter(is_valid_id)
    return st.lists(st.just(first) | others, min_size=1, max_size=4, unique=True)


@st.composite
def tables(draw):
    """Columns of distinct (task, worker) pairs with ids of any type."""
    task_ids, worker_ids, classes = (draw(draw(ids).flatmap(ids_like)) for _ in range(3))
    pairs = st.tuples(st.sampled_from(task_ids), st.sampled_from(worker_ids))
    cells = draw(st.lists(pairs, min_size=1, max_size=12, unique=True))
    labels = draw(st.lists(st.sampled_from(classes), min_size=len(cells), max_size=len(cells)))
    return [c[0] for c in cells], [c[1] for c in cells], labels


def is_valid_id(value):
    if isinstance(value, str):
        return all(not 0xD800 <= ord(c) < 0xE000 for c in value)
    return not isinstance(value, int) or -(2**62) < value < 2**62


def as_rows(answers):
    return sorted(
        zip(*(answers.to_arrow().column(c).to_pylist() for c in ("task", "worker", "label")), strict=True), key=str
    )


@given(tables())
@settings(max_examples=100, deadline=None)
def test_ids_of_any_type_round_trip(table):
    answers = Answers.from_arrays(*table)
    assert as_rows(answers) == sorted(zip(*table, strict=True), key=str)
    for column, values in zip(("tasks", "workers", "classes"), table, strict=True):
        assert {type(v) for v in getattr(answers, column).tolist()} == {type(values[0])}
        assert getattr(answers, column).tolist() == sorted(
            set(values), key=lambda v: v.encode() if isinstance(v, str) else v
        )


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_result_does_not_depend_on_row_order(table, random):
    rows = list(zip(*table, strict=True))
    random.shuffle(rows)
    assert Answers.from_arrays(*map(list, zip(*rows, strict=True))) == Answers.from_arrays(*table)


def long_frame():
    return {"task": ["b", "a", "a"], "worker": [2, 1, 2], "label": [True, True, False]}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_from_frame_accepts_every_table_library(kind):
    answers = Answers.from_frame(kind(long_frame()))
    assert as_rows(answers) == [("a", 1, True), ("a", 2, False), ("b", 2, True)]


def test_to_frame_round_trips():
    answers = Answers.from_arrays(**long_frame())
    assert Answers.from_frame(answers.to_frame("pandas")) == answers
    assert Answers.from_frame(answers.to_frame("polars")) == answers
    assert Answers.from_frame(answers.to_frame("arrow")) == answers


def test_pandas_extension_types_are_accepted():
    frame = pd.DataFrame(long_frame())
    for task in (
        frame.task.astype("category"),
        frame.task.astype("string"),
        pd.Series(pd.array([5, 4, 4], dtype="Int64")),
    ):
        assert Answers.from_frame(frame.assign(task=task)).n_tasks == 2
    assert Answers.from_frame(frame.assign(worker=[2.0, 1.0, 2.0])).workers.tolist() == [1, 2]


def test_columns_are_recognised_or_named():
    frame = {"Item": [1, 2], "annotator-id": [3, 4], "Answer": ["x", "y"], "note": ["", ""]}
    assert Answers.from_frame(frame).n_answers == 2
    assert Answers.from_frame(frame, label="note").classes.tolist() == [""]
    with pytest.raises(MissingColumnError, match=r"worker.*worker='...'"):
        Answers.from_frame({"task": [1], "label": [2], "colour": [3]})
    with pytest.raises(MissingColumnError, match="'who'"):
        Answers.from_frame(frame, worker="who")


def test_wide_tables_round_trip():
    frame = pd.DataFrame({"ann": ["x", None], "bob": ["y", "x"]}, index=["t1", "t2"])
    answers = Answers.from_wide(frame)
    assert as_rows(answers) == [("t1", "ann", "x"), ("t1", "bob", "y"), ("t2", "bob", "x")]
    assert answers.to_wide().equals(frame.astype(object).where(frame.notna(), None))
    nullable = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([0, 1], dtype="Int64")})
    assert as_rows(Answers.from_wide(nullable)) == [(0, "a", 1), (0, "b", 0), (1, "b", 1)]
    columns = {"ann": ["x", None], "bob": ["y", "x"]}
    for kind in (pl.DataFrame, pa.table):
        assert as_rows(Answers.from_wide(kind(columns))) == [(0, "ann", "x"), (0, "bob", "y"), (1, "bob", "x")]
    assert as_rows(Answers.from_wide([[0, -1], [1, 1]], missing=-1)) == [(0, 0, 0), (1, 0, 1), (1, 1, 1)]
    assert as_rows(Answers.from_wide(np.array([[0, np.nan], [1, 1]]))) == [(0, 0, 0), (1, 0, 1), (1, 1, 1)]
    assert Answers.from_wide([[0, -1], [-1, -1]], missing=-1).n_tasks == 2  # an unanswered task is kept
    with pytest.raises(FormatError, match="2 dimensions"):
        Answers.from_wide([1, 2])
    with pytest.raises(TooLargeError, match="to_frame"):
        answers.to_wide(max_cells=3)


class TestInvalidInput:
    def test_empty_input_is_rejected(self):
        with pytest.raises(EmptyError):
            Answers.from_arrays([], [], [])

    @pytest.mark.parametrize("column", ["task", "worker", "label"])
    @pytest.mark.parametrize("null", [None, float("nan"), pd.NA])
    def test_nulls_are_rejected_or_dropped(self, column, null):
        frame = {"task": ["a", "b"], "worker": ["x", "y"], "label": ["p", "q"]}
        frame[column] = [frame[column][0], null]
        with pytest.raises(NullError, match=rf"{column}.*row"):
            Answers.from_frame(pd.DataFrame(frame))
        answers = Answers.from_frame(pd.DataFrame(frame), nulls="drop")
        assert answers.n_answers == 1
        assert answers.removed == {"rows with a missing value": 1}

    def test_duplicates_are_rejected_or_resolved(self):
        task, worker, label = ["a", "a", "a", "b"], ["x"] * 4, ["p", "q", "q", "p"]
        with pytest.raises(DuplicateError, match=r"'x' on task 'a'.*duplicates="):
            Answers.from_arrays(task, worker, label)
        for policy, kept in (("first", "p"), ("last", "q"), ("vote", "q")):
            answers = Answers.from_arrays(task, worker, label, duplicates=policy)
            assert as_rows(answers) == [("a", "x", kept), ("b", "x", "p")]
            assert answers.removed == {"answers a worker gave twice": 2}
        with pytest.raises(ParameterError, match="vote"):
            Answers.from_arrays(task, worker, label, duplicates="drop")

    def test_duplicate_error_names_rows_of_the_input(self):
        with pytest.raises(DuplicateError, match="rows 1 and 2"):
            Answers.from_arrays(["a", "z", "z"], [1, 1, 1], [0, 0, 1])  # sorted already
        with pytest.raises(DuplicateError, match="rows 0 and 2"):
            Answers.from_arrays(["z", "a", "z"], [1, 1, 1], [0, 0, 1])

    def test_undeclared_class_is_rejected(self):
        with pytest.raises(UnknownIdError, match=r"'r'.*rows 2"):
            Answers.from_arrays([1, 2, 3], [1, 1, 1], ["p", "q", "r"], classes=["p", "q"])

    def test_too_many_classes_are_rejected(self):
        with pytest.raises(TooManyClassesError, match="max_classes=1001"):
            Answers.from_arrays(range(1001), range(1001), range(1001))
        assert Answers.from_arrays(range(1001), range(1001), range(1001), max_classes=2000).n_classes == 1001

    def test_mixed_and_fractional_ids_are_rejected(self):
        with pytest.raises(IdTypeError, match=r"int, str.*mix types.*row 1"):
            Answers.from_arrays([1, "a"], [1, 2], [1, 2])
        with pytest.raises(IdTypeError, match=r"fractional.*row 1"):
            Answers.from_arrays([1.0, 2.5], [1, 2], [1, 2])
        with pytest.raises(IdTypeError, match="type"):
            Answers.from_arrays([b"a", b"b"], [1, 2], [1, 2])
        with pytest.raises(IdTypeError):
            Answers.from_arrays([2**70, 1], [1, 2], [1, 2])

    def test_columns_of_different_length_are_rejected(self):
        with pytest.raises(FormatError, match="same length"):
            Answers.from_arrays([1, 2], [1], [1, 2])

    @pytest.mark.parametrize("weight", [[-1.0, 1], [np.nan, 1], [np.inf, 1], ["a", "b"], [1.0]])
    def test_invalid_weights_are_rejected(self, weight):
        with pytest.raises(WeightError):
            Answers.from_arrays([1, 2], [1, 1], [0, 1], weight=weight)

    def test_other_types_are_rejected(self):
        with pytest.raises(FormatError, match="int"):
            Answers.from_frame(3)

    def test_every_error_is_a_crowdwise_error(self):
        classes = [e for e in vars(cw.errors).values() if isinstance(e, type) and not issubclass(e, Warning)]
        assert all(issubclass(e, CrowdwiseError) for e in classes)


def test_pseudo_flags_round_trip_through_files(tmp_path):
    ours = Answers.from_arrays([1, 2], ["a", "a"], ["x", "y"])
    both = ours.merge(Answers.from_arrays([1], ["b"], ["y"]), pseudo=True, weight=0.5)
    assert Answers.from_frame(both.to_frame()) == both
    for name in ("answers.csv", "answers.jsonl", "answers.parquet"):
        cw.write(both, tmp_path / name)
        assert cw.read(tmp_path / name) == both
    with pytest.raises(FormatError, match="pseudo"):
        Answers.from_frame({**long_frame(), "p": ["yes", "no", "no"]}, pseudo="p")


def test_unused_categories_are_dropped():
    frame = pd.DataFrame(long_frame()).astype({"task": "category", "label": "category"})
    answers = Answers.from_frame(frame.iloc[1:2])
    assert answers.tasks.tolist() == ["a"]
    assert answers.classes.tolist() == [True]


def test_truth_is_read_from_a_column():
    frame = {"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["x", "y", "x"], "gold": [None, "z", None]}
    answers = Answers.from_frame(frame, truth="gold")
    assert answers.classes.tolist() == ["x", "y", "z"]
    assert answers.truth.tolist() == [2, -1]
    frame["gold"] = ["x", "z", None]
    with pytest.raises(DuplicateError, match="two known labels"):
        Answers.from_frame(frame, truth="gold")


def test_truth_is_accepted_as_mapping_series_or_codes():
    answers = Answers.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "y", "x"])
    assert answers.with_truth({2: "y"}).truth.tolist() == [-1, 1]
    assert answers.with_truth([0, -1]).truth.tolist() == [0, -1]
    assert answers.with_truth(pd.Series(["y", "x"], index=[2, 1])).truth.tolist() == [0, 1]
    assert answers.codes_of_truth(pd.Series({2: "y"})).tolist() == [-1, 1]
    for wrong in ({3: "x"}, {1: 5}, [0], [5, 0], [0.5, 1]):
        with pytest.raises(CrowdwiseError):
            answers.with_truth(wrong)
    more = answers.with_truth({1: "q", 3: "x"}, ignore_unknown=True)
    assert more.classes.tolist() == ["x", "y", "q"]
    assert more.truth.tolist() == [2, -1]
    assert more.removed == {"known labels of tasks without answers": 1}
    with pytest.raises(UnknownIdError, match="'q'"):
        answers.codes_of_truth({1: "q"})


@pytest.fixture
def answers():
    rng = np.random.default_rng(0)
    cells = rng.permutation(20 * 8)[:70]
    return Answers.from_arrays(cells // 8, cells % 8, rng.integers(0, 3, 70), tasks=range(20), weight=rng.random(70))


def test_indexing_selects_tasks(answers):
    rows = [5, 2, 9]
    part = answers[rows]
    assert part.tasks.tolist() == rows
    assert part.workers.tolist() == answers.workers.tolist()
    by_cell = {row[:2]: row for row in as_rows(answers)}
    assert as_rows(part) == sorted((r for r in by_cell.values() if r[0] in rows), key=str)
    assert answers[answers.tasks < 5].n_tasks == 5
    assert answers[3].tasks.tolist() == [3]
    assert answers[2:4].n_tasks == 2
    assert len(answers[[]]) == 0
    with pytest.raises(DuplicateError):
        answers[[1, 1]]


def test_answers_work_as_y_in_scikit_learn(answers):
    parts = [answers[test].n_tasks for _, test in KFold(5).split(np.zeros((20, 2)), answers)]
    assert parts == [4] * 5


def test_select_keeps_only_the_named_ids(answers):
    part = answers.select(workers=[7, 1])
    assert part.workers.tolist() == [7, 1]
    assert part.n_tasks == 20
    assert as_rows(part) == [r for r in as_rows(answers) if r[1] in (1, 7)]
    assert as_rows(answers.select(classes=[2, 0])) == [r for r in as_rows(answers) if r[2] in (0, 2)]
    assert answers.select(tasks=[4, 3]) == answers[[4, 3]]
    assert answers.with_truth(np.arange(20) % 3).select(classes=[2, 0]).truth.tolist()[:3] == [1, -1, 0]
    with pytest.raises(UnknownIdError, match="99"):
        answers.select(workers=[99])


@given(st.floats(0, 0.99), st.integers(0, 100))
def test_thin_removes_the_requested_share(fraction, seed):
    rng = np.random.default_rng(seed)
    cells = rng.permutation(20 * 8)[:70]
    answers = Answers.from_arrays(cells // 8, cells % 8, rng.integers(0, 3, 70), tasks=range(20))
    answered = (np.diff(answers.task_starts) > 0).sum()
    thin = answers.thin(fraction, seed=seed)
    assert thin.n_answers == max(70 - round(fraction * 70), answered)
    assert (np.diff(thin.task_starts) > 0).sum() == answered
    assert set(as_rows(thin)) <= set(as_rows(answers))
    assert thin == answers.thin(fraction, seed=seed)
    assert answers.thin(fraction, keep_one=False, seed=seed).n_answers == 70 - round(fraction * 70)
    with pytest.raises(ParameterError):
        answers.thin(1.0)


def test_merge_appends_new_ids_and_marks_pseudo_answers():
    ours = Answers.from_arrays([1, 2], ["a", "a"], ["x", "y"]).with_truth({1: "x"})
    theirs = Answers.from_arrays([3, 1], ["b", "c"], ["z", "x"]).with_truth({3: "z"})
    both = ours.merge(theirs, pseudo=True, weight=0.5)
    assert both.tasks.tolist() == [1, 2, 3]
    assert both.classes.tolist() == ["x", "y", "z"]
    assert both.truth.tolist() == [0, -1, 2]
    frame = both.to_frame().set_index(["task", "worker"])
    assert frame.loc[(3, "b")].to_dict() == {"label": "z", "weight": 0.5, "pseudo": True}
    assert frame.loc[(1, "a")].to_dict() == {"label": "x", "weight": 1.0, "pseudo": False}
    clash = Answers.from_arrays([1], ["a"], ["y"])
    with pytest.raises(DuplicateError):
        ours.merge(clash)
    assert ours.merge(clash, duplicates="last").counts(dense=True)[0].tolist() == [0, 1]
    with pytest.raises(IdTypeError):
        ours.merge(Answers.from_arrays(["q"], ["a"], ["x"]))


def test_sparse_and_dense_counts_agree(answers):
    dense = answers.counts(dense=True)
    np.testing.assert_allclose(answers.counts().toarray(), dense)
    assert dense.sum() == pytest.approx(answers.weight.sum())


def test_pairs_describe_every_answer(answers):
    pairs = answers.pairs
    worker = np.repeat(np.arange(answers.n_workers), np.diff(pairs.worker_starts))
    assert (worker[pairs.of_answer] == answers.worker).all()
    assert (pairs.label[pairs.of_answer] == answers.label).all()
    assert len(set(zip(worker, pairs.label, strict=True))) == len(worker)


def test_pairs_with_many_workers_and_classes():
    """With too many possible pairs for one flag each, the pairs are sorted instead."""
    rng = np.random.default_rng(0)
    answers = Answers.from_codes(np.arange(300), rng.integers(0, 5000, 300), rng.integers(0, 900, 300),
                                 tasks=300, workers=5000, classes=900)  # fmt: skip
    worker = np.repeat(np.arange(5000), np.diff(answers.pairs.worker_starts))
    assert (worker[answers.pairs.of_answer] == answers.worker).all()
    assert (answers.pairs.label[answers.pairs.of_answer] == answers.label).all()


def test_by_worker_sorts_rows_by_worker(answers):
    order = answers.by_worker
    assert (np.diff(answers.worker[order]) >= 0).all()
    assert answers.worker_starts[-1] == answers.n_answers


def test_answers_are_immutable(answers):
    with pytest.raises(ValueError, match="read-only"):
        answers.label[0] = 1
    with pytest.raises(AttributeError):
        answers.label = None


def test_from_codes_validates_codes_and_ids():
    with pytest.raises(UnknownIdError, match="worker"):
        Answers.from_codes(np.array([0]), np.array([3]), np.array([0]), tasks=1, workers=2, classes=1)
    with pytest.raises(DuplicateError, match="twice"):
        Answers.from_codes(np.array([0]), np.array([0]), np.array([0]), tasks=["a", "a"], workers=1, classes=1)


def test_declared_tables_keep_their_order():
    answers = Answers.from_arrays(["a"], ["w"], ["no"], tasks=["c", "a"], classes=["yes", "no"])
    assert answers.tasks.tolist() == ["c", "a"]
    assert answers.classes.tolist() == ["yes", "no"]
    assert answers.task.tolist() == [1]


def test_scorers_of_scikit_learn_compare_with_the_truth():
    X, answers = cw.simulate.digits_crowd()
    model, folds = cw.Raykar(max_iter=3, tol=0.0), KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(model, X, answers, cv=folds, scoring="accuracy", error_score="raise")
    for score, (train, test) in zip(scores, folds.split(X), strict=True):
        right = model.fit(X[train], answers[train]).predict(X[test]) == answers.classes[answers.truth[test]]
        assert score == right.mean() > 0.7
    for known, count in ((answers.with_truth(None), 738), (answers.with_truth({0: 1}), 737)):
        with pytest.raises(GoldError, match=f"true class of {count} of 738 tasks"):
            np.asarray(known)
    with pytest.raises(GoldError, match="attach it with with_truth"):
        cross_val_score(model, X, answers.with_truth(None), cv=folds, scoring="accuracy", error_score="raise")
