"""Every registered method with small settings, behind one call: for tests and benchmarks that cover all methods."""

from __future__ import annotations

from typing import Any

import numpy as np

import crowdwise as cw
from crowdwise._core.registry import methods

TRUTH = [m.name for m in methods("classes") if not m.needs_features]
LEARNERS = [m.name for m in methods("classes") if m.needs_features]

FEW = {
    "epochs": 4, "max_iter": 5, "batch_size": 32, "lr": 0.01, "weight_epochs": 3, "rounds": 2, "iterations": 2,
    "warmup_epochs": 2, "decoder_epochs": 2, "generator_epochs": 3, "discriminator_epochs": 1, "adversarial_epochs": 1,
    "steps": 2,
}  # fmt: skip
FEWEST = dict.fromkeys(FEW, 1) | {"batch_size": 64, "lr": 0.01, "cross_fit": 2, "folds": 2}


def quick(name: str, few: dict[str, Any] = FEW, **parameters: Any) -> Any:
    """Return the learner with small settings, also for the learner inside a framework."""
    model = cw.make(name)
    if isinstance(getattr(model, "base", None), str):
        model.set_params(base=cw.make(model.base))
    return reset(reset(model, few), parameters)


def reset(model: Any, parameters: dict[str, Any]) -> Any:
    """Set the parameters that the model, or its base, has."""
    known = model.get_params()
    own = {k: v for k, v in parameters.items() if k in known}
    return model.set_params(**own, **{f"base__{k}": v for k, v in parameters.items() if f"base__{k}" in known})


def crowd(n_tasks: int = 30, seed: int = 0) -> tuple[np.ndarray, cw.Answers]:
    """Return features (tasks, 5) and answers of six unequal workers: three per task, three classes."""
    answers = cw.simulate.simulate(n_tasks, n_workers=6, n_classes=3, answers_per_task=3, seed=seed)
    noise = np.random.default_rng(seed).normal(size=(n_tasks, 5))
    return (np.eye(3, 5)[answers.truth] * 3 + noise).astype(np.float32), answers.with_truth(None)


def gold_of(answers: cw.Answers) -> np.ndarray:
    """Return gold that puts the first quarter of the tasks into the first class, for methods that need gold."""
    gold = np.full(answers.n_tasks, -1, np.int32)
    gold[: max(1, answers.n_tasks // 4)] = 0
    return gold


def fitted(name: str, X: Any, answers: cw.Answers, few: dict[str, Any] = FEW, **parameters: Any) -> Any:
    """Return the fitted method: learners on features and answers, truth models on answers."""
    if name in LEARNERS:
        return quick(name, few, **parameters).fit(X, answers)
    model = cw.make(name, **parameters)
    return model.fit(answers, gold_of(answers) if model.needs_gold else None)


def outcome(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Return the results of a fit as arrays to compare."""
    arrays = {"proba": model.proba_, "labels": model.labels_}
    if hasattr(model, "predict_proba"):
        arrays |= {"predict_proba": model.predict_proba(X), "answer_proba": model.answer_proba(X)}
    return arrays
