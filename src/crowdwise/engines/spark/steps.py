"""Steps that run in the cluster on one part at a time: first statistics, E-steps and posteriors, by the local kernels.

A step is a function of a part, of the rows of the probability table for its pairs (for models that have one), and of a
message that is the same for all parts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdwise.engines.spark.partitions import Partition, Sums
from crowdwise.truth.base import Array, TruthModel
from crowdwise.truth.kernels.odds import expect
from crowdwise.truth.methods.wawa import agreement_sums, answer_weights
from crowdwise.truth.methods.wds import weighted_votes


class Tables(NamedTuple):
    """The message of an E-step over confusion matrices."""

    prior: Array  # (classes,)
    table: Array | None  # (pairs, classes); None if each part gets its own rows
    logs: bool  # whether the table holds logs
    hard: bool = False


class Odds(NamedTuple):
    """The message of an E-step over the odds of each worker."""

    prior: Array  # (classes,)
    log_odds: Array  # (workers,)


def first_pairs(part: Partition, rows: None, message: None) -> Sums:
    """Return the counts of the pairs with vote shares as posteriors."""
    votes = part.votes()
    return Sums(part.pair, part.confusion.count(votes), votes.sum(axis=0), 0.0)


def expect_pairs(part: Partition, rows: Array, message: Tables) -> Sums:
    """Return the counts of the pairs, the class sizes and the log-likelihood under the posteriors."""
    _set_table(part, rows, message)
    return Sums(part.pair, *part.confusion.e_step(message.prior, part.gold, hard=message.hard))


def pair_posterior(part: Partition, rows: Array, message: Tables) -> Array:
    """Return the posteriors (tasks, classes) from confusion matrices."""
    proba = np.empty((part.n_tasks, part.n_classes))
    _set_table(part, rows, message)
    part.confusion.e_step(message.prior, part.gold, counts=False, proba=proba)
    return proba


def weighted_posterior(part: Partition, rows: Array, message: Tables) -> Array:
    """Return the votes weighted by the voter's accuracy on the class voted for."""
    return weighted_votes(part.answers, rows)


def _set_table(part: Partition, rows: Array, message: Tables) -> None:
    set_table = part.confusion.set_log_table if message.logs else part.confusion.set_table
    set_table(rows)


def first_workers(part: Partition, rows: None, message: None) -> Sums:
    """Return each worker's agreement with the vote shares, and the weight of their answers."""
    votes = part.votes()
    columns = np.stack([agreement_sums(part.answers, votes), answer_weights(part.answers)], axis=1)  # (workers, 2)
    return Sums(part.workers, columns, votes.sum(axis=0), 0.0)


def expect_workers(part: Partition, rows: None, message: Odds) -> Sums:
    """Return the expected right answers of each worker."""
    log_odds = message.log_odds[part.workers]
    right, sizes, log_sum = expect(part.answers, part.answers.worker, log_odds, message.prior, part.gold)
    return Sums(part.workers, right[:, None], sizes, log_sum)


def odds_posterior(part: Partition, rows: None, message: Odds) -> Array:
    """Return the posteriors (tasks, classes) from the odds of each worker."""
    proba = np.empty((part.n_tasks, part.n_classes))
    log_odds = message.log_odds[part.workers]
    expect(part.answers, part.answers.worker, log_odds, message.prior, part.gold, proba)
    return proba


def local_posterior(part: Partition, rows: None, message: TruthModel) -> Array:
    """Return the posteriors of a model that treats each task separately: the local model's, on this part."""
    message._fit(part.answers, part.gold, np.random.default_rng(0), None)
    return message.proba_


def table_rows(part: Partition, message: Tables, pair: Array) -> Array | None:
    """Return the part's rows (pairs, classes) of the message's table, which covers all of `pair` (sorted)."""
    return None if message.table is None else message.table[np.searchsorted(pair, part.pair)]
