"""Parameters of a model, with the methods and the display of scikit-learn's estimators.

Importing `sklearn.base` takes longer than fitting a truth model to a small table, so truth models do not inherit from
`BaseEstimator`. scikit-learn's tools need no more than these methods.
"""

from __future__ import annotations

import copy
import inspect
import reprlib
from typing import Any, Self

from crowdwise._core.display import html_table

_SHORT = reprlib.Repr()  # long values, such as arrays, are abbreviated
_SHORT.maxother = _SHORT.maxstring = 200
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 30


class HasParameters:
    """A model whose parameters are the arguments of its constructor, stored under the same names."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters, sorted."""
        parameters = inspect.signature(cls).parameters.values()
        return sorted(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, also those of a parameter that is a model, as `outer__inner`."""
        out: dict[str, Any] = {}
        for name in self._get_param_names():
            out[name] = value = getattr(self, name)
            if deep and is_model(value):
                out |= {f"{name}__{inner}": part for inner, part in value.get_params().items()}
        return out

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, those of a parameter that is a model by `outer__inner`."""
        known = self._get_param_names()
        inner: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            outer, separator, rest = name.partition("__")
            if outer not in known:
                message = f"{type(self).__name__} has no parameter {outer!r}; it has {', '.join(known)}."
                raise ValueError(message)
            if separator:
                inner.setdefault(outer, {})[rest] = value
            else:
                setattr(self, name, value)
        for outer, values in inner.items():
            getattr(self, outer).set_params(**values)
        return self

    def __repr__(self) -> str:
        """Show the parameters that differ from their defaults."""
        defaults = {name: each.default for name, each in inspect.signature(type(self)).parameters.items()}
        values = self.get_params(deep=False).items()
        changed = [f"{name}={_SHORT.repr(value)}" for name, value in values if repr(value) != repr(defaults[name])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        rows = [(name, _SHORT.repr(value)) for name, value in self.get_params(deep=False).items()]
        return html_table(rows, paragraphs=[type(self).__name__])

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()


def is_model(value: Any) -> bool:
    """Return whether a value is a model with parameters, ours or scikit-learn's, rather than a class of them."""
    return hasattr(value, "get_params") and not isinstance(value, type)


def unfitted(model: Any) -> Any:
    """Return a new model with the same parameters, as `sklearn.base.clone` does.

    >>> from crowdwise import DawidSkene
    >>> unfitted(DawidSkene(max_iter=10))
    DawidSkene(max_iter=10)
    """
    parameters = {
        name: unfitted(value) if is_model(value) else copy.deepcopy(value)
        for name, value in model.get_params(deep=False).items()
    }
    return type(model)(**parameters)
