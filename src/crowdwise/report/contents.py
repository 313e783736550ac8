"""From a run to what the page says: plain data, capped, ready for the template and for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.report import charts
from crowdwise.report.cards import ambiguous_tasks
from crowdwise.report.details import worker_details
from crowdwise.report.tables import busiest, labels_table, next_table, workers_table
from crowdwise.report.theme import CONFIG
from crowdwise.report.wording import count, distinct, percent, several, short

if TYPE_CHECKING:
    from crowdwise.run.folder import Run

VERDICTS = ("accept", "review", "needs more answers", "hopeless")
OPTION = 200  # characters of an option of the run


def embedded(run: Run) -> dict[str, Any]:
    """What `report.js` draws: figures, tables, cards and the details of workers."""
    rows = busiest(run)
    tables = {"labels": labels_table(run), "workers": workers_table(run, rows), "next": next_table(run)}
    return {
        "config": CONFIG,
        "charts": figures(run, tables["workers"]["cells"]),
        "confusion": charts.confusion(),
        "classes": distinct(run.answers.classes.tolist()),
        "tables": tables,
        "details": worker_details(run, rows),
        "cards": ambiguous_tasks(run),
    }


def figures(run: Run, workers: dict[str, list[Any]]) -> dict[str, charts.Spec]:
    """The figures there is something to show in."""
    metrics = run.metrics
    shares, calibration = metrics["balance"], metrics["calibration"]
    series = {"answered": shares["answered"], "inferred": shares["inferred"]}
    if shares["truth"]:
        series["truth"] = shares["truth"]
    compared = [each for each in metrics["methods"] if each["to_vote"] is not None]
    mark = metrics["verdict_rules"].get("accept")
    balance = charts.balance(distinct(shares["classes"]), series)
    found = {
        "balance": balance,
        "agreement": charts.histogram(**metrics["agreement"], what="agreement", height=min(balance["height"], 360)),
        "confidence": charts.histogram(**metrics["confidence"], what="confidence", mark=mark),
    }
    if any(quality is not None for quality in workers["quality"]):
        found["crowd"] = charts.crowd(workers)
    if calibration["before"] or calibration["after"]:
        bins = [part and part["bins"] for part in (calibration["before"], calibration["after"])]
        found["reliability"] = charts.reliability(*bins)
    if len(compared) > 1:
        found["methods"] = charts.against_vote(compared)
    if metrics["history"]:
        found["history"] = charts.self_training(metrics["history"])
    if metrics["curve"] or metrics["forecast"]:
        found["budget"] = charts.budget(metrics["curve"], metrics["forecast"], metrics["summary"]["n_answers"])
    return found


def overview(run: Run) -> dict[str, Any]:
    """What the template writes: the headline, the verdicts, the methods, and how it all was made."""
    metrics, config = run.metrics, run.config
    sums = {f"checksum of {name}": value for name, value in config.get("data", {}).items()}
    return {
        "name": run.path.resolve().name,
        "metrics": metrics,
        "words": [text for text in metrics["words"] if text != metrics["why"]],  # which has a place of its own
        "tiles": tiles(metrics),
        "verdicts": verdicts(metrics),
        "methods": [each | {"failure": each["failure"] and short(each["failure"], 160)} for each in metrics["methods"]],
        "scored": any(each["scores"] for each in metrics["methods"]),
        "hidden_classes": max(len(metrics["balance"]["classes"]) - charts.CLASSES, 0),
        "inputs": [
            {
                "role": each["role"],
                "name": str(each["path"]).rpartition("/")[2],
                "bytes": count(each.get("bytes")),
                "sha256": str(each.get("sha256", ""))[:12],
            }
            for each in config["inputs"]
        ],
        "options": {
            name: short(value, OPTION) for name, value in (config["options"] | sums).items() if value is not None
        },
        "version": config["crowdwise"],
        "seed": config["seed"],
    }


def tiles(metrics: dict[str, Any]) -> list[dict[str, str]]:
    """The few figures at the top: a figure, what it is, and a remark."""
    truth, summary = metrics["truth"], metrics["summary"]
    found = [_tile(percent(metrics["expected_accuracy"]), "of labels should be right", "by calibrated confidence")]
    if truth:
        span = f"{percent(truth['low'])} to {percent(truth['high'])}; majority vote {percent(truth['vote_accuracy'])}"
        found.insert(
            0, _tile(percent(truth["accuracy"]), f"right of {several(truth['tasks'], 'task')} with known truth", span)
        )
    if metrics["counts"]["accept"]:
        known = truth and truth["accepted_tasks"] and truth["accepted_accuracy"] is not None
        remark = f"measured {percent(truth['accepted_accuracy'])}" if known else "by calibrated confidence"
        found.append(_tile(percent(metrics["expected_accepted"]), "of accepted labels should be right", remark))
    per_task = summary["per_task"] and f"{summary['per_task']['mean']:.1f} answers a task"
    spam = (
        f"{several(metrics['spammers'], 'looks', 'look')} like spam" if metrics["spammers"] else "none looks like spam"
    )
    found.append(
        _tile(count(summary["n_answers"]), f"answers to {several(summary['n_tasks'], 'task')}", per_task or "")
    )
    found.append(_tile(count(summary["n_workers"]), "workers", spam))
    return found


def verdicts(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """How many tasks got each verdict, the share of all, and what it means."""
    counts, words = metrics["counts"], metrics["verdict_words"]
    total = max(sum(counts.values()), 1)
    return [
        {
            "name": name, "slug": name.split()[0], "count": counts.get(name, 0), "share": counts.get(name, 0) / total,
            "words": words.get(name, ""),
        }
        for name in VERDICTS
    ]  # fmt: skip


def _tile(figure: str, what: str, remark: str) -> dict[str, str]:
    return {"figure": figure, "what": what, "remark": remark}
