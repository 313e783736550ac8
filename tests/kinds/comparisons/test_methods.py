import choix
import numpy as np
import pytest
from scipy.stats import kendalltau

import crowdwise as cw
from crowdwise import Comparisons
from crowdwise.errors import DisconnectedWarning, ParameterError
from crowdwise.simulate.comparisons import item_scores

METHODS = [cw.BradleyTerry(), cw.Davidson(), cw.CrowdBradleyTerry()]
names = pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)


def test_maximum_likelihood_equals_choix_with_both_solvers():
    made = cw.simulate.comparisons(n_items=9, n_comparisons=300, seed=1)
    left, right = made.left[made.task], made.right[made.task]
    won = [(a, b) if outcome == 0 else (b, a) for a, b, outcome in zip(left, right, made.label, strict=True)]
    expected = choix.ilsr_pairwise(9, won)
    newton = cw.BradleyTerry(spread=None).fit(made)
    mm = cw.BradleyTerry(spread=None, solver="mm", tol=1e-11, max_iter=5000).fit(made)
    np.testing.assert_allclose(newton.scores_, expected - expected.mean(), atol=1e-6)
    np.testing.assert_allclose(mm.scores_, newton.scores_, atol=1e-6)
    assert (np.diff(mm.history_) >= -1e-9).all()


def test_infinite_scores_are_an_error_without_a_prior_and_finite_with_it():
    made = Comparisons.from_arrays(list("xxy"), list("yzz"), list("xxy"))
    with pytest.raises(ParameterError, match="spread='estimated'"):
        cw.BradleyTerry(spread=None).fit(made)
    assert np.isfinite(cw.BradleyTerry().fit(made).scores_).all()


def test_intervals_contain_the_scores_and_the_ranks_at_their_rate():
    scores, ranks = [], []
    for seed in range(30):
        made = cw.simulate.comparisons(n_items=12, n_comparisons=300, ties=0.8, seed=seed)
        model, truth = cw.Davidson().fit(made), item_scores(12)
        scores.append(np.abs(model.scores_ - truth) < 1.645 * model.standard_error_)
        table = model.ranking(0.9).to_pydict()
        held = zip(table["item"], table["best_rank"], table["worst_rank"], strict=True)
        ranks.append([best <= item + 1 <= worst for item, best, worst in held])
    assert 0.83 < np.mean(scores) < 0.97
    assert np.mean(ranks) > 0.9


def test_the_covariance_is_that_of_a_bootstrap():
    made = cw.simulate.comparisons(n_items=5, n_workers=5, n_comparisons=400, seed=0)
    model, rng = cw.BradleyTerry(spread=10.0).fit(made), np.random.default_rng(0)
    drawn = []
    for _ in range(100):
        rows = rng.integers(0, made.n_answers, made.n_answers)
        again = made.to_arrow().take(rows)
        drawn.append(cw.BradleyTerry(spread=10.0).fit(Comparisons.from_frame(again)).scores_)
    np.testing.assert_allclose(np.std(drawn, axis=0), model.standard_error_, rtol=0.3)


def test_careless_and_reversing_workers_are_found_and_cost_little():
    gain, found = [], []
    for seed in range(6):
        made = cw.simulate.comparisons(20, 30, 1500, ties=0.4, careless=0.2, reversing=0.1, seed=seed)
        crowd, equal, truth = cw.CrowdBradleyTerry().fit(made), cw.Davidson().fit(made), item_scores(20)
        gain.append(kendalltau(crowd.scores_, truth)[0] - kendalltau(equal.scores_, truth)[0])
        found.append((crowd.reliability_ < 0.5) == (np.arange(30) < 9))
        assert (crowd.reliability_[6:9] < 0).all()
        assert (np.diff(crowd.history_) >= -1e-7).all()
    assert np.mean(gain) > 0.02 and np.mean(found) > 0.95


def test_the_position_that_looks_better_is_estimated():
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 5, 2000), rng.integers(0, 5, 2000)
    left, right = left[left != right], right[left != right]
    won = rng.random(len(left)) < 1 / (1 + np.exp(-0.7))
    model = cw.BradleyTerry(position=True).fit(Comparisons.from_arrays(left, right, np.where(won, "left", "right")))
    assert abs(model.advantage_ - 0.7) < 0.2 and np.abs(model.scores_).max() < 0.3


@names
def test_results_do_not_depend_on_the_order_of_rows_or_the_names(method):
    made = cw.simulate.comparisons(n_items=6, n_workers=6, n_comparisons=150, ties=0.5, seed=2)
    rows = made.to_arrow().take(np.random.default_rng(0).permutation(150))
    new = {item: f"i{5 - item}" for item in made.items}
    renamed = rows.to_pydict()
    for side in ("left", "right"):
        renamed[side] = [new[item] for item in renamed[side]]
    renamed["winner"] = [winner if winner == "tie" else new[int(winner)] for winner in renamed["winner"]]
    first, second = method.fit(made).scores_, type(method)().fit(Comparisons.from_frame(renamed)).scores_
    np.testing.assert_allclose(first, second[::-1], atol=1e-4)


@names
def test_weights_count_like_repeated_comparisons(method):
    made = cw.simulate.comparisons(n_items=5, n_workers=4, n_comparisons=60, ties=0.5, seed=4)
    rows = made.to_arrow()
    twice = Comparisons.from_frame(rows.take(np.repeat(np.arange(60), 2)))
    weighted = Comparisons.from_frame(rows.append_column("weight", [np.full(60, 2.0)]))
    np.testing.assert_allclose(method.fit(weighted).scores_, type(method)().fit(twice).scores_, atol=1e-3)  # EM stops


@names
def test_a_known_winner_is_the_label_and_moves_the_scores(method):
    made = cw.simulate.comparisons(n_items=4, n_workers=4, n_comparisons=20, seed=5)
    before = type(method)().fit(made)
    pair = int(np.argmax(before.proba_[:, 0]))
    after = method.fit(made, gold={made.tasks[pair]: "right"})
    assert after.labels_[pair] == "right" and after.proba_[pair, 1] == 1
    left, right = made.left[pair], made.right[pair]
    assert (after.scores_[left] - after.scores_[right]) < (before.scores_[left] - before.scores_[right])


@names
def test_unlinked_items_are_a_warning_and_models_are_saved(method, tmp_path):
    made = Comparisons.from_arrays(list("xxyab"), list("yxzba"[:1] + "zzba"), list("xxyaa"), list("12121"))
    with pytest.warns(DisconnectedWarning, match="2 groups"):
        model = method.fit(made)
    model.save(tmp_path / "model.safetensors")
    loaded = cw.load(tmp_path / "model.safetensors")
    assert loaded.answers_ == made and loaded.ranking().equals(model.ranking())
    assert {*loaded.next_comparisons(1).to_pylist()[0].values()} & set("ab")  # between the groups
    with pytest.raises(ParameterError, match="'q' is not an item"):
        model.outcome_proba("q", "x")
