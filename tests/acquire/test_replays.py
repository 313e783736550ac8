import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import crowdwise as cw
from crowdwise.acquire import STRATEGIES, mean_curve, replay
from crowdwise.errors import GoldError, ParameterError


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(50, n_workers=9, n_classes=3, answers_per_task=4, seed=6)


def of(table, **fixed):
    for name, value in fixed.items():
        table = table.filter(pc.equal(table[name], value))
    return table


def accuracy(model, truth):
    return (model.codes_ == truth).mean()


def test_curves_start_and_end_with_the_right_answers(crowd):
    """All strategies start with the same single answers, and end with all answers."""
    table = replay(crowd, STRATEGIES, step=40, seeds=[0, 3])
    for seed in (0, 3):
        first = crowd.thin(0.999, seed=seed)
        assert first.n_answers == 50
        start = accuracy(cw.DawidSkene(random_state=seed).fit(first), crowd.truth)
        end = accuracy(cw.DawidSkene(random_state=seed).fit(crowd), crowd.truth)
        for strategy in STRATEGIES:
            part = of(table, strategy=strategy, seed=seed)
            assert part["answers"].to_pylist() == [50, 90, 130, 170, 200]
            assert part["bought"].to_pylist() == [0, 40, 80, 120, 150]
            assert (part["accuracy"][0].as_py(), part["accuracy"][-1].as_py()) == (start, end)


def test_start_step_and_budget(crowd):
    table = replay(crowd, ["random"], start=0.5, step=0.1, budget=30, seeds=[0])
    assert table["answers"].to_pylist() == [100, 120, 130]
    drawn = []
    replay(crowd, ["random"], start=20, step=30, budget=1, seeds=[1], score=lambda m: drawn.append(m.answers_) or 0.0)
    assert [known.n_answers for known in drawn] == [20, 21]
    pairs = [set(zip(a.task.tolist(), a.worker.tolist(), a.label.tolist(), strict=True)) for a in (*drawn, crowd)]
    assert pairs[0] < pairs[1] < pairs[2]  # hidden answers are bought


def test_models_learners_and_scores(crowd):
    by_name = replay(crowd, ["margin"], model="one-coin", step=0.5, seeds=[0])
    assert by_name.equals(replay(crowd, ["margin"], model=cw.OneCoin(), step=0.5, seeds=[0]))
    X, answers = cw.simulate.digits_crowd()
    X, answers = X[:60], answers[np.arange(60)]
    seen = []
    table = replay(answers, ["information"], model=cw.Raykar(max_iter=2, tol=0.0), X=X, step=0.5, budget=50, seeds=[0],
                   score=lambda m: m.score(X, answers.classes[answers.truth]), callback=seen.append)  # fmt: skip
    assert table.to_pylist() == seen
    assert 0 < table["accuracy"][0].as_py() <= 1


def test_one_strategy_by_its_name_and_seeds_of_any_kind(crowd):
    listed = replay(crowd, ["random"], step=0.5, seeds=[0, 1])
    assert replay(crowd, "random", step=0.5, seeds=(seed for seed in range(2))).equals(listed)


def test_truth_is_used_only_for_scoring(crowd):
    truth = dict(zip(crowd.tasks.tolist(), crowd.classes[crowd.truth].tolist(), strict=True))
    blind = crowd.with_truth(None)
    table = replay(blind, truth=truth, step=60, seeds=[0])
    assert table.equals(replay(crowd, step=60, seeds=[0]))
    bought = {}
    for name, codes in (("right", crowd.truth), ("wrong", (crowd.truth + 1) % 3)):
        known = bought.setdefault(name, [])
        replay(crowd.with_truth(codes), ["information"], step=60, seeds=[0],
               score=lambda m, known=known: known.append(m.answers_.with_truth(None)) or 0.0)  # fmt: skip
    assert bought["right"] == bought["wrong"]


def oracle_of(truth, confusion, seed):
    """A crowd with deterministic answers."""
    drawn = np.random.default_rng(seed).random((len(truth), len(confusion)))
    return lambda task, worker: (drawn[task, worker, None] > confusion[worker, truth[task]].cumsum(axis=1)[:, :-1]).sum(
        1
    )


def test_information_beats_random_on_simulated_crowds():
    """At equal budget, over crowds: the mean difference is many standard errors above zero."""
    gained, halfway = [], []
    for seed in range(12):
        truth = cw.simulate.draw_truth(100, 3, seed=seed)
        confusion = cw.simulate.crowd(15, 3, "mixed", seed=seed + 100)
        answers = cw.simulate.answer(truth, confusion, 2, seed=seed + 200)
        table = replay(answers, ["random", "uncertainty", "information"], oracle=oracle_of(truth, confusion, seed),
                       step=50, budget=150, seeds=[seed], per_worker=15)  # fmt: skip
        last = {row["strategy"]: row["accuracy"] for row in of(table, bought=150).to_pylist()}
        gained.append(last["information"] - last["random"])
        halfway.append(last["information"] - last["uncertainty"])
    for difference in (gained, halfway):
        assert np.mean(difference) > 3 * np.std(difference, ddof=1) / np.sqrt(len(difference))
    assert np.mean(gained) > 0.04


def test_mean_curve_has_mean_deviation_and_error():
    table = pa.table({"strategy": ["a"] * 4, "seed": [0, 0, 1, 1], "answers": [5, 9, 5, 9], "bought": [0, 4, 0, 4],
                      "accuracy": [0.5, 0.6, 0.7, 1.0]})  # fmt: skip
    rows = mean_curve(table).to_pylist()
    assert [row["bought"] for row in rows] == [0, 4]
    assert rows[1] == pytest.approx({"strategy": "a", "bought": 4, "answers": 9, "accuracy": 0.8, "seeds": 2,
                                     "deviation": np.std([0.6, 1.0], ddof=1), "error": 0.2})  # fmt: skip


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"step": 0}, "step=0"),
        ({"budget": 1.5}, "budget=1.5"),
        ({"start": -1}, "start=-1"),
        ({"oracle": lambda t, w: t}, "Give the number to buy"),
        ({"strategies": ["best"]}, r"strategies=\['best'\]: use one or more of information"),
        ({"strategies": "best"}, "one or more of information"),
        ({"strategies": []}, "one or more of information"),
        ({"seeds": [0, -1]}, "seeds="),
        ({"seeds": [0.5]}, "seeds="),
        ({"seeds": 0}, "seeds=0: use a list"),
        ({"seeds": []}, "seeds="),
        ({"model": "crowdlayer"}, "CrowdLayer learns from features: give X"),
        ({"X": np.zeros((50, 2))}, "DawidSkene learns from answers alone. Do not pass X"),
        ({"model": 3}, "model=3"),
        ({"model": cw.DawidSkene}, "a truth model, a learner"),
    ],
)
def test_invalid_arguments_are_named(crowd, options, match):
    with pytest.raises(ParameterError, match=match):
        replay(crowd, **{"seeds": [0], **options})
    with pytest.raises(GoldError, match="give truth="):
        replay(crowd.with_truth(None), seeds=[0])
