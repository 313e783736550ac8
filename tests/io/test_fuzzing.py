"""Intact and damaged files of every format, drawn by Hypothesis: right answers, or a crowdwise error.

The checks are in fuzz_targets.py. A few thousand fixed cases here; a million in benchmarks/fuzzing.py, with other seeds
and guided by coverage.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, seed

from tests.helpers import fuzz_others
from tests.helpers.fuzz_documents import WRITERS, Document
from tests.helpers.fuzz_strategies import damaged_documents, documents, fixed_settings
from tests.helpers.fuzz_targets import SECONDS, alarm, damaged, judge, judge_side_columns, judge_truth

FOUND = sorted((Path(__file__).parent / "fuzz_found").iterdir())
pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.CrowdwiseWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzzing")


@pytest.mark.parametrize("form", WRITERS)
def test_intact_files_give_the_answers_written(form, folder):
    @seed(0)
    @fixed_settings(25)
    @given(documents(form))
    def check(case):
        assert judge(case, folder) == "right"

    check()


@pytest.mark.parametrize("form", WRITERS)
def test_damaged_files_are_rejected_or_read_right(form, folder):
    @seed(0)
    @fixed_settings(15)
    @given(damaged_documents(form))
    def check(case):
        judge(case, folder)

    check()


@pytest.mark.parametrize("target", [judge, judge_side_columns, judge_truth])
def test_more_damaged_files(target, folder):
    """Drawn without Hypothesis, which takes ten times as long; a failure is reproduced by its seed."""
    for form in WRITERS:
        for number in range(80 if target is judge else 20):
            with alarm(SECONDS):
                target(damaged(form, Random(number)), folder)


@pytest.mark.parametrize("target", ["frame_intact", "frame_odd", "features_intact", "features_damaged"])
def test_tables_and_features(target, folder):
    for number in range(200):
        with alarm(SECONDS):
            getattr(fuzz_others, target)(Random(number), folder)


def test_damaged_run_folders(folder):
    for number in range(50):
        with alarm(SECONDS):
            fuzz_others.run_damaged(Random(number), folder)


def test_forged_run_folders(folder):
    for number in range(20):
        with alarm(SECONDS):
            fuzz_others.run_forged(Random(number), folder)


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.name)
def test_files_that_fuzzing_found(file, folder):
    """Each file once raised another exception, or crashed the process."""
    for options in ({}, {"format": "argilla"}, {"format": "cleanlab"}):
        judge(Document(file.name, file.read_bytes(), options, None), folder)


@pytest.mark.parametrize("seed", [1001075, 1004020])
def test_archives_of_features_that_fuzzing_found(seed, folder):
    """A member has different names in the central directory and in its header."""
    assert fuzz_others.features_damaged(Random(seed), folder) == "FormatError"


@pytest.mark.parametrize("seed", [1001635, 1003630])
def test_numbers_that_fuzzing_found(seed, folder):
    """The id 2**53 + 1 next to a fraction: as a float it equals 2**53."""
    judge(damaged("jsonl", Random(seed)), folder)


@pytest.mark.parametrize(
    ("form", "seed"), [("inspect", 3000152), ("inspect", 3000501), ("lm-eval", 3000346), ("lm-eval", 3000528)]
)
def test_logs_of_evaluations_that_fuzzing_found(form, seed, folder):
    """The list of scorers is a number; a likelihood is an object."""
    judge(damaged(form, Random(seed)), folder)
