"""The models on Spark.

Answers are split by task into parts and packed once. Each iteration sends the parameters to all parts, and only sums
come back. The parts run the kernels of the local models, and the M-step is theirs too, so every iteration equals the
local one up to the rounding of sums. On one machine the local models are faster: use Spark for size.
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
from crowdwise.engines.spark.joined_em import JoinedEM
from crowdwise.engines.spark.packing import PackedAnswers
from crowdwise.engines.spark.results import FitResult
from crowdwise.engines.spark.worker_tables import column_frame, confusion_frame, information_frame, make_blocks
from crowdwise.truth.base import Array, Callback
from crowdwise.truth.em import EMSteps, run_em
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


class SparkEMModel(SparkModel):
    """A model on Spark that is fitted by EM, with checkpoints."""

    model: Any  # an EMModel, with the attributes of its class

    converged_: bool
    history_: list[float]
    n_iter_: int

    def _run_em(
        self, data: PackedAnswers, em_steps: EMSteps, work: Any, start: Callable[[], Any], kind: Any, file: Path | None,
        resume: bool, callback: Callback | None,
    ) -> Any:  # fmt: skip
        """Run EM from `start()`, or from the checkpoint if `resume`; return the final parameters (a `kind`)."""
        model, stamp = self.model, checkpoint.stamp(self.model, data)
        saved = checkpoint.load(file, stamp, kind) if file is not None and resume else None
        parameters, past_bounds = saved or (start(), [])
        if saved is not None and hasattr(em_steps, "restore"):
            em_steps.restore(parameters)
        n_done = len(past_bounds)
        require(n_done < model.max_iter, "max_iter", model.max_iter, f"more than the {n_done} iterations already done")
        if file is not None:
            em_steps = checkpoint.SparkCheckpoint(em_steps, file, stamp, past_bounds)
        parameters, history, converged = run_em(em_steps, work, parameters, data.n_answers, callback, past_bounds)
        model.history_, model.n_iter_, model.converged_ = history, len(history), converged
        self.history_, self.n_iter_, self.converged_ = history, len(history), converged
        model._warn_if_not_converged(data.n_answers)
        return parameters


class GLAD(SparkEMModel):
    """`crowdwise.GLAD` on Spark; `labels` has the `difficulty` of each task, `workers` each worker's `ability`."""

    local = truth_glad.GLAD

    def _fit_parameters(
        self, data: PackedAnswers, file: Path | None, resume: bool, callback: Callback | None
    ) -> FitResult:
        em_steps = glad.SparkGLAD(self.model, data, None if file is None else file.parent)
        parameters = self._run_em(data, em_steps, None, em_steps.initialise, glad.Parameters, file, resume, callback)
        self.model.class_prior_, self.model.ability_ = parameters.class_prior, parameters.ability
        extra = "difficulty", glad.difficulty
        needs = (em_steps.updated,)
        return FitResult(glad.posterior, em_steps.message, inputs=em_steps.inputs(), extra=extra, needs=needs)

    def _worker_columns(self, data: PackedAnswers, prior: Array) -> DataFrame | None:
        return column_frame(data, "ability", self.model.ability_)


class DriverEM(SparkEMModel):
    """A model whose local EM runs on the driver, with a work object that computes statistics in the cluster."""

    parameters: ClassVar[Any]
    posterior: ClassVar[Any]

    @abstractmethod
    def _work(self, data: PackedAnswers) -> tuple[Any, Any]:
        """Return the local model's work object, and the stand-in in it that remembers the last message."""

    def _fit_parameters(
        self, data: PackedAnswers, file: Path | None, resume: bool, callback: Callback | None
    ) -> FitResult:
        model, (work, cluster) = self.model, self._work(data)
        start = partial(model._initialise, work, Votes(cluster))
        parameters = self._run_em(data, model, work, start, self.parameters, file, resume, callback)
        model._store(work, parameters)
        return FitResult(type(self).posterior, cluster.last, getattr(cluster, "shared", None))


class OneCoin(DriverEM):
    """`crowdwise.OneCoin` on Spark; `workers` has each worker's `skill`."""

    local = one_coin.OneCoin
    parameters = one_coin.Parameters
    posterior = steps.odds_posterior

    def _work(self, data: PackedAnswers) -> tuple[Any, Any]:
        work = SparkOdds(data)
        return work, work

    def _worker_columns(self, data: PackedAnswers, prior: Array) -> DataFrame | None:
        return column_frame(data, "skill", self.model.skill_)


class ConfusionModel(DriverEM):
    """A model with confusion matrices. Above `broadcast_limit` they stay in the cluster (see `joined_em`)."""

    posterior = steps.pair_posterior
    has_matrices = True
    large: ClassVar[type[JoinedEM]]  # the EM steps for matrices that stay in the cluster
    _pairs: SparkConfusion
    blocks: RDD[Any]  # confusion matrices in blocks: see `worker_tables`
    votes: FitResult  # for WDS: posteriors as votes weighted by the matrices

    confusion: DataFrame

    def _fit_parameters(
        self, data: PackedAnswers, file: Path | None, resume: bool, callback: Callback | None
    ) -> FitResult:
        if data.n_workers * data.n_classes**2 > self._limit:
            return self._fit_joined(data, file, resume, callback)
        result, model = super()._fit_parameters(data, file, resume, callback), self.model
        self.blocks = make_blocks(data, self._pairs.codes, model.table_, model.totals_, model.prior_)
        tables = steps.Tables(result.message.prior, model.table_, logs=False)
        self.votes = result._replace(posterior=steps.weighted_posterior, message=tables)
        return result

    def _fit_joined(self, data: PackedAnswers, file: Path | None, resume: bool, callback: Callback | None) -> FitResult:
        assert file is not None  # `pack_answers` raises an error otherwise
        em_steps = self.large(self.model, data, file.parent)
        parameters = self._run_em(
            data, em_steps, None, em_steps.initialise, joined_em.Parameters, file, resume, callback
        )
        self.model.class_prior_ = self._class_prior(em_steps, parameters)
        self._cached += [em_steps.routes, em_steps.sums]
        self.blocks = em_steps.blocks(parameters)
        message = em_steps.message(parameters)
        rows = em_steps.inputs(parameters, "table").mapValues(joined_em.drop_log_priors)
        self.votes = FitResult(steps.weighted_posterior, message, inputs=rows)
        rows = em_steps.inputs(parameters, em_steps.sent).mapValues(joined_em.drop_log_priors)
        return FitResult(type(self).posterior, message, inputs=rows)

    def _class_prior(self, em_steps: JoinedEM, parameters: joined_em.Parameters) -> Array:
        return em_steps.shares(parameters)

    def _worker_columns(self, data: PackedAnswers, prior: Array) -> DataFrame | None:
        self.confusion = confusion_frame(data, self.blocks)
        return information_frame(data, self.blocks, prior)


class DawidSkene(ConfusionModel):
    """`crowdwise.DawidSkene` on Spark."""

    local = dawid_skene.DawidSkene
    parameters = dawid_skene.Parameters
    large = joined_em.JoinedDawidSkene

    def _work(self, data: PackedAnswers) -> tuple[Any, Any]:
        self._pairs = cluster = SparkConfusion(data)
        totals = np.empty((data.n_workers, data.n_classes))
        return dawid_skene.Work(cluster, None, data.n_tasks, totals, np.empty(data.n_workers)), cluster  # type: ignore[arg-type]


class IBCC(ConfusionModel):
    """`crowdwise.IBCC` on Spark."""

    local = ibcc.IBCC
    parameters = ibcc.Parameters
    large = joined_em.JoinedIBCC

    def _work(self, data: PackedAnswers) -> tuple[Any, Any]:
        self._pairs = cluster = SparkConfusion(data)
        prior = ibcc.diagonal(data.n_classes, self.model.a_v, self.model.b_v)
        log_table = np.empty((len(cluster.codes), data.n_classes))
        totals, divergence = np.empty((data.n_workers, data.n_classes)), np.empty(data.n_workers)
        return ibcc.Work(cluster, prior, None, data.n_tasks, log_table, totals, divergence), cluster  # type: ignore[arg-type]

    def _class_prior(self, em_steps: JoinedEM, parameters: joined_em.Parameters) -> Array:
        weights = parameters.sizes + self.model.alpha
        return weights / weights.sum()


class WDS(SparkModel):
    """`crowdwise.WDS` on Spark, over Dawid-Skene or IBCC."""

    local = wds.WDS
    has_matrices = True

    converged_: bool
    history_: list[float]
    n_iter_: int

    def _fit_parameters(
        self, data: PackedAnswers, file: Path | None, resume: bool, callback: Callback | None
    ) -> FitResult:
        model = dawid_skene.DawidSkene() if self.model.base is None else self.model.base
        kinds: dict[Any, type[ConfusionModel]] = {dawid_skene.DawidSkene: DawidSkene, ibcc.IBCC: IBCC}
        require(type(model) in kinds, "base", model, "DawidSkene() or IBCC() on Spark")
        self._base = base = kinds[type(model)](**model.get_params(deep=False))
        base._check()
        base._limit, base._cached = self._limit, self._cached
        base._fit_parameters(data, file, resume, callback)
        self.history_, self.n_iter_, self.converged_ = base.history_, base.n_iter_, base.converged_
        return base.votes

    def _worker_columns(self, data: PackedAnswers, prior: Array) -> DataFrame | None:
        columns = self._base._worker_columns(data, prior)
        self.confusion = self._base.confusion
        return columns
