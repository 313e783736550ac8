"""Commands stopped by Ctrl-C or SIGTERM: one line that says how to go on, nothing half done, the same result."""

import os
import signal
import time

import pytest
from kills import damaged, finish, jobs, left_over, make_inputs, start

BEGUN = {"run": "out/.work/choose/*", "fit": "state.safetensors", "aggregate": "labels.csv"}
GOES_ON = {
    "run": "What is finished is kept in out: --resume goes on from there.",
    "fit": "state.safetensors keeps the last whole epoch: run the same command again, and it goes on from there.",
    "aggregate": "Files that were written are whole; the same command starts anew.",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.mark.parametrize("name", ["aggregate", "fit", "run"])
def test_stopped_it_says_how_to_go_on_and_does(name, inputs, tmp_path):
    job = jobs(inputs)[name]
    unbroken, folder = tmp_path / "unbroken", tmp_path / name
    unbroken.mkdir()
    folder.mkdir()
    finish(job, unbroken)
    for number, code, by in ((signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")):
        since, said = time.time(), folder.with_suffix(".said.txt")
        said.unlink(missing_ok=True)
        process = start(job, folder)
        while not any(file.stat().st_mtime >= since for file in folder.glob(BEGUN[name])):
            time.sleep(0.002)
            assert process.is_alive()
        os.killpg(process.pid, number)  # as a terminal does
        process.join()
        lines = said.read_text().splitlines()
        assert process.exitcode == code, lines
        assert lines[-1] == f"error: stopped by {by}. {GOES_ON[name]}"
        assert not any(word in line for line in lines for word in ("Traceback", "Interrupt", "Aborted"))
        assert not damaged(folder)
        assert [path for path in left_over(folder) if path != "out/.work"] == []
    finish(job, folder)
    assert job.results(folder) == job.results(unbroken)
