"""Files of every format, whole and damaged, drawn by Hypothesis: right answers, or an error of ours.

What is right is in fuzz_targets.py. A few thousand here, the same every time; a million in benchmarks/fuzzing.py, with
other seeds, and guided by coverage.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, seed

from tests.helpers import fuzz_others
from tests.helpers.fuzz_documents import WRITERS, Document
from tests.helpers.fuzz_strategies import damaged_documents, documents, settings_of
from tests.helpers.fuzz_targets import SECONDS, alarm, damaged, judge, judge_beside, judge_truth

FOUND = sorted((Path(__file__).parent / "fuzz_found").iterdir())
pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.CrowdwiseWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzzing")


@pytest.mark.parametrize("form", WRITERS)
def test_what_is_read_is_what_was_written(form, folder):
    @seed(0)
    @settings_of(25)
    @given(documents(form))
    def check(case):
        assert judge(case, folder) == "right"

    check()


@pytest.mark.parametrize("form", WRITERS)
def test_damaged_files_are_refused_or_read_right(form, folder):
    @seed(0)
    @settings_of(15)
    @given(damaged_documents(form))
    def check(case):
        judge(case, folder)

    check()


@pytest.mark.parametrize("judged", [judge, judge_beside, judge_truth])
def test_more_damaged_files(judged, folder):
    """Drawn without Hypothesis, which takes ten times as long: what fails here is a seed."""
    for form in WRITERS:
        for number in range(80 if judged is judge else 20):
            with alarm(SECONDS):
                judged(damaged(form, Random(number)), folder)


@pytest.mark.parametrize("target", ["frame_whole", "frame_odd", "features_whole", "features_damaged"])
def test_tables_and_features(target, folder):
    for number in range(200):
        with alarm(SECONDS):
            getattr(fuzz_others, target)(Random(number), folder)


def test_damaged_run_folders(folder):
    for number in range(50):
        with alarm(SECONDS):
            fuzz_others.run_damaged(Random(number), folder)


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.name)
def test_files_that_fuzzing_found(file, folder):
    """Each of them ended in something else than an error of ours, or ended the process."""
    for options in ({}, {"format": "argilla"}, {"format": "cleanlab"}):
        judge(Document(file.name, file.read_bytes(), options, None), folder)


@pytest.mark.parametrize("seed", [1001075, 1004020])
def test_archives_of_features_that_fuzzing_found(seed, folder):
    """A member goes by another name in the archive's table than in its head."""
    assert fuzz_others.features_damaged(Random(seed), folder) == "FormatError"


@pytest.mark.parametrize("seed", [1001635, 1003630])
def test_numbers_that_fuzzing_found(seed, folder):
    """2**53 + 1 as an id, beside a fraction: as floats both that and 2**53."""
    judge(damaged("jsonl", Random(seed)), folder)
