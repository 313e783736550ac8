"""Fit any learner without the most ambiguous tasks: WAUM + WDS, WAUM + CoNAL, and so on.

    scores    by WAUM or AUM, per task
    kept      tasks that score above the alpha-quantile; as a control, equally many at random
    base      fitted on the answers to the kept tasks; the others remain as tasks without answers

The paper's method is WAUM + WDS: `Pruned()`, a network on the weighted Dawid-Skene labels of the kept tasks. With
`soft` (ours) no task is removed, but ambiguous ones have less weight. Lefort et al., as in `waum`: pruning 1% of
LabelMe improves CoNAL there. It cannot help if the classifier must learn to separate exactly the ambiguous tasks.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.ambiguity.aum import AUM
from crowdwise.ambiguity.ranking import ALPHA, SOFT_ALPHA, TaskRanker, predict_in_blocks
from crowdwise.ambiguity.recorder import MarginRecorder
from crowdwise.ambiguity.waum import WAUM
from crowdwise.learn.base import Array, Callback, CrowdClassifier, FitInput
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.plans import plan_learner
from crowdwise.learn.wrapper import Wrapper
from crowdwise.truth.base import TruthModel

# Options that a ranker given by name takes from the base.
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

    Tasks with gold labels are never removed. The base uses gold; the ranking does not.

    Parameters
    ----------
    base : learner, truth model or the name of one
        Model to fit on the kept tasks (default: WDS). A truth model is wrapped in the learner that trains on its
        labels.
    by : "waum", "aum", WAUM(...) or AUM(...)
        The ranker. If given by name, it takes network and training options from the base, if the base trains a
        network.
    alpha : float or None
        Share of the tasks to remove, see `WAUM.prune`; with `soft`, the quantile of half weight, see `WAUM.weights`.
        None is 0.01, or 0.1 with `soft`.
    random : bool
        Control experiment: remove equally many tasks, or assign the same weights, at random.
    soft : bool
        Give ambiguous tasks less weight instead of removing them.
    random_state : int
        Seed of the control, and of a ranker given by name.

    Attributes
    ----------
    kept_ : (tasks,) bool array
        Which tasks the base was fitted on.
    scores_, aum_, trust_, worker_trust_
        As in `WAUM`; `ranking()` is the table.
    model_ : CrowdClassifier
        The fitted base. `proba_` is its `proba_` for kept tasks and its prediction for the others.

    Examples
    --------
    >>> from crowdwise import CoNAL, Pruned, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = Pruned(CoNAL(epochs=2), alpha=0.1).fit(X, answers)
    >>> int(model.kept_.sum()), model.proba_.shape, model.ranking(3).num_rows
    (664, (738, 10), 3)
    """

    aum_: Array
    base: Any
    history_: list[dict[str, Any]]
    proba_: Array
    scores_: Array
    trust_: Array

    def __init__(
        self,
        base: CrowdClassifier | TruthModel | str | None = None,
        by: MarginRecorder | Literal["waum", "aum"] = "waum",
        *,
        alpha: float | None = None,
        random: bool = False,
        soft: bool = False,
        random_state: int = 0,
    ) -> None:
        self.base = Aggregated("wds") if base is None else base  # built here, so that `set_params` reaches it
        self.by = by
        self.alpha = alpha
        self.random = random
        self.soft = soft
        self.random_state = random_state

    kept_: Array

    def _check_parameters(self) -> None:
        valid = self.by in ("waum", "aum") if isinstance(self.by, str) else isinstance(self.by, MarginRecorder)
        require(valid, "by", self.by, "'waum', 'aum', WAUM(...) or AUM(...)")
        alpha = self._alpha()
        fits = is_number(alpha) and 0 <= alpha < 1 and (alpha > 0 or not self.soft)
        allowed = "a quantile, above 0 and below 1" if self.soft else "a share of the tasks, at least 0 and below 1"
        require(fits, "alpha", alpha, f"{allowed}, or None")
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "an integer of 0 or more")

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, validation, callback = inputs
        base = self._new_base()
        if isinstance(base, NetworkLearner):  # one search, also for a ranker with the options of the base
            base = plan_learner(base, inputs._replace(callback=_stage_callback(callback, "search")))
        ranker = self._ranker(base).fit(
            features, answers, sample_weight=weight, callback=_stage_callback(callback, "ranking")
        )
        self.scores_, self.aum_, self.trust_ = ranker.scores_, ranker.aum_, ranker.trust_
        self.kept_ = np.ones(answers.n_tasks, bool) if weight is None else weight > 0
        if self.soft:
            weight = self.weights(self._alpha(), random=self.random) * (1.0 if weight is None else weight)
        else:
            self.kept_[self.prune(self._alpha(), random=self.random).removed] = False
        if gold is not None:
            self.kept_ |= gold >= 0
        # Removed tasks stay without answers, so that rows of X still match.
        kept = answers.take(np.flatnonzero(self.kept_[answers.task]))
        self.model_ = base.fit(
            features,
            kept,
            sample_weight=weight,
            gold=gold,
            validation=validation,
            callback=_stage_callback(callback, "fitting"),
        )
        self.proba_ = base.proba_.copy()
        removed = np.flatnonzero(~self.kept_)
        self.proba_[removed] = predict_in_blocks(base.predict_proba, features, removed, answers.n_classes)
        stages = {"ranking": ranker.history_, "fitting": base.history_}
        self.history_ = [{"stage": stage, **record} for stage, records in stages.items() for record in records]

    def _alpha(self) -> float:
        default = SOFT_ALPHA if self.soft else ALPHA
        return default if self.alpha is None else self.alpha

    def _ranker(self, base: CrowdClassifier) -> Any:
        if isinstance(self.by, MarginRecorder):
            return clone(self.by)
        ranker = (AUM if self.by == "aum" else WAUM)(random_state=self.random_state)
        if isinstance(base, NetworkLearner) and not hasattr(base.network, "predict_proba"):
            ranker.set_params(**{name: getattr(base, name) for name in SHARED})
        return ranker


def _stage_callback(callback: Callback | None, stage: str) -> Callback | None:
    """Return a callback whose records name the stage of the training."""
    return None if callback is None else lambda record: callback({"stage": stage, **record})
