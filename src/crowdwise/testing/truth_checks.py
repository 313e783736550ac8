"""What every truth model must do."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
from sklearn.base import clone

from crowdwise.answers import Answers
from crowdwise.errors import EmptyError, GoldError, NotFittedError, ParameterError, WeightError
from crowdwise.io.model_files import load
from crowdwise.simulate import simulate
from crowdwise.testing.subject import Subject, expect, expect_equal, expect_error, expect_probabilities, votes
from crowdwise.truth.base import Array
from crowdwise.truth.em import EMModel


def check_probabilities_and_labels_agree(subject: Subject) -> None:
    """Rows of `proba_` are probabilities; `labels_` are the most probable classes."""
    model = subject.fit(votes().answers())
    expect_probabilities(model.proba_, (60, 3), "proba_", atol=1e-9)
    top = model.proba_.max(axis=1)
    expect_equal(model.proba_[np.arange(60), model.codes_], top, "labels_ are not the most probable", atol=1e-12)
    expect((model.classes_[model.codes_] == model.labels_).all(), "codes_ are not the positions of labels_")
    expect(len(model.history_) == model.n_iter_, "history_ does not have n_iter_ entries")


def check_infers_better_than_chance(subject: Subject) -> None:
    """More than 75 % of 300 labels are right, where workers are right on 50 to 95 % of the tasks."""
    crowd = votes(n_tasks=300)
    labels = subject.new().fit(crowd.answers(), _true_gold(subject, crowd.truth)).labels_
    accuracy = (labels == crowd.truth).mean()
    expect(accuracy > 0.75, f"the accuracy is {accuracy:.2f}")


def check_order_of_rows_does_not_matter(subject: Subject) -> None:
    """The rows of the answers can be in any order."""
    crowd = votes()
    order = np.random.default_rng(1).permutation(len(crowd.task))
    shuffled = Answers.from_arrays(crowd.task[order], crowd.worker[order], crowd.label[order])
    first, second = subject.fit(crowd.answers()), subject.fit(shuffled)
    expect_equal(first.proba_, second.proba_, "proba_ differs")
    expect_equal(first.labels_, second.labels_, "labels_ differ")


def check_names_of_ids_do_not_matter(subject: Subject) -> None:
    """Ids can be text instead of numbers."""
    crowd = votes()
    names = [f"{chr(97 + i)}x" for i in range(10)]
    renamed = Answers.from_arrays(
        [f"t{t:04d}" for t in crowd.task], [f"w{w:04d}" for w in crowd.worker], [names[c] for c in crowd.label]
    )
    plain, again = subject.fit(crowd.answers()), subject.fit(renamed)
    expect_equal(plain.proba_, again.proba_, "proba_ differs")
    expect([names[c] for c in plain.labels_] == again.labels_.tolist(), "labels_ differ")


def check_permuted_classes_permute_the_result(subject: Subject) -> None:
    """No class is special; `class_equivariant = False` says that one is."""
    if not subject.is_symmetric:
        return
    crowd, turn = votes(), np.roll(np.arange(3), 1)
    gold = np.where(np.arange(60) < 15, 0, -1).astype(np.int32) if subject.model.needs_gold else None
    turned_gold = None if gold is None else np.where(gold >= 0, turn[gold], -1).astype(np.int32)
    plain = subject.new().fit(crowd.answers(), gold)
    turned = subject.new().fit(Answers.from_arrays(crowd.task, crowd.worker, turn[crowd.label]), turned_gold)
    expect_equal(turned.proba_[:, turn], plain.proba_, "proba_ differs", atol=1e-6)


def check_a_seed_gives_the_same_result(subject: Subject) -> None:
    """Two fits with the same `random_state` are equal."""
    answers = votes().answers()
    first, second = subject.fit(answers, random_state=3), subject.fit(answers, random_state=3)
    expect_equal(first.proba_, second.proba_, "proba_ differs")
    expect_equal(first.labels_, second.labels_, "labels_ differ")


def check_a_saved_model_loads_unchanged(subject: Subject) -> None:
    """`save` and `crowdwise.load` keep parameters and results."""
    crowd = votes()
    model = subject.fit(Answers.from_arrays(crowd.task, crowd.worker, [f"c{c}" for c in crowd.label]))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.safetensors")
        loaded = load(Path(folder) / "model.safetensors")
    expect(type(loaded) is type(model), f"a {type(loaded).__name__} was loaded")
    expect(str(loaded) == str(model), f"{loaded} was loaded instead of {model}")
    expect(set(vars(loaded)) == set(vars(model)), "the loaded model has other attributes")
    for name in ("proba_", "labels_", "confusion_", "skill_"):
        if hasattr(model, name):
            expect_equal(getattr(loaded, name), getattr(model, name), f"{name} differs")
    expect(loaded.answers_ == model.answers_, "answers_ differ")


def check_clone_and_display(subject: Subject) -> None:
    """`sklearn.base.clone` works; a model that is not fitted says so."""
    model = subject.new()
    expect(repr(clone(model)) == repr(model), "the clone is displayed differently")
    with expect_error(NotFittedError, "labels_ before a fit", "fit"):
        _ = model.labels_


def check_one_class(subject: Subject) -> None:
    """Answers of one class only are fitted."""
    model = subject.fit(Answers.from_arrays([0, 0, 1], [0, 1, 0], ["x", "x", "x"]))
    expect(model.labels_.tolist() == ["x", "x"], "labels_ differ")
    expect_equal(model.proba_, np.ones((2, 1)), "proba_ is not 1")


def check_a_class_without_answers_is_improbable(subject: Subject) -> None:
    """A class that nobody answered is never the label."""
    crowd = votes(2, n_tasks=200)
    model = subject.new().fit(crowd.answers(classes=[0, 1, 2]), _true_gold(subject, crowd.truth))
    expect(np.isfinite(model.proba_).all(), "proba_ contains NaN or infinity")
    expect((model.codes_ != 2).all(), "it is the label of a task")


def check_a_task_without_answers(subject: Subject) -> None:
    """A task without answers has a row of probabilities."""
    model = subject.fit(votes(2).answers(tasks=range(61)))
    expect_probabilities(model.proba_, (61, 2), "proba_")


def check_long_tasks_do_not_underflow(subject: Subject) -> None:
    """A task can have 1,500 answers."""
    rng, n = np.random.default_rng(0), 1500
    label = np.concatenate([(rng.random(n) < 0.4), (rng.random(n) < 0.7)]).astype(int)
    model = subject.fit(Answers.from_arrays(np.repeat([0, 1], n), np.tile(np.arange(n), 2), label))
    expect_probabilities(model.proba_, (2, 2), "proba_")


def check_gold_labels_are_kept(subject: Subject) -> None:
    """The label of a gold task is its gold label, with probability 1."""
    answers = votes(2).answers()
    gold = np.full(60, -1, np.int32)
    gold[[3, 7]] = 0, 1
    gold[8:20] = answers.label[answers.task_starts[8:20]]
    model, known = subject.new().fit(answers, gold), gold >= 0
    expect_equal(model.codes_[known], gold[known], "labels_ differ")
    expect_equal(model.proba_[known, gold[known]], np.ones(known.sum()), "proba_ differs")


def check_equal_weights_change_nothing(subject: Subject) -> None:
    """Answers of weight 1 are answers; `uses_weights = False` says that weights are rejected."""
    crowd = votes(2)
    weighted = crowd.answers(weight=np.ones(len(crowd.task)))
    if not subject.takes_answer_weights:
        with expect_error(WeightError, "answers with weights"):
            subject.new().fit(weighted)
        return
    expect_equal(subject.fit(weighted).proba_, subject.fit(crowd.answers()).proba_, "proba_ differs", atol=1e-5)


def check_answers_of_weight_zero_are_ignored(subject: Subject) -> None:
    """Answers of weight 0 by a new worker change nothing."""
    if not subject.takes_answer_weights:
        return
    crowd = votes(2)
    ones = np.ones(len(crowd.task))
    more = Answers.from_arrays(
        np.append(crowd.task, crowd.task[:30:4]), np.append(crowd.worker, np.full(8, 99)),
        np.append(crowd.label, 1 - crowd.label[:30:4]), weight=np.append(ones, np.zeros(8)),
    )  # fmt: skip
    expect_equal(subject.fit(more).proba_, subject.fit(crowd.answers(weight=ones)).proba_, "proba_ differs", atol=1e-5)


def check_an_answer_of_weight_zero_is_the_same_as_none(subject: Subject) -> None:
    """To the bit: such answers would count for the convergence limit, and as labels that a worker uses."""
    if not subject.takes_answer_weights:
        return
    answers = simulate(120, n_workers=10, n_classes=3, answers_per_task=3, seed=4).with_truth(None)
    kept = np.random.default_rng(4).random(answers.n_answers) > 0.25
    zero = dataclasses.replace(answers, weight=np.where(kept, 1.0, 0.0))
    none = dataclasses.replace(answers, weight=np.ones(answers.n_answers)).take(np.flatnonzero(kept))
    expect_equal(subject.fit(zero).proba_, subject.fit(none).proba_, "proba_ differs")


def check_partial_fit_gives_the_result_of_fit(subject: Subject) -> None:
    """Labels after answers that came in two parts are those of one fit, but for 3 %."""
    task, worker, label, _ = votes(2, n_tasks=200)
    early = task < 150
    first = Answers.from_arrays(task[early], worker[early], label[early], classes=[0, 1])
    later = Answers.from_arrays(task[~early], worker[~early], label[~early], classes=[0, 1])
    gold = {t: int(label[task == t][0]) for t in range(20)} if subject.model.needs_gold else None
    whole = subject.new().fit(Answers.from_arrays(task, worker, label), gold)
    model = subject.new().partial_fit(first, gold).partial_fit(later)
    expect(model.tasks_.tolist() == whole.tasks_.tolist(), "tasks_ differ")
    expect((model.labels_ == whole.labels_).mean() > 0.97, "more than 3 % of the labels differ")


def check_restarted_partial_fit_is_a_fit(subject: Subject) -> None:
    """`partial_fit(restart=True)` gives exactly the result of a fit on all answers."""
    if subject.model.needs_gold:
        return
    answers = simulate(300, n_workers=15, n_classes=4, answers_per_task=3, seed=4).with_truth(None)
    whole = subject.new().fit(answers)
    again = subject.new().fit(answers[:150]).partial_fit(answers[150:], restart=True)
    expect_equal(again.proba_, whole.proba_, "proba_ differs", atol=1e-9)


def check_the_bound_never_falls(subject: Subject) -> None:
    """Each iteration of EM raises the bound."""
    if not isinstance(subject.model, EMModel):
        return
    for seed in range(5):
        crowd = votes(seed=seed, per_task=2 + seed)
        gold = np.where(np.arange(60) < 10 * seed, crowd.truth, -1).astype(np.int32) if seed else None
        history = np.array(subject.new(max_iter=60, tol=0).fit(crowd.answers(), gold).history_)
        expect(len(history) == 60, "history_ does not have an entry per iteration")
        expect((np.diff(history) >= -1e-9 * np.abs(history[1:])).all(), "the bound falls")


def check_invalid_calls_raise(subject: Subject) -> None:
    """Invalid answers and parameters are rejected."""
    answers = Answers.from_arrays([0, 0], [0, 1], [0, 1])
    with expect_error(ParameterError, "a list instead of answers", "Answers"):
        subject.new().fit([[0, 1]])
    with expect_error(EmptyError, "no answers"):
        subject.new().fit(answers.select(workers=[0]).select(classes=[1]))
    if subject.model.needs_gold:
        with expect_error(GoldError, "no gold"):
            subject.new().fit(answers)
    bad = {
        "max_iter": (0, "5", 2.5, None, True), "tol": (-1.0, None, "x", np.nan), "n_init": (0, 1.5),
        "random_state": (-1, "a"),
    }  # fmt: skip
    for name in bad.keys() & subject.model.get_params(deep=False).keys():
        for value in bad[name]:
            with expect_error(ParameterError, f"{name}={value!r}", name):
                subject.new(**{name: value}).fit(answers)


def check_against_vote_fits_a_copy(subject: Subject) -> None:
    """`check_against_vote` works, and leaves the model as it is."""
    crowd = votes(2, n_tasks=300)
    model = subject.new()
    result = model.check_against_vote(crowd.answers(), _true_gold(subject, crowd.truth))
    expect(np.isfinite([result.difference, result.standard_error]).all(), "the difference is not finite")
    expect(result.n_answers == 240, f"{result.n_answers} answers were held out instead of 240")
    expect(str(model).partition("(")[0] in str(result), "the result does not name the model")
    expect(not hasattr(model, "answers_"), "the model itself was fitted")


def _true_gold(subject: Subject, truth: Array) -> Array | None:
    """Return the truth of a fifth to a third of the tasks, for methods that need gold."""
    if not subject.model.needs_gold:
        return None
    return np.where(np.arange(len(truth)) < 60, truth, -1).astype(np.int32)


CHECKS = [function for name, function in list(vars().items()) if name.startswith("check_")]
