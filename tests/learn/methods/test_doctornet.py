import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise import simulate
from crowdwise.errors import NotFittedError, ParameterError
from crowdwise.learn.features import open_features
from crowdwise.learn.methods import doctornet
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.doctornet import DoctorModule, DoctorNet
from crowdwise.learn.network.architectures import MLP
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.modules import Dense
from crowdwise.truth.base import vote_shares
from tests.helpers.crowds import answers_of, blobs, uneven

QUICK = {"network": "logistic", "epochs": 20, "lr": 2e-2, "batch_size": 32}


def small(n_models=2, exclude_self=False, task_weight=None):
    """Return a module in double precision with random weights, and a batch of all tasks; worker 3 has no answers.

    Task 0 is answered by all workers but 3.
    """
    rng = np.random.default_rng(0)
    task, worker = [0, 0, 0, 1, 2, 2, 3, 4, 4], [0, 1, 2, 0, 1, 2, 2, 0, 2]
    answers = cw.Answers.from_codes(task, worker, rng.integers(0, 3, 9), tasks=5, workers=4, classes=3)
    batches = Batches(
        open_features(rng.normal(size=(5, 4))), answers, batch_size=5, n_models=n_models, task_weight=task_weight
    )
    module = DoctorModule(
        Dense(4, [5], 3, n_models, 0), answers, 0, vote_shares(answers), exclude_self=exclude_self
    ).double()
    module.silent[3] = True
    with torch.no_grad():
        for p in module.parameters():
            p += 0.5 * torch.from_numpy(rng.normal(size=p.shape))
    (batch,) = batches.epoch(0)
    batch.x = batch.x.double()
    return module, answers, batch


def said_by_all(module, x):
    """Return probabilities [model, row, worker, class], head by head."""
    hidden = module.network.embed(x).detach().numpy()
    heads, bias = (p.detach().numpy().reshape(module.n_models, module.n_workers, *p.shape[1:])
                   for p in (module.heads, module.bias))  # fmt: skip
    logits = np.einsum("mrh,mwhc->mrwc", hidden, heads) + bias[:, None]
    odds = np.exp(logits)
    return odds / odds.sum(axis=3, keepdims=True)


@pytest.mark.parametrize("exclude_self", [False, True])
def test_gradients_match_finite_differences(exclude_self):
    module, _, batch = small(exclude_self=exclude_self, task_weight=np.array([1, 2, 0.5, 1, 1]))
    module.votes = module.votes.double()
    parameters = tuple(module.parameters())
    assert torch.autograd.gradcheck(lambda *_: module.loss(batch), parameters)
    assert torch.autograd.gradcheck(lambda *_: module.weight_loss(batch), (module.weight,))
    assert torch.autograd.grad(module.weight_loss(batch), module.weight)[0].abs().max() > 1e-3


def test_the_loss_uses_the_head_of_each_worker():
    module, _, batch = small()
    proba = said_by_all(module, batch.x)
    model, row = np.divmod(batch.row, 5)
    p = proba[model, row, batch.worker % 4, batch.label]
    assert module.loss(batch).item() == pytest.approx(2 * -np.log(p).mean(), rel=1e-6)


def test_dense_and_sparse_heads_agree(monkeypatch):
    """One matrix product, or one head per answer: the same loss, gradients and predictions."""
    module, _, batch = small()
    row, worker = torch.arange(10).repeat_interleave(4), torch.cat([torch.arange(4).repeat(5) + 4 * m for m in (0, 1)])
    log_f = module.class_log_proba(batch.x).flatten(0, 1)
    everyone = module.answer_log_proba(batch.x, log_f, row, worker)  # all pairs: one matrix product
    some = [module.answer_log_proba(batch.x, log_f, row[[a]], worker[[a]])[0] for a in range(40)]
    torch.testing.assert_close(everyone, torch.stack(some))
    results = []
    for dense in (0, 10**9):
        monkeypatch.setattr(doctornet, "DENSE", dense)
        loss = module.loss(batch)
        results.append(
            [loss, *torch.autograd.grad(loss, [*module.network.layers.parameters(), module.heads, module.bias])]
        )
    for fetched, all_at_once in zip(*results, strict=True):
        torch.testing.assert_close(fetched, all_at_once)
        assert fetched.abs().max() > 0


@pytest.mark.parametrize("exclude_self", [False, True])
def test_cached_heads_do_not_change_the_weights(exclude_self, monkeypatch):
    """The weights are the same with and without the cache."""
    X, truth = blobs(n_tasks=60)
    answers = answers_of(truth, uneven())
    options = {"network": MLP(8, batchnorm=True), "epochs": 3, "weight_epochs": 20, "weight_lr": 0.1, "n_models": 2}
    fitted = []
    for size in (0, doctornet.MAX_CACHE):
        monkeypatch.setattr(doctornet, "MAX_CACHE", size)
        fitted.append(DoctorNet(exclude_self=exclude_self, batch_size=16, **options).fit(X, answers))
    np.testing.assert_allclose(fitted[0].weight_, fitted[1].weight_, rtol=1e-4)
    assert fitted[0].weight_.std() > 1e-3
    assert fitted[1].module_.cache is None  # freed after the fit


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("drawn", [None, [[0, 2], [1, 2]]])
def test_the_weight_loss_equals_its_formula(exclude_self, drawn, monkeypatch):
    """With all heads, or with those drawn for the batch, separately per model."""
    module, answers, batch = small(exclude_self=exclude_self)
    if drawn is not None:
        monkeypatch.setattr(module, "_random_heads", lambda: torch.tensor(drawn))
    proba, total = said_by_all(module, batch.x), 0.0
    for i, task in enumerate(batch.task):
        model, row = divmod(i, 5)
        mine = answers.task == task
        counted = {0, 1, 2} if drawn is None else set(drawn[model])  # worker 3 has no weight
        if exclude_self and (others := counted - set(answers.worker[mine].tolist())):  # on task 0 nobody else is left
            counted = others
        odds = [np.exp(module.weight[model, w].item()) if w in counted else 0.0 for w in range(4)]
        f = np.array(odds) @ proba[model, row] / sum(odds)
        share = np.bincount(answers.label[mine], minlength=3) / mine.sum()
        total -= share @ np.log(f) / 5
    assert module.weight_loss(batch).item() == pytest.approx(total, rel=1e-6)


def test_predictions_in_blocks_equal_the_mixture(monkeypatch):
    module, _, batch = small()
    proba, weight = said_by_all(module, batch.x), module.log_weight().exp().detach().numpy()
    np.testing.assert_allclose(weight[:, 3], 0)
    mixture = np.einsum("mrwc,mw->mrc", proba, weight)
    row, worker = torch.tensor([0, 4, 7, 9]), torch.tensor([0, 2, 5, 7])
    for cells in (doctornet.CELLS, 60, 1):  # all rows, some and one at a time
        monkeypatch.setattr(doctornet, "CELLS", cells)
        log_f = module.class_log_proba(batch.x)
        np.testing.assert_allclose(log_f.exp().detach(), mixture, rtol=1e-6)
        own = module.answer_log_proba(batch.x, log_f.flatten(0, 1), row, worker).exp().detach()
        wanted = [proba[0, 0, 0], proba[0, 4, 2], proba[1, 2, 1], mixture[1, 4]]  # worker 3 answers as the mixture
        np.testing.assert_allclose(own, wanted, rtol=1e-6)


def test_large_crowds_use_the_heads_of_largest_weight():
    """Evenly spaced heads before there are weights, and never a worker without answers."""
    module, _, batch = small()
    proba, weight = said_by_all(module, batch.x), module.weight.detach().numpy()
    module.max_heads = 2
    top = np.argsort(-weight[:, :3], axis=1)[:, :2]
    odds = np.exp(np.take_along_axis(weight, top, axis=1))
    mixture = np.array([odds[m] / odds[m].sum() @ proba[m][:, top[m]] for m in (0, 1)])  # (models, rows, classes)
    np.testing.assert_allclose(module.class_log_proba(batch.x).exp().detach(), mixture, rtol=1e-6)
    with torch.no_grad():
        module.weight.zero_()
    even = proba[:, :, [0, 2]].mean(axis=2)
    np.testing.assert_allclose(module.class_log_proba(batch.x).exp().detach(), even, rtol=1e-6)


def test_random_heads_are_distinct_and_have_answers():
    module, _, _ = small()
    assert module._random_heads() is None
    module.max_heads = 2
    drawn = np.array([module._random_heads().numpy() for _ in range(50)])  # (draws, models, heads)
    assert (np.diff(drawn, axis=2) > 0).all()
    assert set(drawn.ravel().tolist()) == {0, 1, 2}


def test_answer_proba_skips_the_mixture_if_all_workers_have_answers(monkeypatch):
    module, _, batch = small()
    row, worker = torch.tensor([0, 4, 7, 9]), torch.tensor([0, 2, 5, 7])
    expected = module.answer_log_proba(batch.x, module.class_log_proba(batch.x).flatten(0, 1), row, worker)
    torch.testing.assert_close(module.predict_answer_log_proba(batch.x, row, worker), expected)
    monkeypatch.setattr(module, "class_log_proba", None)
    torch.testing.assert_close(module.predict_answer_log_proba(batch.x, row[:3], worker[:3]), expected[:3])


def test_one_worker_equals_supervised_training():
    X, truth = blobs(n_tasks=60)
    answers = cw.Answers.from_codes(np.arange(60), np.zeros(60, int), truth, tasks=60, workers=1, classes=3)
    model = DoctorNet(network="logistic", epochs=5, weighted=False).fit(X, answers)
    network = model._network(open_features(X), 3)
    module = model._module(network, answers)
    weight, bias = (p[0].detach().clone().requires_grad_() for p in (module.heads, module.bias))
    optimiser = torch.optim.Adam([weight, bias], lr=1e-3)
    for epoch in range(5):
        for batch in Batches(open_features(X), answers, batch_size=64).epoch(epoch):
            logits = network.embed(batch.x)[0] @ weight + bias
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, torch.from_numpy(truth[batch.task])).backward()
            optimiser.step()
    plain = (network.embed(torch.from_numpy(X)[None])[0] @ weight + bias).softmax(1).detach().numpy()
    np.testing.assert_allclose(model.predict_proba(X), plain, atol=1e-5)
    np.testing.assert_allclose(model.answer_proba(X, worker=0), plain, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_beats_training_on_votes(seed):
    """If most answers are guesses the vote is noisy; heads average over all answers of their worker."""
    X, truth = blobs(400, seed=seed)
    confusion = simulate.crowd(12, 3, {"hammer": 0.25, "uniform-guess": 0.75}, seed=seed)
    answers = answers_of(truth[:200], confusion, 4, seed=seed)
    votes = Aggregated("majority-vote", soft=False, **QUICK).fit(X[:200], answers)
    model = DoctorNet(weight_epochs=20, **QUICK).fit(X[:200], answers)
    assert model.score(X[200:], truth[200:]) > votes.score(X[200:], truth[200:]) + 0.02
    assert (model.labels_ == truth[:200]).mean() > (cw.MajorityVote().fit(answers).labels_ == truth[:200]).mean() + 0.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("exclude_self", [False, True])
def test_weights_favour_good_workers(seed, exclude_self):
    """Five good workers, and fifteen with few, random answers, whose heads are near random."""
    X, truth = blobs(300, seed=seed)
    confusion = simulate.crowd(5, 3, "one-coin", accuracy=(0.9, 0.95), seed=seed)
    confusion = np.concatenate([confusion, np.full((15, 3, 3), 1 / 3)])
    activity = np.repeat([0.19, 0.05 / 15], [5, 15])
    answers = simulate.answer(truth, confusion, 2.5, activity=activity, seed=seed)
    model = DoctorNet(exclude_self=exclude_self, weight_epochs=30, weight_lr=0.05, **QUICK).fit(X, answers)
    assert model.weight_.sum() == pytest.approx(1, abs=1e-6)
    assert model.weight_[:5].sum() > 0.7  # a quarter of the heads
    plain = DoctorNet(weighted=False, **QUICK).fit(X, answers)
    counted = np.bincount(answers.worker, minlength=20) > 0
    np.testing.assert_allclose(plain.weight_, counted / counted.sum(), atol=1e-7)
    assert model.score(X, truth) >= plain.score(X, truth)
    some = DoctorNet(exclude_self=exclude_self, weight_epochs=60, weight_lr=0.05, max_heads=10, **QUICK).fit(X, answers)
    assert some.weight_[:5].sum() > 0.7  # also with ten random heads per batch


def test_workers_with_only_ignored_tasks_have_no_weight():
    X, truth = blobs(60)
    answers = answers_of(truth, uneven(), 2)
    weight = np.where(np.isin(np.arange(60), answers.task[answers.worker == 2]), 0.0, 1.0)
    model = DoctorNet(epochs=2, weight_epochs=2, n_models=2).fit(X, answers, sample_weight=weight)
    np.testing.assert_array_equal(np.flatnonzero(model.weight_ == 0), [2])
    np.testing.assert_allclose(model.answer_proba(X, worker=2), model.predict_proba(X), atol=1e-6)


def test_imbalance_losses_apply_only_to_the_first_stage():
    """With untrained heads the weights do not depend on the loss."""
    X, truth = blobs(90, shares=[0.8, 0.1, 0.1])
    answers = answers_of(truth, uneven())
    first = {}
    for loss in ("ce", "cb_focal", "reweight"):
        model = DoctorNet(loss=loss, epochs=1, lr=1e-12, weight_epochs=2, batch_size=16)
        first[loss] = model.fit(X, answers).history_
    for loss in ("cb_focal", "reweight"):
        assert first[loss][0]["loss"] != pytest.approx(first["ce"][0]["loss"], rel=1e-3)
        assert first[loss][1]["loss"] == pytest.approx(first["ce"][1]["loss"], rel=1e-6)


def test_the_second_stage_changes_only_the_weights():
    X, truth = blobs(90)
    answers = answers_of(truth, uneven())
    options = {"network": MLP(8, dropout=0.5, batchnorm=True), "epochs": 2, "weight_epochs": 2, "n_models": 2}
    plain, weighted = (DoctorNet(weighted=w, **options).fit(X, answers).module_.state_dict() for w in (False, True))
    differ = [name for name, value in plain.items() if not torch.equal(value, weighted[name])]
    assert differ == ["weight"]


def test_models_trained_together_equal_models_trained_alone():
    X, truth = blobs(90)
    answers = answers_of(truth, uneven())
    three = DoctorNet(epochs=3, weight_epochs=3, n_models=3).fit(X, answers)
    one = DoctorNet(epochs=3, weight_epochs=3).fit(X, answers)
    members = three.member_proba(X)
    assert np.isfinite(members).all()
    assert np.abs(members[0] - members[1]).max() > 1e-3
    np.testing.assert_allclose(members[0], one.member_proba(X)[0], atol=1e-5)  # independent of the other model


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop", [1, 3, 4, 5])  # in the first stage, at its end, in the second stage
@pytest.mark.parametrize("options", [{"max_heads": 5}, {"clip": 0.1, "select": "held_out", "exclude_self": True}])
def test_a_resumed_fit_equals_an_uninterrupted_one(tmp_path, stop, options):
    X, truth = blobs(60)
    answers = answers_of(truth, uneven())
    options = {"epochs": 3, "weight_epochs": 3, "n_models": 2, "batch_size": 20, **options}
    expected = DoctorNet(**options).fit(X, answers)
    seen = []

    def callback(record):
        seen.append(record)
        if len(seen) > stop:
            raise Stop

    interrupted = DoctorNet(checkpoint=str(tmp_path / "fit"), **options)
    with pytest.raises(Stop):
        interrupted.fit(X, answers, callback=callback)
    assert len(seen) == stop + 1
    again = interrupted.fit(X, answers)
    np.testing.assert_array_equal(again.weight_, expected.weight_)
    np.testing.assert_array_equal(again.member_proba(X), expected.member_proba(X))
    assert again.history_ == expected.history_
    assert len(expected.history_) == 6


def test_weights_are_learnt_for_the_selected_epoch():
    X, truth = blobs(90)
    options = {"epochs": 6, "lr": 0.2, "weight_epochs": 4, "weight_lr": 0.1, "select": "held_out", "hidden": 0.3}
    plain, model = (DoctorNet(weighted=w, **options).fit(X, answers_of(truth, uneven())) for w in (False, True))
    scores = [record["held_out"] for record in plain.history_]
    assert np.argmax(scores) < 5
    np.testing.assert_array_equal(model.module_.heads.detach(), plain.module_.heads.detach())
    assert np.ptp(model.weight_) > 0.05


def test_invalid_use_is_rejected():
    X, truth = blobs(30)
    answers = answers_of(truth, uneven())
    for bad in ({"weight_epochs": 0}, {"weight_lr": 0}, {"weight_epochs": 1.5}, {"max_heads": 0}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            DoctorNet(**bad).fit(X, answers)
    with pytest.raises(NotFittedError):
        DoctorNet().weight_  # noqa: B018


def test_votes_given_ignores_pseudo_answers():
    """Pseudo-answers train the heads, but the weights are learnt from the other votes."""
    X, truth = blobs(n_tasks=40)
    answers = answers_of(truth, uneven())
    pseudo = np.arange(answers.n_answers) % 3 == 0
    mixed = cw.Answers.from_codes(
        answers.task, answers.worker, answers.label, tasks=40, workers=8, classes=3, pseudo=pseudo
    )
    fitted = {votes: DoctorNet(votes=votes, epochs=1, weight_epochs=1).fit(X, mixed) for votes in ("all", "given")}
    people = answers.take(np.flatnonzero(~pseudo))
    np.testing.assert_allclose(fitted["all"].module_.votes[0], vote_shares(answers), atol=1e-6)
    np.testing.assert_allclose(fitted["given"].module_.votes[0], vote_shares(people), atol=1e-6)
    assert np.abs(fitted["all"].weight_ - fitted["given"].weight_).max() > 0
