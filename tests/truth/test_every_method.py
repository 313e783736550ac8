"""Behaviour that every registered truth method must have."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone

import crowdwise as cw
from crowdwise.errors import EmptyError, GoldError, NotFittedError, ParameterError, WeightError
from crowdwise.truth.em import EMModel
from crowdwise.truth.kernels.threads import use_threads
from tests.helpers.every_method import TRUTH, gold_of

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")


def crowd(n_classes=3, n_tasks=60, n_workers=8, per_task=4, seed=0):
    """Codes (task, worker, label) and truth of a small crowd of unequal workers."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_tasks)
    accuracy = rng.uniform(0.5, 0.95, n_workers)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.concatenate([rng.permutation(n_workers)[:per_task] for _ in range(n_tasks)])
    right = rng.random(len(task)) < accuracy[worker]
    label = np.where(right, truth[task], rng.integers(0, n_classes, len(task)))
    return task, worker, label, truth


def fitted(name, answers, **parameters):
    model = cw.make(name, **parameters)
    return model.fit(answers, gold_of(answers) if model.needs_gold else None)


@pytest.fixture(params=TRUTH)
def name(request):
    return request.param


def test_probabilities_and_labels_agree(name):
    task, worker, label, _ = crowd(3)
    model = fitted(name, cw.Answers.from_arrays(task, worker, label))
    assert model.proba_.shape == (60, 3)
    assert np.isfinite(model.proba_).all()
    assert (model.proba_ >= 0).all()
    np.testing.assert_allclose(model.proba_.sum(axis=1), 1, atol=1e-9)
    top = model.proba_.max(axis=1)
    np.testing.assert_allclose(model.proba_[np.arange(60), model.codes_], top, atol=1e-12)
    assert (model.classes_[model.codes_] == model.labels_).all()
    assert len(model.history_) == model.n_iter_


def test_infers_better_than_chance(name):
    task, worker, label, truth = crowd(3, n_tasks=300)
    model = cw.make(name)
    gold = np.where(np.arange(300) < 60, truth, -1).astype(np.int32) if model.needs_gold else None
    labels = model.fit(cw.Answers.from_arrays(task, worker, label), gold).labels_
    assert (labels == truth).mean() > 0.75


def test_result_does_not_depend_on_the_order_of_rows(name):
    task, worker, label, _ = crowd(3)
    first = fitted(name, cw.Answers.from_arrays(task, worker, label))
    order = np.random.default_rng(1).permutation(len(task))
    second = fitted(name, cw.Answers.from_arrays(task[order], worker[order], label[order]))
    np.testing.assert_array_equal(first.proba_, second.proba_)
    np.testing.assert_array_equal(first.labels_, second.labels_)


def test_result_does_not_depend_on_id_names(name):
    task, worker, label, _ = crowd(3)
    plain = fitted(name, cw.Answers.from_arrays(task, worker, label))
    names = [f"{chr(97 + i)}x" for i in range(10)]
    renamed = cw.Answers.from_arrays(
        [f"t{t:04d}" for t in task], [f"w{w:04d}" for w in worker], [names[c] for c in label]
    )
    again = fitted(name, renamed)
    np.testing.assert_array_equal(plain.proba_, again.proba_)
    assert [names[c] for c in plain.labels_] == again.labels_.tolist()


def test_permuted_classes_permute_the_result(name):
    if not getattr(type(cw.make(name)), "class_equivariant", True):
        pytest.skip("its random start is not symmetric in the classes")
    task, worker, label, _ = crowd(3)
    answers = cw.Answers.from_arrays(task, worker, label)
    turn = np.roll(np.arange(3), 1)
    gold = np.where(np.arange(60) < 15, 0, -1).astype(np.int32) if cw.make(name).needs_gold else None
    turned_gold = None if gold is None else np.where(gold >= 0, turn[gold], -1).astype(np.int32)
    plain = cw.make(name).fit(answers, gold)
    turned = cw.make(name).fit(cw.Answers.from_arrays(task, worker, turn[label]), turned_gold)
    np.testing.assert_allclose(turned.proba_[:, turn], plain.proba_, atol=1e-6)


def test_the_same_seed_gives_the_same_result(name):
    task, worker, label, _ = crowd(3)
    answers = cw.Answers.from_arrays(task, worker, label)
    parameters = {"random_state": 3} if "random_state" in cw.make(name).get_params() else {}
    first, second = fitted(name, answers, **parameters), fitted(name, answers, **parameters)
    np.testing.assert_array_equal(first.proba_, second.proba_)
    np.testing.assert_array_equal(first.labels_, second.labels_)


def test_result_does_not_depend_on_the_number_of_threads(name):
    task, worker, label, _ = crowd(3, n_tasks=400)
    answers = cw.Answers.from_arrays(task, worker, label)
    with use_threads(1):
        one = fitted(name, answers)
    with use_threads(3):
        np.testing.assert_array_equal(one.proba_, fitted(name, answers).proba_)


def test_a_saved_model_loads_unchanged(name, tmp_path):
    task, worker, label, _ = crowd(3)
    model = fitted(name, cw.Answers.from_arrays(task, worker, [f"c{c}" for c in label]))
    model.save(tmp_path / "model.safetensors")
    loaded = cw.load(tmp_path / "model.safetensors")
    assert type(loaded) is type(model)
    assert str(loaded.get_params()) == str(model.get_params())
    assert set(vars(loaded)) == set(vars(model))
    np.testing.assert_array_equal(loaded.proba_, model.proba_)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    for attribute in ("confusion_", "skill_"):
        if hasattr(model, attribute):
            np.testing.assert_array_equal(getattr(loaded, attribute), getattr(model, attribute))
    assert loaded.answers_ == model.answers_


def test_clone_and_repr(name):
    model = cw.make(name)
    assert repr(clone(model)) == repr(model)
    with pytest.raises(NotFittedError, match="fit"):
        _ = model.labels_


def test_one_class_is_fitted(name):
    model = fitted(name, cw.Answers.from_arrays([0, 0, 1], [0, 1, 0], ["x", "x", "x"]))
    assert model.labels_.tolist() == ["x", "x"]
    np.testing.assert_array_equal(model.proba_, 1)


def test_a_class_without_answers_is_improbable(name):
    task, worker, label, truth = crowd(2, n_tasks=200)
    model = cw.make(name)
    gold = np.where(np.arange(200) < 60, truth, -1).astype(np.int32) if model.needs_gold else None
    model.fit(cw.Answers.from_arrays(task, worker, label, classes=[0, 1, 2]), gold)
    assert np.isfinite(model.proba_).all()
    assert (model.codes_ != 2).all()


def test_a_task_without_answers_is_fitted(name):
    task, worker, label, _ = crowd(2)
    model = fitted(name, cw.Answers.from_arrays(task, worker, label, tasks=range(61)))
    assert model.proba_.shape == (61, 2)
    assert np.isfinite(model.proba_[60]).all()
    np.testing.assert_allclose(model.proba_[60].sum(), 1)


def test_long_tasks_do_not_underflow(name):
    rng = np.random.default_rng(0)
    n = 1500
    label = np.concatenate([(rng.random(n) < 0.4), (rng.random(n) < 0.7)]).astype(int)
    task, worker = np.repeat([0, 1], n), np.tile(np.arange(n), 2)
    model = fitted(name, cw.Answers.from_arrays(task, worker, label))
    np.testing.assert_allclose(model.proba_.sum(axis=1), 1)


def test_gold_labels_are_kept(name):
    task, worker, label, _ = crowd(2)
    answers = cw.Answers.from_arrays(task, worker, label)
    gold = np.full(60, -1, np.int32)
    gold[[3, 7]] = 0, 1
    gold[8:20] = answers.label[answers.task_starts[8:20]]
    model = cw.make(name).fit(answers, gold)
    known = gold >= 0
    np.testing.assert_array_equal(model.codes_[known], gold[known])
    np.testing.assert_array_equal(model.proba_[known, gold[known]], 1)


def test_equal_weights_change_nothing(name):
    task, worker, label, _ = crowd(2)
    plain = cw.Answers.from_arrays(task, worker, label)
    weighted = cw.Answers.from_arrays(task, worker, label, weight=np.ones(len(task)))
    model = cw.make(name)
    if not model.uses_weights:
        with pytest.raises(WeightError):
            model.fit(weighted)
        return
    np.testing.assert_allclose(fitted(name, weighted).proba_, fitted(name, plain).proba_, atol=1e-5)


def test_answers_of_weight_zero_are_ignored(name):
    if not cw.make(name).uses_weights:
        pytest.skip("takes no weights")
    task, worker, label, _ = crowd(2)
    extra_task, extra_worker, extra_label = task[:30:4], np.full(8, 99), 1 - label[:30:4]
    both = cw.Answers.from_arrays(
        np.append(task, extra_task), np.append(worker, extra_worker), np.append(label, extra_label),
        weight=np.append(np.ones(len(task)), np.zeros(8)),
    )  # fmt: skip
    plain = cw.Answers.from_arrays(task, worker, label, weight=np.ones(len(task)))
    np.testing.assert_allclose(fitted(name, both).proba_, fitted(name, plain).proba_, atol=1e-5)


def test_answer_of_weight_zero_is_the_same_as_none(name):
    """To the bit: such answers would count for the convergence limit, and as labels that a worker uses."""
    if not cw.make(name).uses_weights:
        pytest.skip("takes no weights")
    answers = cw.simulate.simulate(120, n_workers=10, n_classes=3, answers_per_task=3, seed=4).with_truth(None)
    kept = np.random.default_rng(4).random(answers.n_answers) > 0.25
    zero = dataclasses.replace(answers, weight=np.where(kept, 1.0, 0.0))
    none = dataclasses.replace(answers, weight=np.ones(answers.n_answers)).take(np.flatnonzero(kept))
    np.testing.assert_array_equal(fitted(name, zero).proba_, fitted(name, none).proba_)


def test_partial_fit_gives_the_result_of_fit(name):
    task, worker, label, _ = crowd(2, n_tasks=200)
    early = task < 150
    everything = cw.Answers.from_arrays(task, worker, label)
    first = cw.Answers.from_arrays(task[early], worker[early], label[early], classes=[0, 1])
    later = cw.Answers.from_arrays(task[~early], worker[~early], label[~early], classes=[0, 1])
    model = cw.make(name)
    gold = {t: int(label[task == t][0]) for t in range(20)} if model.needs_gold else None
    whole = cw.make(name).fit(everything, gold)
    model.partial_fit(first, gold).partial_fit(later)
    assert model.tasks_.tolist() == whole.tasks_.tolist()
    assert (model.labels_ == whole.labels_).mean() > 0.97


def test_restarted_partial_fit_gives_exactly_the_result_of_fit(name):
    """On this crowd, `dawid-skene` and `ibcc` end in another optimum if they continue from their estimates."""
    answers = cw.simulate.simulate(300, n_workers=15, n_classes=4, answers_per_task=3, seed=4).with_truth(None)
    if cw.make(name).needs_gold:
        pytest.skip("needs gold among the first answers")
    whole = cw.make(name).fit(answers)
    again = cw.make(name).fit(answers[:150]).partial_fit(answers[150:], restart=True)
    np.testing.assert_allclose(again.proba_, whole.proba_, atol=1e-9)
    if name in ("dawid-skene", "ibcc"):
        continued = cw.make(name).fit(answers[:150]).partial_fit(answers[150:])
        assert np.abs(continued.proba_ - whole.proba_).max() > 0.5


def test_bound_never_falls(name):
    if not isinstance(cw.make(name), EMModel):
        pytest.skip("not an EM model")
    for seed in range(5):
        task, worker, label, truth = crowd(3, seed=seed, per_task=2 + seed)
        answers = cw.Answers.from_arrays(task, worker, label)
        gold = np.where(np.arange(60) < 10 * seed, truth, -1).astype(np.int32) if seed else None
        history = np.array(cw.make(name, max_iter=60, tol=0).fit(answers, gold).history_)
        assert len(history) == 60
        assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()


def test_invalid_calls_raise(name):
    model = cw.make(name)
    answers = cw.Answers.from_arrays([0, 0], [0, 1], [0, 1])
    with pytest.raises(ParameterError, match="Answers"):
        model.fit([[0, 1]])
    with pytest.raises(EmptyError):
        model.fit(answers.select(workers=[0]).select(classes=[1]))
    if model.needs_gold:
        with pytest.raises(GoldError):
            model.fit(answers)
    if isinstance(model, EMModel):
        for parameters in ({"max_iter": 0}, {"tol": -1.0}, {"n_init": 0}):
            with pytest.raises(ParameterError):
                cw.make(name, **parameters).fit(answers)
    bad = {"max_iter": ("5", 2.5, None, True), "tol": (None, "x", np.nan), "n_init": (1.5,), "random_state": (-1, "a")}
    for parameter in bad.keys() & model.get_params().keys():
        for value in bad[parameter]:
            with pytest.raises(ParameterError, match=parameter):
                cw.make(name, **{parameter: value}).fit(answers)


def test_check_against_vote(name):
    task, worker, label, truth = crowd(2, n_tasks=300)
    answers = cw.Answers.from_arrays(task, worker, label)
    model = cw.make(name)
    gold = np.where(np.arange(300) < 60, truth, -1).astype(np.int32) if model.needs_gold else None
    result = model.check_against_vote(answers, gold)
    assert np.isfinite([result.difference, result.standard_error]).all()
    assert result.n_answers == 240
    assert type(model).__name__ in str(result)
    assert not hasattr(model, "answers_")  # a copy is fitted, not the model itself
