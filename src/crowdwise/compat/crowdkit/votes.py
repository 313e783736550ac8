"""crowd-kit's weighted votes: MajorityVote, Wawa, ZeroBasedSkill, GoldMajorityVote, MMSR."""

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
    """The class with the most votes, or with the largest sum of the workers' skills.

    Ties go to the first class, as in crowd-kit. If the skills of a task's workers have a negative sum, crowd-kit's
    division by that sum reverses the vote; ours divides by its absolute value. If all skills are zero, votes are
    unweighted.

    Parameters
    ----------
    default_skill : float, optional
        Skill of workers without one, for `on_missing_skill="value"`.
    on_missing_skill : {"error", "ignore", "value"}
        What to do with answers of workers without a skill: raise an error, ignore them, or use the default.

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
        """Return the answers to use, and the skill of each worker."""
        policy, default = self.on_missing_skill, self.default_skill
        require(policy in ("error", "ignore", "value"), "on_missing_skill", policy, "'error', 'ignore' or 'value'")
        if (policy == "value") != (default is not None):
            message = "default_skill and on_missing_skill='value' go together: pass both or neither."
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
            usable = table.data[table.data["worker"].isin(table.workers[~unknown])]
            unanswered = table.tasks.difference(usable["task"])
            if len(unanswered):
                message = (
                    f"task {preview(unanswered.tolist())} has no worker of known skill. Add skills, or drop the task."
                )
                raise errors.ParameterError(message)
            table, skill = read(usable), skill[~unknown]
        return table, skill


def weighted_shares(table: Table, skill: Array) -> Array:
    """Return sums of skill per class (tasks, classes), divided by the absolute total of their row."""
    answers = table.answers
    sums = vote_sums(answers, skill[answers.worker])
    all_zero = ~sums.any(axis=1)
    if all_zero.any():
        sums[all_zero] = vote_shares(answers)[all_zero]
    total = np.abs(sums.sum(axis=1, keepdims=True))
    return np.divide(sums, total, out=sums, where=total > 0)


class SkillVote(ProbaAggregator):
    """`fit` estimates the workers' skills; `predict` votes with them, on these or other answers of the same workers."""

    def predict(self, data: pd.DataFrame) -> pd.Series:
        """Vote with the estimated skills, and return `labels_`."""
        return self._vote(data).labels_

    def predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Vote with the estimated skills, and return `probas_`."""
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
    """Votes weighted by each worker's agreement with the majority: `crowdwise.Wawa` with crowd-kit's interface.

    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> Wawa().fit(data).skills_.tolist()
    [1.0, 1.0, 0.5]
    """

    def fit(self, data: pd.DataFrame) -> Self:
        """Estimate the skills."""
        table = read(data)
        self.skills_ = table.by_worker(wawa.Wawa(ties="first").fit(table.answers).skill_, "skill")
        return self


@dataclass(eq=False)
class ZeroBasedSkill(SkillVote):
    """Votes weighted by iteratively learned skills: `crowdwise.ZeroBasedSkill` with crowd-kit's interface.

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
        """Estimate the skills."""
        table = read(data)
        model = zero_based_skill.ZeroBasedSkill(
            self.n_iter, self.lr_init, self.lr_steps_to_reduce, self.lr_reduce_factor, self.eps, ties="first"
        )
        self.skills_ = table.by_worker(model.fit(table.answers).skill_, "skill")
        return self


@dataclass(eq=False)
class GoldMajorityVote(SkillVote):
    """Votes weighted by each worker's accuracy on tasks of known truth.

    As in crowd-kit, the accuracy is not smoothed, every worker must have answered a task of known truth
    (`crowdwise.GoldVote` is better in both respects), and the vote does not use the known labels.

    >>> data = pd.DataFrame({"task": [1, 1, 2, 2], "worker": list("abab"), "label": ["x", "y", "x", "y"]})
    >>> GoldMajorityVote().fit_predict(data, pd.Series({1: "y"})).tolist()
    ['y', 'y']
    """

    def fit(self, data: pd.DataFrame, true_labels: pd.Series) -> Self:  # type: ignore[override]
        """Estimate the skills on the tasks in `true_labels` (indexed by task)."""
        table = read(data, true_labels)
        answers, (task, label) = table.answers, table.known(true_labels)
        allowed = np.zeros((len(table.tasks), len(table.classes)))
        allowed[task, label] = 1.0  # a task may have several true labels
        n_known = np.bincount(answers.worker, np.isin(answers.task, task), len(table.workers))  # (workers,)
        skill = wawa.agreement_sums(answers, allowed) / np.maximum(n_known, 1)
        self.skills_ = table.by_worker(skill, "skill", n_known > 0)
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
    """`crowdwise.MMSR` with crowd-kit's interface: skills from the agreement of workers, robust to adversaries.

    The estimator differs from crowd-kit's: ours estimates the signs of the skills before their sizes, and weights
    pairs of workers by their information (`crowdwise.truth.methods.mmsr` explains why), so skills are close but not
    equal. It needs no random start and no matrix of all pairs of workers. `random_state` is ignored.

    Parameters
    ----------
    n_iter, tol
        Maximum number of rounds, and the relative change of the skills below which they stop; `loss_history_` has it.

    Attributes
    ----------
    skills_ : Series by worker
        Weight of the worker's vote: the log odds of a correct answer, negative for adversaries.
    scores_ : DataFrame
        Sums of these weights, divided by the absolute total of their row as in `MajorityVote`.

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
        """Estimate the skills."""
        table = read(data)
        model = mmsr.MMSR(max_iter=self.n_iter, tol=self.tol).fit(table.answers)
        odds = max(len(table.classes) - 1, 1) * model.accuracy_ / (1 - model.accuracy_)
        self.skills_ = table.by_worker(np.log(odds), "skill", table.worker_ids.seen)
        self.loss_history_ = model.history_
        return self

    def predict(self, data: pd.DataFrame) -> pd.Series:
        """Vote with the estimated skills, and return `labels_`."""
        self.predict_score(data)
        return self.labels_

    def predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Vote with the estimated skills, and return `scores_`."""
        vote = MajorityVote().fit(data, self.skills_)
        self.labels_, self.scores_ = vote.labels_, vote.probas_
        return self.scores_

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit, vote and return `labels_`."""
        return self.fit(data).predict(data)

    def fit_predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit, vote and return `scores_`."""
        return self.fit(data).predict_score(data)
