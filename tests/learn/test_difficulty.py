import numpy as np
import pytest
from crowds import answers_of, blobs, uneven
from scipy.optimize import check_grad, minimize_scalar
from sklearn.base import clone

import crowdwise as cw
from crowdwise.errors import ConvergenceWarning, ParameterError
from crowdwise.learn.difficulty_workers import DifficultyWorkers, climb_strength, confusion_at, easiness, said

BOTH = [cw.AdaptiveDifficultyEM, cw.FixedDifficultyEM]


def difficult(n_tasks=600, strength=(2.0, 14.0), n_workers=8, n_classes=2, seed=0, distance=1.5):
    """Answers that get better with the distance from the boundary, as the adaptive model has it."""
    X, truth = blobs(n_tasks=n_tasks, n_classes=n_classes, n_features=3, distance=distance, seed=seed)
    from crowdwise.learn.logistic import fit_logistic, predict_logistic

    clear = easiness(predict_logistic(X, fit_logistic(X, np.eye(n_classes)[truth])[0]))
    rng = np.random.default_rng([seed, 3])
    pull = rng.uniform(*strength, size=(n_workers, n_classes))
    task, worker = np.repeat(np.arange(n_tasks), 4), np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :4].ravel()
    says = confusion_at(pull[worker], clear[task], n_classes)[np.arange(len(task)), truth[task]]
    label = (rng.random((len(task), 1)) > says.cumsum(axis=1)).sum(axis=1)
    answers = cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return X, answers, truth, pull


def test_two_classes_are_the_papers_formulas():
    p, strength = np.array([0.3, 0.9]), np.array([[4.0, 7.0]])
    np.testing.assert_allclose(easiness(np.column_stack([1 - p, p])), (p - 0.5) ** 2)
    alpha = 1 / (1 + np.exp(-7.0 * (p - 0.5) ** 2))
    found = confusion_at(np.repeat(strength, 2, axis=0), (p - 0.5) ** 2, 2)
    np.testing.assert_allclose(found[:, 1, 1], alpha)
    np.testing.assert_allclose(found[:, 1, 0], 1 - alpha)
    np.testing.assert_allclose(confusion_at(np.ones((1, 5)), np.array([0.1]), 5).sum(axis=2), 1)
    np.testing.assert_allclose(np.exp(said(np.array(0.0), True, 4)), 0.25)  # nothing is known of the hardest task


def test_newton_finds_each_workers_best():
    rng = np.random.default_rng(0)
    worker, easy = rng.integers(0, 3, 200), rng.uniform(0, 0.25, 200)
    right, mass = rng.random((200, 2)) < 0.7, rng.random((200, 2))
    for pseudo in (None, (1.1, 0.1)):
        found = climb_strength(
            np.ones((3, 2)), worker, easy, right, mass, 2, signed=True, pseudo=pseudo, at=0.1, steps=50
        )
        for w, c in ((0, 0), (2, 1)):
            own = worker == w

            def minus(s, own=own, c=c, pseudo=pseudo):
                value = (mass[own, c] * said(s * easy[own], right[own, c], 2)).sum()
                if pseudo:
                    value += pseudo[0] * said(np.array(s * 0.1), True, 2) + pseudo[1] * said(
                        np.array(s * 0.1), False, 2
                    )
                return -value

            best = minimize_scalar(minus, bounds=(-100, 100), method="bounded", options={"xatol": 1e-8}).x
            np.testing.assert_allclose(found[w, c], best, atol=1e-3)
    far, near = (
        climb_strength(np.full((3, 2), s), worker, easy, right, mass, 2, signed=True, pseudo=None, at=0.1, steps=50)
        for s in (-90.0, 1.0)  # steps that overshoot are halved
    )
    np.testing.assert_allclose(far, near, atol=1e-3)
    assert climb_strength(np.ones((3, 2)), worker, easy, ~right, mass, 2, signed=False, pseudo=None, at=0.1).min() >= 0


def test_posterior_by_enumeration():
    _, answers, _, pull = difficult(n_tasks=5)
    workers = DifficultyWorkers(
        answers, source="classifier", prior="classifier", signed=False, pseudo=None, weight=None
    )
    workers.strength = pull
    f = np.random.default_rng(0).dirichlet(np.ones(2), size=5)
    proba, log_likelihood = workers.posterior(f, None)
    total = 0.0
    for t in range(5):
        joint = f[t].copy()
        for a in np.flatnonzero(answers.task == t):
            joint *= confusion_at(pull[answers.worker[a]], easiness(f)[t], 2)[:, answers.label[a]]
        np.testing.assert_allclose(proba[t], joint / joint.sum())
        total += np.log(joint.sum())
    np.testing.assert_allclose(log_likelihood, total)


@pytest.mark.parametrize(
    "model",
    [
        cw.FixedDifficultyEM(max_iter=20, tol=0),
        cw.FixedDifficultyEM(max_iter=20, tol=0, signed=True, pseudo=None),
        cw.AdaptiveDifficultyEM(max_iter=20, tol=0, exact=True),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_bound_never_falls(model, n_classes):
    for seed in range(2):
        X, answers, _, _ = difficult(n_tasks=200, n_classes=n_classes, seed=seed)
        history = np.array([record["bound"] for record in model.fit(X, answers).history_])
        assert len(history) == 20
        assert (np.diff(history) >= -1e-6 * np.abs(history[1:])).all()


def test_exact_gradient():
    """The classifier's slope includes its part in the difficulty."""
    from crowdwise.learn import difficulty

    X, answers, _, pull = difficult(n_tasks=40)
    workers = DifficultyWorkers(
        answers, source="classifier", prior="classifier", signed=False, pseudo=None, weight=None
    )
    workers.strength = pull
    caught = {}

    def spy(fun, start, **_):
        caught["fun"], caught["start"] = fun, start
        raise RuntimeError

    piece = difficulty.ExactLogistic(X.astype(float), None, ridge=0.5, solver="auto", max_iter=5)
    piece.workers, piece.coef = workers, np.random.default_rng(0).normal(size=(4, 2))
    kept, difficulty.minimize = difficulty.minimize, spy
    try:
        with pytest.raises(RuntimeError):
            piece.fit(np.random.default_rng(1).dirichlet(np.ones(2), size=40)[None])
    finally:
        difficulty.minimize = kept
    fun = caught["fun"]
    assert check_grad(lambda w: fun(w)[0], lambda w: fun(w)[1], caught["start"]) < 1e-4


@pytest.mark.parametrize("model", [cw.AdaptiveDifficultyEM(exact=True), cw.FixedDifficultyEM()])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_recovers_the_truth_where_its_assumption_holds(model, n_classes):
    gain = []
    for seed in range(5):
        X, answers, truth, _ = difficult(n_classes=n_classes, seed=seed, distance=2.5)
        vote = cw.MajorityVote().fit(answers)
        gain.append((model.fit(X, answers).labels_ == truth).mean() - (vote.labels_ == truth).mean())
    assert np.mean(gain) > 0.03
    assert min(gain) > 0


def test_difficulty_brings_something_over_raykar():
    gain = []
    for seed in range(8):
        X, answers, truth, _ = difficult(seed=seed, distance=2.5)
        ours = cw.AdaptiveDifficultyEM(exact=True).fit(X, answers)
        gain.append((ours.labels_ == truth).mean() - (cw.Raykar().fit(X, answers).labels_ == truth).mean())
    assert np.mean(gain) > 2 * np.std(gain) / np.sqrt(8)


@pytest.mark.parametrize(
    "model",
    [cw.AdaptiveDifficultyEM(network="mlp"), cw.AdaptiveDifficultyEM(network="mlp", difficulty="posterior"),
     cw.FixedDifficultyEM(network=cw.Logistic())],
)  # fmt: skip
def test_resumed_equals_unbroken(model, tmp_path):
    X, answers, _, _ = difficult(n_tasks=150)
    model = clone(model).set_params(epochs=6, batch_size=50, lr=0.01)
    whole = clone(model).fit(X, answers)

    def kill(record):
        if record["epoch"] == 4:
            raise KeyboardInterrupt

    broken = clone(model).set_params(checkpoint=str(tmp_path / "state.safetensors"))
    with pytest.raises(KeyboardInterrupt):
        broken.fit(X, answers, callback=kill)
    broken.fit(X, answers)
    np.testing.assert_array_equal(broken.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(broken.proba_, whole.proba_)
    np.testing.assert_array_equal(broken.strength_, whole.strength_)


def test_recovers_strength():
    X, answers, _, pull = difficult(n_tasks=6000, strength=(4.0, 40.0), distance=2.0)
    found = cw.AdaptiveDifficultyEM(pseudo=None, ridge=0.1).fit(X, answers).strength_
    assert np.corrcoef(found.ravel(), pull.ravel())[0, 1] > 0.8


def test_signed_finds_adversaries():
    X, answers, _, _ = difficult(n_tasks=1500, distance=3)
    turned = answers.worker < 2
    label = np.where(turned, 1 - answers.label, answers.label)
    answers = cw.Answers.from_codes(answers.task, answers.worker, label, tasks=1500, workers=8, classes=2)
    model = cw.AdaptiveDifficultyEM(signed=True).fit(X, answers)
    assert (model.strength_[:2] < 0).all()
    assert (model.strength_[2:] > 0).all()
    assert (cw.AdaptiveDifficultyEM().fit(X, answers).strength_ >= 0).all()


@pytest.mark.parametrize("kind", BOTH)
def test_networks(kind):
    X, answers, truth, _ = difficult(distance=2.5, strength=(10.0, 20.0))
    model = kind(network=cw.MLP(8), epochs=20, lr=0.01, n_models=2).fit(X, answers)
    assert (model.labels_ == truth).mean() > (cw.MajorityVote().fit(answers).labels_ == truth).mean() - 0.01
    assert model.strength_.shape == (8, 2)


def test_settings():
    X, truth = blobs(n_tasks=60, n_classes=2)
    answers = answers_of(truth, uneven(n_classes=2))
    for parameters, word in (
        ({"difficulty": "votes"}, "difficulty"), ({"prior": "diagonal"}, "prior"), ({"pseudo": (1.0,)}, "pseudo"),
        ({"exact": True, "network": "mlp"}, "exact"), ({"exact": True, "difficulty": "posterior"}, "exact"),
        ({"n_models": 2}, "n_models"), ({"ridge": -1.0}, "ridge"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=word):
            cw.AdaptiveDifficultyEM(**parameters).fit(X, answers)
    plain = cw.AdaptiveDifficultyEM().fit(X, answers)
    for parameters in ({"difficulty": "posterior"}, {"prior": "votes"}, {"cross_fit": 3, "calibrate": True}):
        other = cw.AdaptiveDifficultyEM(**parameters).fit(X, answers)
        assert np.abs(other.proba_ - plain.proba_).max() > 1e-3
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        cw.FixedDifficultyEM(max_iter=2, tol=1e-12).fit(X, answers)
