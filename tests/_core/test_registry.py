from importlib.util import find_spec

import pytest

import crowdwise as cw
from crowdwise._core import registry
from crowdwise._core.registry import Method, find_method
from crowdwise.errors import ParameterError


@pytest.mark.parametrize("method", cw.methods(), ids=lambda method: method.name)
def test_every_name_makes_its_method(method):
    if find_spec(f"crowdwise.{method.home.partition(':')[0]}") is None:
        pytest.skip("not written yet")
    model = cw.make(method.name)
    assert type(model) is method.load()
    assert type(model).__doc__
    assert hasattr(model, "predict_proba") == method.needs_features


@pytest.mark.parametrize("method", cw.methods(), ids=lambda method: method.name)
def test_every_method_is_public(method):
    if find_spec(f"crowdwise.{method.home.partition(':')[0]}") is None:
        pytest.skip("not written yet")
    name = method.load().__name__
    assert name in cw.__all__
    assert getattr(cw, name) is method.load()


def test_names_are_told_apart():
    names = [method.name for method in cw.methods()]
    assert len(set(names)) == len(names)
    assert not any(mark in name for name in names for mark in "() ")


def test_parameters_are_passed_and_typos_answered():
    assert cw.make("dawid-skene", max_iter=3).max_iter == 3
    with pytest.raises(ParameterError, match="dawid-skene"):
        cw.make("david-skene")
    with pytest.raises(ParameterError, match=r"no method 'xyzzy'. `crowdwise methods` lists them all"):
        cw.make("xyzzy")


class Around:
    """A model of models."""

    def __init__(self, base, *, share=0.5):
        self.base, self.share = base, share


@pytest.fixture
def around(monkeypatch):
    """A method that takes another one, whatever it is."""
    method = Method("around", "none:Around", "-", "-", needs_features=True, takes_model=True)
    load = Method.load
    monkeypatch.setattr(Method, "load", lambda self: Around if self is method else load(self))
    monkeypatch.setitem(registry._BY_NAME, "around", method)
    return method


@pytest.mark.usefixtures("around")
def test_composites():
    model = cw.make("around(dawid-skene)", share=0.2)
    assert type(model.base) is cw.DawidSkene
    assert model.share == 0.2
    deep = cw.make(" around ( around( mace ) ) ", share=0.1)
    assert (deep.share, deep.base.share) == (0.1, 0.5)
    assert type(deep.base.base) is cw.MACE


def test_aggregated():
    model = cw.make("aggregated(dawid-skene)", epochs=3)
    assert type(model.truth) is cw.DawidSkene
    assert model.epochs == 3


def test_line_is_the_outermost_s(around):
    assert find_method("around(dawid-skene)") is around
    assert find_method("dawid-skene").name == "dawid-skene"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("around(dawid-skene", "1 opening and 0 closing brackets"),
        ("around(dawid-skene))", "1 opening and 2 closing"),
        ("around)", "0 opening and 1 closing"),
        ("around(mace) x", "'x' does at position 14"),
        ("around(mace)(wawa)", r"'\(' does at position 13"),
        ("around( dawid )", "no method 'dawid' at position 9 of .* Did you mean dawid-skene"),
        ("arond(mace)", r"no method 'arond' at position 1 of 'arond\(mace\)'. Did you mean around"),
        ("around()", "no method '' at position 8"),
        ("(mace)", "no method '' at position 1"),
        ("", "no method ''"),
        ("mace(wawa)", r"mace takes no other method in brackets \(these do: .*aggregated"),
        ("around(mace(wawa))", "mace takes no other method"),
        ("around(mace, wawa)", "no method 'mace, wawa' at position 8"),
    ],
)
@pytest.mark.usefixtures("around")
def test_composites_gone_wrong(name, words):
    with pytest.raises(ParameterError, match=words):
        cw.make(name)


def test_names_that_are_nearly_right():
    with pytest.raises(ParameterError, match="Did you mean dasc"):
        cw.make("DASC(CrowdLayer)")
    with pytest.raises(ParameterError, match="Did you mean crowding"):
        cw.make("CrowdInG")
    with pytest.raises(ParameterError, match="no name of a method"):
        cw.make(None)


def test_parameters_of_a_base_that_is_only_named():
    model = cw.make("dasc").set_params(base__epochs=3)
    assert (type(model.base), model.base.epochs) == (cw.CrowdLayer, 3)
