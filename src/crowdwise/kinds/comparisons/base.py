"""The base class of models that rank items from comparisons of pairs."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from scipy import special

from crowdwise._core.display import pluralise
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Comparisons
from crowdwise.answers.comparison_columns import LEFT, RIGHT, TIE
from crowdwise.errors import DisconnectedWarning, ParameterError
from crowdwise.kinds.comparisons.next_pairs import choose_pairs
from crowdwise.kinds.comparisons.strengths import Pairs as ItemPairs
from crowdwise.kinds.comparisons.strengths import Strengths, outcome_counts, outcome_logs
from crowdwise.truth.base import Array, TruthModel, fix_gold

Spread = float | Literal["estimated"] | None
DRAWS = 4000  # of the scores, for the intervals of ranks
MAX_LISTED = 5  # items listed in a warning


class ComparisonModel(TruthModel):
    """Rank items by comparisons of pairs.

    A subclass implements `_fit_scores`, which sets `scores_`, `covariance_`, `advantage_` and `tie_`.

    Attributes
    ----------
    items_ : (items,) array
        Ids of the items.
    scores_ : (items,) float64 array
        Strength of each item, in log odds: without ties, an item beats one whose score is lower by d with probability
        1 / (1 + exp(-d)). They sum to zero.
    covariance_ : (items, items) float64 array
        Covariance of the scores.
    groups_ : (items,) int array
        Items of different groups are not linked by any chain of comparisons.
    labels_, proba_ : (tasks,) array, (tasks, 3) array
        The better item of each pair, "left" or "right", and the probability of each. Column "tie" is 0: equal answers
        are possible, equal strength is not.
    advantage_ : float
        How much better the left item looks, in the unit of the scores.
    tie_ : float
        Relative frequency of ties, nu: between equal items, a tie has the probability nu / (2 + nu).
    """

    answer_kind: ClassVar[str] = "comparisons"
    scores_: Array
    covariance_: Array
    groups_: Array
    advantage_: float
    tie_: float

    proba_: Array

    @property
    def items_(self) -> Array:
        """Ids of the items, in the order of `scores_`."""
        return np.asarray(self._comparisons.items)

    @property
    def standard_error_(self) -> Array:
        """Standard error of each score, relative to the mean of all, (items,)."""
        return np.sqrt(np.diag(self.covariance_))

    @property
    def _comparisons(self) -> Comparisons:
        fitted: Any = self._fitted
        assert isinstance(fitted, Comparisons)
        return fitted

    def ranking(self, level: float = 0.95) -> pa.Table:
        """Return the items from the best to the worst, with intervals.

        Parameters
        ----------
        level : float
            Probability with which each interval holds the score, and the rank.

        Returns
        -------
        pyarrow.Table
            item, rank, score, standard_error, lower, upper, best_rank, worst_rank, comparisons, win_rate (a tie counts
            one half).

        Examples
        --------
        >>> from crowdwise import BradleyTerry, Comparisons
        >>> comparisons = Comparisons.from_arrays(list("xxxyyz"), list("yzyzzx"), list("xxxyzx"))
        >>> BradleyTerry().fit(comparisons).ranking().select(["item", "rank"]).to_pydict()
        {'item': ['x', 'y', 'z'], 'rank': [1, 2, 3]}
        """
        require(is_number(level) and 0 < level < 1, "level", level, "a probability between 0 and 1")
        answers = self._comparisons
        order = np.argsort(-self.scores_, kind="stable")
        half = -special.ndtri((1 - level) / 2) * self.standard_error_
        best, worst = self._rank_intervals(level)
        weight = answer_weights(answers)
        won = np.where(answers.label == TIE, 0.5, answers.label == LEFT)  # by the left item
        counts, wins = np.zeros(answers.n_items), np.zeros(answers.n_items)
        for side, share in ((answers.left, won), (answers.right, 1 - won)):
            counts += np.bincount(side[answers.task], weight, answers.n_items)
            wins += np.bincount(side[answers.task], weight * share, answers.n_items)
        columns = {
            "item": pa.array(answers.items).take(pa.array(order)),
            "rank": np.arange(1, len(order) + 1),
            "score": self.scores_[order],
            "standard_error": self.standard_error_[order],
            "lower": (self.scores_ - half)[order],
            "upper": (self.scores_ + half)[order],
            "best_rank": best[order],
            "worst_rank": worst[order],
            "comparisons": counts[order],
            "win_rate": (wins / np.maximum(counts, 1e-300))[order],
        }
        return pa.table(columns)

    def _rank_intervals(self, level: float) -> tuple[Array, Array]:
        """Return the best and the worst rank of each item in a central share of draws of the scores, (items,) each."""
        n, tail = len(self.scores_), (1 - level) / 2
        rng = np.random.default_rng(0)
        variance, vectors = np.linalg.eigh(self.covariance_)
        root = vectors * np.sqrt(np.maximum(variance, 0.0))
        ranks = np.empty((DRAWS, n), np.int32)
        for start in range(0, DRAWS, 500):
            draws = self.scores_ + rng.standard_normal((500, n)) @ root.T
            ranks[start : start + 500] = (-draws).argsort(axis=1).argsort(axis=1) + 1
        ends = np.quantile(ranks, [tail, 1 - tail], axis=0, method="closest_observation")
        return ends[0].astype(int), ends[1].astype(int)

    def outcome_proba(self, left: Any, right: Any) -> Array:
        """Return the probability of each outcome, left, right, tie, if a reliable worker compares these items, (n, 3).

        Parameters
        ----------
        left, right : sequences of item ids, of equal length
        """
        place = {item: code for code, item in enumerate(self._comparisons.items)}
        try:
            codes = [np.array([place[item] for item in np.atleast_1d(side).tolist()], int) for side in (left, right)]
        except KeyError as error:
            message = f"{error.args[0]!r} is not an item of this model. Its items are in items_."
            raise ParameterError(message) from None
        pairs = ItemPairs(codes[0], codes[1], np.empty((len(codes[0]), 3)), len(self.scores_))
        with np.errstate(divide="ignore"):
            at = Strengths(self.scores_, self.advantage_, float(np.log(self.tie_)), np.inf)
        return np.exp(outcome_logs(pairs, at))

    def next_comparisons(self, n: int = 10) -> pa.Table:
        """Return the pairs whose comparison says most about the scores, the most useful first.

        A comparison is worth more between items that are close, and whose difference is uncertain. Each proposal
        reckons with those before it, so that proposals spread over the items.

        Returns
        -------
        pyarrow.Table
            left, right, information (expected, in nats).
        """
        require(is_integer(n, 1), "n", n, "an integer, 1 or more")
        left, right, worth = choose_pairs(self.scores_, self.covariance_, n)
        items = pa.array(self._comparisons.items)
        return pa.table(
            {"left": items.take(pa.array(left)), "right": items.take(pa.array(right)), "information": worth}
        )

    # For subclasses

    def _finish(self, at: Strengths, covariance: Array, groups: Array, gold: Array | None) -> None:
        """Set the fitted attributes."""
        answers = self._comparisons
        mean = at.score.mean()
        self.scores_, self.covariance_, self.groups_ = at.score - mean, covariance, groups
        self.advantage_, self.tie_ = at.advantage, float(np.exp(at.log_nu))
        left, right = answers.left, answers.right
        variance = np.diag(covariance)
        deviation = np.sqrt(np.maximum(variance[left] + variance[right] - 2 * covariance[left, right], 1e-300))
        better = special.ndtr((at.score[left] - at.score[right]) / deviation)  # (tasks,)
        self.proba_ = fix_gold(np.stack([better, 1 - better, np.zeros_like(better)], axis=1), gold)
        if groups.max(initial=0) > 0:
            self._warn_of_groups()

    def _warn_of_groups(self) -> None:
        names, sizes = self._comparisons.items, np.bincount(self.groups_)
        smallest = int(sizes.argmin())
        listed = [str(names[i]) for i in np.flatnonzero(self.groups_ == smallest)[:MAX_LISTED]]
        more = ", ..." if sizes[smallest] > MAX_LISTED else ""
        message = (
            f"the items fall into {len(sizes)} groups that no comparison links; the smallest has "
            f"{pluralise(int(sizes[smallest]), 'item')} ({', '.join(listed)}{more}). Ranks between groups are not "
            "known. Compare items of different groups (`next_comparisons`), or rank each group alone."
        )
        warnings.warn(message, DisconnectedWarning, stacklevel=5)


def gold_counts(gold: Array | None, of_task: Array, n_pairs: int) -> Array:
    """Return a comparison by somebody reliable for each pair whose winner is known, (pairs, 3)."""
    known = np.flatnonzero((gold == LEFT) | (gold == RIGHT)) if gold is not None else np.empty(0, int)
    outcome = gold[known] if gold is not None else known
    return outcome_counts(of_task[known], outcome, np.ones(len(known)), n_pairs)


def answer_weights(answers: Comparisons) -> Array:
    """Return the weight of each answer, (answers,)."""
    return np.ones(answers.n_answers) if answers.weight is None else answers.weight


def check_spread(spread: Spread) -> None:
    """Reject a spread that is not a positive number, "estimated" or None."""
    valid = spread is None or spread == "estimated" or (is_number(spread) and spread > 0)
    require(valid, "spread", spread, "a number above 0, 'estimated', or None for maximum likelihood")
