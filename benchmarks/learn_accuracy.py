"""Every learner on LabelMe and Music, compared with majority vote and the ceiling.

    python -m benchmarks learn-accuracy [--settings papers|defaults] [METHOD ...]

Test accuracy in per cent after the last epoch, mean and deviation over five seeds. Nothing is chosen on the test set.
Five seeds of a network are trained at once (`n_models=5`); methods without a network have one result, or five seeds of
their folds. `labels` is the share of training tasks labelled correctly by `proba_` (of the five together).

    papers     LabelMe: FC128, dropout .5, raw features, Adam 1e-3, batch 64, 50 epochs (Rodrigues and Pereira)
               Music: FC128 with batch normalisation, Adam 1e-3, batch 128, 100 epochs (DASC)
    defaults   our defaults for both: FC128, dropout .5, standardised features, Adam 1e-3, batch 64, 50 epochs

The ceiling is the same network trained on the true labels. `held out` is the epoch chosen on held-out answers, for
methods that have epochs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import clone

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from crowdwise.errors import CrowdwiseWarning

SEEDS = range(5)
PAPERS: dict[str, dict[str, Any]] = {
    "labelme": {"network": cw.MLP(standardise=False), "epochs": 50, "batch_size": 64, "lr": 1e-3},
    "music": {"network": cw.MLP(batchnorm=True), "epochs": 100, "batch_size": 128, "lr": 1e-3},
}
OWN_SETTINGS = {
    "MaxMIG": ("epochs", "lr")
}  # its learning rate is a tenth of the others', so it keeps its own number of epochs

ROWS: dict[str, Any] = {
    "ceiling (truth)": None,
    "MV-DL": cw.Aggregated("majority-vote", soft=False),
    "NS": cw.Aggregated("naive-soft"),
    "DS-DL": cw.Aggregated("dawid-skene", soft=False),
    "WDS": cw.Aggregated("wds"),
    "GLAD": cw.Aggregated("glad"),
    "MV+LR": cw.Aggregated("majority-vote", "logistic", soft=False),
    "D&S+LR": cw.Aggregated("dawid-skene", "logistic", soft=False),
    "crowdlayer mw": cw.CrowdLayer(),
    "crowdlayer vw": cw.CrowdLayer("vw"),
    "crowdlayer vb": cw.CrowdLayer("vb"),
    "crowdlayer vw+b": cw.CrowdLayer("vw+b"),
    "crowdlayer sw": cw.CrowdLayer("sw"),
    "annoreg": cw.AnnoReg(),
    "annoreg lam=.1": cw.AnnoReg(lam=0.1),
    "conal": cw.CoNAL(),
    "doctornet weighted": cw.DoctorNet(),
    "doctornet": cw.DoctorNet(weighted=False),
    "maxmig": cw.MaxMIG(),
    "mbem": cw.MBEM(),
    "unionnet": cw.UnionNet(),
    "geocrowdnet F": cw.GeoCrowdNet("F"),
    "geocrowdnet W": cw.GeoCrowdNet("W"),
    "aggnet": cw.AggNet(),
    "aggnet cross_fit=5": cw.AggNet(cross_fit=5),
    "aggnet cross_fit=5 calibrate": cw.AggNet(cross_fit=5, calibrate=True),
    "raykar": cw.Raykar(),
    "raykar cross_fit=5": cw.Raykar(cross_fit=5),
    "raykar cross_fit=5 calibrate": cw.Raykar(cross_fit=5, calibrate=True),
    "cpc": cw.CPC(),
    "crowdlab": cw.CrowdLab(),
    "fixed-difficulty": cw.FixedDifficultyEM(),
    "adaptive-difficulty": cw.AdaptiveDifficultyEM(),
    "adaptive-difficulty exact": cw.AdaptiveDifficultyEM(difficulty="classifier", climb="newton", exact=True),
    "fixed-difficulty network": cw.FixedDifficultyEM(network="mlp"),
    "adaptive-difficulty network": cw.AdaptiveDifficultyEM(network="mlp"),
    "crowdlayer focal": cw.CrowdLayer(loss="focal"),
    "crowdlayer cb_focal": cw.CrowdLayer(loss="cb_focal"),
    "crowdlayer reweight": cw.CrowdLayer(loss="reweight"),
    "crowdlayer resample": cw.CrowdLayer(sampling="resample"),
}


def load(name: str) -> tuple[Any, ...]:
    """Return features and labels for training and testing, and the answers."""
    data = cw.datasets.load(name)
    return data.X, data.truth, data.X_test, data.truth_test, data.answers


def configure(model: Any, options: dict[str, Any]) -> Any:
    """Return a copy of the model with the settings of a data set, where they apply."""
    known = model.get_params(deep=False)
    own = OWN_SETTINGS.get(type(model).__name__, ())
    if known.get("network") == "logistic":  # fitted by its solver, or by the training loop
        own = (*own, "network") if isinstance(model, cw.Aggregated) else tuple(options)
    if known.get("network") == "mlp":
        own = own if "network" in options else (*own, "network")
    return clone(model).set_params(**{k: v for k, v in options.items() if k in known and k not in own})


def fit_seeds(model: Any, X: Any, answers: cw.Answers) -> list[tuple[Any, Any]]:
    """Return fitted models, each with a function that predicts probabilities (members, rows, classes)."""
    known = model.get_params(deep=False)
    by_solver = known.get("network") == "logistic" and "max_iter" in known
    if "n_models" in known and not by_solver:
        model.set_params(n_models=len(SEEDS)).fit(X, answers)
        return [(model, lambda x: model.member_proba(x))]
    seeds = SEEDS if known.get("cross_fit") else (0,)
    out = []
    for seed in seeds:
        one = clone(model).set_params(random_state=seed).fit(X, answers)
        out.append((one, lambda x, one=one: one.predict_proba(x)[None]))
    return out


def score(model: Any, data: tuple[Any, ...], true_answers: cw.Answers | None = None) -> dict[str, Any]:
    """Return the accuracy over seeds on test tasks and of training labels, and the time of all seeds."""
    X, y, X_test, y_test, answers = data
    start = time.perf_counter()
    fitted = fit_seeds(model, X, answers if true_answers is None else true_answers)
    seconds = time.perf_counter() - start
    each = np.concatenate([(one.classes_[predict(X_test).argmax(2)] == y_test).mean(1) for one, predict in fitted])
    labels = np.mean([(one.labels_ == y).mean() for one, _ in fitted])
    return {"test": 100 * each.mean(), "sd": 100 * each.std(ddof=1) if len(each) > 1 else None,
            "labels": 100 * labels, "seconds": seconds, "n_seeds": len(each)}  # fmt: skip


def main() -> None:
    """Fit all methods, print a table and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", choices=["papers", "defaults"], action="append")
    parser.add_argument("--no-held-out", action="store_true", help="skip the choice of an epoch on held-out answers")
    parser.add_argument("methods", nargs="*", help="rows to run (default: all)")
    arguments = parser.parse_args()
    chosen = arguments.methods or list(ROWS)
    target = RESULTS / "learn_accuracy.json"
    results = read_results(target, {})
    warnings.simplefilter("ignore", CrowdwiseWarning)
    sets = {name: load(name) for name in PAPERS}
    for settings in arguments.settings or ["papers", "defaults"]:
        table = Table(
            "method", *(f"{n} {c}" for n in sets for c in ("test", "held out", "labels", "s")), title=settings
        )
        for row in chosen:
            cells = []
            for name, data in sets.items():
                options = PAPERS[name] if settings == "papers" else {}
                truth = None
                if ROWS[row] is None:
                    truth = cw.Answers.from_arrays(range(len(data[1])), ["truth"] * len(data[1]), data[1])
                model = configure(ROWS[row] or cw.Aggregated("majority-vote", soft=False), options)
                found = score(model, data, truth)
                if "select" in model.get_params() and truth is None and not arguments.no_held_out:
                    by_solver = model.get_params().get("network") == "logistic" and "max_iter" in model.get_params()
                    if not by_solver:
                        found["held_out"] = score(clone(model).set_params(select="held_out"), data)["test"]
                results.setdefault(settings, {}).setdefault(row, {})[name] = found
                spread = "" if found["sd"] is None else f" ± {found['sd']:.1f}"
                held = f"{found['held_out']:.1f}" if "held_out" in found else "-"
                cells += [f"{found['test']:.1f}{spread}", held, f"{found['labels']:.1f}", f"{found['seconds']:.1f}"]
            table.add_row(row, *cells)
            write_results(target, results)
        Console(width=140).print(table)


if __name__ == "__main__":
    main()
