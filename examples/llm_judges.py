"""A panel of language models as judges: where counting votes misleads, and what helps.

Seven judges decide which of two replies is better: A, B or neither ("tie"). Four of them err independently. The other
three are fine-tuned from one base model, so when the base model is wrong, all three are wrong in the same way. Each of
them is a fair judge; the problem is that one opinion is counted three times.

The judges are simulated and nothing is sent anywhere. Over several simulated panels, the example shows that majority
vote loses tasks to the three; that methods which estimate reliability lose more, because judges who agree look
reliable; that the complete job, which sees only these answers, is less sure of such labels but cannot correct them; and
what helps: counting a family once, whether the family is known or detected from 50 tasks with known truth.

    python examples/llm_judges.py [--out runs/llm-judges]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw
from crowdwise.simulate import answer, crowd, draw_truth

VERDICTS = ["A", "B", "tie"]
FAMILY = ["fox-small", "fox-large", "fox-chat"]  # fine-tuned from one base model
OTHERS = ["owl", "heron", "lynx", "otter"]
BASE, COPY = 0.7, 0.95  # accuracy of the base model; how often a family member repeats its opinion
ALONE = (0.75, 0.8)  # range of the accuracies of the others
GOLD = 50  # tasks with known truth
ALIKE = 0.5  # correlation of errors from which two judges count as one family
KNOWN = np.repeat([len(FAMILY), 1], [len(FAMILY), len(OTHERS)])  # (judges,): size of the family of each judge
WEIGH, FIND = f"gold vote, {GOLD} gold", f"vote, families found by {GOLD} gold"


def panel(n_tasks: int, seed: int) -> cw.Answers:
    """Return the answers of seven judges to pairs of replies, with the truth."""
    draw, base, copy, alone, independent = np.random.default_rng(seed).spawn(5)
    k = len(VERDICTS)
    truth = draw_truth(n_tasks, k, seed=draw)
    opinion = answer(truth, crowd(1, k, "one-coin", accuracy=(BASE, BASE)), 1, seed=base).label  # (tasks,)
    tuned = answer(opinion, crowd(len(FAMILY), k, "one-coin", accuracy=(COPY, COPY)), len(FAMILY), seed=copy)
    skills = crowd(len(OTHERS), k, "one-coin", accuracy=ALONE, seed=alone)
    others = answer(truth, skills, len(OTHERS), seed=independent)
    labels = np.hstack([part.label.reshape(n_tasks, -1) for part in (tuned, others)])  # (tasks, judges)
    task, judge = (index.ravel() for index in np.indices(labels.shape))
    return cw.Answers.from_codes(
        task, judge, labels.ravel(), tasks=n_tasks, workers=FAMILY + OTHERS, classes=VERDICTS, truth=truth
    )


def error_correlation(answers: cw.Answers, gold: np.ndarray) -> np.ndarray:
    """Return the correlation of the judges' errors on tasks with known truth, (judges, judges)."""
    wrong = (answers.label != gold[answers.task]).reshape(answers.n_tasks, -1)  # every judge answered every task
    return np.corrcoef(wrong[gold >= 0].T)


def weighted(answers: cw.Answers, size: np.ndarray) -> cw.Answers:
    """Return the answers with each judge weighted by one over the size of its family."""
    return replace(answers, weight=1 / size[answers.worker])


def compare(answers: cw.Answers, seed: int) -> tuple[dict[str, float], float]:
    """Return the accuracy of each approach on unchecked tasks, and the effective number of judges."""
    truth = np.asarray(answers.truth)
    gold = np.full(answers.n_tasks, -1)
    checked = np.random.default_rng(seed).permutation(answers.n_tasks)[:GOLD]
    gold[checked] = truth[checked]
    correlation = error_correlation(answers, gold)
    detected = weighted(answers, (correlation > ALIKE).sum(axis=1))
    known = weighted(answers, KNOWN)
    fitted = {
        "majority vote": cw.MajorityVote().fit(answers),
        "Dawid-Skene": cw.DawidSkene().fit(answers),
        "GLAD": cw.GLAD().fit(answers),
        "EBCC (made for shared errors)": cw.EBCC().fit(answers),
        f"Dawid-Skene, {GOLD} gold": cw.DawidSkene().fit(answers, gold=gold),
        f"EBCC, {GOLD} gold": cw.EBCC().fit(answers, gold=gold),
        WEIGH: cw.GoldVote().fit(answers, gold=gold),
        FIND: cw.MajorityVote().fit(detected),
        "vote, families known": cw.MajorityVote().fit(known),
        "Dawid-Skene, families known": cw.DawidSkene().fit(known),
    }
    scores = {name: float((model.codes_ == truth)[gold < 0].mean()) for name, model in fitted.items()}
    return scores, len(correlation) ** 2 / correlation.sum()  # inverse variance of a mean of correlated errors


def main(out: Path, small: bool = False) -> dict[str, list[float]]:
    """Compare the approaches over several panels, then run the complete job on one, by judge and by family."""
    n_tasks, seeds = (250, 3) if small else (500, 10)
    drawn = [compare(panel(n_tasks, seed), seed) for seed in range(seeds)]
    table = {name: [scores[name] for scores, _ in drawn] for name in drawn[0][0]}
    mean = {name: float(np.mean(values)) for name, values in table.items()}
    print(f"Accuracy of the labels on {n_tasks - GOLD} tasks, mean ± standard deviation over {seeds} panels:")
    for name, values in table.items():
        print(f"  {name:36} {mean[name]:.1%} ± {np.std(values, ddof=1):.1%}")
    judges = np.mean([effective for _, effective in drawn])
    lead = {name: 100 * (value - mean["majority vote"]) for name, value in mean.items()}  # points
    worse = [name for name, points in lead.items() if points < 0]
    print(f"Because of shared errors, the seven judges are worth {judges:.1f} independent ones.")
    print(f"Worse than majority vote, because agreement is taken for reliability: {', '.join(worse) or 'none'}.")
    print(f"Compared with majority vote, {GOLD} gold tasks bring {lead[WEIGH]:+.1f} points if they weight judges,")
    print(f"and {lead[FIND]:+.1f} if they show which judges err together, so that these are counted once.")

    answers = panel(n_tasks, seed=0)
    options: dict[str, Any] = {"method": ["one-coin", "dawid-skene"], "folds": 2} if small else {}
    for name, used in {"counted": answers, "families": weighted(answers, KNOWN)}.items():
        run = cw.run(used, out / name, resume=True, **options)
        expected, scores = run.metrics["expected_accuracy"], run.metrics["truth"]
        print(
            f"Run '{name}': {run.metrics['method']} was chosen. {expected:.1%} of the labels are expected to be right, "
            f"{scores['accuracy']:.1%} are (majority vote: {scores['vote_accuracy']:.1%})."
        )
        print(f"  Report: {run.path / 'report.html'}")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/llm-judges"), help="folder for the runs")
    main(parser.parse_args().out)
