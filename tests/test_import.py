import subprocess
import sys

import pytest

import crowdwise as cw


def test_import_is_light():
    """Neither torch nor Spark nor plotting, and no numeric library before a name is used."""
    code = "import sys, crowdwise; print({'torch', 'pyspark', 'altair', 'pandas', 'numba'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_public_names():
    for name in cw.__all__:
        assert getattr(cw, name) is not None
    assert "Answers" in dir(cw)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = cw.no_such_name
