"""The formulas of CrowdInG against enumeration, and its networks against loops."""

import itertools

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.augment.crowding import objective
from crowdwise.augment.crowding.discriminator import EMBEDDING, Auxiliary, Discriminator, cooccurrence, normalise_graph
from crowdwise.augment.crowding.generator import Generator, Layout
from crowdwise.augment.crowding.pool import Pool
from crowdwise.learn.features import open_features
from crowdwise.learn.network.batches import Batches


@pytest.fixture
def answers():
    return cw.simulate.simulate(40, n_workers=6, n_classes=3, answers_per_task=3, seed=1)


# The graph of labels


@pytest.mark.parametrize("left_out", [False, True])
def test_cooccurrence_counts_labels_of_the_same_task(answers, left_out):
    weight = np.where(np.arange(40) % 4, 1.0, 0.0) if left_out else None
    expected = np.zeros((3, 3))
    for task in range(0, 40):
        said = answers.label[answers.task == task] if not left_out or weight[task] else []
        for a, b in itertools.permutations(range(len(said)), 2):
            expected[said[a], said[b]] += 1
    np.testing.assert_array_equal(cooccurrence(answers, weight), expected)


def test_cooccurrence_uses_weights():
    answers = cw.Answers.from_arrays([0, 0, 0], [0, 1, 2], [0, 0, 1], weight=[0.5, 2.0, 3.0])
    np.testing.assert_allclose(cooccurrence(answers), [[2 * 0.5 * 2, 2.5 * 3], [2.5 * 3, 0]])


def test_normalisation_by_hand():
    adjacency = np.array([[1.0, 2.0], [2.0, 5.0]])  # with I: [[2, 2], [2, 6]], degrees 4 and 8
    np.testing.assert_allclose(normalise_graph(adjacency, "row"), [[0.5, 0.5], [0.25, 0.75]])
    root = np.sqrt(32)
    np.testing.assert_allclose(normalise_graph(adjacency, "symmetric"), [[2 / 4, 2 / root], [2 / root, 6 / 8]])


@pytest.mark.parametrize("graph", [False, True])
def test_discriminator_by_loops(graph):
    rng = np.random.default_rng(0)
    n_models, rows, workers, classes = 2, 3, 4, 3
    judge = Discriminator(n_models, 5, workers, classes, 0, graph).eval()
    links = torch.from_numpy(normalise_graph(rng.integers(0, 9, (3, 3)).astype(float), "row")).float()
    if graph:
        judge.graph.copy_(links)
        with torch.no_grad():
            judge.mix += 0.1 * torch.from_numpy(rng.normal(size=judge.mix.shape)).float()
    x = torch.from_numpy(rng.normal(size=(n_models, rows, 5))).float()
    with torch.no_grad():
        v = judge.encoder(x)
        places = judge.embed(x)
        for model, row, worker in itertools.product(range(n_models), range(rows), range(workers)):
            u = judge.worker[model * workers + worker] + judge.bias[model]
            at = torch.tensor([[model * rows + row], [model * workers + worker]]).repeat(1, classes)
            logits = judge(places, *at, torch.arange(classes))
            for c in range(classes):
                matrix = judge.matrix[model, c]
                if graph:
                    matrix = sum(links[c, d] * judge.matrix[model, d] for d in range(classes)) @ judge.mix[model]
                np.testing.assert_allclose(logits[c], u @ matrix @ v[model, row], atol=1e-5)


# The risk


def test_generator_loss_by_hand():
    judged = torch.tensor([0.01, 0.5, 0.99])
    logit = torch.logit(judged)
    torch.testing.assert_close(objective.unlikely(logit, "printed"), torch.log(1 - judged))
    torch.testing.assert_close(objective.unlikely(logit, "nonsaturating"), -torch.log((judged + 0.001) / 1.001))


def logged(n=6, classes=3, seed=0):
    """Logits of G and G0, labels, and their loss."""
    rng = np.random.default_rng(seed)
    theta, theta0 = (torch.from_numpy(rng.normal(size=(n, classes))) for _ in range(2))
    return theta, theta0.log_softmax(1), torch.from_numpy(rng.integers(0, classes, n)), torch.from_numpy(rng.random(n))


def mean_risk(theta, log_g0, said, delta, mu, clip):
    log_ratio = (theta.log_softmax(1) - log_g0).gather(1, said[:, None])[:, 0]
    return objective.risk(log_ratio, delta, mu, clip).mean()


@pytest.mark.parametrize("clip", [1.5, 100.0])
def test_gradient_of_the_risk_by_finite_differences(clip):
    theta, *rest = logged()
    ratio = (theta.log_softmax(1) - rest[0]).gather(1, rest[1][:, None]).exp()
    assert (ratio > clip).any() == (clip < 10)  # some are clipped in one case, none in the other
    theta.requires_grad_()
    (slope,) = torch.autograd.grad(mean_risk(theta, *rest, 0.7, clip), theta)
    step, found = 1e-6, torch.zeros_like(slope)
    for at in itertools.product(*map(range, theta.shape)):
        ends = []
        for sign in (1, -1):
            moved = theta.detach().clone()
            moved[at] += sign * step
            ends.append(mean_risk(moved, *rest, 0.7, clip))
        found[at] = (ends[0] - ends[1]) / (2 * step)
    torch.testing.assert_close(slope, found, atol=1e-7, rtol=1e-5)


def test_multiplier_only_shifts_the_risk_over_all_answers():
    """Over all labels, by G0, the risk is the mean of delta under G for any mu; over a sample it is not."""
    theta, log_g0, said, _ = logged()
    delta = torch.from_numpy(np.random.default_rng(1).random((6, 3)))
    theta.requires_grad_()
    slopes, one_drawn = [], []
    for mu in (0.0, 0.6, 1.0):
        each = objective.risk(theta.log_softmax(1) - log_g0, delta, mu, float("inf"))
        total = (log_g0.exp() * each).sum(1).mean()
        torch.testing.assert_close(total, (theta.softmax(1) * delta).sum(1).mean())
        slopes.append(torch.autograd.grad(total, theta)[0])
        drawn = mean_risk(theta, log_g0, said, delta.gather(1, said[:, None])[:, 0], mu, float("inf"))
        one_drawn.append(torch.autograd.grad(drawn, theta)[0])
    torch.testing.assert_close(slopes[0], slopes[1])
    torch.testing.assert_close(slopes[0], slopes[2])
    assert (one_drawn[0] - one_drawn[2]).abs().max() > 0.01


def test_means_by_model_are_weighted():
    values, model = torch.tensor([1.0, 3.0, 5.0, 9.0]), torch.tensor([0, 0, 2, 2])
    mean = objective.by_model(values, model, 3, torch.tensor([1.0, 3.0, 1.0, 0.0]))
    assert mean.tolist() == [2.5, 0.0, 5.0]


# Choice of pairs


def sequences(weight, quota):
    """P(each set of pairs) when they are drawn one after another by weight."""
    found = {}
    for order in itertools.permutations(range(len(weight)), quota):
        left, p = weight.sum(), 1.0
        for i in order:
            p, left = p * weight[i] / left, left - weight[i]
        found[frozenset(order)] = found.get(frozenset(order), 0) + p
    return found


@pytest.mark.parametrize("quota", [1, 2])
@pytest.mark.parametrize("by_entropy", [True, False])
def test_pairs_are_chosen_by_one_over_entropy(quota, by_entropy):
    uncertainty = np.array([0.2, 0.5, 1.0, 0.4])
    worker, n = np.zeros(4, np.int64), 4000
    rng = np.random.default_rng(0)
    count = {}
    for _ in range(n):
        chosen = objective.choose_pairs(worker, uncertainty if by_entropy else None, np.array([quota]), rng)
        key = frozenset(np.flatnonzero(chosen).tolist())
        count[key] = count.get(key, 0) + 1
    expected = sequences(1 / uncertainty if by_entropy else np.ones(4), quota)
    assert set(count) == set(expected)
    for key, p in expected.items():
        assert abs(count[key] / n - p) < 4 * np.sqrt(p * (1 - p) / n)


def test_each_worker_gets_the_quota_or_all_pairs():
    worker = np.repeat([0, 1, 3], [5, 2, 4])
    chosen = objective.choose_pairs(worker, np.zeros(11), np.array([3, 9, 1, 0]), np.random.default_rng(0))
    assert np.bincount(worker[chosen], minlength=4).tolist() == [3, 2, 0, 0]


# Networks of several models


def test_layout_round_trip():
    model = torch.tensor([0, 2, 2, 2])
    values = torch.arange(8.0).view(4, 2)
    layout = Layout(model, 3)
    spread = layout.spread(values)
    assert spread.shape == (3, 3, 2)
    assert spread[0, 0].tolist() == [0, 1]
    assert spread[1].abs().sum() == 0
    torch.testing.assert_close(layout.flat(spread), values)


def inputs(n_models=2, rows=4, workers=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(n_models, rows, 5))).float()
    f = torch.from_numpy(rng.dirichlet(np.ones(classes), (n_models, rows))).float()
    model = torch.tensor([0, 0, 0, 1, 1])  # more pairs of one than of the other
    row, worker = torch.tensor([0, 1, 3, 2, 2]) + model * rows, torch.tensor([2, 0, 0, 1, 2]) + model * workers
    return x, f, row, worker, torch.from_numpy(rng.normal(size=(5, classes))).float()


def test_models_and_pairs_are_independent():
    both = Generator(2, 5, 3, 3, 0, use_task=True, use_worker=True).eval()
    x, f, row, worker, noise = inputs()
    joint = both(x, f, row, worker, noise)
    torch.testing.assert_close(joint.exp().sum(1), torch.ones(5))
    for p in range(5):
        torch.testing.assert_close(both(x, f, row[[p]], worker[[p]], noise[[p]])[0], joint[p])
    first = Generator(1, 5, 3, 3, 0, use_task=True, use_worker=True).eval()  # model 0 of both has the same seed
    alone = first(x[:1], f[:1], row[:3], worker[:3], noise[:3])
    torch.testing.assert_close(alone, joint[:3])


def test_auxiliary_network_sees_task_worker_and_label():
    judge, auxiliary = Discriminator(2, 5, 3, 3, 0, True).eval(), Auxiliary(2, 3, 0)
    x, _, row, worker, _ = inputs()
    places = judge.embed(x)
    label = torch.tensor([0, 1, 2, 0, 1])
    joint = auxiliary(places, row, worker, label)
    torch.testing.assert_close(joint.exp().sum(1), torch.ones(5))
    for p in range(5):
        torch.testing.assert_close(auxiliary(places, row[[p]], worker[[p]], label[[p]])[0], joint[p])
    for other in (
        (row[[1]], worker[[0]], label[[0]]),
        (row[[0]], worker[[1]], label[[0]]),
        (row[[0]], worker[[0]], label[[1]]),
    ):
        assert (auxiliary(places, *other)[0] - joint[0]).abs().max() > 1e-5
    assert places.label.shape == (2, 3, EMBEDDING, EMBEDDING)


@pytest.mark.parametrize(("use_task", "use_worker"), [(True, True), (False, True), (True, False)])
def test_generator_sees_only_its_inputs(use_task, use_worker):
    model = Generator(2, 5, 3, 3, 0, use_task=use_task, use_worker=use_worker).eval()
    x, f, row, worker, noise = inputs()
    before = model(x, f, row, worker, noise)
    others = {
        "task": (x + 1, f, row, worker, noise),
        "worker": (x, f, row, worker // 3 * 3 + (worker + 1) % 3, noise),
        "classifier": (x, f.flip(2), row, worker, noise),
        "noise": (x, f, row, worker, noise + 1),
    }
    differs = {name: bool((model(*other) - before).abs().max() > 1e-5) for name, other in others.items()}
    assert differs == {"task": use_task, "worker": use_worker, "classifier": True, "noise": True}


# The pool


def pooled(answers, max_pairs, n_models=2, **options):
    X = np.random.default_rng(0).normal(size=(answers.n_tasks, 4)).astype(np.float32)
    real = Batches(open_features(X), answers, batch_size=16, n_models=n_models, **options)
    return Pool(real, 16, max_pairs, 1.0, 0)


@pytest.mark.parametrize("max_pairs", [10, 10_000])
def test_pool_has_all_answers_and_at_most_max_pairs_missing_pairs(answers, max_pairs):
    pool = pooled(answers, max_pairs)
    given = set(zip(answers.task.tolist(), answers.worker.tolist(), strict=True))
    pairs = list(zip(pool.answers.task.tolist(), pool.answers.worker.tolist(), strict=True))
    assert [pair in given for pair in pairs] == (~pool.generated).tolist()
    assert (~pool.generated).sum() == answers.n_answers
    assert pool.generated.sum() == min(max_pairs, 40 * 6 - answers.n_answers)
    np.testing.assert_array_equal(pool.labels[1, ~pool.generated], answers.label)


def test_batches_of_a_pool_have_positions_as_labels(answers):
    pool = pooled(answers, 50)
    seen = np.zeros(pool.labels.shape, int)
    which = np.stack([pool.generated, ~pool.generated])  # another choice for each model
    for batch in pool.epoch(3):
        some = pool.select(batch, which)
        model, place = some.at
        np.add.at(seen, (model.numpy(), place.numpy()), 1)
        np.testing.assert_array_equal(batch.task[some.row], pool.answers.task[place])
        np.testing.assert_array_equal(some.worker % 6, pool.answers.worker[place])
    np.testing.assert_array_equal(seen, which)


def test_tasks_of_weight_zero_are_not_in_a_batch(answers):
    weight = np.where(np.arange(40) % 4, 1.0, 0.0)
    pool = pooled(answers, 10_000, task_weight=weight, active=weight > 0)
    tasks = np.concatenate([batch.task for batch in pool.epoch(0)])
    assert set(tasks) == set(np.flatnonzero(weight))
