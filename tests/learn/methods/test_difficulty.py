import warnings

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize_scalar
from sklearn.base import clone

import crowdwise as cw
from crowdwise.errors import ConvergenceWarning, OneClassWarning, ParameterError
from crowdwise.evaluate import auc
from crowdwise.learn.methods.difficulty.classifiers import ExactLogistic
from crowdwise.learn.methods.difficulty.collapse import find_swallowing_class
from crowdwise.learn.methods.difficulty.workers import (
    DifficultyWorkers,
    answer_log_proba,
    confusion_at,
    easiness,
    gradient_strength,
    newton_strength,
    skill_from_strength,
    strength_from_skill,
)
from reproduction import crowds
from reproduction.crowds.difficulty import SKILL
from tests.helpers.crowds import answers_of, blobs, uneven

BOTH = [cw.AdaptiveDifficultyEM, cw.FixedDifficultyEM]


def difficult(n_tasks=600, strength=(2.0, 14.0), n_workers=8, n_classes=2, seed=0, distance=1.5):
    """Return answers whose accuracy rises with the distance from the boundary, as the adaptive model assumes."""
    X, truth = blobs(n_tasks=n_tasks, n_classes=n_classes, n_features=3, distance=distance, seed=seed)
    from crowdwise.learn.joint_em.logistic import fit_logistic, predict_logistic

    clear = easiness(predict_logistic(X, fit_logistic(X, np.eye(n_classes)[truth])[0]))
    rng = np.random.default_rng([seed, 3])
    pull = rng.uniform(*strength, size=(n_workers, n_classes))
    task, worker = np.repeat(np.arange(n_tasks), 4), np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :4].ravel()
    says = confusion_at(pull[worker], clear[task], n_classes)[np.arange(len(task)), truth[task]]
    label = (rng.random((len(task), 1)) > says.cumsum(axis=1)).sum(axis=1)
    answers = cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return X, answers, truth, pull


def test_two_classes_follow_the_papers_formulas():
    p, strength = np.array([0.3, 0.9]), np.array([[4.0, 7.0]])
    np.testing.assert_allclose(easiness(np.column_stack([1 - p, p])), (p - 0.5) ** 2)
    alpha = 1 / (1 + np.exp(-7.0 * (p - 0.5) ** 2))
    found = confusion_at(np.repeat(strength, 2, axis=0), (p - 0.5) ** 2, 2)
    np.testing.assert_allclose(found[:, 1, 1], alpha)
    np.testing.assert_allclose(found[:, 1, 0], 1 - alpha)
    np.testing.assert_allclose(confusion_at(np.ones((1, 5)), np.array([0.1]), 5).sum(axis=2), 1)
    np.testing.assert_allclose(np.exp(answer_log_proba(np.array(0.0), True, 4)), 0.25)  # chance on the hardest task


def test_newton_finds_the_optimal_strength_of_each_worker():
    rng = np.random.default_rng(0)
    worker, easy = rng.integers(0, 3, 200), rng.uniform(0, 0.25, 200)
    right, mass = rng.random((200, 2)) < 0.7, rng.random((200, 2))
    for pseudo in (None, (1.1, 0.1)):
        found = newton_strength(
            np.ones((3, 2)), worker, easy, right, mass, 2, signed=True, pseudo=pseudo, at=0.1, steps=50
        )
        for w, c in ((0, 0), (2, 1)):
            own = worker == w

            def minus(s, own=own, c=c, pseudo=pseudo):
                value = (mass[own, c] * answer_log_proba(s * easy[own], right[own, c], 2)).sum()
                if pseudo:
                    right_log, wrong_log = (answer_log_proba(np.array(s * 0.1), hit, 2) for hit in (True, False))
                    value += pseudo[0] * right_log + pseudo[1] * wrong_log
                return -value

            best = minimize_scalar(minus, bounds=(-100, 100), method="bounded", options={"xatol": 1e-8}).x
            np.testing.assert_allclose(found[w, c], best, atol=1e-3)
    far, near = (
        newton_strength(np.full((3, 2), s), worker, easy, right, mass, 2, signed=True, pseudo=None, at=0.1, steps=50)
        for s in (-90.0, 1.0)  # steps that overshoot are halved
    )
    np.testing.assert_allclose(far, near, atol=1e-3)
    assert newton_strength(np.ones((3, 2)), worker, easy, ~right, mass, 2, signed=False, pseudo=None, at=0.1).min() >= 0


def test_gradient_steps_follow_the_slope_and_converge_to_newtons_optimum():
    rng = np.random.default_rng(1)
    worker, easy = rng.integers(0, 3, 200), rng.uniform(0, 0.25, 200)
    right, mass = rng.random((200, 2)) < 0.7, rng.random((200, 2))
    data = worker, easy, right, mass, 2
    start, eps, w, c = rng.uniform(1, 5, size=(3, 2)), 1e-5, 1, 0
    own = worker == w

    def value(s):
        prior = 1.1 * answer_log_proba(np.array(s * 0.1), True, 2) + 0.1 * answer_log_proba(np.array(s * 0.1), False, 2)
        return (mass[own, c] * answer_log_proba(s * easy[own], right[own, c], 2)).sum() + prior

    slope = (value(start[w, c] + eps) - value(start[w, c] - eps)) / (2 * eps)
    options = {"signed": False, "pseudo": (1.1, 0.1), "at": 0.1}
    once = gradient_strength(start, *data, **options, steps=1, rate=0.3)
    np.testing.assert_allclose(once[w, c], start[w, c] + 0.3 * slope, rtol=1e-6)
    np.testing.assert_allclose(
        gradient_strength(start, *data, **options, steps=5000, rate=1.0),
        newton_strength(start, *data, **options, steps=50), atol=1e-3,
    )  # fmt: skip
    down = gradient_strength(start, worker, easy, ~right, mass, 2, **options, steps=50, rate=5.0)
    assert down.min() == 0  # never worse than chance


def test_skill_is_the_accuracy_on_the_easiest_tasks():
    alpha = np.array([[0.6, 0.8], [0.7, 0.5]])
    np.testing.assert_allclose(strength_from_skill(alpha), 4 * np.log(alpha / (1 - alpha)))  # equations 5 and 6
    for skill in (alpha, np.array([[0.9, 0.4, 0.7]])):
        n_classes = skill.shape[1]
        np.testing.assert_allclose(skill_from_strength(strength_from_skill(skill)), skill)
        certain = np.full(len(skill), easiness(np.eye(n_classes))[0])
        found = confusion_at(strength_from_skill(skill), certain, n_classes)
        np.testing.assert_allclose(found.diagonal(axis1=1, axis2=2), skill)


@pytest.mark.parametrize("source", ["classifier", "posterior", "votes"])
@pytest.mark.parametrize("prior", ["classifier", "votes"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_posterior_equals_enumeration(source, prior, n_classes):
    _, answers, _, pull = difficult(n_tasks=6, n_classes=n_classes)
    workers = DifficultyWorkers(answers, source=source, prior=prior, signed=False, pseudo=None, weight=None)
    workers.strength = pull
    rng = np.random.default_rng(0)
    f, workers.belief = rng.dirichlet(np.ones(n_classes), size=(2, 6))
    gold = np.array([-1, 1, -1, -1, -1, -1])
    proba, log_likelihood = workers.posterior(f, gold)
    total = 0.0

    def easy(p):
        return ((p**2).sum() - 1 / n_classes) / 2

    for t in range(6):
        own = np.flatnonzero(answers.task == t)
        votes = np.bincount(answers.label[own], minlength=n_classes) / len(own)

        def enumerate_classes(d, t=t, own=own, votes=votes):
            joint = (f[t] if prior == "classifier" else votes).copy()
            for c in range(n_classes):
                for a in own:
                    e = np.exp(pull[answers.worker[a], c] * d)
                    joint[c] *= (e if answers.label[a] == c else 1) / (e + n_classes - 1)
            return joint * ((gold[t] < 0) | (np.arange(n_classes) == gold[t]))

        d = easy({"classifier": f[t], "posterior": workers.belief[t], "votes": votes}[source])
        if source == "posterior":  # half way to the easiness that it leads to
            first = enumerate_classes(d)
            d = (d + easy(first / first.sum())) / 2
        joint = enumerate_classes(d)
        np.testing.assert_allclose(proba[t], joint / joint.sum(), atol=1e-9)
        total += np.log(joint.sum())
    np.testing.assert_allclose(log_likelihood, total)


@pytest.mark.parametrize(
    "model",
    [
        cw.FixedDifficultyEM(max_iter=20, tol=0),
        cw.FixedDifficultyEM(max_iter=20, tol=0, climb="newton"),
        cw.FixedDifficultyEM(max_iter=20, tol=0, climb="newton", signed=True, pseudo=None),
        cw.FixedDifficultyEM(max_iter=20, tol=0, climb=(5, 0.01)),
        cw.AdaptiveDifficultyEM(max_iter=20, tol=0, difficulty="classifier", exact=True),
        cw.AdaptiveDifficultyEM(max_iter=20, tol=0, difficulty="classifier", exact=True, climb="newton"),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bound_never_falls(model, n_classes):
    X, answers, _, _ = difficult(n_tasks=200, n_classes=n_classes)
    history = np.array([record["bound"] for record in model.fit(X, answers).history_])
    assert len(history) == 20
    assert (np.diff(history) >= -1e-6 * np.abs(history[1:])).all()


def test_the_exact_gradient_includes_the_effect_on_difficulty():
    X, answers, _, pull = difficult(n_tasks=40)
    workers = DifficultyWorkers(
        answers, source="classifier", prior="classifier", signed=False, pseudo=None, weight=None
    )
    workers.strength = pull
    classifier = ExactLogistic(X.astype(float), None, ridge=0.5, solver="auto", max_iter=30)
    classifier.workers, classifier.coef = workers, np.random.default_rng(0).normal(size=(4, 2))
    target = np.random.default_rng(1).dirichlet(np.ones(2), size=40)[None]
    value, gradient = (lambda w, i=i: classifier.minus_bound(w, target)[i] for i in (0, 1))
    assert check_grad(value, gradient, classifier.coef.ravel()) < 1e-4


@pytest.mark.parametrize("model", [cw.AdaptiveDifficultyEM(), cw.FixedDifficultyEM()])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_recovers_the_truth_if_its_assumption_holds(model, n_classes):
    gain = []
    for seed in range(3):
        X, answers, truth, _ = difficult(n_classes=n_classes, seed=seed, distance=2.5)
        vote = cw.MajorityVote().fit(answers)
        gain.append((model.fit(X, answers).labels_ == truth).mean() - (vote.labels_ == truth).mean())
    assert np.mean(gain) > 0.03
    assert min(gain) > 0


def differences(model, make, n_seeds, against=None):
    """Return mean and standard error over seeds of the gain on Raykar (or another): labels, AUC, test accuracy."""
    gains = []
    for seed in range(n_seeds):
        X, answers, truth, X_test, truth_test = make(seed)
        scores = []
        for each in (model, against or cw.Raykar()):
            each.fit(X, answers)
            test = (each.predict(X_test) == truth_test).mean()
            scores.append(((each.labels_ == truth).mean(), auc(truth, each.proba_), test))
        gains.append(np.subtract(*scores))
    return np.mean(gains, axis=0), np.std(gains, axis=0, ddof=1) / np.sqrt(n_seeds)


def paper_simulation(seed):
    data = crowds.gaussian_mixture(seed=seed)
    return data.X, crowds.structural_answers(data.truth, data.p, seed=seed), data.truth, data.X_test, data.truth_test


def some_tasks_at_chance(seed):
    data = crowds.gaussian_mixture(seed=seed)
    answers = crowds.unstructured_answers(data.truth, errors=[0.05, 0.5], per="task", seed=seed)
    return data.X, answers, data.truth, data.X_test, data.truth_test


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("make", [paper_simulation, some_tasks_at_chance])
def test_the_defaults_beat_raykar_if_tasks_differ_in_difficulty(kind, make):
    """Figure 2: labels and AUC; the tasks are hard where the classes meet, or for reasons that the features hide."""
    mean, error = differences(kind(), make, 6)
    assert (mean[:2] > 0.01).all() and (mean[:2] > 4 * error[:2]).all()


@pytest.mark.parametrize("kind", BOTH)
def test_skills_are_closer_to_the_simulated_ones_than_raykars(kind):
    """Figure 3. The optimal lambda is found for the posteriors, once: with the votes' difficulty it is far too high."""
    gain = []
    for seed in range(6):
        X, answers, *_ = paper_simulation(seed)
        ours, raykar = kind().fit(X, answers), cw.Raykar().fit(X, answers)
        skills = raykar.confusion_.diagonal(axis1=1, axis2=2), ours.skill_
        errors = [np.abs(skill - SKILL).mean() for skill in skills]
        gain.append(errors[0] - errors[1])
    assert np.mean(gain) > 0.005 and np.mean(gain) > 2 * np.std(gain, ddof=1) / np.sqrt(6)
    climbing = kind(climb="newton").fit(X, answers)
    np.testing.assert_allclose(climbing.skill_, skill_from_strength(climbing.strength_))


def test_em_converges_although_some_tasks_are_contradictory():
    """With the difficulty of the round before, they switch between easy and hard for ever."""
    for seed in range(3):
        X, answers, *_ = some_tasks_at_chance(seed)
        assert len(cw.AdaptiveDifficultyEM().fit(X, answers).history_) < 60


def test_a_drift_to_one_class_is_noticed():
    """The paper's difficulty, with lambda at its optimum, drifts on some data sets; the default does not."""
    drifting = cw.AdaptiveDifficultyEM(difficulty="classifier", climb="newton")
    shares = []
    for seed in (0, 1, 2, 3):
        X, answers, *_ = some_tasks_at_chance(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            share = abs((drifting.fit(X, answers).labels_ == 1).mean() - 0.5)
            shares.append(share)
        warned = [each for each in caught if each.category is OneClassWarning]
        assert bool(warned) == (share > 0.2) or 0.15 < share < 0.25
        with warnings.catch_warnings():
            warnings.simplefilter("error", OneClassWarning)
            assert abs((cw.AdaptiveDifficultyEM().fit(X, answers).labels_ == 1).mean() - 0.5) < 0.1
    assert max(shares) > 0.2  # otherwise nothing was tested


def test_a_rare_class_that_errors_make_frequent_is_no_drift():
    """Answers name the rare class three times as often as it occurs; Dawid-Skene finds that without features."""
    rng = np.random.default_rng(0)
    truth = (rng.random(2000) < 0.07).astype(int)
    task, worker = np.repeat(np.arange(2000), 5), np.tile(np.arange(5), 2000)
    label = np.where(rng.random(10000) < 0.85, truth[task], 1 - truth[task])
    answers = cw.Answers.from_codes(task, worker, label, tasks=2000, workers=5, classes=2)
    assert (label == 1).mean() > 2 * truth.mean()
    assert find_swallowing_class(answers, truth) is None
    assert find_swallowing_class(answers, np.zeros(2000, int)) == (0, pytest.approx(1 - truth.mean(), abs=0.03))


@pytest.mark.parametrize(
    "model",
    [cw.AdaptiveDifficultyEM(network="mlp"),
     cw.AdaptiveDifficultyEM(network="mlp", difficulty="classifier", climb="newton"),
     cw.FixedDifficultyEM(network=cw.Logistic()),
     cw.FixedDifficultyEM(network=cw.Logistic(), climb=(3, 0.01))],
)  # fmt: skip
def test_a_resumed_fit_equals_an_uninterrupted_one(model, tmp_path):
    X, answers, _, _ = difficult(n_tasks=150)
    model = clone(model).set_params(epochs=6, batch_size=50, lr=0.01)
    expected = clone(model).fit(X, answers)

    def kill(record):
        if record["epoch"] == 4:
            raise KeyboardInterrupt

    interrupted = clone(model).set_params(checkpoint=str(tmp_path / "state.safetensors"))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X, answers, callback=kill)
    interrupted.fit(X, answers)
    np.testing.assert_array_equal(interrupted.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(interrupted.proba_, expected.proba_)
    np.testing.assert_array_equal(interrupted.strength_, expected.strength_)


def test_recovers_the_strength_of_workers():
    X, answers, _, pull = difficult(n_tasks=6000, strength=(4.0, 40.0), distance=2.0)
    found = (
        cw.AdaptiveDifficultyEM(difficulty="classifier", climb="newton", pseudo=None, ridge=0.1)
        .fit(X, answers)
        .strength_
    )
    assert np.corrcoef(found.ravel(), pull.ravel())[0, 1] > 0.8


def test_signed_finds_workers_worse_than_chance():
    X, answers, _, _ = difficult(n_tasks=1500, distance=3)
    adversarial = answers.worker < 2
    label = np.where(adversarial, 1 - answers.label, answers.label)
    answers = cw.Answers.from_codes(answers.task, answers.worker, label, tasks=1500, workers=8, classes=2)
    model = cw.AdaptiveDifficultyEM(signed=True, climb="newton").fit(X, answers)
    assert (model.strength_[:2] < 0).all()
    assert (model.strength_[2:] > 0).all()
    assert (cw.AdaptiveDifficultyEM().fit(X, answers).strength_ >= 0).all()


@pytest.mark.parametrize("kind", BOTH)
def test_networks_are_not_worse_than_the_vote(kind):
    X, answers, truth, _ = difficult(distance=2.5)
    model = kind(network=cw.MLP(8), epochs=20, lr=0.01, n_models=2).fit(X, answers)
    assert (model.labels_ == truth).mean() > (cw.MajorityVote().fit(answers).labels_ == truth).mean() - 0.01
    assert model.strength_.shape == (8, 2)


def test_invalid_settings_are_rejected_and_valid_ones_have_an_effect():
    X, truth = blobs(n_tasks=60, n_classes=2)
    answers = answers_of(truth, uneven(n_classes=2))
    for parameters, word in (
        ({"difficulty": "votes"}, "difficulty"), ({"prior": "diagonal"}, "prior"), ({"pseudo": (1.0,)}, "pseudo"),
        ({"exact": True, "difficulty": "classifier", "network": "mlp"}, "exact"), ({"exact": True}, "exact"),
        ({"n_models": 2}, "n_models"), ({"ridge": -1.0}, "ridge"),
        ({"climb": "adam"}, "climb"), ({"climb": (0, 1.0)}, "climb"), ({"signed": True}, "signed"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=word):
            cw.AdaptiveDifficultyEM(**parameters).fit(X, answers)
    plain = cw.AdaptiveDifficultyEM().fit(X, answers)
    for parameters in (
        {"difficulty": "classifier"}, {"prior": "votes"}, {"climb": "newton"}, {"cross_fit": 3, "calibrate": True},
    ):  # fmt: skip
        other = cw.AdaptiveDifficultyEM(**parameters).fit(X, answers)
        assert np.abs(other.proba_ - plain.proba_).max() > 1e-3
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        cw.FixedDifficultyEM(max_iter=2, tol=1e-12).fit(X, answers)
