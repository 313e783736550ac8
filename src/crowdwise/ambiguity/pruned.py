"""Any learner without the most ambiguous tasks: WAUM + WDS, WAUM + CoNAL, and so on.

    scores    of the tasks, by WAUM or AUM
    kept      tasks that score more than the alpha-quantile; as a control, as many at random
    base      fitted on the answers to the tasks kept; the others stay as tasks without answers

The paper's own is WAUM + WDS: `Pruned()`, a network on the weighted Dawid-Skene labels of what is kept. With `soft`
(ours) no task is left out, but ambiguous ones count less. Lefort et al., as in `waum`: pruning 1% of LabelMe improves
CoNAL there. It cannot help where ambiguous tasks are what the classifier must learn to tell apart.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.ambiguity.aum import AUM
from crowdwise.ambiguity.ranking import ALPHA, SOFT_ALPHA, TaskRanker, in_blocks
from crowdwise.ambiguity.recorder import Recorder
from crowdwise.ambiguity.waum import WAUM
from crowdwise.learn.base import Array, Callback, CrowdClassifier, FitInput
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.wrapper import Wrapper
from crowdwise.truth.base import TruthModel

# How a ranker that is not given is trained: as the base is.
SHARED = (
    "network",
    "epochs",
    "batch_size",
    "lr",
    "weight_decay",
    "optimizer",
    "scheduler",
    "clip",
    "n_models",
    "device",
)


class Pruned(TaskRanker, Wrapper):
    """Ranks tasks by ambiguity, and fits a learner without the most ambiguous ones.

    A task whose label is known (`gold`) is never left out. Gold is for the base; tasks are ranked without it.

    Parameters
    ----------
    base : learner, truth model or the name of one
        What is fitted on the tasks kept; a truth model becomes the learner that trains on its labels. WDS by default.
    by : "waum", "aum", WAUM(...) or AUM(...)
        What ranks the tasks. One that is only named trains the network of the base in the way the base does, where the
        base is a learner that trains one.
    alpha : float or None
        Share of the tasks to leave out, see `WAUM.prune`; with `soft`, the quantile of half weight, see `WAUM.weights`.
        None is what these take unless told: 0.01, and 0.1 with `soft`.
    random : bool
        The control: as many tasks, or the same weights, at random.
    soft : bool
        Weigh ambiguous tasks less in place of leaving them out.
    random_state : int
        Seed of the control, and of a ranker that is only named.

    Attributes
    ----------
    kept_ : (tasks,) bool array
        Which tasks the base was fitted on.
    scores_, aum_, trust_, worker_trust_
        As `WAUM` has them; `ranking()` is the table.
    model_ : CrowdClassifier
        The base as it was fitted. `proba_` is its own for the tasks kept, and its prediction for the others.

    Examples
    --------
    >>> from crowdwise import CoNAL, Pruned, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = Pruned(CoNAL(epochs=2), alpha=0.1).fit(X, answers)
    >>> int(model.kept_.sum()), model.proba_.shape, model.ranking(3).num_rows
    (664, (738, 10), 3)
    """

    def __init__(
        self,
        base: CrowdClassifier | TruthModel | str | None = None,
        by: Recorder | Literal["waum", "aum"] = "waum",
        *,
        alpha: float | None = None,
        random: bool = False,
        soft: bool = False,
        random_state: int = 0,
    ) -> None:
        self.base = Aggregated("wds") if base is None else base  # made here, so that its parameters can be set
        self.by = by
        self.alpha = alpha
        self.random = random
        self.soft = soft
        self.random_state = random_state

    kept_: Array

    def _check_parameters(self) -> None:
        ranks = self.by in ("waum", "aum") if isinstance(self.by, str) else isinstance(self.by, Recorder)
        require(ranks, "by", self.by, "'waum', 'aum', WAUM(...) or AUM(...)")
        alpha = self._alpha()
        fits = is_number(alpha) and 0 <= alpha < 1 and (alpha > 0 or not self.soft)
        allowed = "a quantile, above 0 and below 1" if self.soft else "a share of the tasks, 0 or more and below 1"
        require(fits, "alpha", alpha, f"{allowed}, or None")
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "a whole number, 0 or more")

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, validation, callback = inputs
        base = self._new_base()
        ranker = self._ranker(base).fit(features, answers, sample_weight=weight, callback=_staged(callback, "ranking"))
        self.scores_, self.aum_, self.trust_ = ranker.scores_, ranker.aum_, ranker.trust_
        self.kept_ = np.ones(answers.n_tasks, bool) if weight is None else weight > 0
        if self.soft:
            weight = self.weights(self._alpha(), random=self.random) * (1.0 if weight is None else weight)
        else:
            self.kept_[self.prune(self._alpha(), random=self.random).removed] = False
        if gold is not None:
            self.kept_ |= gold >= 0
        # Tasks keep their places, so X stays whole: those left out have no answers any more.
        left = answers.take(np.flatnonzero(self.kept_[answers.task]))
        self.model_ = base.fit(
            features,
            left,
            sample_weight=weight,
            gold=gold,
            validation=validation,
            callback=_staged(callback, "fitting"),
        )
        self.proba_ = base.proba_.copy()
        out = np.flatnonzero(~self.kept_)
        self.proba_[out] = in_blocks(base.predict_proba, features, out, answers.n_classes)
        stages = {"ranking": ranker.history_, "fitting": base.history_}
        self.history_ = [{"stage": stage, **record} for stage, records in stages.items() for record in records]

    def _alpha(self) -> float:
        default = SOFT_ALPHA if self.soft else ALPHA
        return default if self.alpha is None else self.alpha

    def _ranker(self, base: CrowdClassifier) -> Any:
        if isinstance(self.by, Recorder):
            return clone(self.by)
        ranker = (AUM if self.by == "aum" else WAUM)(random_state=self.random_state)
        if isinstance(base, NetworkLearner) and not hasattr(base.network, "predict_proba"):
            ranker.set_params(**{name: getattr(base, name) for name in SHARED})
        return ranker


def _staged(callback: Callback | None, stage: str) -> Callback | None:
    """A callback that is told which of the two trainings it hears of."""
    return None if callback is None else lambda record: callback({"stage": stage, **record})
