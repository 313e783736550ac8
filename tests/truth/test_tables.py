"""Label and worker tables, against manual counts and cleanlab's table."""

import numpy as np
import pytest

from crowdwise import Answers, DawidSkene, MajorityVote
from crowdwise.errors import NotFittedError
from crowdwise.simulate import simulate
from crowdwise.truth import tables
from crowdwise.truth.tables import information, label_table, wilson, worker_table


@pytest.fixture(scope="module")
def model():
    answers = simulate(120, n_workers=9, n_classes=4, class_balance=3, seed=5)
    return DawidSkene().fit(answers)


def test_label_table_matches_manual_counts(model):
    answers = model.answers_
    for t, row in enumerate(label_table(model).to_pylist()):
        said = [answers.classes[c] for c in answers.label[answers.task == t]]
        order = np.argsort(-model.proba_[t], kind="stable")
        assert row["task"] == answers.tasks[t]
        assert row["label"] == model.labels_[t] == answers.classes[order[0]]
        assert row["runner_up"] == answers.classes[order[1]]
        assert row["confidence"] == model.proba_[t].max()
        assert row["agreement"] == pytest.approx(said.count(row["label"]) / len(said))
        assert row["answers"] == len(said)


def test_worker_table_matches_manual_counts(model):
    answers = model.answers_
    prior = model.class_prior_
    for w, row in enumerate(worker_table(model).to_pylist()):
        mine = np.flatnonzero(answers.worker == w)
        label = answers.label[mine]
        consensus = model.codes_[answers.task[mine]]
        assert row["worker"] == answers.workers[w]
        assert row["answers"] == len(mine)
        assert row["quality"] == pytest.approx(model.proba_[answers.task[mine], label].mean())
        assert row["quality_low"] < row["quality"] < row["quality_high"]
        assert row["agreement_with_consensus"] == pytest.approx((label == consensus).mean())
        share = {c: (consensus[label == c] == c).mean() for c in set(label.tolist())}
        assert share[answers.classes.tolist().index(row["worst_class"])] == min(share.values()) < 1
        joint = prior[:, None] * model.confusion_[w]
        independent = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
        assert row["informativeness"] == pytest.approx(np.sum(joint * np.log2(joint / independent)))


def test_same_columns_as_cleanlab():
    """Results of cleanlab 2.9.0: get_label_quality_multiannotator, majority vote, quality by agreement.

    Where a worker was never contradicted cleanlab names a worst class all the same; we do not.
    """
    wide = ["2.2.2", ".211.", "..202", "22..2", ".112.", "1.2.2", "..222", ".01.1", ".00.0", "2.0.0", "10.0.", "..222"]
    table = [[-1 if cell == "." else int(cell) for cell in row] for row in wide]
    model = MajorityVote().fit(Answers.from_wide(table, missing=-1))
    workers = worker_table(model).to_pydict()
    assert workers["agreement_with_consensus"] == pytest.approx([0.4, 2 / 3, 1, 2 / 3, 1])
    assert workers["worst_class"] == [1, 2, None, 0, None]
    assert workers["answers"] == [5, 6, 10, 6, 9]
    labels = label_table(model).to_pydict()
    assert labels["label"] == [2, 1, 2, 2, 1, 2, 2, 1, 0, 0, 0, 2]
    assert labels["agreement"] == pytest.approx([1, *[2 / 3] * 2, 1, *[2 / 3] * 2, 1, 2 / 3, 1, *[2 / 3] * 2, 1])


def test_undefined_values_are_empty():
    """A task without answers, a worker without answers, one class, a class without answers."""
    answers = Answers.from_arrays([1, 2], ["a", "b"], ["x", "x"], tasks=[1, 2, 3], workers=["a", "b", "c"])
    labels = label_table(MajorityVote().fit(answers)).to_pylist()
    assert labels[2] == {
        "task": 3, "label": "x", "confidence": 1.0, "runner_up": None, "agreement": None, "answers": 0,
    }  # fmt: skip
    workers = worker_table(MajorityVote().fit(answers)).to_pylist()
    assert workers[2] == {
        "worker": "c", "answers": 0, "quality": None, "quality_low": 0.0, "quality_high": 1.0,
        "agreement_with_consensus": None, "informativeness": None, "worst_class": None,
    }  # fmt: skip
    unanimous = Answers.from_arrays([1, 1], ["a", "b"], ["x", "x"], classes=["x", "y"])
    assert label_table(MajorityVote().fit(unanimous)).column("runner_up").to_pylist() == [None]


def test_two_third_adds_the_decided_column():
    from crowdwise import TwoThird

    answers = Answers.from_arrays([1, 1, 2, 2], ["a", "b", "a", "b"], ["x", "x", "x", "y"])
    assert label_table(TwoThird().fit(answers)).column("decided").to_pylist() == [True, False]


def test_information_limits():
    prior = np.array([0.5, 0.25, 0.25])
    swapped = np.eye(3)[[1, 2, 0]]  # always wrong, and as informative as always right
    useless = np.tile([0.2, 0.3, 0.5], (3, 1))
    np.testing.assert_allclose(information(np.array([np.eye(3), swapped, useless]), prior), [1.5, 1.5, 0], atol=1e-12)


def test_wilson_interval_has_95_percent_coverage():
    """The interval contains the true share about 95 times in 100."""
    rng = np.random.default_rng(0)
    for share in (0.5, 0.9):
        low, high = wilson(rng.binomial(40, share, size=4000).astype(float), np.full(4000, 40))
        assert 0.93 < ((low <= share) & (share <= high)).mean() < 0.97


def test_wilson_of_less_than_one_trial():
    """0.9 of half a trial is a share of 0.9; more trials of that share narrow the interval around it."""
    trials = np.array([0.0, 0.01, 0.5, 0.99, 1.0, 1.01, 2.0])
    low, high = wilson(0.9 * trials, trials)
    assert (low[0], high[0]) == (0, 1)
    assert (np.diff(low) > 0).all()
    assert (np.diff(high - low) < 0).all()
    z2 = 1.96**2  # at the bounds the share is 1.96 standard deviations away
    for bound in (low[2], high[2]):
        assert (0.9 - bound) ** 2 == pytest.approx(z2 * bound * (1 - bound) / 0.5, rel=1e-3)


def test_large_confusion_matrices_are_not_built(model, monkeypatch):
    monkeypatch.setattr(tables, "MAX_CONFUSION_CELLS", 10)
    assert worker_table(model).column("informativeness").null_count == model.answers_.n_workers


def test_an_unfitted_model_raises():
    for table in (label_table, worker_table):
        with pytest.raises(NotFittedError, match="MajorityVote is not fitted"):
            table(MajorityVote())


def test_tables_of_a_large_sparse_crowd_are_built():
    """100,000 tasks by 20,000 workers; a dense array would need 16 GB."""
    answers = simulate(100_000, n_workers=20_000, n_classes=3, answers_per_task=2, workers="one-coin")
    model = MajorityVote().fit(answers)
    assert label_table(model).num_rows == 100_000
    assert worker_table(model).num_rows == 20_000
