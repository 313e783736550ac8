import numpy as np
import pytest

import crowdwise as cw
from crowdwise.acquire import STRATEGIES, available_pairs, propose, selection
from crowdwise.acquire.beliefs import Beliefs
from crowdwise.acquire.information import extend_outcomes, gain
from crowdwise.errors import NotFittedError, ParameterError, SingleClassError


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(60, n_workers=12, n_classes=3, answers_per_task=3, class_balance=3, seed=4)


@pytest.fixture(scope="module")
def model(crowd):
    return cw.DawidSkene().fit(crowd)


def pairs(proposal):
    return list(zip(proposal.table["task"].to_pylist(), proposal.table["worker"].to_pylist(), strict=True))


def answered(answers):
    ids = answers.tasks[answers.task].tolist(), answers.workers[answers.worker].tolist()
    return set(zip(*ids, strict=True))


def all_gains(model, **options):
    """Gain of every pair in bits, NaN where there is an answer."""
    answers = model.answers_
    beliefs = Beliefs(model, answers, **options)
    q = np.repeat(beliefs.belief, answers.n_workers, axis=0)[:, None]
    told = gain(q, np.tile(beliefs.channels, (answers.n_tasks, 1, 1))).reshape(answers.n_tasks, -1) / np.log(2)
    told[answers.task, answers.worker] = np.nan
    return told


def brute_force(model, budget, per_task, per_worker):
    """Greedy choice among all pairs, each gain computed from all answers chosen before."""
    answers, chosen = model.answers_, []
    beliefs, done = Beliefs(model, answers), answered(answers)
    q = {t: beliefs.belief[[t]][:, None] for t in range(answers.n_tasks)}
    for _ in range(budget):
        best, most = None, -1.0
        for t in range(answers.n_tasks):
            for w in range(answers.n_workers):
                tasks, workers = [a for a, _ in chosen], [b for _, b in chosen]
                free = (t, w) not in done and (t, w) not in chosen
                if free and tasks.count(t) < per_task and workers.count(w) < per_worker:
                    told = gain(q[t], beliefs.channels[[w]])[0]
                    if told > most + 1e-12:
                        best, most = (t, w), told
        if best is None:
            break
        chosen.append(best)
        q[best[0]] = extend_outcomes(q[best[0]], beliefs.channels[[best[1]]])
    return chosen


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("caps", [{}, {"per_task": 2}, {"per_worker": 3}, {"per_task": 3, "per_worker": 4}])
def test_pairs_are_new_distinct_and_within_limits(model, crowd, strategy, caps):
    proposal = propose(model, 25, strategy=strategy, **caps)
    found = pairs(proposal)
    assert len(found) == len(set(found)) == 25
    assert not set(found) & answered(crowd)
    tasks, workers = zip(*found, strict=True)
    assert max(map(tasks.count, tasks)) <= caps.get("per_task", 1)
    assert max(map(workers.count, workers)) <= caps.get("per_worker", 25)
    scores = proposal.table["score"].to_numpy()
    assert (np.diff(scores) <= 1e-12).all()
    assert proposal.whole


def test_each_task_gets_its_best_pair(model):
    told = all_gains(model)
    best = np.nanmax(told, axis=1)
    proposal = propose(model, 20)
    np.testing.assert_allclose(proposal.table["gain"].to_numpy(), np.sort(best)[::-1][:20])
    for (t, w), bits in zip(pairs(proposal), proposal.table["gain"].to_pylist(), strict=True):
        assert bits == pytest.approx(told[t, w]) == best[t]
    assert proposal.gain == pytest.approx(np.sort(best)[::-1][:20].sum())


@pytest.mark.parametrize(("per_task", "per_worker"), [(1, 2), (2, 99), (3, 99), (2, 2), (1, 99)])
def test_greedy_choice_equals_brute_force(per_task, per_worker):
    answers = cw.simulate.simulate(7, n_workers=6, n_classes=3, answers_per_task=3, seed=8)
    model = cw.DawidSkene().fit(answers)
    proposal = propose(model, 8, per_task=per_task, per_worker=per_worker)
    assert pairs(proposal) == brute_force(model, 8, per_task, per_worker)
    assert proposal.whole


def test_results_do_not_depend_on_blocks_and_slices(model, monkeypatch):
    plain = [propose(model, 30, **caps) for caps in ({}, {"per_task": 2}, {"per_worker": 4})]
    monkeypatch.setattr(available_pairs, "PAIRS", 7)
    monkeypatch.setattr(selection, "FEW", 2)
    again = [propose(model, 30, **caps) for caps in ({}, {"per_task": 2}, {"per_worker": 4})]
    assert [pairs(p) for p in again] == [pairs(p) for p in plain]
    monkeypatch.setattr(selection, "MAX_CELLS", 60)  # five tasks at a time
    sliced = propose(model, 30, per_worker=4)
    assert len(set(pairs(sliced))) == 30
    assert not sliced.whole
    assert sliced.gain <= plain[2].gain + 1e-9
    assert plain[1].whole
    assert not propose(model, 30, per_task=2).whole


def test_bounds_limit_the_pairs_scored():
    """Far fewer than all pairs, and the same list as by scoring all."""
    answers = cw.simulate.simulate(3000, n_workers=100, n_classes=3, answers_per_task=3, seed=0)
    model = cw.DawidSkene().fit(answers)
    proposal = propose(model, 50)
    assert proposal.whole
    assert proposal.pairs_scored < 0.05 * 3000 * 100
    best = np.sort(np.nanmax(all_gains(model), axis=1))[::-1][:50]
    np.testing.assert_allclose(proposal.table["gain"].to_numpy(), best)


def test_max_pairs_limits_the_work_and_is_reported():
    answers = cw.simulate.simulate(500, n_workers=50, n_classes=3, answers_per_task=2, seed=1)
    model = cw.DawidSkene().fit(answers)
    cut = propose(model, 400, max_pairs=1000)
    assert not cut.whole
    assert cut.pairs_scored <= 1000 + 2 * 400 * selection.FEW
    assert 0 < cut.gain <= propose(model, 400).gain + 1e-9
    assert propose(model, 400).whole


def test_reasons_come_from_the_model(model, crowd):
    beliefs = Beliefs(model, crowd)
    for row in propose(model, 5, strategy="interval").table.to_pylist():
        t, w = row["task"], row["worker"]
        p, channel = model.proba_[t], beliefs.channels[w]
        assert row["belief"] == model.classes_[p.argmax()]
        assert row["confidence"] == pytest.approx(p.max())
        assert row["uncertainty"] == pytest.approx(-(p[p > 0] * np.log2(p[p > 0])).sum())
        assert row["answers"] == (crowd.task == t).sum()
        assert row["expected"] == model.classes_[(p @ channel).argmax()]
        assert row["expected_proba"] == pytest.approx((p @ channel).max())
        assert row["right"] == pytest.approx((p * np.diag(channel)).sum())
        assert row["gain"] == pytest.approx(all_gains(model)[t, w])


def test_lift_is_the_expected_increase_of_the_best_belief(model):
    """By enumeration: the belief after each possible label, weighted by the probability of the label."""
    proposal = propose(model, 12, per_task=2)
    beliefs, answers = Beliefs(model, model.answers_), model.answers_
    before = {}
    for row in proposal.table.to_pylist():
        t, w = answers.tasks.tolist().index(row["task"]), answers.workers.tolist().index(row["worker"])
        joint = before.get(t, beliefs.belief[t][None])  # (outcomes, classes)
        after = np.concatenate([joint * beliefs.channels[w][:, label] for label in range(answers.n_classes)])
        assert row["lift"] == pytest.approx(after.max(axis=1).sum() - joint.max(axis=1).sum(), abs=1e-12)
        before[t] = after
    assert (proposal.table["lift"].to_numpy() >= 0).all() and proposal.table["lift"].to_numpy().max() > 0


def test_gains_of_a_batch_add_up(model):
    """Several answers to one task, in any order: the sum equals the information of the enumerated outcomes."""
    proposal = propose(model, 40, strategy="uncertainty", per_task=3, per_worker=30)
    beliefs, total, said = Beliefs(model, model.answers_), 0.0, {}
    for t, w in pairs(proposal):
        q = said.get(t, beliefs.belief[[t]][:, None])
        total += gain(q, beliefs.channels[[w]])[0] / np.log(2)
        said[t] = extend_outcomes(q, beliefs.channels[[w]])
    assert len(said) < 40
    assert proposal.gain == pytest.approx(total)


def test_selected_and_new_workers(model, crowd):
    found = pairs(propose(model, 30, workers=[3, 8], per_task=2))
    assert {w for _, w in found} <= {3, 8}
    new = propose(model, 10, workers=[100, 101])
    assert {w for _, w in pairs(new)} <= {100, 101}
    average = Beliefs(model, crowd, n_new=2).channels[-1]
    p = model.proba_[[t for t, _ in pairs(new)]]
    np.testing.assert_allclose(new.table["gain"].to_numpy(),
                               gain(p[:, None], np.repeat(average[None], 10, axis=0)) / np.log(2))  # fmt: skip


def test_only_pairs_that_exist(crowd):
    rows = np.arange(crowd.n_answers)
    known = crowd.take(rows[rows % 2 == 0])
    model = cw.DawidSkene().fit(known)
    everything = propose(model, 10**4, among=crowd, per_task=12)
    assert set(pairs(everything)) == answered(crowd) - answered(known)
    some = propose(model, 5, among=crowd)
    told = all_gains(model)
    best = sorted((told[t, w] for t, w in answered(crowd) - answered(known)), reverse=True)
    assert some.table["gain"].to_numpy()[0] == pytest.approx(best[0])
    with pytest.raises(ParameterError, match="other tasks or workers"):
        propose(model, 5, among=crowd[np.arange(10)])


def test_hopeless_tasks_are_not_proposed(model):
    scores = np.linspace(1, 0, 60)
    found = {t for t, _ in pairs(propose(model, 60, hopeless=scores, alpha=0.1))}
    assert len(found) == 54
    assert not found & set(range(54, 60))


def test_equal_scores_are_not_hopeless(model):
    assert pairs(propose(model, 60, hopeless=np.ones(60))) == pairs(propose(model, 60))
    assert len(propose(model, 60, hopeless=np.ones(60, bool))) == 0  # flags are used directly


def test_scores_are_in_the_bits_of_gain_and_uncertainty(model):
    for strategy, column in (("information", "gain"), ("uncertainty", "uncertainty")):
        table = propose(model, 20, strategy=strategy).table
        np.testing.assert_allclose(table["score"].to_numpy(), table[column].to_numpy())


def test_more_answers_to_a_task_score_a_half_and_a_third(model):
    """Tasks by need / k for the k-th answer: the same scores as by sorting all of them."""
    proposal = propose(model, 60, strategy="least-confident", per_task=3)
    need = 1 - model.proba_.max(axis=1)
    each = np.sort(np.concatenate([need, need / 2, need / 3]))[::-1]
    np.testing.assert_allclose(proposal.table["score"].to_numpy(), each[:60])
    tasks = proposal.table["task"].to_numpy()
    assert np.bincount(tasks).max() == 3


def test_fewer_pairs_than_the_budget_are_reported(model, crowd):
    free = 60 * 12 - crowd.n_answers
    for budget, caps, n in (
        (5, {}, 5),
        (10**9, {}, 60),
        (10**9, {"per_worker": 3}, 36),
        (10**9, {"per_task": 12}, free),
    ):
        proposal = propose(model, budget, **caps)
        assert (proposal.asked, len(proposal), proposal.available) == (budget, n, free)
    assert propose(model, 5, workers=[3]).available == 60 - (crowd.worker == 3).sum()
    assert propose(model, 5, hopeless=np.arange(60) > 1).available == 24 - (crowd.task < 2).sum()


def test_balance_favours_rare_classes(model, crowd):
    share = model.proba_.mean(axis=0)
    plain, even = (propose(model, 20, balance=b) for b in (False, True))
    weight = (model.proba_ / share / 3).sum(axis=1)
    np.testing.assert_allclose(even.table["score"].to_numpy(),
                               even.table["gain"].to_numpy() * weight[even.table["task"].to_numpy()])  # fmt: skip
    best = weight * np.nanmax(all_gains(model), axis=1)
    assert sorted(t for t, _ in pairs(even)) == sorted(np.argsort(-best)[:20].tolist())
    assert even.gain <= plain.gain


def test_results_do_not_depend_on_ids_and_order(crowd, model):
    table = crowd.to_arrow().take(np.random.default_rng(0).permutation(crowd.n_answers)).to_pylist()
    renamed = cw.Answers.from_arrays(*([f"{row[k]:>03}" for row in table] for k in ("task", "worker", "label")))
    other = propose(cw.DawidSkene().fit(renamed), 15)
    assert [(int(t), int(w)) for t, w in pairs(other)] == pairs(propose(model, 15))


def test_draws_follow_the_seed(model):
    for strategy in ("random", "uncertainty"):
        one, same, other = (pairs(propose(model, 15, strategy=strategy, random_state=s)) for s in (1, 1, 2))
        assert one == same != other


def test_tasks_without_answers_come_first(crowd):
    kept = crowd.take(np.flatnonzero(crowd.task >= 5))
    model = cw.DawidSkene().fit(kept)
    for strategy in ("information", "uncertainty", "activelab"):
        assert set(range(5)) <= {t for t, _ in pairs(propose(model, 20, strategy=strategy))}


def test_pairs_with_pseudo_answers_can_be_bought(crowd):
    extra = cw.Answers.from_codes([0], [11], [0], tasks=60, workers=12, classes=3)
    given = {w for t, w in answered(crowd) if t == 0}
    assert 11 not in given
    merged = crowd.merge(extra, pseudo=True)
    found = pairs(propose(cw.DawidSkene().fit(merged), 10**4, per_task=12))
    assert (0, 11) in found
    assert len(found) == 60 * 12 - crowd.n_answers


def test_learners_with_and_without_features():
    X, answers = cw.simulate.digits_crowd()
    X, answers = X[:60], answers[np.arange(60)]
    for model in (cw.CrowdLayer(epochs=2), cw.DoctorNet(epochs=2), cw.CrowdLab()):
        model.fit(X, answers)
        for strategy in ("information", "activelab"):
            for features in (None, X):
                proposal = propose(model, 10, X=features, strategy=strategy, per_task=2)
                assert not set(pairs(proposal)) & answered(answers)
                bits = proposal.table["gain"].to_numpy()
                assert (bits >= 0).all()
                assert (bits <= proposal.table["uncertainty"].to_numpy() + 1e-9).all()


def test_complete_answers_leave_nothing_to_buy():
    answers = cw.simulate.simulate(5, n_workers=3, n_classes=2, answers_per_task=3, seed=0)
    model = cw.DawidSkene().fit(answers)
    for options in ({}, {"per_task": 2}, {"per_worker": 1}, {"strategy": "random"}, {"among": answers}):
        assert len(propose(model, 4, **options)) == 0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"budget": 0}, "budget=0"),
        ({"strategy": "best"}, "one of information"),
        ({"per_task": 0}, "per_task=0"),
        ({"per_worker": 0}, "per_worker=0"),
        ({"caution": -1}, "caution=-1"),
        ({"alpha": 1.0, "hopeless": np.arange(60)}, "alpha=1.0"),
        ({"alpha": 0.3}, "alpha=0.3: use None unless hopeless="),
        ({"alpha": 0.3, "hopeless": np.arange(60) > 3}, "hopeless= has flags"),
        ({"balance": "no"}, "balance='no': use True or False"),
        ({"random_state": -1}, "random_state=-1"),
        ({"max_pairs": 0}, "max_pairs=0"),
        ({"workers": []}, "is empty"),
        ({"workers": ["a"]}, "use the same type"),
        ({"hopeless": [1, 2]}, "one score or flag per task"),
        ({"X": np.zeros((60, 2))}, "Do not pass X"),
    ],
)
def test_invalid_arguments_are_named(model, options, match):
    with pytest.raises(ParameterError, match=match):
        propose(model, **{"budget": 3, **options})


def test_unfitted_models_are_rejected():
    with pytest.raises(NotFittedError, match="not fitted"):
        propose(cw.DawidSkene(), 3)
    for model in ("dawid-skene", cw.DawidSkene, None):
        with pytest.raises(ParameterError, match="use a fitted truth model or learner"):
            propose(model, 3)
    with pytest.raises(SingleClassError, match="nothing to propose"):
        propose(cw.DawidSkene().fit(cw.Answers.from_arrays([1, 2], ["a", "b"], ["x", "x"])), 1)


def test_tasks_pruned_by_waum_are_not_proposed():
    X, answers = cw.simulate.digits_crowd()
    X, answers = X[:60], answers[np.arange(60)]
    waum = cw.WAUM(epochs=2).fit(X, answers)
    found = {t for t, _ in pairs(propose(cw.DawidSkene().fit(answers), 60, hopeless=waum, alpha=0.1))}
    assert found == set(waum.prune(alpha=0.1).answers.tasks.tolist())
