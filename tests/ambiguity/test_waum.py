"""WAUM: trust, recorded margins, and planted ambiguous tasks."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import crowdwise as cw
from crowdwise.ambiguity.margins import margins
from crowdwise.errors import NotFittedError, ParameterError
from crowdwise.learn.joint_em.engine import ConfusionWorkers
from crowdwise.learn.network.architectures import build_network
from crowdwise.learn.network.torch_support import torch

PLAIN = cw.MLP(8, dropout=0.0, standardise=False)


def crowd(n_tasks=60, n_classes=3, n_workers=6, per_task=3, seed=0):
    """Blobs, and answers that are right three times in four."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_tasks)
    X = (3 * np.eye(n_classes, 5)[truth] + rng.normal(size=(n_tasks, 5))).astype(np.float32)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :per_task].ravel()
    label = np.where(rng.random(len(task)) < 0.75, truth[task], rng.integers(0, n_classes, len(task)))
    return X, cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)


def planted(seed, n_tasks=400, share=0.1):
    """Tasks half-way between two classes whose answers are split between them, among clear ones."""
    rng = np.random.default_rng(seed)
    centre = 4 * np.eye(3, 6)
    truth = rng.integers(0, 3, n_tasks)
    other = (truth + rng.integers(1, 3, n_tasks)) % 3
    hard = rng.random(n_tasks) < share
    X = np.where(hard[:, None], (centre[truth] + centre[other]) / 2, centre[truth])
    X = (X + rng.normal(size=X.shape)).astype(np.float32)
    task = np.repeat(np.arange(n_tasks), 4)
    worker = np.argsort(rng.random((n_tasks, 12)), axis=1)[:, :4].ravel()
    skill = rng.uniform(0.7, 0.95, 12)[worker]
    slip = np.where(rng.random(len(task)) < skill, truth[task], rng.integers(0, 3, len(task)))
    torn = np.where(rng.random(len(task)) < 0.5, truth[task], other[task])
    label = np.where(hard[task], torn, slip)
    return X, cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=12, classes=3), hard


def test_trust_and_score_by_hand():
    """Two workers, two classes, an untrained network: lr is too small for a step."""
    X = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    answers = cw.Answers.from_codes([0, 0, 1], [0, 1, 1], [0, 1, 1], tasks=2, workers=2, classes=2)
    confusion = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.3, 0.7]]])
    waum = cw.WAUM(PLAIN, trust=confusion, lr=1e-12, epochs=3).fit(X, answers)
    f = waum.predict_proba(X)  # (tasks, classes)
    trust = [0.9 * f[0, 0] + 0.6 * f[0, 1], 0.5 * f[0, 0] + 0.7 * f[0, 1], 0.5 * f[1, 0] + 0.7 * f[1, 1]]
    aum = [f[0, 0] - f[0].min(), f[0, 1] - f[0].min(), f[1, 1] - f[1].min()]  # the second of two is the smaller
    np.testing.assert_allclose(waum.trust_, trust, atol=1e-6)
    np.testing.assert_allclose(waum.aum_, aum, atol=1e-6)
    first = (trust[0] * aum[0] + trust[1] * aum[1]) / (trust[0] + trust[1])
    np.testing.assert_allclose(waum.scores_, [first, aum[2]], atol=1e-6)
    np.testing.assert_allclose(waum.worker_trust_, [trust[0], (trust[1] + trust[2]) / 2], atol=1e-6)
    weighted = cw.Answers.from_codes(
        [0, 0, 1], [0, 1, 1], [0, 1, 1], tasks=2, workers=2, classes=2, weight=np.array([2.0, 1.0, 1.0])
    )
    twice = cw.WAUM(PLAIN, trust=confusion, lr=1e-12, epochs=3).fit(X, weighted)
    first = (2 * trust[0] * aum[0] + trust[1] * aum[1]) / (2 * trust[0] + trust[1])
    np.testing.assert_allclose(twice.scores_[0], first, atol=1e-6)


def test_zero_trust_gives_the_unweighted_mean():
    X, answers = crowd()
    nobody = cw.WAUM(PLAIN, trust=np.zeros((6, 3, 3)), epochs=2).fit(X, answers)
    np.testing.assert_allclose(nobody.scores_, nobody.aum_.reshape(60, 3).mean(1))


def test_equal_trust_gives_the_unweighted_mean():
    X, answers = crowd()
    for trust in (None, np.tile(np.eye(3), (6, 1, 1)), np.full((6, 3, 3), 0.3)):
        waum = cw.WAUM(PLAIN, trust=trust, epochs=2).fit(X, answers)
        np.testing.assert_allclose(waum.scores_, waum.aum_.reshape(60, 3).mean(1), atol=1e-7)


@pytest.mark.parametrize("margin", ["yang", "pleiss"])
@pytest.mark.parametrize("scale", ["probabilities", "logits"])
@pytest.mark.parametrize("top_k", [1, 2])
def test_the_record_is_that_of_the_training_replayed_by_hand(margin, scale, top_k):
    X, answers = crowd()
    options = {"margin": margin, "scale": scale, "top_k": top_k, "epochs": 6, "lr": 0.05, "batch_size": 60}
    waum = cw.WAUM(PLAIN, trust=None, **options).fit(X, answers)
    network = build_network(PLAIN, (5,), 3, 1, 0)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.05)
    x, label = torch.from_numpy(X[answers.task])[None], torch.from_numpy(answers.label.astype(np.int64))
    total = np.zeros(answers.n_answers)
    for _ in range(6):
        logits = network(x)[0]  # of the stacked set: a row for each answer
        scores = logits.detach() if scale == "logits" else logits.detach().softmax(1)
        total += margins(scores, margin, top_k).numpy()[np.arange(len(total)), answers.label]
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(logits, label).backward()
        optimiser.step()
    np.testing.assert_allclose(waum.aum_, total / 6, atol=1e-4)
    with torch.no_grad():
        np.testing.assert_allclose(waum.proba_, network(torch.from_numpy(X)[None])[0].softmax(1), atol=1e-4)


def test_margins_are_recorded_with_dropout_on():
    X, answers = crowd()
    off, on = (
        cw.WAUM(cw.MLP(64, dropout=share, standardise=False), lr=0.01, epochs=5, margin="pleiss").fit(X, answers)
        for share in (0.0, 0.5)
    )
    by_hand = margins(torch.from_numpy(on.predict_proba(X)).float().log(), "pleiss", 1).numpy()
    assert np.abs(on.aum_ - off.aum_).max() > 0.01
    assert np.abs(on.aum_ - by_hand[answers.task, answers.label]).max() > 0.01


def test_several_networks_give_the_mean_of_their_margins():
    X, answers = crowd()
    options = {"lr": 1e-12, "epochs": 2, "batch_size": 16}
    many = cw.WAUM(PLAIN, n_models=3, **options).fit(X, answers)
    members = torch.from_numpy(many.member_proba(X))
    by_hand = torch.stack([margins(member) for member in members]).mean(0).numpy()
    np.testing.assert_allclose(many.aum_, by_hand[answers.task, answers.label], atol=1e-6)


def test_a_network_per_worker():
    X, answers = crowd()
    waum = cw.WAUM(PLAIN, per_worker=True, epochs=4, lr=0.05).fit(X, answers)
    assert np.isfinite(waum.scores_).all()
    np.testing.assert_allclose(waum.proba_.sum(1), 1)
    alone = np.flatnonzero(answers.worker == 2)  # other workers do not affect this worker's network
    label = np.where(answers.worker == 2, answers.label, (answers.label + 1) % 3)
    others = cw.Answers.from_codes(answers.task, answers.worker, label, tasks=60, workers=6, classes=3)
    again = cw.WAUM(PLAIN, per_worker=True, epochs=4, lr=0.05).fit(X, others)
    np.testing.assert_array_equal(waum.aum_[alone], again.aum_[alone])
    assert not np.array_equal(waum.aum_, again.aum_)
    # With one worker it is the stacked network, up to the order of batches.
    own = answers.take(alone)
    options = {"epochs": 4, "lr": 0.05, "batch_size": 60, "trust": None}
    one, stacked = (cw.WAUM(PLAIN, per_worker=each, **options).fit(X, own) for each in (True, False))
    np.testing.assert_allclose(one.aum_, stacked.aum_, atol=1e-5)
    np.testing.assert_allclose(one.scores_, stacked.scores_, atol=1e-5)
    assert np.isinf(one.scores_[np.setdiff1d(np.arange(60), own.task)]).all()
    for ask in (waum.predict, waum.member_proba, waum.answer_proba, lambda x: waum.score(x, answers)):
        with pytest.raises(ParameterError, match="per_worker"):
            ask(X)


@pytest.mark.parametrize("trust", ["ibcc", cw.DawidSkene(prior=None, max_iter=60, tol=0), cw.CrowdLayer(epochs=2)])
def test_trust_from_any_model_with_confusion_matrices(trust):
    X, answers = crowd()
    waum = cw.WAUM(PLAIN, trust=trust, epochs=2).fit(X, answers)
    model = cw.make(trust) if isinstance(trust, str) else trust
    model = model.fit(X, answers) if hasattr(model, "predict") else model.fit(answers)
    diagonal = np.diagonal(model.confusion_, axis1=1, axis2=2)
    np.testing.assert_allclose(waum.trust_, (diagonal[answers.worker] * waum.proba_[answers.task]).sum(1))


def trust_by(confusion, waum):
    diagonal = np.diagonal(confusion, axis1=1, axis2=2)
    return (diagonal[waum.answers_.worker] * waum.proba_[waum.answers_.task]).sum(1)


@pytest.mark.parametrize("trust", ["one-coin", "mace", "glad", "majority-vote"])
@pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")
def test_trust_from_a_truth_model_without_confusion_matrices(trust):
    """By the matrices that follow from what it infers, as `Aggregated` has them."""
    X, answers = crowd()
    for weight in (None, np.linspace(0.5, 2, 60)):
        waum = cw.WAUM(PLAIN, trust=trust, epochs=2).fit(X, answers, sample_weight=weight)
        confusion = cw.Aggregated(trust, PLAIN, epochs=1).fit(X, answers, sample_weight=weight).confusion_
        np.testing.assert_allclose(waum.trust_, trust_by(confusion, waum))


@pytest.mark.parametrize(
    "trust",
    [
        cw.DoctorNet(network=PLAIN, epochs=2, weight_epochs=1),
        cw.DASC(cw.CrowdLayer(network=PLAIN, epochs=2), iterations=1),
    ],
    ids=str,
)
def test_trust_from_a_learner_without_confusion_matrices(trust):
    X, answers = crowd()
    waum = cw.WAUM(PLAIN, trust=trust, epochs=2).fit(X, answers)
    workers = ConfusionWorkers(answers, "diagonal", None)
    proba = trust.fit(X, answers).proba_
    workers.fit(proba, proba)
    np.testing.assert_allclose(waum.trust_, trust_by(workers.confusion(), waum))


def test_gold_changes_the_trust_in_workers():
    X, answers = crowd()
    gold = np.zeros(60, np.int32)
    told = cw.WAUM(PLAIN, epochs=2).fit(X, answers, gold=gold)
    confusion = cw.DawidSkene().fit(answers, gold).confusion_
    by_hand = np.einsum("ac,ac->a", np.diagonal(confusion, axis1=1, axis2=2)[answers.worker], told.proba_[answers.task])
    np.testing.assert_allclose(told.trust_, by_hand)
    with pytest.raises(ParameterError, match="gold"):
        cw.WAUM(PLAIN, trust=None).fit(X, answers, gold=gold)


def test_a_task_without_answers_or_of_weight_zero_is_not_ranked():
    X, answers = crowd()
    fewer = answers.take(np.flatnonzero(answers.task != 7))
    waum = cw.WAUM(PLAIN, epochs=2).fit(X, fewer)
    assert np.flatnonzero(np.isinf(waum.scores_)).tolist() == [7]
    assert 7 in waum.prune(0.9).rows
    assert waum.ranking().column("task").to_pylist()[-1] == 7
    weight = np.ones(60)
    weight[[3, 9]] = 0
    left = cw.WAUM(PLAIN, epochs=2).fit(X, answers, sample_weight=weight)
    assert np.flatnonzero(np.isinf(left.scores_)).tolist() == [3, 9]
    changed = np.where(weight[answers.task] == 0, (answers.label + 1) % 3, answers.label)
    other = cw.Answers.from_codes(answers.task, answers.worker, changed, tasks=60, workers=6, classes=3)
    np.testing.assert_array_equal(cw.WAUM(PLAIN, epochs=2).fit(X, other, sample_weight=weight).scores_, left.scores_)


def test_results_do_not_depend_on_ids_and_row_order():
    X, answers = crowd()
    order = np.random.default_rng(1).permutation(answers.n_answers)
    renamed = cw.Answers.from_arrays(
        [f"t{t:03d}" for t in answers.task[order]], [f"w{w}" for w in answers.worker[order]],
        [f"c{c}" for c in answers.label[order]], tasks=[f"t{t:03d}" for t in range(answers.n_tasks)],
    )  # fmt: skip
    plain, again = (cw.WAUM(PLAIN, epochs=3).fit(X, a) for a in (answers, renamed))
    np.testing.assert_array_equal(plain.scores_, again.scores_)
    first, same = plain.ranking(1).to_pylist()[0], again.ranking(1).to_pylist()[0]
    assert same["task"] == f"t{first['task']:03d}"
    assert same["labels"] == [f"c{label}" for label in first["labels"]]


def test_a_killed_fit_resumes_with_its_margins(tmp_path):
    X, answers = crowd()
    options = {"epochs": 6, "lr": 0.01, "checkpoint": str(tmp_path / "state")}

    def killed(record):
        if record["epoch"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cw.WAUM(PLAIN, **options).fit(X, answers, callback=killed)
    resumed = cw.WAUM(PLAIN, **options).fit(X, answers)
    whole = cw.WAUM(PLAIN, epochs=6, lr=0.01).fit(X, answers)
    np.testing.assert_array_equal(resumed.aum_, whole.aum_)
    np.testing.assert_array_equal(resumed.scores_, whole.scores_)


def test_hidden_answers_have_margins_too():
    X, answers = crowd()
    waum = cw.WAUM(PLAIN, select="held_out", epochs=5).fit(X, answers)
    assert np.isfinite(waum.scores_).all()
    best = int(np.argmax([record["held_out"] for record in waum.history_])) + 1
    assert (waum.module_.seen == best).all()  # of the epochs up to the selected one


def test_planted_ambiguous_tasks_are_found():
    found, plain = [], []
    for seed in range(5):
        X, answers, hard = planted(seed)
        options = {"network": "mlp", "epochs": 20, "lr": 0.01, "random_state": seed}
        found.append(roc_auc_score(hard, -cw.WAUM(**options).fit(X, answers).scores_))
        plain.append(roc_auc_score(hard, -cw.AUM(**options).fit(X, answers).scores_))
    assert min(found) > 0.9
    assert np.mean(found) > np.mean(plain)  # one label per task hides disagreement


def test_design():
    """The example of the design: prune, then fit any learner."""
    X, answers = crowd()
    kept = cw.WAUM(epochs=3).fit(X, answers).prune(alpha=0.05)
    assert len(kept.removed) == 3
    assert cw.CoNAL(epochs=2).fit(X[kept.rows], kept.answers).proba_.shape == (57, 3)
    soft = cw.WAUM(epochs=3).fit(X, answers).weights()
    assert np.isfinite(cw.CrowdLayer(epochs=2).fit(X, answers, sample_weight=soft).proba_).all()


def test_invalid_arguments_are_rejected():
    X, answers = crowd()
    for bad in (
        {"margin": "large"}, {"scale": "log"}, {"top_k": 0}, {"top_k": 3}, {"trust": 3},
        {"per_worker": "yes"}, {"double_softmax": 2},
        {"trust": np.ones((2, 3, 3))}, {"trust": np.full((6, 3, 3), np.nan)}, {"per_worker": True, "checkpoint": "x"},
        {"per_worker": True, "select": "held_out"},
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=next(reversed(bad))):
            cw.WAUM(PLAIN, epochs=1, **bad).fit(X, answers)
    with pytest.raises(ParameterError, match="no parameter 'depth'"):
        cw.WAUM(depth=3)
    with pytest.raises(NotFittedError):
        cw.WAUM().prune()
    with pytest.raises(NotFittedError):
        cw.WAUM().worker_trust_  # noqa: B018
