"""Training on several processes gives the gradients and the result of a single process."""

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
    """The folder with the results of each process of each job."""
    folder = tmp_path_factory.mktemp("results")
    command = [sys.executable, "-m", "tests.helpers.parallel_job", folder]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def results(folder):
    """Results of a single process, and of each of two."""
    return [dict(np.load(folder / f"every_learner-{who}.npz")) for who in ("alone", 0, 1)]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def part_of(results, name, what):
    return [{key: value for key, value in each.items() if key.startswith(f"{name}/{what}")} for each in results]


def test_gradients_equal_those_of_a_single_process(results, name):
    alone, first, second = part_of(results, name, "gradient")
    assert alone.keys() == first.keys() == second.keys()
    assert bool(alone) == (
        name not in ("raykar", "joint-em", "cpc", "crowdlab", "adaptive-difficulty", "fixed-difficulty")
    )
    for key, gradient in alone.items():
        np.testing.assert_allclose(first[key], gradient, rtol=0, atol=1e-6, err_msg=key)


def test_results_equal_those_of_a_single_process(results, name):
    alone, first, _ = part_of(results, name, "")
    np.testing.assert_array_equal(first[f"{name}/steps"], alone[f"{name}/steps"])
    np.testing.assert_allclose(first[f"{name}/proba"], alone[f"{name}/proba"], rtol=0, atol=1e-5)
    for key in (key for key in alone if "/state/" in key):  # Adam amplifies rounding of gradients near 0
        np.testing.assert_allclose(first[key], alone[key], rtol=0, atol=2e-4, err_msg=key)


def test_all_processes_end_with_the_same_model(results, name):
    _, first, second = part_of(results, name, "")
    assert first.keys() == second.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(second[key], value, err_msg=key)


@pytest.fixture(scope="module")
def three(folder):
    """Results of a single process, and of each of three."""
    return [dict(np.load(folder / f"three_processes-{who}.npz")) for who in ("alone", 0, 1, 2)]


def test_parts_of_a_batch_may_differ_in_size(three):
    alone, *each = three
    for result in each:
        for key in (key for key in alone if key.startswith("uneven")):
            np.testing.assert_allclose(result[key], alone[key], rtol=0, atol=1e-6, err_msg=key)


def test_dropout_of_torch_has_its_own_masks_in_each_process(three):
    alone, *each = three
    np.testing.assert_array_equal(each[0]["own dropout"], each[1]["own dropout"])
    assert 0 < np.abs(each[0]["own dropout"] - alone["own dropout"]).max() < 0.2


def test_every_process_raises_the_same_errors(three):
    _, *each = three
    assert [int(result["errors"]) for result in each] == [len(parallel_job.ERRORS)] * 3


def test_only_the_first_process_reads_and_writes_the_checkpoint(three, folder):
    _, *each = three
    assert [result["resumed epochs"].tolist() for result in each] == [[]] * 3
    np.testing.assert_array_equal(each[0]["resumed"], each[2]["resumed"])
    assert (folder / "state").exists()
    assert not (folder / "nowhere").exists()


def test_processes_may_fit_alone(three):
    _, *each = three
    assert [int(result["alone"]) for result in each] == [1, 2, 3]


# Parts of the machinery, in one process


def test_parts_contain_every_row_once():
    for n_rows in (3, 10, 64):
        rows = [list(range(n_rows))[ProcessGroup(rank, 3).part(n_rows).rows] for rank in range(3)]
        assert [row for part in rows for row in part] == list(range(n_rows))
        assert max(map(len, rows)) - min(map(len, rows)) <= 1


@pytest.mark.parametrize("shape", [(10, 4), (2, 10, 4)])
def test_dropout_uses_its_rows_of_the_mask_of_the_batch(shape):
    x = torch.ones(shape)
    mask = Dropout(0.5)(x)
    parts = []
    for rank in range(3):
        layer = Dropout(0.5)
        layer.part = ProcessGroup(rank, 3).part(10)
        parts.append(layer(x[..., layer.part.rows, :]))
    torch.testing.assert_close(torch.cat(parts, dim=-2), mask, rtol=0, atol=0)


def test_layers_are_restored_after_an_epoch():
    norms = torch.nn.BatchNorm1d(2), BatchNorm(1, 2)
    module = torch.nn.Sequential(*norms)
    with distributed.synchronised_layers(module, ProcessGroup(0, 2)) as set_part:
        set_part(ProcessGroup(0, 2).part(4))
        assert norms[1].part is not None
        assert "forward" in vars(norms[0])
    assert norms[1].part is None
    assert "forward" not in vars(norms[0])


def test_there_is_no_group_by_default():
    assert distributed.current() is None


def test_gradients_of_the_first_steps_are_recorded(results):
    steps = results[0]["crowdlayer/steps"]
    assert steps.tolist() == [6]
    assert sum(key.startswith("crowdlayer/gradient") for key in results[0]) == RECORDED * 5
