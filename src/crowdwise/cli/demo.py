"""`crowdwise methods` and `crowdwise demo`: what there is, and what the main job does on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options
from crowdwise.cli.run import brief, default_folder, show, shown
from crowdwise.cli.screen import as_json, percent, say, table

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.answers.rows import Array
    from crowdwise.run import Run

METHODS = "Example: crowdwise methods"
DEMO = "Example: crowdwise demo --seed 1"
SIDE_BY_SIDE = ("majority-vote", "dawid-skene", "joint-em", "crowdlayer", "waum(crowdlayer)", "dasc(crowdlayer)")


def methods(json: options.Json = False) -> None:
    """List the methods: name, whether they need features, paper, what for."""
    from crowdwise._core.registry import methods as registered

    if json:
        as_json({"methods": [vars(method) for method in registered()]})
        return
    rows = [[m.name, "yes" if m.needs_features else "no", m.paper, m.what_for] for m in registered()]
    table(["name", "features", "paper", "what for"], rows, left=4)


def demo(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Where the run goes: runs/demo if not given.")
    ] = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Do the main job on embedded data: images of digits with a long tail, few answers each, by an uneven crowd.

    Majority vote, Dawid-Skene, JointEM, CrowdLayer, WAUM and DASC stand side by side; the truth is known, so all can be
    scored.
    """
    from crowdwise.run import run
    from crowdwise.simulate import digits_crowd

    X, answers = digits_crowd(seed)
    if not json:
        say(introduction(answers))
        say()
    with shown() as told:
        made = run(
            answers, default_folder(Path("demo")) if out is None else out, features=X, images=X.reshape(-1, 8, 8),
            method=list(SIDE_BY_SIDE), seed=seed, callback=told,
        )  # fmt: skip
    unseen = on_unseen(made, X)
    if json:
        as_json({**options.sizes(answers), **brief(made), "unseen": unseen})
        return
    show(made)
    say()
    say(
        f"The classifier gets {percent(unseen['accuracy'])} of the {unseen['tasks']:,} digits right that the crowd "
        f"never saw, {percent(unseen['balanced_accuracy'])} when every class counts the same."
    )
    say(
        "The crowd is simulated and its workers err independently, as these methods assume: real crowds gain less. "
        "Try your own: crowdwise run answers.csv"
    )


def introduction(answers: Answers) -> str:
    """What the demo is about."""
    from crowdwise.evaluate import summarise

    summary = summarise(answers)
    return (
        f"Digits: {answers.n_tasks} images of {answers.n_classes} classes with a long tail "
        f"({summary.truth_imbalance:.0f} to 1), {answers.n_workers} simulated workers of uneven skill, "
        f"{answers.n_answers:,} answers ({answers.n_answers / answers.n_tasks:.1f} a task), "
        f"{percent(summary.answer_accuracy or 0)} of them right."
    )


def on_unseen(made: Run, X: Array) -> dict[str, Any]:
    """How well the classifier of the run does on the digits that are not in it."""
    import numpy as np
    from sklearn.datasets import load_digits

    from crowdwise.evaluate import accuracy, balanced_accuracy

    whole, truth = load_digits(return_X_y=True)
    seen = {row.tobytes() for row in np.asarray(X, dtype=whole.dtype)}
    others = np.array([row.tobytes() not in seen for row in whole])
    predicted = made.classifier.predict(whole[others])
    figures = {
        "accuracy": accuracy(truth[others], predicted),
        "balanced_accuracy": balanced_accuracy(truth[others], predicted),
    }
    return {"tasks": int(others.sum()), **figures}
