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
from typing import Any, ClassVar

import numpy as np

from crowdwise.engines import checkpoint, joined, steps
from crowdwise.engines.driver import SparkConfusion, SparkOdds, Votes
from crowdwise.engines.intake import Data
from crowdwise.engines.joined import Crowd, JoinedDawidSkene, cells
from crowdwise.engines.model import Learned, SparkModel
from crowdwise.engines.parts import from_bytes
from crowdwise.engines.results import first_two, id_kind, matrix_frame, plain, spread
from crowdwise.errors import TooLargeError
from crowdwise.truth import dawid_skene, ibcc, majority_vote, naive_soft, one_coin, wds
from crowdwise.truth.base import Array, Callback, require
from crowdwise.truth.em import Climber, EMModel, climb
from crowdwise.truth.tables import information


class MajorityVote(SparkModel):
    """`crowdwise.MajorityVote` on Spark."""

    local = majority_vote.MajorityVote


class NaiveSoft(SparkModel):
    """`crowdwise.NaiveSoft` on Spark."""

    local = naive_soft.NaiveSoft


class SparkEM(SparkModel):
    """A model fitted by EM: the local one climbs, on the driver, over work that is done in the cluster."""

    model: EMModel
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

    def _climb(
        self, data: Data, climber: Climber, work: Any, start: Callable[[], Any], kind: Any, file: Path | None,
        resume: bool, callback: Callback | None,
    ) -> Any:  # fmt: skip
        """EM from the start, or from where it was broken off; the parameters it ends with."""
        model, stamp = self.model, checkpoint.stamp(self.model, data)
        saved = checkpoint.load(file, stamp, kind) if file is not None and resume else None
        parameters, before = saved or (start(), [])
        require(len(before) < model.max_iter, "max_iter", model.max_iter, f"more than the {len(before)} already done")
        if file is not None:
            climber = checkpoint.Kept(climber, file, stamp, before)
        parameters, history, converged = climb(climber, work, parameters, data.n_answers, callback, before)
        model.history_, model.n_iter_, model.converged_ = history, len(history), converged
        self.history_, self.n_iter_, self.converged_ = history, len(history), converged
        model._warn_unsettled(data.n_answers)
        return parameters


class OneCoin(SparkEM):
    """`crowdwise.OneCoin` on Spark; `workers` has each one's `skill`."""

    local = one_coin.OneCoin
    parameters = one_coin.Parameters
    posterior = steps.odds_posterior

    def _work(self, data: Data) -> tuple[Any, Any]:
        work = SparkOdds(data)
        return work, work

    def _of_workers(self, data: Data, prior: Array) -> dict[str, Array]:
        return {"skill": self.model.skill_}


class SparkMatrices(SparkEM):
    """A model with confusion matrices."""

    posterior = steps.pair_posterior

    def _confusion(self, data: Data) -> SparkConfusion:
        if self._is_large(data):
            message = (
                f"confusion matrices of {data.n_workers:,} workers x {data.n_classes}² are more than broadcast_limit="
                f"{self._limit:,} numbers. DawidSkene takes larger crowds; OneCoin needs one number a worker."
            )
            raise TooLargeError(message)
        self._pairs = SparkConfusion(data)
        return self._pairs

    def _is_large(self, data: Data) -> bool:
        return data.n_workers * data.n_classes**2 > self._limit

    def _of_workers(self, data: Data, prior: Array) -> dict[str, Array]:
        model, crowd = self.model, Crowd(data.n_workers, data.n_classes, self._pairs.pairs)
        table, dense = cells(crowd, model.table_, model.prior_, model.totals_, 0, plain(data.class_ids))
        self.confusion = matrix_frame(data, data.workers.sparkSession.createDataFrame(from_bytes(table)))
        return {"informativeness": information(dense, prior)}


class DawidSkene(SparkMatrices):
    """`crowdwise.DawidSkene` on Spark. Above `broadcast_limit` the matrices stay in the cluster (see `joined`)."""

    local = dawid_skene.DawidSkene
    parameters = dawid_skene.Parameters

    def _work(self, data: Data) -> tuple[Any, Any]:
        cluster: Any = self._confusion(data)
        totals = np.empty((data.n_workers, data.n_classes))
        return dawid_skene.Work(cluster, None, data.n_tasks, totals, np.empty(data.n_workers)), cluster

    def _learn(self, data: Data, file: Path | None, resume: bool, callback: Callback | None) -> Learned:
        if not self._is_large(data):
            return super()._learn(data, file, resume, callback)
        require(file is not None, "checkpoint", None, "a folder that all machines share: matrices above "
                "broadcast_limit are kept there")  # fmt: skip
        assert file is not None
        crowd = JoinedDawidSkene(self.model, data, max(1, self._limit // data.n_classes**2), file.parent)
        found = self._climb(data, crowd, None, crowd.initialise, joined.Parameters, file, resume, callback)
        self.model.class_prior_ = found.class_prior
        kind = id_kind(data.class_ids.type)
        schema = f"code long, truth {kind}, label {kind}, probability double"
        table = spread(data.workers.sparkSession, crowd.confusion(found, plain(data.class_ids)), schema)
        self.confusion = matrix_frame(data, table)
        self._kept += [crowd.routes, crowd.sums]
        return Learned(type(self).posterior, crowd.message(found), None, crowd.inputs(found).mapValues(first_two))

    def _of_workers(self, data: Data, prior: Array) -> dict[str, Array]:
        return {} if self._is_large(data) else super()._of_workers(data, prior)


class IBCC(SparkMatrices):
    """`crowdwise.IBCC` on Spark."""

    local = ibcc.IBCC
    parameters = ibcc.Parameters

    def _work(self, data: Data) -> tuple[Any, Any]:
        cluster: Any = self._confusion(data)
        prior = ibcc.diagonal(data.n_classes, self.model.a_v, self.model.b_v)
        log_table = np.empty((len(cluster.codes), data.n_classes))
        totals, divergence = np.empty((data.n_workers, data.n_classes)), np.empty(data.n_workers)
        return ibcc.Work(cluster, prior, None, data.n_tasks, log_table, totals, divergence), cluster


class WDS(SparkModel):
    """`crowdwise.WDS` on Spark, over Dawid-Skene or IBCC."""

    local = wds.WDS

    def _learn(self, data: Data, file: Path | None, resume: bool, callback: Callback | None) -> Learned:
        model = dawid_skene.DawidSkene() if self.model.base is None else self.model.base
        kinds: dict[Any, type[SparkMatrices]] = {dawid_skene.DawidSkene: DawidSkene, ibcc.IBCC: IBCC}
        require(type(model) in kinds, "base", model, "DawidSkene() or IBCC() on Spark")
        base = kinds[type(model)](**model.get_params(deep=False))
        base._limit, base._kept = self._limit, self._kept
        learned = base._learn(data, file, resume, callback)
        self.history_, self.n_iter_, self.converged_ = base.history_, base.n_iter_, base.converged_
        self._base = base
        if learned.inputs is None:  # what the E-step was sent may be logs
            learned = learned._replace(message=steps.Tables(learned.message.prior, base.model.table_, logs=False))
        return learned._replace(posterior=steps.weighted_posterior)

    def _of_workers(self, data: Data, prior: Array) -> dict[str, Array]:
        known = self._base._of_workers(data, prior)
        self.confusion = self._base.confusion
        return known
