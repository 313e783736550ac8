"""The figures of metrics.json, in plain JSON: how good the labels are, and how that is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.choose import Choice
from crowdwise.choose.candidates import VOTE
from crowdwise.evaluate import evaluate, reliability, summarise
from crowdwise.evaluate.distributions import NEVER_ANSWERED, class_balance, histogram
from crowdwise.report.source import VERDICTS
from crowdwise.run import messages
from crowdwise.run.tables.labels import CHEAP, GOLD, HOPELESS, Labelling
from crowdwise.truth.tables import wilson

Array = np.ndarray[Any, np.dtype[Any]]

MAX_WRONG = 5  # labels listed beside the known ones
SCORES = ("accuracy", "balanced_accuracy", "macro_f1", "log_loss", "ece")


def label_metrics(
    labels: pa.Table, labellings: Mapping[str, Labelling], best: str, truth: Array | None, accept: float
) -> dict[str, Any]:
    """Return the figures of the labels: verdicts, expected and measured accuracy, class balance, histograms."""
    confidence = labels.column("confidence").to_numpy()
    inferred = np.array(labels.column("reason").to_pylist()) != GOLD
    accepted = confidence[(np.array(labels.column("verdict").to_pylist()) == "accept") & inferred]
    return {
        "counts": verdict_counts(labels),
        "verdict_words": messages.verdict_words(accept),
        "verdict_rules": {"accept": accept, "hopeless": HOPELESS, "cheap": CHEAP},
        "expected_accuracy": float(confidence.mean()),
        "expected_accepted": float(accepted.mean()) if len(accepted) else None,
        "truth": measured_accuracy(labellings[best], labels, truth, labellings[VOTE].codes),
        "balance": class_balance(labellings[best].answers, labellings[best].codes, truth),
        "confidence": histogram(confidence),
        "agreement": histogram(labels.column("agreement").to_numpy()),
    }


def choice_metrics(
    choice: Choice | None, models: Mapping[str, Any], labellings: Mapping[str, Labelling], best: str,
    truth: Array | None, calibration: tuple[float | None, str],
) -> dict[str, Any]:  # fmt: skip
    """Return the figures of the methods: how one was chosen, how they compare, and how it was calibrated.

    `calibration` is the temperature of the confidences, if they have one, and what they rest on in words.
    """
    labelling, model = labellings[best], models[best]
    facts = None if choice is None else choice.as_dict(seconds=False)
    uncalibrated = Labelling(labelling.answers, np.asarray(model.proba_, float), labelling.codes)
    return {
        "choice": None if facts is None else {key: fact for key, fact in facts.items() if key != "candidates"},
        "methods": method_rows(choice, labellings, best, truth),
        "calibration": {
            "temperature": calibration[0],
            "words": calibration[1],
            "before": reliability_bins(uncalibrated, truth),
            "after": reliability_bins(labelling, truth),
        },
    }


def verdict_counts(labels: pa.Table) -> dict[str, int]:
    """Return the number of tasks per verdict."""
    verdict = labels.column("verdict")
    return {name: pc.sum(pc.equal(verdict, name)).as_py() or 0 for name in VERDICTS}


def measured_accuracy(
    labelling: Labelling, labels: pa.Table, truth: Array | None, vote: Array
) -> dict[str, Any] | None:
    """Return the accuracy on tasks with known truth; a class that nobody answered is never found."""
    if truth is None or not (truth >= 0).any():
        return None
    known = truth >= 0
    right = (labelling.codes == truth)[known]
    accepted = pc.equal(labels.column("verdict"), "accept").to_numpy()[known]
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
        "vote_accuracy": float((vote == truth)[known].mean()),
        "scores": scores_by_class(labelling, truth),
    }


def wrong_labels(
    labels: pa.Table, classes: list[Any], predictions: Array | None, gold: Array | None
) -> list[dict[str, Any]]:
    """Return some labels that differ from known ones, the most confident first: `task`, `label`, `known`, `confidence`.

    Parameters
    ----------
    labels : pyarrow.Table
        With a column `truth` if truth is known. The label of a gold task is its gold label.
    classes : list
        The classes by code.
    predictions : (tasks, classes) array, optional
        Of gold tasks, what fits that did not know their labels say.
    gold : (tasks,) int array, optional
        Codes of the gold labels, -1 unknown.
    """
    task, label, confidence = (labels.column(name).to_pylist() for name in ("task", "label", "confidence"))
    truth = labels.column("truth").to_pylist() if "truth" in labels.column_names else []
    rows = [row for row, known in enumerate(truth) if known is not None and known != label[row]]
    found = [(confidence[row], task[row], label[row], truth[row]) for row in rows]
    if predictions is not None and gold is not None:
        said = predictions.argmax(axis=1)
        rows = np.flatnonzero((gold >= 0) & (said != gold)).tolist()
        found += [(float(predictions[row, said[row]]), task[row], classes[said[row]], label[row]) for row in rows]
    found.sort(key=lambda each: -each[0])
    return [
        {"task": str(task), "label": str(label), "known": str(known), "confidence": confidence}
        for confidence, task, label, known in found[:MAX_WRONG]
    ]


def _interval(right: Array) -> tuple[float | None, float | None]:
    """Wilson's 95% interval of the share of right labels; None without labels."""
    low, high = wilson(np.array(float(right.sum())), np.array(len(right)))
    return (float(low), float(high)) if len(right) else (None, None)


def scores_by_class(labelling: Labelling, truth: Array) -> dict[str, Any]:
    """Return scores against the truth, overall and per class."""
    answers, proba, codes = labelling
    extra = max(int(truth.max()) + 1 - answers.n_classes, 0)  # classes that only the truth has
    scores = evaluate(_Predictions(np.pad(proba, ((0, 0), (0, extra))), codes), truth)
    names = [*map(str, answers.classes.tolist()), *([NEVER_ANSWERED] * extra)]
    per_class = [{**row._asdict(), "name": name} for row, name in zip(scores.per_class, names, strict=True)]
    return {**{name: scores[name] for name in SCORES}, "per_class": per_class}


class _Predictions:
    """Probabilities and labels in the form that `evaluate` takes."""

    def __init__(self, proba: Array, codes: Array) -> None:
        self.proba_, self.codes_ = proba, codes


def method_rows(
    choice: Choice | None, labellings: Mapping[str, Labelling], best: str, truth: Array | None
) -> list[dict[str, Any]]:
    """Return one row per method, by rank; methods that failed come last."""
    candidates = [] if choice is None else choice.as_dict(seconds=False)["candidates"]
    entries = {entry["candidate"]: entry for entry in candidates}
    rows = []
    for name in dict.fromkeys([*entries, *labellings]):
        entry = entries.get(name, {})
        figures = ("rank", "log_likelihood", "standard_error", "to_vote", "to_vote_error", "failure")
        row = {"name": name, "chosen": name == best} | {figure: entry.get(figure) for figure in figures}
        row["warnings"] = list(entry.get("warnings") or [])
        labelling = labellings.get(name)
        row["same_labels"] = None if labelling is None else float((labelling.codes == labellings[best].codes).mean())
        row["scores"] = None
        if labelling is not None and truth is not None and (truth >= 0).any():
            scores = scores_by_class(labelling, truth)
            row["scores"] = {score: scores[score] for score in SCORES}
        rows.append(row)
    return sorted(rows, key=lambda row: row["rank"] or len(rows) + 1)


def reliability_bins(labelling: Labelling, truth: Array | None) -> dict[str, Any] | None:
    """Return accuracy against confidence, bin by bin, and the calibration error."""
    if truth is None or not (truth >= 0).any():
        return None
    known = np.flatnonzero(truth >= 0)
    codes = labelling.codes[known]
    table = reliability(labelling.proba[known, codes], codes == truth[known])
    names = ("low", "high", "confidence", "accuracy", "count")
    columns = [getattr(table, name).tolist() for name in names]
    return {"ece": table.ece, "bins": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]}


def answer_summary(answers: Answers) -> dict[str, Any]:
    """Return sizes, sparsity, imbalance and agreement of the answers."""
    summary = summarise(answers)
    plain = summary.as_dict()
    return {**plain, "classes": [str(name) for name in plain["classes"]], "reading": summary.reading}
