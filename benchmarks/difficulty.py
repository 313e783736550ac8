"""The difficulty paper's experiments over many seeds: `python benchmarks/difficulty.py [--seeds N] [--cnn] [set ...]`.

    gaussian structural      its data and workers: better answers where p = sigmoid(x1 + x2) is far from 1/2
    gaussian unstructured    each answer wrong with probability 1 / (3 + k), k drawn for that answer
    gaussian by task         ours: half of the tasks nobody can tell (error 1/2), half everybody can (0.05)
    dogs structural          1000 pictures of cats and dogs, EfficientNet features (64 principal components); p is what
    dogs unstructured        a logistic regression says that was trained on the truth of 1000 other pictures

    AUC      area under the ROC curve of the inferred truth, `proba_[:, 1]` of the training tasks (figure 2)
    labels   share of training tasks labelled right
    skill    mean distance of estimated sensitivity and specificity from those planted (figure 3): `skill_`, which is
             sigmoid(lambda / 4), or the confusion matrix of methods without difficulty, as in the paper
    rate     the same from the shares the workers did get right; of difficulty models at a task of average easiness
    test     accuracy of the classifier on 1000 other tasks; beside it, what is known to be possible
    one class    runs that give one class more than 70 % of tasks, where each has half

The paper's Table 1 (93.6 to 94.4 %, one data set) lies at what the best rule gets on that very test set, 94.1 %: it
cannot rank methods. All figures are means over seeds, those in brackets standard errors; `vs raykar` is the mean
difference of a seed's figure from Raykar's. Nothing is chosen on test; networks (`--cnn`: slow) are those of the last
epoch. `climb` is how the difficulty models fit lambda: Newton's method unless said, None leaves it where it starts.
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
from scipy.stats import norm
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

import crowdwise as cw
from crowdwise.errors import CrowdwiseWarning
from crowdwise.learn.encoders import encode_images
from crowdwise.learn.features.pictures import joined_pictures
from crowdwise.simulate import gaussian_mixture, structural_answers, unstructured_answers
from crowdwise.simulate.difficulty import SKILL
from truth_accuracy import data_folder

RESULTS = Path(__file__).parent / "results" / "difficulty.json"
ROWS: dict[str, Any] = {
    "majority vote": cw.Aggregated("majority-vote", "logistic", soft=False),
    "raykar": cw.Raykar(),
    "adaptive": cw.AdaptiveDifficultyEM(),
    "adaptive hold": cw.AdaptiveDifficultyEM(hold=True),
    "adaptive exact": cw.AdaptiveDifficultyEM(exact=True),
    "adaptive, posterior's difficulty": cw.AdaptiveDifficultyEM(difficulty="posterior"),
    "fixed": cw.FixedDifficultyEM(),
    "fixed climb=(20, 1e-3)": cw.FixedDifficultyEM(climb=(20, 1e-3), max_iter=30, tol=0),
    "fixed climb=None": cw.FixedDifficultyEM(climb=None),
    "adaptive climb=None": cw.AdaptiveDifficultyEM(climb=None),
    "fixed, votes for a prior": cw.FixedDifficultyEM(prior="votes"),
}
NETWORK: dict[str, Any] = {"network": cw.CNN(), "epochs": 30, "batch_size": 16, "lr": 1e-4}  # the paper's
CNN_ROWS: dict[str, Any] = {
    "majority vote": cw.Aggregated("majority-vote", soft=False, **NETWORK),
    "aggnet (raykar's EM)": cw.AggNet(**NETWORK),
    "adaptive": cw.AdaptiveDifficultyEM(**NETWORK),
    "fixed": cw.FixedDifficultyEM(**NETWORK),
}
COLUMNS = ("AUC", "labels", "skill", "rate", "test")
PER_CLASS = 2000  # pictures of each class that are used


class Data(NamedTuple):
    """Training tasks with answers, and test tasks with the accuracy that is known to be possible there."""

    X: Any
    answers: cw.Answers
    skill: Any  # planted, (workers, classes), or None
    X_test: Any
    truth_test: Any
    ceiling: float


def gaussian(kind: str, seed: int | str) -> Data:
    """The mixture of two Gaussians; the ceiling is the best possible rule's."""
    X, truth, p, X_test, truth_test = gaussian_mixture(seed=seed)
    number = seed if isinstance(seed, int) else 0
    if kind == "structural":
        answers = structural_answers(truth, p, seed=number)
    elif kind == "unstructured":
        answers = unstructured_answers(truth, seed=number)
    else:
        answers = unstructured_answers(truth, errors=[0.05, 0.5], per="task", seed=number)
    ceiling = float(np.mean((X_test.sum(axis=1) > 0) == truth_test))
    return Data(X, answers, SKILL if kind == "structural" else None, X_test, truth_test, ceiling)


class Dogs:
    """Pictures of cats (0) and dogs (1), drawn anew for each seed."""

    def __init__(self, pixels: bool) -> None:
        with np.load(data_folder() / "dogs_vs_cats" / "images_64.npz", allow_pickle=False) as file:
            jpeg, offsets, y = file["jpeg"], file["offsets"], file["y"]
        starts = [int(np.flatnonzero(y == c)[0]) for c in (0, 1)]  # pictures of a class stand together
        pictures = [joined_pictures(jpeg, offsets[start : start + PER_CLASS + 1]) for start in starts]
        self.encoded = np.vstack([encode_images(of_class) for of_class in pictures])
        self.pixels = np.vstack([of_class.rows(np.arange(PER_CLASS)) for of_class in pictures]) if pixels else None
        self.truth = np.repeat(np.array([0, 1], np.int32), PER_CLASS)

    def __call__(self, kind: str, seed: int) -> Data:
        """Training and test pictures; the ceiling is a logistic regression trained on the truth."""
        rows = np.random.default_rng(seed).permutation(len(self.truth))[:3000]
        train, test, other = rows[:1000], rows[1000:2000], rows[2000:]
        reduce = PCA(64, random_state=0).fit(self.encoded[train])
        x = reduce.transform(self.encoded)
        x /= x[train].std(axis=0)
        teacher, best = (LogisticRegression(C=0.01, max_iter=500).fit(x[r], self.truth[r]) for r in (other, train))
        if kind == "structural":
            answers = structural_answers(self.truth[train], teacher.predict_proba(x[train]), seed=seed)
        else:
            answers = unstructured_answers(self.truth[train], seed=seed)
        ceiling = best.score(x[test], self.truth[test])
        shown = x if self.pixels is None else self.pixels
        return Data(
            shown[train], answers, SKILL if kind == "structural" else None, shown[test], self.truth[test], ceiling
        )


def score(model: Any, data: Data) -> dict[str, float | None]:
    """One method on one data set."""
    answers = data.answers
    model = clone(model).fit(data.X, answers)
    truth = answers.truth
    rate = model.confusion_[:, [0, 1], [0, 1]]  # (workers, classes)
    real = np.column_stack([cw.evaluate.specificity(answers), cw.evaluate.sensitivity(answers)])
    skill = getattr(model, "skill_", rate)
    curve = cw.evaluate.roc_curve(truth, model.proba_[:, 1])
    assert curve is not None
    return {
        "AUC": 100 * curve.area,
        "labels": 100 * float(np.mean(model.labels_ == truth)),
        "skill": None if data.skill is None else 100 * float(np.abs(skill - data.skill).mean()),
        "rate": 100 * float(np.abs(rate - real).mean()),
        "test": 100 * float(np.mean(model.predict(data.X_test) == data.truth_test)),
        "one class": float(np.abs(np.mean(model.labels_ == 1) - 0.5) > 0.2),
    }


def summary(values: list[float | None]) -> dict[str, float | None] | None:
    """Mean and standard error over seeds."""
    known = np.array([v for v in values if v is not None])
    if not len(known):
        return None
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None
    return {"mean": float(known.mean()), "se": error}


def shown(cell: dict[str, float | None] | None) -> str:
    """A cell of the table."""
    if cell is None:
        return "-"
    return f"{cell['mean']:.2f}" + ("" if cell["se"] is None else f" ({cell['se']:.2f})")


def measure(title: str, rows: dict[str, Any], sets: list[Data], base: str) -> dict[str, Any]:
    """All methods on all seeds of one set; prints a table."""
    found = {name: [score(model, data) for data in sets] for name, model in rows.items()}
    right = 100 * np.mean([np.mean(d.answers.label == d.answers.truth[d.answers.task]) for d in sets])
    ceiling = 100 * np.mean([d.ceiling for d in sets])
    out: dict[str, Any] = {"seeds": len(sets), "answers right": right, "ceiling": ceiling, "rows": {}}
    table = Table("method", *COLUMNS, f"test vs {base}", f"labels vs {base}", f"AUC vs {base}", "one class")
    for name, runs in found.items():
        row: dict[str, Any] = {c: summary([run[c] for run in runs]) for c in COLUMNS}
        for c in ("test", "labels", "AUC"):
            row[f"{c} vs {base}"] = summary([run[c] - other[c] for run, other in zip(runs, found[base], strict=True)])
        row["one class"] = sum(run["one class"] for run in runs)
        out["rows"][name] = row
        cells = [row[c] for c in (*COLUMNS, *(f"{c} vs {base}" for c in ("test", "labels", "AUC")))]
        table.add_row(name, *map(shown, cells), f"{row['one class']:.0f}")
    table.title = f"{title} ({len(sets)}x): {right:.1f} % of answers right, best known test accuracy {ceiling:.2f}"
    Console(width=170).print(table)
    return out


def keep(title: str, figures: Any) -> None:
    """Put figures into the file of results beside those of other sets."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**results, title: figures}, indent=1) + "\n")


def main() -> None:
    """Run the sets asked for and keep the figures."""
    names = ["gaussian structural", "gaussian unstructured", "gaussian by task", "dogs structural", "dogs unstructured"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40, help="of the Gaussian sets; a quarter of it for pictures")
    parser.add_argument("--cnn", action="store_true", help="the paper's network on pixels for the pictures; slow")
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(names)}; all unless given")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", CrowdwiseWarning)
    keep("gaussian, best possible rule", 100 * float(norm.cdf(np.sqrt(2))))
    chosen = arguments.sets or names
    dogs = Dogs(arguments.cnn) if any(name.startswith("dogs") for name in chosen) else None
    for name in chosen:
        source, kind = name.split(" ", 1)
        rows, base, title = ROWS, "raykar", name
        if source == "gaussian":
            if kind == "structural":
                paper = measure("the paper's own points", ROWS, [gaussian(kind, "paper")], "raykar")
                keep("gaussian structural, the paper's points", paper)
            sets = [gaussian(kind, seed) for seed in range(arguments.seeds)]
        else:
            assert dogs is not None
            sets = [dogs(kind, seed) for seed in range(max(arguments.seeds // 4, 1))]
            if arguments.cnn:
                rows, base, title = CNN_ROWS, "aggnet (raykar's EM)", f"{name}, network"
        keep(title, measure(title, rows, sets, base))


if __name__ == "__main__":
    main()
