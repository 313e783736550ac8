import sys

import pytest

from benchmarks import crowdkit_suite as suite

TESTS = """
from crowdkit.aggregation.utils import factorize
import pytest

class TestFactorize:
    @pytest.mark.parametrize("name", ["a b", "c"])
    def test_values(self, name):
        assert factorize.__module__.startswith("crowdwise") and name == "c"

def test_that_stops(missing_fixture):
    pass
"""


def test_results_are_named_as_on_the_list(tmp_path, capfd, monkeypatch):
    (tmp_path / "tests" / "metrics").mkdir(parents=True)
    (tmp_path / "tests" / "metrics" / "test_metrics.py").write_text(TESTS)
    results = suite.run_tests(tmp_path)
    assert results == {
        "test_metrics.py::test_values[a b]": False,
        "test_metrics.py::test_values[c]": True,
        "test_metrics.py::test_that_stops": False,
    }
    monkeypatch.setattr(suite, "run_tests", lambda path: results)
    page = tmp_path / "page.md"
    page.write_text("| `test_metrics.py::test_that_stops` | reason |\n| `test_metrics.py::test_gone` | reason |\n")
    monkeypatch.setattr(suite, "PAGE", page)
    monkeypatch.setattr(suite, "FILES", ("metrics/test_metrics.py",))
    monkeypatch.setattr(sys, "argv", ["crowdkit-suite", str(tmp_path)])
    capfd.readouterr()
    with pytest.raises(SystemExit, match="1"):
        suite.main()
    out = capfd.readouterr().out
    assert out.startswith("passed 1, failed 1, listed 1\n")
    assert "failed: test_metrics.py::test_values[a b]" in out
    assert "not among the failures: test_metrics.py::test_gone" in out


def test_list_has_at_most_five_tests_and_three_of_comparisons():
    listed = suite.listed_tests(suite.PAGE.read_text())
    comparisons = {test for test in listed if test.startswith("test_bt_aggregation")}
    assert 0 < len(listed - comparisons) <= 5
    assert len(comparisons) <= 3


def test_path_without_tests_is_explained(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["crowdkit-suite", str(tmp_path)])
    with pytest.raises(SystemExit, match="Pass a checkout"):
        suite.main()
