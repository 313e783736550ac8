import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError


def test_every_name_makes_its_method():
    assert len({m.name for m in cw.methods()}) == len(cw.methods())
    for method in cw.methods():
        model = cw.make(method.name)
        assert type(model) is method.load()
        assert type(model).__name__ in cw.__all__
        assert getattr(cw, type(model).__name__) is type(model)
        assert method.what_for
        assert type(model).__doc__


def test_parameters_are_passed_and_typos_answered():
    assert cw.make("dawid-skene", max_iter=3).max_iter == 3
    with pytest.raises(ParameterError, match="dawid-skene"):
        cw.make("david-skene")
