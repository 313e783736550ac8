import pytest

import crowdwise as cw
from crowdwise._core import registry
from crowdwise._core.registry import Method, find_method
from crowdwise.errors import ParameterError


@pytest.mark.parametrize("method", cw.methods(), ids=lambda method: method.name)
def test_make_builds_every_method_by_name(method):
    model = cw.make(method.name)
    assert type(model) is method.load()
    assert type(model).__doc__
    assert hasattr(model, "predict_proba") == (method.needs_features and method.kind == "classes")
    assert model.answer_kind == method.kind


@pytest.mark.parametrize("method", cw.methods(), ids=lambda method: method.name)
def test_every_method_is_public(method):
    name = method.load().__name__
    assert name in cw.__all__
    assert getattr(cw, name) is method.load()


def test_methods_can_be_listed_by_kind():
    ratings = cw.methods("ratings")
    assert {"mean", "median"} <= {method.name for method in ratings}
    assert not {method.name for method in cw.methods("classes")} & {method.name for method in ratings}
    with pytest.raises(ParameterError, match="no methods for the kind 'grades'; the kinds are classes, ratings"):
        cw.methods("grades")


def test_names_are_unique_and_plain():
    names = [method.name for method in cw.methods()]
    assert len(set(names)) == len(names)
    assert not any(mark in name for name in names for mark in "() ")


def test_parameters_are_passed_and_typos_are_suggested():
    assert cw.make("dawid-skene", max_iter=3).max_iter == 3
    with pytest.raises(ParameterError, match="dawid-skene"):
        cw.make("david-skene")
    with pytest.raises(ParameterError, match=r"no method 'xyzzy'. `crowdwise methods` lists them all"):
        cw.make("xyzzy")


class Around:
    """A model that wraps another one."""

    def __init__(self, base, *, share=0.5):
        self.base, self.share = base, share


@pytest.fixture
def around(monkeypatch):
    """A registered method that takes any other one."""
    method = Method("around", "none:Around", "-", "-", needs_features=True, takes_model=True)
    load = Method.load
    monkeypatch.setattr(Method, "load", lambda self: Around if self is method else load(self))
    monkeypatch.setitem(registry._BY_NAME, "around", method)
    return method


@pytest.mark.usefixtures("around")
def test_composite_names_build_nested_models():
    model = cw.make("around(dawid-skene)", share=0.2)
    assert type(model.base) is cw.DawidSkene
    assert model.share == 0.2
    deep = cw.make(" around ( around( mace ) ) ", share=0.1)
    assert (deep.share, deep.base.share) == (0.1, 0.5)
    assert type(deep.base.base) is cw.MACE


def test_aggregated_takes_a_truth_model_and_parameters():
    model = cw.make("aggregated(dawid-skene)", epochs=3)
    assert type(model.truth) is cw.DawidSkene
    assert model.epochs == 3


def test_find_method_returns_the_outer_method(around):
    assert find_method("around(dawid-skene)") is around
    assert find_method("dawid-skene").name == "dawid-skene"


@pytest.mark.parametrize(
    ("name", "error"),
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
def test_invalid_composite_names_are_explained(name, error):
    with pytest.raises(ParameterError, match=error):
        cw.make(name)


def test_class_names_and_other_types_are_explained():
    with pytest.raises(ParameterError, match="Did you mean dasc"):
        cw.make("DASC(CrowdLayer)")
    with pytest.raises(ParameterError, match="Did you mean crowding"):
        cw.make("CrowdInG")
    with pytest.raises(ParameterError, match="not the name of a method"):
        cw.make(None)


def test_nested_parameters_of_a_base_given_by_name():
    model = cw.make("dasc").set_params(base__epochs=3)
    assert (type(model.base), model.base.epochs) == (cw.CrowdLayer, 3)
