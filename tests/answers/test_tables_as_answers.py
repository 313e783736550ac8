"""Tables of pandas, polars and Arrow go where Answers go, and features without ids are checked for their order."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.answers import as_answers
from crowdwise.errors import ParameterError, TaskOrderWarning

COLUMNS = {
    "item": [f"img_{t}" for t in range(40) for _ in range(3)],
    "annotator": [w for _ in range(40) for w in "abc"],
    "label": ["cat" if t % 3 or (w == "c" and t == 6) else "dog" for t in range(40) for w in "abc"],
}
TABLES = {
    "mapping": COLUMNS,
    "pandas": pd.DataFrame(COLUMNS),
    "pandas with an index": pd.DataFrame(COLUMNS).set_index(["item", "annotator"]),
    "polars": pl.DataFrame(COLUMNS),
    "polars-lazy": pl.LazyFrame(COLUMNS),
    "arrow": pa.table(COLUMNS),
}
CALLS = {
    "fit": lambda table: cw.DawidSkene().fit(table).proba_,
    "fit_predict": lambda table: cw.MajorityVote().fit_predict(table),
    "partial_fit": lambda table: cw.DawidSkene().partial_fit(table).proba_,
    "choose": lambda table: cw.choose.choose(table, candidates=["one-coin"]).ranking_,
    "alpha": lambda table: cw.evaluate.krippendorff_alpha(table),
    "summarise": lambda table: str(cw.evaluate.summarise(table)),
    "calibrated": lambda table: cw.trust.calibrated(table).proba,
    "alike": lambda table: str(cw.evaluate.alike(table)),
    "panel": lambda table: str(cw.trust.panel(table)),
    "plan_gold": lambda table: cw.trust.plan_gold(table, cw.trust.calibrated(table).proba, 10).table.to_pylist(),
    "replay": lambda table: cw.acquire.replay(table, score=lambda model: 1.0, seeds=[0], step=0.5).to_pylist(),
    "dependence": lambda table: cw.trust.dependence(table).effective_votes,
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_same_answers(kind):
    assert as_answers(TABLES[kind]) == cw.Answers.from_frame(COLUMNS)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_table_gives_what_its_answers_give(call):
    np.testing.assert_equal(call(TABLES["pandas"]), call(cw.Answers.from_frame(COLUMNS)))


def test_what_is_no_table_is_named():
    with pytest.raises(ParameterError, match=r"list is not a table of answers.*task, worker and label"):
        cw.DawidSkene().fit([1, 2, 3])


def rows_of(answers):
    """Features that tell the classes apart, in the order in which the tasks first appear."""
    return np.array([[1.0 if t % 3 else -1.0] for t in range(answers.n_tasks)])


def fit(X, answers):
    model = cw.make("aggregated(majority-vote)", network="logistic").fit(X, answers)
    return (model.predict(X) == model.labels_).mean()


def test_features_in_the_order_of_appearance_are_noticed():
    """Sorted as text, img_10 stands before img_2: rows in the order of the table then belong to other tasks."""
    answers = as_answers(TABLES["pandas"])
    with pytest.warns(TaskOrderWarning, match=r"sorted: 'img_0', 'img_1', 'img_10'.*tasks="):
        fit(rows_of(answers), answers)


def test_a_declared_order_and_ids_need_no_warning():
    tasks = list(dict.fromkeys(COLUMNS["item"]))
    declared = cw.Answers.from_frame(COLUMNS, tasks=tasks)
    X = rows_of(declared)
    in_order = cw.Answers.from_frame({**COLUMNS, "item": [f"img_{t:02}" for t in range(40) for _ in range(3)]})
    by_id = pd.DataFrame({"x": X[:, 0]}, index=tasks)
    by_column = pl.DataFrame({"x": X[:, 0], "image": tasks})
    integers = cw.Answers.from_frame({**COLUMNS, "item": [t for t in reversed(range(40)) for _ in range(3)]})
    sorted_text = as_answers(COLUMNS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for features, answers in (
            (X, declared), (X, in_order), (X, integers), (by_id, sorted_text), (by_column, sorted_text),
        ):  # fmt: skip
            fit(features, answers)


def test_a_frame_is_matched_by_its_ids():
    """Rows in any order: the classifier then agrees with the labels of the tasks."""
    answers, tasks = as_answers(COLUMNS), list(dict.fromkeys(COLUMNS["item"]))
    order = np.random.default_rng(0).permutation(40)
    frame = pd.DataFrame({"x": rows_of(answers)[order, 0], "item": np.array(tasks)[order]})
    model = cw.make("aggregated(majority-vote)", network="logistic").fit(frame, answers)
    assert (model.predict(frame.set_index("item").loc[answers.tasks]) == model.labels_).all()
