"""What fewer answers would have given, what more should bring, and how self-training went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise.answers import Answers
from crowdwise.run.tables.labels import Labelled

Array = np.ndarray[Any, np.dtype[Any]]

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the answers, in the curve


def curve_of(
    answers: Answers, known: Array | None, label: Callable[[Answers], Labelled], seed: int
) -> list[dict[str, Any]]:
    """How good labels are from a share of the answers, drawn at random: expected, and where truth is known, counted."""
    points = []
    for share in SHARES:
        part = answers if share == 1 else answers.thin(1 - share, keep_one=False, seed=seed)
        if part.n_answers == 0:
            continue
        belief = label(part)
        right = None if known is None or not (known >= 0).any() else (belief.codes == known)[known >= 0].mean()
        points.append({
            "share": share, "answers": part.n_answers,
            "expected": float(belief.proba[np.arange(part.n_tasks), belief.codes].mean()),
            "accuracy": None if right is None else float(right),
        })  # fmt: skip
    return points


def forecast_of(proposal: pa.Table, labelled: Labelled) -> list[dict[str, float]]:
    """Expected accuracy after the first 0, 10 %, ... of the answers that are proposed."""
    answers, proba, codes = labelled
    now = float(proba[np.arange(answers.n_tasks), codes].mean())
    if proposal.num_rows == 0:
        return [{"bought": 0, "expected": now}]
    rise = np.concatenate([[0.0], np.cumsum(proposal.column("lift").to_numpy())]) / answers.n_tasks
    at = np.unique(np.linspace(0, proposal.num_rows, 11).astype(int)).tolist()
    return [{"bought": bought, "expected": float(min(now + rise[bought], 1.0))} for bought in at]


def history_of(models: Mapping[str, Any]) -> dict[str, Any]:
    """Imbalance R of the pool after each round of self-training, of the first method that trains on itself."""
    for name, model in models.items():
        records = getattr(model, "history_", None) or []
        if records and isinstance(records[0], Mapping) and "imbalance" in records[0]:
            plain = plain_history(records)
            rounds = [{"iteration": r["iteration"], "R": r["imbalance"], "answers": r["answers"],
                       "added": sum(r["chosen"])} for r in plain]  # fmt: skip
            return {"history": rounds, "history_method": name}
    return {"history": [], "history_method": None}


def plain_history(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a model recorded of each iteration, as JSON takes it; timings are left out."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, (list, tuple, np.ndarray)):
            return [plain(part) for part in value]
        if isinstance(value, Mapping):
            return {str(key): plain(part) for key, part in value.items()}
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return [{name: plain(value) for name, value in record.items() if name != "seconds"} for record in records]
