"""`crowdwise predict`: classify tasks with a model from `crowdwise fit`, or with the classifier of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options
from crowdwise.cli.aggregate import CONFIDENT
from crowdwise.cli.fit import FEATURES
from crowdwise.cli.method_options import class_prior as parse_class_prior
from crowdwise.cli.options import refuse_same_file
from crowdwise.cli.screen import as_json, fields, percent, progress
from crowdwise.errors import ModelFileError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.answers.rows import Array
    from crowdwise.learn.features import Features

PREDICT = "Example: crowdwise predict model/ X.npy --out predictions.csv"

METRICS = "metrics.json"  # in the folder of a run

MAX_CLASSES_SHOWN = 10


def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="Folder written by `crowdwise fit`, or by `crowdwise run` with features."),
    ],
    features: Annotated[Path, typer.Argument(metavar="X", help=f"Features of the tasks: {FEATURES}.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File for the predictions: .csv or .parquet.")
    ],
    proba: Annotated[
        bool, typer.Option("--proba", metavar="", help="Add one column per class with its probability.")
    ] = False,
    class_prior: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES",
            help="Class proportions among these tasks, if they differ from the training tasks (joint-em only): "
            "balanced, cat=0.3,dog=0.7, or a JSON file.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Classify tasks by their features, with a model from `crowdwise fit` or the classifier of a run."""
    from crowdwise.io import check_target, write
    from crowdwise.io.model_files import load
    from crowdwise.learn.features import open_features

    check_target(out)
    refuse_same_file([model, features], [out])
    with progress(f"Predicting {features.name}"):
        fitted = run_classifier(model) if (model / METRICS).is_file() else load(model)
        if not hasattr(fitted, "predict_proba"):
            message = f"{model} holds {fitted}, which has no classifier. Fit a learner with `crowdwise fit`."
            raise ModelFileError(message)
        if class_prior is not None:
            if "new_class_prior" not in fitted.get_params():
                message = f"--class-prior applies to joint-em only; the model is {fitted}."
                raise ParameterError(message)
            fitted.set_params(new_class_prior=parse_class_prior(class_prior, fitted.classes_.tolist()))
        X = open_features(features)
        table = prediction_table(fitted, X, fitted.predict_proba(X), every_class=proba)
        write(table, out)
    count = dict.fromkeys(map(str, fitted.classes_), 0)
    for row in table.column("label").value_counts().to_pylist():
        count[str(row["values"])] = row["counts"]
    confident = float((table.column("confidence").to_numpy() > CONFIDENT).mean()) if table.num_rows else None
    if json:
        as_json({"model": str(model), "features": str(features), "tasks": table.num_rows, "labels": count,
                 "class_prior": class_prior,
                 "confident_share": confident, "written": {"predictions": str(out)}})  # fmt: skip
        return
    most = sorted(count.items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{name}: {n:,}" for name, n in most[:MAX_CLASSES_SHOWN]) + (
        ", ..." if len(most) > MAX_CLASSES_SHOWN else ""
    )
    lines = [("tasks", f"{table.num_rows:,}"), ("labels", shown)]
    if confident is not None:
        lines.append(("confident", f"{percent(confident)} of the tasks (confidence above {CONFIDENT})"))
    fields([*lines, ("written to", str(out))])


def run_classifier(folder: Path) -> Any:
    """Return the classifier of a run: the model of the labels, or the best learner if that one uses no features."""
    from crowdwise.run import Run

    classifier = Run(folder).classifier
    if classifier is None:
        message = (
            f"{folder} has no classifier, because the run had no features. Rerun it with --features, or use `fit`."
        )
        raise ModelFileError(message)
    return classifier


def prediction_table(model: Any, X: Features, proba: Array, *, every_class: bool) -> pa.Table:
    """Return one row per task: its id or number, the most probable class and its probability."""
    import numpy as np
    import pyarrow as pa

    codes = proba.argmax(axis=1)
    columns = {
        "task": np.arange(len(proba)) if X.tasks is None else pa.array(_task_ids(X.tasks, model.tasks_)),
        "label": model.answers_.class_ids.take(pa.array(codes)),
        "confidence": proba[np.arange(len(proba)), codes],
    }
    if every_class:
        columns |= {f"proba_{name}": proba[:, c] for c, name in enumerate(model.classes_)}
    return pa.table(columns)


def _task_ids(names: Array, known: Array) -> list[Any]:
    """Write row names like the training task ids: numbers as numbers, file names without a suffix if those have none.

    >>> import numpy as np
    >>> _task_ids(np.array(["7.png", "8.png"]), np.array([1, 2])), _task_ids(np.array(["a.b"]), np.array(["x.y"]))
    ([7, 8], ['a.b'])
    """
    from crowdwise.learn.features.pictures import SUFFIXES

    own = {Path(str(task)).suffix for task in known[:1000].tolist()}
    plain = [str(name) for name in names]
    if own == {""}:
        plain = [
            name.removesuffix(Path(name).suffix) if Path(name).suffix.lower() in SUFFIXES else name for name in plain
        ]
    if known.dtype.kind in "iu" and all(name.lstrip("-").isdecimal() for name in plain):
        return [int(name) for name in plain]
    return plain
