"""Runs that are killed, and folders that are not what they should be."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import crowdwise as cw
from crowdwise.errors import BusyError, FormatError, ParameterError
from crowdwise.run import Progress, Run, run
from crowdwise.run.folder_format import FORMAT

QUICK = ["one-coin", "dawid-skene"]
SCRIPT = """
import sys, crowdwise as cw
from crowdwise.run import run
answers = cw.simulate.simulate(200, n_workers=10, n_classes=3, answers_per_task=3, seed=4)
run(answers, sys.argv[1], method=["one-coin", "dawid-skene", "glad"], resume=True)
"""


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
def whole(tmp_path_factory):
    """What an unbroken run leaves behind."""
    return content(run(crowd(), tmp_path_factory.mktemp("whole") / "run", method=QUICK).path)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6])
def test_a_run_stopped_at_any_step_goes_on_to_the_same_result(tmp_path, step, whole):
    def stop(at: Progress) -> None:
        if at.step == step and (at.done or 2) >= 2:
            raise Killed

    with pytest.raises(Killed):
        run(crowd(), tmp_path / "broken" / "run", method=QUICK, callback=stop)
    if step < 6:  # all but the report is there then
        with pytest.raises(FormatError, match="--resume"):
            Run(tmp_path / "broken" / "run")
    with pytest.raises(ParameterError, match="not finished" if step < 6 else "holds a run"):
        run(crowd(), tmp_path / "broken" / "run", method=QUICK)
    assert content(run(crowd(), tmp_path / "broken" / "run", method=QUICK, resume=True).path) == whole


def test_what_is_done_is_not_done_again(tmp_path):
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
    assert not fresh  # a finished run is given back
    assert not (tmp_path / "run" / ".work").exists()
    times = json.loads((tmp_path / "run" / "times.json").read_text())
    assert len(times) == 6 and "Writing the report" in times


def test_a_run_killed_at_its_very_start_can_be_begun_again(tmp_path):
    (tmp_path / "run" / ".work").mkdir(parents=True)
    (tmp_path / "run" / ".config.json.12ab34cd").write_text("{")
    run(crowd(), tmp_path / "run", method=QUICK, resume=True)
    assert Run(tmp_path / "run").metrics["format"] == FORMAT


def test_a_killed_process_goes_on(tmp_path):
    out = tmp_path / "killed" / "run"
    start = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(out)]) as process:
        while (
            not list((out / ".work" / "choose").glob("*")) and process.poll() is None and time.monotonic() - start < 60
        ):
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    assert not (out / "report.html").exists()
    for folder in (out, tmp_path / "whole" / "run"):
        run(crowd(), folder, method=[*QUICK, "glad"], resume=True)
    assert content(out) == content(tmp_path / "whole" / "run")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 1}, "seed"),
        ({"accept": 0.8}, "accept"),
        ({"method": ["glad"]}, "method"),
        ({"answers": crowd(5)}, "answers"),
    ],
)
def test_another_question_in_the_same_folder_is_refused(tmp_path, change, says):
    run(crowd(), tmp_path / "run", method=QUICK)
    given = {"answers": crowd(), "method": QUICK} | change
    with pytest.raises(ParameterError, match=says):
        run(given.pop("answers"), tmp_path / "run", resume=True, **given)


def test_folders_of_something_else_are_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ParameterError, match="other files"):
        run(crowd(), tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="is a file"):
        run(crowd(), tmp_path / "file")
    with pytest.raises(FormatError, match="no run folder"):
        Run(tmp_path / "nothing")
    with pytest.raises(FormatError, match="no run"):
        Run(tmp_path / "mine")


def test_a_damaged_or_newer_folder_is_named(tmp_path):
    made = run(crowd(), tmp_path / "run", method=QUICK)
    text = (made.path / "metrics.json").read_text()
    (made.path / "metrics.json").write_text(text.replace(f'"format": {FORMAT}', '"format": 99', 1))
    with pytest.raises(FormatError, match="format 99"):
        Run(made.path)
    (made.path / "metrics.json").write_text(text[:100])
    with pytest.raises(FormatError, match=r"is damaged.*new folder"):
        Run(made.path)


def test_progress_counts_steps(tmp_path):
    seen = []
    run(crowd(), tmp_path / "run", method=QUICK, callback=seen.append)
    steps = [at.step for at in seen]
    assert steps == sorted(steps) and set(steps) == set(range(1, 7)) and {at.steps for at in seen} == {6}
    left = [at.left for at in seen if at.left is not None]
    assert left and min(left) >= 0


def test_two_runs_in_one_folder_the_second_is_refused_and_a_dead_one_is_not_minded(tmp_path):
    def meddle(at: Progress) -> None:
        if at.step == 2:
            with pytest.raises(BusyError, match=f"process {os.getpid()}"):
                run(crowd(), tmp_path / "run", method=QUICK, resume=True)
            raise Killed

    with pytest.raises(Killed):
        run(crowd(), tmp_path / "run", method=QUICK, callback=meddle)
    (tmp_path / "run" / ".lock").write_text('{"process": 1')  # as a killed process leaves it
    (tmp_path / "run" / ".labels.csv.0a1b2c3d.partial").mkdir()
    made = run(crowd(), tmp_path / "run", method=QUICK, resume=True)
    assert not [file for file in made.path.iterdir() if file.name.startswith(".")]
