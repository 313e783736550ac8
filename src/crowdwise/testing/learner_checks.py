"""What every learner must do."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

from crowdwise.answers import Answers
from crowdwise.errors import (
    CrowdwiseError,
    EmptyError,
    FeaturesError,
    NotFittedError,
    ParameterError,
    SingleClassError,
    UnknownIdError,
    WeightError,
)
from crowdwise.io.model_files import load
from crowdwise.testing.subject import (
    N_CLASSES,
    N_TASKS,
    N_WORKERS,
    Subject,
    answers_of,
    blobs,
    expect,
    expect_equal,
    expect_error,
    expect_probabilities,
)
from crowdwise.truth.base import Array

SIZES: dict[str, Any] = {"tasks": N_TASKS, "workers": N_WORKERS, "classes": N_CLASSES}


def check_probabilities_and_labels_agree(subject: Subject) -> None:
    """`proba_` and `predict_proba` hold probabilities; labels and predictions are the most probable classes."""
    (X, answers, _), model = subject.data, subject.fitted
    for proba, what in ((model.proba_, "proba_"), (model.predict_proba(X), "predict_proba")):
        expect_probabilities(proba, (N_TASKS, N_CLASSES), what)
    expect((model.classes_[model.codes_] == model.labels_).all(), "codes_ are not the positions of labels_")
    best = model.classes_[model.predict_proba(X).argmax(axis=1)]
    expect((model.predict(X) == best).all(), "predict is not the most probable class")
    expect(model.tasks_.tolist() == answers.tasks.tolist(), "tasks_ are not those of the answers")


def check_answer_proba_of_one_some_and_all_workers_agree(subject: Subject) -> None:
    """`answer_proba` holds probabilities, for one worker, some, or all."""
    (X, answers, _), model = subject.data, subject.fitted
    everyone = model.answer_proba(X[:5])
    expect_probabilities(everyone, (5, N_WORKERS, N_CLASSES), "answer_proba", atol=1e-5)
    one = model.answer_proba(X[:5], worker=answers.workers[2])
    expect_equal(one, everyone[:, 2], "one worker differs", atol=1e-6)
    some = model.answer_proba(X[:5], worker=answers.workers[[4, 1]])
    expect_equal(some, everyone[:, [4, 1]], "two workers differ", atol=1e-6)
    with expect_error(UnknownIdError, "an unknown worker", "999"):
        model.answer_proba(X[:5], worker=999)


def check_score_is_the_likelihood_of_answers_or_the_accuracy(subject: Subject) -> None:
    """`score` takes answers or labels; the truth of answers is not used."""
    (X, answers, truth), model = subject.data, subject.fitted
    proba = model.answer_proba(X)[answers.task, answers.worker, answers.label]
    expect_equal(model.score(X, answers), np.log(proba).mean(), "the likelihood of answers differs", atol=1e-4)
    expect(model.score(X, truth) == (model.predict(X) == truth).mean(), "the accuracy differs")
    known = answers.with_truth(truth.astype(np.int32))
    expect(model.score(X, known) == model.score(X, answers), "truth of the answers changes the score")


def check_easy_classes_are_learned(subject: Subject) -> None:
    """More than 85 % of 400 new tasks with well separated classes are right."""
    X, truth = blobs(400, distance=4)
    X_new, truth_new = blobs(400, distance=4, seed=5)
    accuracy = subject.new().fit(X, answers_of(truth, (0.7, 0.95))).score(X_new, truth_new)
    expect(accuracy > 0.85, f"the accuracy is {accuracy:.2f}")


def check_order_of_answers_does_not_matter(subject: Subject) -> None:
    """The rows of the answers can be in any order."""
    X, answers, _ = subject.data
    order = np.random.default_rng(1).permutation(answers.n_answers)
    shuffled = Answers.from_arrays(answers.task[order], answers.worker[order], answers.label[order])
    expect_equal(subject.new().fit(X, shuffled).proba_, subject.fitted.proba_, "proba_ differs")


def check_names_of_ids_do_not_matter(subject: Subject) -> None:
    """Ids can be text instead of numbers."""
    (X, answers, _), model = subject.data, subject.fitted
    renamed = Answers.from_arrays(
        [f"t{t:04d}" for t in answers.task], [f"w{w:04d}" for w in answers.worker], [f"c{c}" for c in answers.label]
    )
    again = subject.new().fit(X, renamed)
    expect_equal(again.predict_proba(X), model.predict_proba(X), "predict_proba differs")
    expect(again.predict(X)[0] == f"c{model.predict(X)[0]}", "the predicted class differs")
    expect(again.answer_proba(X[:2], worker="w0003").shape == (2, N_CLASSES), "answer_proba has another shape")


def check_permuted_classes_permute_the_result(subject: Subject) -> None:
    """No class is special; `class_equivariant = False` says that one is."""
    if not subject.is_symmetric:
        return
    (X, answers, _), new = subject.data, np.roll(np.arange(N_CLASSES), 1)
    again = subject.new().fit(X, Answers.from_codes(answers.task, answers.worker, new[answers.label], **SIZES))
    expect_equal(again.proba_[:, new], subject.fitted.proba_, "proba_ differs", atol=1e-3)
    expect_equal(again.predict_proba(X)[:, new], subject.fitted.predict_proba(X), "predict_proba differs", atol=1e-3)


def check_a_seed_repeats_and_the_global_random_state_is_unchanged(subject: Subject) -> None:
    """Two fits are equal, and `numpy.random` is left alone."""
    (X, answers, _), model = subject.data, subject.fitted
    before = np.random.get_state(legacy=True)[1].copy()  # type: ignore[index]  # noqa: NPY002
    again = subject.new().fit(X, answers)
    expect_equal(again.proba_, model.proba_, "proba_ differs")
    expect_equal(again.predict_proba(X), model.predict_proba(X), "predict_proba differs")
    expect(again.history_ == model.history_, "history_ differs")
    after = np.random.get_state(legacy=True)[1]  # type: ignore[index]  # noqa: NPY002
    expect_equal(before, after, "the global random state changed")


def check_a_saved_model_loads_unchanged(subject: Subject) -> None:
    """`save` and `crowdwise.load` keep parameters, results and predictions."""
    (X, _, _), model = subject.data, subject.fitted
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.safetensors")
        loaded = load(Path(folder) / "model.safetensors")
    expect(type(loaded) is type(model), f"a {type(loaded).__name__} was loaded")
    expect(repr(loaded) == repr(model), f"{loaded!r} was loaded instead of {model!r}")
    expect_equal(loaded.predict_proba(X), model.predict_proba(X), "predict_proba differs")
    expect_equal(loaded.answer_proba(X[:9]), model.answer_proba(X[:9]), "answer_proba differs")
    expect_equal(loaded.proba_, model.proba_, "proba_ differs")
    expect_equal(loaded.labels_, model.labels_, "labels_ differ")
    expect(loaded.answers_ == model.answers_, "answers_ differ")


def check_scikit_learn_can_clone_and_cross_validate(subject: Subject) -> None:
    """`clone` and `cross_val_score` work, with answers in place of y."""
    X, answers, _ = subject.data
    model = subject.new()
    expect(repr(clone(model)) == repr(model), "the clone is displayed differently")
    scores = cross_val_score(model, X, answers, cv=KFold(3, shuffle=True, random_state=0))
    expect(np.isfinite(scores).all(), f"the scores are {scores}")


def check_unfitted_models_can_be_copied(subject: Subject) -> None:
    """As parallel fits need."""
    model = subject.new()
    expect(repr(copy.deepcopy(model)) == repr(model), "the copy is displayed differently")


def check_a_task_and_a_worker_without_answers(subject: Subject) -> None:
    """They are allowed, and get probabilities."""
    X, answers, _ = subject.data
    model = subject.new().fit(X, answers.take(np.flatnonzero((answers.task != 7) & (answers.worker != 3))))
    expect_probabilities(model.proba_, (N_TASKS, N_CLASSES), "proba_")
    expect(np.isfinite(model.answer_proba(X[:3], worker=3)).all(), "answer_proba of the worker is not finite")


def check_an_answer_of_weight_zero_is_the_same_as_none(subject: Subject) -> None:
    """To the bit: such answers would count for batches and folds."""
    if not subject.takes_answer_weights:
        return
    X, answers, _ = subject.data
    kept = np.random.default_rng(7).random(answers.n_answers) < 0.7
    zero = dataclasses.replace(answers, weight=np.where(kept, 1.0, 0.0))
    none = dataclasses.replace(answers, weight=np.ones(answers.n_answers)).take(np.flatnonzero(kept))
    first, second = subject.new().fit(X, zero), subject.new().fit(X, none)
    expect_equal(first.proba_, second.proba_, "proba_ differs")
    expect_equal(first.predict_proba(X), second.predict_proba(X), "predict_proba differs")


def check_answers_to_a_task_of_weight_zero_do_not_matter(subject: Subject) -> None:
    """Except where labels are inferred from all answers first (`infers_labels_first`)."""
    if not subject.takes_task_weights:
        return
    X, answers, _ = subject.data
    weight = np.where(np.arange(N_TASKS) % 3, 1.0, 0.0)
    changed = np.where(weight[answers.task] == 0, (answers.label + 1) % N_CLASSES, answers.label)
    other = Answers.from_codes(answers.task, answers.worker, changed, **SIZES)
    first = subject.new().fit(X, answers, sample_weight=weight).predict_proba(X)
    second = subject.new().fit(X, other, sample_weight=weight).predict_proba(X)
    expect(np.isfinite(first).all(), "predict_proba is not finite")
    if not subject.infers_labels_first:
        expect_equal(first, second, "predict_proba differs", atol=1e-6)


def check_partial_fit_uses_all_answers(subject: Subject) -> None:
    """`partial_fit` adds answers, tasks and workers; with `restart=True` it is a fit on all answers."""
    X, answers, _ = subject.data
    early = answers.select(workers=answers.workers[:6])[np.arange(60)]
    late = answers.take(np.flatnonzero((answers.task >= 60) | (answers.worker >= 6)))
    merged = early.merge(late)
    more = subject.new().fit(X[:60], early).partial_fit(X, late)
    expect(more.answers_ == merged, "answers_ are not all answers")
    expect_probabilities(more.proba_, (N_TASKS, N_CLASSES), "proba_")
    expect(more.answer_proba(X[:2]).shape == (2, N_WORKERS, N_CLASSES), "answer_proba does not know the new workers")
    again = subject.new().fit(X[:60], early).partial_fit(X, late, restart=True)
    expect_equal(again.proba_, subject.new().fit(X, merged).proba_, "proba_ of restart=True is not that of a fit")


def check_weights_of_answers_matter(subject: Subject) -> None:
    """Answers of low weight change the result; weights that are not used are rejected."""
    X, answers, _ = subject.data
    weight = np.where(answers.worker < 4, 1.0, 0.1)
    weighted = Answers.from_codes(answers.task, answers.worker, answers.label, **SIZES, weight=weight)
    if not subject.takes_answer_weights:
        with expect_error(WeightError, "answers with weights"):
            subject.new().fit(X, weighted)
        return
    model = subject.new().fit(X, weighted)
    expect(np.isfinite(model.proba_).all(), "proba_ is not finite")
    expect(not np.array_equal(model.proba_, subject.fitted.proba_), "proba_ is that without weights")


def check_invalid_input_is_rejected(subject: Subject) -> None:
    """Features, answers and weights that cannot be used raise an error of crowdwise."""
    X, answers, _ = subject.data
    model = subject.new()
    with expect_error(NotFittedError, "predict before fit", "fit"):
        model.predict(X)
    for attribute in ("proba_", "labels_", "history_", "confusion_"):
        with expect_error(AttributeError, f"{attribute} before a fit"):
            getattr(model, attribute)
    with expect_error(ParameterError, "a list instead of answers", "Answers"):
        model.fit(X, [0, 1])
    with expect_error(FeaturesError, "a missing row of X", "89"):
        model.fit(X[:89], answers)
    for bad in (np.nan, np.inf):
        with expect_error(FeaturesError, f"{bad} in X", "17"):
            model.fit(_with_value(X, bad), answers)
    one = Answers.from_codes(answers.task, answers.worker, answers.label * 0, **{**SIZES, "classes": 1})
    with expect_error(SingleClassError, "answers of one class", "two classes"):
        model.fit(X, one)
    with expect_error(EmptyError, "no answers"):
        model.fit(X, answers.take(np.empty(0, np.int64)))
    for weight in (np.ones(3), np.full(N_TASKS, -1.0), ["a"] * N_TASKS):
        with expect_error(CrowdwiseError, "invalid weights", "sample_weight"):
            model.fit(X, answers, sample_weight=weight)
    model = subject.fitted
    with expect_error(CrowdwiseError, "fewer features", "shape"):
        model.predict(X[:, :4])
    with expect_error(CrowdwiseError, "unknown labels", "none of the labels"):
        model.score(X, ["zebra"] * N_TASKS)
    with expect_error(CrowdwiseError, "too few labels", "y="):
        model.score(X, [0, 1])
    with expect_error(CrowdwiseError, "a table of workers", "worker"):
        model.answer_proba(X, worker=[[1, 2]])
    expect(model.answer_proba(X, worker=[]).shape == (N_TASKS, 0, N_CLASSES), "no workers give another shape")


def check_flags_must_be_boolean(subject: Subject) -> None:
    """Text is not True."""
    X, answers, _ = subject.data
    for name, value in subject.model.get_params(deep=False).items():
        if isinstance(value, bool):
            with expect_error(ParameterError, f"{name}='no'", f"{name}='no': use True or False"):
                subject.new(**{name: "no"}).fit(X, answers)


def _with_value(X: Array, value: float) -> Array:
    broken = X.copy()
    broken[[17, 20], 0] = value
    return broken


CHECKS = [function for name, function in list(vars().items()) if name.startswith("check_")]
