"""No cache of the library keeps a model or its data alive. Memory, files and threads: `python -m benchmarks leaks`."""

import gc
import warnings
import weakref

import pytest

import crowdwise as cw
from tests.helpers.every_method import FEWEST, LEARNERS, TRUTH, crowd, fitted


@pytest.fixture(scope="module", autouse=True)
def fast_collection():
    """Exclude all objects that exist already from the search for garbage, which is slow otherwise."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", [*TRUTH, *LEARNERS])
def test_model_and_its_data_are_freed_together(name):
    X, answers = crowd(12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.errors.CrowdwiseWarning)
        model = fitted(name, X, answers, FEWEST)
        if name in LEARNERS:
            model.predict_proba(X)
    references = [weakref.ref(thing) for thing in (model, answers, X, model.proba_)]
    del X, answers, model
    gc.collect()
    assert [reference() is None for reference in references] == [True] * 4
