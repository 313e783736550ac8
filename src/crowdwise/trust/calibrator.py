"""Confidence learned from crowds whose truth is known: how often a label with this evidence was right elsewhere.

    score[t]      = bias + slope method_log_odds[t] + shared dependence               t = task; `trust.features`
    confidence[t] = sigmoid(caution score[t])
    caution       = 1 / (1 + max(0, distance / radius - 1) + max(0, log10(100 / tasks)) / 2 + `ALONE` if all tasks
                    have one answer)
    distance      = distance of this crowd's inputs to those of the nearest crowd learned from, in standard deviations

Shared mistakes cannot be seen in the answers of one crowd, but crowds resemble each other. The calibrator is a table of
three numbers, `calibrator.json`, trained by `python -m benchmarks trust --train` on the real crowds it lists, which
count the same whatever their size. `shared` is negative: labels of a crowd whose workers agree beyond their accuracies
are believed less. Boosted trees and more inputs were no better on crowds left out of the training
(benchmarks/notes/trust_protocol.md). `radius` is the largest distance between a learned crowd and its nearest
neighbour. A crowd further away is unlike all of them: its confidences move towards one half, and a note says so. So do
those of crowds with fewer than 100 answered tasks, which is less than any crowd learned from has: methods fitted to few
tasks are too confident. With one answer per task there is no agreement to learn from: one answer each, drawn from 11 of
the crowds, was right in 68 % of the tasks, where 76 % were promised without `ALONE`.

With gold, the methods are fitted without it, and labels and confidence are anchored to it afterwards
(`trust.gold_anchor`). Each gold task has its gold label with probability 1.

The probabilities of a task are the pool's, tempered (one temperature per task) until the label's is the confidence:
the order of classes never changes.

Fails on crowds whose workers share mistakes more than in any crowd learned from, such as panels of similar LLM judges:
without gold nothing in the answers shows it. Nineteen crowds are few; treat the confidence as honest on average over
crowds, not on each one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from crowdwise.answers import Answers, as_answers
from crowdwise.errors import CrowdwiseError, FormatError
from crowdwise.trust.features import CROWD_INPUTS, Inputs, inputs
from crowdwise.trust.gold_anchor import Anchored, anchor
from crowdwise.trust.independent_votes import cautious_votes, independent_votes
from crowdwise.trust.shared_errors import Dependence, dependence
from crowdwise.trust.tempering import temper_to
from crowdwise.truth.base import Array
from crowdwise.truth.methods.pool import Pool

FORMAT = 1  # of the file; other formats are rejected
TABLE = Path(__file__).with_name("calibrator.json")
DEPENDENT = 0.1  # dependence above which the notes mention it
FEW_GOLD = 30
FEW_TASKS = 100  # the smallest crowd learned from has 108
ALONE = 0.5  # caution for answers that no other answer confirms


@dataclass(frozen=True, eq=False)
class Calibrator:
    """The table: numbers, their version, and the crowds they were learned from."""

    version: str
    bias: float
    slope: float
    shared: float
    crowds: list[str]
    crowd_inputs: Array  # (crowds, crowd inputs)

    def distance(self, crowd: Array) -> float:
        """Return the distance of a crowd to the nearest crowd learned from, divided by the radius; below 1 is near."""
        spread = np.maximum(self.crowd_inputs.std(axis=0), 1e-6)
        points = self.crowd_inputs / spread  # (crowds, crowd inputs)
        between = np.linalg.norm(points[:, None] - points[None], axis=2) + np.diag(np.full(len(points), np.inf))
        radius = between.min(axis=1).max()
        return float(np.linalg.norm(points - crowd / spread, axis=1).min() / radius)

    def confidence(self, values: Inputs) -> tuple[Array, float]:
        """Return the confidence (tasks,) and the relative distance of the crowd."""
        distance = self.distance(values.crowd)
        score = self.bias + self.slope * values.method_log_odds + self.shared * values.dependence
        few = max(0.0, np.log10(FEW_TASKS / max(values.answered.sum(), 1)) / 2)
        alone = ALONE if is_alone(values) else 0.0
        return expit(score / (1 + max(0.0, distance - 1) + few + alone)), distance

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of the file."""
        return {
            "format": FORMAT,
            "version": self.version,
            "inputs": list(CROWD_INPUTS),
            "bias": self.bias,
            "slope": self.slope,
            "shared": self.shared,
            "crowds": dict(zip(self.crowds, self.crowd_inputs.tolist(), strict=True)),
        }

    @classmethod
    def from_dict(cls, content: Any, source: str = "the calibrator") -> Calibrator:
        """Check and build a table read from JSON; `source` is named in errors."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else type(content).__name__
            message = f"{source} has format {found!r}; this version of crowdwise reads format {FORMAT}."
            raise FormatError(message)
        if content.get("inputs") != list(CROWD_INPUTS):
            message = f"{source} takes other inputs than this version of crowdwise computes; train it again."
            raise FormatError(message)
        try:
            bias, slope, shared = (float(content[name]) for name in ("bias", "slope", "shared"))
            crowds = {str(name): [float(x) for x in row] for name, row in content["crowds"].items()}
            points = np.array(list(crowds.values())).reshape(len(crowds), len(CROWD_INPUTS))
            table = cls(str(content["version"]), bias, slope, shared, list(crowds), points)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"{source} is damaged: {error!r}. Reinstall crowdwise, or train it again."
            raise FormatError(message) from None
        finite = np.isfinite(points).all() and np.isfinite([bias, slope, shared]).all()
        if len(crowds) < 2 or not finite or slope <= 0:
            message = f"{source} is damaged: it needs two crowds or more, finite numbers and a slope above 0."
            raise FormatError(message)
        return table

    @classmethod
    def read(cls, path: Path = TABLE) -> Calibrator:
        """Read a table; the shipped one by default."""
        return cls.from_dict(json.loads(path.read_text(encoding="utf-8")), str(path))


def is_alone(values: Inputs) -> bool:
    """Return whether no task has two answers."""
    return bool(values.crowd[CROWD_INPUTS.index("answers")] == 0)


@cache
def shipped() -> Calibrator:
    """Return the shipped calibrator."""
    return Calibrator.read()


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Labels with calibrated confidence."""

    answers: Answers
    codes: Array  # (tasks,)
    proba: Array  # (tasks, classes)
    pool: Pool
    cautious: Pool | None  # families count as their effective votes; None without families
    inputs: Inputs
    distance: float  # to the nearest crowd learned from; above 1 is unlike all of them
    anchored: Anchored | None  # what gold changed
    notes: list[str] = field(default_factory=list)

    @property
    def labels(self) -> Array:
        """The class of each task."""
        return self.answers.classes[self.codes]

    @property
    def confidence(self) -> Array:
        """Probability (tasks,) that each label is right."""
        return self.proba[np.arange(len(self.codes)), self.codes]


def calibrated(
    answers: Any,
    gold: Any = None,
    *,
    calibrator: Calibrator | None = None,
    pools: tuple[Pool, Pool | None] | None = None,
) -> Calibrated:
    """Label each task by a pool of methods, with confidence learned from other crowds and, if given, from gold.

    Parameters
    ----------
    answers : Answers or data frame
        The workers' answers.
    gold : mapping of task to class, or codes in task order (-1 unknown), optional
        Known labels: the labels of their tasks, and evidence about the confidence of all others.
    calibrator : Calibrator, optional
        Another table than the shipped one.
    pools : tuple of Pool and Pool or None, optional
        What `trust.calibrator.fit_pools` returns for these answers; fitted here by default.

    Returns
    -------
    Calibrated
        With `labels`, `proba`, `confidence`, and `notes` on what the confidence rests on.

    Examples
    --------
    >>> import crowdwise as cw
    >>> from crowdwise.trust import calibrated
    >>> answers = cw.simulate.simulate(200, n_workers=12, n_classes=3, answers_per_task=5, seed=1)
    >>> result = calibrated(answers, gold={0: 2, 1: 0})
    >>> result.labels[:2].tolist(), result.confidence[:2].tolist()
    ([2, 0], [1.0, 1.0])
    """
    answers, table = as_answers(answers), shipped() if calibrator is None else calibrator
    known = None if gold is None else answers.codes_of_truth(gold)
    if known is not None and not (known >= 0).any():
        known = None
    pool, cautious = fit_pools(answers, measure(answers)) if pools is None else pools
    values = inputs(pool, cautious)
    confidence, distance = label_confidence(values, table)
    codes, proba = pool.codes_, temper_to(pool.proba_, pool.codes_, confidence)
    anchored = None if known is None else anchor(pool.answers_, proba, codes, known)
    if anchored is not None:
        codes, proba = anchored.codes, anchored.proba
    notes = confidence_notes(answers, values, distance, 0 if anchored is None else anchored.n_gold, table)
    return Calibrated(answers, codes, proba, pool, cautious, values, distance, anchored, notes)


def measure(answers: Answers) -> Dependence | None:
    """Return how far workers make the same mistakes; None with too many workers, or without any disagreement."""
    try:
        return dependence(answers)
    except CrowdwiseError:
        return None


def fit_pools(
    answers: Answers, found: Dependence | None, *, named: bool = False, random_state: int = 0
) -> tuple[Pool, Pool | None]:
    """Return the pool that labels the tasks and, if workers form families, the one that limits its confidence.

    Parameters
    ----------
    answers : Answers
    found : Dependence or None
        Of these workers.
    named : bool
        Whether the user named the families. Then they count as their effective votes in the first pool.
    random_state : int
    """
    pool = Pool(random_state=random_state).fit(independent_votes(answers, found, named=named))
    votes = None if named else cautious_votes(answers, found)
    return pool, None if votes is None else Pool(random_state=random_state).fit(votes)


def label_confidence(values: Inputs, table: Calibrator | None = None) -> tuple[Array, float]:
    """Return the confidence (tasks,) in labels with these inputs, and the relative distance of the crowd.

    The label of a task without answers is a guess: its confidence is one in the number of classes.
    """
    confidence, distance = (shipped() if table is None else table).confidence(values)
    n_classes = np.exp(values.crowd[CROWD_INPUTS.index("classes")])
    return np.where(values.answered, confidence, 1 / n_classes), distance


def confidence_notes(
    answers: Answers, values: Inputs, distance: float, n_gold: int, table: Calibrator | None = None
) -> list[str]:
    """Return what a reader of the confidences should know."""
    table = shipped() if table is None else table
    notes = []
    if not n_gold:
        notes.append(
            f"Confidence was learned from {len(table.crowds)} other crowds (table {table.version}), not from this one. "
            f"It is honest on average over crowds; about 50 gold labels would check it here."
        )
    else:
        notes.append(f"Confidence was checked against {n_gold} gold labels and rescaled to match them.")
        if n_gold < FEW_GOLD:
            notes.append(f"{n_gold} gold labels are few: about 50 are needed to check the confidence.")
    if distance > 1:
        notes.append(
            f"This crowd is unlike all crowds the confidence was learned from (distance {distance:.1f}; up to 1 is "
            f"usual), so confidences were lowered. Gold labels would settle how far labels can be trusted."
        )
    n_tasks = int(values.answered.sum())
    if n_tasks < FEW_TASKS:
        notes.append(
            f"Only {n_tasks} tasks have answers. Methods fitted to fewer than {FEW_TASKS} tasks are too confident, so "
            f"confidences were lowered."
        )
    if is_alone(values):
        notes.append(
            "No task has answers from two workers, so nothing shows how good the answers are: confidences are a guess."
        )
    if len(answers.classes) == 1:
        notes.append("All answers name the same class. No other label is possible, so a confidence of 1 says nothing.")
    if values.dependence > DEPENDENT:
        notes.append(
            f"Workers agree more than their accuracies explain (residual correlation {values.dependence:.2f}). They "
            f"may make the same mistakes, which more answers from the same workers do not correct."
        )
    if not values.answered.all():
        notes.append(f"{int((~values.answered).sum())} tasks have no answers; their labels are guesses.")
    return notes
