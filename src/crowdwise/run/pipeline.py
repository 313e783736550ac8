"""From answers to labels, workers, hard tasks, a model and a report, in six steps that a killed run does not repeat.

    1  sum up the answers
    2  choose a method by held-out answers (`choose`), and a temperature for its confidence
    3  fit every method on all answers; rank the tasks by ambiguity (WAUM with features, else disagreement)
    4  labels with verdicts, workers, what to buy next
    5  labels from fewer answers, what more answers should bring, and all figures
    6  the report

Known truth (`truth=`) is looked at in the scores alone: no choice, fit, temperature or verdict depends on it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from joblib import Parallel, delayed

from crowdwise._core.child_processes import Process, current_process, exit_with_parent
from crowdwise.acquire import propose
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.answers import Answers
from crowdwise.choose import Choice, choose
from crowdwise.choose.candidates import VOTE, Candidates
from crowdwise.choose.scores import Criterion
from crowdwise.errors import ClassPriorWarning, CrowdwiseError, CrowdwiseWarning, UnwritableError
from crowdwise.evaluate import vote_belief
from crowdwise.io import write
from crowdwise.io.model_files import load
from crowdwise.run import folder, folder_format, messages, metrics
from crowdwise.run.folder import Run
from crowdwise.run.forecast import curve_of, forecast_of, history_of
from crowdwise.run.inputs import RunInput
from crowdwise.run.media import keep_pictures
from crowdwise.run.progress import RunProgress
from crowdwise.run.tables.labels import CHEAP, HOPELESS, Disagreement, Labelled, label_table
from crowdwise.run.tables.tasks import task_table
from crowdwise.run.tables.workers import judge
from crowdwise.truth.base import TruthModel
from crowdwise.truth.methods.majority_vote import MajorityVote

Array = np.ndarray[Any, np.dtype[Any]]


RANKING = "the ranking of the tasks"


class Pipeline:
    """A run in the making: what the steps hand on to each other."""

    def __init__(
        self, given: RunInput, tried: Candidates, work: RunProgress, accept: float, budget: int, folds: int,
        time_budget: float | None, seed: int, n_jobs: int,
    ) -> None:  # fmt: skip
        self.given, self.tried, self.work = given, tried, work
        self.accept, self.budget, self.folds, self.time_budget = accept, budget, folds, time_budget
        self.seed, self.n_jobs = seed, n_jobs
        self.notes = [*given.notes, *tried.notes]

    def do(self) -> Run:
        """All steps; what is done already is taken from the folder."""
        work, given = self.work, self.given
        with work.step("Summing up the answers"):
            summary = metrics.summary_of(given.answers)
        with work.step("Choosing a method by held-out answers"):
            choice = self._choose()
            best = self._best(choice)
        with work.step("Fitting the methods on all answers"):
            models, ranked = self._fit(choice, best)
            beliefs = {name: _belief(name, model, choice) for name, model in models.items()}
        with work.step("Judging tasks and workers"):
            labelled, model = beliefs[best], models[best]
            quality = judge(given.answers, labelled.proba, labelled.codes, seconds=given.seconds)
            if ranked is None:
                ranked = Disagreement(labelled, quality.column("quality").fill_null(0.5).to_numpy())
            labels = self._labels(labelled, ranked, checked=choice is not None)
            proposal = self._propose(model, labelled, labels)
            self._write(model, best, labels, quality, ranked, proposal)
        with work.step("Asking what more answers would bring"):
            name, points = self._curve(choice, models)
            figures = {
                "method": best, "notes": self.notes, "summary": summary,
                **self._figures(labelled, labels, models, beliefs, best, choice, summary),
                "spammers": int(np.sum(quality.column("spammer").to_numpy(zero_copy_only=False))),
                "alike": metrics.alike_of(given.answers, self.seed), "ambiguity": messages.ambiguity_words(ranked),
                "forecast": forecast_of(proposal, labelled),
                "curve": points, "curve_method": name, **history_of(models),
            }  # fmt: skip
            why, beats = messages.why(choice, best, self.tried.requested)
            figures |= {"why": why, "beats_vote": beats}
            figures["words"] = messages.headline(figures, why)
            work.write(folder.METRICS, folder_format.sealed(figures, work.folder, folder.READ))
        return Run(work.folder)

    def _choose(self) -> Choice | None:
        """The candidates by held-out answers; None where too few can be held out."""
        answers, X, work = self.given.answers, self.given.X, self.work
        shared = np.diff(answers.task_starts)[answers.task] > 1
        criterion: Criterion = "tasks" if X is not None and shared.mean() < 0.1 else "common"

        def told(record: Mapping[str, Any]) -> None:
            spent.append(record["seconds"])
            left = np.mean(spent) * (record["total"] - record["done"] + len(self.tried.models)) / self.n_jobs
            work.tell(f"Choosing a method: {record['candidate']}", record["done"], record["total"], float(left))

        spent: list[float] = []
        try:
            choice = choose(
                answers, X, self.tried.models, default=self.tried.default, criterion=criterion, folds=self.folds,
                random_state=self.seed, n_jobs=self.n_jobs, callback=told, checkpoint=work.kept / "choose",
                time_budget=self.time_budget,
            )  # fmt: skip
            against = [text for entry in choice.entries for text in entry.warnings if ClassPriorWarning.matches(text)]
            self.notes += [f"{text[0].upper()}{text[1:]}" for text in against[:1]]
            return choice
        except UnwritableError:  # says nothing of the methods: with room on the disk the run goes on to another result
            raise
        except CrowdwiseError as error:
            self.notes.append(f"No method could be chosen by held-out answers: {error}")
            return None

    def _best(self, choice: Choice | None) -> str:
        if self.tried.requested is not None:
            return self.tried.requested
        return VOTE if choice is None else choice.best_

    def _fit(self, choice: Choice | None, best: str) -> tuple[dict[str, Any], TaskRanker | None]:
        """Every method that could be scored, fitted on all answers; and the ranking of the tasks, with features."""
        failed = set() if choice is None else {entry.candidate for entry in choice.entries if entry.failure}
        wanted = {name: model for name, model in self.tried.models.items() if name not in failed or name == best}
        if self.given.X is not None and find_spec("torch") is not None:
            from crowdwise.ambiguity.waum import WAUM

            wanted[RANKING] = WAUM(random_state=self.seed)
        files = {name: self.work.kept / f"{number}.safetensors" for number, name in enumerate(wanted)}
        seconds = {} if choice is None else {entry.candidate: entry.seconds / self.folds for entry in choice.entries}
        todo = [name for name in wanted if not files[name].is_file()]
        typical = float(np.mean(list(seconds.values()))) if seconds else 1.0
        results = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(_fit_apart)(current_process(), wanted[name], self.given.X, self.given.answers, files[name])
            for name in todo
        )
        for done, (name, _) in enumerate(zip(todo, results, strict=True), 1):
            left = sum(seconds.get(other, typical) for other in todo[done:]) / self.n_jobs
            self.work.tell(f"Fitting {name}", done, len(todo), left)
        models = {name: load(file) for name, file in files.items()}
        return {name: model for name, model in models.items() if name != RANKING}, models.get(RANKING)

    def _labels(self, labelled: Labelled, ranked: TaskRanker, *, checked: bool) -> pa.Table:
        labels = label_table(labelled, ranked, self.accept, checked=checked)
        if self.given.known is None:
            return labels
        names = pa.array([self.given.names[code] if code >= 0 else None for code in self.given.known.tolist()])
        return labels.add_column(labels.column_names.index("verdict") + 1, "truth", names)

    def _propose(self, model: Any, labelled: Labelled, labels: pa.Table) -> pa.Table:
        """Answers to buy, none of them to hopeless tasks."""
        sure = copy.copy(model)  # the same model, as sure as its labels are, and of the same labels where some are tied
        rows, ahead = np.arange(len(labelled.codes)), labelled.proba.max(axis=1) * (1 + 1e-9)
        sure.proba_ = labelled.proba.copy()
        sure.proba_[rows, labelled.codes] = np.maximum(sure.proba_[rows, labelled.codes], ahead)
        hopeless = np.array([verdict == "hopeless" for verdict in labels.column("verdict").to_pylist()])
        return propose(sure, self.budget, hopeless=hopeless, random_state=self.seed).table

    def _write(
        self, model: Any, best: str, labels: pa.Table, quality: pa.Table, ranked: TaskRanker, proposal: pa.Table
    ) -> None:
        """The tables and models of the folder."""
        place, given = self.work.folder, self.given
        write(labels, place / folder.LABELS)
        write(labels.select([name for name in labels.column_names if not name.startswith(folder.PROBA)]),
              place / folder.LABELS_CSV)  # fmt: skip
        write(quality, place / folder.WORKERS)
        order = np.argsort(ranked.scores_, kind="stable")
        images = {} if given.images is None else keep_pictures(given.images, order.tolist(), place)
        write(task_table(ranked, given.texts, images), place / folder.TASKS)
        write(proposal, place / folder.NEXT)
        model.save(place / folder.MODEL)
        if isinstance(model, TruthModel) and given.X is not None:
            from crowdwise.learn.methods.aggregated import Aggregated

            classifier = Aggregated(copy.deepcopy(self.tried.models[best]), random_state=self.seed)
            _fit_to(classifier, given.X, given.answers, place / folder.CLASSIFIER)

    def _curve(self, choice: Choice | None, models: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """Labels from a share of the answers, by the best method that needs no features."""
        ranking = [VOTE] if choice is None else choice.ranking_
        name = next((name for name in ranking if isinstance(models.get(name), TruthModel)), VOTE)

        def label(part: Answers) -> Labelled:
            return _belief(name, _fitted(copy.deepcopy(self.tried.models[name]), None, part), choice)

        return name, curve_of(self.given.answers, self.given.known, label, self.seed)

    def _figures(
        self, labelled: Labelled, labels: pa.Table, models: Mapping[str, Any], beliefs: Mapping[str, Labelled],
        best: str, choice: Choice | None, summary: Mapping[str, Any],
    ) -> dict[str, Any]:  # fmt: skip
        known, confidence = self.given.known, labels.column("confidence").to_numpy()
        accepted = confidence[np.array(labels.column("verdict").to_pylist()) == "accept"]
        raw = Labelled(labelled.answers, np.asarray(models[best].proba_, float), labelled.codes)
        temperature = None if choice is None else choice.temperatures.get(best)
        agreement = labels.column("agreement").to_numpy()
        counted = getattr(models[best], "answer_weight_", None)  # JointEM finds it
        return {
            "counts": metrics.counts_of(labels),
            "verdict_words": messages.verdict_words(self.accept),
            "verdict_rules": {"accept": self.accept, "hopeless": HOPELESS, "cheap": CHEAP},
            "expected_accuracy": float(confidence.mean()),
            "expected_accepted": float(accepted.mean()) if len(accepted) else None,
            "truth": metrics.truth_of(labelled, labels, known, beliefs[VOTE].codes),
            "balance": metrics.balance_of(labelled, known),
            "choice": None if choice is None else _choice_facts(choice),
            "methods": metrics.methods_of(choice, beliefs, best, known),
            "calibration": {
                "temperature": temperature,
                "words": messages.calibration_words(summary, temperature, counted),
                "before": metrics.bins_of(raw, known),
                "after": metrics.bins_of(labelled, known),
            },
            "confidence": metrics.histogram(confidence),
            "agreement": metrics.histogram(agreement),
        }


def _belief(name: str, model: Any, choice: Choice | None) -> Labelled:
    """What a fitted model believes, as sure as held-out answers let it be."""
    proba = model.proba_ if choice is None else choice.calibrated(name, model)
    if choice is None and isinstance(model, MajorityVote):  # nothing says what a vote is worth: each counts a little
        proba = vote_belief(model.answers_, 1.0)
    return Labelled(model.answers_, np.asarray(proba, dtype=float), np.asarray(model.codes_))


def _fitted(model: Any, X: Any, answers: Answers) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)  # the choice has them all
        return model.fit(answers) if isinstance(model, TruthModel) else model.fit(X, answers)


def _fit_to(model: Any, X: Any, answers: Answers, file: Path) -> None:
    """Fit and keep a model; its file appears when it is whole."""
    _fitted(model, X, answers).save(file)


def _fit_apart(parent: Process, *what: Any) -> None:
    """The same in a process of its own, which ends with its parent."""
    exit_with_parent(parent)
    _fit_to(*what)


def _choice_facts(choice: Choice) -> dict[str, Any]:
    facts = choice.as_dict(seconds=False)
    return {name: value for name, value in facts.items() if name != "candidates"}
