"""The table of workers: coverage of intervals, spammers, and worst confusions counted by hand."""

import numpy as np
import pytest

from crowdwise import Answers, DawidSkene, MajorityVote
from crowdwise.errors import ParameterError
from crowdwise.run.tables.workers import rate_workers
from crowdwise.simulate import answer, crowd, draw_truth, simulate
from crowdwise.trust import calibrated
from crowdwise.truth import peer_quality, tables
from crowdwise.truth.tables import wilson, worker_table


def rate(answers, model=None, **options):
    model = (MajorityVote() if model is None else model).fit(answers.with_truth(None))
    return rate_workers(answers, model.proba_, model.codes_, **options)


def column(table, name):
    return table.column(name).to_numpy()


@pytest.fixture(scope="module")
def crowds():
    """Crowds with known confusion matrices: answers and true accuracy of each worker, by answers per task."""
    out = {}
    for per_task in (1.0, 1.5, 2.5, 5.0):
        made = []
        for seed in range(8):
            confusion = crowd(40, 4, "mixed", seed=seed)
            answers = answer(draw_truth(1000, 4, seed=seed), confusion, per_task, seed=seed)
            share = np.bincount(answers.truth, minlength=4) / answers.n_tasks
            made.append((answers, np.einsum("c,wcc->w", share, confusion)))
        out[per_task] = made
    return out


def coverage(made, interval):
    covered = [(low <= true) & (true <= high) for answers, true in made for low, high in [interval(answers)]]
    return np.concatenate(covered).mean()


def by_peers(answers):
    table = rate(answers)
    return column(table, "quality_low"), column(table, "quality_high")


def by_table(answers):
    table = worker_table(MajorityVote().fit(answers.with_truth(None)))
    return column(table, "quality_low"), column(table, "quality_high")


@pytest.mark.parametrize("per_task", [1.5, 2.5, 5.0])
def test_95_percent_intervals_cover_the_true_accuracy(crowds, per_task):
    """Even with majority vote, whose shares depend on the worker's own answers."""
    assert 0.92 <= coverage(crowds[per_task], by_peers) <= 0.99
    assert 0.92 <= coverage(crowds[per_task], by_table) <= 0.99


def test_quality_is_accurate_and_unbiased(crowds):
    for per_task, error in ((1.5, 0.16), (2.5, 0.1), (5.0, 0.06)):
        difference = np.concatenate([column(rate(answers), "quality") - true for answers, true in crowds[per_task]])
        assert abs(difference.mean()) < 0.02
        assert np.abs(difference).mean() < error


def test_without_shared_tasks_the_interval_is_0_to_1(crowds):
    """One answer per task; the labels alone would call every worker perfect."""
    answers, _ = crowds[1.0][0]
    table = rate(answers)
    assert np.ptp(column(table, "quality")) < 0.02
    assert column(table, "quality_low").max() < 0.01
    assert column(table, "quality_high").min() > 0.99
    assert not table.column("spammer").to_numpy().any()


def test_quality_does_not_exceed_agreement_with_the_labels():
    """A busy worker overlooks the rare class, as in the product data: by peers alone their quality is 98%."""
    confusion = np.array([[[0.99, 0.01], [0.9, 0.1]]] + [[[0.9, 0.1], [0.1, 0.9]]] * 20)
    truth, activity = draw_truth(3000, 2, [0.88, 0.12], seed=0), np.array([10.0] + [1.0] * 20)
    answers = answer(truth, confusion, 3, activity=activity, seed=0)
    table = rate(answers, DawidSkene())
    right = np.mean((answers.label == answers.truth[answers.task])[answers.worker == 0])
    row = table.to_pylist()[0]
    assert row["quality_low"] < right < row["quality"] + 0.02 < right + 0.05
    agreement, n = column(table, "agreement_with_consensus"), column(table, "answers")
    low, high = wilson(agreement * n, n)
    assert (column(table, "quality") <= high).all()
    assert (column(table, "quality_low") <= low).all()
    assert (column(table, "quality_high") >= high).all()


def test_beliefs_by_peers_follow_bayes_rule():
    """Oracle: for each answer, Bayes' rule over the other answers to its task, written out."""
    answers = simulate(30, n_workers=6, n_classes=3, answers_per_task=3, seed=4)
    proba = np.random.default_rng(0).dirichlet(np.ones(3), 30)
    pairs = answers.pairs
    count = np.zeros((6, 3, 3))  # (workers, classes, labels)
    np.add.at(count, (answers.worker, slice(None), answers.label), proba[answers.task])
    average = (count.sum(axis=0) + 1 / 3) / (count.sum(axis=(0, 2))[:, None] + 1)
    said = (count + 2 * average) / (count.sum(axis=2, keepdims=True) + 2)
    wrong, base = peer_quality.error_distribution(average), peer_quality.base_rates(answers, proba)
    by_pair = peer_quality.pair_confusion(answers, peer_quality.pair_counts(answers, proba), average)
    right, by_error, counts, _ = peer_quality.judge_by_peers(answers, by_pair, base, wrong)
    total = np.zeros_like(counts)
    for a in range(answers.n_answers):
        belief = base.copy()
        for b in np.flatnonzero(answers.task == answers.task[a]):
            if b != a:
                belief *= said[answers.worker[b], :, answers.label[b]]
        belief /= belief.sum()
        assert right[a] == pytest.approx(belief[answers.label[a]])
        assert by_error[a] == pytest.approx(belief @ wrong[:, answers.label[a]])
        total[pairs.of_answer[a]] += belief
    np.testing.assert_allclose(counts, total, atol=1e-12)


def test_mixture_is_the_most_likely_share():
    """Compared with a grid search; `known` is the curvature there, as a number of answers."""
    rng = np.random.default_rng(1)
    good, bad = rng.random(300), rng.random(300)
    share, known = peer_quality.mixture(
        good, bad, np.zeros(300, int), np.array([0.5]), mean=0.4, weight=2.0, steps=2000
    )
    grid = np.linspace(0.001, 0.999, 9981)

    def loss(s):
        prior = 2 * (0.4 * np.log(s) + 0.6 * np.log1p(-s))
        return -np.log(np.outer(s, good) + np.outer(1 - s, bad)).sum(axis=1) - prior

    assert share[0] == pytest.approx(grid[loss(grid).argmin()], abs=0.005)
    curvature = (((good - bad) / (share * good + (1 - share) * bad)) ** 2).sum()
    assert known[0] == pytest.approx(curvature * share[0] * (1 - share[0]), rel=0.1)


KINDS = {
    "class-dependent": 24,
    "one-coin": 6,
    "spammer": 3,
    "uniform-guess": 3,
    "one-label": 2,
    "adversary": 4,
    "swap": 2,
}


def of_kinds(n_classes, seed):
    """Confusion matrices of a crowd with all kinds of workers, and the kind of each."""
    rng = np.random.default_rng(seed)
    kinds = np.repeat(list(KINDS), list(KINDS.values()))
    always = np.zeros((2, n_classes, n_classes))
    always[0, :, 0] = always[1, :, 1] = 1
    swap = (np.eye(n_classes) * 0.8 + 0.2 / n_classes)[[0, 2, 1, *range(3, n_classes)]]
    made = {"one-label": always, "swap": np.array([swap, swap])}
    parts = [
        made[kind] if kind in made else crowd(n, n_classes, kind, accuracy=(0.6, 0.95), seed=rng)
        for kind, n in KINDS.items()
    ]
    return np.concatenate(parts), kinds


@pytest.mark.parametrize("n_classes", [3, 4, 8])
def test_spammers_are_found_and_others_are_not(n_classes):
    """44 workers with about 85 or 170 answers each; adversaries and swapped labels are not spam."""
    flagged, kinds, busy = [], [], []
    for seed in range(4):
        confusion, kind = of_kinds(n_classes, seed)
        per_task = 2.5 if seed % 2 else 5
        answers = answer(draw_truth(1500, n_classes, seed=seed), confusion, per_task, seed=seed)
        flagged.append(column(rate(answers, DawidSkene()), "spammer"))
        kinds.append(kind)
        busy.append(np.full(len(kind), per_task == 5))
    flagged, kinds, busy = map(np.concatenate, (flagged, kinds, busy))
    spams = np.isin(kinds, ["spammer", "uniform-guess", "one-label"])
    assert flagged[~spams].mean() < 0.02
    assert flagged[spams & busy].mean() > 0.85
    assert flagged[spams].mean() > 0.65
    assert flagged[kinds == "one-label"].all()


def test_adversaries_have_low_quality_and_high_informativeness():
    confusion, kind = of_kinds(3, 1)
    answers = answer(draw_truth(1500, 3, seed=1), confusion, 5, seed=1)
    table = rate(answers, DawidSkene())
    high, bits = column(table, "quality_high"), column(table, "informativeness")
    assert high[kind == "adversary"].max() < 0.35
    assert bits[kind == "adversary"].min() > 2 * bits[np.isin(kind, ["spammer", "one-label"])].max()


def test_always_answering_the_common_class_is_spam():
    """Nine tasks of ten are "no": such a worker is right in nine of ten."""
    truth = draw_truth(3000, 2, 9, seed=0)
    common = np.bincount(truth).argmax()
    confusion = crowd(12, 2, "one-coin", accuracy=(0.85, 0.95), seed=0)
    confusion[0] = np.eye(2)[common]
    answers = answer(truth, confusion, 4, seed=0)
    table = rate(answers, DawidSkene())
    assert column(table, "quality")[0] > 0.85
    assert np.flatnonzero(column(table, "spammer")).tolist() == [0]


def test_columns_equal_those_counted_by_hand():
    answers = simulate(200, n_workers=8, n_classes=4, answers_per_task=3, seed=2, classes=["a", "b", "c", "d"])
    model = DawidSkene().fit(answers)
    seconds = np.random.default_rng(0).exponential(size=answers.n_answers)
    seconds[::5] = np.nan
    table = rate_workers(answers, model.proba_, model.codes_, seconds=seconds)
    plain = worker_table(model)
    for name in ("worker", "answers", "agreement_with_consensus", "worst_class"):
        assert table.column(name).equals(plain.column(name))
    counts = np.zeros((8, 4, 4))
    for t, w, label in zip(answers.task, answers.worker, answers.label, strict=True):
        counts[w, :, label] += model.proba_[t]
    total = counts.sum(axis=0) + 0.25
    average = total / total.sum(axis=1, keepdims=True)
    for w, row in enumerate(table.to_pylist()):
        seen = counts[w].sum(axis=1, keepdims=True)
        beyond = np.where((counts[w] >= 1) & ~np.eye(4, dtype=bool), counts[w] - seen * average, -np.inf)
        c, said = np.unravel_index(beyond.argmax(), beyond.shape)
        assert row["worst_confusion"] == f"{answers.classes[c]} -> {answers.classes[said]}"
        assert row["worst_confusion_share"] == pytest.approx(
            (counts[w, c, said] + 2 * average[c, said]) / (seen[c, 0] + 2)
        )
        assert row["seconds"] == pytest.approx(np.nanmedian(seconds[answers.worker == w]))


def test_informativeness_is_near_that_of_the_models_confusion_matrices():
    answers = simulate(400, n_workers=8, answers_per_task=4, seed=2)
    model = DawidSkene().fit(answers)
    counted = column(rate_workers(answers, model.proba_, model.codes_), "informativeness")
    np.testing.assert_allclose(counted, column(worker_table(model), "informativeness"), atol=0.15)


def test_unknown_figures_are_empty():
    answers = Answers.from_arrays([1, 2], ["a", "b"], ["x", "x"], tasks=[1, 2, 3], workers=["a", "b", "c"])
    row = rate(answers, seconds=[np.nan, 4.0]).to_pylist()
    empty = ("quality", "agreement_with_consensus", "informativeness", "worst_class", "worst_confusion", "seconds")
    assert [row[2][name] for name in empty] == [None] * 6
    assert (row[2]["answers"], row[2]["quality_low"], row[2]["quality_high"], row[2]["spammer"]) == (0, 0, 1, False)
    assert [row[0]["worst_confusion"], row[0]["seconds"], row[1]["seconds"]] == [None, None, 4.0]
    assert rate(answers).column("seconds").null_count == 3


def test_a_worker_whose_answers_are_all_labels_confuses_nothing():
    answers = Answers.from_arrays(
        np.repeat(np.arange(50), 4), np.tile(np.arange(4), 50), np.repeat(np.arange(50) % 2, 4)
    )
    unsure = np.where(np.eye(2)[answers.label[answers.task_starts[:-1]]] > 0, 0.9, 0.1)  # 5 wrong answers are expected
    table = rate_workers(answers, unsure, unsure.argmax(axis=1))
    assert table.column("worst_confusion").null_count == table.column("worst_confusion_share").null_count == 4


def test_one_class_gives_no_information():
    table = rate(Answers.from_arrays([1, 1, 2, 2], list("abab"), ["x"] * 4))
    assert column(table, "informativeness").tolist() == [0, 0]
    assert not column(table, "spammer").any()


def test_the_order_of_answers_and_ids_do_not_matter():
    answers = simulate(150, n_workers=7, n_classes=3, answers_per_task=3, seed=6)
    table = rate(answers, DawidSkene())
    renamed = Answers.from_arrays(
        answers.task[::-1], [f"w{w}" for w in answers.worker[::-1]], answers.label[::-1], classes=[0, 1, 2]
    )
    again = rate(renamed, DawidSkene())
    for name in ("quality", "quality_low", "informativeness", "worst_confusion_share"):
        np.testing.assert_allclose(column(again, name), column(table, name), atol=1e-6)


def test_arrays_of_wrong_shape_are_rejected():
    answers = simulate(20, n_workers=4, n_classes=3, seed=0)
    model = MajorityVote().fit(answers)
    good = {"proba": model.proba_, "codes": model.codes_, "seconds": np.ones(answers.n_answers)}
    for name in good:
        with pytest.raises(ParameterError, match=f"{name} has shape"):
            rate_workers(answers, **good | {name: np.ones(7)})


def test_large_confusion_matrices_are_not_built(monkeypatch):
    """Only the informativeness needs them."""
    answers = simulate(60, n_workers=5, answers_per_task=3, seed=0)
    complete = rate(answers)
    monkeypatch.setattr(tables, "MAX_CONFUSION_CELLS", 10)
    table = rate(answers)
    assert table.column("informativeness").null_count == 5
    assert table.drop(["informativeness"]).equals(complete.drop(["informativeness"]))


def test_no_dense_matrices_are_built():
    """20,000 workers and 100 classes: dense matrices would need 1.6 GB."""
    rng = np.random.default_rng(0)
    task, worker = np.repeat(np.arange(20_000), 2), np.arange(40_000) % 20_000
    label = np.where(rng.random(40_000) < 0.8, task % 100, rng.integers(100, size=40_000))
    answers = Answers.from_codes(task, worker, label, tasks=20_000, workers=20_000, classes=100)
    table = rate(answers)
    assert table.column("informativeness").null_count == 20_000
    assert ((column(table, "quality_low") < 0.8) & (column(table, "quality_high") > 0.8)).mean() > 0.95


@pytest.mark.parametrize("per_task", [1.5, 2.5, 5.0])
def test_intervals_of_calibrated_labels_cover_the_true_accuracy(crowds, per_task):
    def interval(answers):
        labels = calibrated(answers.with_truth(None))
        table = rate_workers(answers.with_truth(None), labels.proba, labels.codes, calibrated=True)
        return column(table, "quality_low"), column(table, "quality_high")

    assert coverage(crowds[per_task][:4], interval) >= 0.93


def test_flags_follow_the_calibrated_quality():
    """Half of the workers always say 0: they are flagged, and whoever follows the task is not."""
    rng = np.random.default_rng(5)
    truth, worker = rng.integers(0, 3, 400), np.argsort(rng.random((400, 20)), axis=1)[:, :6]
    right = rng.random(worker.shape) < rng.uniform(0.5, 0.95, 20)[worker]
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, worker.shape)) % 3)
    said = np.where(worker < 10, 0, said)
    answers = Answers.from_arrays(np.repeat(np.arange(400), 6), worker.ravel(), said.ravel())
    labels = calibrated(answers)
    table = rate_workers(answers, labels.proba, labels.codes, calibrated=True)
    assert table.column("flag").to_pylist() == ["always answers 0"] * 10 + [None] * 10
