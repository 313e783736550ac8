"""The table of workers: honest intervals, who spams, worst confusions, counted by hand."""

import numpy as np
import pytest

from crowdwise import Answers, DawidSkene, MajorityVote
from crowdwise.errors import ParameterError
from crowdwise.run.tables.workers import judge
from crowdwise.simulate import answer, crowd, draw_truth, simulate
from crowdwise.truth import peer_quality, tables
from crowdwise.truth.tables import wilson, worker_table


def judged(answers, model=None, **options):
    model = (MajorityVote() if model is None else model).fit(answers.with_truth(None))
    return judge(answers, model.proba_, model.codes_, **options)


def column(table, name):
    return table.column(name).to_numpy()


@pytest.fixture(scope="module")
def crowds():
    """Crowds with known matrices: (answers, true accuracy of each worker) by answers a task."""
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
    held = [(low <= true) & (true <= high) for answers, true in made for low, high in [interval(answers)]]
    return np.concatenate(held).mean()


def by_peers(answers):
    table = judged(answers)
    return column(table, "quality_low"), column(table, "quality_high")


def by_table(answers):
    table = worker_table(MajorityVote().fit(answers.with_truth(None)))
    return column(table, "quality_low"), column(table, "quality_high")


@pytest.mark.parametrize("per_task", [1.5, 2.5, 5.0])
def test_interval_holds_the_true_accuracy_as_often_as_it_says(crowds, per_task):
    """Even about a vote, whose shares are held true by the worker's own answers."""
    assert 0.92 <= coverage(crowds[per_task], by_peers) <= 0.99
    assert 0.92 <= coverage(crowds[per_task], by_table) <= 0.99


def test_quality_is_close_and_does_not_flatter(crowds):
    for per_task, error in ((1.5, 0.16), (2.5, 0.1), (5.0, 0.06)):
        difference = np.concatenate([column(judged(answers), "quality") - true for answers, true in crowds[per_task]])
        assert abs(difference.mean()) < 0.02
        assert np.abs(difference).mean() < error


def test_nothing_is_known_of_those_whom_nobody_checks(crowds):
    """One answer a task: everybody is average, and may be anything; the model's belief alone says they are perfect."""
    answers, _ = crowds[1.0][0]
    table = judged(answers)
    assert np.ptp(column(table, "quality")) < 0.02
    assert column(table, "quality_low").max() < 0.01
    assert column(table, "quality_high").min() > 0.99
    assert not table.column("spammer").to_numpy().any()


def test_quality_does_not_contradict_the_labels():
    """A busy worker overlooks the rare class, as in the product set: by others alone he is right 98 times in 100."""
    confusion = np.array([[[0.99, 0.01], [0.9, 0.1]]] + [[[0.9, 0.1], [0.1, 0.9]]] * 20)
    truth, activity = draw_truth(3000, 2, [0.88, 0.12], seed=0), np.array([10.0] + [1.0] * 20)
    answers = answer(truth, confusion, 3, activity=activity, seed=0)
    table = judged(answers, DawidSkene())
    right = np.mean((answers.label == answers.truth[answers.task])[answers.worker == 0])
    row = table.to_pylist()[0]
    assert row["quality_low"] < right < row["quality"] + 0.02 < right + 0.05
    agreement, n = column(table, "agreement_with_consensus"), column(table, "answers")
    low, high = wilson(agreement * n, n)
    assert (column(table, "quality") <= high).all()
    assert (column(table, "quality_low") <= low).all()
    assert (column(table, "quality_high") >= high).all()


def test_a_belief_by_peers_is_bayes_of_the_others():
    """Oracle: for each answer, Bayes written out over the other answers to its task."""
    answers = simulate(30, n_workers=6, n_classes=3, answers_per_task=3, seed=4)
    rng = np.random.default_rng(0)
    quality, base = rng.uniform(0.3, 0.9, 6), rng.dirichlet(np.ones(3))
    wrong = peer_quality.error_distribution(rng.dirichlet(np.ones(3), 3))
    pairs = answers.pairs
    right, amiss, counts, _ = peer_quality.judge_by_peers(answers, quality, base, wrong)
    said = quality[:, None, None] * np.eye(3) + (1 - quality)[:, None, None] * wrong  # (workers, classes, labels)
    total = np.zeros_like(counts)
    for a in range(answers.n_answers):
        belief = base.copy()
        for b in np.flatnonzero(answers.task == answers.task[a]):
            if b != a:
                belief *= said[answers.worker[b], :, answers.label[b]]
        belief /= belief.sum()
        assert right[a] == pytest.approx(belief[answers.label[a]])
        assert amiss[a] == pytest.approx(belief @ wrong[:, answers.label[a]])
        total[pairs.of_answer[a]] += belief
    np.testing.assert_allclose(counts, total, atol=1e-12)


def test_mixture_is_the_most_likely_share():
    """Against a search over shares; what is known is the curvature there, in answers to tasks of known truth."""
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
    """Matrices of a crowd in which all kinds occur, and the kind of each worker."""
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
    """Of 44 workers with about 85 or 170 answers each; a worker who says something else than he knows is no spammer."""
    flagged, kinds, busy = [], [], []
    for seed in range(4):
        confusion, kind = of_kinds(n_classes, seed)
        per_task = 2.5 if seed % 2 else 5
        answers = answer(draw_truth(1500, n_classes, seed=seed), confusion, per_task, seed=seed)
        flagged.append(column(judged(answers, DawidSkene()), "spammer"))
        kinds.append(kind)
        busy.append(np.full(len(kind), per_task == 5))
    flagged, kinds, busy = map(np.concatenate, (flagged, kinds, busy))
    spams = np.isin(kinds, ["spammer", "uniform-guess", "one-label"])
    assert flagged[~spams].mean() < 0.02
    assert flagged[spams & busy].mean() > 0.85
    assert flagged[spams].mean() > 0.65
    assert flagged[kinds == "one-label"].all()


def test_an_adversary_is_told_from_a_spammer_by_the_figures():
    confusion, kind = of_kinds(3, 1)
    answers = answer(draw_truth(1500, 3, seed=1), confusion, 5, seed=1)
    table = judged(answers, DawidSkene())
    high, bits = column(table, "quality_high"), column(table, "informativeness")
    assert high[kind == "adversary"].max() < 0.35
    assert bits[kind == "adversary"].min() > 2 * bits[np.isin(kind, ["spammer", "one-label"])].max()


def test_always_the_common_class_is_no_merit():
    """Nine of ten are "no": who always says so is right in nine of ten, and a spammer."""
    truth = draw_truth(3000, 2, 9, seed=0)
    common = np.bincount(truth).argmax()
    confusion = crowd(12, 2, "one-coin", accuracy=(0.85, 0.95), seed=0)
    confusion[0] = np.eye(2)[common]
    answers = answer(truth, confusion, 4, seed=0)
    table = judged(answers, DawidSkene())
    assert column(table, "quality")[0] > 0.85
    assert np.flatnonzero(column(table, "spammer")).tolist() == [0]


def test_columns_counted_by_hand():
    answers = simulate(200, n_workers=8, n_classes=4, answers_per_task=3, seed=2, classes=["a", "b", "c", "d"])
    model = DawidSkene().fit(answers)
    seconds = np.random.default_rng(0).exponential(size=answers.n_answers)
    seconds[::5] = np.nan
    table = judge(answers, model.proba_, model.codes_, seconds=seconds)
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


def test_informativeness_is_near_that_of_the_models_matrices():
    answers = simulate(400, n_workers=8, answers_per_task=4, seed=2)
    model = DawidSkene().fit(answers)
    counted = column(judge(answers, model.proba_, model.codes_), "informativeness")
    np.testing.assert_allclose(counted, column(worker_table(model), "informativeness"), atol=0.15)


def test_gaps_are_empty_not_invented():
    answers = Answers.from_arrays([1, 2], ["a", "b"], ["x", "x"], tasks=[1, 2, 3], workers=["a", "b", "c"])
    row = judged(answers, seconds=[np.nan, 4.0]).to_pylist()
    empty = ("quality", "agreement_with_consensus", "informativeness", "worst_class", "worst_confusion", "seconds")
    assert [row[2][name] for name in empty] == [None] * 6
    assert (row[2]["answers"], row[2]["quality_low"], row[2]["quality_high"], row[2]["spammer"]) == (0, 0, 1, False)
    assert [row[0]["worst_confusion"], row[0]["seconds"], row[1]["seconds"]] == [None, None, 4.0]
    assert judged(answers).column("seconds").null_count == 3


def test_one_class_tells_nothing():
    table = judged(Answers.from_arrays([1, 1, 2, 2], list("abab"), ["x"] * 4))
    assert column(table, "informativeness").tolist() == [0, 0]
    assert not column(table, "spammer").any()


def test_row_order_and_ids_do_not_matter():
    answers = simulate(150, n_workers=7, n_classes=3, answers_per_task=3, seed=6)
    table = judged(answers, DawidSkene())
    renamed = Answers.from_arrays(
        answers.task[::-1], [f"w{w}" for w in answers.worker[::-1]], answers.label[::-1], classes=[0, 1, 2]
    )
    again = judged(renamed, DawidSkene())
    for name in ("quality", "quality_low", "informativeness", "worst_confusion_share"):
        np.testing.assert_allclose(column(again, name), column(table, name), atol=1e-6)


def test_arrays_that_do_not_fit_are_refused():
    answers = simulate(20, n_workers=4, n_classes=3, seed=0)
    model = MajorityVote().fit(answers)
    good = {"proba": model.proba_, "codes": model.codes_, "seconds": np.ones(answers.n_answers)}
    for name in good:
        with pytest.raises(ParameterError, match=f"{name} has shape"):
            judge(answers, **good | {name: np.ones(7)})


def test_matrices_too_large_are_not_built(monkeypatch):
    """Nothing but the bits needs them."""
    answers = simulate(60, n_workers=5, answers_per_task=3, seed=0)
    whole = judged(answers)
    monkeypatch.setattr(tables, "MAX_CONFUSION_CELLS", 10)
    table = judged(answers)
    assert table.column("informativeness").null_count == 5
    assert table.drop(["informativeness"]).equals(whole.drop(["informativeness"]))


def test_cost_grows_with_answers_alone():
    """20,000 workers and 100 classes: dense matrices would need 1.6 GB."""
    rng = np.random.default_rng(0)
    task, worker = np.repeat(np.arange(20_000), 2), np.arange(40_000) % 20_000
    label = np.where(rng.random(40_000) < 0.8, task % 100, rng.integers(100, size=40_000))
    answers = Answers.from_codes(task, worker, label, tasks=20_000, workers=20_000, classes=100)
    table = judged(answers)
    assert table.column("informativeness").null_count == 20_000
    assert ((column(table, "quality_low") < 0.8) & (column(table, "quality_high") > 0.8)).mean() > 0.95
