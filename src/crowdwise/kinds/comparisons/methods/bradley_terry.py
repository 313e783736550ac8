"""Bradley and Terry (1952): items have strengths, and the stronger one wins more often; with Davidson's (1970) ties.

    P(left beats right) = 1 / (1 + e^-d)                  d = score[left] - score[right] + advantage
    P(left), P(right), P(tie) = e^(d/2), e^(-d/2), nu     divided by their sum (Davidson)
    score[i] ~ Normal(0, spread^2)

Newton's method maximises the likelihood times the prior (`strengths.py`). Alternatively (`solver="mm"`), Hunter's
(2004) MM algorithm maximises the likelihood of Bradley and Terry alone:

    strength[i] <- wins[i] / sum_j n[i, j] / (strength[i] + strength[j])          strength = e^score

Without a prior, an item that always wins has an infinite score; the prior, whose spread is estimated from the data,
prevents this. All workers count the same: use `crowd-bradley-terry` if some are careless.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from crowdwise._core.validation import require
from crowdwise.answers import Comparisons
from crowdwise.answers.comparison_columns import TIE
from crowdwise.errors import ParameterError
from crowdwise.kinds.comparisons.base import ComparisonModel, Spread, answer_weights, check_spread, gold_counts
from crowdwise.kinds.comparisons.strengths import (
    Pairs,
    Strengths,
    bound,
    centred_inverse,
    components,
    information_matrix,
    item_pairs,
    maximise,
    outcome_counts,
    with_estimated_spread,
)
from crowdwise.truth.base import Array, Callback

SPREAD_ROUNDS = 30


class BradleyTerry(ComparisonModel):
    """Scores of items from comparisons; a tie counts as half a win for both.

    Parameters
    ----------
    spread : float, "estimated" or None
        Standard deviation of the scores, which are shrunk towards each other accordingly. "estimated" takes the most
        likely one. None is maximum likelihood, which fails if some items win or lose all their comparisons.
    position : bool
        Whether to estimate an advantage of the left item. Only if items were put on both sides at random.
    solver : {"newton", "mm"}
        "mm" is Hunter's algorithm, for maximum likelihood (`spread=None`) only. Both give the same result.
    max_iter : int
        Most steps of the solver.
    tol : float
        The largest change of a score that ends the fit.
    random_state : int
        Seed for the label of a pair of equal scores.

    Examples
    --------
    >>> from crowdwise import BradleyTerry, Comparisons
    >>> comparisons = Comparisons.from_arrays(list("xxxyyz"), list("yzyzzx"), list("xxxyzx"))
    >>> model = BradleyTerry(spread=1.0).fit(comparisons)
    >>> model.items_.tolist(), model.scores_.round(2).tolist()
    (['x', 'y', 'z'], [0.86, -0.43, -0.43])
    >>> model.outcome_proba("x", "y").round(2).tolist()
    [[0.78, 0.22, 0.0]]
    """

    models_ties: ClassVar[bool] = False

    converged_: bool
    history_: list[float]
    n_iter_: int

    def __init__(
        self, spread: Spread = "estimated", *, position: bool = False, solver: Literal["newton", "mm"] = "newton",
        max_iter: int = 1000, tol: float = 1e-8, random_state: int = 0,
    ) -> None:  # fmt: skip
        self.spread = spread
        self.position = position
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_spread(self.spread)
        solver = getattr(self, "solver", "newton")
        require(solver in ("newton", "mm"), "solver", solver, "'newton' or 'mm'")
        if solver == "mm" and (self.spread is not None or self.position):
            message = "solver='mm' maximises the likelihood alone: pass spread=None and position=False."
            raise ParameterError(message)

    def _fit(  # type: ignore[override]
        self, answers: Comparisons, gold: Array | None, rng: np.random.Generator, callback: Callback | None
    ) -> None:
        pairs = self._pairs(answers, gold)
        if self.spread is None:
            check_strongly_connected(pairs, answers)
        at, self.history_ = self._maximise(pairs)
        self.n_iter_, self.converged_ = len(self.history_), len(self.history_) <= self.max_iter
        if callback is not None:
            callback(self.n_iter_, self.history_[-1])
        information = information_matrix(pairs, at, position=self.position)
        self._finish(at, centred_inverse(information), components(pairs), gold)

    def _pairs(self, answers: Comparisons, gold: Array | None) -> Pairs:
        pairs = item_counts(answers, gold)
        if not self.models_ties:  # half a win for both
            pairs.counts[:, :TIE] += pairs.counts[:, TIE:] / 2
            pairs.counts[:, TIE] = 0.0
        return pairs

    def _maximise(self, pairs: Pairs) -> tuple[Strengths, list[float]]:
        n_ties, n_won = pairs.counts[:, TIE].sum(), pairs.counts[:, :TIE].sum()
        log_nu = float(np.log(2 * n_ties / n_won)) if n_ties and n_won else -np.inf
        at = Strengths(np.zeros(pairs.n_items), 0.0, log_nu, np.inf if self.spread is None else 1.0)
        if self.solver == "mm":
            return maximise_by_mm(pairs, at, self.max_iter, self.tol)
        at = at if self.spread in (None, "estimated") else at._replace(spread=float(self.spread))
        at, history = maximise(pairs, at, position=self.position, max_iter=self.max_iter, tol=self.tol)
        for _ in range(SPREAD_ROUNDS if self.spread == "estimated" else 0):
            before = at.spread
            at = with_estimated_spread(at, information_matrix(pairs, at, position=self.position))
            at, history = maximise(pairs, at, position=self.position, max_iter=self.max_iter, tol=self.tol)
            if abs(np.log(at.spread / before)) < 1e-3:
                break
        return at, history


class Davidson(BradleyTerry):
    """Bradley and Terry's model with ties as an outcome of its own, more likely between items of equal strength.

    Parameters
    ----------
    spread, position, max_iter, tol, random_state
        As in `BradleyTerry`.

    Examples
    --------
    >>> from crowdwise import Comparisons, Davidson
    >>> winners = ["x", "tie", "x", "y", "tie", "x"]
    >>> model = Davidson(spread=1.0).fit(Comparisons.from_arrays(list("xxxyyz"), list("yzyzzx"), winners))
    >>> model.outcome_proba("x", "z").round(2).tolist()
    [[0.54, 0.15, 0.31]]
    """

    models_ties = True

    def __init__(
        self, spread: Spread = "estimated", *, position: bool = False, max_iter: int = 1000, tol: float = 1e-8,
        random_state: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(spread, position=position, max_iter=max_iter, tol=tol, random_state=random_state)


def item_counts(answers: Comparisons, gold: Array | None = None) -> Pairs:
    """Return the weighted counts of the outcomes of each pair of items; a known winner counts as one comparison."""
    pairs, of_task = item_pairs(answers)
    counts = outcome_counts(of_task[answers.task], answers.label, answer_weights(answers), len(pairs.left))
    return pairs._replace(counts=counts + gold_counts(gold, of_task, len(pairs.left)))


def maximise_by_mm(pairs: Pairs, at: Strengths, max_iter: int, tol: float) -> tuple[Strengths, list[float]]:
    """Maximise the likelihood of Bradley and Terry by Hunter's MM algorithm."""
    strength, history = np.exp(at.score), []
    for _ in range(max_iter):
        before, strength = strength, hunter_step(pairs, strength)
        change = np.log(strength / before)
        at = at._replace(score=np.log(strength))
        history.append(bound(pairs, at))
        if np.ptp(change) < tol:
            break
    return at, history


def hunter_step(pairs: Pairs, strength: Array) -> Array:
    """Return the strengths after one step of Hunter's algorithm, which sum to one, (items,)."""
    n, left, right = pairs.n_items, pairs.left, pairs.right
    wins = np.bincount(left, pairs.counts[:, 0], n) + np.bincount(right, pairs.counts[:, 1], n)
    both = strength[left] + strength[right]
    share = np.divide(pairs.counts.sum(axis=1), both, out=np.zeros_like(both), where=both > 0)
    total = np.bincount(left, share, n) + np.bincount(right, share, n)
    update = np.divide(wins, total, out=np.zeros_like(wins), where=total > 0)
    return update / update.sum()


def check_strongly_connected(pairs: Pairs, answers: Comparisons) -> None:
    """Raise an error unless the maximum of the likelihood is finite (Ford 1957).

    It is if no group of items has won all its comparisons with the others.
    """
    n = pairs.n_items
    won, lost = pairs.counts[:, 0] > 0, pairs.counts[:, 1] > 0
    winner = np.concatenate([pairs.left[won], pairs.right[lost]])
    loser = np.concatenate([pairs.right[won], pairs.left[lost]])
    graph = sp.coo_array((np.ones(len(winner)), (winner, loser)), shape=(n, n)).tocsr()
    count, group = csgraph.connected_components(graph, connection="strong")
    if count > 1:
        item: Any = answers.items[int(np.flatnonzero(group == np.bincount(group).argmin())[0])]
        message = (
            f"spread=None (maximum likelihood) has no finite scores: the items fall into {count} groups that always "
            f"win or lose against the others, {item!r} in the smallest. Use spread='estimated', the default."
        )
        raise ParameterError(message)
