"""How good labels are with fewer answers, how good they should be with more, and how self-training went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise.answers import Answers
from crowdwise.run.tables.labels import Labelling

Array = np.ndarray[Any, np.dtype[Any]]

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the answers


def accuracy_curve(
    answers: Answers, truth: Array | None, label: Callable[[Answers], Labelling], seed: int
) -> list[dict[str, Any]]:
    """Return the expected accuracy with random shares of the answers, and the measured one if the truth is known.

    Parameters
    ----------
    answers : Answers
    truth : (tasks,) int array, optional
        Class codes, -1 unknown.
    label : callable
        Labels the tasks from some of the answers.
    seed : int
        Seed of the random shares.
    """
    points = []
    for share in SHARES:
        part = answers if share == 1 else answers.thin(1 - share, keep_one=False, seed=seed)
        if part.n_answers == 0:
            continue
        labelling = label(part)
        right = None if truth is None or not (truth >= 0).any() else (labelling.codes == truth)[truth >= 0].mean()
        points.append({
            "share": share, "answers": part.n_answers,
            "expected": float(labelling.confidence.mean()),
            "accuracy": None if right is None else float(right),
        })  # fmt: skip
    return points


def accuracy_forecast(proposal: pa.Table, labelling: Labelling) -> list[dict[str, float]]:
    """Return the expected accuracy after buying 0%, 10%, ... of the proposed answers."""
    n_tasks = labelling.answers.n_tasks
    now = float(labelling.confidence.mean())
    if proposal.num_rows == 0:
        return [{"bought": 0, "expected": now}]
    rise = np.concatenate([[0.0], np.cumsum(proposal.column("lift").to_numpy())]) / n_tasks
    numbers = np.unique(np.linspace(0, proposal.num_rows, 11).astype(int)).tolist()
    return [{"bought": bought, "expected": float(min(now + rise[bought], 1.0))} for bought in numbers]


def self_training_history(models: Mapping[str, Any]) -> dict[str, Any]:
    """Return the class imbalance R after each iteration of the first method that trains on its own labels."""
    for name, model in models.items():
        records = getattr(model, "history_", None) or []
        if records and isinstance(records[0], Mapping) and "imbalance" in records[0]:
            rounds = [{"iteration": r["iteration"], "R": r["imbalance"], "answers": r["answers"],
                       "added": sum(r["chosen"])} for r in _plain_records(records)]  # fmt: skip
            return {"history": rounds, "history_method": name}
    return {"history": [], "history_method": None}


def _plain_records(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Records of a model in plain JSON, without timings."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, (list, tuple, np.ndarray)):
            return [plain(part) for part in value]
        if isinstance(value, Mapping):
            return {str(key): plain(part) for key, part in value.items()}
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return [{name: plain(value) for name, value in record.items() if name != "seconds"} for record in records]
