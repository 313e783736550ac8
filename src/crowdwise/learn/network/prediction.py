"""Predictions of trained networks, for classes and for answers, in blocks to bound memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.network.torch_support import Tensor, torch
from crowdwise.learn.network.training import CrowdModule

BLOCK = 4096  # tasks per block
ANSWERED = 1024  # tasks per block to predict answers


def predict_members(module: CrowdModule, features: Features, device: str) -> Array:
    """Return the class probabilities of each model, (models, rows, classes)."""
    return np.concatenate(list(_predict_blocks(module, features, device)), axis=1)


def predict_mean(module: CrowdModule, features: Features, device: str) -> Array:
    """Return class probabilities (rows, classes), the mean over models."""
    return np.concatenate([members.mean(axis=0) for members in _predict_blocks(module, features, device)])


def _predict_blocks(module: CrowdModule, features: Features, device: str) -> Iterator[Array]:
    """Yield class probabilities of each model, (models, block, classes)."""
    with _prediction_mode(module):
        for block in features.blocks(BLOCK):
            log_f = module.class_log_proba(_as_input(block, module.n_models, device))
            yield log_f.double().softmax(2).cpu().numpy()


def predict_answers(module: CrowdModule, rows: Array, row: Array, worker: Array, device: str) -> Tensor:
    """Return log P(label), (models, answers, classes), of worker[a] on the task with features rows[row[a]]."""
    with _prediction_mode(module):
        x = _as_input(rows, module.n_models, device)
        models = np.arange(module.n_models)[:, None]
        at = torch.from_numpy((row + models * len(rows)).ravel()).to(x.device)
        who = torch.from_numpy((worker + models * module.n_workers).ravel()).to(x.device)
        log_p = module.predict_answer_log_proba(x, at, who)
        return log_p.view(module.n_models, len(row), -1).cpu().double()


def held_out_log_likelihood(module: CrowdModule, features: Features, held_out: Answers, device: str) -> float:
    """Return the mean log-likelihood of held-out answers; probabilities are the mean over models."""
    answered = np.flatnonzero(np.diff(held_out.task_starts))
    position = np.empty(held_out.n_tasks, np.int64)
    position[answered] = np.arange(len(answered))
    row, worker = position[held_out.task], held_out.worker.astype(np.int64)  # (held_out,); row is increasing
    total, size = 0.0, features.block_size(ANSWERED)
    for first in range(0, len(answered), size):
        tasks = answered[first : first + size]
        part = slice(*np.searchsorted(row, [first, first + len(tasks)]))
        log_p = predict_answers(module, features.rows(tasks), row[part] - first, worker[part], device)
        proba = log_p.exp().mean(0).numpy()[np.arange(part.stop - part.start), held_out.label[part]]
        total += float(np.log(np.maximum(proba, 1e-12)).sum())
    return total / held_out.n_answers


@contextmanager
def _prediction_mode(module: CrowdModule) -> Iterator[None]:
    """Evaluation mode without gradients; the previous mode is restored."""
    previous = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(previous)


def _as_input(rows: Array, n_models: int, device: str) -> Tensor:
    x = torch.from_numpy(rows).to(device)
    return x[None].expand(n_models, *x.shape)
