"""Interrupted runs are resumed; unsuitable folders are rejected."""

import json
import os

import pytest

import crowdwise as cw
from crowdwise.errors import BusyError, FormatError, ParameterError
from crowdwise.run import Progress, Run, run
from crowdwise.run.stored_files import FORMAT

QUICK = ["one-coin", "dawid-skene"]


class Killed(Exception):
    pass


def crowd(seed=4):
    return cw.simulate.simulate(200, n_workers=10, n_classes=3, answers_per_task=3, seed=seed)


def content(folder):
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "times.json"
    }


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The files of a run that was not interrupted."""
    return content(run(crowd(), tmp_path_factory.mktemp("complete") / "run", method=QUICK).path)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6])
def test_a_run_interrupted_at_any_step_resumes_to_the_same_result(tmp_path, step, complete):
    def stop(at: Progress) -> None:
        if at.step == step and (at.done or 2) >= 2:
            raise Killed

    with pytest.raises(Killed):
        run(crowd(), tmp_path / "broken" / "run", method=QUICK, callback=stop)
    if step < 6:  # at step 6 only the report is missing
        with pytest.raises(FormatError, match="--resume"):
            Run(tmp_path / "broken" / "run")
    with pytest.raises(ParameterError, match="unfinished run" if step < 6 else "holds a run"):
        run(crowd(), tmp_path / "broken" / "run", method=QUICK)
    assert content(run(crowd(), tmp_path / "broken" / "run", method=QUICK, resume=True).path) == complete


def test_finished_parts_are_not_repeated(tmp_path):
    seen = []

    def stop(at: Progress) -> None:
        if at.step == 4:
            raise Killed

    with pytest.raises(Killed):
        run(crowd(), tmp_path / "run", method=QUICK, callback=stop)
    run(crowd(), tmp_path / "run", method=QUICK, callback=seen.append, resume=True)
    assert not [at for at in seen if at.what.startswith("Fitting ") and at.done]
    fresh = []
    run(crowd(), tmp_path / "run", method=QUICK, callback=fresh.append, resume=True)
    assert not fresh  # a finished run is returned unchanged
    assert not (tmp_path / "run" / ".work").exists()
    times = json.loads((tmp_path / "run" / "times.json").read_text())
    assert len(times) == 6 and "Writing the report" in times


def test_a_run_killed_right_at_its_start_can_be_started_again(tmp_path):
    (tmp_path / "run" / ".work").mkdir(parents=True)
    (tmp_path / "run" / ".config.json.12ab34cd").write_text("{")
    run(crowd(), tmp_path / "run", method=QUICK, resume=True)
    assert Run(tmp_path / "run").metrics["format"] == FORMAT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed"),
        ({"accept": 0.8}, "accept"),
        ({"method": ["glad"]}, "method"),
        ({"answers": crowd(5)}, "answers"),
    ],
)
def test_a_folder_of_a_run_with_other_settings_is_rejected(tmp_path, change, message):
    run(crowd(), tmp_path / "run", method=QUICK)
    given = {"answers": crowd(), "method": QUICK} | change
    with pytest.raises(ParameterError, match=message):
        run(given.pop("answers"), tmp_path / "run", resume=True, **given)


def test_folders_with_other_files_are_rejected_and_unchanged(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ParameterError, match="not from a run"):
        run(crowd(), tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="is a file"):
        run(crowd(), tmp_path / "file")
    with pytest.raises(FormatError, match="No run folder"):
        Run(tmp_path / "nothing")
    with pytest.raises(FormatError, match="not a run folder"):
        Run(tmp_path / "mine")


def test_a_damaged_or_newer_folder_is_rejected(tmp_path):
    made = run(crowd(), tmp_path / "run", method=QUICK)
    text = (made.path / "metrics.json").read_text()
    (made.path / "metrics.json").write_text(text.replace(f'"format": {FORMAT}', '"format": 99', 1))
    with pytest.raises(FormatError, match="format 99"):
        Run(made.path)
    (made.path / "metrics.json").write_text(text[:100])
    with pytest.raises(FormatError, match=r"is damaged.*new folder"):
        Run(made.path)


def test_progress_reports_every_step(tmp_path):
    seen = []
    run(crowd(), tmp_path / "run", method=QUICK, callback=seen.append)
    steps = [at.step for at in seen]
    assert steps == sorted(steps) and set(steps) == set(range(1, 7)) and {at.steps for at in seen} == {6}
    left = [at.left for at in seen if at.left is not None]
    assert left and min(left) >= 0


def test_a_folder_in_use_is_rejected_but_the_lock_of_a_dead_run_is_ignored(tmp_path):
    def run_twice(at: Progress) -> None:
        if at.step == 2:
            with pytest.raises(BusyError, match=f"process {os.getpid()}"):
                run(crowd(), tmp_path / "run", method=QUICK, resume=True)
            raise Killed

    with pytest.raises(Killed):
        run(crowd(), tmp_path / "run", method=QUICK, callback=run_twice)
    (tmp_path / "run" / ".lock").write_text('{"process": 1')  # left by a killed process
    (tmp_path / "run" / ".labels.csv.0a1b2c3d.partial").mkdir()
    made = run(crowd(), tmp_path / "run", method=QUICK, resume=True)
    assert not [file for file in made.path.iterdir() if file.name.startswith(".")]
