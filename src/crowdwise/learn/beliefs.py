"""What a fitted model believes about tasks that received more answers: where `partial_fit` starts EM."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.truth.kernels.shared import FLOOR


def current_beliefs(model: Any, features: Features, answers: Answers) -> Array | None:
    """Return the posterior of each task, (tasks, classes), under a fitted model with confusion matrices.

    proba[t, c]  proportional to  f(x_t)[c] * prod over a to t of confusion[worker[a], c, label[a]]^weight[a]

    A worker whom the model does not know answers like the average of the others.

    Parameters
    ----------
    model : learner with `confusion_`
    features : Features
        Of all tasks of the answers.
    answers : Answers
        Those of the fit and later ones: known workers and classes keep their codes. With new classes, there are no
        beliefs: None.
    """
    if answers.n_classes != model.answers_.n_classes:
        return None
    confusion = model.confusion_
    new = np.broadcast_to(confusion.mean(axis=0), (answers.n_workers - len(confusion), *confusion.shape[1:]))
    says = np.log(np.maximum(np.concatenate([confusion, new]), FLOOR))  # (workers, classes, labels)
    weight = getattr(model, "answer_weight_", 1.0) * (1.0 if answers.weight is None else answers.weight[:, None])
    beliefs = np.log(np.maximum(model._predict_proba(features), FLOOR))  # (tasks, classes)
    np.add.at(beliefs, answers.task, weight * says[answers.worker, :, answers.label])
    beliefs = np.exp(beliefs - beliefs.max(axis=1, keepdims=True))
    return np.asarray(beliefs / beliefs.sum(axis=1, keepdims=True))
