"""`Wrapper`, the base class of frameworks around a learner: they decide what it is fitted on."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sklearn.base import clone

from crowdwise._core.registry import make
from crowdwise.learn.adapter import as_model
from crowdwise.learn.base import Array, CrowdClassifier
from crowdwise.learn.features import Features
from crowdwise.truth.base import TruthModel


class Wrapper(CrowdClassifier):
    """A framework around another learner, `base`. A subclass's `_fit` sets `model_`, which makes all predictions.

    Attributes
    ----------
    model_ : CrowdClassifier
        The learner of the last fit.
    """

    # Whether fits of the base differ in length, which a base with a fixed number of epochs would not.
    own_length: ClassVar[bool] = False

    base: Any  # a learner, a truth model, the name of one, or an object with their main methods
    model_: CrowdClassifier

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters. If `base` is a name and a parameter of the base is set, the base is created first."""
        if isinstance(self.base, str) and any(name.startswith("base__") for name in parameters):
            self.base = make(self.base)
        super().set_params(**parameters)
        return self

    def _new_base(self) -> CrowdClassifier:
        """Return an unfitted learner; a truth model becomes a learner that trains on its labels."""
        base = as_model(self.base, "base")
        if isinstance(base, TruthModel):
            from crowdwise.learn.methods.aggregated import Aggregated

            return Aggregated(clone(base))
        return clone(base)

    def _takes_validation(self) -> bool:
        return self._new_base()._takes_validation()

    def member_proba(self, X: Any) -> Array:
        """Return the predictions of each network of the learner, (models, tasks, classes)."""
        self._fitted  # noqa: B018 (raises if the model is not fitted)
        model: Any = self.model_
        return model.member_proba(X) if hasattr(model, "member_proba") else model.predict_proba(X)[None]

    def _predict_proba(self, features: Features) -> Array:
        return self.model_._predict_proba(features)

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        return self.model_._proba_of_answers(features, rows, row, worker)


def resolve_base(model: Any) -> Any:
    """Replace the `base` of a framework, if a name or a truth model, by its learner, whose parameters can then be set.

    >>> resolve_base(make("dasc")).base
    CrowdLayer()
    """
    if isinstance(model, Wrapper):
        model.set_params(base=resolve_base(model._new_base()))
    return model
