"""What opens on a click at a worker: the confusion matrix, and what to tell the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.report.text import short
from crowdwise.run.feedback import feedback_all

if TYPE_CHECKING:
    from crowdwise.run.advice import Feedback
    from crowdwise.run.folder import Run

Array = np.ndarray[Any, np.dtype[Any]]

CLASSES = 10  # of a worker's matrix; where there are more, those that matter most to this worker
CELLS = 8_000_000  # of the matrices that are held at once
CONFUSIONS, EXAMPLES, TEXT = 3, 3, 90  # of a worker's feedback


def worker_details(run: Run, rows: Array) -> list[dict[str, Any]]:
    """For each of these workers: classes of the matrix, its cells row by row (tenths of an answer), and feedback."""
    ids = run.workers.column("worker").take(rows.tolist()).to_pylist()
    codes = _codes(run, ids)
    at_once = max(1, CELLS // run.answers.n_classes**2)
    matrices = [
        matrix
        for start in range(0, len(codes), at_once)
        for matrix in map(_matrix, run.confusion_counts(codes[start : start + at_once]))
    ]
    told = feedback_all(run, ids, examples=EXAMPLES, confusions=CONFUSIONS)
    return [matrix | {"feedback": _feedback(each)} for matrix, each in zip(matrices, told, strict=True)]


def _codes(run: Run, ids: list[Any]) -> Array:
    """Places of these workers among those of the answers."""
    place = {worker: code for code, worker in enumerate(run.answers.workers.tolist())}
    return np.array([place[worker] for worker in ids], int)


def _matrix(counts: Array) -> dict[str, Any]:
    """The classes this worker met or said most, and how often which was said for which."""
    weight = counts.sum(axis=0) + counts.sum(axis=1)  # (classes,)
    kept = np.sort(np.argsort(-weight, kind="stable")[:CLASSES])
    tenths = np.rint(10 * counts[np.ix_(kept, kept)]).astype(int)  # (kept, kept)
    return {"classes": kept.tolist(), "tenths": tenths.ravel().tolist()}


def _feedback(told: Feedback) -> dict[str, Any]:
    """What to tell a worker; the confusions stand apart from the other words, each with its examples."""
    apart = {str(confusion) for confusion in told.confusions}
    return {
        "words": [short(text, 300) for text in told.words if text not in apart],
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
            for each in told.as_dict()["confusions"]
        ],
    }
