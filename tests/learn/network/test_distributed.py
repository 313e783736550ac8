"""Training on many processes: the loss, the gradients and the result of one."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from crowdwise.learn.network import distributed
from crowdwise.learn.network.distributed import ProcessGroup
from crowdwise.learn.network.modules import BatchNorm, Dropout
from tests.helpers import parallel_job
from tests.helpers.parallel_job import RECORDED

ROOT = Path(__file__).parents[3]
NAMES = list(parallel_job.learners())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What each process of each job found."""
    folder = tmp_path_factory.mktemp("found")
    command = [sys.executable, "-m", "tests.helpers.parallel_job", folder]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def found(folder):
    """What one process found, and each of two."""
    return [dict(np.load(folder / f"every_learner-{who}.npz")) for who in ("alone", 0, 1)]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def part_of(results, name, what):
    return [{key: value for key, value in each.items() if key.startswith(f"{name}/{what}")} for each in results]


def test_gradients_are_those_of_one_process(found, name):
    alone, first, second = part_of(found, name, "gradient")
    assert alone.keys() == first.keys() == second.keys()
    assert bool(alone) == (
        name not in ("raykar", "joint-em", "cpc", "crowdlab", "adaptive-difficulty", "fixed-difficulty")
    )
    for key, gradient in alone.items():
        np.testing.assert_allclose(first[key], gradient, rtol=0, atol=1e-6, err_msg=key)


def test_results_are_those_of_one_process(found, name):
    alone, first, _ = part_of(found, name, "")
    np.testing.assert_array_equal(first[f"{name}/steps"], alone[f"{name}/steps"])
    np.testing.assert_allclose(first[f"{name}/proba"], alone[f"{name}/proba"], rtol=0, atol=1e-5)
    for key in (key for key in alone if "/state/" in key):  # Adam turns rounding of a gradient near 0 into a step
        np.testing.assert_allclose(first[key], alone[key], rtol=0, atol=2e-4, err_msg=key)


def test_processes_end_with_the_same_model(found, name):
    _, first, second = part_of(found, name, "")
    assert first.keys() == second.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(second[key], value, err_msg=key)


@pytest.fixture(scope="module")
def three(folder):
    """What one process found, and each of three."""
    return [dict(np.load(folder / f"three_processes-{who}.npz")) for who in ("alone", 0, 1, 2)]


def test_shares_of_a_batch_may_differ(three):
    alone, *each = three
    for found in each:
        for key in (key for key in alone if key.startswith("uneven")):
            np.testing.assert_allclose(found[key], alone[key], rtol=0, atol=1e-6, err_msg=key)


def test_dropout_of_torch_is_drawn_for_each_process_by_itself(three):
    alone, *each = three
    np.testing.assert_array_equal(each[0]["own dropout"], each[1]["own dropout"])
    assert 0 < np.abs(each[0]["own dropout"] - alone["own dropout"]).max() < 0.2


def test_every_process_hears_of_a_mistake(three):
    _, *each = three
    assert [int(found["asked"]) for found in each] == [len(parallel_job.MISTAKES)] * 3


def test_the_first_process_reads_and_writes_the_checkpoint(three, folder):
    _, *each = three
    assert [found["epochs on"].tolist() for found in each] == [[]] * 3
    np.testing.assert_array_equal(each[0]["on"], each[2]["on"])
    assert (folder / "state").exists()
    assert not (folder / "nowhere").exists()


def test_processes_may_fit_apart(three):
    _, *each = three
    assert [int(found["apart"]) for found in each] == [1, 2, 3]


# The pieces, without processes


def test_parts_hold_every_row_once():
    for n_rows in (3, 10, 64):
        rows = [list(range(n_rows))[ProcessGroup(rank, 3).part(n_rows).rows] for rank in range(3)]
        assert [row for part in rows for row in part] == list(range(n_rows))
        assert max(map(len, rows)) - min(map(len, rows)) <= 1


@pytest.mark.parametrize("shape", [(10, 4), (2, 10, 4)])
def test_dropout_takes_its_rows_of_the_mask_of_all(shape):
    x = torch.ones(shape)
    whole = Dropout(0.5)
    mask = whole(x)
    parts = []
    for rank in range(3):
        layer = Dropout(0.5)
        layer.part = ProcessGroup(rank, 3).part(10)
        parts.append(layer(x[..., layer.part.rows, :]))
    torch.testing.assert_close(torch.cat(parts, dim=-2), mask, rtol=0, atol=0)


def test_layers_forget_their_part_after_an_epoch():
    norms = torch.nn.BatchNorm1d(2), BatchNorm(1, 2)
    module = torch.nn.Sequential(*norms)
    with distributed.synchronised_layers(module, ProcessGroup(0, 2)) as set_part:
        set_part(ProcessGroup(0, 2).part(4))
        assert norms[1].part is not None
        assert "forward" in vars(norms[0])
    assert norms[1].part is None
    assert "forward" not in vars(norms[0])


def test_without_a_group_there_is_none():
    assert distributed.current() is None


def test_learners_took_as_many_steps_as_are_compared(found):
    steps = found[0]["crowdlayer/steps"]
    assert steps.tolist() == [6]
    assert sum(key.startswith("crowdlayer/gradient") for key in found[0]) == RECORDED * 5
