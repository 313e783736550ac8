"""`run`: from answers to labels, workers, hard tasks, a model and a report, in six steps.

    1  summarise the answers
    2  compare the methods on held-out answers (`choose`), and measure how far workers make the same mistakes
    3  fit every method on all answers and gold, calibrate the confidences (`run.confidence`), and select the method
       whose labels are used (`run.selection`); rank the tasks by ambiguity (WAUM with features, else disagreement)
    4  label the tasks with verdicts, rate the workers, propose answers to buy
    5  compute all figures, among them accuracy with fewer answers and the forecast for more
    6  write the report (not of a run in memory, which writes it when it is asked for)

A killed run resumes with the scored folds of step 2 and the fitted models of step 3. Gold (`gold=`) is used in the
fits, to select the method, to calibrate confidence and to judge workers; the label of a gold task is its gold label.
Known truth (`truth=`) is used for scores only: no choice, fit, calibration or verdict depends on it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crowdwise._core.atomic_io import exclusive_access, remove_partial_files
from crowdwise._core.frames import frame_kind
from crowdwise._core.temporary import TemporaryFolder
from crowdwise._core.validation import require
from crowdwise.choose.candidates import select_candidates
from crowdwise.errors import CrowdwiseWarning
from crowdwise.learn.joint_em.class_prior import ClassPrior
from crowdwise.report import without_charts
from crowdwise.report.source import REPORT_FILE
from crowdwise.run import metrics
from crowdwise.run.folder import Run
from crowdwise.run.inputs import RunOptions, read_inputs
from crowdwise.run.progress import Callback, OutputFolder, RunProgress, make_config
from crowdwise.run.selection import Selector
from crowdwise.run.steps.compare import compare_methods, measure_dependence
from crowdwise.run.steps.context import RunContext
from crowdwise.run.steps.figures import write_metrics
from crowdwise.run.steps.fit import fit_methods
from crowdwise.run.steps.tables import make_tables, write_tables
from crowdwise.run.stored_files import TIMES
from crowdwise.run.tables.labels import ACCEPT

STEPS = 5  # without the report


def run(
    answers: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    features: Any = None,
    images: Any = None,
    texts: Sequence[str | None] | np.ndarray[Any, Any] | None = None,
    encode: bool = True,
    seconds: Any = None,
    gold: Any = None,
    truth: Any = None,
    families: Mapping[Any, Any] | None = None,
    method: Any = "auto",
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
    """Infer labels, rate workers, find hard tasks, fit a model, and write everything to a folder or keep it in memory.

    `crowdwise.run(...)` is a shorthand for this function.

    Parameters
    ----------
    answers : Answers, path, or pandas, polars or Arrow table
        The workers' answers. The frames of the result are of the same kind, of Arrow for answers and paths.
    out : path, optional
        Folder of the run: a new one, or with `resume` that of an unfinished run. By default the result is kept in
        memory: in a temporary folder, which is deleted with the result. `Run.save` writes it to a folder.
    features : as in the learners, optional
        Features of the tasks; rows follow `answers.tasks`.
    images : folder of images, array (tasks, height, width[, channels]) or Pictures, optional
        Images of the tasks, shown in the report.
    texts : sequence of str, optional
        One text per task, shown in the report.
    encode : bool
        Without features, encode images or texts with a pretrained network.
    seconds : (answers,) array, optional
        How long each answer took; NaN if unknown.
    gold : as in `Answers.with_truth`, or path, optional
        Known labels to use: each is the label of its task, and evidence about the workers, the methods and the
        confidence of all other labels. They should be of tasks drawn at random, or by `trust.plan_gold`: the columns
        that it wrote are recognised.
    truth : as in `Answers.with_truth`, or path, optional
        Known labels, used for scores only. The default is the truth of `answers`.
    families : mapping of worker to the name of their family, optional
        Workers who make the same mistakes, such as language models of one maker. Families are looked for by default.
    method : str, model, or sequence of these
        "auto" compares several methods; one name or model uses that method; several compare these. A model is a truth
        model or learner with its settings, or any object with their main methods (see `crowdwise.register`). Without
        features, the labels of "auto" come from `pool`, the average of eight methods. With features, JointEM is the
        default: another method must beat it by more than one standard error.
    class_prior : "balanced", or mapping of class to share, optional
        Known class frequencies among the tasks, for JointEM.
    accept : float
        Confidence from which a label is accepted.
    budget : int, optional
        Number of answers to propose. The default is a tenth of the number of tasks, at most 1,000.
    folds : int
        Number of folds of held-out answers.
    time_budget : float, optional
        Seconds for comparing methods. Methods that would take longer are left out and listed. The result then depends
        on the speed of the machine.
    seed : int
        Random seed.
    n_jobs : int, optional
        Number of parallel fits. With features, the default is the number of cores, at most four; without, one. Results
        do not depend on it.
    resume : bool
        Resume an unfinished run; a finished one is returned unchanged.
    inputs : sequence of mappings, optional
        Where the data came from, for config.json.
    callback : callable, optional
        Called with a `Progress` during the run.

    Returns
    -------
    Run

    Examples
    --------
    >>> from crowdwise import simulate
    >>> answers = simulate.simulate(150, n_workers=9, answers_per_task=4, seed=2)
    >>> result = run(answers.to_frame("pandas"), method=["one-coin", "dawid-skene"])
    >>> result.metrics["counts"].keys() == {"accept", "review", "needs more answers", "hopeless"}
    True
    >>> result.labels.head(1)[["task", "label"]]
       task  label
    0     0      ...
    """
    options = RunOptions(method, class_prior, accept, budget, folds, time_budget, seed, n_jobs)
    memory = None
    if out is None:
        require(not resume, "resume", resume, "False without `out`, the folder of the run to resume")
        memory = TemporaryFolder()
        out = memory.path / "run"
    target = out if isinstance(out, OutputFolder) else OutputFolder(out)  # rejected before data is read
    reason = without_charts() if memory is None else None
    if reason is not None:
        warnings.warn(f"The report will have no charts, {reason}", CrowdwiseWarning, stacklevel=2)
    kind = frame_kind(answers)
    data = read_inputs(answers, features, images, texts, encode, seconds, gold, truth, families)
    candidates = select_candidates(
        data.answers, method, with_features=data.X is not None, seed=seed, class_prior=class_prior,
        with_gold=data.gold is not None,
    )  # fmt: skip
    options = options.with_defaults(data)
    config = make_config(data.fingerprints(), options.as_config(), inputs, seed)
    with exclusive_access(target.path):
        remove_partial_files(target.path)
        with_report = memory is None
        progress = RunProgress(target.path, config, resume=resume, steps=STEPS + with_report, callback=callback)
        execute(RunContext(data, options, candidates, progress, [*data.notes, *candidates.notes]), with_report)
    return Run(target.path, kind=kind, memory=memory)


def execute(context: RunContext, with_report: bool) -> None:
    """Take all steps, or write only the missing report if the run is complete."""
    data, progress = context.data, context.progress
    if not progress.finished:
        with progress.step("Summarising the answers"):
            summary = metrics.answer_summary(data.answers)
        with progress.step("Comparing methods on held-out answers"):
            choice = compare_methods(context)
            found = measure_dependence(context)
        with progress.step("Fitting the methods on all answers"):
            fits = fit_methods(context, choice, found)
            selection = Selector(data, context.candidates, choice, fits.evidence, context.options.seed)
            selected = selection.select(fits.models)
        with progress.step("Labelling tasks and rating workers"):
            results = make_tables(context, fits, selected, checked=choice is not None)
            write_tables(context, results, fits, selected.method, choice)
        with progress.step("Computing figures and forecasts"):
            write_metrics(context, summary, choice, selected, fits, results)
    if with_report and not (context.folder / REPORT_FILE).is_file():
        with progress.step("Writing the report"):
            Run(context.folder).report()
    if not (context.folder / TIMES).is_file():  # missing if the run was killed right after it was complete
        progress.write_json(TIMES, progress.times)
    progress.clear()
