"""`crowdwise methods` and `crowdwise demo`: what there is, and what it does on embedded data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crowdwise.cli import options
from crowdwise.cli.aggregate import SCORES
from crowdwise.cli.screen import as_json, percent, progress, say, table

if TYPE_CHECKING:
    from crowdwise.answers import Answers

METHODS = "Example: crowdwise methods"
DEMO = "Example: crowdwise demo --seed 1"
_LOWER_IS_BETTER = ("log_loss", "ece")
VOTE = "majority-vote"


def methods(json: options.Json = False) -> None:
    """List the methods: name, whether they need features, paper, what for."""
    from crowdwise.registry import methods as registered

    if json:
        as_json({"methods": [vars(method) for method in registered()]})
        return
    rows = [[m.name, "yes" if m.needs_features else "no", m.paper, m.what_for] for m in registered()]
    table(["name", "features", "paper", "what for"], rows, left=4)


def demo(seed: options.Seed = 0, json: options.Json = False) -> None:
    """Compare all truth methods on digits with a long tail and a simulated crowd, against the known truth."""
    from crowdwise.simulate import digits_crowd

    with progress("Making the crowd"):
        _, answers = digits_crowd(seed)
    scores, left_out = compare(answers, seed)
    if json:
        as_json({"data": options.sizes(answers), "scores": scores, "left_out": left_out})
        return
    say(
        f"Digits: {answers.n_tasks} images of {answers.n_classes} classes with a long tail, {answers.n_workers} "
        f"simulated workers, {answers.n_answers} answers ({answers.n_answers / answers.n_tasks:.1f} a task), "
        f"{percent(answers.summary().answer_accuracy or 0)} of them right."
    )
    say()
    show(scores)
    say()
    for line in lessons(scores, answers.n_tasks):
        say(line)
    for name, why in left_out.items():
        say(f"Not run: {name} ({why})", "dim")


def compare(answers: Answers, seed: int) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Scores and seconds of every method that answers alone can be given to, and why the others were left out."""
    from crowdwise.errors import CrowdwiseError
    from crowdwise.evaluate import evaluate
    from crowdwise.registry import methods as registered

    scores: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    candidates = [method for method in registered() if not method.needs_features]
    with progress("Fitting") as step:
        for i, method in enumerate(candidates):
            step(f"Fitting {method.name}; a first run compiles", i, len(candidates))
            model = options.build(method.name, {}, seed)
            if model.needs_gold:
                left_out[method.name] = "needs known labels"
                continue
            try:
                model.fit(answers)  # this fit may compile; the next is timed
            except CrowdwiseError as error:
                left_out[method.name] = str(error)
                continue
            start = time.perf_counter()
            model.fit(answers)
            seconds = time.perf_counter() - start
            scores[method.name] = evaluate(model, answers.truth).as_dict() | {"seconds": seconds}
    return scores, left_out


def show(scores: Mapping[str, Mapping[str, Any]]) -> None:
    """The table: a row a method, the best figure of each column starred."""
    best = {
        key: (min if key in _LOWER_IS_BETTER else max)(round(values[key], 3) for values in scores.values())
        for key in SCORES
    }
    rows = []
    for name, values in scores.items():
        figures = ((round(values[key], 3), best[key]) for key in SCORES)
        cells = (f"[bold green]*{own:.3f}[/]" if own == top else f"{own:.3f}" for own, top in figures)
        rows.append([name, *cells, f"{values['seconds']:.3f}"])
    table(["method", *SCORES.values(), "seconds"], rows)


def lessons(scores: Mapping[str, Mapping[str, Any]], n_tasks: int) -> list[str]:
    """What the table shows and what it does not, in plain words."""
    accuracy = {name: values["accuracy"] for name, values in scores.items()}
    best = max(accuracy, key=lambda name: accuracy[name])
    vote = accuracy[VOTE]
    error = (vote * (1 - vote) / n_tasks) ** 0.5  # binomial, of one accuracy
    no_better = [name for name, value in accuracy.items() if name != VOTE and value <= vote]
    lines = [
        f"From the same answers, majority vote gets {percent(vote)} of the labels right and {best} "
        f"{percent(accuracy[best])} (* is the best of a column); dawid-skene, the default, gets "
        f"{percent(accuracy['dawid-skene'])}.",
        f"Differences below about {200 * 2**0.5 * error:.0f} points may be chance: there are only {n_tasks} images.",
    ]
    if no_better:
        lines.append(f"No better than the vote here: {', '.join(no_better)}.")
    lines.append(
        "The crowd is simulated and its workers err independently, as these methods assume: real crowds gain less. "
        "Try your own: crowdwise aggregate answers.csv --out labels.csv"
    )
    return lines
