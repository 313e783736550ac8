"""The fields of metrics.json and config.json that the report, the comparison and the command line read.

A checksum shows damage, not malice, and an edited file can be sealed again; so what is read is checked: types, the keys
of objects, and lists that belong together. Fields that only people read are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdwise._core.checksums import CHECKSUM_KEY
from crowdwise._core.json_schema import NUMBER, Field, check
from crowdwise.report.source import VERDICTS

NONE = type(None)
TEXT = Field(str, "a text")
INTEGER = Field(int, "an integer")
FLAG = Field(bool, "true or false")
VALUE = Field(NUMBER, "a number")
OPTIONAL = Field((*NUMBER, NONE), "a number or null")
OPTIONAL_TEXT = Field((str, NONE), "a text or null")
SCORES = dict.fromkeys(("accuracy", "balanced_accuracy", "macro_f1", "log_loss", "ece"), VALUE)
BINS = dict.fromkeys(("low", "high", "confidence", "accuracy", "count"), VALUE)
RELIABILITY = Field((dict, NONE), "bins, or null", inside={"ece": VALUE, "bins": Field(list, "bins", inside=BINS)})
HISTOGRAM = Field(
    dict, "a histogram",
    inside={"edges": Field(list, "numbers", inside=VALUE), "counts": Field(list, "numbers", inside=VALUE)},
)  # fmt: skip
SHARES = Field(list, "shares by class", inside=VALUE)
INTERVAL = {"value": VALUE, "low": VALUE, "high": VALUE}
RANGE = {"low": VALUE, "high": VALUE}
ESTIMATES = {
    "accuracy": Field(dict, "an estimate", inside=INTERVAL),
    "shares": Field(list, "one row per class", inside={"class": TEXT, **INTERVAL}),
    "workers": Field(list, "one row per worker", inside={"worker": TEXT, **INTERVAL}),
}
TRUST = {
    "basis": TEXT,
    "assumes": TEXT,
    "n_gold": INTEGER,
    **dict.fromkeys(("answers_per_task", "effective_votes", "background_rho", "gold_needed"), OPTIONAL),
    "ambiguous": Field((bool, NONE), "true, false or null"),
    "strong": FLAG,
    "families": Field(
        list, "groups of workers", inside={"workers": Field(list, "names", inside=TEXT), "rho": VALUE}
    ),
    "range": Field((dict, NONE), "two shares, or null", inside=RANGE),
    "estimates": Field((dict, NONE), "estimates from gold, or null", inside=ESTIMATES),
}  # fmt: skip
METHOD = {
    "name": TEXT,
    "chosen": FLAG,
    "warnings": Field(list, "sentences", inside=TEXT),
    "failure": OPTIONAL_TEXT,
    "scores": Field((dict, NONE), "scores, or null", inside=SCORES),
    **dict.fromkeys(("rank", "log_likelihood", "to_vote", "to_vote_error", "same_labels"), OPTIONAL),
}
TRUTH = {
    **dict.fromkeys(("tasks", "accepted_tasks"), INTEGER),
    **dict.fromkeys(("accuracy", "low", "high", "vote_accuracy"), VALUE),
    **dict.fromkeys(("accepted_accuracy",), OPTIONAL),
}
SUMMARY = {
    **dict.fromkeys(("n_tasks", "n_workers", "n_answers", "n_classes"), INTEGER),
    "agreement": OPTIONAL,
    "per_task": Field((dict, NONE), "figures, or null", inside={"mean": VALUE}),
    "reading": TEXT,
}
BALANCE = {
    "classes": Field(list, "names of classes", inside=TEXT),
    "answered": SHARES,
    "inferred": SHARES,
    "truth": Field((list, NONE), "shares by class, or null", inside=VALUE),
}
METRICS = {
    "format": Field(int, "the version of the format"),
    "method": Field(str, "the name of the method that made the labels"),
    "why": Field(str, "a sentence"),
    "words": Field(list, "sentences", inside=TEXT),
    "notes": Field(list, "sentences", needed=False, inside=TEXT),
    "counts": Field(dict, "numbers of tasks by verdict", inside=dict.fromkeys(VERDICTS, INTEGER)),
    "verdict_words": Field(dict, "sentences by verdict", inside=dict.fromkeys(VERDICTS, TEXT)),
    "verdict_rules": Field(dict, "bounds of the verdicts", inside=VALUE),
    "beats_vote": Field((bool, NONE), "true, false or null"),
    "expected_accuracy": VALUE,
    "expected_accepted": OPTIONAL,
    "truth": Field((dict, NONE), "scores against known truth, or null", inside=TRUTH),
    "summary": Field(dict, "figures of the answers", inside=SUMMARY),
    "balance": Field(dict, "shares of the classes", inside=BALANCE),
    "choice": Field(
        (dict, NONE), "how the method was chosen, or null",
        inside={"words": TEXT, "n_answers": INTEGER, "folds": INTEGER},
    ),
    "methods": Field(list, "one row per method", inside=METHOD),
    "calibration": Field(
        dict, "the temperature, and bins before and after",
        inside={"temperature": OPTIONAL, "words": TEXT, "before": RELIABILITY, "after": RELIABILITY},
    ),
    "confidence": HISTOGRAM,
    "agreement": HISTOGRAM,
    "ambiguity": Field(dict, "how tasks were ranked", inside={"by": TEXT, "words": TEXT}),
    "history": Field(list, "one row per iteration", inside={"iteration": INTEGER, "R": VALUE}),
    "history_method": Field((str, NONE), "the name of a method, or null", needed=False),
    "curve": Field(
        list, "one row per share of the answers", inside={"answers": INTEGER, "expected": VALUE, "accuracy": OPTIONAL}
    ),
    "curve_method": Field((str, NONE), "the name of a method, or null", needed=False),
    "forecast": Field(
        list, "one row per number of answers bought", inside={"bought": INTEGER, "expected": VALUE}
    ),
    "spammers": Field(int, "a number of workers"),
    "alike": Field(
        list, "groups of workers", needed=False,
        inside={"workers": Field(list, "names", inside=TEXT), "agreement": VALUE, "expected": VALUE},
    ),
    "trust": Field(dict, "what the confidence rests on", needed=False),
    "wrong": Field(
        list, "labels that differ from known ones", needed=False,
        inside={"task": TEXT, "label": TEXT, "known": TEXT, "confidence": VALUE},
    ),
    "files": Field(dict, "checksums by file name", needed=False, inside=TEXT),
    CHECKSUM_KEY: Field(str, "a checksum", needed=False),
}  # fmt: skip
CONFIG = {
    "crowdwise": TEXT,
    "seed": INTEGER,
    "options": Field(dict, "options by name"),
    "data": Field(dict, "checksums by name", needed=False, inside=OPTIONAL_TEXT),
    "inputs": Field(
        list, "input files", inside={"role": TEXT, "path": TEXT, "bytes": Field((int, NONE), "a size", needed=False)}
    ),
}


def check_metrics(content: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the first invalid part of metrics.json."""
    check(content, METRICS, allow_unknown=True)
    if trust := content.get("trust"):  # empty if nothing is known
        check(trust, TRUST, allow_unknown=True, place="trust.")
    for name in ("confidence", "agreement"):
        edges, counts = len(content[name]["edges"]), len(content[name]["counts"])
        _expect(edges == counts + 1, f"{name!r} has {edges} edges and {counts} counts")
    balance = content["balance"]
    for name in ("answered", "inferred", "truth"):
        same = balance[name] is None or len(balance[name]) == len(balance["classes"])
        _expect(same, f"'balance.{name}' has another number of classes than 'balance.classes'")


def _expect(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
