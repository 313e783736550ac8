"""Fit a model, evaluate it during training, and score it.

    last        test accuracy after the last epoch: the headline
    held_out    test accuracy of the epoch that best predicts a hidden tenth of the answers; needs a fit of its own
    oracle      test accuracy of the best epoch on the test set: not a result, but what some papers print
    validation  test accuracy of the best epoch on the validation tasks, if there are any: their labels are known, so
                it is not a result for a crowd either, but what some papers print

All of it per network, for networks that are trained together. An evaluation costs as much as a short epoch. About ten
evenly spaced epochs of each training are evaluated, including the last, and none if answers are removed (sparsity).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score, f1_score

from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseWarning
from crowdwise.evaluate.calibration import reliability
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features, open_features
from crowdwise.truth.vote_check import split_answers
from reproduction.cells import Cell, Family, Figures, Method, Setting, stamp_of
from reproduction.problems import Problem
from reproduction.settings import prepare

LOOKS = 10  # evaluations per training
HIDDEN = 0.1  # share of the answers that choose an epoch
OF_HISTORY = ("imbalance", "accuracy", "precision_majority", "recall_minority")  # figures of each iteration


def learners(name: str, methods: Mapping[str, Method]) -> Family:
    """Return a family of models that learn a classifier from features and answers."""

    def run(cell: Cell) -> list[Figures]:
        model, problem = prepare(methods, cell)
        looks = 0 if "@" in cell.problem else LOOKS
        return measure(model, problem, hide=cell.hide, looks=looks, seed=cell.seeds[0])

    @cache
    def stamp(cell: Cell) -> str:
        setting = Setting(cell.problem, cell.seeds[0], len(cell.seeds), cell.quick)
        return stamp_of(methods[cell.method].make(setting).get_params(deep=True), cell)

    return Family(name, run, stamp, lambda method: methods[method].together)


def measure(model: Any, problem: Problem, *, hide: bool = False, looks: int = LOOKS, seed: int = 0) -> list[Figures]:
    """Fit a model and return the figures of each network; with `hide`, only those of the held-out choice."""
    answers, held = split_answers(problem.answers, HIDDEN, seed) if hide else (problem.answers, None)
    watch = Watch(problem, held, looks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        model.fit(problem.X, answers, callback=watch if looks else None)
    proba = members(model, problem.X_test)
    n = len(proba)
    if hide:
        chosen = watch.held_out(n)
        at_last = [accuracy(each, problem) for each in proba]
        return [{"held_out": value} for value in chosen or at_last]
    own = model.proba_[None] if n == 1 else members(model, problem.X)
    out = []
    for m in range(n):
        predicted, right = proba[m].argmax(1), proba[m].argmax(1) == problem.y_test
        out.append({
            "last": 100 * float(right.mean()),
            "oracle": max(watch.series("test", m), default=None),
            "balanced": 100 * float(balanced_accuracy_score(problem.y_test, predicted)),
            "f1": 100 * float(f1_score(problem.y_test, predicted, average="macro")),
            **({"positive": 100 * float(f1_score(problem.y_test, predicted))} if proba.shape[2] == 2 else {}),
            "ece": float(reliability(proba[m].max(axis=1), right).ece or 0.0),
            "labels": 100 * float((own[m].argmax(1) == problem.answers.truth).mean()),
            **watch.chosen_on_validation(m),
            **curves(model.history_, watch, m),
        })  # fmt: skip
    return out


def members(model: Any, X: Any) -> Array:
    """Return the probabilities of each network, (models, rows, classes)."""
    return model.member_proba(X) if hasattr(model, "member_proba") else model.predict_proba(X)[None]


def accuracy(proba: Array, problem: Problem) -> float:
    """Return the test accuracy in per cent."""
    return 100 * float((proba.argmax(axis=1) == problem.y_test).mean())


def curves(history: list[dict[str, Any]], watch: Watch, member: int) -> Figures:
    """Return the figures of each iteration of self-training, as lists."""
    if not history or "iteration" not in history[-1]:
        return {}
    records = [record["members"][member] if "members" in record else record for record in history]
    found = {name: [record.get(name) for record in records] for name in OF_HISTORY if name in records[-1]}
    by_iteration = {"test": watch.by_iteration(member)} if watch.test else {}
    return {**found, "ratio": records[-1].get("imbalance"), **by_iteration}


class Watch:
    """Callback that records test accuracy and the likelihood of hidden answers, per network."""

    def __init__(self, problem: Problem, held: Answers | None, looks: int = LOOKS) -> None:
        self.problem, self.held, self.looks = problem, held, looks
        self.test, self.valid, self.likely, self.iteration, self.phase = [], [], [], [], []  # type: ignore[var-annotated]
        self.features: dict[str, Features] = {}

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Evaluate the module of an epoch; ignore other records, and networks that only rank or fill in."""
        if "module" not in record or record.get("stage") in ("ranking", "filling"):
            return
        if (record["epochs"] - record["epoch"]) % -(-record["epochs"] // self.looks):
            return
        problem, module = self.problem, record["module"]
        self.test.append(self._right(module, "test", problem.X_test, problem.y_test))
        if problem.valid is not None and self.held is None:
            self.valid.append(self._right(module, "valid", *problem.valid))
        if self.held is not None:
            self.likely.append(self._likely(module, self.held))
        self.iteration.append(record.get("iteration", 0))
        self.phase.append(record.get("phase", 0))

    def series(self, name: str, member: int) -> list[float]:
        """Return what was recorded for a network, epoch by epoch."""
        return [float(each[member]) for each in getattr(self, name)]

    def by_iteration(self, member: int) -> list[float]:
        """Return the test accuracy at the end of each iteration."""
        last = dict(zip(self.iteration, self.series("test", member), strict=True))
        return [last[i] for i in sorted(last)]

    def held_out(self, n_models: int) -> list[float]:
        """Return the test accuracy of each network in the epoch with the most likely hidden answers; ties: the last.

        Only epochs of the last phase count: before it, part of the network is not trained.
        """
        if not self.likely:
            return []
        last = [i for i, phase in enumerate(self.phase) if phase == self.phase[-1]][::-1]
        best = np.array(self.likely)[last].argmax(axis=0)  # (models,)
        return [self.series("test", m)[last[best[m]]] for m in range(n_models)]

    def chosen_on_validation(self, member: int) -> Figures:
        """Return the test accuracy of the epoch that is best on the validation tasks."""
        if not self.valid:
            return {}
        return {"validation": self.series("test", member)[int(np.argmax(self.series("valid", member)))]}

    def _right(self, module: Any, name: str, X: Any, y: Array) -> Array:
        from crowdwise.learn.network.prediction import predict_members

        if name not in self.features:
            self.features[name] = open_features(X)
        predicted = predict_members(module, self.features[name], "cpu").argmax(axis=2)  # (models, rows)
        return 100 * np.asarray((predicted == y).mean(axis=1))

    def _likely(self, module: Any, held: Answers) -> Array:
        """Return the mean log-likelihood of the hidden answers under each network, (models,)."""
        from crowdwise.learn.network.prediction import predict_answers

        rows, row = np.unique(held.task, return_inverse=True)
        if "train" not in self.features:
            self.features["train"] = open_features(self.problem.X)
        log_p = predict_answers(module, self.features["train"].rows(rows), row, held.worker.astype(np.int64), "cpu")
        log_label = log_p.numpy()[:, np.arange(held.n_answers), held.label]  # (models, held)
        return np.asarray(np.maximum(log_label, -27.6).mean(axis=1))
