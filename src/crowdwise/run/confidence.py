"""How far the labels of a run may be believed, whatever method they come from.

Without features, the confidence of a label is learned from other crowds (`trust.calibrator`): it depends on what eight
methods together say about the label, and on how far the workers of this crowd agree beyond their accuracies. With
features, a learner's confidence is calibrated on held-out answers (`choose.temperature`). If workers appear to share
mistakes, it is no higher than what other crowds suggest, since held-out answers repeat shared mistakes.

Gold decides between methods. The pool's labels and confidence are anchored to it (`trust.gold_anchor`), and the
confidence of any other method is rescaled. Both rest on predictions of fits that did not know the label
(`trust.gold_folds`). A gold task has its gold label with probability 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.choose import Choice
from crowdwise.choose.candidates import POOL
from crowdwise.errors import CrowdwiseError, EmptyError
from crowdwise.evaluate import vote_belief
from crowdwise.run.tables.labels import Labelling
from crowdwise.trust import Dependence, Scaling, dependence
from crowdwise.trust.calibrator import label_confidence
from crowdwise.trust.features import Inputs, inputs
from crowdwise.trust.gold_anchor import Anchored, anchor
from crowdwise.trust.gold_sample import GoldSample
from crowdwise.trust.shared_errors import COPIES
from crowdwise.trust.tempering import temper_to
from crowdwise.truth.base import Array, TruthModel, fix_gold
from crowdwise.truth.methods.majority_vote import MajorityVote
from crowdwise.truth.methods.pool import Pool

STRONG = 0.1  # dependence from which workers appear to share mistakes
FEW_VOTES = 0.6  # so do families that leave answers worth fewer independent votes than this each


@dataclass(frozen=True)
class Evidence:
    """What the answers of this crowd say about confidence; None where there are too many answers to say it."""

    dependence: Dependence | None
    pool: Pool | None = None
    values: Inputs | None = None

    @property
    def is_strong(self) -> bool:
        """Whether workers appear to share mistakes."""
        found, values = self.dependence, self.values
        families = found is not None and bool(found.families) and found.votes_per_answer < FEW_VOTES
        return values is not None and (values.dependence > STRONG or families)

    def with_pool(self, pool: Pool | None, cautious: Pool | None = None) -> Evidence:
        """Return the evidence with a fitted pool, and with one in which families count as their effective votes."""
        return self if pool is None else replace(self, pool=pool, values=inputs(pool, cautious))


def measure_dependence(
    answers: Answers, gold: Array | None, sample: GoldSample | None, families: Mapping[Any, Any] | None, seed: int
) -> tuple[Dependence | None, str | None]:
    """Return how far workers make the same mistakes, or None and the reason; `sample` is how gold was drawn."""
    known, weight = None, None
    if gold is not None and sample is not None and (gold >= 0).sum() >= 100:  # fewer say little about pairs of workers
        known = fix_gold(np.zeros((answers.n_tasks, answers.n_classes)), gold)
        weight = np.ones(answers.n_tasks)
        weight[gold >= 0] = sample.weight * len(sample.weight)
    try:
        return dependence(answers, known, families=families, weight=weight, seed=seed), None
    except CrowdwiseError as error:
        if families is not None and not isinstance(error, EmptyError):
            raise
        return None, f"Whether workers make the same mistakes was not measured: {error}"


def find_copies(found: Dependence | None) -> list[Array]:
    """Return groups of workers, as codes, who give identical answers or make nearly all mistakes together."""
    if found is None:
        return []
    taken = np.isin(np.arange(len(found.worker_family)), [worker for group in found.copies for worker in group])
    members = [np.flatnonzero(found.worker_family == number) for number in range(len(found.families))]
    near = [
        group
        for group, family in zip(members, found.families, strict=True)
        if family.rho >= COPIES and not taken[group].any()
    ]
    return [*found.copies, *near]


def make_labelling(
    name: str, model: Any, answers: Answers, choice: Choice | None, evidence: Evidence, gold: Array | None = None,
    scaling: Scaling | None = None,
) -> Labelling:  # fmt: skip
    """Return the labels of a fitted model, with calibrated probabilities.

    Parameters
    ----------
    name, model : str, fitted model
        The method.
    answers : Answers
        Those of the run.
    choice : Choice, optional
        The comparison on held-out answers.
    evidence : Evidence
        From the same answers and gold as the model.
    gold : (tasks,) int array, optional
        Codes of known labels, -1 unknown.
    scaling : Scaling, optional
        Of the confidence, learned from gold.
    """
    codes, proba = np.asarray(model.codes_), _proba(name, model, choice, evidence)
    confidence = proba[np.arange(len(codes)), codes]
    if evidence.pool is not None and evidence.values is not None:
        believed, _ = label_confidence(evidence.values.for_labels(codes))
        if isinstance(model, TruthModel):
            confidence = believed
        elif evidence.is_strong and scaling is None:
            confidence = np.minimum(confidence, believed)
    if scaling is not None:
        confidence = np.where(np.diff(answers.task_starts) > 0, scaling(confidence), confidence)
    proba = fix_gold(temper_to(proba, codes, confidence), gold)
    return Labelling(answers, proba, codes if gold is None else np.where(gold >= 0, gold, codes))


def anchor_pool(
    pool: Pool, answers: Answers, evidence: Evidence, gold: Array, weight: Array | None, seed: int = 0
) -> tuple[Labelling, Anchored]:
    """Return the labels of a pool that was fitted without gold, anchored to it, and what gold changed.

    `weight` (gold tasks,) is that of tasks that were not drawn uniformly; `seed` that of the folds.
    """
    before = make_labelling(POOL, pool, answers, None, evidence)
    found = anchor(pool.answers_, before.proba, before.codes, gold, weight, seed=seed)
    return Labelling(answers, found.proba, found.codes), found


def _proba(name: str, model: Any, choice: Choice | None, evidence: Evidence) -> Array:
    """Return the model's probabilities, calibrated on held-out answers if nothing better is known."""
    if evidence.pool is not None and isinstance(model, TruthModel):
        return np.asarray(model.proba_, dtype=float)
    if choice is None and isinstance(model, MajorityVote):  # shares of few votes would be far too confident
        return np.asarray(vote_belief(model.answers_, 1.0), dtype=float)
    return np.asarray(model.proba_ if choice is None else choice.calibrated(name, model), dtype=float)
