import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import crowdwise as cw


def test_import_is_light():
    """No heavy library is imported before a public name is used."""
    code = "import sys, crowdwise; print({'torch', 'pyspark', 'altair', 'pandas', 'numba'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_a_truth_model_needs_neither_scipy_nor_scikit_learn():
    """Importing them takes longer than fitting a small table."""
    code = """if True:
        import sys
        import crowdwise as cw
        answers = cw.Answers.from_arrays([1, 1, 2, 2], [3, 4, 3, 4], ["x", "y", "x", "x"])
        print(cw.DawidSkene().fit(answers).labels_[1], {'scipy.special', 'sklearn'} & set(sys.modules))"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "x set()"


def test_the_core_works_without_extras(tmp_path):
    """All modules are hidden except those of the direct and indirect dependencies of the core."""
    root = Path(__file__).parents[2]
    from scripts.licences_page import asked, brought

    core = {name for name, (_, extras) in asked().items() if not extras}
    known = core | brought(core).keys() | {"crowdwise"}
    homes = {module: {canonicalize_name(name) for name in names} for module, names in packages_distributions().items()}
    hidden = [module for module, names in homes.items() if not names & known]
    assert "pytest" in hidden and "numpy" not in hidden
    command = [sys.executable, root / "tests/helpers/core_only.py", "torch", "pandas", *hidden]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_public_names_can_be_imported():
    for name in cw.__all__:
        assert getattr(cw, name) is not None
    assert "Answers" in dir(cw)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = cw.no_such_name
