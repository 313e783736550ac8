"""Truth inference on Apache Spark: the same models, the same numbers, for answers that no single machine holds.

>>> import crowdwise.engines.spark as engine                                          # doctest: +SKIP
>>> model = engine.DawidSkene().fit(spark.read.parquet("answers/"))                   # doctest: +SKIP
>>> model.labels.show()                                                               # doctest: +SKIP
>>> model.write("results/")                                                           # doctest: +SKIP

Answers are dealt out by task and packed once; each iteration sends the parameters to all parts, and only sums come
back. Inside a part run the kernels of the local models, and the M-step is theirs as well, so that every iteration is
the local one up to the rounding of sums. On one machine the local models are faster: this is for size.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise._core.validation import require
from crowdwise.engines.spark import checkpoint, glad, joined_em, steps
from crowdwise.engines.spark.base import SparkModel
from crowdwise.engines.spark.driver import SparkConfusion, SparkOdds, Votes
from crowdwise.engines.spark.intake import Data
from crowdwise.engines.spark.joined_em import JoinedEM
from crowdwise.engines.spark.results import Learned
from crowdwise.engines.spark.worker_tables import blocks_of, column_frame, confusion_frame, information_frame
from crowdwise.truth.base import Array, Callback
from crowdwise.truth.em import EMModel, EMSteps, run_em
from crowdwise.truth.methods import dawid_skene, ibcc, majority_vote, naive_soft, one_coin, wds
from crowdwise.truth.methods import glad as truth_glad

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame


class MajorityVote(SparkModel):
    """`crowdwise.MajorityVote` on Spark."""

    local = majority_vote.MajorityVote


class NaiveSoft(SparkModel):
    """`crowdwise.NaiveSoft` on Spark."""

    local = naive_soft.NaiveSoft


class Climbing(SparkModel):
    """A model fitted by EM, with checkpoints."""

    model: EMModel

    def _climb(
        self, data: Data, climber: EMSteps, work: Any, start: Callable[[], Any], kind: Any, file: Path | None,
        resume: bool, callback: Callback | None,
    ) -> Any:  # fmt: skip
        """EM from the start, or from where it was broken off; the parameters it ends with."""
        model, stamp = self.model, checkpoint.stamp(self.model, data)
        saved = checkpoint.load(file, stamp, kind) if file is not None and resume else None
        parameters, before = saved or (start(), [])
        if saved is not None and hasattr(climber, "resumed"):
            climber.resumed(parameters)
        require(len(before) < model.max_iter, "max_iter", model.max_iter, f"more than the {len(before)} already done")
        if file is not None:
            climber = checkpoint.SparkCheckpoint(climber, file, stamp, before)
        parameters, history, converged = run_em(climber, work, parameters, data.n_answers, callback, before)
        model.history_, model.n_iter_, model.converged_ = history, len(history), converged
        self.history_, self.n_iter_, self.converged_ = history, len(history), converged
        model._warn_if_not_converged(data.n_answers)
        return parameters


class GLAD(Climbing):
    """`crowdwise.GLAD` on Spark; `labels` has the `difficulty` of each task, `workers` the `ability` of each."""

    local = truth_glad.GLAD

    def _learn(self, data: Data, file: Path | None, resume: bool, callback: Callback | None) -> Learned:
        climber = glad.SparkGLAD(self.model, data, None if file is None else file.parent)
        found = self._climb(data, climber, None, climber.initialise, glad.Parameters, file, resume, callback)
        self.model.class_prior_, self.model.ability_ = found.class_prior, found.ability
        more = "difficulty", glad.difficulty
        return Learned(glad.posterior, climber.message, inputs=climber.inputs(), more=more, needs=(climber.moved,))

    def _of_workers(self, data: Data, prior: Array) -> DataFrame | None:
        return column_frame(data, "ability", self.model.ability_)


class SparkEM(Climbing):
    """The local model climbs, on the driver, over work that is done in the cluster."""

    parameters: ClassVar[Any]
    posterior: ClassVar[Any]

    @abstractmethod
    def _work(self, data: Data) -> tuple[Any, Any]:
        """What the local model works in, and the object in it that remembers the last message."""

    def _learn(self, data: Data, file: Path | None, resume: bool, callback: Callback | None) -> Learned:
        model, (work, cluster) = self.model, self._work(data)
        start = partial(model._initialise, work, Votes(cluster))  # type: ignore[arg-type]
        parameters = self._climb(data, model, work, start, self.parameters, file, resume, callback)
        model._store(work, parameters)
        return Learned(type(self).posterior, cluster.last, getattr(cluster, "shared", None))


class OneCoin(SparkEM):
    """`crowdwise.OneCoin` on Spark; `workers` has each one's `skill`."""

    local = one_coin.OneCoin
    parameters = one_coin.Parameters
    posterior = steps.odds_posterior

    def _work(self, data: Data) -> tuple[Any, Any]:
        work = SparkOdds(data)
        return work, work

    def _of_workers(self, data: Data, prior: Array) -> DataFrame | None:
        return column_frame(data, "skill", self.model.skill_)


class SparkMatrices(SparkEM):
    """A model with confusion matrices. Above `broadcast_limit` they stay in the cluster (see `joined`)."""

    posterior = steps.pair_posterior
    has_matrices = True
    large: ClassVar[type[JoinedEM]]  # the same for a large crowd
    _pairs: SparkConfusion
    blocks: RDD[Any]  # of matrices: see `crowd`
    votes: Learned  # what votes weighed by the matrices are made from

    def _learn(self, data: Data, file: Path | None, resume: bool, callback: Callback | None) -> Learned:
        if data.n_workers * data.n_classes**2 > self._limit:
            return self._learn_joined(data, file, resume, callback)
        learned, model = super()._learn(data, file, resume, callback), self.model
        self.blocks = blocks_of(data, self._pairs.codes, model.table_, model.totals_, model.prior_)
        tables = steps.Tables(learned.message.prior, model.table_, logs=False)
        self.votes = learned._replace(posterior=steps.weighted_posterior, message=tables)
        return learned

    def _learn_joined(self, data: Data, file: Path | None, resume: bool, callback: Callback | None) -> Learned:
        assert file is not None  # `take` refuses such a crowd without
        crowd = self.large(self.model, data, file.parent)
        found = self._climb(data, crowd, None, crowd.initialise, joined_em.Parameters, file, resume, callback)
        self.model.class_prior_ = self._class_prior(crowd, found)
        self._kept += [crowd.routes, crowd.sums]
        self.blocks = crowd.blocks(found)
        message, rows = crowd.message(found), crowd.inputs(found, "table").mapValues(joined_em.bare_rows)
        self.votes = Learned(steps.weighted_posterior, message, inputs=rows)
        rows = crowd.inputs(found, crowd.sent).mapValues(joined_em.bare_rows)
        return Learned(type(self).posterior, message, inputs=rows)

    def _class_prior(self, crowd: JoinedEM, found: joined_em.Parameters) -> Array:
        return crowd.shares(found)

    def _of_workers(self, data: Data, prior: Array) -> DataFrame | None:
        self.confusion = confusion_frame(data, self.blocks)
        return information_frame(data, self.blocks, prior)


class DawidSkene(SparkMatrices):
    """`crowdwise.DawidSkene` on Spark."""

    local = dawid_skene.DawidSkene
    parameters = dawid_skene.Parameters
    large = joined_em.JoinedDawidSkene

    def _work(self, data: Data) -> tuple[Any, Any]:
        self._pairs = cluster = SparkConfusion(data)
        totals = np.empty((data.n_workers, data.n_classes))
        return dawid_skene.Work(cluster, None, data.n_tasks, totals, np.empty(data.n_workers)), cluster  # type: ignore[arg-type]


class IBCC(SparkMatrices):
    """`crowdwise.IBCC` on Spark."""

    local = ibcc.IBCC
    parameters = ibcc.Parameters
    large = joined_em.JoinedIBCC

    def _work(self, data: Data) -> tuple[Any, Any]:
        self._pairs = cluster = SparkConfusion(data)
        prior = ibcc.diagonal(data.n_classes, self.model.a_v, self.model.b_v)
        log_table = np.empty((len(cluster.codes), data.n_classes))
        totals, divergence = np.empty((data.n_workers, data.n_classes)), np.empty(data.n_workers)
        return ibcc.Work(cluster, prior, None, data.n_tasks, log_table, totals, divergence), cluster  # type: ignore[arg-type]

    def _class_prior(self, crowd: JoinedEM, found: joined_em.Parameters) -> Array:
        weights = found.sizes + self.model.alpha
        return weights / weights.sum()


class WDS(SparkModel):
    """`crowdwise.WDS` on Spark, over Dawid-Skene or IBCC."""

    local = wds.WDS
    has_matrices = True

    def _learn(self, data: Data, file: Path | None, resume: bool, callback: Callback | None) -> Learned:
        model = dawid_skene.DawidSkene() if self.model.base is None else self.model.base
        kinds: dict[Any, type[SparkMatrices]] = {dawid_skene.DawidSkene: DawidSkene, ibcc.IBCC: IBCC}
        require(type(model) in kinds, "base", model, "DawidSkene() or IBCC() on Spark")
        self._base = base = kinds[type(model)](**model.get_params(deep=False))
        base._check()
        base._limit, base._kept = self._limit, self._kept
        base._learn(data, file, resume, callback)
        self.history_, self.n_iter_, self.converged_ = base.history_, base.n_iter_, base.converged_
        return base.votes

    def _of_workers(self, data: Data, prior: Array) -> DataFrame | None:
        known = self._base._of_workers(data, prior)
        self.confusion = self._base.confusion
        return known
