"""Does choosing a method without ground truth choose well? `python -m benchmarks choose [--seed 0 ...] [SET ...]`.

Candidates are ranked by the log-likelihood of held-out answers (crowdwise.choose, five folds) and by their accuracy.
Spearman's rho and Kendall's tau measure how far the two rankings agree. The regret is what the pick of the criterion
loses against the best candidate, in points of accuracy (`rule`: the pick of the one-standard-error rule, `top`: the
highest score). `mean` is the regret of a random candidate, `vote` that of majority vote.

    labelme, music   20 learners and settings, bad ones included, with the networks of the papers; test accuracy of the
                     classifier fitted on all answers with the same seed
    truth sets       the truth methods with default settings; accuracy of the labels inferred from all answers

Nothing here is chosen by accuracy. Warnings of the methods are hidden, failures are counted.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import kendalltau, spearmanr
from sklearn.base import clone

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from benchmarks.learn_accuracy import PAPERS, ROWS, configure, load
from benchmarks.truth_accuracy import data_sets
from crowdwise.choose.choice import pick
from crowdwise.choose.scores import answer_folds, fit_candidate, held_out, task_folds
from crowdwise.errors import CrowdwiseError

FOLDS = 5
LEARNERS = [
    "MV-DL", "MV+LR", "DS-DL", "GLAD", "unionnet", "raykar", "raykar cross_fit=5", "crowdlayer vw", "crowdlayer mw",
    "crowdlayer reweight", "annoreg", "conal", "doctornet weighted", "cpc", "fixed-difficulty", "aggnet",
    "aggnet cross_fit=5",
]  # fmt: skip


def learners(name: str, seed: int) -> dict[str, Any]:
    """Return the candidates on a set with features: simplest first, then three with bad settings."""
    out = {row: configure(ROWS[row], PAPERS[name]) for row in LEARNERS}
    out["MV-DL 1 epoch"] = clone(out["MV-DL"]).set_params(epochs=1)
    out["crowdlayer 2 epochs"] = clone(out["crowdlayer mw"]).set_params(epochs=2)
    out["crowdlayer lr=1e-5"] = clone(out["crowdlayer mw"]).set_params(lr=1e-5)
    return {row: _seeded(model, seed) for row, model in out.items()}


def truth_methods(seed: int) -> dict[str, Any]:
    """Return the candidates on a set without features."""
    names = [m.name for m in cw.methods("classes") if not m.needs_features]
    return {name: _seeded(cw.make(name), seed) for name in names if not cw.make(name).needs_gold}


def _seeded(model: Any, seed: int) -> Any:
    return model.set_params(random_state=seed) if "random_state" in model.get_params() else model


def evaluate(candidates: dict[str, Any], X: Any, answers: cw.Answers, accuracy: Any, seed: int) -> dict[str, Any]:
    """Return the accuracy of each candidate and its rank by each criterion; "common" and "own" share a fit."""
    accuracies, failed = {}, {}
    for name, model in candidates.items():
        try:
            accuracies[name] = accuracy(fit_candidate(model, X, answers, "common"))
        except CrowdwiseError as error:
            failed[name] = str(error)
    out: dict[str, Any] = {"accuracy": accuracies, "failed": failed, "criteria": {}}
    for make_folds, criteria in ((answer_folds, ["common", "own"]), (task_folds, ["tasks"])):
        if X is None and "tasks" in criteria:
            continue
        fold = make_folds(answers, FOLDS, np.random.default_rng(seed))
        scores = {criterion: {name: np.zeros(answers.n_answers) for name in accuracies} for criterion in criteria}
        for k in range(FOLDS):
            test_rows = np.flatnonzero(fold == k)
            training, held = answers.take(np.flatnonzero(fold != k)), answers.take(test_rows)
            for name in accuracies:
                model = fit_candidate(candidates[name], X, training, criteria[0])
                for criterion in criteria:
                    scores[criterion][name][test_rows] = held_out(model, X, training, held, criterion)
        for criterion, score in scores.items():
            rows = np.flatnonzero(fold >= 0)
            out["criteria"][criterion] = agreement(
                {n: s[rows] for n, s in score.items()}, accuracies, answers.take(rows)
            )
    return out


def agreement(scores: dict[str, Any], accuracies: dict[str, float], held: cw.Answers) -> dict[str, Any]:
    """Return rank correlations and regrets."""
    mean = {name: float(score.mean()) for name, score in scores.items()}
    x, y = [mean[name] for name in accuracies], list(accuracies.values())
    best, top, rule = max(y), max(mean, key=mean.__getitem__), pick(scores, held)
    return {
        "spearman": float(spearmanr(x, y)[0]), "kendall": float(kendalltau(x, y)[0]), "top": top, "rule": rule,
        "regret_top": best - accuracies[top], "regret_rule": best - accuracies[rule],
        "regret_mean": best - float(np.mean(y)), "regret_vote": best - y[0],
    }  # fmt: skip


def on_features(name: str, seed: int) -> dict[str, Any]:
    """Compare the candidates on LabelMe or Music, by the test accuracy of the classifier."""
    X, _, X_test, y_test, answers = load(name)
    return evaluate(learners(name, seed), X, answers, lambda m: 100 * float((m.predict(X_test) == y_test).mean()), seed)


def on_truth(answers: cw.Answers, seed: int) -> dict[str, Any]:
    """Compare the candidates on a set without features, by the accuracy of the labels."""
    known = answers.truth >= 0
    truth = answers.truth[known]
    return evaluate(truth_methods(seed), None, answers, lambda m: 100 * float((m.codes_[known] == truth).mean()), seed)


def main() -> None:
    """Run all sets, print a table and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seed", type=int, action="append", help="seed of folds and candidates, repeatable (default: 0, 1 and 2)"
    )
    parser.add_argument("sets", nargs="*", help="sets to run (default: all)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    target = RESULTS / "choose.json"
    results = read_results(target, {})
    truth_sets = {name: answers for name, answers in data_sets().items() if name not in PAPERS}
    chosen = arguments.sets or [*truth_sets, *PAPERS]
    for seed in arguments.seed or range(3):
        for name in chosen:
            start = time.perf_counter()
            outcome = on_features(name, seed) if name in PAPERS else on_truth(truth_sets[name], seed)
            results.setdefault(name, {})[str(seed)] = {**outcome, "seconds": time.perf_counter() - start}
            write_results(target, results)
    table = Table("set", "criterion", "seeds", "rho", "tau", "regret rule", "top", "mean", "vote", "picks")
    for name, runs in results.items():
        for criterion in next(iter(runs.values()))["criteria"]:
            rows = [run["criteria"][criterion] for run in runs.values()]
            columns = ("spearman", "kendall", "regret_rule", "regret_top", "regret_mean", "regret_vote")
            figures = [f"{np.mean([row[c] for row in rows]):.{2 if i < 2 else 1}f}" for i, c in enumerate(columns)]
            table.add_row(name, criterion, str(len(rows)), *figures, ", ".join(dict.fromkeys(r["rule"] for r in rows)))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
