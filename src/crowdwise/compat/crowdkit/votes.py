"""crowd-kit's weighted votes over ours: MajorityVote, Wawa, ZeroBasedSkill, GoldMajorityVote, MMSR."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
import pandas as pd

from crowdwise import errors
from crowdwise._core.validation import require
from crowdwise.answers.encoding import preview
from crowdwise.compat.crowdkit._frames import Aggregator, ProbaAggregator, Table, read
from crowdwise.truth.base import Array, vote_shares
from crowdwise.truth.methods import mmsr, wawa, zero_based_skill
from crowdwise.truth.methods.naive_soft import vote_sums


@dataclass(eq=False)
class MajorityVote(ProbaAggregator):
    """The class with the most votes, or with the largest sum of the skills given for the workers.

    Of classes that tie, the first in order wins, as in crowd-kit. Where the skills of a task's workers sum to less than
    zero, crowd-kit's division by that sum turns the vote around; ours divides by its size. Where all are zero, plain
    votes count.

    Parameters
    ----------
    default_skill : float, optional
        Skill of workers who have none, for `on_missing_skill="value"`.
    on_missing_skill : {"error", "ignore", "value"}
        What to do with answers of workers without a skill: refuse them, leave them out, or take the default.

    Examples
    --------
    >>> data = pd.DataFrame({"task": [1, 1, 1], "worker": ["a", "b", "c"], "label": ["x", "x", "y"]})
    >>> MajorityVote().fit_predict(data, skills=pd.Series({"a": 0.1, "b": 0.2, "c": 0.9}))
    task
    1    y
    Name: agg_label, dtype: object
    """

    default_skill: float | None = None
    on_missing_skill: Literal["error", "ignore", "value"] = "error"

    def fit(self, data: pd.DataFrame, skills: pd.Series | None = None) -> Self:
        """Vote; `skills` are indexed by worker."""
        table = read(data)
        if skills is None:
            shares = vote_shares(table.answers)
        else:
            table, skill = self._with_skills(table, skills)
            shares = weighted_shares(table, skill)
        self.probas_, self.labels_ = table.probas(shares), table.labels(shares)
        skill = wawa.agreement_rates(table.answers, wawa.winner_shares(shares, "first"))
        self.skills_ = table.by_worker(skill, "skill")
        return self

    def fit_predict(self, data: pd.DataFrame, skills: pd.Series | None = None) -> pd.Series:
        """Fit and return `labels_`."""
        return self.fit(data, skills).labels_

    def fit_predict_proba(self, data: pd.DataFrame, skills: pd.Series | None = None) -> pd.DataFrame:
        """Fit and return `probas_`."""
        return self.fit(data, skills).probas_

    def _with_skills(self, table: Table, skills: pd.Series) -> tuple[Table, Array]:
        """The answers that count, and the skill of each worker."""
        policy, default = self.on_missing_skill, self.default_skill
        require(policy in ("error", "ignore", "value"), "on_missing_skill", policy, "'error', 'ignore' or 'value'")
        if (policy == "value") != (default is not None):
            message = "default_skill and on_missing_skill='value' go together: give both or neither."
            raise errors.ParameterError(message)
        skill = skills.reindex(table.workers).to_numpy(dtype=float, na_value=np.nan, copy=True)
        unknown = np.isnan(skill)
        if policy == "value":
            skill[unknown] = default
        elif policy == "error" and unknown.any():
            message = (
                f"no skill for worker {preview(table.workers[unknown].tolist())}. Add it to skills, or set "
                f"on_missing_skill to 'ignore' or 'value'."
            )
            raise errors.ParameterError(message)
        elif unknown.any():
            kept = table.data[table.data["worker"].isin(table.workers[~unknown])]
            lost = table.tasks.difference(kept["task"])
            if len(lost):
                message = f"task {preview(lost.tolist())} has no worker of known skill. Add skills, or leave it out."
                raise errors.ParameterError(message)
            table, skill = read(kept), skill[~unknown]
        return table, skill


def weighted_shares(table: Table, skill: Array) -> Array:
    """Sums of skill for each class (tasks, classes), divided by the size of their row's total."""
    answers = table.answers
    sums = vote_sums(answers, skill[answers.worker])
    nothing = ~sums.any(axis=1)
    if nothing.any():
        sums[nothing] = vote_shares(answers)[nothing]
    total = np.abs(sums.sum(axis=1, keepdims=True))
    return np.divide(sums, total, out=sums, where=total > 0)


class SkillVote(ProbaAggregator):
    """`fit` finds the workers' skills; `predict` votes with them, on the same answers or others by the same workers."""

    def predict(self, data: pd.DataFrame) -> pd.Series:
        """Vote with the skills found, and return `labels_`."""
        return self._vote(data).labels_

    def predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Vote with the skills found, and return `probas_`."""
        return self._vote(data).probas_

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit, vote and return `labels_`."""
        return self.fit(data).predict(data)

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit, vote and return `probas_`."""
        return self.fit(data).predict_proba(data)

    def _vote(self, data: pd.DataFrame) -> MajorityVote:
        vote = MajorityVote().fit(data, self.skills_)
        self.labels_, self.probas_ = vote.labels_, vote.probas_
        return vote


@dataclass(eq=False)
class Wawa(SkillVote):
    """Votes weighted by each worker's agreement with the majority: `crowdwise.Wawa` under crowd-kit's names.

    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> Wawa().fit(data).skills_.tolist()
    [1.0, 1.0, 0.5]
    """

    def fit(self, data: pd.DataFrame) -> Self:
        """Find the skills."""
        table = read(data)
        self.skills_ = table.by_worker(wawa.Wawa(ties="first").fit(table.answers).skill_, "skill")
        return self


@dataclass(eq=False)
class ZeroBasedSkill(SkillVote):
    """Votes weighted by skills learned step by step: `crowdwise.ZeroBasedSkill` under crowd-kit's names.

    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> ZeroBasedSkill().fit(data).skills_.tolist()
    [1.0, 1.0, 0.5]
    """

    n_iter: int = 100
    lr_init: float = 1.0
    lr_steps_to_reduce: int = 20
    lr_reduce_factor: float = 0.5
    eps: float = 1e-5

    def fit(self, data: pd.DataFrame) -> Self:
        """Find the skills."""
        table = read(data)
        model = zero_based_skill.ZeroBasedSkill(
            self.n_iter, self.lr_init, self.lr_steps_to_reduce, self.lr_reduce_factor, self.eps, ties="first"
        )
        self.skills_ = table.by_worker(model.fit(table.answers).skill_, "skill")
        return self


@dataclass(eq=False)
class GoldMajorityVote(SkillVote):
    """Votes weighted by each worker's accuracy on tasks of known truth.

    As in crowd-kit, the accuracy is not smoothed, every worker must have answered a known task (`crowdwise.GoldVote`
    does better on both counts), and the vote is not told what is known.

    >>> data = pd.DataFrame({"task": [1, 1, 2, 2], "worker": list("abab"), "label": ["x", "y", "x", "y"]})
    >>> GoldMajorityVote().fit_predict(data, pd.Series({1: "y"})).tolist()
    ['y', 'y']
    """

    def fit(self, data: pd.DataFrame, true_labels: pd.Series) -> Self:  # type: ignore[override]
        """Find the skills on the tasks in `true_labels` (by task)."""
        table = read(data, true_labels)
        answers, (task, label) = table.answers, table.known(true_labels)
        allowed = np.zeros((len(table.tasks), len(table.classes)))
        allowed[task, label] = 1.0  # a task may have several true labels
        asked = np.bincount(answers.worker, np.isin(answers.task, task), len(table.workers))  # (workers,)
        skill = wawa.agreement_sums(answers, allowed) / np.maximum(asked, 1)
        self.skills_ = table.by_worker(skill, "skill", asked > 0)
        return self

    def fit_predict(self, data: pd.DataFrame, true_labels: pd.Series) -> pd.Series:  # type: ignore[override]
        """Fit, vote and return `labels_`."""
        return self.fit(data, true_labels).predict(data)

    def fit_predict_proba(  # type: ignore[override]
        self, data: pd.DataFrame, true_labels: pd.Series
    ) -> pd.DataFrame:
        """Fit, vote and return `probas_`."""
        return self.fit(data, true_labels).predict_proba(data)


@dataclass(eq=False)
class MMSR(Aggregator):
    """`crowdwise.MMSR` under crowd-kit's names: skills from who agrees with whom, robust to adversaries.

    The estimator is another one than crowd-kit's: ours finds the signs of the skills before their sizes and weighs
    pairs of workers by how much they tell (`crowdwise.truth.methods.mmsr` says why), so skills are close, not equal.
    It also needs no random start, and no matrix of all pairs of workers. `random_state` is taken and ignored.

    Parameters
    ----------
    n_iter, tol
        Rounds at most, and the relative change of the skills that ends them; `loss_history_` holds it.

    Attributes
    ----------
    skills_ : Series by worker
        Weight of the worker's vote: the log odds of a right answer, below zero for adversaries.
    scores_ : DataFrame
        Sums of these weights, divided by the size of their row's total as in `MajorityVote`.

    Examples
    --------
    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyx")})
    >>> MMSR().fit_predict(data).tolist()
    ['x', 'y']
    """

    n_iter: int = 10000
    tol: float = 1e-10
    random_state: int | None = 0

    scores_: pd.DataFrame = field(init=False, repr=False)

    def fit(self, data: pd.DataFrame) -> Self:
        """Find the skills."""
        table = read(data)
        model = mmsr.MMSR(max_iter=self.n_iter, tol=self.tol).fit(table.answers)
        odds = max(len(table.classes) - 1, 1) * model.accuracy_ / (1 - model.accuracy_)
        self.skills_ = table.by_worker(np.log(odds), "skill", table.worker_ids.seen)
        self.loss_history_ = model.history_
        return self

    def predict(self, data: pd.DataFrame) -> pd.Series:
        """Vote with the skills found, and return `labels_`."""
        self.predict_score(data)
        return self.labels_

    def predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Vote with the skills found, and return `scores_`."""
        vote = MajorityVote().fit(data, self.skills_)
        self.labels_, self.scores_ = vote.labels_, vote.probas_
        return self.scores_

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit, vote and return `labels_`."""
        return self.fit(data).predict(data)

    def fit_predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit, vote and return `scores_`."""
        return self.fit(data).predict_score(data)
