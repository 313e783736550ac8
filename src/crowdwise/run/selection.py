"""Whose labels a run uses: the requested method, the default, or one that gold or held-out answers prefer.

requested   the user's choice is obeyed
pool        the default without features: held-out answers cannot tell which method is right where workers share
mistakes, so the methods are averaged rather than chosen
chosen      with features, or among methods that the user lists: by held-out answers (`choose`), unless there is
reason to doubt it (`choose.guard`)
gold        with `MIN_GOLD` gold labels or more, a method that predicts them better by two standard errors
replaces any of these but the requested one; the pool is compared and used as anchored to gold (`trust.gold_anchor`)
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.choose import Choice
from crowdwise.choose.candidates import POOL, VOTE, Candidates
from crowdwise.choose.guard import doubt
from crowdwise.errors import CrowdwiseWarning
from crowdwise.run.confidence import Evidence, anchor_pool, make_labelling
from crowdwise.run.inputs import RunInput
from crowdwise.run.tables.labels import Labelling
from crowdwise.trust import Scaling, platt_scaling
from crowdwise.trust.gold_folds import GoldScore, compare_on_gold, out_of_fold
from crowdwise.truth.base import Array, TruthModel


@dataclass(frozen=True)
class Selected:
    """The method whose labels are used, and what gold says about it."""

    method: str
    labelling: Labelling
    needs_features: bool
    doubts: dict[str, str]  # methods that held-out answers prefer, and why they were not used
    scaling: Scaling | None = None  # of the confidence, by gold; None for the pool, which is anchored
    gold_scores: dict[str, GoldScore] | None = None
    predictions: Array | None = None  # (tasks, classes), before scaling; of gold tasks by fits that did not know them


@dataclass(frozen=True)
class Selector:
    """Selects a method after all methods were fitted."""

    data: RunInput
    candidates: Candidates
    choice: Choice | None
    evidence: Evidence
    seed: int

    def select(self, models: dict[str, Any]) -> Selected:
        """Return the method to use, with its labels.

        Parameters
        ----------
        models : dict of str to fitted model
            All methods, fitted on all answers and gold.
        """
        answers, gold = self.data.answers, self.data.gold
        best, doubts = self._by_answers(models)
        scaling, scores, predictions, labelling = None, None, None, None
        if gold is not None:
            known = gold[gold >= 0]
            sample = self.data.sample
            assert sample is not None
            proba, codes, tempered = self._unseen(models, best)
            anchored = None
            if POOL in proba:
                anchored, found = anchor_pool(models[POOL], answers, self.evidence, gold, sample.weight, self.seed)
                proba[POOL], codes[POOL], tempered[POOL] = found.held_out, found.held_out_codes, found.held_out
            preferred, scores = compare_on_gold(proba, known, best, sample.weight)
            best = best if self.candidates.requested is not None else preferred
            if best == POOL and anchored is not None:
                labelling, predictions = anchored, anchored.proba.copy()
            else:
                confidence = tempered[best][np.arange(len(known)), codes[best]]
                scaling = platt_scaling(confidence, codes[best] == known, sample.weight)
                predictions = make_labelling(best, models[best], answers, self.choice, self.evidence).proba
            predictions[gold >= 0] = tempered[best]
        if labelling is None:
            labelling = make_labelling(best, models[best], answers, self.choice, self.evidence, gold, scaling)
        learner = not isinstance(models[best], TruthModel)
        return Selected(best, labelling, learner, doubts, scaling, scores, predictions)

    def _by_answers(self, models: dict[str, Any]) -> tuple[str, dict[str, str]]:
        """Return the method that answers alone select, and the reasons against others that they prefer."""
        if self.candidates.requested is not None:
            return self.candidates.requested, {}
        if self.choice is None:
            return VOTE, {}
        default = self.candidates.default
        fallback = VOTE if default is None or default not in models else default
        if fallback == POOL:
            return POOL, {}
        best, doubts = self.choice.best_, {}
        while isinstance(models[best], TruthModel) and best not in (VOTE, fallback):
            dependence = None if self.evidence.values is None else self.evidence.values.dependence
            reason = doubt(self.data.answers, models[best].codes_, dependence)
            if reason is None:
                break
            doubts[best] = reason
            ranking = [name for name in self.choice.ranking_ if name in models and name not in doubts]
            best = fallback if fallback != VOTE or not ranking else ranking[0]
        return best, doubts

    def _unseen(self, models: dict[str, Any], best: str) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
        """Return what fits that did not know the gold labels say about them: raw probabilities, labels, tempered ones.

        All methods without features are compared, and the best so far. Other learners would take too long.
        """
        data = self.data
        names = [name for name, model in models.items() if isinstance(model, TruthModel) and not model.needs_gold]
        names = list(dict.fromkeys([best, *names]))

        def fit(gold: Array | None) -> tuple[Array, ...]:
            parts: list[Array] = []
            for name in names:
                fitted = models[name]
                if name != POOL:  # fitted without gold already
                    model = copy.deepcopy(self.candidates.models.get(name, models[name]))
                    fitted = fit_model(model, data.X, data.answers, _gold_for(model, gold, data.gold))
                labelling = make_labelling(name, fitted, data.answers, self.choice, self.evidence)
                parts += [np.asarray(fitted.proba_, dtype=float), labelling.codes, labelling.proba]
            return tuple(parts)

        assert data.gold is not None
        found = out_of_fold(fit, data.gold, seed=self.seed)
        return tuple(dict(zip(names, found[part::3], strict=True)) for part in range(3))  # type: ignore[return-value]


def _gold_for(model: Any, part: Array | None, whole: Array | None) -> Array | None:
    """Return the gold of a fold; a method that needs gold gets all of it if the fold has none."""
    return whole if part is None and getattr(model, "needs_gold", False) else part


def fit_model(model: Any, X: Any, answers: Answers, gold: Array | None) -> Any:
    """Fit a truth model or a learner, without the warnings that `choose` has collected already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        return model.fit(answers, gold) if isinstance(model, TruthModel) else model.fit(X, answers, gold=gold)
