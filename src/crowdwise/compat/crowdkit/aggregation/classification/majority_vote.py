"""crowd-kit's MajorityVote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import pandas as pd

from crowdwise import errors
from crowdwise._core.validation import require
from crowdwise.answers.encoding import preview
from crowdwise.compat.crowdkit._frames import ProbaAggregator, Table, is_empty, no_labels, no_skills, read
from crowdwise.truth.base import Array, vote_shares
from crowdwise.truth.methods import wawa
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
        if is_empty(data):
            ids = pd.Index([], dtype=object)
            self.probas_ = pd.DataFrame(index=ids.rename("task"), columns=ids.rename("label"))
            self.labels_, self.skills_ = no_labels(), no_skills()
            return self
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
