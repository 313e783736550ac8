"""Step 2: compare the methods on held-out answers, and measure how far workers make the same mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.choose import Choice, choose
from crowdwise.choose.scores import Criterion
from crowdwise.errors import ClassPriorWarning, CrowdwiseError, UnwritableError
from crowdwise.run.confidence import measure_dependence as measure
from crowdwise.run.steps.context import RunContext
from crowdwise.run.time_left import TimeLeft
from crowdwise.trust import Dependence

FEW_SHARED = 0.1  # share of answers to tasks with two or more, below which features alone must predict answers


def compare_methods(context: RunContext) -> Choice | None:
    """Compare the candidates on held-out answers; None if too few answers can be held out."""
    answers, X, options = context.data.answers, context.data.X, context.options
    shared = np.diff(answers.task_starts)[answers.task] > 1
    criterion: Criterion = "tasks" if X is not None and shared.mean() < FEW_SHARED else "common"
    time_left = TimeLeft(context.candidates.models, options.folds, context.n_jobs)

    def report(fit: Mapping[str, Any]) -> None:
        time_left.fitted(fit["candidate"], fit["seconds"])
        left = time_left.seconds(fit["done"], fit["total"])
        context.progress.report(f"Comparing methods: {fit['candidate']}", fit["done"], fit["total"], left)

    try:
        choice = choose(
            answers, X, context.candidates.models, default=context.candidates.default, criterion=criterion,
            folds=options.folds, random_state=options.seed, n_jobs=context.n_jobs, callback=report,
            checkpoint=context.progress.work / "choose", time_budget=options.time_budget,
        )  # fmt: skip
    except UnwritableError:  # a full disk is not a result: a resumed run must not depend on it
        raise
    except CrowdwiseError as error:
        context.notes.append(f"Methods could not be compared on held-out answers: {error}")
        return None
    caught = (warning for entry in choice.entries for warning in entry.warnings)
    about_prior = [each.text for each in caught if each.category == ClassPriorWarning.__name__]
    context.notes.extend(f"{text[0].upper()}{text[1:]}" for text in about_prior[:1])
    return choice


def measure_dependence(context: RunContext) -> Dependence | None:
    """Return how far workers make the same mistakes; None, with a note, if it cannot be measured."""
    data = context.data
    found, reason = measure(data.answers, data.gold, data.sample, data.families, context.options.seed)
    context.notes.extend([] if reason is None else [reason])
    return found
