"""What a run works on: its options and its data, read and checked, with the known truth set apart."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise._core.fingerprints import fingerprint
from crowdwise._core.frames import to_table
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers, as_answers
from crowdwise.answers.columns import is_frame
from crowdwise.choose.candidates import requested_methods
from crowdwise.errors import EmptyError, FeaturesError, SingleClassError
from crowdwise.io import read
from crowdwise.io.reader import attach_truth, gold_notes, read_numbers
from crowdwise.learn.features import Features, open_features
from crowdwise.learn.features.pictures import Pictures
from crowdwise.learn.features.sources import open_source
from crowdwise.learn.joint_em.class_prior import ClassPrior
from crowdwise.run.tables.labels import ACCEPT
from crowdwise.trust.gold_design import DESIGN, design_sample, has_design
from crowdwise.trust.gold_sample import GoldSample

Array = np.ndarray[Any, np.dtype[Any]]

MAX_BUDGET = 1000  # answers proposed at most, unless a budget is given
MAX_JOBS = 4  # fits at once, unless n_jobs is given


@dataclass(frozen=True)
class RunOptions:
    """The options of `run`, checked."""

    method: Any = "auto"  # a name, a model, or a sequence of these
    class_prior: ClassPrior = None
    accept: float = ACCEPT
    budget: int | None = None
    folds: int = 5
    time_budget: float | None = None
    seed: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        accept, budget, folds, seconds = self.accept, self.budget, self.folds, self.time_budget
        require(is_number(accept) and 0.5 <= accept < 1, "accept", accept, "a confidence from 0.5 to below 1")
        require(budget is None or is_integer(budget, 1), "budget", budget, "an integer, 1 or more")
        require(is_integer(folds, 2) and folds <= 100, "folds", folds, "an integer from 2 to 100")
        timed = seconds is None or (is_number(seconds) and seconds > 0)
        require(timed, "time_budget", seconds, "a number of seconds above 0")
        require(is_integer(self.seed, 0), "seed", self.seed, "an integer, 0 or more")
        require(self.n_jobs is None or is_integer(self.n_jobs, 1), "n_jobs", self.n_jobs, "an integer, 1 or more")

    def with_defaults(self, data: RunInput) -> RunOptions:
        """Return the options with defaults that depend on the data filled in."""
        budget = min(MAX_BUDGET, max(1, data.answers.n_tasks // 10)) if self.budget is None else self.budget
        n_jobs = self.n_jobs
        if n_jobs is None:
            n_jobs = 1 if data.X is None else min(MAX_JOBS, os.cpu_count() or 1)
        return replace(self, budget=budget, n_jobs=n_jobs)

    def as_config(self) -> dict[str, Any]:
        """Return the options that determine the result, as config.json keeps them."""
        prior: Any = self.class_prior
        if isinstance(prior, Mapping):
            prior = {str(name): float(share) for name, share in prior.items()}
        method = self.method
        if not isinstance(method, str):  # models with other settings are another run
            wanted = requested_methods(method)
            method = [name if name == each else f"{name} {fingerprint(each)}" for name, each in wanted.items()]
        return {"method": method, "accept": self.accept, "budget": self.budget, "folds": self.folds,
                "time_budget": self.time_budget, "class_prior": prior}  # fmt: skip


class RunInput(NamedTuple):
    """The data of a run, checked."""

    answers: Answers  # without truth
    gold: Array | None  # (tasks,) class codes of labels to use, -1 unknown
    truth: Array | None  # (tasks,) class codes to score against, -1 unknown or gold; classes nobody answered come last
    class_names: list[Any]  # of all classes, those that only the truth has included
    X: Features | None
    images: Any
    texts: Sequence[str | None] | Array | None
    seconds: Array | None  # (answers,)
    notes: list[str]  # what was left out while reading
    families: Mapping[Any, Any] | None = None  # of workers, by id
    design: pa.Table | None = None  # how gold tasks were drawn, None if uniformly: `trust.gold_design`

    @property
    def sample(self) -> GoldSample | None:
        """How the gold tasks were drawn."""
        return None if self.gold is None else design_sample(self.answers, np.flatnonzero(self.gold >= 0), self.design)

    def fingerprints(self) -> dict[str, str | None]:
        """Return a fingerprint of each part that the result depends on."""
        texts = None if self.texts is None else list(self.texts)
        parts = {"answers": self.answers, "features": self.X, "truth": self.truth, "texts": texts,
                 "seconds": self.seconds, "images": self.images}  # fmt: skip
        if self.gold is not None:  # runs that were begun before gold was an input can be resumed
            parts["gold"] = self.gold
        if self.design is not None:
            parts["design"] = [str(row) for row in self.design.to_pylist()]
        if self.families is not None:
            parts["families"] = [f"{worker}: {family}" for worker, family in self.families.items()]
        return {name: None if part is None else fingerprint(part) for name, part in parts.items()}


def read_inputs(
    answers: Any, features: Any, images: Any, texts: Any, encode: bool, seconds: Any, gold: Any, truth: Any,
    families: Mapping[Any, Any] | None = None,
) -> RunInput:  # fmt: skip
    """Read and check the data; the parameters are those of `run`."""
    answers = _check_answers(read(answers) if isinstance(answers, (str, os.PathLike)) else as_answers(answers))
    known, notes = None if answers.truth_is_gold else answers.truth, gold_notes(answers)
    fixed, design, answers = read_gold(answers, gold)
    with_truth = replace(answers, truth=known) if truth is None else _with_labels(answers, truth)
    codes = with_truth.truth
    if codes is not None and fixed is not None:
        codes = np.where(fixed >= 0, -1, codes)  # a label that the fit knows is not scored
    if texts is not None:
        require(len(texts) == answers.n_tasks, "texts", f"{len(texts)} texts", f"{answers.n_tasks}, one per task")
    if seconds is not None:
        seconds = np.asarray(seconds, dtype=float)
        fits = seconds.shape == (answers.n_answers,)
        require(fits, "seconds", f"array of shape {seconds.shape}", f"{answers.n_answers} numbers, one per answer")
    pictures = None if images is None else open_images(images, answers)
    X = _features(features, pictures, texts, answers) if encode or features is not None else None
    notes += [f"Left out: {count:,} {why}." for why, count in with_truth.removed.items()]
    names = with_truth.classes.tolist()
    return RunInput(answers, fixed, _if_known(codes), names, X, pictures, texts, seconds, notes, families, design)


def read_gold(answers: Answers, gold: Any) -> tuple[Array | None, pa.Table | None, Answers]:
    """Return gold labels as codes, how their tasks were drawn (`trust.gold_design`), and the answers.

    Parameters
    ----------
    answers : Answers
        Known labels that were marked as gold where they were read are gold, unless `gold` has another label of the
        task. A class that only gold has becomes a class of the answers that are returned, which are without truth.
    gold : as in `run`
    """
    marked, answers = answers.marked_gold, replace(answers, truth=None, truth_is_gold=False)
    if gold is None:
        return marked, None, answers
    design = None
    if isinstance(gold, (str, os.PathLike)):
        design = read_numbers(gold, DESIGN, like=answers)
    elif is_frame(gold):
        gold = to_table(gold)
        missing = next((name for name in ("task", "label") if name not in gold.column_names), None)
        require(missing is None, "gold", gold.column_names, "a table with the columns task and label")
        design, known = gold, gold.filter(gold.column("label").is_valid())
        gold = known.column("task").combine_chunks(), known.column("label").combine_chunks()
    answers = _with_labels(answers, gold)
    codes, answers = answers.truth, replace(answers, truth=None)
    if marked is not None and codes is not None:
        codes = np.where(codes >= 0, codes, marked)
    codes = _if_known(codes)
    return codes, design if codes is not None and has_design(design) else None, answers


def _with_labels(answers: Answers, labels: Any) -> Answers:
    """Return the answers with known labels, from a file or as `Answers.with_truth` takes them."""
    if isinstance(labels, (str, os.PathLike)):
        return attach_truth(answers, labels)
    return answers.with_truth(labels, ignore_unknown=True)


def _if_known(codes: Array | None) -> Array | None:
    """Return the codes if any is known, else None."""
    return None if codes is None or not (codes >= 0).any() else codes


def _check_answers(answers: Answers) -> Answers:
    if answers.n_answers == 0:
        message = "There are no answers."
        raise EmptyError(message)
    if answers.n_classes < 2:
        message = f"All answers are {answers.classes.tolist()[0]!r}: at least two classes are needed."
        raise SingleClassError(message)
    return answers


def open_images(images: Any, answers: Answers) -> Any:
    """Return the images of the tasks; rows follow `answers.tasks`.

    Parameters
    ----------
    images : folder, array of bytes or numbers (tasks, height, width[, channels]), dataset or Pictures
    answers : Answers
    """
    if isinstance(images, np.ndarray) and images.ndim <= 2:
        message = f"images has shape {images.shape}: use (tasks, height, width) or (tasks, height, width, channels)."
        raise FeaturesError(message)
    opened: Any = images if isinstance(images, (Pictures, np.ndarray)) else open_source(images, answers)
    n_rows = len(opened) if isinstance(opened, np.ndarray) else opened.n_rows
    if n_rows != answers.n_tasks:
        message = f"{n_rows:,} images for {answers.n_tasks:,} tasks: give one per task, in the order of answers.tasks."
        raise FeaturesError(message)
    return opened


def _features(features: Any, images: Any, texts: Any, answers: Answers) -> Features | None:
    """Open the features, or encode images or texts with a pretrained network."""
    if features is None and images is not None:
        from crowdwise.learn.features.encoders import encode_images

        features = encode_images(images)
    elif features is None and texts is not None:
        from crowdwise.learn.features.encoders import encode_texts

        features = encode_texts(["" if text is None else text for text in texts])
    return None if features is None else open_features(features, answers)
