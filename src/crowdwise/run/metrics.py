"""Every figure of a run, in plain JSON: how good the labels are, how that is known, and what it means in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.choose import Choice
from crowdwise.evaluate import alike, evaluate, reliability, summarise
from crowdwise.run.tables.labels import VERDICTS, Labelled
from crowdwise.truth.tables import wilson

Array = np.ndarray[Any, np.dtype[Any]]

BINS = 20  # of the histograms
NEVER = "(never answered)"  # stands for classes that only the truth names
SCORES = ("accuracy", "balanced_accuracy", "macro_f1", "log_loss", "ece")


def counts_of(labels: pa.Table) -> dict[str, int]:
    """How many tasks have each verdict."""
    verdict = labels.column("verdict")
    return {name: pc.sum(pc.equal(verdict, name)).as_py() or 0 for name in VERDICTS}


def balance_of(labelled: Labelled, known: Array | None) -> dict[str, Any]:
    """Shares of the classes as answered, as inferred and, where known, in truth; what nobody answered comes last."""
    answers, _, codes = labelled
    k = answers.n_classes
    names = [str(name) for name in answers.classes.tolist()]
    if known is not None and (known >= k).any():
        names.append(NEVER)

    def shares(values: Array) -> list[float]:
        count = np.bincount(np.minimum(values, k), minlength=len(names))
        return (count / max(count.sum(), 1)).tolist()

    return {
        "classes": names,
        "answered": shares(answers.label),
        "inferred": shares(codes),
        "truth": None if known is None else shares(known[known >= 0]),
    }


def histogram(values: Array) -> dict[str, list[float]]:
    """Counts of shares in equal bins from 0 to 1; what is unknown is left out."""
    counts, edges = np.histogram(values[np.isfinite(values)], BINS, (0.0, 1.0))
    return {"edges": edges.round(6).tolist(), "counts": counts.tolist()}


def truth_of(labelled: Labelled, labels: pa.Table, known: Array | None, vote: Array) -> dict[str, Any] | None:
    """How often labels are right where the truth is known; a class that nobody named counts as never found."""
    if known is None or not (known >= 0).any():
        return None
    told = known >= 0
    right = (labelled.codes == known)[told]
    accepted = pc.equal(labels.column("verdict"), "accept").to_numpy()[told]
    low, high = _interval(right)
    accepted_low, accepted_high = _interval(right[accepted])
    return {
        "tasks": len(right),
        "accuracy": float(right.mean()),
        "low": low,
        "high": high,
        "accepted_tasks": int(accepted.sum()),
        "accepted_accuracy": float(right[accepted].mean()) if accepted.any() else None,
        "accepted_low": accepted_low,
        "accepted_high": accepted_high,
        "vote_accuracy": float((vote == known)[told].mean()),
        "scores": scores_of(labelled.proba, labelled.codes, labelled.answers, known),
    }


def _interval(right: Array) -> tuple[float | None, float | None]:
    """Wilson's 95 % interval of the share that is right; None where there is none."""
    low, high = wilson(np.array(float(right.sum())), np.array(len(right)))
    return (float(low), float(high)) if len(right) else (None, None)


def scores_of(proba: Array, codes: Array, answers: Answers, known: Array) -> dict[str, Any]:
    """Scores against the truth, the classes by name."""
    extra = max(int(known.max()) + 1 - answers.n_classes, 0)  # classes that only the truth names
    scores = evaluate(_Scored(np.pad(proba, ((0, 0), (0, extra))), codes), known)
    names = [*map(str, answers.classes.tolist()), *([NEVER] * extra)]
    per_class = [{**row._asdict(), "name": name} for row, name in zip(scores.per_class, names, strict=True)]
    return {**{name: scores[name] for name in SCORES}, "per_class": per_class}


class _Scored:
    """A belief and the labels that follow, for `evaluate`."""

    def __init__(self, proba: Array, codes: Array) -> None:
        self.proba_, self.codes_ = proba, codes


def methods_of(
    choice: Choice | None, beliefs: Mapping[str, Labelled], best: str, known: Array | None
) -> list[dict[str, Any]]:
    """A line for each method that was tried: by rank, those that failed last."""
    told = [] if choice is None else choice.as_dict(seconds=False)["candidates"]
    entries = {entry["candidate"]: entry for entry in told}
    lines = []
    for name in dict.fromkeys([*entries, *beliefs]):
        entry = entries.get(name, {})
        figures = ("rank", "log_likelihood", "standard_error", "to_vote", "to_vote_error", "failure")
        line = {"name": name, "chosen": name == best} | {figure: entry.get(figure) for figure in figures}
        line["warnings"] = list(entry.get("warnings") or [])
        belief = beliefs.get(name)
        line["same_labels"] = None if belief is None else float((belief.codes == beliefs[best].codes).mean())
        line["scores"] = None
        if belief is not None and known is not None and (known >= 0).any():
            found = scores_of(belief.proba, belief.codes, belief.answers, known)
            line["scores"] = {score: found[score] for score in SCORES}
        lines.append(line)
    return sorted(lines, key=lambda line: line["rank"] or len(lines) + 1)


def bins_of(labelled: Labelled, known: Array | None) -> dict[str, Any] | None:
    """Confidence against accuracy, bin by bin, and the calibration error."""
    if known is None or not (known >= 0).any():
        return None
    told = np.flatnonzero(known >= 0)
    codes = labelled.codes[told]
    table = reliability(labelled.proba[told, codes], codes == known[told])
    names = ("low", "high", "confidence", "accuracy", "count")
    columns = [getattr(table, name).tolist() for name in names]
    return {"ece": table.ece, "bins": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]}


def alike_of(answers: Answers, seed: int) -> list[dict[str, Any]]:
    """Groups of workers who agree with each other more than by being right."""
    found = alike(answers, seed=seed)
    return [{**group._asdict(), "workers": [str(worker) for worker in group.workers.tolist()]} for group in found]


def summary_of(answers: Answers) -> dict[str, Any]:
    """Sizes, sparsity, imbalance and agreement of the answers."""
    summary = summarise(answers)
    plain = summary.as_dict()
    return {**plain, "classes": [str(name) for name in plain["classes"]], "reading": summary.reading}
