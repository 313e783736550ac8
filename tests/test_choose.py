"""Choosing without ground truth: folds, scores, errors of differences, the rule, and how well it picks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.choose import choose
from crowdwise.choose.choice import paired, pick
from crowdwise.choose.scoring import answer_folds, task_folds
from crowdwise.errors import CrowdwiseError, ParameterError, TrainingError

QUICK = ["one-coin", "dawid-skene"]


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(300, n_workers=12, n_classes=3, answers_per_task=4, seed=3)


@pytest.fixture(scope="module")
def featured():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 100)
    X = rng.normal(size=(100, 3)) + 3 * truth[:, None]
    return X, cw.simulate.simulate(truth=truth, n_workers=8, answers_per_task=2, accuracy=(0.6, 0.7), seed=1)


def uneven(seed=0):
    """Tasks with 0 to 5 answers."""
    per_task = np.random.default_rng(seed).integers(1, 6, 60)
    answers = cw.simulate.simulate(60, n_workers=9, n_classes=3, answers_per_task=per_task, seed=seed)
    return answers.take(np.flatnonzero(answers.task % 10 != 3))  # every tenth task has none


# Folds


@pytest.mark.parametrize("folds", [2, 3, 5, 50])
def test_answers_are_held_out_once_and_every_task_keeps_one(folds):
    answers = uneven()
    per_task = np.diff(answers.task_starts)
    fold = answer_folds(answers, folds, np.random.default_rng(0))
    assert ((fold >= 0) == (per_task[answers.task] > 1)).all()  # only a task's only answer is never held out
    sizes = np.bincount(fold[fold >= 0], minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    for k in range(folds):
        kept = np.bincount(answers.task[fold != k], minlength=answers.n_tasks)
        assert ((kept > 0) == (per_task > 0)).all()


def test_answers_of_tasks_are_held_out_together():
    answers = uneven()
    fold = task_folds(answers, 4, np.random.default_rng(0))
    assert fold.min() == 0
    first = answers.task_starts[:-1][np.diff(answers.task_starts) > 0]
    of_task = fold[first]
    assert (fold == np.repeat(of_task, np.diff(np.append(first, len(fold))))).all()
    assert np.ptp(np.bincount(of_task)) <= 1


@pytest.mark.parametrize("make_folds", [answer_folds, task_folds])
def test_answers_made_by_a_model_are_never_held_out(make_folds):
    answers = uneven()
    pseudo = np.random.default_rng(1).random(answers.n_answers) < 0.3
    answers = replace(answers, pseudo=pseudo)
    fold = make_folds(answers, 3, np.random.default_rng(0))
    assert (fold[pseudo] == -1).all()
    assert (fold[~pseudo] >= 0).any()
    for k in range(3) if make_folds is answer_folds else ():
        assert len(np.unique(answers.task[fold != k])) == len(np.unique(answers.task))


def test_folds_are_drawn_from_the_seed():
    answers = uneven()
    one, same, other = (answer_folds(answers, 3, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()


# Scores


class Fixed(cw.MajorityVote.__mro__[1]):
    """A truth model that believes what it is told."""

    def __init__(self, belief=((0.9, 0.1),), says=None):
        self.belief = belief
        self.says = says

    def _fit(self, answers, gold, rng, callback):
        self.proba_ = np.resize(np.array(self.belief, dtype=float), (answers.n_tasks, answers.n_classes))
        if self.says is not None:
            self.confusion_ = np.resize(np.array(self.says), (answers.n_workers, answers.n_classes, answers.n_classes))


@pytest.fixture
def tiny():
    """Eight tasks, two answers each, by two workers."""
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 0])
    return cw.Answers.from_codes(
        np.repeat(np.arange(8), 2), np.tile([0, 1], 8), labels, tasks=8, workers=2, classes=["no", "yes"]
    )


def test_common_likelihood_by_hand(tiny):
    belief = np.random.default_rng(0).dirichlet([1, 1], 8)
    choice = choose(tiny, candidates={"fixed": Fixed(tuple(map(tuple, belief)))}, folds=2)
    fold = answer_folds(tiny, 2, np.random.default_rng([0, 0]))
    expected = np.empty(16)
    for a in range(16):
        counts = np.zeros((2, 2, 2))  # [worker, class, label], by plain loops
        for b in range(16):
            if fold[b] != fold[a]:
                counts[tiny.worker[b], :, tiny.label[b]] += belief[tiny.task[b]]
        pooled = counts.sum(axis=0) + 0.05
        pooled /= pooled.sum(axis=1, keepdims=True)
        own = counts[tiny.worker[a]] + 5 * pooled
        own /= own.sum(axis=1, keepdims=True)
        expected[a] = np.log(belief[tiny.task[a]] @ own[:, tiny.label[a]])
    np.testing.assert_allclose(choice.scores["fixed"], expected, rtol=1e-10)
    entry = choice.entries[1]
    assert entry.log_likelihood == pytest.approx(expected.mean())


def test_own_likelihood_by_hand(tiny):
    says = (((0.8, 0.2), (0.3, 0.7)), ((0.6, 0.4), (0.5, 0.5)))
    choice = choose(tiny, candidates={"fixed": Fixed(((0.9, 0.1),), says)}, criterion="own", folds=2)
    p = np.array([[0.9 * says[w][0][label] + 0.1 * says[w][1][label] for label in range(2)] for w in range(2)])
    np.testing.assert_allclose(choice.scores["fixed"], np.log(p[tiny.worker, tiny.label]), rtol=1e-12)


def test_own_likelihood_of_a_learner_is_that_of_its_answer_proba(featured):
    X, answers = featured
    choice = choose(answers, X, cw.Raykar(max_iter=3, tol=0), criterion="own", folds=2)
    fold = answer_folds(answers, 2, np.random.default_rng([0, 0]))
    for k in range(2):
        model = cw.Raykar(max_iter=3, tol=0).fit(X, answers.take(np.flatnonzero(fold != k)))
        held = np.flatnonzero(fold == k)
        p = model.answer_proba(X)[answers.task[held], answers.worker[held], answers.label[held]]
        np.testing.assert_allclose(choice.scores[choice.entries[1].candidate][np.isin(choice.rows, held)], np.log(p))


def test_tasks_are_judged_by_the_classifier_alone(featured):
    """Answers to a held-out task must not move what is predicted of it."""
    X, answers = featured
    held = task_folds(answers, 3, np.random.default_rng([0, 0])) == 0
    models = {"raykar": cw.Raykar(max_iter=3, tol=0)}
    before = choose(answers, X, models, criterion="tasks", folds=3)
    flipped = replace(answers, label=np.where(held, 1 - answers.label, answers.label).astype(np.int32))
    after = choose(flipped, X, models, criterion="tasks", folds=3)
    p, q = (np.exp(choice.scores["raykar"][held]) for choice in (before, after))
    np.testing.assert_allclose(p + q, 1.0, rtol=1e-9)
    assert (before.scores["raykar"][~held] != after.scores["raykar"][~held]).all()


def test_truth_models_are_asked_through_a_classifier_for_new_tasks(featured):
    X, answers = featured
    one = choose(answers, X, {"a": cw.Aggregated("dawid-skene"), "b": "dawid-skene"}, criterion="tasks", folds=2)
    assert np.array_equal(one.scores["a"], one.scores["b"])
    assert isinstance(one.best_model_, cw.Aggregated)


def test_majority_vote_gets_its_best_chance(crowd):
    """Its score is no worse than that of its shares."""
    choice = choose(crowd, candidates=["naive-soft"])
    vote, shares = choice.entries
    assert vote.log_likelihood >= shares.log_likelihood


def test_scores_are_averaged_over_repeats(tiny):
    twice = choose(tiny, candidates=QUICK, folds=2, repeats=2)
    parts = []
    for repeat in range(2):
        fold = answer_folds(tiny, 2, np.random.default_rng([0, repeat]))
        score = np.empty(16)
        for k in range(2):
            kept, held = tiny.take(np.flatnonzero(fold != k)), tiny.take(np.flatnonzero(fold == k))
            score[fold == k] = cw.truth.check.log_likelihood(kept, held, cw.OneCoin().fit(kept).proba_)
        parts.append(score)
    np.testing.assert_allclose(twice.scores["one-coin"], np.mean(parts, axis=0), rtol=1e-12)


# Errors


def test_standard_error_by_hand():
    held = cw.Answers.from_codes(
        np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0]), np.zeros(4), tasks=3, workers=2, classes=2
    )
    mean, error = paired(np.array([1.0, 3.0, 2.0, 6.0]), held)
    assert mean == 3.0
    assert error == pytest.approx(np.sqrt((-2 + 0) ** 2 + (-1) ** 2 + 3**2) / 4)


def test_weights_of_answers_count():
    rows = (np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0]), np.zeros(4, int))
    held = cw.Answers.from_codes(*rows, tasks=3, workers=2, classes=2, weight=np.array([1.0, 0.0, 2.0, 1.0]))
    mean, error = paired(np.array([1.0, 99.0, 2.0, 7.0]), held)
    assert mean == 3.0
    assert error == pytest.approx(np.sqrt(2.0**2 + 2.0**2 + 4.0**2) / 4)


def test_table_holds_paired_differences(crowd):
    choice = choose(crowd, candidates=QUICK)
    held = crowd.take(choice.rows)
    best = choice.ranking_[0]
    for entry in choice.entries:
        own = choice.scores[entry.candidate]
        assert (entry.log_likelihood, entry.standard_error) == paired(own, held)
        assert (entry.to_best, entry.to_best_error) == paired(own - choice.scores[best], held)
        assert (entry.to_vote, entry.to_vote_error) == paired(own - choice.scores["majority-vote"], held)
    ranked = [choice.scores[name].mean() for name in choice.ranking_]
    assert ranked == sorted(ranked, reverse=True)


def test_standard_error_matches_the_spread_over_crowds():
    """Over many sets of tasks answered by one crowd, a difference moves as much as its error says."""
    workers = cw.simulate.crowd(10, 3, "one-coin", seed=5)
    found = []
    for seed in range(60):
        answers = cw.simulate.simulate(150, n_workers=10, workers=workers, answers_per_task=3, seed=seed)
        entry = choose(answers, candidates=["one-coin"], folds=3).entries[1]
        found.append((entry.to_vote, entry.to_vote_error))
    spread, said = np.std([f[0] for f in found], ddof=1), np.mean([f[1] for f in found])
    assert 0.6 < said / spread < 1.5


# The rule


def scored(*means, noise=0.0):
    """Scores of 40 answers to 40 tasks with these means; pairs differ by noise of this size."""
    wave = np.resize([1.0, -1.0], 40)
    held = cw.Answers.from_codes(np.arange(40), np.zeros(40), np.zeros(40), tasks=40, workers=1, classes=2)
    return {f"m{i}": np.full(40, mean) + i * noise * wave for i, mean in enumerate(means)}, held


@pytest.mark.parametrize(
    ("means", "noise", "expected"),
    [
        ((-1.0, -0.9), 0.0, "m1"),  # clearly better
        ((-1.0, -1.0), 0.0, "m0"),  # equal: the simpler stays
        ((-1.0, -1.0 + 1e-12), 0.0, "m0"),  # rounding
        ((-1.0, -0.9), 1.0, "m0"),  # error of the lead 1 / sqrt(40) = 0.158
        ((-1.0, -0.8), 1.0, "m1"),
        ((-1.0, -0.8, -0.7), 1.0, "m1"),  # the third is not ahead of the second by its error
        ((-1.0, -0.9, -0.6), 1.0, "m2"),  # ahead of the first, which is still held, by 0.4; the error is 0.316
        ((-1.0, -0.5, -0.9), 0.0, "m1"),
    ],
)
def test_a_candidate_has_to_lead_by_its_error(means, noise, expected):
    assert pick(*scored(*means, noise=noise)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_nothing_leads_the_chosen_one_by_its_error(seed):
    rng = np.random.default_rng(seed)
    held = cw.Answers.from_codes(np.arange(30), np.zeros(30), np.zeros(30), tasks=30, workers=1, classes=2)
    scores = {f"m{i}": rng.normal(0.1 * rng.normal(), rng.uniform(0.05, 1), 30) for i in range(6)}
    chosen = pick(scores, held)
    for score in scores.values():
        lead, error = paired(score - scores[chosen], held)
        assert lead <= error + 1e-9
    assert chosen == "m0" or scores[chosen].mean() > scores["m0"].mean()


def test_a_clearly_better_model_is_chosen():
    workers = np.concatenate([np.tile(np.eye(3), (3, 1, 1)), np.full((5, 3, 3), 1 / 3)])  # three know, five guess
    answers = cw.simulate.simulate(300, n_workers=8, workers=workers, answers_per_task=5, activity="even", seed=0)
    choice = choose(answers, candidates=["one-coin"])
    assert choice.best_ == "one-coin"
    assert choice.entries[1].to_vote > 4 * choice.entries[1].to_vote_error
    assert "one-coin" in choice.words
    assert isinstance(choice.best_model_, cw.OneCoin)


@pytest.mark.parametrize("accuracy", [1 / 3, 0.7], ids=["coin-flippers", "equal workers"])
def test_nothing_is_chosen_over_majority_vote_where_there_is_nothing_to_know(accuracy):
    kept = 0
    for seed in range(10):
        answers = cw.simulate.simulate(
            300, n_workers=15, n_classes=3, answers_per_task=4, workers="one-coin", accuracy=(accuracy,) * 2, seed=seed
        )
        choice = choose(answers, candidates=QUICK)
        kept += choice.best_ == "majority-vote"
        if choice.best_ == "majority-vote":
            assert "keep majority vote" in choice.words
    assert kept >= 8


def test_the_pick_is_nearly_as_accurate_as_the_best():
    """Over crowds of several kinds: the pick's labels lose little, those of the vote and of a random method more."""
    regret = {"pick": [], "vote": [], "random": []}
    names = ["majority-vote", "wawa", "one-coin", "mace", "dawid-skene"]
    for kind in ("mixed", "one-coin", "class-dependent", {"hammer": 0.3, "uniform-guess": 0.7}):
        for seed in range(4):
            answers = cw.simulate.simulate(
                300, n_workers=20, n_classes=3, answers_per_task=4, workers=kind, accuracy=(0.3, 0.9), seed=seed
            )
            right = {name: (cw.make(name).fit(answers).codes_ == answers.truth).mean() for name in names}
            best = max(right.values())
            regret["pick"].append(best - right[choose(answers, candidates=names).best_])
            regret["vote"].append(best - right["majority-vote"])
            regret["random"].append(best - np.mean(list(right.values())))
    means = {name: np.mean(values) for name, values in regret.items()}
    assert means["pick"] < 0.02
    gain = np.array(regret["random"]) - np.array(regret["pick"])
    assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(len(gain))
    assert means["pick"] < 0.5 * means["vote"]


# What must not matter


def test_order_of_candidates_does_not_change_scores(crowd):
    one, other = choose(crowd, candidates=QUICK), choose(crowd, candidates=QUICK[::-1])
    assert one.ranking_ == other.ranking_
    for name, score in one.scores.items():
        assert np.array_equal(score, other.scores[name])


def test_order_of_rows_and_new_names_do_not_matter(crowd):
    order = np.random.default_rng(0).permutation(crowd.n_answers)
    other = cw.Answers.from_arrays(
        [f"task {t:04}" for t in crowd.task[order]],
        [f"worker {w:03}" for w in crowd.worker[order]],
        [f"class {c}" for c in crowd.label[order]],
    )
    one, two = choose(crowd, candidates=QUICK), choose(other, candidates=QUICK)
    assert one.best_ == two.best_
    for name, score in one.scores.items():
        np.testing.assert_allclose(two.scores[name], score, rtol=1e-12)


def test_names_that_reorder_tasks_change_the_folds_only(crowd):
    """Folds are drawn in the order of ids: other names move scores by no more than new folds do."""
    renamed = cw.Answers.from_codes(
        crowd.n_tasks - 1 - crowd.task,
        crowd.worker,
        crowd.label,
        tasks=crowd.n_tasks,
        workers=crowd.n_workers,
        classes=3,
    )
    one, two = choose(crowd, candidates=QUICK), choose(renamed, candidates=QUICK)
    for a, b in zip(one.entries, two.entries, strict=True):
        assert abs(a.log_likelihood - b.log_likelihood) < a.standard_error


def test_truth_is_not_looked_at(crowd):
    bare = replace(crowd, truth=None)
    assert np.array_equal(
        choose(crowd, candidates=QUICK).scores["one-coin"], choose(bare, candidates=QUICK).scores["one-coin"]
    )


def test_seed_repeats(crowd):
    one, same, other = (choose(crowd, candidates=QUICK, random_state=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.scores["dawid-skene"], same.scores["dawid-skene"])
    assert not np.array_equal(one.scores["dawid-skene"], other.scores["dawid-skene"])


def test_number_of_processes_does_not_matter(crowd):
    models = {"fine": cw.OneCoin(), "bad": cw.OneCoin(max_iter=0)}
    one, two = (choose(crowd, candidates=models, folds=2, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one.scores["fine"], two.scores["fine"])
    assert one.entries[2].failure == two.entries[2].failure
    assert "max_iter" in two.entries[2].failure


def test_candidates_are_left_as_they_were(crowd):
    model = cw.DawidSkene()
    choice = choose(crowd, candidates=model)
    assert not hasattr(model, "answers_")
    assert not hasattr(choice.best_model_, "answers_")


# Candidates that fail, and what is refused


class Astray(cw.OneCoin):
    def _fit(self, answers, gold, rng, callback):
        message = "the loss is no number any more."
        raise TrainingError(message)


def test_failing_candidates_are_listed_with_the_reason(crowd):
    models = {"astray": Astray(), "features": "raykar", "settings": cw.OneCoin(max_iter=0)}
    choice = choose(crowd, candidates={**models, "fine": "one-coin"})
    reasons = {entry.candidate: entry.failure for entry in choice.entries}
    assert reasons["astray"] == "TrainingError: the loss is no number any more."
    assert "max_iter" in reasons["settings"]
    assert "give X" in reasons["features"]
    assert reasons["fine"] is None
    assert sorted(choice.ranking_) == ["fine", "majority-vote"]
    assert "astray failed: TrainingError" in str(choice)
    last = choice.to_arrow().to_pylist()[-1]
    assert last["rank"] is None
    assert last["log_likelihood"] is None


def test_warnings_of_candidates_are_kept(crowd):
    choice = choose(crowd, candidates=cw.DawidSkene(max_iter=1))
    assert choice.entries[1].warnings
    assert "warned: " in str(choice)


def test_words_say_when_a_leader_is_not_clear(crowd):
    choice = choose(crowd, candidates=QUICK)
    low = replace(choice, best_="majority-vote")
    assert f"{choice.ranking_[0]} leads by +" in low.words
    second = next(name for name in choice.ranking_[1:] if name != "majority-vote")
    assert f"{choice.ranking_[0]} leads it by +" in replace(choice, best_=second).words


def test_majority_vote_is_always_there_and_first(crowd):
    assert [e.candidate for e in choose(crowd, candidates="one-coin").entries] == ["majority-vote", "one-coin"]
    assert choose(crowd, candidates=["one-coin", "majority-vote"]).entries[0].candidate == "majority-vote"
    given = choose(crowd, candidates={"ours": "one-coin", "votes": cw.MajorityVote(random_state=3)})
    assert [entry.candidate for entry in given.entries] == ["votes", "ours"]
    assert choose(crowd, candidates=[]).best_ == "majority-vote"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds"),
        ({"folds": 10**6}, "folds=1000000: use a whole number from 2 to 100"),
        ({"repeats": 0}, "repeats"),
        ({"repeats": 101}, "from 1 to 100"),
        ({"criterion": "accuracy"}, "criterion"),
        ({"criterion": "tasks"}, "give X"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": -1}, "random_state"),
        ({"candidates": ["one-coin", "one-coin"]}, "each candidate once"),
        ({"candidates": ["no-such-method"]}, "no-such-method"),
        ({"candidates": [3]}, "candidate '3'"),
        ({"candidates": {"majority-vote": "one-coin"}}, "another label"),
        ({"candidates": cw.CrowdLayer(checkpoint="there.pt")}, "checkpoint"),
    ],
)
def test_what_makes_no_sense_is_refused(crowd, options, message):
    with pytest.raises(ParameterError, match=message):
        choose(crowd, **options)


def test_no_more_folds_than_can_be_filled():
    many = cw.Answers.from_codes(
        np.repeat(np.arange(10), 4), np.tile(np.arange(4), 10), np.arange(40) % 3 % 2, tasks=10, workers=4, classes=2
    )
    assert len(choose(many, candidates=[], folds=40).rows) == 40  # one answer at a time
    with pytest.raises(ParameterError, match="folds=41: use 40 or fewer: no more answers"):
        choose(many, candidates=[], folds=41)
    with pytest.raises(ParameterError, match="folds=11: use 10 or fewer: no more tasks"):
        choose(many, np.zeros((10, 2)), [], criterion="tasks", folds=11)


def test_single_answers_cannot_be_held_out():
    answers = cw.simulate.simulate(50, n_workers=5, answers_per_task=1)
    with pytest.raises(CrowdwiseError, match="only 0 answers can be held out"):
        choose(answers)


# Display


def test_table_and_frames(crowd):
    choice = choose(crowd, candidates=["one-coin", cw.DawidSkene(max_iter=30)])
    text = str(choice)
    assert text.splitlines()[0].split()[:2] == ["rank", "candidate"]
    assert "one-coin" in text
    assert "DawidSkene(max_iter=30)" in text
    assert " *" in text
    assert choice._repr_html_().count("<tr>") == 4
    frame = choice.to_frame()
    assert frame["candidate"].tolist() == choice.ranking_
    assert frame.loc[frame["chosen"], "candidate"].tolist() == [choice.best_]
    assert choice.as_dict()["candidates"][0]["rank"] == 1
    assert choice.n_never == int((np.diff(crowd.task_starts) == 1).sum())


def test_callback_tells_of_each_fit(crowd):
    records = []
    choose(crowd, candidates={"a": "one-coin", "b": Astray()}, folds=2, repeats=2, callback=records.append)
    assert [r["done"] for r in records] == list(range(1, 13))
    assert {r["total"] for r in records} == {12}
    assert sorted({r["fold"] for r in records}) == [0, 1, 2, 3]
    assert all((r["failure"] is None) == (r["log_likelihood"] is not None) for r in records)
    assert all(r["seconds"] >= 0 for r in records)


def test_default_candidates(crowd, featured):
    assert choose(crowd, folds=2).ranking_
    X, answers = featured
    choice = choose(answers, X, folds=2)
    assert not [entry.failure for entry in choice.entries if entry.failure]
    assert len(choice.entries) >= 5
