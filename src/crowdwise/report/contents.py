"""Collect what the page shows from a run: plain data, cut short where long, for the template and for JSON."""

from __future__ import annotations

from typing import Any

from crowdwise._core.display import distinct, short
from crowdwise.plots.comparison import compared
from crowdwise.plots.labels import CLASSES
from crowdwise.plots.mistakes import correlations
from crowdwise.report.cards import ambiguous_tasks
from crowdwise.report.charts import chart_specs, confusion_spec
from crowdwise.report.details import worker_details
from crowdwise.report.first_screen import first_screen
from crowdwise.report.known_labels import wrong_table
from crowdwise.report.shared_mistakes import shared_mistakes
from crowdwise.report.source import VERDICTS, RunSource
from crowdwise.report.tables import busiest, labels_table, next_table, workers_table
from crowdwise.report.text import count
from crowdwise.report.theme import CONFIG

OPTION = 200  # characters of an option of the run


def embedded(run: RunSource) -> dict[str, Any]:
    """Return what `report.js` draws: charts, tables, cards and details of workers."""
    rows = busiest(run)
    tables = {"labels": labels_table(run), "workers": workers_table(run, rows), "next": next_table(run)}
    if (wrong := wrong_table(run)) and wrong["rows"]:
        tables["wrong"] = wrong
    return {
        "config": CONFIG,
        "charts": chart_specs(run),
        "confusion": confusion_spec(),
        "classes": distinct(run.answers.classes.tolist()),
        "verdicts": VERDICTS,
        "tables": tables,
        "details": worker_details(run, rows),
        "cards": ambiguous_tasks(run),
    }


def overview(run: RunSource) -> dict[str, Any]:
    """Return what the template shows: the headline, the verdicts, the methods, and how the run was made."""
    metrics, config = run.metrics, run.config
    return {
        "name": run.path.resolve().name,
        "metrics": metrics,
        "words": [text for text in metrics["words"] if text != metrics["why"]],  # shown in its own place
        "choice_words": choice_words(metrics),
        "basis": confidence_words(metrics),
        "estimates": estimated_shares(metrics),
        "wrong": wrong_table(run),
        "screen": first_screen(run),
        "verdicts": verdicts(metrics),
        "methods": [each | {"failure": each["failure"] and short(each["failure"], 160)} for each in metrics["methods"]],
        "scored": any(each["scores"] for each in metrics["methods"]),
        "n_compared": sum(each["rank"] is not None for each in metrics["methods"]),
        "compared": compared(metrics),
        "shared": shared_mistakes(metrics),
        "has_shared_chart": bool(correlations(metrics)),
        "hidden_classes": max(len(metrics["balance"]["classes"]) - CLASSES, 0),
        "inputs": [
            {
                "role": each["role"],
                "name": str(each["path"]).rpartition("/")[2],
                "bytes": count(each.get("bytes")),
                "sha256": str(each.get("sha256", ""))[:12],
            }
            for each in config["inputs"]
        ],
        "options": {name: short(value, OPTION) for name, value in config["options"].items() if value is not None},
        "checksums": {name: short(value, OPTION) for name, value in config.get("data", {}).items()},
        "version": config["crowdwise"],
        "seed": config["seed"],
    }


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


def choice_words(metrics: dict[str, Any]) -> str:
    """Return what the comparison of the methods found; empty if the labels are of a method that it did not choose."""
    choice = metrics["choice"]
    is_news = choice and choice["words"] != metrics["why"] and choice["best"] == metrics["method"]
    return str(choice["words"]) if is_news else ""


def confidence_words(metrics: dict[str, Any]) -> str:
    """Return where the confidence of the labels comes from, for the last page of the report.

    >>> confidence_words({"method": "glad", "trust": {"basis": "gold"}})
    'under glad, rescaled to match the gold labels'
    """
    temperature = metrics.get("calibration", {}).get("temperature")
    basis = (metrics.get("trust") or {}).get("basis") or ("none" if temperature is None else "held-out answers")
    scaled = "" if temperature is None else f" (on the log scale divided by {temperature:.2f}, the temperature)"
    return {
        "gold": f"under {metrics['method']}, rescaled to match the gold labels",
        "other crowds": "as often as labels with the same evidence were right in other crowds with known truth",
        "held-out answers": f"under {metrics['method']}, calibrated on held-out answers{scaled}",
    }.get(basis, f"under {metrics['method']}; it could not be checked on held-out answers")


def estimated_shares(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the shares of the classes as estimated from gold, the largest first, with their 95% intervals."""
    found = (metrics.get("trust") or {}).get("estimates") or {}
    ordered = sorted(found.get("shares", []), key=lambda each: -each["value"])[:CLASSES]
    clip = {name: [min(max(each[name], 0.0), 1.0) for each in ordered] for name in ("value", "low", "high")}
    names = distinct(each["class"] for each in ordered)
    return [dict(zip(("class", *clip), row, strict=True)) for row in zip(names, *clip.values(), strict=True)]
