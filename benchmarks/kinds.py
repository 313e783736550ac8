"""Answers that are not one class, ratings so far: accuracy on real and simulated crowds, intervals and speed.

    python -m benchmarks kinds [--quick]

Real data are those of `$CROWDWISE_DATA` (trec_dl23, s_rel, Snow's emotions); what is missing is left out.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw
from benchmarks.files import RESULTS, write_results
from crowdwise.evaluate import evaluate_ratings
from crowdwise.kinds.ratings.methods.ordinal_pool import as_classes
from crowdwise.simulate import rating_crowd

SCALE = ("median", "mean-rounded", "ordinal-dawid-skene", "ordinal-glad", "ordinal-pool")
NUMBERS = ("mean", "median", "trimmed-mean", "gaussian-workers", "student-workers", "gtm", "catd")
ORDERED = {"trec_dl23": "panels/trec_dl23", "s_rel": "truth/s_rel"}
SETTINGS: tuple[dict[str, Any], ...] = (
    {}, {"answers_per_task": 3}, {"answers_per_task": 10}, {"bias": 1.0}, {"bias": 0.0}, {"spread": 0.4},
    {"spread": 1.2}, {"scale": 0.4}, {"careless": 0.2}, {"careless": 0.4, "answers_per_task": 7}, {"difficulty": 0.6},
    {"skew": 1.0}, {"skew": 1.0, "careless": 0.2}, {"n_levels": 3}, {"n_levels": 7}, {"n_levels": 10, "spread": 1.2},
    {"n_workers": 8}, {"n_workers": 150}, {"n_tasks": 100},
    {"n_tasks": 2000, "n_workers": 100, "bias": 0.8, "careless": 0.1},
)  # fmt: skip


def read(folder: str, **options: Any) -> Any:
    """Return the ratings of a data set with their truth, or None without it."""
    home = Path(os.environ.get("CROWDWISE_DATA", "data")) / folder
    if not (home / "answers.csv.gz").is_file():
        print(f"{folder}: not in CROWDWISE_DATA, left out")
        return None
    ratings = cw.read(home / "answers.csv.gz", kind="ratings", duplicates="last", **options)
    return cw.io.reader.attach_truth(ratings, home / "truth.csv.gz")


def line(name: str, scores: dict[str, Any], *columns: str) -> None:
    """Print a row of a table."""
    print(f"  {name:<22}" + "".join(f"{column} {scores[column]:8.3f}   " for column in columns), flush=True)


def ordered() -> dict[str, Any]:
    """Methods for a scale, majority vote and Dawid-Skene, on crowds with ordered classes."""
    out: dict[str, Any] = {}
    for name, folder in ORDERED.items():
        ratings = read(folder)
        if ratings is None:
            continue
        print(f"{name}: {ratings}")
        known, classes = np.isfinite(ratings.truth), as_classes(ratings)
        for method in ("majority-vote", "dawid-skene"):
            codes = cw.make(method).fit(classes).codes_
            value, truth = ratings.values[codes][known], ratings.truth[known]
            scores = {"mae": abs(value - truth).mean(), "exact": (value == truth).mean(),
                      "qwk": cw.evaluate.quadratic_weighted_kappa(truth, value)}  # fmt: skip
            out[f"{name} {method}"] = scores
            line(method, scores, "mae", "qwk", "exact")
        for method in SCALE:
            out[f"{name} {method}"] = scores = evaluate_ratings(cw.make(method).fit(ratings), ratings.truth)
            line(method, scores, "mae", "qwk", "exact")
    return out


def simulated(seeds: int) -> dict[str, Any]:
    """Methods for a scale on 20 settings: accuracy, and confidence minus accuracy."""
    rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in (*SCALE, "majority-vote")}
    for i, setting in enumerate(SETTINGS):
        for seed in range(seeds):
            ratings = rating_crowd(seed=100 * seed + i, **setting)
            truth = ratings.nearest(ratings.truth)
            for name in SCALE:
                model = cw.make(name).fit(ratings)
                right = (model.codes_ == truth).mean()
                rows[name].append((abs(model.codes_ - truth).mean(), right, model.confidence_.mean() - right))
            vote = cw.MajorityVote().fit(as_classes(ratings))
            right = (vote.codes_ == truth).mean()
            rows["majority-vote"].append(
                (abs(vote.codes_ - truth).mean(), right, vote.proba_.max(axis=1).mean() - right)
            )
    print(f"{len(SETTINGS)} simulated crowds on a scale, {seeds} seeds each")
    out = {}
    best = np.array(rows["ordinal-dawid-skene"])[:, 0]
    for name, values in rows.items():
        table = np.array(values)
        lead = table[:, 0] - best
        out[name] = {
            "mae": table[:, 0].mean(), "exact": table[:, 1].mean(), "expected minus measured": table[:, 2].mean(),
            "mae above ordinal-dawid-skene": lead.mean(), "its error": lead.std() / np.sqrt(len(lead)),
        }  # fmt: skip
        line(name, out[name], *out[name])
    return out


def numbers(seeds: int) -> dict[str, Any]:
    """Methods for numbers on Snow's four emotions and on simulated crowds."""
    out: dict[str, Any] = {}
    for name in ("anger", "fear", "joy", "valence"):
        ratings = read(f"kinds/numeric/snow_{name}", numeric=True)
        if ratings is None:
            continue
        print(f"Snow, {name}")
        for method in NUMBERS:
            model = cw.make(method).fit(ratings)
            scores = evaluate_ratings(model, ratings.truth)
            if hasattr(model, "population_"):
                low, high = model.interval(0.9, of="expert").T
                scores["of expert"] = float(((low <= ratings.truth) & (ratings.truth <= high)).mean())
            out[f"{name} {method}"] = scores
            line(method, scores, "rmse", "correlation", "inside", *(["of expert"] if "of expert" in scores else []))
    print("Simulated numbers")
    settings = [s for s in SETTINGS if not {"n_levels", "skew", "difficulty"} & s.keys()]
    for method in NUMBERS:
        found = [
            evaluate_ratings(cw.make(method).fit(ratings), ratings.truth)
            for seed in range(seeds)
            for ratings in (rating_crowd(seed=seed, **{**s, "n_levels": None}) for s in settings)
        ]
        out[f"simulated {method}"] = {key: float(np.mean([f[key] for f in found])) for key in ("rmse", "inside")}
        line(method, out[f"simulated {method}"], "rmse", "inside")
    return out


def speed(n_answers: int) -> dict[str, float]:
    """Seconds of each method, relative to Dawid-Skene on the same answers."""
    out: dict[str, float] = {}
    ratings = rating_crowd(n_answers // 5, 1000, seed=0)
    measured = rating_crowd(n_answers // 5, 1000, None, seed=0)
    jobs = {"dawid-skene": as_classes(ratings), **dict.fromkeys(SCALE, ratings), **dict.fromkeys(NUMBERS, measured)}
    for name, answers in jobs.items():
        cw.make(name).fit(answers[:200])  # compile
        start = time.process_time()
        cw.make(name).fit(answers)
        out[name] = time.process_time() - start
        print(
            f"  {name:<22} {out[name]:8.2f} s of CPU, {out[name] / out['dawid-skene']:6.1f} times Dawid-Skene",
            flush=True,
        )
    return out


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one seed, and speed on fewer answers")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore", cw.CrowdwiseWarning)
    result = {"ordered": ordered(), "simulated": simulated(1 if quick else 3), "numbers": numbers(1 if quick else 3),
              "speed": speed(100_000 if quick else 1_000_000)}  # fmt: skip
    write_results(RESULTS / "kinds.json", result)


if __name__ == "__main__":
    main()
