"""The part of metrics.json that says how far the other figures may be believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.errors import CrowdwiseError
from crowdwise.run.confidence import Evidence
from crowdwise.run.inputs import RunInput
from crowdwise.run.selection import Selected
from crowdwise.trust import estimate

WIDE = 0.05  # a range of expected accuracies narrower than this is not worth mentioning
HALF_WIDTH = 0.05  # of the interval that enough gold labels give


def trust_metrics(
    data: RunInput, selected: Selected, evidence: Evidence, summary: Mapping[str, Any], *, checked: bool
) -> dict[str, Any]:
    """Return what the confidence rests on, how far workers share mistakes, and estimates from gold, in plain JSON.

    `checked` says whether answers could be held out.

    Keys: `basis` ("gold", "other crowds", "held-out answers" or "none") and `assumes`, a sentence; `n_gold`;
    `answers_per_task`, `effective_votes`, `background_rho`, `families`, `ambiguous` and `strong` (None if not
    measured); `range`, the expected accuracy if workers share mistakes as much as they appear to (`low`) and if they
    share none (`high`); `gold_needed`, the number of gold labels that would settle it; `estimates`, from gold.
    """
    expected = float(selected.labelling.confidence.mean())
    n_gold = 0 if data.gold is None else int((data.gold >= 0).sum())
    basis = "gold" if n_gold else _basis(selected, evidence, checked=checked and summary["agreement"] is not None)
    independent = _if_independent(selected, evidence)
    spread = None
    if n_gold == 0 and evidence.is_strong and independent is not None and independent - expected > WIDE:
        spread = {"low": expected, "high": independent}
    return {
        "basis": basis,
        "assumes": assumption(basis, n_gold, planned=data.design is not None),
        "n_gold": n_gold,
        **_dependence(data, evidence),
        "strong": evidence.is_strong,
        "range": spread,
        "gold_needed": gold_needed(expected, data.answers.n_tasks) if n_gold == 0 else None,
        "estimates": None if data.gold is None else _estimates(data, selected),
    }


def _basis(selected: Selected, evidence: Evidence, *, checked: bool) -> str:
    if evidence.pool is not None and (evidence.is_strong or not selected.needs_features):
        return "other crowds"
    return "held-out answers" if checked else "none"


def assumption(basis: str, n_gold: int, *, planned: bool = False) -> str:
    """Return what the expected accuracy assumes, as a sentence.

    >>> assumption("gold", 50)
    'This assumes that the 50 gold labels are right and were drawn at random from all tasks.'
    >>> assumption("gold", 50, planned=True)
    'This assumes that the 50 gold labels are right; their tasks were drawn by `crowdwise next --gold`.'
    """
    drawn = (
        "; their tasks were drawn by `crowdwise next --gold`" if planned else " and were drawn at random from all tasks"
    )
    return {
        "gold": f"This assumes that the {n_gold:,} gold labels are right{drawn}.",
        "other crowds": "This assumes that these workers make the same mistakes about as often as those of other "
        "crowds: mistakes that most workers share cannot be seen in the answers.",
        "held-out answers": "This assumes that workers err independently: mistakes that most workers share cannot be "
        "seen in the answers.",
        "none": "The answers cannot check this.",
    }[basis]


def gold_needed(expected: float, n_tasks: int) -> int:
    """Return the number of gold labels after which the accuracy is known within 5 points, about.

    The accuracy is that of these tasks, so a sample of many of them needs fewer labels than its variance says.

    >>> gold_needed(0.9, 100_000), gold_needed(0.5, 200), gold_needed(0.5, 20)
    (140, 140, 20)
    """
    variance = max(expected * (1 - expected), 0.05)
    of_many = 1.96**2 * variance / HALF_WIDTH**2
    needed = of_many / (1 + of_many / max(n_tasks, 1))  # the finite population correction
    return min(n_tasks, int(np.ceil(needed / 10)) * 10)


def _if_independent(selected: Selected, evidence: Evidence) -> float | None:
    """Return the expected accuracy if workers shared no mistakes: what the pooled methods themselves promise."""
    if evidence.pool is None:
        return None
    codes = selected.labelling.codes
    return float(evidence.pool.proba_[np.arange(len(codes)), codes].mean())


def _dependence(data: RunInput, evidence: Evidence) -> dict[str, Any]:
    found, count = evidence.dependence, np.diff(data.answers.task_starts)
    answered = count > 0
    if found is None:
        names = ("answers_per_task", "effective_votes", "background_rho", "ambiguous")
        return {**dict.fromkeys(names), "families": []}
    return {
        "answers_per_task": float(count[answered].mean()),
        "effective_votes": float(found.effective_votes[answered].mean()),
        "background_rho": float(found.background_rho),
        "ambiguous": bool(found.ambiguous),
        "families": [
            {"workers": [str(worker) for worker in family.workers.tolist()], "rho": float(family.rho)}
            for family in found.families
        ],
    }


def _estimates(data: RunInput, selected: Selected) -> dict[str, Any] | None:
    """Return accuracy, class shares and workers' accuracies with intervals, or None with too few gold labels.

    The accuracy is that of the labels of the run, where gold replaces the labels that it contradicts.
    """
    assert data.gold is not None and selected.predictions is not None
    try:
        found = estimate(data.answers, data.gold, proba=selected.predictions, design=data.design)
    except CrowdwiseError:
        return None

    def plain(part: Any) -> dict[str, float]:
        return {"value": float(part.value), "low": float(part.low), "high": float(part.high)}

    known = data.gold >= 0
    corrected = float((selected.predictions.argmax(axis=1) != data.gold)[known].sum()) / len(known)
    accuracy = {name: min(value + corrected, 1.0) for name, value in plain(found.accuracy).items()}
    return {
        "accuracy": {**accuracy, "n_gold": found.n_gold},
        "shares": [{"class": str(name), **plain(part)} for name, part in found.shares.items()],
        "workers": [{"worker": str(name), **plain(part)} for name, part in found.workers.items()],
    }
