"""`run`: from answers to labels, workers, hard tasks, a model and a report, in six steps.

    1  summarise the answers
    2  compare the methods on held-out answers (`choose`), and measure how far workers make the same mistakes
    3  fit every method on all answers and gold, calibrate the confidences (`run.confidence`), and select the method
       whose labels are used (`run.selection`); rank the tasks by ambiguity (WAUM with features, else disagreement)
    4  label the tasks with verdicts, rate the workers, propose answers to buy
    5  compute all figures, among them accuracy with fewer answers and the forecast for more
    6  write the report

A killed run resumes with the scored folds of step 2 and the fitted models of step 3. Gold (`gold=`) is used in the
fits, to select the method, to calibrate confidence and to judge workers; the label of a gold task is its gold label.
Known truth (`truth=`) is used for scores only: no choice, fit, calibration or verdict depends on it.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from joblib import delayed

from crowdwise._core.atomic_io import exclusive_access, remove_partial_files
from crowdwise._core.child_processes import Process, current_process, exit_with_parent, parallel
from crowdwise.acquire import propose
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.answers import Answers
from crowdwise.choose import Choice, choose
from crowdwise.choose.candidates import MANY_ANSWERS, POOL, VOTE, Candidates, select_candidates
from crowdwise.choose.scores import Criterion
from crowdwise.errors import (
    ClassPriorWarning,
    CrowdwiseError,
    CrowdwiseWarning,
    MissingDependencyError,
    UnwritableError,
)
from crowdwise.io import write
from crowdwise.io.model_files import load
from crowdwise.learn.base import CrowdClassifier
from crowdwise.learn.joint_em.class_prior import ClassPrior
from crowdwise.report.source import REPORT_FILE
from crowdwise.run import folder, messages, metrics
from crowdwise.run.confidence import (
    Evidence,
    anchor_pool,
    find_copies,
    independent_votes,
    make_labelling,
    measure_dependence,
)
from crowdwise.run.folder import Run
from crowdwise.run.forecast import accuracy_curve, accuracy_forecast, self_training_history
from crowdwise.run.inputs import RunInput, RunOptions, read_inputs
from crowdwise.run.progress import Callback, OutputFolder, RunProgress, make_config
from crowdwise.run.selection import Selected, Selector, fit_model
from crowdwise.run.tables.labels import ACCEPT, Labelling, label_table
from crowdwise.run.tables.tasks import Disagreement, task_table, write_thumbnails
from crowdwise.run.tables.workers import rate_workers
from crowdwise.run.trust_figures import trust_metrics
from crowdwise.trust import Dependence
from crowdwise.trust.calibrator import confidence_notes, label_confidence
from crowdwise.trust.gold_design import gold_table
from crowdwise.truth.base import TruthModel
from crowdwise.truth.methods.pool import Pool

Array = np.ndarray[Any, np.dtype[Any]]

STEPS = 6
RANKING = "the ranking of the tasks"  # fitted along with the methods
FEW_SHARED = 0.1  # share of answers to tasks with two or more, below which features alone must predict answers


def run(
    answers: Answers | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    features: Any = None,
    images: Any = None,
    texts: Sequence[str | None] | np.ndarray[Any, Any] | None = None,
    encode: bool = True,
    seconds: Any = None,
    gold: Any = None,
    truth: Any = None,
    families: Mapping[Any, Any] | None = None,
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
    """Infer labels, rate workers, find hard tasks, fit a model and write everything to a folder.

    Parameters
    ----------
    answers : Answers or path
        The workers' answers.
    out : path
        Folder of the run: a new one, or with `resume` that of an unfinished run.
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
    gold : as in `Answers.with_truth`, path, or table with the columns task and label, optional
        Known labels to use: each is the label of its task, and evidence about the workers, the methods and the
        confidence of all other labels. They should be of tasks drawn at random, or by `trust.plan_gold`: the columns
        that it wrote are recognised.
    truth : as in `Answers.with_truth`, or path, optional
        Known labels, used for scores only. The default is the truth of `answers`.
    families : mapping of worker to the name of their family, optional
        Workers who make the same mistakes, such as language models of one maker. Families are looked for by default.
    method : str or sequence of str
        "auto" compares several methods; a name uses that method; several names compare these. Without features, the
        labels of "auto" come from `pool`, the average of eight methods. With features, JointEM is the default: another
        method must beat it by more than one standard error.
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
    >>> import tempfile
    >>> from crowdwise import simulate
    >>> result = run(simulate.simulate(150, n_workers=9, answers_per_task=4, seed=2), tempfile.mkdtemp() + "/run")
    >>> result.metrics["counts"].keys() == {"accept", "review", "needs more answers", "hopeless"}
    True
    """
    options = RunOptions(method, class_prior, accept, budget, folds, time_budget, seed, n_jobs)
    target = out if isinstance(out, OutputFolder) else OutputFolder(out)  # rejected before data is read
    data = read_inputs(answers, features, images, texts, encode, seconds, gold, truth, families)
    candidates = select_candidates(
        data.answers, method, with_features=data.X is not None, seed=seed, class_prior=class_prior,
        with_gold=data.gold is not None,
    )  # fmt: skip
    options = options.with_defaults(data)
    config = make_config(data.fingerprints(), options.as_config(), inputs, seed)
    with exclusive_access(target.path):
        remove_partial_files(target.path)
        progress = RunProgress(target.path, config, resume=resume, steps=STEPS, callback=callback)
        return Pipeline(data, options, candidates, progress).execute()


class Fits(NamedTuple):
    """What step 3 fitted."""

    models: dict[str, Any]
    evidence: Evidence
    ranking: TaskRanker | None  # None without features


class Results(NamedTuple):
    """The tables of step 4."""

    labels: pa.Table
    workers: pa.Table
    proposal: pa.Table
    ranking: TaskRanker


class Pipeline:
    """The steps of a run.

    Parameters
    ----------
    data : RunInput
    options : RunOptions
        With all defaults filled in.
    candidates : Candidates
        The methods to compare.
    progress : RunProgress
        The folder, and what is already done in it.
    """

    def __init__(self, data: RunInput, options: RunOptions, candidates: Candidates, progress: RunProgress) -> None:
        self.data, self.options, self.candidates, self.progress = data, options, candidates, progress
        self.folder = progress.folder
        self.n_jobs = options.n_jobs or 1
        self.notes = [*data.notes, *candidates.notes]

    def execute(self) -> Run:
        """Run all steps, or only the missing report if the run is complete."""
        progress = self.progress
        if progress.finished:
            result = self._write_report()
        else:
            with progress.step("Summarising the answers"):
                summary = metrics.answer_summary(self.data.answers)
            with progress.step("Comparing methods on held-out answers"):
                choice = self._compare_methods()
                found = self._measure_dependence()
            with progress.step("Fitting the methods on all answers"):
                fits = self._fit_methods(choice, found)
                selection = Selector(self.data, self.candidates, choice, fits.evidence, self.options.seed)
                selected = selection.select(fits.models)
            with progress.step("Labelling tasks and rating workers"):
                results = self._make_tables(fits, selected, checked=choice is not None)
                self._write_tables(results, fits, selected.method, choice)
            with progress.step("Computing figures and forecasts"):
                self._write_metrics(summary, choice, selected, fits, results)
            with progress.step("Writing the report"):
                result = self._write_report()
        if not (self.folder / folder.TIMES).is_file():  # missing if the run was killed right after it was complete
            progress.write_json(folder.TIMES, progress.times)
        progress.clear()
        return result

    # Step 2

    def _compare_methods(self) -> Choice | None:
        """Compare the candidates on held-out answers; None if too few answers can be held out."""
        answers, X, options = self.data.answers, self.data.X, self.options
        shared = np.diff(answers.task_starts)[answers.task] > 1
        criterion: Criterion = "tasks" if X is not None and shared.mean() < FEW_SHARED else "common"
        seconds: list[float] = []

        def report(fit: Mapping[str, Any]) -> None:
            seconds.append(fit["seconds"])
            left = np.mean(seconds) * (fit["total"] - fit["done"] + len(self.candidates.models)) / self.n_jobs
            self.progress.report(f"Comparing methods: {fit['candidate']}", fit["done"], fit["total"], float(left))

        try:
            choice = choose(
                answers, X, self.candidates.models, default=self.candidates.default, criterion=criterion,
                folds=options.folds, random_state=options.seed, n_jobs=self.n_jobs, callback=report,
                checkpoint=self.progress.work / "choose", time_budget=options.time_budget,
            )  # fmt: skip
        except UnwritableError:  # a full disk is not a result: a resumed run must not depend on it
            raise
        except CrowdwiseError as error:
            self.notes.append(f"Methods could not be compared on held-out answers: {error}")
            return None
        caught = (warning for entry in choice.entries for warning in entry.warnings)
        about_prior = [each.text for each in caught if each.category == ClassPriorWarning.__name__]
        self.notes += [f"{text[0].upper()}{text[1:]}" for text in about_prior[:1]]
        return choice

    def _measure_dependence(self) -> Dependence | None:
        """Return how far workers make the same mistakes; None, with a note, if it cannot be measured."""
        data = self.data
        found, reason = measure_dependence(data.answers, data.gold, data.sample, data.families, self.options.seed)
        self.notes += [] if reason is None else [reason]
        return found

    # Step 3

    def _fit_methods(self, choice: Choice | None, found: Dependence | None) -> Fits:
        """Fit on all answers and gold: every method that could be scored, the pool and, with features, the ranking."""
        failed = set() if choice is None else {entry.candidate for entry in choice.entries if entry.failure}
        needed = {VOTE, self.candidates.requested}
        models = {name: model for name, model in self.candidates.models.items() if name not in failed - needed}
        comparable = choice is not None and choice.criterion != "tasks"  # tasks have answers of several workers
        if not comparable:
            models.pop(POOL, None)
        elif self.data.answers.n_answers <= MANY_ANSWERS:
            models.setdefault(POOL, Pool(random_state=self.options.seed))  # what the confidence rests on
        if self.data.X is not None and find_spec("torch") is not None:
            from crowdwise.ambiguity.waum import WAUM

            models[RANKING] = WAUM(random_state=self.options.seed)
        files = {name: self.progress.work / f"{number}.safetensors" for number, name in enumerate(models)}
        self._fit_missing(models, files, choice, found)
        fitted = {name: load(file) for name, file in files.items()}
        ranking = fitted.pop(RANKING, None)
        return Fits(fitted, Evidence(found).with_pool(fitted.get(POOL)), ranking)

    def _fit_missing(
        self, models: Mapping[str, Any], files: Mapping[str, Path], choice: Choice | None, found: Dependence | None
    ) -> None:
        """Fit the models that have no file yet, in parallel."""
        data, named = self.data, self.data.families is not None
        votes = {
            POOL: independent_votes(data.answers, found, named=named)
        }  # other methods take the answers as they are
        gold = {POOL: None}  # its labels are anchored to gold afterwards
        missing = [name for name in models if not files[name].is_file()]
        entries = [] if choice is None else choice.entries
        seconds = {entry.candidate: entry.seconds / self.options.folds for entry in entries}
        typical = float(np.mean(list(seconds.values()))) if seconds else 1.0
        results = parallel(self.n_jobs)(
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
            left = sum(seconds.get(other, typical) for other in missing[done:]) / self.n_jobs
            self.progress.report(f"Fitting {name}", done, len(missing), left)

    # Step 4

    def _make_tables(self, fits: Fits, selected: Selected, *, checked: bool) -> Results:
        """Label the tasks, rate the workers and propose answers to buy."""
        labelling = selected.labelling
        copies = find_copies(self.data.answers, fits.evidence.dependence)
        workers = rate_workers(*labelling, seconds=self.data.seconds, copies=copies)
        quality = workers.column("quality").fill_null(0.5).to_numpy()
        ranking = Disagreement(labelling, quality) if fits.ranking is None else fits.ranking
        checked = checked or fits.evidence.pool is not None
        low = workers.column("quality_low").fill_null(0.0).to_numpy()
        labels = label_table(
            labelling, ranking, self.options.accept, checked=checked, by_features=selected.needs_features, quality=low,
            gold=self.data.gold,
        )  # fmt: skip
        proposal = self._propose(fits.models[selected.method], labelling, labels, workers)
        return Results(self._with_truth(labels), workers, proposal, ranking)

    def _with_truth(self, labels: pa.Table) -> pa.Table:
        """Return the labels with a column of known truth after the verdict, if any is known."""
        if self.data.truth is None:
            return labels
        names = self.data.class_names
        column = pa.array([names[code] if code >= 0 else None for code in self.data.truth.tolist()])
        return labels.add_column(labels.column_names.index("verdict") + 1, "truth", column)

    def _propose(self, model: Any, labelling: Labelling, labels: pa.Table, workers: pa.Table) -> pa.Table:
        """Propose answers to buy: none for hopeless tasks, and none by flagged workers if there are others."""
        proba, rows = labelling.proba.copy(), np.arange(len(labelling.codes))
        highest = labelling.proba.max(axis=1) * (1 + 1e-9)  # breaks ties in favour of the label
        proba[rows, labelling.codes] = np.maximum(proba[rows, labelling.codes], highest)
        hopeless = np.array([verdict == "hopeless" for verdict in labels.column("verdict").to_pylist()])
        budget = self.options.budget or 1
        trusted = workers.filter(pc.is_null(workers.column("flag"))).column("worker").to_pylist()
        return propose(
            model, budget, proba=proba, hopeless=hopeless, per_worker="fair", workers=trusted or None,
            random_state=self.options.seed,
        ).table  # fmt: skip

    def _write_tables(self, results: Results, fits: Fits, best: str, choice: Choice | None) -> None:
        """Write the tables, the images and the models of the folder."""
        model = fits.models[best]
        place, data, labels = self.folder, self.data, results.labels
        write(labels, place / folder.LABELS)
        plain = [name for name in labels.column_names if not name.startswith(folder.PROBA)]
        write(labels.select(plain), place / folder.LABELS_CSV)
        write(results.workers, place / folder.WORKERS)
        order = np.argsort(results.ranking.scores_, kind="stable")
        images = {} if data.images is None else write_thumbnails(data.images, order.tolist(), place)
        write(task_table(results.ranking, data.texts, images), place / folder.TASKS)
        write(results.proposal, place / folder.NEXT)
        if data.gold is not None:
            write(gold_table(data.answers, data.gold, data.design), place / folder.GOLD)
        model.save(place / folder.MODEL)
        if isinstance(model, TruthModel) and data.X is not None:
            self._best_classifier(fits, best, choice).save(place / folder.CLASSIFIER)

    def _best_classifier(self, fits: Fits, best: str, choice: Choice | None) -> Any:
        """Return the learner that predicts held-out answers best, or a classifier of the labels if there is none."""
        ranking = [] if choice is None else choice.ranking_
        learners = [name for name in ranking if isinstance(fits.models.get(name), CrowdClassifier)]
        if learners:
            return fits.models[learners[0]]
        from crowdwise.learn.methods.aggregated import Aggregated

        classifier = Aggregated(copy.deepcopy(self.candidates.models[best]), random_state=self.options.seed)
        return fit_model(classifier, self.data.X, self.data.answers, self.data.gold)

    # Steps 5 and 6

    def _write_metrics(
        self, summary: Mapping[str, Any], choice: Choice | None, selected: Selected, fits: Fits, results: Results
    ) -> None:
        """Write metrics.json, which makes the run complete."""
        truth, best, labelling = self.data.truth, selected.method, selected.labelling
        labellings = {
            name: make_labelling(name, model, self.data.answers, choice, fits.evidence, self.data.gold)
            for name, model in fits.models.items()
        } | {best: labelling}
        curve_method, curve = self._curve(choice, selected, fits)
        calibration = self._calibration(choice, selected, fits, summary)
        why, beats_vote = messages.why_chosen(choice, selected, self.candidates.requested)
        spammers = sum(results.workers.column("spammer").to_pylist())
        figures = {
            "method": best, "notes": self.notes, "summary": summary,
            **metrics.label_metrics(results.labels, labellings, best, truth, self.options.accept),
            **metrics.choice_metrics(choice, fits.models, labellings, best, truth, calibration),
            "wrong": metrics.wrong_labels(
                results.labels, self.data.class_names, selected.predictions, self.data.gold
            ),
            "trust": trust_metrics(self.data, selected, fits.evidence, summary, checked=choice is not None),
            "spammers": spammers, "ambiguity": messages.ambiguity_words(results.ranking),
            "forecast": accuracy_forecast(results.proposal, labelling),
            "curve": curve, "curve_method": curve_method, **self_training_history(fits.models),
            "why": why, "beats_vote": beats_vote,
        }  # fmt: skip
        figures["words"] = messages.headline(figures, why, results.workers.to_pylist())
        self.progress.write_json(folder.METRICS, folder.seal_metrics(figures, self.folder))

    def _calibration(
        self, choice: Choice | None, selected: Selected, fits: Fits, summary: Mapping[str, Any]
    ) -> tuple[float | None, str]:
        """Return the temperature of the confidences, if they have one, and what they rest on in words."""
        evidence, gold = fits.evidence, self.data.gold
        if evidence.values is not None and (gold is not None or not selected.needs_features):
            _, distance = label_confidence(evidence.values)
            n_gold = 0 if gold is None else int((gold >= 0).sum())
            return None, " ".join(confidence_notes(self.data.answers, evidence.values, distance, n_gold))
        temperature = None if choice is None else choice.temperatures.get(selected.method)
        answer_weight = getattr(fits.models[selected.method], "answer_weight_", None)  # only JointEM estimates it
        return temperature, messages.calibration_words(summary, temperature, answer_weight)

    def _curve(self, choice: Choice | None, selected: Selected, fits: Fits) -> tuple[str, list[dict[str, Any]]]:
        """Return accuracy with fewer answers and the method: the selected one, if it needs no features."""
        ranking = [selected.method, *([VOTE] if choice is None else choice.ranking_)]
        name = next((name for name in ranking if isinstance(fits.models.get(name), TruthModel)), VOTE)
        model = fits.models[name]

        def label(part: Answers) -> Labelling:
            gold, evidence, sample = self.data.gold, fits.evidence, self.data.sample
            fitted = fit_model(copy.deepcopy(model), None, part, None if name == POOL else gold)
            if evidence.pool is not None:
                evidence = evidence.with_pool(fitted if name == POOL else Pool().fit(part))
            if name == POOL and gold is not None and sample is not None:
                return anchor_pool(fitted, part, evidence, gold, sample.weight, self.options.seed)[0]
            scaling = selected.scaling if name == selected.method else None
            return make_labelling(name, fitted, part, choice, evidence, gold, scaling)

        return name, accuracy_curve(self.data.answers, self.data.truth, label, self.options.seed)

    def _write_report(self) -> Run:
        """Write the report if it is missing and its dependencies are installed."""
        result = Run(self.folder)
        if not (self.folder / REPORT_FILE).is_file():
            try:
                result.report()
            except MissingDependencyError as error:
                warnings.warn(f"No report was written: {error}", CrowdwiseWarning, stacklevel=4)
        return result


def _fit_in_child(parent: Process, model: Any, X: Any, answers: Answers, gold: Array | None, file: Path) -> None:
    """Fit and save a model in a process that ends with its parent."""
    exit_with_parent(parent)
    fit_model(model, X, answers, gold).save(file)
