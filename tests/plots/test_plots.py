"""Every chart is valid Vega-Lite and holds the figures of what it is drawn of."""

import sys

import altair
import numpy as np
import pandas as pd
import pytest

import crowdwise as cw
from crowdwise.acquire import mean_curve, replay
from crowdwise.errors import MissingDependencyError, ParameterError, UnknownIdError
from crowdwise.plots.crowd import NAMED
from crowdwise.plots.mistakes import GROUPS
from crowdwise.truth.tables import worker_table


@pytest.fixture(scope="module")
def answers():
    return cw.simulate.simulate(200, n_workers=12, n_classes=3, answers_per_task=4, class_balance=4, seed=1)


@pytest.fixture(scope="module")
def model(answers):
    return cw.DawidSkene().fit(answers)


@pytest.fixture(scope="module")
def run(answers):
    return cw.run(answers, method=["one-coin", "dawid-skene"], folds=2)


@pytest.fixture(scope="module")
def copied(answers):
    """Answers with a copy of three workers each, two times."""
    for shift in (12, 24):
        rows = answers.worker < 3
        copies = cw.Answers.from_arrays(answers.task[rows], answers.worker[rows] + shift, answers.label[rows])
        answers = answers.merge(copies)
    return answers


@pytest.fixture(scope="module")
def dasc(answers):
    X = np.eye(3)[answers.truth] + np.random.default_rng(0).normal(size=(200, 3))
    return cw.DASC(cw.CrowdLayer(epochs=2), iterations=2).fit(X, answers)


@pytest.fixture(scope="module")
def waum(answers):
    X = np.eye(3)[answers.truth] + np.random.default_rng(0).normal(size=(200, 3))
    return cw.WAUM(epochs=2).fit(X, answers)


def rows_of(chart, key=None):
    """The rows of a chart, those with this key if it has several tables; validates the specification."""
    (rows,) = (rows for rows in chart.to_dict()["datasets"].values() if key is None or (rows and key in rows[0]))
    return rows


def test_balance_has_the_shares_of_answers_labels_and_truth(answers, model, run):
    counts = np.bincount(answers.label, minlength=3)
    for subject, series in ((answers, 2), (model, 3), (run, 3)):
        rows = rows_of(cw.plots.balance(subject))
        assert len(rows) == 3 * series
        shares = {row["class"]: row["share"] for row in rows if row["of"] == "answers"}
        assert [shares[str(c)] for c in range(3)] == pytest.approx(counts / counts.sum())
    truth = pd.DataFrame({"task": answers.tasks[:10], "label": answers.classes[answers.truth[:10]]})
    known = [row for row in rows_of(cw.plots.balance(model, truth)) if row["of"] == "known truth"]
    shares = {row["class"]: row["share"] for row in known}
    assert [shares[str(c)] for c in range(3)] == pytest.approx(np.bincount(answers.truth[:10], minlength=3) / 10)


def test_agreement_and_confidence_count_all_tasks(answers, model, run):
    frame = answers.to_frame()
    for subject in (answers, frame, model, run):
        rows = rows_of(cw.plots.agreement(subject))
        assert sum(row["n"] for row in rows) == answers.n_tasks
        if subject is answers or subject is frame:
            assert all(row["n"] == 0 for row in rows if row["high"] <= 0.25), "the label is the most frequent answer"
    for subject in (model, run):
        assert sum(row["n"] for row in rows_of(cw.plots.confidence(subject), "n")) == answers.n_tasks
    sure = sum(row["n"] for row in rows_of(cw.plots.confidence(model)) if row["low"] >= 0.9)
    assert sure == (model.proba_.max(axis=1) >= 0.9).sum()
    with pytest.raises(ParameterError, match="pass a fitted model or a run"):
        cw.plots.confidence(answers)


def test_reliability_has_the_accuracy_of_each_bin(answers, model, run):
    bins = cw.evaluate.reliability(model.proba_.max(axis=1), model.codes_ == answers.truth)
    drawn = [
        (row["confidence"], row["accuracy"], row["count"]) for row in rows_of(cw.plots.reliability(model), "count")
    ]
    expected = [each for each in zip(bins.confidence, bins.accuracy, bins.count, strict=True) if each[2] >= 5]
    assert np.array(drawn) == pytest.approx(np.array(expected)) and len(expected) > 3
    assert {row["of"] for row in rows_of(cw.plots.reliability(run), "count")} <= {
        "confidence", "before calibration", "after calibration",
    }  # fmt: skip
    with pytest.raises(ParameterError, match="truth="):
        cw.plots.reliability(cw.MajorityVote().fit(answers.with_truth(None)))


def test_workers_have_their_quality_and_interval(answers, model, run):
    for subject, table in ((model, worker_table(model)), (run, run.tables.workers)):
        drawn = {row["worker"]: row for row in rows_of(cw.plots.workers(subject))}
        assert len(drawn) == answers.n_workers
        for row in table.to_pylist():
            for key in ("answers", "quality", "quality_low", "quality_high"):
                assert drawn[str(row["worker"])][key] == row[key]
    few, many = (cw.simulate.simulate(300, n_workers=n, seed=1) for n in (NAMED, NAMED + 10))
    assert "worker:N" in str(cw.plots.workers(few).encoding.y.shorthand)
    assert "answers:Q" in str(cw.plots.workers(many).encoding.x.shorthand)


def test_a_learner_has_charts_of_its_labels_and_workers(dasc):
    assert sum(row["n"] for row in rows_of(cw.plots.confidence(dasc))) == dasc.answers_.n_tasks
    rows = rows_of(cw.plots.workers(dasc))
    assert len(rows) == dasc.answers_.n_workers
    assert all(row["quality_low"] <= row["quality"] <= row["quality_high"] for row in rows)


def test_confusion_counts_the_answers_of_a_worker(answers, model, run):
    mine = answers.worker == 5
    by_truth = {(row["truth"], row["said"]): row for row in rows_of(cw.plots.confusion(answers, worker=5))}
    for c in range(3):
        of_class = mine & (answers.truth[answers.task] == c)
        for label in range(3):
            row, n = by_truth[str(c), str(label)], (of_class & (answers.label == label)).sum()
            assert row["n"] == n and row["share"] == pytest.approx(n / max(of_class.sum(), 1))
            assert row["right"] == ("right" if c == label else "wrong")
    for subject in (model, run):
        assert sum(row["n"] for row in rows_of(cw.plots.confusion(subject, worker=5))) == pytest.approx(mine.sum())
    counts = run.confusion_counts(np.array([5]))[0]
    drawn = [row["n"] for row in rows_of(cw.plots.confusion(run, worker=5))]
    assert drawn == pytest.approx(counts.ravel())
    assert sum(row["n"] for row in rows_of(cw.plots.confusion(model))) == pytest.approx(answers.n_answers)
    with pytest.raises(UnknownIdError, match="no worker 'nobody'"):
        cw.plots.confusion(model, worker="nobody")


def test_a_group_of_workers_stands_out(copied):
    found = cw.trust.dependence(copied)
    rows = rows_of(cw.plots.shared_mistakes(copied))
    assert [row["rho"] for row in rows] == [*(f.rho for f in found.families[:GROUPS]), found.background_rho]
    pairs = {(row["worker"], row["other"]): row for row in rows_of(cw.plots.dependence(found))}
    for pair in found.pair_table().to_pylist():
        one, other = str(pair["worker"]), str(pair["other"])
        assert pairs[one, other]["excess"] == pairs[other, one]["excess"] == pair["excess"]
    assert {pair for pair, row in pairs.items() if row["kind"] == "group"} >= {("0", "12"), ("24", "0")}


def test_methods_have_their_leads_over_the_vote(answers, run):
    choice = cw.choose.choose(answers, candidates=["one-coin", "wawa"], folds=2)
    drawn = {row["name"]: row for row in rows_of(cw.plots.methods(choice), "lead")}
    for entry in choice.entries:
        row = drawn[entry.candidate]
        assert row["lead"] == entry.to_vote and row["high"] - row["lead"] == pytest.approx(entry.to_vote_error)
    assert {row["name"] for row in rows_of(cw.plots.methods(run), "lead")} == {
        each["name"] for each in run.metrics["methods"] if each["to_vote"] is not None
    }
    with pytest.raises(ParameterError, match="the result of choose or bench"):
        cw.plots.methods(answers)


def test_a_budget_curve_has_the_figures_of_the_run(run):
    rows = rows_of(cw.plots.budget(run))
    measured = [(row["answers"], row["right"]) for row in rows if row["of"] == "measured"]
    assert measured == [(each["answers"], each["accuracy"]) for each in run.metrics["curve"]]
    have = run.metrics["summary"]["n_answers"]
    ahead = [row for row in rows_of(cw.plots.forecast(run)) if row["of"] == "forecast"]
    assert [(row["answers"] - have, row["right"]) for row in ahead] == [
        (each["bought"], each["expected"]) for each in run.metrics["forecast"]
    ]


def test_a_replay_has_the_means_and_their_errors():
    answers = cw.simulate.simulate(60, n_workers=6, n_classes=2, answers_per_task=3, seed=0)
    table = replay(answers, step=0.25, seeds=[0, 1, 2])
    drawn, mean = rows_of(cw.plots.budget(table)), mean_curve(table).to_pylist()
    assert [row["accuracy"] for row in drawn] == [row["accuracy"] for row in mean]
    assert [row["high"] - row["low"] for row in drawn] == pytest.approx([2 * row["error"] for row in mean])
    one = table.filter([seed == 0 for seed in table.column("seed").to_pylist()])
    assert all(row["low"] == row["accuracy"] == row["high"] for row in rows_of(cw.plots.budget(one)))


def test_margins_are_those_of_the_answers_to_a_task(waum):
    hardest = int(np.argmin(waum.scores_))
    chart = cw.plots.margins(waum)
    span = slice(*waum.answers_.task_starts[hardest : hardest + 2])
    assert sorted(row["margin"] for row in rows_of(chart, "margin")) == sorted(waum.aum_[span].tolist())
    assert rows_of(chart, "at") == [{"at": waum.scores_[hardest]}]
    assert (
        len(rows_of(cw.plots.margins(waum, waum.answers_.tasks[0]), "margin")) == np.diff(waum.answers_.task_starts)[0]
    )
    with pytest.raises(UnknownIdError, match="no task"):
        cw.plots.margins(waum, "img_1")


def test_self_training_has_the_imbalance_of_each_iteration(dasc):
    rows = rows_of(cw.plots.self_training(dasc))
    assert [row["R"] for row in rows] == [record["imbalance"] for record in dasc.history_]
    assert [row["added"] for row in rows] == [sum(record["chosen"]) for record in dasc.history_]


@pytest.mark.parametrize("name", cw.plots.__all__)
def test_what_cannot_be_drawn_is_refused_with_the_remedy(name, waum):
    draw = getattr(cw.plots, name)
    with pytest.raises(ParameterError, match=r"pass|only runs"):
        draw("answers.csv")


def test_an_object_without_answers_is_refused_with_the_remedy(answers):
    class Own:
        def fit(self, answers):
            self.proba_ = np.ones((answers.n_tasks, answers.n_classes)) / answers.n_classes

    own = Own()
    own.fit(answers)
    with pytest.raises(ParameterError, match="Own does not keep its answers: pass a run"):
        cw.plots.workers(own)


def test_charts_can_be_combined_and_saved_as_a_picture(model, run, tmp_path):
    both = cw.plots.workers(model) | cw.plots.confidence(run)
    assert isinstance(both, altair.HConcatChart)
    both.save(tmp_path / "both.png")
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")


def test_class_names_cannot_change_a_colour(answers):
    """The report replaces colours in a specification, but not in data."""
    from crowdwise.plots.drawing import ACCENT
    from crowdwise.report.charts import spec

    named = cw.Answers.from_arrays([1, 1, 2], ["a", "b", "a"], [ACCENT, "x", "x"])
    drawn = spec(cw.plots.balance(named))
    assert ACCENT in {row["class"] for rows in drawn["datasets"].values() for row in rows}
    assert "var(--muted)" in str(drawn["encoding"]["color"])


def test_missing_altair_is_reported(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    for name in [name for name in sys.modules if name.startswith("crowdwise.plots.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(cw.plots), "workers", raising=False)
    with pytest.raises(MissingDependencyError, match=r"charts need altair: pip install .*plots"):
        _ = cw.plots.workers
