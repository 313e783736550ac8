"""`crowdwise methods` and `crowdwise demo`: the list of methods, and the full pipeline on built-in data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options
from crowdwise.cli.run import default_folder, progress_display, show, summary_of
from crowdwise.cli.screen import as_json, percent, say, table

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.answers.rows import Array
    from crowdwise.run import Run

METHODS = "Example: crowdwise methods"
DEMO = "Example: crowdwise demo --seed 1"
COMPARED = ("majority-vote", "dawid-skene", "joint-em", "crowdlayer", "waum(crowdlayer)", "dasc(crowdlayer)")


def methods(json: options.Json = False) -> None:
    """List the methods: whether they need features, their paper, and what they are for."""
    from crowdwise._core.registry import methods as registered

    if json:
        shown = ("name", "home", "paper", "what_for", "needs_features", "takes_model")
        as_json({"methods": [{name: getattr(method, name) for name in shown} for method in registered()]})
        return
    rows = [[m.name, "yes" if m.needs_features else "no", m.paper, m.what_for] for m in registered()]
    table(["name", "features", "paper", "description"], rows, left=4)


def demo(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the run. Default: runs/demo.")
    ] = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Run the full pipeline on built-in data: images of digits, imbalanced classes, and few answers per image.

    The demo compares majority vote, Dawid-Skene, JointEM, CrowdLayer, WAUM and DASC. The crowd is simulated, so the
    truth is known and every method is scored.
    """
    from crowdwise.run import run
    from crowdwise.simulate import digits_crowd

    X, answers = digits_crowd(seed)
    if not json:
        say(introduction(answers))
        say()
    with progress_display() as callback:
        result = run(
            answers, default_folder(Path("demo")) if out is None else out, features=X, images=X.reshape(-1, 8, 8),
            method=list(COMPARED), seed=seed, callback=callback,
        )  # fmt: skip
    unseen = score_unseen(result, X)
    if json:
        as_json({**options.sizes(answers), **summary_of(result), "unseen": unseen})
        return
    show(result)
    say()
    say(
        f"On the {unseen['tasks']:,} digits that the crowd never saw, the classifier's accuracy is "
        f"{percent(unseen['accuracy'])} ({percent(unseen['balanced_accuracy'])} balanced over classes)."
    )
    say(
        "The simulated workers err independently, as these methods assume. Expect smaller gains with real crowds. "
        "Try your own data: crowdwise run answers.csv"
    )


def introduction(answers: Answers) -> str:
    """Describe the data of the demo."""
    from crowdwise.evaluate import summarise

    summary = summarise(answers)
    return (
        f"Digits: {answers.n_tasks} images of {answers.n_classes} imbalanced classes "
        f"({summary.truth_imbalance:.0f} to 1), {answers.n_workers} simulated workers of uneven skill, "
        f"{answers.n_answers:,} answers ({answers.n_answers / answers.n_tasks:.1f} per task), "
        f"{percent(summary.answer_accuracy or 0)} of them correct."
    )


def score_unseen(result: Run, X: Array) -> dict[str, Any]:
    """Score the classifier of the run on the digits that are not part of it."""
    import numpy as np
    from sklearn.datasets import load_digits

    from crowdwise.evaluate import accuracy, balanced_accuracy

    digits, truth = load_digits(return_X_y=True)
    seen = {row.tobytes() for row in np.asarray(X, dtype=digits.dtype)}
    unseen = np.array([row.tobytes() not in seen for row in digits])
    predicted = result.classifier.predict(digits[unseen])
    scores = {
        "accuracy": accuracy(truth[unseen], predicted),
        "balanced_accuracy": balanced_accuracy(truth[unseen], predicted),
    }
    return {"tasks": int(unseen.sum()), **scores}
