"""Collect what the page shows from a run: plain data, cut short where long, for the template and for JSON."""

from __future__ import annotations

from typing import Any

from crowdwise._core.display import percent, pluralise
from crowdwise.report import charts
from crowdwise.report.cards import ambiguous_tasks
from crowdwise.report.details import worker_details
from crowdwise.report.source import VERDICTS, RunSource
from crowdwise.report.tables import busiest, labels_table, next_table, workers_table
from crowdwise.report.text import count, distinct, short, unchecked_reason
from crowdwise.report.theme import CONFIG

OPTION = 200  # characters of an option of the run
GROUPS, MEMBERS = 5, 8  # groups of suspiciously similar workers, and names shown per group


def embedded(run: RunSource) -> dict[str, Any]:
    """Return what `report.js` draws: charts, tables, cards and details of workers."""
    rows = busiest(run)
    tables = {"labels": labels_table(run), "workers": workers_table(run, rows), "next": next_table(run)}
    return {
        "config": CONFIG,
        "charts": chart_specs(run, tables["workers"]["cells"]),
        "confusion": charts.confusion(),
        "classes": distinct(run.answers.classes.tolist()),
        "verdicts": VERDICTS,
        "tables": tables,
        "details": worker_details(run, rows),
        "cards": ambiguous_tasks(run),
    }


def chart_specs(run: RunSource, workers: dict[str, list[Any]]) -> dict[str, charts.Spec]:
    """Return the charts for which there is data."""
    metrics = run.metrics
    shares, truth = metrics["balance"], metrics["truth"]
    series = {"answers": shares["answered"], "labels": shares["inferred"]}
    if shares["truth"]:
        series["known truth"] = shares["truth"]
    mark = metrics["verdict_rules"].get("accept")
    balance = charts.balance(distinct(shares["classes"]), series)
    specs = {
        "balance": balance,
        "agreement": charts.histogram(**metrics["agreement"], what="agreement", height=min(balance["height"], 360)),
        "confidence": charts.histogram(**metrics["confidence"], what="confidence", mark=mark),
    }
    if any(quality is not None for quality in workers["quality"]):
        specs["crowd"] = charts.crowd(workers)
    if bins := reliability_bins(metrics["calibration"]):
        specs["reliability"] = charts.reliability(bins)
    if methods := compared(metrics):
        specs["methods"] = charts.against_vote(methods)
    if metrics["history"]:
        specs["history"] = charts.self_training(metrics["history"])
    if metrics["curve"] or metrics["forecast"]:
        specs["budget"] = charts.budget(
            metrics["curve"], metrics["forecast"], metrics["summary"]["n_answers"], drawn=metrics.get("curve_method"),
            method=metrics["method"], measured=truth and truth["accuracy"],
        )  # fmt: skip
    return specs


def compared(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the methods that were compared with majority vote; none if there is only the vote."""
    methods = [each for each in metrics["methods"] if each["to_vote"] is not None]
    return methods if len(methods) > 1 else []


def reliability_bins(calibration: dict[str, Any]) -> dict[str, charts.Rows]:
    """Return the bins to draw, by name; without calibration there is no before and after."""
    if calibration["temperature"] is None:
        parts = {"confidence": calibration["after"]}
    else:
        parts = {"before calibration": calibration["before"], "after calibration": calibration["after"]}
    return {name: part["bins"] for name, part in parts.items() if part}


def overview(run: RunSource) -> dict[str, Any]:
    """Return what the template shows: the headline, the verdicts, the methods, and how the run was made."""
    metrics, config = run.metrics, run.config
    sums = {f"checksum of {name}": value for name, value in config.get("data", {}).items()}
    return {
        "name": run.path.resolve().name,
        "metrics": metrics,
        "words": [text for text in metrics["words"] if text != metrics["why"]],  # shown in its own place
        "tiles": tiles(metrics),
        "verdicts": verdicts(metrics),
        "methods": [each | {"failure": each["failure"] and short(each["failure"], 160)} for each in metrics["methods"]],
        "scored": any(each["scores"] for each in metrics["methods"]),
        "n_compared": sum(each["rank"] is not None for each in metrics["methods"]),
        "compared": compared(metrics),
        "alike": alike(metrics),
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


def tiles(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the few figures at the top: their subject, the figures, and a remark.

    Expected and measured figures are shown side by side, equally large.
    """
    truth, summary = metrics["truth"], metrics["summary"]
    basis = unchecked_reason(summary, metrics["calibration"]["temperature"]) or "by calibrated confidence"
    right = {"expected right": percent(metrics["expected_accuracy"])}
    remark = basis
    if truth:
        right["measured"] = percent(truth["accuracy"])
        span = f"{percent(truth['low'])} to {percent(truth['high'])}"
        remark = f"measured on {pluralise(truth['tasks'], 'task')}: {span}"
    shown = [_tile("All labels", right, remark)]
    if accepted := metrics["counts"]["accept"]:
        right = {"expected right": percent(metrics["expected_accepted"])}
        remark = basis
        if truth and truth["accepted_accuracy"] is not None:
            right["measured"] = percent(truth["accepted_accuracy"])
            remark = f"measured on {pluralise(truth['accepted_tasks'], 'task')}"
        shown.append(_tile(f"The {count(accepted)} accepted", right, remark))
    per_task = f"{summary['per_task']['mean']:.1f} answers per task; " if summary["per_task"] else ""
    spam = pluralise(metrics["spammers"], "worker looks", "workers look") if metrics["spammers"] else "no worker looks"
    amounts = {"answers": count(summary["n_answers"]), "workers": count(summary["n_workers"])}
    return [*shown, _tile(pluralise(summary["n_tasks"], "task"), amounts, f"{per_task}{spam} like spam")]


def alike(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return groups of workers who agree with each other more often than expected, the largest first."""
    return [
        {
            "names": ", ".join(short(worker, 40) for worker in group["workers"][:MEMBERS]),
            "more": max(len(group["workers"]) - MEMBERS, 0),
            "agreement": group["agreement"],
            "expected": group["expected"],
        }
        for group in metrics.get("alike", [])[:GROUPS]
    ]


def verdicts(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the number and share of tasks per verdict, and what it means."""
    counts, words = metrics["counts"], metrics["verdict_words"]
    total = max(sum(counts.values()), 1)
    return [
        {
            "name": name, "slug": name.split()[0], "count": counts.get(name, 0), "share": counts.get(name, 0) / total,
            "words": words.get(name, ""),
        }
        for name in VERDICTS
    ]  # fmt: skip


def _tile(of: str, figures: dict[str, str], remark: str) -> dict[str, Any]:
    return {"of": of, "figures": figures, "remark": remark}
