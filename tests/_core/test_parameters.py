import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import crowdwise as cw
from crowdwise._core.parameters import HasParameters, unfitted


class Ours(HasParameters):
    def __init__(self, a=1, *, inner=None, b="x"):
        self.a, self.inner, self.b = a, inner, b


class Theirs(BaseEstimator):
    def __init__(self, a=1, *, inner=None, b="x"):
        self.a, self.inner, self.b = a, inner, b


@pytest.mark.parametrize("changes", [{}, {"a": 2}, {"a": 2, "inner": "model"}, {"b": np.nan}])
def test_parameters_are_those_of_scikit_learn(changes):
    """scikit-learn's own base class is the reference."""
    ours, theirs = ({**changes, "inner": cls(a=5)} if "inner" in changes else changes for cls in (Ours, Theirs))
    ours, theirs = Ours(**ours), Theirs(**theirs)
    assert repr(ours).replace("Ours", "Theirs") == repr(theirs)
    for deep in (True, False):
        assert ours.get_params(deep).keys() == theirs.get_params(deep).keys()
    if "inner" in changes:
        for model in (ours, theirs):
            model.set_params(inner__a=7, b="y")
        assert ours.inner.a == theirs.inner.a == 7 and ours.b == "y"
    assert repr(clone(ours)) == repr(unfitted(ours)) == repr(ours)


def test_an_unknown_parameter_is_named():
    with pytest.raises(ValueError, match="Ours has no parameter 'c'; it has a, b, inner"):
        Ours().set_params(c=1)


def test_the_copy_shares_nothing_and_is_not_fitted(tiny=((1, 1), ("a", "b"), ("x", "y"))):
    model = cw.WDS(cw.DawidSkene(prior=np.ones((2, 2)))).fit(cw.Answers.from_arrays(*tiny))
    copy = unfitted(model)
    assert copy.base is not model.base and copy.base.prior is not model.base.prior
    assert not hasattr(copy, "answers_")
