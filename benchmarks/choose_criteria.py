"""Which criterion chooses a classifier best without ground truth? `python -m benchmarks choose-criteria`.

    python -m benchmarks choose-criteria [--seed 0 ...] [--kept FOLDER] [SET ...]

Sixteen learners and settings, simplest first, bad ones included, are fitted without each of three folds of the answers,
of the tasks and of the workers. A criterion sees only the class probabilities of each fit (`proba_`, here `belief`) and
its classifier f (`predict_proba`). The ranking by each criterion is compared with accuracy (product: F1 of the rare
class), of the classifier on new tasks and of the labels of the answered tasks, both fitted on all answers.

    single answers      common     log sum_c belief[t, c] confusion[w, c, l], as in `choose`: confusion from belief
                        llp        belief is recomputed from f and the training answers, by EM with f and common workers
                        llp ds     the same with the workers of one Dawid-Skene fit, the same for all candidates
    all of a task       tasks      each answer by itself, from f; confusion from belief
                        lltask     all answers of a task together, log sum_c f[c] prod_a confusion[w, c, l]
                        lltask ds  the same with the workers of one Dawid-Skene fit
                        reliable   as lltask, with the better half of the workers only
                        agree      how often the most probable class is the answer
    all of a worker     stranger   from belief; a worker unknown to the fit is rated by their other held-out answers
                        crowd      from belief; every such worker has the confusion of the crowd
    combinations        both       mean of common and lltask, answer by answer
                        all        and of stranger
                        ranks      mean of the ranks by common and lltask

Regret: points that a pick loses against the best candidate. `top`: highest score. `rule`: one standard error, simplest
first. `default`: the same rule starting from JointEM, which stays unless another leads it by more than the standard
error. Means of ranks have no standard error, so they have only `top`. For comparison: the regret of JointEM and of a
random pick.

Sets: LabelMe and Music unchanged. product: 1,500 pairs, tested on the others. cifar10h: 900 answers to about 290
pictures, tested on 200 others. digits: the simulated crowd of the demo, tested on all other digits. usps and gas_drift:
800 tasks, long-tailed, 2.5 answers each by 40 simulated workers; those of gas_drift err together on hard tasks. Nothing
here is chosen by accuracy, but the settings of JointEM were found with LabelMe, Music and product in view.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata, spearmanr
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from crowdwise.choose.choice import pick
from crowdwise.choose.scores import answer_folds, task_folds
from crowdwise.learn.joint_em.engine import ConfusionWorkers
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.vote_check import log_likelihood, log_likelihood_of_tasks

FOLDS, ROUNDS, DEFAULT = 3, 5, "joint-em"
EPOCHS = {"epochs": 20}
CANDIDATES: dict[str, Any] = {
    "MV, MLP": cw.Aggregated("majority-vote", **EPOCHS),
    "MV, MLP 1 epoch": cw.Aggregated("majority-vote", epochs=1),
    "DS, MLP": cw.Aggregated("dawid-skene", **EPOCHS),
    "crowdlab": cw.CrowdLab(),
    "raykar": cw.Raykar(),
    "joint lda": cw.JointEM("lda", features="standard"),
    "joint lda not cross-fitted": cw.JointEM("lda", features="standard", cross_fit=None, calibrate=False),
    "joint lda root": cw.JointEM("lda", features="root"),
    "joint qda": cw.JointEM("qda", features="standard"),
    "joint qda root": cw.JointEM("qda", features="root"),
    "joint logistic": cw.JointEM("logistic", features="standard"),
    "joint lda balanced": cw.JointEM("lda", features="standard", class_prior="balanced"),
    "joint-em": cw.JointEM(),
    "aggnet": cw.AggNet(**EPOCHS),
    "crowdlayer": cw.CrowdLayer(**EPOCHS),
    "crowdlayer 2 epochs": cw.CrowdLayer(epochs=2),
}


class Problem(NamedTuple):
    """Training data and test data."""

    X: Any
    answers: cw.Answers
    truth: Any  # of the training tasks
    X_test: Any
    y_test: Any


def problem(name: str, seed: int) -> Problem:
    """Return the problem of this name."""
    rng = np.random.default_rng([seed, 1])
    if name == "digits":
        X, answers = cw.simulate.digits_crowd()
        every, y = load_digits(return_X_y=True)
        seen = {row.tobytes() for row in X}
        new = np.array([row.tobytes() not in seen for row in every])
        return Problem(X, answers, answers.truth, every[new], y[new])
    data = cw.datasets.load(name)
    if data.X_test is not None:
        return Problem(data.X, data.answers, data.truth, data.X_test, data.truth_test)
    if name in ("usps", "gas_drift"):
        code = np.unique(data.truth, return_inverse=True)[1]
        truth = cw.simulate.draw_truth(800, code.max() + 1, 10, seed=seed)
        rows = np.concatenate(
            [rng.permutation(np.flatnonzero(code == c))[:n] for c, n in enumerate(np.bincount(truth))]
        )
        hard = {"difficulty": 0.3, "together": 0.5} if name == "gas_drift" else {}
        answers = cw.simulate.simulate(truth=code[rows], answers_per_task=2.5, seed=seed, **hard)
        rest = rng.permutation(np.setdiff1d(np.arange(len(code)), rows))[:2000]
        return Problem(data.X[rows], answers, code[rows], data.X[rest], code[rest])
    n_train = {"product": 1500, "cifar10h": 300}[name]
    order = rng.permutation(data.answers.n_tasks)
    rest = order[n_train:]
    part = data.answers.take(np.flatnonzero(np.isin(data.answers.task, order[:n_train])))
    if name == "cifar10h":
        part = part.take(rng.permutation(part.n_answers)[: 3 * n_train])
    plain = cw.Answers.from_arrays(
        part.tasks[part.task], part.workers[part.worker], part.classes[part.label], classes=data.answers.classes
    )
    at = {task: row for row, task in enumerate(data.answers.tasks.tolist())}
    rows = [at[task] for task in plain.tasks.tolist()]
    return Problem(data.X[rows], plain, data.truth[rows], data.X[rest], data.truth[rest])


def quality(name: str, model: Any, data: Problem) -> dict[str, float]:
    """Return accuracy, or F1 of the rare class, in per cent: of the classifier on new tasks, and of the labels."""

    def score(truth: Any, predicted: Any) -> float:
        if name == "product":
            return 100 * float(f1_score(truth, predicted, pos_label=sorted(set(truth.tolist()))[-1]))
        return 100 * float((predicted == truth).mean())

    return {"test": score(data.y_test, model.predict(data.X_test)), "labels": score(data.truth, model.labels_)}


def worker_folds(answers: cw.Answers, folds: int, rng: np.random.Generator) -> Any:
    """Return the fold of each answer, (answers,), the same for all answers of a worker; folds are about equal."""
    order = np.argsort(-np.bincount(answers.worker, minlength=answers.n_workers) + rng.random(answers.n_workers))
    of_worker = np.empty(answers.n_workers, int)
    of_worker[order] = np.arange(answers.n_workers) % folds
    return of_worker[answers.worker]


SCHEMES = {"answers": answer_folds, "tasks": task_folds, "workers": worker_folds}


def confusion(kept: cw.Answers, belief: Any) -> Any:
    """Return the confusion of the workers, (workers, classes, labels), with the hierarchical prior."""
    workers = ConfusionWorkers(kept, "hierarchical", None)
    workers.fit(belief, belief)
    return workers.confusion()


def posterior(f: Any, answers: cw.Answers, conf: Any) -> tuple[Any, Any]:
    """Return the posterior (tasks, classes) from f and answers, and log P(answers to each task), (tasks,)."""
    logs = np.log(np.maximum(f, FLOOR))
    each = np.log(np.maximum(conf[answers.worker, :, answers.label], FLOOR))  # (answers, classes)
    for c in range(f.shape[1]):
        logs[:, c] += np.bincount(answers.task, each[:, c], minlength=len(f))
    total = np.logaddexp.reduce(logs, axis=1)
    return np.exp(logs - total[:, None]), total


def single(belief: Any, held: cw.Answers, conf: Any) -> Any:
    """Return log P of each held-out answer by itself, (held,)."""
    return np.log(np.maximum((belief[held.task] * conf[held.worker, :, held.label]).sum(axis=1), FLOOR))


def spread(total: Any, held: cw.Answers) -> Any:
    """Divide the total of each task, (tasks,), equally among its answers, (held,)."""
    return total[held.task] / np.bincount(held.task, minlength=len(total))[held.task]


def score_answers(belief: Any, f: Any, kept: cw.Answers, held: cw.Answers, ds: Any) -> dict[str, Any]:
    """Score held-out single answers."""
    updated = posterior(f, kept, confusion(kept, f))[0]
    for _ in range(ROUNDS):
        updated = posterior(f, kept, confusion(kept, updated))[0]
    by_ds = posterior(f, kept, ds)[0]
    return {
        "common": log_likelihood(kept, held, belief),
        "llp": single(updated, held, confusion(kept, updated)),
        "llp ds": single(by_ds, held, ds),
    }


def score_tasks(belief: Any, f: Any, kept: cw.Answers, held: cw.Answers, ds: Any) -> dict[str, Any]:
    """Score answers where all answers of a task are held out."""
    asked = np.bincount(held.task, minlength=held.n_tasks)[:, None] > 0
    seen = np.where(asked, f, belief)
    conf = confusion(kept, seen)
    reliability = np.einsum("wcc->w", ds) / ds.shape[1]
    reliable_workers = reliability >= np.median(reliability[kept.worker])  # about half of the answers
    picked = held.take(np.flatnonzero(reliable_workers[held.worker]))
    better = np.zeros(held.n_answers)
    better[reliable_workers[held.worker]] = spread(posterior(f, picked, conf)[1], picked)
    return {
        "tasks": log_likelihood(kept, held, seen),
        "lltask": log_likelihood_of_tasks(kept, held, seen),
        "lltask ds": spread(posterior(f, held, ds)[1], held),
        "reliable": better,
        "agree": (f.argmax(axis=1)[held.task] == held.label).astype(float),
    }


def score_workers(belief: Any, f: Any, kept: cw.Answers, held: cw.Answers, ds: Any) -> dict[str, Any]:
    """Score answers where all answers of a worker are held out."""
    strangers = ConfusionWorkers(held, "hierarchical", None, leave_one_out=True)
    strangers.fit(belief, belief)
    each = np.exp(strangers.answer_log_proba())  # (held, classes): from the worker's other answers
    pooled = np.full((kept.n_classes,) * 2, 0.1 / kept.n_classes)  # (classes, labels)
    np.add.at(pooled.T, kept.label, belief[kept.task])
    pooled /= pooled.sum(axis=1, keepdims=True)
    crowd = np.broadcast_to(pooled, (held.n_workers, *pooled.shape))
    return {
        "stranger": np.log(np.maximum((each * belief[held.task]).sum(axis=1), FLOOR)),
        "crowd": single(belief, held, crowd),
    }


CRITERIA = {"answers": score_answers, "tasks": score_tasks, "workers": score_workers}


def beliefs(model: Any, X: Any, kept: cw.Answers, file: Path | None) -> tuple[Any, Any]:
    """Return belief and classifier output of a fit, (tasks, classes) each; from the cache if the fit is there."""
    if file is not None and file.exists():
        stored = np.load(file)
        return stored["belief"], stored["f"]
    fitted = clone(model).fit(X, kept)
    belief, f = np.asarray(fitted.proba_, float), np.asarray(fitted.predict_proba(X), float)
    if file is not None:
        np.savez(file, belief=belief, f=f)
    return belief, f


def evaluate(name: str, seed: int, cache: Path | None) -> dict[str, Any]:
    """Return the quality of each candidate and how well each criterion picks among them."""
    data = problem(name, seed)
    X, answers = data.X, data.answers
    models = {
        label: clone(model).set_params(random_state=seed) if "random_state" in model.get_params() else clone(model)
        for label, model in CANDIDATES.items()
    }
    qualities = {}
    for label, model in models.items():
        file = None if cache is None else cache / f"{name}-{seed}-all-{label}.json"
        if file is not None and file.exists():
            qualities[label] = json.loads(file.read_text())
            continue
        qualities[label] = quality(name, clone(model).fit(X, answers), data)
        if file is not None:
            file.write_text(json.dumps(qualities[label]))
    right = {kind: {label: figures[kind] for label, figures in qualities.items()} for kind in KINDS}
    scores: dict[str, dict[str, Any]] = {}
    for scheme, draw_folds in SCHEMES.items():
        fold = draw_folds(answers, FOLDS, np.random.default_rng(seed))
        for k in range(FOLDS):
            rows = np.flatnonzero(fold == k)
            kept, held = answers.take(np.flatnonzero(fold != k)), answers.take(rows)
            ds = confusion(kept, cw.DawidSkene().fit(kept).proba_)
            for label, model in models.items():
                file = None if cache is None else cache / f"{name}-{seed}-{scheme}-{k}-{label}.npz"
                by_criterion = CRITERIA[scheme](*beliefs(model, X, kept, file), kept, held, ds)
                for criterion, score in by_criterion.items():
                    each = scores.setdefault(criterion, {}).setdefault(label, np.full(answers.n_answers, np.nan))
                    each[rows] = score
    return {"quality": right, "criteria": rate_criteria(scores, right, answers)}


def rate_criteria(
    scores: dict[str, dict[str, Any]], right: dict[str, dict[str, float]], answers: cw.Answers
) -> dict[str, Any]:
    """Return the rank correlation of each criterion with quality, and the regret of its picks."""
    names = list(CANDIDATES)
    for criterion, parts in TOGETHER.items():
        scores[criterion] = {label: np.mean([scores[part][label] for part in parts], axis=0) for label in names}
    means, picks = {}, {}
    for criterion, each in scores.items():
        rows = np.flatnonzero(~np.isnan(each[DEFAULT]))
        held, plain = answers.take(rows), {label: score[rows] for label, score in each.items()}
        means[criterion] = np.array([plain[label].mean() for label in names])
        picks[criterion] = {"rule": pick(plain, held), "default": pick(plain, held, DEFAULT)}
    means["ranks"] = np.mean([rankdata(means[part]) for part in TOGETHER["both"]], axis=0)
    out = {}
    for criterion, mean in means.items():
        picked = {"top": names[int(np.argmax(mean))], **picks.get(criterion, {})}
        out[criterion] = {}
        for kind, by_label in right.items():
            y = np.array([by_label[label] for label in names])
            regret = {rule: float(y.max() - by_label[label]) for rule, label in picked.items()}
            out[criterion][kind] = {"rho": float(spearmanr(mean, y)[0]), **regret}
    return out


KINDS = {"test": "classifier on new tasks", "labels": "labels of the tasks"}
FIGURES = {
    "rho": "rank correlation",
    "top": "regret of the highest score",
    "rule": "regret of the rule, simplest first",
    "default": "regret of the rule, starting from JointEM",
}
TOGETHER = {"both": ["common", "lltask"], "all": ["common", "lltask", "stranger"]}
SETS = ("labelme", "music", "digits", "product", "usps", "gas_drift", "cifar10h")


def main() -> None:
    """Run all sets, print tables and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seed", type=int, action="append", help="seed of folds and candidates, repeatable (default: 0)"
    )
    parser.add_argument("--kept", type=Path, help="folder in which to cache the probabilities of each fit")
    parser.add_argument("sets", nargs="*", help="sets to run (default: all)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    target = RESULTS / "choose_criteria.json"
    results = read_results(target, {})
    for seed in arguments.seed or [0]:
        for name in arguments.sets or SETS:
            results.setdefault(name, {})[str(seed)] = evaluate(name, seed, arguments.kept)
            write_results(target, results)
    show(results)


def show(results: dict[str, Any]) -> None:
    """Print one table per figure: criteria by sets."""
    names = [name for name in SETS if name in results]
    console = Console(width=150)
    for kind in KINDS:
        for figure, title in FIGURES.items():
            table = Table("criterion", *names, "mean", title=f"{KINDS[kind]}: {title}")
            for criterion in next(iter(results[names[0]].values()))["criteria"]:
                each = [
                    [run["criteria"][criterion][kind].get(figure) for run in results[name].values()] for name in names
                ]
                if each[0][0] is not None:
                    _row(table, criterion, each, 2 if figure == "rho" else 1)
            if figure == "top":
                for what, of in (("joint-em", lambda q: q[DEFAULT]), ("random", lambda q: np.mean(list(q.values())))):
                    runs = [[run["quality"][kind] for run in results[name].values()] for name in names]
                    _row(table, what, [[max(q.values()) - of(q) for q in part] for part in runs], 1)
            console.print(table)


def _row(table: Table, what: str, each: list[list[float]], places: int) -> None:
    means = [float(np.mean(part)) for part in each]  # over seeds
    table.add_row(what, *(f"{value:.{places}f}" for value in [*means, float(np.mean(means))]))


if __name__ == "__main__":
    main()
