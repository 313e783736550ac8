"""`run`: the whole job in one call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crowdwise._core.atomic_io import exclusive_access, remove_partial_files
from crowdwise._core.fingerprints import fingerprint
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.choose.candidates import select_candidates
from crowdwise.errors import CrowdwiseWarning, MissingDependencyError
from crowdwise.learn.joint_em.class_prior import ClassPrior
from crowdwise.run.folder import REPORT, TIMES, Run
from crowdwise.run.inputs import check_inputs
from crowdwise.run.pipeline import Pipeline
from crowdwise.run.progress import Callback, RunProgress, check_place, config_of
from crowdwise.run.tables.labels import ACCEPT

MOST_BOUGHT = 1000  # answers proposed, unless another budget is given


def run(
    answers: Answers | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    features: Any = None,
    images: Any = None,
    texts: Sequence[str | None] | np.ndarray[Any, Any] | None = None,
    encode: bool = True,
    seconds: Any = None,
    truth: Any = None,
    method: str | Sequence[str] = "auto",
    class_prior: ClassPrior = None,
    accept: float = ACCEPT,
    budget: int | None = None,
    folds: int = 5,
    time_budget: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    resume: bool = False,
    inputs: Sequence[Mapping[str, Any]] = (),
    callback: Callback | None = None,
) -> Run:
    """Do the whole job and keep it in a folder.

    Parameters
    ----------
    answers : Answers or path
        What the workers said.
    out : path
        The folder of the run: a new one, or with `resume` one that was begun.
    features : as in the learners, optional
        Features of the tasks; rows follow `answers.tasks`.
    images : folder of images, array (tasks, height, width[, channels]) or Pictures, optional
        Shown in the report.
    texts : sequence of str, optional
        One a task; shown in the report.
    encode : bool
        Where there are no features, make them from images or texts by a pretrained network.
    seconds : (answers,) array, optional
        How long each answer took; NaN where unknown.
    truth : as in `Answers.with_truth`, or path, optional
        Known labels, for scores alone. Those of `answers` if not given.
    method : str or sequence of str
        "auto" tries a handful; a name makes the labels by this method; several are chosen from. JointEM, where it is
        among several, is the default: it makes the labels unless another is better by its error.
    class_prior : "balanced", or mapping of class to share, optional
        What is known of how frequent the classes are among the tasks, for JointEM.
    accept : float
        How sure a label must be to be used as it is.
    budget : int, optional
        How many answers to propose: a tenth of the tasks, at most 1,000, if not given.
    folds : int
        Of the held-out answers.
    time_budget : float, optional
        Seconds for the choice of a method; what would take longer is left out, and said. The result then depends on
        the speed of the machine.
    seed : int
        Of everything random.
    n_jobs : int, optional
        Fits at once; all cores, up to four, if not given and there are features. Results do not depend on it.
    resume : bool
        Go on with a run that was killed; a finished one is given back as it is.
    inputs : sequence of mappings, optional
        Where the data came from, for config.json.
    callback : callable, optional
        Called with a `Progress` as the run goes on.

    Returns
    -------
    Run

    Examples
    --------
    >>> import tempfile
    >>> from crowdwise import simulate
    >>> made = run(simulate.simulate(150, n_workers=9, answers_per_task=4, seed=2), tempfile.mkdtemp() + "/run")
    >>> made.metrics["counts"].keys() == {"accept", "review", "needs more answers", "hopeless"}
    True
    """
    _check(accept, budget, folds, time_budget, seed, n_jobs)
    given = check_inputs(answers, features, images, texts, encode, seconds, truth)
    tried = select_candidates(
        given.answers, method, with_features=given.X is not None, seed=seed, class_prior=class_prior
    )
    budget = min(MOST_BOUGHT, max(1, given.answers.n_tasks // 10)) if budget is None else budget
    options = {"method": method if isinstance(method, str) else list(method), "accept": accept, "budget": budget,
               "folds": folds, "time_budget": time_budget, "class_prior": _plain(class_prior)}  # fmt: skip
    data = {name: None if part is None else fingerprint(part) for name, part in given.parts().items()}
    if n_jobs is None:
        n_jobs = 1 if given.X is None else min(4, os.cpu_count() or 1)
    place = Path(out)
    check_place(place)
    with exclusive_access(place):
        remove_partial_files(place)
        work = RunProgress(place, config_of(data, options, inputs, seed), resume=resume, steps=6, callback=callback)
        if work.finished:
            made = reported(Run(place))
        else:
            made = Pipeline(given, tried, work, accept, budget, folds, time_budget, seed, n_jobs).do()
            with work.step("Writing the report"):
                reported(made)
        if not (place / TIMES).is_file():  # killed as it was complete, it has none; else they are those of the last one
            work.write(TIMES, work.times)
        work.clear()
    return made


def reported(made: Run) -> Run:
    """The run, with its report where it has none yet and one can be made."""
    if not (made.path / REPORT).is_file():
        try:
            made.report()
        except MissingDependencyError as error:
            warnings.warn(f"There is no report: {error}", CrowdwiseWarning, stacklevel=3)
    return made


def _plain(prior: ClassPrior) -> Any:
    """A declared class prior as JSON takes it."""
    return {str(name): float(share) for name, share in prior.items()} if isinstance(prior, Mapping) else prior


def _check(accept: Any, budget: Any, folds: Any, time_budget: Any, seed: Any, n_jobs: Any) -> None:
    require(is_number(accept) and 0.5 <= accept < 1, "accept", accept, "a confidence from 0.5 to below 1")
    require(budget is None or is_integer(budget, 1), "budget", budget, "a whole number of answers, 1 or more")
    require(is_integer(folds, 2) and folds <= 100, "folds", folds, "a whole number from 2 to 100")
    timed = time_budget is None or (is_number(time_budget) and time_budget > 0)
    require(timed, "time_budget", time_budget, "seconds, more than 0")
    require(is_integer(seed, 0), "seed", seed, "a whole number, 0 or more")
    require(n_jobs is None or is_integer(n_jobs, 1), "n_jobs", n_jobs, "a whole number, 1 or more")
