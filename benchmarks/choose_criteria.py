"""Which criterion chooses a classifier best without ground truth? `python -m benchmarks choose-criteria`.

    python -m benchmarks choose-criteria [--seed 0 ...] [--kept FOLDER] [SET ...]

Sixteen learners and settings, simplest first, bad ones included, are fitted without each of three folds of the answers,
of the tasks and of the workers. A criterion sees only the probabilities of each fit (`proba_`, called belief here) and
its classifier f (`predict_proba`). The ranking by each criterion is compared with accuracy (product: F1 of the rare
class), of the classifier on new tasks and of the labels of the answered tasks, both fitted on all answers.

    single answers      common     log sum_c belief[t, c] confusion[w, c, l], as in `choose`: confusion from belief
                        llp        belief is recomputed from f and the kept answers, by EM with f and common workers
                        llp ds     the same with the workers of one Dawid-Skene fit, the same for all candidates
    all of a task       tasks      each answer by itself, from f; confusion from belief
                        lltask     all answers of a task together, log sum_c f[c] prod_a confusion[w, c, l]
                        lltask ds  the same with the workers of one Dawid-Skene fit
                        reliable   as lltask, with the better half of the workers only
                        agree      how often the most probable class is the answer
    all of a worker     stranger   from belief; a worker unknown to the fit is judged by their other held-out answers
                        crowd      from belief; every such worker has the confusion of the crowd
    combinations        both       mean of common and lltask, answer by answer
                        all        and of stranger
                        ranks      mean of the ranks by common and lltask

Regret: points that a pick loses against the best candidate. `top`: highest score. `rule`: one standard error, simplest
first. `default`: the same rule starting from JointEM, which stays unless another leads it by more than the standard
error. Means of ranks have no standard error, so only `top`. For comparison: regret of JointEM, and of a random pick.

Sets: LabelMe and Music as they are. product: 1,500 pairs, tested on the others. cifar10h: 900 answers to about 290
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
    """What is learned from, and what it is tested on."""

    X: Any
    answers: cw.Answers
    truth: Any  # of the tasks that were answered
    X_test: Any
    y_test: Any


def problem(name: str, seed: int) -> Problem:
    """One of the sets."""
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


def quality(name: str, model: Any, given: Problem) -> dict[str, float]:
    """Accuracy, or F1 of the rare class, in per cent: of the classifier on new tasks, and of the labels."""

    def right(truth: Any, said: Any) -> float:
        if name == "product":
            return 100 * float(f1_score(truth, said, pos_label=sorted(set(truth.tolist()))[-1]))
        return 100 * float((said == truth).mean())

    return {"test": right(given.y_test, model.predict(given.X_test)), "labels": right(given.truth, model.labels_)}


def worker_folds(answers: cw.Answers, folds: int, rng: np.random.Generator) -> Any:
    """Fold of each answer, (answers,), the same for all of a worker; folds have about as many answers."""
    order = np.argsort(-np.bincount(answers.worker, minlength=answers.n_workers) + rng.random(answers.n_workers))
    of_worker = np.empty(answers.n_workers, int)
    of_worker[order] = np.arange(answers.n_workers) % folds
    return of_worker[answers.worker]


SCHEMES = {"answers": answer_folds, "tasks": task_folds, "workers": worker_folds}


def confusion(kept: cw.Answers, belief: Any) -> Any:
    """The common workers: confusion (workers, classes, labels) with the hierarchical prior."""
    workers = ConfusionWorkers(kept, "hierarchical", None)
    workers.fit(belief, belief)
    return workers.confusion()


def posterior(f: Any, answers: cw.Answers, conf: Any) -> tuple[Any, Any]:
    """Posterior (tasks, classes) from f and answers by these workers, and log P(answers to each task), (tasks,)."""
    logs = np.log(np.maximum(f, FLOOR))
    each = np.log(np.maximum(conf[answers.worker, :, answers.label], FLOOR))  # (answers, classes)
    for c in range(f.shape[1]):
        logs[:, c] += np.bincount(answers.task, each[:, c], minlength=len(f))
    total = np.logaddexp.reduce(logs, axis=1)
    return np.exp(logs - total[:, None]), total


def single(belief: Any, held: cw.Answers, conf: Any) -> Any:
    """Log P of each held answer by itself, (held,)."""
    return np.log(np.maximum((belief[held.task] * conf[held.worker, :, held.label]).sum(axis=1), FLOOR))


def spread(total: Any, held: cw.Answers) -> Any:
    """What the tasks have together, (tasks,), in equal parts to their answers, (held,)."""
    return total[held.task] / np.bincount(held.task, minlength=len(total))[held.task]


def of_answers(belief: Any, f: Any, kept: cw.Answers, held: cw.Answers, ds: Any) -> dict[str, Any]:
    """Criteria where single answers are held out."""
    anew = posterior(f, kept, confusion(kept, f))[0]
    for _ in range(ROUNDS):
        anew = posterior(f, kept, confusion(kept, anew))[0]
    by_ds = posterior(f, kept, ds)[0]
    return {
        "common": log_likelihood(kept, held, belief),
        "llp": single(anew, held, confusion(kept, anew)),
        "llp ds": single(by_ds, held, ds),
    }


def of_tasks(belief: Any, f: Any, kept: cw.Answers, held: cw.Answers, ds: Any) -> dict[str, Any]:
    """Criteria where all answers of tasks are held out."""
    asked = np.bincount(held.task, minlength=held.n_tasks)[:, None] > 0
    seen = np.where(asked, f, belief)
    conf = confusion(kept, seen)
    trust = np.einsum("wcc->w", ds) / ds.shape[1]
    good = trust >= np.median(trust[kept.worker])  # of the answers, about half
    picked = held.take(np.flatnonzero(good[held.worker]))
    better = np.zeros(held.n_answers)
    better[good[held.worker]] = spread(posterior(f, picked, conf)[1], picked)
    return {
        "tasks": log_likelihood(kept, held, seen),
        "lltask": log_likelihood_of_tasks(kept, held, seen),
        "lltask ds": spread(posterior(f, held, ds)[1], held),
        "reliable": better,
        "agree": (f.argmax(axis=1)[held.task] == held.label).astype(float),
    }


def of_workers(belief: Any, f: Any, kept: cw.Answers, held: cw.Answers, ds: Any) -> dict[str, Any]:
    """Criteria where all answers of workers are held out."""
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


CRITERIA = {"answers": of_answers, "tasks": of_tasks, "workers": of_workers}


def beliefs(model: Any, X: Any, kept: cw.Answers, file: Path | None) -> tuple[Any, Any]:
    """Belief and classifier of a fit, (tasks, classes) each; from the folder where it was done before."""
    if file is not None and file.exists():
        stored = np.load(file)
        return stored["belief"], stored["f"]
    fitted = clone(model).fit(X, kept)
    belief, f = np.asarray(fitted.proba_, float), np.asarray(fitted.predict_proba(X), float)
    if file is not None:
        np.savez(file, belief=belief, f=f)
    return belief, f


def judge(name: str, seed: int, kept_in: Path | None) -> dict[str, Any]:
    """Quality of each candidate, its score by each criterion, and how well criteria pick."""
    given = problem(name, seed)
    X, answers = given.X, given.answers
    models = {
        label: clone(model).set_params(random_state=seed) if "random_state" in model.get_params() else clone(model)
        for label, model in CANDIDATES.items()
    }
    each_right = {}
    for label, model in models.items():
        file = None if kept_in is None else kept_in / f"{name}-{seed}-all-{label}.json"
        if file is not None and file.exists():
            each_right[label] = json.loads(file.read_text())
            continue
        each_right[label] = quality(name, clone(model).fit(X, answers), given)
        if file is not None:
            file.write_text(json.dumps(each_right[label]))
    right = {kind: {label: found[kind] for label, found in each_right.items()} for kind in KINDS}
    scores: dict[str, dict[str, Any]] = {}
    for scheme, deal in SCHEMES.items():
        fold = deal(answers, FOLDS, np.random.default_rng(seed))
        for k in range(FOLDS):
            rows = np.flatnonzero(fold == k)
            kept, held = answers.take(np.flatnonzero(fold != k)), answers.take(rows)
            ds = confusion(kept, cw.DawidSkene().fit(kept).proba_)
            for label, model in models.items():
                file = None if kept_in is None else kept_in / f"{name}-{seed}-{scheme}-{k}-{label}.npz"
                found = CRITERIA[scheme](*beliefs(model, X, kept, file), kept, held, ds)
                for criterion, score in found.items():
                    each = scores.setdefault(criterion, {}).setdefault(label, np.full(answers.n_answers, np.nan))
                    each[rows] = score
    return {"quality": right, "criteria": judged(scores, right, answers)}


def judged(
    scores: dict[str, dict[str, Any]], right: dict[str, dict[str, float]], answers: cw.Answers
) -> dict[str, Any]:
    """What each criterion picks, and how its ranking and picks do by the truth."""
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
FIGURES = {"rho": "rank correlation", "top": "regret of the highest", "rule": "of the rule from the simplest on",
           "default": "of the rule from JointEM on"}  # fmt: skip
TOGETHER = {"both": ["common", "lltask"], "all": ["common", "lltask", "stranger"]}
SETS = ("labelme", "music", "digits", "product", "usps", "gas_drift", "cifar10h")


def main() -> None:
    """Run all, print a table and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, action="append", help="of folds and candidates; 0 unless given")
    parser.add_argument("--kept", type=Path, help="folder in which to cache the probabilities of each fit")
    parser.add_argument("sets", nargs="*", help="sets to run; all unless given")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    target = RESULTS / "choose_criteria.json"
    results = read_results(target, {})
    for seed in arguments.seed or [0]:
        for name in arguments.sets or SETS:
            results.setdefault(name, {})[str(seed)] = judge(name, seed, arguments.kept)
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
                    given = [[run["quality"][kind] for run in results[name].values()] for name in names]
                    _row(table, what, [[max(q.values()) - of(q) for q in part] for part in given], 1)
            console.print(table)


def _row(table: Table, what: str, each: list[list[float]], places: int) -> None:
    means = [float(np.mean(part)) for part in each]  # over seeds
    table.add_row(what, *(f"{value:.{places}f}" for value in [*means, float(np.mean(means))]))


if __name__ == "__main__":
    main()
