"""Bias that answers may not show: what accepted labels promise and keep, without gold and with 50 gold labels.

    independent   workers err alone
    trick         nearly everybody falls for a wrong class in 15 % of the tasks
    subclass      most workers call a quarter of the tasks of one class by the name of another
    guessed       workers guess class 0 in a quarter of the tasks, the hard ones
    herding       six answers in ten repeat the majority of the answers so far
    copying       half of the workers copy one of them
    families      three families, whose members repeat the family's answer in eight cases of ten
    against       60 % of the workers always give the class after the right one

`python -m benchmarks trust` prints the table and writes it to benchmarks/results/trust_bias.csv. Crowds have 600 tasks,
20 workers, 3 classes and 5 answers per task; workers are right in 60 to 95 % of the tasks.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

import crowdwise as cw
from crowdwise.trust.calibrator import Calibrator, calibrated

KINDS = ("independent", "trick", "subclass", "guessed", "herding", "copying", "families", "against")
N_TASKS, N_WORKERS, N_CLASSES, PER_TASK = 600, 20, 3, 5
N_GOLD, N_SEEDS = 50, 10
ACCEPTED = 0.9


def biased(kind: str, seed: int) -> cw.Answers:
    """A crowd with one kind of bias."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    k, shape = N_CLASSES, (N_TASKS, PER_TASK)
    truth = rng.integers(0, k, N_TASKS)
    worker = np.argsort(rng.random((N_TASKS, N_WORKERS)), axis=1)[:, :PER_TASK]  # (tasks, answers)
    right = rng.random(shape) < rng.uniform(0.6, 0.95, N_WORKERS)[worker]
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, k, shape)) % k)
    wrong = (truth + rng.integers(1, k, N_TASKS)) % k
    if kind == "trick":
        said = np.where((rng.random(N_TASKS) < 0.15)[:, None] & (rng.random(shape) < 0.85), wrong[:, None], said)
    elif kind == "subclass":
        lured = (truth == 0) & (rng.random(N_TASKS) < 0.25)
        said = np.where(lured[:, None] & (rng.random(shape) < 0.8), 1, said)
    elif kind == "guessed":
        said = np.where((rng.random(N_TASKS) < 0.25)[:, None] & (rng.random(shape) < 0.8), 0, said)
    elif kind == "herding":
        for place in range(1, PER_TASK):
            votes = (said[:, :place, None] == np.arange(k)).sum(axis=1)
            follows = rng.random(N_TASKS) < 0.6
            said[follows, place] = votes[follows].argmax(axis=1)
    elif kind in ("copying", "families"):
        n_groups, share = (1, 1.0) if kind == "copying" else (3, 0.8)
        member = np.arange(N_WORKERS) < N_WORKERS // 2 if kind == "copying" else np.ones(N_WORKERS, bool)
        group = np.arange(N_WORKERS) % n_groups
        own = np.where(rng.random((N_TASKS, n_groups)) < 0.7, truth[:, None], wrong[:, None])
        repeats = member[worker] & (rng.random(shape) < share)
        said = np.where(repeats, np.take_along_axis(own, group[worker], axis=1), said)
    elif kind == "against":
        said = np.where(worker < 0.6 * N_WORKERS, (truth[:, None] + 1) % k, said)
    task = np.repeat(np.arange(N_TASKS), PER_TASK)
    return cw.Answers.from_codes(
        task, worker.ravel(), said.ravel(), tasks=N_TASKS, workers=N_WORKERS, classes=k, truth=truth
    )


def bias_rows(table: Calibrator) -> list[dict[str, float | str]]:
    """One row per kind: mean confidence and accuracy, and accepted labels, without and with gold."""
    rows = []
    for kind in KINDS:
        scores = []
        for seed in range(N_SEEDS):
            answers = biased(kind, seed)
            order = np.random.default_rng(seed).permutation(N_TASKS)
            gold = np.full(N_TASKS, -1, np.int32)
            gold[order[:N_GOLD]] = answers.truth[order[:N_GOLD]]
            before = calibrated(answers, calibrator=table)
            after = calibrated(answers, gold, calibrator=table, pools=(before.pool, before.cautious))
            score: dict[str, float] = {"dependence": before.inputs.dependence}
            for name, result in (("", before), ("gold_", after)):
                confidence, rest = result.confidence[order[N_GOLD:]], order[N_GOLD:]
                correct, accepted = result.codes[rest] == answers.truth[rest], confidence >= ACCEPTED
                score |= {
                    f"{name}confidence": confidence.mean(), f"{name}accuracy": correct.mean(),
                    f"{name}accepted": accepted.mean(), f"{name}promised": (confidence * accepted).sum(),
                    f"{name}kept": (correct & accepted).sum(), f"{name}n": accepted.sum(),
                }  # fmt: skip
            scores.append(score)
        total = {name: float(np.sum([score[name] for score in scores])) for name in scores[0]}
        row: dict[str, float | str] = {"crowd": kind}
        for name, value in total.items():
            part = name.rpartition("_")[0]
            n = total[f"{part}_n" if part else "n"]
            if name.endswith(("promised", "kept")):
                row[name] = value / n if n else float("nan")
            elif name not in ("n", "gold_n"):
                row[name] = value / N_SEEDS
        rows.append(row)
    return rows


def print_bias(rows: list[dict[str, float | str]], console: Console) -> None:
    """Print the table."""
    shown = Table(*rows[0], title=f"bias: without gold, and with {N_GOLD} gold labels (gold_)")
    for row in rows:
        shown.add_row(*(value if isinstance(value, str) else f"{value:.3f}" for value in row.values()))
    console.print(shown)
