"""`make test-lowest` installs the oldest versions that pyproject.toml allows."""

import os
from importlib.metadata import version

import pytest
from packaging.version import Version

from scripts.lowest_versions import PROJECT, lowest


def test_every_dependency_has_one_lower_bound():
    bounds = lowest(PROJECT.read_text())
    assert {"numpy", "scipy", "scikit-learn", "pandas"} <= bounds.keys()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"numpy>=2.0"', '"numpy"', "numpy .*no lower bound"),
        ('["vl-convert-python>=1.6"', '["vl-convert-python>=1.7"', "vl-convert-python has two"),
    ],
)
def test_a_missing_or_second_bound_is_rejected(before, after, message):
    text = PROJECT.read_text()
    assert before in text
    with pytest.raises(AssertionError, match=message):
        lowest(text.replace(before, after, 1))


@pytest.mark.skipif("CROWDWISE_LOWEST" not in os.environ, reason="only in `make test-lowest`")
@pytest.mark.parametrize(("name", "bound"), lowest(PROJECT.read_text()).items())
def test_the_lowest_version_is_installed(name, bound):
    assert Version(version(name)) == Version(bound)
