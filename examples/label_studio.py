"""From a Label Studio export to a trained model, and to feedback for a worker.

A team of twelve labels images of digits in Label Studio, three answers per image, and exports the project as JSON. As
in real exports, some annotations were cancelled, workers are numbers or objects, every annotation has a duration, and a
lead labelled some images correctly (`ground_truth`). The images are real (scikit-learn's), the team is simulated, and
one worker mistakes sevens for ones.

The example reads the export, runs the complete job, classifies new images with the model of the run, and prints
feedback for the worker with the most consistent mistake. It needs no data.

    python examples/label_studio.py [--out runs/label-studio]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import crowdwise as cw
from crowdwise.io import read_with_side_columns
from crowdwise.simulate import answer, crowd, look_alike

FIRST = 1001  # id of the first task
TEAM = 12
CHECKED = 40  # images labelled by a lead
MIXES_UP = 4  # the worker who mistakes sevens for ones


def export(X: np.ndarray, y: np.ndarray, path: Path, seed: int = 0) -> None:
    """Write an export as Label Studio does: one record per task with its annotations."""
    rng = np.random.default_rng(seed)
    confusion = crowd(TEAM, 10, "class-dependent", accuracy=(0.65, 0.95), similar=look_alike(X, y), seed=seed)
    confusion[MIXES_UP, 7] = 0.25 * np.eye(10)[7] + 0.75 * np.eye(10)[1]
    answers = answer(y, confusion, 3, seed=seed)
    records: list[dict[str, Any]] = [
        {"id": FIRST + t, "data": {"image": f"/data/local-files/?d=digits/{FIRST + t}.png"}, "annotations": []}
        for t in range(len(y))
    ]
    for task, worker, label in zip(answers.task.tolist(), answers.worker.tolist(), answers.label.tolist(), strict=True):
        record = {
            **annotation(label),
            "completed_by": worker if task % 2 else {"id": worker, "email": f"worker{worker}@example.org"},
            "lead_time": round(float(rng.lognormal(1.5, 0.5)), 3),  # seconds
        }
        if rng.random() < 0.03:
            record |= {"was_cancelled": True, "result": []}
        records[task]["annotations"].append(record)
    for task in rng.permutation(len(y))[:CHECKED].tolist():
        records[task]["annotations"].append(annotation(int(y[task])) | {"completed_by": 99, "ground_truth": True})
    path.write_text(json.dumps(records, indent=1), "utf-8")


def annotation(label: int) -> dict[str, Any]:
    """Return one choice of the question "digit"."""
    choice = {"from_name": "digit", "to_name": "image", "type": "choices", "value": {"choices": [str(label)]}}
    return {"result": [choice], "was_cancelled": False, "ground_truth": False}


def main(out: Path, small: bool = False) -> cw.run.Run:
    """Export, read, run, classify new images, and write feedback to a worker."""
    X, y = load_digits(return_X_y=True)
    n_tasks = 250 if small else 700
    out.mkdir(parents=True, exist_ok=True)
    file = out / "export.json"
    export(X[:n_tasks], y[:n_tasks], file)

    answers, side = read_with_side_columns(file)  # the format is detected from the content
    own = X[answers.tasks - FIRST]  # (tasks, pixels): features in the order of answers.tasks
    print(f"{file}: {answers}; left out: {dict(answers.removed)}.")

    options: dict[str, Any] = {"method": ["dawid-skene", "aggnet"], "folds": 2, "n_jobs": 1} if small else {}
    run = cw.run(
        answers, out / "run", features=own, images=own.reshape(-1, 8, 8), seconds=side.seconds, resume=True, **options
    )
    print(*run.metrics["words"], sep="\n")

    new, truth = X[n_tasks:], y[n_tasks:].astype(str)  # images without answers
    predicted = run.classifier.predict(new)
    print(f"The model of the run classifies {np.mean(predicted == truth):.1%} of {len(new):,} new images correctly.")

    workers = [worker for worker in run.workers.to_pylist() if not worker["spammer"]]
    worst = max(workers, key=lambda worker: worker["worst_confusion_share"] or 0.0)
    print(f"Feedback for the worker with the most consistent mistake ({worst['seconds']:.1f} seconds per answer):")
    print(run.feedback(worst["worker"]))
    print(f"Report: {run.path / 'report.html'}")
    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/label-studio"), help="folder for the export and the run")
    main(parser.parse_args().out)
