"""Imbalanced pair matching: are these two offers the same product? Only 12 % are, and accuracy hides it.

Product: 8,315 pairs of offers, three answers each. Always answering "different" is right nearly nine times in ten and
finds nothing. The example shows accuracy, balanced accuracy and F1 of the rare class, for that baseline, for majority
vote and for the method the run chose; and what `--accept` does to the rare class: only confident labels are accepted,
and labels of a rare class are seldom confident. The report shows the texts of the pairs.

The truth is used for scoring only. Needs the data (docs/datasets.md): product/ in the folder CROWDWISE_DATA.

    python examples/pairs_product.py [--out runs/product]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw

SAME = 1  # the class of pairs that are the same product; 0: different
LEVELS = (0.8, 0.9, 0.99)  # of --accept


def pair_texts(pairs: dict[str, np.ndarray] | None, n_tasks: int) -> list[str] | None:
    """Return the text of each pair for the report."""
    if pairs is None:
        return None
    sides = (zip(pairs[f"{side}_name"], pairs[f"{side}_price"], strict=True) for side in ("left", "right"))
    shown = ([f"{name} ({price})" if price else name for name, price in side] for side in sides)
    return [f"{left}\nor\n{right}" for left, right in zip(*shown, strict=True)][:n_tasks]


def row(name: str, codes: np.ndarray, truth: np.ndarray) -> str:
    """Return the scores of labels as one line."""
    scores = cw.evaluate.evaluate(codes, truth)
    f1 = scores.per_class[SAME].f1 or 0.0  # undefined if no pair is labelled the same
    return f"  {name:20} {scores.accuracy:8.1%} {scores.balanced_accuracy:12.1%} {f1:14.3f}"


def main(out: Path, small: bool = False) -> cw.run.Run:
    """Run the complete job on the answers, then inspect the rare class."""
    data: Any = cw.datasets.load("product")
    n_tasks = 800 if small else data.answers.n_tasks
    options: dict[str, Any] = {"method": ["wawa", "dawid-skene"], "folds": 2} if small else {}
    answers = data.answers[:n_tasks]
    truth = answers.truth

    # encode=False: the texts are for the report only and are not turned into features
    run = cw.run(answers, out, texts=pair_texts(data.texts, n_tasks), encode=False, resume=True, **options)

    rare = truth == SAME
    vote = cw.MajorityVote().fit(answers).codes_
    method = run.metrics["method"]
    print(f"{n_tasks:,} pairs, {rare.mean():.1%} of them the same product.")
    print(f"  {'':20} {'accuracy':>8} {'balanced':>12} {'F1 of the same':>14}")
    print(row('always "different"', np.zeros_like(truth), truth))
    print(row("majority-vote", vote, truth))
    print(row(f"{method} (chosen)", run.codes, truth))
    print(run.metrics["why"])
    lead = 100 * (np.mean(vote == truth) - np.mean(~rare))
    print(f"By accuracy, majority vote is only {lead:.1f} points above that baseline,")
    print(f"but it finds {np.mean(vote[rare] == SAME):.1%} of the pairs that are the same, not 0 %.")

    confidence = run.labels.column("confidence").to_numpy()
    labelled_same = run.codes == SAME
    print("Labels with at least this confidence (--accept) are accepted:")
    for level in LEVELS:
        accepted = confidence >= level
        found = accepted & labelled_same & rare
        print(
            f'  {level:.2f}: {accepted[~labelled_same].mean():.1%} of the labels "different" and '
            f'{accepted[labelled_same].mean():.1%} of the labels "same", which find {found.sum() / rare.sum():.1%} of '
            "the pairs that are the same."
        )
    next_tasks = set(run.next.column("task").to_pylist())
    proposed = np.isin(answers.tasks, list(next_tasks))
    print(f"Of the {len(next_tasks):,} pairs to ask about next, {rare[proposed].mean():.1%} are the same product.")
    print(f"Report, with the texts of the pairs: {run.path / 'report.html'}")
    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/product"), help="run folder")
    main(parser.parse_args().out)
