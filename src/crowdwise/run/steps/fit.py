"""Step 3: fit every method on all answers and gold, in parallel. Fitted models are saved, so a killed run resumes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import delayed

from crowdwise._core.child_processes import Process, current_process, exit_with_parent, parallel
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.answers import Answers
from crowdwise.choose import Choice
from crowdwise.choose.candidates import MANY_ANSWERS, POOL, VOTE
from crowdwise.io.model_files import load
from crowdwise.learn.base import CrowdClassifier
from crowdwise.run.confidence import Evidence
from crowdwise.run.selection import fit_model
from crowdwise.run.steps.context import RunContext
from crowdwise.run.time_left import CURVE, REST
from crowdwise.trust import Dependence
from crowdwise.trust.independent_votes import cautious_votes, independent_votes
from crowdwise.truth.base import Array
from crowdwise.truth.methods.pool import Pool

RANKING = "the ranking of the tasks"  # fitted along with the methods, as is
CAUTIOUS = "the pool of independent votes"  # which limits the confidence


class Fits(NamedTuple):
    """What step 3 fitted."""

    models: dict[str, Any]
    evidence: Evidence
    ranking: TaskRanker | None  # None without features


def fit_methods(context: RunContext, choice: Choice | None, found: Dependence | None) -> Fits:
    """Fit on all answers and gold: every method that could be scored, the pool and, with features, the ranking."""
    failed = set() if choice is None else {entry.candidate for entry in choice.entries if entry.failure}
    needed = {VOTE, context.candidates.requested}
    models = {name: model for name, model in context.candidates.models.items() if name not in failed - needed}
    if choice is not None:  # how long to train networks is known
        models |= {n: choice.models[n] for n, model in models.items() if isinstance(model, CrowdClassifier)}
    comparable = choice is not None and choice.criterion != "tasks"  # tasks have answers of several workers
    if not comparable:
        models.pop(POOL, None)
    elif context.data.answers.n_answers <= MANY_ANSWERS:
        models.setdefault(POOL, Pool(random_state=context.options.seed))  # what the confidence rests on
    votes = _votes(context, found)
    if POOL in models and CAUTIOUS in votes:
        models[CAUTIOUS] = Pool(random_state=context.options.seed)
    if context.data.X is not None and find_spec("torch") is not None:
        from crowdwise.ambiguity.waum import WAUM

        models[RANKING] = WAUM(random_state=context.options.seed)
    files = {name: context.progress.work / f"{number}.safetensors" for number, name in enumerate(models)}
    _fit_missing(context, models, files, choice, votes)
    fitted = {name: load(file) for name, file in files.items()}
    ranking, cautious = fitted.pop(RANKING, None), fitted.pop(CAUTIOUS, None)
    context.notes.extend(
        f"The features do not predict the answers clearly better than the answers do alone: {name} labels without them."
        for name, model in fitted.items()
        if not getattr(model, "features_used_", True)
    )
    return Fits(fitted, Evidence(found).with_pool(fitted.get(POOL), cautious), ranking)


def _votes(context: RunContext, found: Dependence | None) -> dict[str, Answers]:
    """Return the answers of those models that do not take them as they are."""
    answers, named = context.data.answers, context.data.families is not None
    cautious = None if named else cautious_votes(answers, found)
    votes = {POOL: independent_votes(answers, found, named=named)}
    return votes if cautious is None else votes | {CAUTIOUS: cautious}


def _fit_missing(
    context: RunContext,
    models: Mapping[str, Any],
    files: Mapping[str, Path],
    choice: Choice | None,
    votes: Mapping[str, Answers],
) -> None:
    """Fit the models that have no file yet, in parallel."""
    data, gold = context.data, {POOL: None, CAUTIOUS: None}  # the pool's labels are anchored to gold afterwards
    missing = [name for name in models if not files[name].is_file()]
    entries = [] if choice is None else choice.entries
    seconds = {entry.candidate: entry.seconds / context.options.folds for entry in entries}
    typical = float(np.mean(list(seconds.values()))) if seconds else 1.0
    results = parallel(context.n_jobs)(
        delayed(_fit_in_child)(
            current_process(),
            models[name],
            data.X,
            votes.get(name, data.answers),
            gold.get(name, data.gold),
            files[name],
        )
        for name in missing
    )
    for done, (name, _) in enumerate(zip(missing, results, strict=True), 1):
        left = sum(seconds.get(other, typical) for other in missing[done:]) / context.n_jobs
        left += CURVE * seconds.get(POOL, 0.0) + REST
        context.progress.report(f"Fitting {name}", done, len(missing), left)


def _fit_in_child(parent: Process, model: Any, X: Any, answers: Answers, gold: Array | None, file: Path) -> None:
    """Fit and save a model in a process that ends with its parent."""
    exit_with_parent(parent)
    fit_model(model, X, answers, gold).save(file)
