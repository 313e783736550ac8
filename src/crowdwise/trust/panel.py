"""A panel of workers, such as language models as judges: who is how good, who shares mistakes, whom it can lose.

    accuracy of a worker, class shares     `estimates.estimate`, from gold and answers together, with intervals
    families, pairs, effective votes       `shared_errors.dependence`
    who may replace a person               `alternative_annotator`, if some of the workers are people
    who can be dropped                     `redundancy`
    agreement                              share of a worker's answers that the vote of the others names; ties count as
                                           one over the number of classes that tie

The labels of the panel are those of the vote, in which families that the user names, and near copies, count as their
effective votes. Gold is not used to label here, only to measure; with `crowdwise run` it does both.

Without gold, agreement is all that is known of a worker: it is high for a worker who makes everybody's mistakes, and
low for the only one who is right. Accuracies are then not given.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise._core.display import NOTHING, html_table, percent
from crowdwise._core.frames import convert
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers, as_answers
from crowdwise.errors import ConvergenceWarning, CrowdwiseError, EmptyError, SingleClassError
from crowdwise.trust.alternative_annotator import AlternativeAnnotatorTest, alternative_annotator_test
from crowdwise.trust.estimates import TrustEstimates, estimate
from crowdwise.trust.gold_design import design_sample
from crowdwise.trust.ppi import MIN_GOLD, IntervalEstimate, Population
from crowdwise.trust.redundancy import PanelVote, Removal, find_droppable
from crowdwise.trust.shared_errors import Dependence, dependence
from crowdwise.truth.base import Array, fix_gold
from crowdwise.truth.methods.dawid_skene import DawidSkene
from crowdwise.truth.methods.majority_vote import MajorityVote

GOLD_FOR_PAIRS = 100  # gold labels from which they are used to measure shared mistakes


@dataclass(frozen=True)
class Member:
    """A worker of a panel.

    Attributes
    ----------
    worker : id
    family : str or None
        Name of their family: as given, or F1, F2, ... for families that were found.
    answers, abstentions : int
        Tasks that they answered, and tasks on which they gave no usable answer.
    agreement : float or None
        Share of their answers that the vote of the others names; None if nobody else answered their tasks.
    accuracy : IntervalEstimate or None
        Share of right answers, from gold; None with too little gold.
    without : Removal or None
        What happens to the labels without them.
    """

    worker: Any
    family: str | None
    answers: int
    abstentions: int
    agreement: float | None
    accuracy: IntervalEstimate | None
    without: Removal | None


@dataclass(frozen=True, repr=False)
class Panel:
    """What `panel` returns.

    Attributes
    ----------
    members : tuple of Member
        The best first: by accuracy if there is gold, otherwise by agreement.
    dependence : Dependence or None
        Families, pairs and effective votes; None if they could not be measured.
    estimates : TrustEstimates or None
        Accuracy of the vote, class shares and accuracies; None without gold.
    vote_shares : dict of class to float
        Share of each class among the labels of the vote, not corrected.
    tests : tuple of AlternativeAnnotatorTest
        Of every worker who is not a person, if people were named; the best first.
    droppable : Removal or None
        The most workers that can be dropped together without losing more than `tolerance`.
    tolerance : float
    n_gold : int
    notes : list of str
        What could not be computed, and why.
    """

    members: tuple[Member, ...]
    dependence: Dependence | None
    estimates: TrustEstimates | None
    vote_shares: dict[Any, float]
    tests: tuple[AlternativeAnnotatorTest, ...]
    droppable: Removal | None
    tolerance: float
    n_gold: int
    notes: list[str] = field(default_factory=list)

    def to_arrow(self) -> pa.Table:
        """Return one row per worker."""
        dropped = () if self.droppable is None else self.droppable.workers
        tests = {each.candidate: each for each in self.tests}
        rows = []
        for each in self.members:
            accuracy, without, test = each.accuracy, each.without, tests.get(each.worker)
            gain = None if without is None else without.gain
            rows.append(
                {
                    "worker": each.worker,
                    "family": each.family,
                    "answers": each.answers,
                    "abstentions": each.abstentions,
                    "agreement": each.agreement,
                    "accuracy": None if accuracy is None else accuracy.value,
                    "accuracy_low": None if accuracy is None else accuracy.low,
                    "accuracy_high": None if accuracy is None else accuracy.high,
                    "gold_answers": None if accuracy is None else accuracy.n_gold,
                    "changed_without": None if without is None else without.changed,
                    "votes_without": None if without is None else without.effective_votes,
                    "gain_without": None if gain is None else gain.value,
                    "gain_low": None if without is None else without.low,
                    "gain_high": None if without is None else without.high,
                    "drop": each.worker in dropped,
                    "may_replace": None if test is None else test.passed,
                    "winning_rate": None if test is None else test.winning_rate,
                    "advantage": None if test is None else test.advantage,
                }
            )
        kinds = {"worker": None, "family": pa.string(), "answers": pa.int64(), "abstentions": pa.int64(),
                 "gold_answers": pa.int64(), "drop": pa.bool_(), "may_replace": pa.bool_()}  # fmt: skip
        return pa.table(
            {name: pa.array([row[name] for row in rows], kinds.get(name, pa.float64())) for name in rows[0]}
        )

    def to_pandas(self) -> Any:
        """Return the same as a pandas data frame."""
        return convert(self.to_arrow(), "pandas")

    def to_polars(self) -> Any:
        """Return the same as a polars data frame."""
        return convert(self.to_arrow(), "polars")

    def __str__(self) -> str:
        lines = [] if self.dependence is None else [self.dependence.summary()]
        for each in self.members:
            known = f"accuracy {each.accuracy}" if each.accuracy is not None else ""
            agrees = "" if each.agreement is None else f"agrees with {each.agreement:.0%} of the others' votes"
            lines.append(f"{each.worker}: {known or agrees or 'no answers in common with others'}")
        lines += [str(each) for each in self.tests]
        if self.droppable is not None:
            lines.append(f"Can be dropped together: {', '.join(map(str, self.droppable.workers))}")
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        header = ["worker", "family", "answers", "agrees", "accuracy", "95% interval", "may be dropped"]
        dropped = () if self.droppable is None else self.droppable.workers
        rows = [
            [each.worker, each.family or "", f"{each.answers:,}", percent(each.agreement),
             *((NOTHING, NOTHING) if (found := each.accuracy) is None else
               (percent(found.value), f"{percent(found.low)} to {percent(found.high)}")),
             "yes" if each.worker in dropped else ""]
            for each in self.members
        ]  # fmt: skip
        words = [] if self.dependence is None else self.dependence.summary().splitlines()
        return html_table(rows, header, [*words, *map(str, self.tests), *self.notes])


def panel(
    answers: Any,
    gold: Any = None,
    *,
    families: Mapping[Any, Any] | Sequence[Any] | None = None,
    people: Iterable[Any] = (),
    epsilon: float = 0.1,
    tolerance: float = 0.02,
    alpha: float = 0.05,
    design: pa.Table | None = None,
    population: Population = "source",
    seed: int = 0,
) -> Panel:
    """Describe a panel: the accuracy of each worker, shared mistakes, effective votes, class shares, whom to drop.

    Parameters
    ----------
    answers : Answers or data frame
    gold : mapping of task to class, or codes in task order (-1 unknown), optional
        Known labels of a random sample of the tasks, for intervals at least `ppi.MIN_GOLD`. The default is the truth of
        `answers`: here, gold is only used to measure.
    families : mapping or sequence, optional
        Known families, as in `dependence`; found by default.
    people : worker ids, optional
        The workers who are people. Every other worker is tested against them.
    epsilon : float
        How far a worker may fall behind a person, as in `alternative_annotator_test`.
    tolerance : float
        Accuracy of the labels that may be lost by dropping workers.
    alpha : float
        One minus the confidence level of each interval.
    design : pyarrow.Table, optional
        How the gold tasks were drawn, if by `plan_gold`.
    population : {"source", "tasks"}
        Whether intervals are about tasks like these, or about exactly these.
    seed : int
        Random seed.

    Returns
    -------
    Panel

    Examples
    --------
    >>> from crowdwise import simulate
    >>> from crowdwise.trust import panel
    >>> answers = simulate.simulate(400, n_workers=5, n_classes=2, answers_per_task=5, seed=1)
    >>> found = panel(answers.with_truth(None), {t: int(answers.truth[t]) for t in range(100)})
    >>> best = found.members[0]
    >>> best.worker, f"{best.accuracy.value:.2f}, {best.accuracy.low:.2f} to {best.accuracy.high:.2f}"
    (0, '0.88, 0.80 to 0.93')
    >>> found.droppable is None
    True
    """
    require(is_number(tolerance) and 0 <= tolerance < 1, "tolerance", tolerance, "a share from 0 to below 1")
    require(is_integer(seed, 0), "seed", seed, "an integer, 0 or more")
    answers = as_answers(answers)
    _check(answers)
    people, notes = list(people), []
    known = answers.truth if gold is None else answers.codes_of_truth(gold)
    answers = replace(answers, truth=None, truth_is_gold=False)
    n_gold = 0 if known is None else int((known >= 0).sum())
    found, reason = _shared_mistakes(answers, known, design, families, seed)
    notes += [] if reason is None else [reason]
    vote = None if found is None else PanelVote(answers, found, named=families is not None)
    counted = answers if vote is None else replace(answers, weight=vote.weights([]))
    labels = MajorityVote(random_state=seed).fit(counted)
    estimates = None
    if known is not None and n_gold >= MIN_GOLD:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            proba = DawidSkene().fit(counted).proba_
        estimates = estimate(labels, known, proba=proba, alpha=alpha, design=design, population=population)
    elif n_gold:
        notes.append(f"{n_gold} gold labels are too few for intervals; label at least {MIN_GOLD} random tasks.")
    droppable, without = None, {}
    if vote is not None:
        vote.estimates = estimates
        if vote.is_small:
            without = {code: vote.removal([code]) for code in range(answers.n_workers)}
            droppable = find_droppable(vote, tolerance)
        else:
            notes.append("Whom the panel can lose was not computed: there are too many workers and answers.")
    members = _members(answers, found, _family_names(answers, found, families), estimates, without)
    tests = _tests(answers, people, epsilon, alpha, notes)
    share = np.bincount(labels.codes_, minlength=answers.n_classes) / max(answers.n_tasks, 1)
    shares = dict(zip(answers.class_ids.to_pylist(), share.tolist(), strict=True))
    return Panel(members, found, estimates, shares, tests, droppable, tolerance, n_gold, notes)


def _check(answers: Answers) -> None:
    if answers.n_answers == 0:
        message = "There are no answers."
        raise EmptyError(message)
    if answers.n_classes < 2:
        message = f"All answers are {answers.classes.tolist()[0]!r}: at least two classes are needed."
        raise SingleClassError(message)


def _shared_mistakes(
    answers: Answers, known: Array | None, design: pa.Table | None, families: Any, seed: int
) -> tuple[Dependence | None, str | None]:
    """Return what `dependence` finds, or None and the reason."""
    proba, weight = None, None
    if known is not None and (known >= 0).sum() >= GOLD_FOR_PAIRS:
        sample = design_sample(answers, np.flatnonzero(known >= 0), design)
        proba, weight = fix_gold(np.zeros((answers.n_tasks, answers.n_classes)), known), np.ones(answers.n_tasks)
        weight[known >= 0] = sample.weight * len(sample.weight)
    try:
        return dependence(answers, proba, families=families, weight=weight, seed=seed), None
    except CrowdwiseError as error:
        if families is not None and not isinstance(error, EmptyError):
            raise
        return None, f"Whether workers make the same mistakes was not measured: {error}"


def _family_names(answers: Answers, found: Dependence | None, families: Any) -> list[str | None]:
    """Return the name of each worker's family: as the user gave it, or F1, F2, ... if it was found."""
    if families is not None:
        ids = answers.worker_ids.to_pylist()
        named = [families.get(worker) for worker in ids] if isinstance(families, Mapping) else list(families)
        return [None if name is None else str(name) for name in named]
    numbers = [-1] * answers.n_workers if found is None else found.worker_family.tolist()
    return [None if number < 0 else f"F{number + 1}" for number in numbers]


def _members(
    answers: Answers, found: Dependence | None, family: list[str | None], estimates: TrustEstimates | None,
    without: Mapping[int, Removal],
) -> tuple[Member, ...]:  # fmt: skip
    """Return the workers, the best first; those who only abstained come last."""
    k, members = answers.n_classes, []
    votes = np.bincount(answers.task.astype(np.int64) * k + answers.label, minlength=answers.n_tasks * k).reshape(-1, k)
    accuracy = {} if estimates is None else estimates.workers
    abstentions = dict(answers.abstentions)
    for code, worker in enumerate(answers.worker_ids.to_pylist()):
        own = answers.by_worker[answers.worker_starts[code] : answers.worker_starts[code + 1]]
        task, label = answers.task[own], answers.label[own]
        others = votes[task]  # (own answers, classes), a copy
        others[np.arange(len(own)), label] -= 1
        top = others == others.max(axis=1, keepdims=True)
        shared = others.sum(axis=1) > 0
        agrees = (top / top.sum(axis=1, keepdims=True))[np.arange(len(own)), label][shared]
        members.append(
            Member(
                worker, family[code], len(own), abstentions.pop(worker, 0),
                float(agrees.mean()) if shared.any() else None, accuracy.get(worker), without.get(code),
            )
        )  # fmt: skip
    members.sort(key=_goodness)
    return (*members, *(Member(worker, None, 0, count, None, None, None) for worker, count in abstentions.items()))


def _goodness(each: Member) -> tuple[bool, float, bool, float]:
    """Return the key that sorts the best first."""
    accuracy, agreement = each.accuracy, each.agreement
    return (accuracy is None, 0.0 if accuracy is None else -accuracy.value, agreement is None, -(agreement or 0.0))


def _tests(
    answers: Answers, people: list[Any], epsilon: float, alpha: float, notes: list[str]
) -> tuple[AlternativeAnnotatorTest, ...]:
    """Test every worker who is not a person; the best first. What cannot be tested goes to the notes."""
    if not people:
        return ()
    tests = []
    for worker in answers.worker_ids.to_pylist():
        if worker not in people:
            try:
                tests.append(alternative_annotator_test(answers, worker, people, epsilon=epsilon, alpha=alpha))
            except EmptyError as error:
                notes.append(f"Not tested against people: {error}")
    return tuple(sorted(tests, key=lambda each: (-each.winning_rate, -each.advantage)))
