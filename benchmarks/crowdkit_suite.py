"""Run crowd-kit's own tests against `crowdwise.compat.crowdkit`: `python -m benchmarks crowdkit-suite PATH`.

PATH is a checkout of crowd-kit's repository. Its tests are copied to a temporary folder, where `crowdkit` is replaced
by `crowdwise.compat.crowdkit` in every import, and pytest runs the files of classification, comparisons and metrics.
Tests on the list in docs/compat.md, each with a reason, do not count. The exit code is 1 if another test fails.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.files import ROOT

PAGE = ROOT / "docs" / "compat.md"
FILES = (
    "aggregation/test_classification_aggregation.py",
    "aggregation/test_classification_aggregation_edge_cases.py",
    "aggregation/test_ds_aggregation.py",
    "aggregation/test_glad_aggregation.py",
    "aggregation/test_bt_aggregation.py",
    "aggregation/test_kos_aggregation.py",
    "aggregation/test_mace_aggregation.py",
    "metrics/test_metrics.py",
    "test_utils.py",
)


def listed_tests(page: str) -> set[str]:
    """Return the tests in the first column of the page's table, as `file::test`.

    >>> sorted(listed_tests("| `test_x.py::test_a[em]` | a reason |"))
    ['test_x.py::test_a[em]']
    """
    return set(re.findall(r"^\| `(test_\w+\.py::[^`]+)` \|", page, flags=re.MULTILINE))


def rewritten(source: str) -> str:
    """Return the source of a test that imports our package instead of crowd-kit.

    >>> rewritten("from crowdkit.aggregation import KOS")
    'from crowdwise.compat.crowdkit.aggregation import KOS'
    """
    return re.sub(r"^(\s*(?:from|import) )crowdkit\b", r"\1crowdwise.compat.crowdkit", source, flags=re.MULTILINE)


def run_tests(checkout: Path) -> dict[str, bool]:
    """Return whether each test passes, by `file::test`."""
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(shutil.copytree(checkout / "tests", Path(folder) / "tests"))
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")  # settings of neither project apply
        for path in tests.rglob("*.py"):
            path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
        files = [str(Path("tests") / name) for name in FILES if (tests / name).exists()]
        options = ["-q", "-p", "no:cacheprovider", "--junitxml", "results.xml", "--tb", "short"]
        done = subprocess.run([sys.executable, "-m", "pytest", *options, *files], cwd=folder)
        if done.returncode not in (0, 1):
            sys.exit(f"error: pytest stopped with code {done.returncode}, see above.")
        return read_results(Path(folder) / "results.xml")


def read_results(path: Path) -> dict[str, bool]:
    """Return whether each test in pytest's JUnit file passed, by `file::test`."""
    passed = {}
    for case in ElementTree.parse(path).iter("testcase"):
        parts = [part for part in case.attrib["classname"].split(".") if part.startswith("test_")]
        failed = case.find("failure") is not None or case.find("error") is not None
        passed[f"{parts[-1]}.py::{case.attrib['name']}"] = not failed
    return passed


def main() -> None:
    """Run the tests and print how many passed, failed and are on the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="checkout of crowd-kit's repository")
    checkout = parser.parse_args().path
    if not (checkout / "tests" / FILES[0]).exists():
        sys.exit(f"error: {checkout} has no tests/{FILES[0]}. Pass a checkout of crowd-kit's repository.")
    passed, listed = run_tests(checkout), listed_tests(PAGE.read_text(encoding="utf-8"))
    failed = sorted(name for name, passes in passed.items() if not passes and name not in listed)
    excused = sorted(name for name, passes in passed.items() if not passes and name in listed)
    print(f"passed {sum(passed.values())}, failed {len(failed)}, listed {len(excused)}")
    for name in failed:
        print(f"  failed: {name}")
    for name in sorted(listed - set(excused)):
        print(f"  on the list, but not among the failures: {name}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
