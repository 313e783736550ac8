"""How often the intervals of worker quality hold the share of right answers, on real and simulated crowds.

    before     the table of workers without calibration: intervals by peers and by the labels
    labels     only the uncertainty of each label by itself (deviations of 0)
    run        the table of workers of a run; on a real crowd, deviations and table are learned without its source
    100 gold   the same after 100 gold labels, if at least 300 tasks have known truth (mean over 3 draws)

A worker counts if 20 or more of their tasks have known truth. "error" is the mean absolute error of quality. The
deviations minimise, with d = share of right answers - quality over the workers of each crowd,

    sum over crowds of (log det C + d' C^-1 d) / workers
    C = diag(label variance + sigma^2 own^2) + tau^2 crowd crowd'

in the notation of `crowdwise.trust.worker_quality`. Simulated: the independent crowds of `python -m benchmarks trust`,
and crowds of 40 workers of all kinds with 1.5 to 5 answers per task. Needs `CROWDWISE_DATA` with all real crowds.
"""

from __future__ import annotations

import argparse
import warnings
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

import crowdwise as cw
from benchmarks.trust_calibrator import INDEPENDENT_SEEDS, fit, left_out, write_rows
from benchmarks.trust_crowds import OTHERS, PANEL, TRUTH_SETS, real, simulated
from crowdwise.errors import CrowdwiseWarning
from crowdwise.run.tables.workers import rate_workers
from crowdwise.simulate import answer, crowd, draw_truth
from crowdwise.trust.calibrator import Calibrated, calibrated
from crowdwise.trust.worker_quality import CROWD, WORKER, Moments, moments, quality_by_labels
from crowdwise.truth.peer_quality import quality_by_peers

MIN_TASKS, MIN_WORKERS = 20, 5
N_GOLD, N_DRAWS = 100, 3
START = (0.5, 1.0)


class Rated(NamedTuple):
    """A crowd with its labels, and what is known of its workers."""

    name: str
    source: str
    answers: cw.Answers
    labels: Calibrated
    share: np.ndarray  # (workers,) of right answers
    scored: np.ndarray  # (workers,) bools
    moments: Moments


def rated(name: str, source: str, answers: cw.Answers, labels: Calibrated) -> Rated:
    """Compare the workers of a crowd with the truth."""
    known = answers.truth[answers.task] >= 0
    n = np.bincount(answers.worker[known], minlength=answers.n_workers)
    right = (answers.label == answers.truth[answers.task])[known]
    share = np.bincount(answers.worker[known], right, answers.n_workers) / np.maximum(n, 1)
    peers, _ = quality_by_peers(answers, labels.proba)
    return Rated(name, source, answers, labels, share, n >= MIN_TASKS,
                 moments(answers, labels.proba, labels.codes, peers))  # fmt: skip


def learn(crowds: list[Rated]) -> tuple[float, float]:
    """Return the most likely deviations of crowds and workers."""

    def loss(log_deviations: np.ndarray) -> float:
        tau, sigma = np.exp(log_deviations)
        total = 0.0
        for each in crowds:
            d = (each.share - each.moments.quality)[each.scored]
            own, slope, variance = (part[each.scored] for part in (
                each.moments.own, each.moments.crowd, each.moments.label_variance))  # fmt: skip
            c = np.diag(variance + 1e-4 + (sigma * own) ** 2) + tau**2 * np.outer(slope, slope)
            total += (np.linalg.slogdet(c)[1] + d @ np.linalg.solve(c, d)) / len(d)
        return total

    tau, sigma = np.exp(minimize(loss, np.log(START), method="Nelder-Mead").x)
    return float(tau), float(sigma)


def score(each: Rated, deviations: tuple[float, float], kind: str) -> dict[str, float | str]:
    """Return coverage, width and error of each kind of interval."""
    row: dict[str, float | str] = {"crowd": each.name, "kind": kind, "workers": int(each.scored.sum())}
    answers, labels = each.answers.with_truth(None), each.labels
    table = rate_workers(answers, labels.proba, labels.codes)
    before = [table.column(name).to_numpy() for name in ("quality", "quality_low", "quality_high")]
    row |= _figures(each, before, "before")
    for name, pair in (("labels", (0.0, 0.0)), ("run", deviations)):
        row |= _figures(each, quality_by_labels(answers, labels.proba, labels.codes, deviations=pair), name)
    known = np.flatnonzero(each.answers.truth >= 0)
    if kind == "real" and len(known) >= 3 * N_GOLD:
        parts = []
        for seed in range(N_DRAWS):
            gold = np.full(answers.n_tasks, -1, np.int32)
            drawn = np.random.default_rng(seed).choice(known, N_GOLD, replace=False)
            gold[drawn] = each.answers.truth[drawn]
            found = calibrated(answers, gold, pools=(labels.pool, labels.cautious))
            quality = quality_by_labels(answers, found.proba, found.codes, gold, deviations=deviations)
            parts.append(_figures(each, quality, "gold"))
        row |= {name: float(np.mean([part[name] for part in parts])) for name in parts[0]}
    return row


def _figures(each: Rated, found, name: str) -> dict[str, float]:
    quality, low, high = (part[each.scored] for part in found[:3])
    share = each.share[each.scored]
    return {f"{name} covers": ((low <= share) & (share <= high)).mean(), f"{name} width": (high - low).mean(),
            f"{name} error": np.abs(quality - share).mean()}  # fmt: skip


def real_crowds() -> list[Rated]:
    """Return the real crowds with enough workers, labelled by tables learned without them."""
    fitted = [fit(real(name)) for name in (*TRUTH_SETS, PANEL, *OTHERS)]
    out = []
    for each in fitted:
        answers = each.crowd.answers
        labels = calibrated(answers.with_truth(None), calibrator=left_out(each, fitted), pools=each.pools)
        out.append(rated(each.crowd.name, each.crowd.source, answers, labels))
    return [each for each in out if each.scored.sum() >= MIN_WORKERS]


def simulated_crowds() -> list[Rated]:
    """Return crowds whose workers err independently."""
    made = [(f"independent {seed}", simulated("independent", seed).answers) for seed in INDEPENDENT_SEEDS[:15]]
    for per_task in (1.5, 2.5, 5.0):
        for seed in range(5):
            confusion = crowd(40, 4, "mixed", seed=seed)
            made.append((f"{per_task} answers per task {seed}",
                         answer(draw_truth(1000, 4, seed=seed), confusion, per_task, seed=seed)))  # fmt: skip
    return [rated(name, name, answers, calibrated(answers.with_truth(None))) for name, answers in made]


def main(arguments: list[str] | None = None) -> None:
    """Score all crowds, print and store the scores, and print the deviations learned from all real crowds."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks worker-quality", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.parse_args(arguments)
    warnings.simplefilter("ignore", CrowdwiseWarning)
    crowds = real_crowds()
    rows = []
    for each in crowds:
        deviations = learn([other for other in crowds if other.source != each.source])
        rows.append(score(each, deviations, "real"))
    rows += [score(each, (CROWD, WORKER), "simulated") for each in simulated_crowds()]
    write_rows("worker_quality.csv", rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    console, table = Console(width=200), Table(*columns)
    for row in rows:
        table.add_row(*(f"{value:.2f}" if isinstance(value := row.get(name, ""), float) else str(value)
                        for name in columns))  # fmt: skip
    console.print(table)
    for kind in ("real", "simulated"):
        part = [row for row in rows if row["kind"] == kind]
        means = {name: np.mean([row[name] for row in part if name in row]) for name in columns[3:]}
        console.print(f"{kind}, mean of {len(part)}: " + ", ".join(f"{name} {x:.3f}" for name, x in means.items()))
    tau, sigma = learn(crowds)
    console.print(f"learned from all {len(crowds)} real crowds: CROWD {tau:.2f}, WORKER {sigma:.2f}")


if __name__ == "__main__":
    main()
