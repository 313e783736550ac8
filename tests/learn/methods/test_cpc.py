import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import crowdwise as cw
from crowdwise.errors import ConvergenceWarning, ParameterError, TooLargeError
from crowdwise.learn.features import open_features
from crowdwise.learn.features.scaling import mean_and_scale
from crowdwise.learn.methods.cpc import CPC, AnswerLoss, all_pairs, nearest_pairs


def crowd(n_classes=2, n_tasks=120, n_workers=6, seed=0, accuracy=0.85, per_task=None):
    """Return features (tasks, 3) and answers with truth, of workers with one accuracy."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_tasks, 3))
    truth = (X @ rng.normal(size=(3, n_classes))).argmax(axis=1)
    task, worker = np.divmod(np.arange(n_tasks * n_workers), n_workers)
    if per_task is not None:
        kept = np.sort(rng.permutation(len(task))[: n_tasks * per_task])
        task, worker = task[kept], worker[kept]
    right = rng.random(len(task)) < np.broadcast_to(accuracy, n_workers)[worker]
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, n_classes, len(task))) % n_classes)
    sizes = {"tasks": n_tasks, "workers": n_workers, "classes": n_classes}
    return X, cw.Answers.from_codes(task, worker, label, **sizes), truth


def design(X):
    mean, scale = mean_and_scale(open_features(X))
    return np.column_stack([(X - mean) * scale, np.ones(len(X))])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_gradient_matches_finite_differences(n_classes):
    X, answers, _ = crowd(n_classes, n_tasks=10, n_workers=3, per_task=2)
    rng = np.random.default_rng(1)
    loss = AnswerLoss(design(X), answers, rng.uniform(0.5, 2, answers.n_answers))
    w, direction = rng.normal(size=(2, *loss.shape))
    slope = (loss(w + 1e-6 * direction)[0] - loss(w - 1e-6 * direction)[0]) / 2e-6
    assert slope == pytest.approx((loss(w)[1] * direction).sum(), rel=1e-6)


def plain_clustered(w, x, answers, mu, eta):
    """Return the clustered objective for two classes, as in the paper."""
    margin = (2 * answers.label - 1) * (x[answers.task] * w[1 + answers.worker]).sum(axis=1)
    apart = [np.linalg.norm(w[j] - w[k]) for j in range(len(w)) for k in range(j + 1, len(w))]
    return np.logaddexp(0, -margin).sum() + mu / answers.n_workers * sum(apart) + eta / 2 * w[0] @ w[0]


@pytest.mark.parametrize("mu", [0.5, 4.0])
def test_clustered_reaches_the_minimum_of_the_papers_objective(mu):
    X, answers, _ = crowd(n_tasks=12, n_workers=3, accuracy=[0.9, 0.9, 0.3])
    model = CPC("clustered", mu=mu, eta=0.5, tol=1e-12).fit(X, answers)
    w = np.concatenate([model.coef_[None, 1], model.worker_coef_[:, 1]])
    x = design(X)
    least = plain_clustered(w, x, answers, mu, 0.5)
    assert model.history_[-1]["loss"] == pytest.approx(least, abs=1e-3 * mu)

    shape, rng = w.shape, np.random.default_rng(0)
    found = minimize(
        lambda flat: plain_clustered(flat.reshape(shape), x, answers, mu, 0.5), 0.1 * rng.normal(size=w.size),
        method="Powell", options={"maxiter": 30, "ftol": 1e-8, "xtol": 1e-6},
    )  # fmt: skip
    assert least <= found.fun + 1e-4
    for _ in range(20):  # convex: a local minimum is global
        nearby = w + 1e-2 * rng.normal(size=shape)
        assert least <= plain_clustered(nearby, x, answers, mu, 0.5) + 1e-6


@pytest.mark.parametrize("n_classes", [2, 3])
def test_personal_with_one_worker_equals_ridge_regression(n_classes):
    X, answers, _ = crowd(n_classes, n_workers=1)
    lam, eta = 2.0, 3.0
    model = CPC("personal", lam=lam, eta=eta, tol=1e-14).fit(X, answers)
    ridge = lam * eta / (lam + eta)  # the effective ridge with the target at its optimum
    plain = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-10, max_iter=10_000)
    plain.fit(design(X), answers.label)
    own = plain.coef_ if n_classes > 2 else np.vstack([np.zeros(4), plain.coef_])
    np.testing.assert_allclose(model.worker_coef_[0], own, atol=1e-4)
    np.testing.assert_allclose(model.coef_, lam * own / (eta + lam), atol=1e-4)


def test_personal_reaches_a_stationary_point():
    X, answers, _ = crowd(3, per_task=3)
    model = CPC("personal", lam=0.7, eta=0.4, tol=1e-14).fit(X, answers)
    w = model.worker_coef_.swapaxes(1, 2)  # (workers, features, classes)
    np.testing.assert_allclose(model.coef_, 0.7 * model.worker_coef_.sum(axis=0) / (0.4 + 0.7 * 6))
    slope = AnswerLoss(design(X), answers, None)(w)[1] + 0.7 * (w - model.coef_.T)
    assert np.abs(slope).max() < 1e-3


@pytest.mark.parametrize("strong", [{"kind": "personal", "lam": 1e6}, {"kind": "clustered", "mu": 1e4}])
def test_strong_ties_pool_the_answers(strong):
    X, answers, _ = crowd()
    model = CPC(eta=1.0, tol=1e-13, **strong).fit(X, answers)
    pooled = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10).fit(design(X)[answers.task], answers.label)
    np.testing.assert_allclose(model.coef_[1], pooled.coef_[0], atol=2e-3)
    if strong["kind"] == "clustered":
        assert set(model.cluster_) == {0}


@pytest.mark.parametrize("kind", ["clustered", "personal"])
def test_the_objective_never_rises(kind):
    X, answers, _ = crowd(per_task=4)
    records = []
    model = CPC(kind).fit(X, answers, callback=records.append)
    values = np.array([entry["loss"] for entry in model.history_])
    assert records == model.history_ and len(values) > 5
    assert (np.diff(values) <= 1e-9 * np.abs(values[:-1])).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_minority_of_spammers_hardly_moves_the_target(seed):
    """Seven good workers and three adversaries form two clusters; the target is near the majority."""
    X, answers, truth = crowd(n_tasks=300, n_workers=10, accuracy=[0.95] * 7 + [0.05] * 3, seed=seed)
    clustered = CPC("clustered", mu=60.0).fit(X, answers)
    assert len(set(clustered.cluster_[:7])) == 1
    assert clustered.cluster_[0] not in clustered.cluster_[7:]
    personal = CPC("personal").fit(X, answers)
    length = [np.linalg.norm(m.coef_[1]) / np.linalg.norm(m.worker_coef_[0, 1]) for m in (clustered, personal)]
    assert length[0] > 0.9 > length[1]  # disagreement shortens a mean, not a median
    assert clustered.score(X, truth) > 0.95


def test_beats_a_classifier_trained_on_the_vote():
    """Each worker uses one feature: personal classifiers find it, a classifier trained on the vote does not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    truth = (X.sum(axis=1) > 0).astype(int)
    task, worker = np.arange(400), rng.integers(0, 3, 400)
    label = np.where(worker == 0, truth, np.where(worker == 1, X[:, 0] > 0, 0)).astype(int)
    answers = cw.Answers.from_codes(task, worker, label, tasks=400, workers=3, classes=2)
    model = CPC().fit(X, answers)
    vote = LogisticRegression().fit(X, answers.label)
    assert model.score(X, truth) > vote.score(X, truth) + 0.02
    assert model.score(X, answers) > -0.35  # each worker is predicted by their own classifier


def test_nearest_pairs_with_enough_neighbours_are_all_pairs():
    X, answers, _ = crowd()
    np.testing.assert_array_equal(nearest_pairs(answers, 5), all_pairs(6)[np.lexsort(all_pairs(6).T[::-1])])
    np.testing.assert_allclose(CPC(pairs=5).fit(X, answers).coef_, CPC().fit(X, answers).coef_)


def test_nearest_workers_agree_most():
    _, answers, _ = crowd(n_tasks=400, n_workers=6, accuracy=[0.95] * 3 + [0.05] * 3)
    pairs = nearest_pairs(answers, 2)
    workers = pairs[pairs[:, 0] > 0] - 1
    assert (workers[:, 0] // 3 == workers[:, 1] // 3).all() and len(workers) == 6


@pytest.mark.parametrize(("kind", "n_classes"), [("clustered", 2), ("personal", 3)])
def test_weights_equal_repeated_answers(kind, n_classes):
    X, answers, _ = crowd(n_classes, per_task=4)
    some = np.r_[np.zeros(40), np.ones(80)]
    exact = {"kind": kind, "tol": 1e-13, "standardise": False}
    left_out = CPC(**exact).fit(X, answers, sample_weight=some)
    np.testing.assert_allclose(left_out.coef_, CPC(**exact).fit(X[40:], answers[40:]).coef_, atol=1e-4)
    uneven = np.linspace(0.2, 1.8, 120)
    weighted = cw.Answers.from_codes(
        answers.task,
        answers.worker,
        answers.label,
        weight=uneven[answers.task],
        tasks=120,
        workers=6,
        classes=n_classes,
    )
    by_task = CPC(kind).fit(X, answers, sample_weight=3 * uneven)  # only relative weights matter
    np.testing.assert_allclose(CPC(kind).fit(X, weighted).coef_, by_task.coef_, atol=1e-4)
    assert not np.allclose(by_task.coef_, CPC(kind).fit(X, answers).coef_, atol=1e-2)


@pytest.mark.parametrize(("kind", "n_classes"), [("clustered", 2), ("personal", 3)])
def test_workers_without_answers_and_tasks_without_answers(kind, n_classes):
    X, answers, _ = crowd(n_classes, per_task=4)
    sizes = {"tasks": 125, "workers": 7, "classes": n_classes}
    wider = cw.Answers.from_codes(answers.task, answers.worker, answers.label, **sizes)
    X = np.vstack([X, np.ones((5, 3))])
    model = CPC(kind, eta=1e-3, tol=1e-12).fit(X, wider)
    np.testing.assert_allclose(model.worker_coef_[6], model.coef_, atol=1e-2)
    np.testing.assert_allclose(model.proba_, model.predict_proba(X), atol=1e-6)
    assert model.labels_.shape == (125,)


@pytest.mark.parametrize("n_classes", [2, 8])
def test_answers_are_predicted_by_the_classifier_of_their_worker(n_classes):
    X, answers, _ = crowd(n_classes)
    model = CPC().fit(X, answers)
    logits = np.einsum("td,wcd->twc", design(X), model.worker_coef_)
    p = np.exp(logits - logits.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(model.answer_proba(X), p, atol=1e-5)
    log_proba = np.log(p[answers.task, answers.worker, answers.label])
    np.testing.assert_allclose(model.answer_log_likelihood(X, answers), log_proba, atol=1e-4)


def test_results_do_not_depend_on_ids_and_repeat():
    X, answers, _ = crowd(per_task=4)
    model, again = CPC().fit(X, answers), clone(CPC()).fit(X, answers)
    np.testing.assert_array_equal(model.worker_coef_, again.worker_coef_)
    named = cw.Answers.from_arrays(
        [f"t{t:03}" for t in answers.task], [f"w{w}" for w in answers.worker], np.array(["no", "yes"])[answers.label]
    )
    renamed = CPC().fit(X, named)
    np.testing.assert_array_equal(renamed.worker_coef_, model.worker_coef_)
    assert set(renamed.predict(X)) == {"no", "yes"}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loaded_model_predicts_the_same(tmp_path, n_classes):
    X, answers, _ = crowd(n_classes)
    model = CPC(eta=2.0).fit(X, answers)
    model.save(tmp_path / "m")
    loaded = cw.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.answer_proba(X, 0), model.answer_proba(X, 0))
    assert repr(loaded) == repr(model) and loaded.history_ == model.history_


def test_invalid_use_is_rejected():
    X, answers, truth = crowd(3)
    with pytest.raises(ParameterError, match="kind='personal'"):
        CPC("clustered").fit(X, answers)
    with pytest.raises(ParameterError, match="does not infer labels"):
        CPC().fit(X, answers, gold=truth)
    for wrong in ({"kind": "mean"}, {"lam": 0.0}, {"eta": -1.0}, {"pairs": 0}, {"pairs": "some"}, {"max_iter": 0}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            CPC(**wrong).fit(X, answers)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        CPC(max_iter=2).fit(*crowd()[:2])


def test_too_many_pairs_are_rejected():
    n = 20_000
    answers = cw.Answers.from_codes(np.zeros(n, int), np.arange(n), np.arange(n) % 2, tasks=1, workers=n, classes=2)
    with pytest.raises(TooLargeError, match="lower number"):
        CPC(pairs="all").fit(np.ones((1, 1)), answers)
