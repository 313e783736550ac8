"""Our drop-in compared with results of crowd-kit 1.4.2 (expected.json, written by generate_expected.py)."""

import inspect
import json
from pathlib import Path

import krippendorff
import numpy as np
import pandas as pd
import pytest

from crowdwise import errors
from crowdwise.compat import crowdkit
from crowdwise.compat.crowdkit import _frames
from crowdwise.compat.crowdkit.aggregation.classification import _rank_one
from crowdwise.compat.crowdkit.aggregation.utils import clone_aggregator, evaluate, evaluate_equal, get_accuracy
from crowdwise.compat.crowdkit.metrics.workers import accuracy_on_aggregates
from crowdwise.truth.methods.mmsr import shared_tasks
from tests.helpers.crowdkit_cases import CLASSES, FRAMES, HISTORY, SETTLED, TRUTH, cases, run

EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text())
WORDS = FRAMES["words"]
ONE = pd.Series({"w1": 1.0})


def assert_same(ours, theirs, tolerance=1e-6, at="result"):
    """Check that values, names, dtypes and order of rows are the same."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), at
        for key in theirs:
            assert_same(ours[key], theirs[key], tolerance, f"{at}.{key}")
    elif np.asarray(theirs).dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance, err_msg=at)
    else:
        assert ours == theirs, at


@pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", cases())
def test_results_match_crowdkit(name):
    assert_same(run(crowdkit, *cases()[name]), EXPECTED["cases"][name])


@pytest.mark.parametrize("name", SETTLED)
def test_converged_values_match_crowdkit(name):
    cls, frame, theirs, ours, tolerance, compared = SETTLED[name]
    results = run(crowdkit, cls, frame, theirs | ours, "fit_predict", {}, compared)
    assert_same(results, EXPECTED["settled"][name], tolerance)


@pytest.mark.parametrize("name", CLASSES)
def test_signatures_match_crowdkit(name):
    cls, theirs = getattr(crowdkit, name), EXPECTED["signatures"][name]
    arguments = {key: value.default for key, value in inspect.signature(cls).parameters.items()}
    if name == "MMSR":
        assert arguments.popitem() == ("estimator", "crowdkit")  # ours only
    assert list(arguments.items()) == list(theirs["arguments"].items())
    for method in theirs.keys() - {"arguments"}:
        assert list(inspect.signature(getattr(cls, method)).parameters) == theirs[method], method
    public = {key for key in dir(cls) if not key.startswith("_") and callable(getattr(cls, key))}
    assert public == theirs.keys() - {"arguments"}


# Intended differences


@pytest.mark.parametrize("name", ["DawidSkene", "OneCoinDawidSkene", "GLAD"])
def test_loss_history_never_decreases(name):
    history = getattr(crowdkit, name)(n_iter=200, tol=1e-9).fit(WORDS).loss_history_
    assert len(history) > 3
    assert min(np.diff(history)) > -1e-12


def test_fit_that_has_not_converged_warns():
    with pytest.warns(errors.ConvergenceWarning, match="max_iter=2"):
        crowdkit.DawidSkene(n_iter=2).fit(WORDS)


def test_history_is_added_to_the_counts_of_the_data():
    ds = crowdkit.DawidSkene(n_iter=0, initial_error_strategy="addition").fit(WORDS, initial_error=HISTORY)
    shares = crowdkit.MajorityVote().fit_predict_proba(WORDS)
    counts = WORDS.join(shares, on="task").drop(columns="task").groupby(["worker", "label"]).sum() + HISTORY
    expected = counts / counts.groupby("worker").sum()
    np.testing.assert_allclose(ds.errors_.sort_index(), expected.sort_index(), atol=1e-9)


def test_history_counts_in_every_step():
    ds = crowdkit.DawidSkene(n_iter=50, tol=0, initial_error_strategy="addition")
    fitted = ds.fit(WORDS, initial_error=HISTORY * 1e6).errors_
    np.testing.assert_allclose(fitted.sort_index(), HISTORY / HISTORY.groupby("worker").sum(), atol=1e-4)


def test_history_may_cover_some_workers_and_new_classes():
    past = HISTORY.iloc[:2].rename(index={"b": "d"}, level="label")
    others = past.rename(index={"w1": "stranger"}, level="worker")
    ds = crowdkit.DawidSkene(initial_error_strategy="addition").fit(WORDS, initial_error=pd.concat([past, others]))
    assert ds.probas_.columns.tolist() == ["a", "b", "c", "d"]
    assert ("w1", "d") in ds.errors_.index
    assert "stranger" not in ds.errors_.index.unique("worker")
    np.testing.assert_allclose(ds.errors_.loc["w1", ["a", "b", "c"]].sum(), 1)


def test_history_to_assign_must_cover_all_workers():
    ds = crowdkit.DawidSkene(initial_error_strategy="assign")
    with pytest.raises(errors.GoldError, match="lacks"):
        ds.fit(WORDS, initial_error=HISTORY.iloc[:4])
    with pytest.raises(errors.ParameterError, match=r"should be 1\.0"):
        ds.fit(WORDS, initial_error=HISTORY / 20)
    with pytest.raises(errors.FormatError, match="index it by worker and label"):
        ds.fit(WORDS, initial_error=HISTORY.rename_axis(index=["who", "what"]))


def test_negative_sum_of_skills_does_not_reverse_the_vote():
    frame = pd.DataFrame({"task": [1, 1, 1], "worker": list("abc"), "label": list("xyy")})
    vote = crowdkit.MajorityVote().fit(frame, skills=pd.Series({"a": 0.5, "b": -1.0, "c": -1.0}))
    assert vote.labels_.tolist() == ["x"]
    none = crowdkit.MajorityVote().fit(frame, skills=pd.Series({"a": 0, "b": 0, "c": 0}))
    np.testing.assert_allclose(none.probas_, [[1 / 3, 2 / 3]])


def test_mace_does_not_depend_on_ids():
    renamed = WORDS.assign(worker=WORDS["worker"].map(lambda w: f"w{9 - int(w[1])}"))
    np.testing.assert_allclose(crowdkit.MACE().fit(renamed).probas_, crowdkit.MACE().fit(WORDS).probas_, atol=1e-9)


def test_true_label_that_nobody_chose_becomes_a_class():
    ds = crowdkit.DawidSkene(n_iter=3, tol=0).fit(WORDS, pd.Series({"t00": "d"}))
    assert ds.labels_["t00"] == "d"
    assert ds.probas_.columns.tolist() == ["a", "b", "c", "d"]


# Accepted input


def test_gold_vote_accepts_several_true_labels_per_task():
    frame = pd.DataFrame({"task": [1, 1, 1, 2], "worker": list("abca"), "label": list("xyzx")})
    gold = crowdkit.GoldMajorityVote().fit(frame, pd.Series(["x", "y"], index=[1, 1]))
    assert gold.skills_.to_dict() == {"a": 1.0, "b": 1.0, "c": 0.0}


def test_skills_apply_to_other_answers():
    wawa = crowdkit.Wawa().fit(WORDS)
    later = pd.DataFrame({"task": ["new", "new"], "worker": ["w1", "w3"], "label": ["b", "a"]})
    assert wawa.predict(later).to_dict() == {"new": "b"}
    assert wawa.predict_proba(later).shape == (1, 2)


@pytest.mark.parametrize(
    "ids",
    [
        lambda column: column.map(lambda i: frozenset([i])),
        lambda column: pd.to_datetime(column.map({i: f"2020-01-{n + 1:02d}" for n, i in enumerate(column.unique())})),
        lambda column: column.map({i: n + 0.5 for n, i in enumerate(sorted(column.unique()))}),
        lambda column: column.astype("category"),
        lambda column: column.map({i: n if n % 2 else str(i) for n, i in enumerate(column.unique())}),
    ],
    ids=["sets", "dates", "fractions", "categories", "mixed"],
)
def test_ids_of_any_type_are_accepted(ids):
    frame = WORDS.apply(ids)
    ds = crowdkit.DawidSkene(n_iter=5, tol=0).fit(frame)
    plain = crowdkit.DawidSkene(n_iter=5, tol=0).fit(WORDS)
    renamed = dict(zip(WORDS["label"], frame["label"], strict=True))
    assert ds.labels_.tolist() == [renamed[label] for label in plain.labels_]
    assert ds.errors_.shape == plain.errors_.shape


def test_alpha_accepts_any_distance():
    frame = FRAMES["numbers"]
    nominal = crowdkit.alpha_krippendorff(frame, lambda a, b: float(a != b))
    assert nominal == pytest.approx(crowdkit.alpha_krippendorff(frame), abs=1e-12)
    wide = frame.pivot(index="worker", columns="task", values="label").to_numpy(float)
    interval = krippendorff.alpha(wide, level_of_measurement="interval")
    assert crowdkit.alpha_krippendorff(frame, lambda a, b: (a - b) ** 2) == pytest.approx(interval, abs=1e-12)


def test_metrics_accept_an_aggregator():
    skills = crowdkit.Wawa().fit(WORDS).skills_
    assert crowdkit.uncertainty(WORDS, aggregator=crowdkit.Wawa()) == crowdkit.uncertainty(WORDS, skills)
    assert 0 < crowdkit.consistency(WORDS, aggregator=crowdkit.Wawa()) <= 1


# Rejected input


@pytest.mark.parametrize("column", ["task", "worker", "label"])
def test_missing_column_is_named(column):
    with pytest.raises(errors.MissingColumnError, match=f"no column '{column}'"):
        crowdkit.MajorityVote().fit(WORDS.drop(columns=column))
    with pytest.raises(KeyError):  # what crowd-kit raises
        crowdkit.Wawa().fit_predict(WORDS.drop(columns=column))


def test_missing_and_repeated_answers_are_named():
    gap = WORDS.copy()
    gap.loc[[3, 5], "label"] = None
    with pytest.raises(errors.NullError, match=r"2 rows lack .* \(rows 3, 5, counted from 0\).*dropna"):
        crowdkit.DawidSkene().fit(gap)
    repeated = pd.concat([WORDS, WORDS.iloc[[2]]], ignore_index=True)
    worker, task = WORDS.loc[2, ["worker", "task"]]
    message = rf"1 answers are repeated \(worker '{worker}' on task '{task}'; rows {len(WORDS)},.*drop_duplicates"
    with pytest.raises(errors.DuplicateError, match=message):
        crowdkit.DawidSkene().fit(repeated)
    for name in ("GLAD", "MACE", "MMSR", "ZeroBasedSkill"):  # crowd-kit divides by zero; the others return empty frames
        with pytest.raises(errors.EmptyError, match="no rows"):
            getattr(crowdkit, name)().fit(WORDS.iloc[:0])


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (errors.GoldError, "none of which is a task", lambda c: c.DawidSkene().fit(WORDS, pd.Series({"x": "a"}))),
        (errors.GoldError, "two true labels", lambda c: c.DawidSkene().fit(WORDS, pd.Series(list("ab"), ["t00"] * 2))),
        (errors.ParameterError, "no skill for worker 'w2'", lambda c: c.MajorityVote().fit(WORDS, ONE)),
        (errors.ParameterError, "no worker of known skill", lambda c: c.MajorityVote(None, "ignore").fit(WORDS, ONE)),
        (errors.ParameterError, "go together", lambda c: c.MajorityVote(0.5).fit(WORDS, ONE)),
        (errors.ParameterError, "on_missing_skill", lambda c: c.MajorityVote(None, "x").fit(WORDS, ONE)),
        (errors.ParameterError, "no skill for worker",
         lambda c: c.GoldMajorityVote().fit_predict(FRAMES["tied"], pd.Series({"t00": "a"}))),
        (errors.ParameterError, "alphas_priors_mean has no value for worker",
         lambda c: c.GLAD(alphas_priors_mean=ONE).fit(WORDS)),
        (errors.ParameterError, "compute_by", lambda c: c.uncertainty(WORDS, compute_by="label")),
        (errors.ParameterError, "no skill for worker 'w2'", lambda c: c.consistency(WORDS, ONE)),
        (errors.EmptyError, "no task has two", lambda c: c.alpha_krippendorff(WORDS.drop_duplicates("task"))),
        (errors.NotFittedError, "no labels_", lambda c: c.Wawa().fit(WORDS).labels_),
    ],
)  # fmt: skip
def test_invalid_input_is_explained(error, message, call):
    with pytest.raises(error, match=message):
        call(crowdkit)


def test_gold_series_are_not_changed():
    before = TRUTH["words"].copy()
    crowdkit.DawidSkene(n_iter=2, tol=0).fit(WORDS, TRUTH["words"])
    pd.testing.assert_series_equal(TRUTH["words"], before)


# The module tree


def test_modules_are_those_of_crowdkit():
    from crowdwise.compat.crowdkit import aggregation, metrics

    for name in CLASSES:
        assert getattr(aggregation, name) is getattr(aggregation.classification, name) is getattr(crowdkit, name)
    assert isinstance(aggregation.MajorityVote(), aggregation.base.BaseClassificationAggregator)
    assert metrics.data.uncertainty is crowdkit.uncertainty


def test_evaluate_needs_one_prediction_per_true_label():
    true = pd.Series({"t1": "a", "t2": "b"}, name="label").rename_axis("task").to_frame()
    predicted = pd.DataFrame({"task": ["t2", "t1", "t3"], "label": ["b", "c", "a"]})
    assert evaluate(true, predicted, evaluate_equal) == 0.5
    assert evaluate(true.assign(label=["ac", "xy"]), predicted) == 0.5  # "c" is in "ac"
    with pytest.raises(errors.GoldError, match="2 true labels, but 1 rows"):
        evaluate(true, predicted.iloc[:1])
    with pytest.raises(errors.EmptyError, match="no true labels"):
        evaluate(true.iloc[:0], predicted.iloc[:0])


def test_accuracy_counts_weights_and_several_true_labels():
    data = pd.DataFrame({"task": [1, 1, 2, 3], "worker": list("abaa"), "label": list("xyzx"), "weight": [1, 2, 3, 4]})
    truth = pd.Series(["x", "y", "w"], index=[1, 1, 2])  # task 1 has two true labels; task 3 is unknown
    assert get_accuracy(data, truth) == 3 / 6
    assert get_accuracy(data, truth, by="worker").to_dict() == {"a": 1 / 4, "b": 1.0}
    assert get_accuracy(data.iloc[:0], truth, by="worker").empty
    with pytest.raises(errors.GoldError, match="no answer is to a task with a true label"):
        get_accuracy(data, pd.Series({9: "x"}))
    with pytest.raises(errors.ParameterError, match="by='colour'"):
        get_accuracy(data, truth, by="colour")
    with pytest.raises(errors.MissingColumnError, match="no column 'label'"):
        get_accuracy(data.drop(columns="label"), truth)


def test_accuracy_on_aggregates_uses_the_labels_or_an_aggregator():
    expected = get_accuracy(WORDS, crowdkit.Wawa().fit_predict(WORDS))
    assert accuracy_on_aggregates(WORDS, crowdkit.Wawa()) == expected
    labels = crowdkit.Wawa().fit_predict(WORDS)
    assert accuracy_on_aggregates(WORDS, aggregates=labels) == expected


def test_clone_has_the_arguments_but_no_results():
    fitted = crowdkit.MMSR(n_iter=7, estimator="crowdwise").fit(WORDS)
    clone = clone_aggregator(fitted)
    assert (clone.n_iter, clone.estimator) == (7, "crowdwise")
    assert not hasattr(clone, "skills_")


def test_kos_takes_two_classes():
    with pytest.raises(errors.ParameterError, match=r"3 classes \('a', 'b', 'c'\).*crowdwise\.KOS takes any number"):
        crowdkit.KOS().fit(WORDS)


# MMSR


def sparse_crowd(n_tasks=400, n_workers=120):
    """Return answers of honest workers, three per task, and the truth; many pairs of workers share no task."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=n_tasks)
    worker = rng.permuted(np.tile(np.arange(n_workers), (n_tasks, 1)), axis=1)[:, :3].ravel()
    task = np.repeat(np.arange(n_tasks), 3)
    right = rng.random(len(task)) < rng.uniform(0.6, 0.95, n_workers)[worker]
    label = np.where(right, truth[task], 1 - truth[task])
    return pd.DataFrame({"task": task, "worker": worker, "label": label}), truth


def test_mmsr_warns_where_crowdkits_estimator_is_worse_than_the_vote():
    frame, truth = sparse_crowd()
    with pytest.warns(errors.CrowdwiseWarning, match=r"of the pairs of workers share no task.*estimator='crowdwise'"):
        theirs = crowdkit.MMSR().fit_predict(frame)
    ours = crowdkit.MMSR(estimator="crowdwise").fit_predict(frame)
    vote = crowdkit.MajorityVote().fit_predict(frame)
    right = [(labels.sort_index() == truth).mean() for labels in (theirs, vote, ours)]
    assert right[0] + 0.1 < min(right[1:])
    with pytest.raises(errors.ParameterError, match="estimator='ours'"):
        crowdkit.MMSR(estimator="ours").fit(frame)


def test_signs_do_not_depend_on_the_size_of_the_graph(monkeypatch):
    """The iterative and the dense eigenvector agree, also with the matrix that crowd-kit builds."""
    answers = _frames.read(sparse_crowd(200, 12)[0]).answers
    starts, partner, common, agreed = shared_tasks(answers)
    row, covariance = np.repeat(np.arange(12), np.diff(starts)), 2 * agreed / common - 1
    dense = _rank_one.last_eigenvector(row, partner, covariance, 12)
    monkeypatch.setattr(_rank_one, "DENSE", 0)
    iterative = _rank_one.last_eigenvector(row, partner, covariance, 12)
    assert abs(dense @ iterative) == pytest.approx((dense @ dense) ** 0.5 * (iterative @ iterative) ** 0.5)

    signs = np.full((12, 12), -1.0)
    signs[row, partner] = np.sign(covariance)
    above = np.argwhere(np.triu(signs) == 1)
    joined = np.zeros((12, len(above)))
    joined[above[:, 0], np.arange(len(above))] = joined[above[:, 1], np.arange(len(above))] = 1
    graph = np.block([[(signs == -1) * 1.0, joined], [joined.T, np.zeros((len(above),) * 2)]])
    root = graph.sum(axis=1) ** -0.5
    expected = np.linalg.eigh(root[:, None] * graph * root)[1][:12, 0]
    np.testing.assert_array_equal(np.sign(dense) * np.sign(dense[0]), np.sign(expected) * np.sign(expected[0]))
