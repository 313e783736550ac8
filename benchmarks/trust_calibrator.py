"""Train and score the calibrator of `crowdwise.trust`: `python -m benchmarks trust [--train]`.

The rule was fixed in benchmarks/notes/trust_protocol.md before the scores were computed. Without an option, every real
crowd is scored by a table learned from the others, without and with gold; the scores go to benchmarks/results/trust.csv
and, for simulated crowds with bias, to trust_bias.csv (`benchmarks.trust_bias`). Rows "platt" are what gold did before:
it rescaled the confidence of the pool's labels, and changed none. `--train` learns from all real crowds and writes the
table that is shipped. `--more` scores the 11 sets of truth/ by tables that also learn from thinned and simulated
crowds; it was tried, is not shipped, and writes nothing.

    minimise  - sum_s 1/n[s] sum_t log P(correct[s, t]) + RIDGE/20 sum_s (z_slope^2 + z_shared^2)     s = set, t = task

with z the coefficients of standardised inputs. Each set counts the same. Needs `CROWDWISE_DATA` with all real crowds.
"""

from __future__ import annotations

import argparse
import csv
import json
import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import expit

import crowdwise as cw
from benchmarks.files import RESULTS
from benchmarks.trust_bias import bias_rows, print_bias
from benchmarks.trust_crowds import KINDS, OTHERS, PANEL, TRUTH_SETS, Crowd, real, simulated, thinned
from crowdwise.errors import CrowdwiseWarning
from crowdwise.evaluate.calibration import reliability
from crowdwise.trust.calibrator import TABLE, Calibrated, Calibrator, calibrated, fit_pools, measure
from crowdwise.trust.features import Inputs, inputs
from crowdwise.trust.gold import platt_scaling
from crowdwise.trust.tempering import temper_to
from crowdwise.truth.base import vote_shares
from crowdwise.truth.methods.pool import Pool

VERSION = "2"
RIDGE = 0.02
ACCEPTED = 0.9
N_JUDGES = 10  # of small panels
N_GOLD, N_DRAWS, N_DRAWS_ELSEWHERE = (50, 100, 200, 400), 20, 5
PANEL_SCORES = ("accuracy", "confidence", "accepted", "promised", "measured", "ece")
INDEPENDENT_SEEDS = range(100, 130)  # not used while the rule was chosen


class Fitted(NamedTuple):
    """A crowd with its pools."""

    crowd: Crowd
    pools: tuple[Pool, Pool | None]
    inputs: Inputs
    plain: Pool  # of the answers as they are, to learn from
    plain_inputs: Inputs
    known: np.ndarray  # positions of answered tasks with known truth
    weight: float  # in training

    @property
    def pool(self) -> Pool:
        """The pool that labels the tasks."""
        return self.pools[0]


def fit(crowd: Crowd, weight: float = 1.0) -> Fitted:
    """Fit the pool of a crowd."""
    found = measure(crowd.answers)
    pools = fit_pools(crowd.answers, found)
    plain = Pool().fit(crowd.answers) if found is not None and found.families else pools[0]
    values = inputs(*pools)
    return Fitted(
        crowd, pools, values, plain, inputs(plain), np.flatnonzero((crowd.answers.truth >= 0) & values.answered), weight
    )


def train(crowds: list[Fitted]) -> Calibrator:
    """Learn a table from crowds; real ones of one source share the weight of one."""
    sources = [each.crowd.source for each in crowds if each.weight == 1]
    x, y, weight = [], [], []
    for each in crowds:
        n = len(each.known)
        values, codes = each.plain_inputs, each.plain.codes_
        x.append(np.column_stack([values.method_log_odds[each.known], np.full(n, values.dependence)]))
        y.append(codes[each.known] == each.crowd.answers.truth[each.known])
        weight.append(np.full(n, each.weight / n / max(1, sources.count(each.crowd.source))))
    x, y, weight = np.vstack(x), np.concatenate(y).astype(float), np.concatenate(weight)
    centre = np.average(x, axis=0, weights=weight)
    scale = np.sqrt(np.average((x - centre) ** 2, axis=0, weights=weight))
    z = np.column_stack([np.ones(len(x)), (x - centre) / scale])  # (tasks, 3)
    penalty = np.array([0.0, 1.0, 1.0]) * RIDGE * weight.sum() / 10
    theta = np.array([0.0, scale[0], 0.0])
    for _ in range(50):
        p = expit(z @ theta)
        gradient = z.T @ (weight * (y - p)) - penalty * theta
        step = np.linalg.solve((z.T * (weight * p * (1 - p))) @ z + np.diag(penalty), gradient)
        theta = theta + np.clip(step, -1, 1)
    slope, shared = theta[1:] / scale
    bias = theta[0] - centre @ np.array([slope, shared])
    names = [each.crowd.name for each in crowds]
    return Calibrator(
        VERSION, float(bias), float(slope), float(shared), names, np.array([e.plain_inputs.crowd for e in crowds])
    )


def score(each: Fitted, result: Calibrated, tasks: np.ndarray) -> dict[str, float | str]:
    """The figures of one crowd over some tasks of known truth."""
    answers = each.crowd.answers
    truth, confidence = answers.truth[tasks], result.confidence[tasks]
    correct = result.codes[tasks] == truth
    shares = vote_shares(answers)[tasks]
    most = shares >= shares.max(axis=1, keepdims=True) - 1e-12  # ties count in part
    accepted = confidence >= ACCEPTED
    promised = confidence[accepted].mean() if accepted.any() else np.nan
    measured = correct[accepted].mean() if accepted.any() else np.nan
    return {
        "accuracy": correct.mean(), "vote": (most[np.arange(len(tasks)), truth] / most.sum(axis=1)).mean(),
        "confidence": confidence.mean(), "accepted": accepted.mean(), "promised": promised, "measured": measured,
        "gap": promised - measured, "ece": reliability(confidence, correct).ece,
        "brier": np.mean((confidence - correct) ** 2),
        "log_loss": -np.mean(np.log(np.maximum(np.where(correct, confidence, 1 - confidence), 1e-4))),
        "distance": result.distance, "dependence": each.inputs.dependence,
    }  # fmt: skip


def left_out(each: Fitted, crowds: list[Fitted]) -> Calibrator:
    """The table learned without the crowd's source."""
    return train([other for other in crowds if other.crowd.source != each.crowd.source])


def with_gold(each: Fitted, table: Calibrator) -> list[dict[str, float | str]]:
    """Mean scores over the other tasks, for draws of gold: anchored to it, and rescaled by it (platt)."""
    rows: list[dict[str, float | str]] = []
    answers, before = each.crowd.answers, calibrated(each.crowd.answers, calibrator=table, pools=each.pools)
    panel = each.crowd.name == PANEL
    for n_gold in N_GOLD if panel else N_GOLD[:2]:
        if len(each.known) < 2 * n_gold:
            continue
        draws: dict[str, list[dict[str, float | str]]] = {"gold": [], "gold, platt": []}
        for seed in range(N_DRAWS if panel else N_DRAWS_ELSEWHERE):
            drawn = np.random.default_rng(seed).permutation(each.known)
            gold = np.full(answers.n_tasks, -1, np.int32)
            gold[drawn[:n_gold]] = answers.truth[drawn[:n_gold]]
            anchored = calibrated(answers, gold, calibrator=table, pools=each.pools)
            known = gold >= 0
            scaling = platt_scaling(before.confidence[known], before.codes[known] == gold[known])
            confidence = np.where(each.inputs.answered, scaling(before.confidence), before.confidence)
            scaled = replace(before, proba=temper_to(each.pool.proba_, before.codes, confidence))
            for name, result in (("gold", anchored), ("gold, platt", scaled)):
                row = score(each, result, drawn[n_gold:])
                row["off_per_draw"] = abs(float(row["confidence"]) - float(row["accuracy"]))
                draws[name].append(row)
        for name, each_draw in draws.items():
            mean = {key: float(np.nanmean([row[key] for row in each_draw])) for key in each_draw[0]}
            rows.append({"crowd": each.crowd.name, "setting": f"{n_gold} {name}"} | mean)
    return rows


def small_panels(panel: Fitted, table: Calibrator) -> list[dict[str, float | str]]:
    """Ten judges drawn from the panel, with the confidence limited by their families, and without that step."""
    answers, rows = panel.crowd.answers, []
    for seed in range(N_DRAWS_ELSEWHERE):
        drawn = np.random.default_rng(seed).choice(answers.n_workers, N_JUDGES, replace=False)
        part = fit(panel.crowd._replace(answers=answers.select(workers=answers.workers[drawn])))
        for setting, pools in (("ten judges", part.pools), ("ten judges, full weight", (part.pool, None))):
            result = calibrated(part.crowd.answers, calibrator=table, pools=pools)
            rows.append({"crowd": f"{PANEL} {seed}", "setting": setting} | score(part, result, part.known))
    return rows


def independent(crowds: list[Fitted]) -> list[dict[str, float | str]]:
    """Independent simulated crowds: the calibrated pool and Dawid-Skene on the same answers."""
    table, rows = train(crowds), []
    for seed in INDEPENDENT_SEEDS:
        each = fit(simulated("independent", seed))
        row = score(each, calibrated(each.crowd.answers, calibrator=table, pools=each.pools), each.known)
        model = cw.DawidSkene().fit(each.crowd.answers)
        correct = model.codes_ == each.crowd.answers.truth
        row |= {"ds_accuracy": correct.mean(), "ds_ece": reliability(model.proba_.max(axis=1), correct).ece}
        rows.append({"crowd": each.crowd.name, "setting": "independent"} | row)
    return rows


def main() -> None:
    """Train, or score and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="write the shipped table and stop")
    parser.add_argument("--table", action="store_true", help="print the table learned from all crowds and stop")
    parser.add_argument("--more", action="store_true", help="learn from thinned and simulated crowds too, and stop")
    options = parser.parse_args()
    warnings.simplefilter("ignore", CrowdwiseWarning)
    console = Console(width=160)
    crowds = [fit(real(name)) for name in (*TRUTH_SETS, PANEL, *OTHERS)]
    if options.train or options.table:
        content = json.dumps(_rounded(train(crowds).to_dict()), indent=1)
        if options.train:
            TABLE.write_text(content + "\n", encoding="utf-8")
        console.print(content)
        return
    rows: list[dict[str, float | str]] = []
    if options.more:
        more = [fit(thinned(each.crowd, 0.2 if each.crowd.name == PANEL else 0.5, 1), 0.3) for each in crowds]
        more += [fit(simulated(kind, seed), 0.03) for kind in KINDS for seed in range(6)]
        for each in crowds[: len(TRUTH_SETS)]:
            result = calibrated(each.crowd.answers, calibrator=left_out(each, crowds + more), pools=each.pools)
            rows.append({"crowd": each.crowd.name, "setting": "left out"} | score(each, result, each.known))
        return summary(rows, console)
    for each in crowds:
        table = left_out(each, crowds)
        result = calibrated(each.crowd.answers, calibrator=table, pools=each.pools)
        rows.append({"crowd": each.crowd.name, "setting": "left out"} | score(each, result, each.known))
        if each.crowd.name in (*TRUTH_SETS, PANEL):
            rows += with_gold(each, table)
        if each.crowd.name == PANEL:
            rows += small_panels(each, table)
    rows += independent(crowds)
    bias = bias_rows(train(crowds))
    write_rows("trust.csv", rows)
    write_rows("trust_bias.csv", bias)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    shown = Table(*columns)
    for row in rows:
        shown.add_row(*(_text(row.get(name, "")) for name in columns))
    console.print(shown)
    summary(rows, console)
    print_bias(bias, console)


def write_rows(name: str, rows: list[dict[str, float | str]]) -> None:
    """Write a table of results."""
    with (RESULTS / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(column for row in rows for column in row)))
        writer.writeheader()
        writer.writerows([_rounded(row) for row in rows])


def summary(rows: list[dict[str, float | str]], console: Console) -> None:
    """Print the figures that the issue sets bars for."""
    ours = [row for row in rows if row["crowd"] in TRUTH_SETS and row["setting"] == "left out"]
    gap = np.array([row["gap"] for row in ours], float)
    accuracy, vote = (np.array([row[name] for row in ours], float) for name in ("accuracy", "vote"))
    console.print(
        f"11 sets: gap mean {100 * np.nanmean(gap):+.1f}, of absolute values {100 * np.nanmean(abs(gap)):.1f}, largest "
        f"{100 * np.nanmax(gap):+.1f}; accepted {np.mean([row['accepted'] for row in ours]):.3f}; "
        f"accuracy {accuracy.mean():.4f}, worst against the vote {100 * (accuracy - vote).min():+.1f}; "
        f"ECE {np.mean([row['ece'] for row in ours]):.3f}"
    )
    for n_gold in N_GOLD[:2]:
        pairs = [[row for row in rows if row["setting"] == f"{n_gold} {name}"] for name in ("gold", "gold, platt")]
        for name in ("accuracy", "off_per_draw", "ece", "brier", "log_loss"):
            values = [[float(row[name]) for row in part if row["crowd"] in TRUTH_SETS] for part in pairs]
            if len(values[0]) > 1:
                difference = np.subtract(*values)
                error = difference.std(ddof=1) / np.sqrt(len(difference))
                console.print(
                    f"{n_gold} gold, {len(difference)} sets: {name} {np.mean(values[0]):.4f}, "
                    f"minus that of platt {difference.mean():+.4f} +- {error:.4f}, from {difference.min():+.4f} to "
                    f"{difference.max():+.4f}"
                )
    for setting in ("ten judges", "ten judges, full weight"):
        part = [row for row in rows if row["setting"] == setting]
        if part:
            means = {name: np.nanmean([float(row[name]) for row in part]) for name in PANEL_SCORES}
            console.print(f"{setting}: " + ", ".join(f"{name} {value:.3f}" for name, value in means.items()))
    simulated_rows = [row for row in rows if row["setting"] == "independent"]
    for name in ("accuracy", "ece") if simulated_rows else ():
        difference = np.array([row[name] - row[f"ds_{name}"] for row in simulated_rows], float)
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        console.print(f"independent crowds: {name} minus Dawid-Skene's {difference.mean():+.4f} +- {error:.4f}")


def _rounded(value):
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(float(value), 5) if isinstance(value, float | np.floating) else value


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"


if __name__ == "__main__":
    main()
