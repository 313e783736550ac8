"""What opens on a click on a worker: the confusion matrix, and feedback to send to the worker."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise._core.display import short
from crowdwise.report.source import Array, FeedbackSource, RunSource

CLASSES = 10  # maximum number of classes in a matrix: those the worker met or used most
MAX_CELLS = 8_000_000  # matrix cells held in memory at once
CONFUSIONS, EXAMPLES, TEXT = 3, 3, 90  # in the feedback: confusions, examples of each, characters of a task's text


def worker_details(run: RunSource, rows: Array) -> list[dict[str, Any]]:
    """Return, for these rows of `run.workers`, the classes and cells of the matrix (in tenths) and the feedback."""
    ids = run.tables.workers.column("worker").take(rows.tolist()).to_pylist()
    codes = _codes(run, ids)
    at_once = max(1, MAX_CELLS // run.answers.n_classes**2)
    matrices = [
        matrix
        for start in range(0, len(codes), at_once)
        for matrix in map(_matrix, run.confusion_counts(codes[start : start + at_once]))
    ]
    feedback = run.feedback_all(ids, examples=EXAMPLES, confusions=CONFUSIONS)
    return [matrix | {"feedback": _feedback(each)} for matrix, each in zip(matrices, feedback, strict=True)]


def _codes(run: RunSource, ids: list[Any]) -> Array:
    """Codes of these workers in the answers."""
    code_of = {worker: code for code, worker in enumerate(run.answers.workers.tolist())}
    return np.array([code_of[worker] for worker in ids], int)


def _matrix(counts: Array) -> dict[str, Any]:
    """The confusion matrix (classes, classes) of a worker, cut to the classes they met or used most."""
    weight = counts.sum(axis=0) + counts.sum(axis=1)  # (classes,)
    shown = np.sort(np.argsort(-weight, kind="stable")[:CLASSES])
    tenths = np.rint(10 * counts[np.ix_(shown, shown)]).astype(int)  # (shown, shown)
    return {"classes": shown.tolist(), "tenths": tenths.ravel().tolist()}


def _feedback(feedback: FeedbackSource) -> dict[str, Any]:
    """Feedback for one worker; confusions are apart from the other sentences, each with its examples."""
    about_confusions = {str(confusion) for confusion in feedback.confusions}
    return {
        "words": [short(text, 300) for text in feedback.words if text not in about_confusions],
        "confusions": [
            {
                "truth": short(each["truth"]),
                "said": short(each["said"]),
                "share": round(each["share"], 3),
                "crowd_share": round(each["crowd_share"], 3),
                "examples": [
                    {
                        "task": short(example["task"]),
                        "text": example["text"] and short(example["text"], TEXT),
                        "confidence": round(example["confidence"], 3),
                    }
                    for example in each["examples"]
                ],
            }
            for each in feedback.as_dict()["confusions"]
        ],
    }
