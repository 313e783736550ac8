"""The same seed gives the same result: in another process, with other hashes of strings, on more threads.

Truth models give the same bits on any number of threads, because they sum over chunks that depend on the data only. So
does the training of small networks, which uses one thread. Where torch uses two threads (predictions for many tasks;
training of large networks, from 20 million multiplications per batch), sums may be added in another order: predictions
agree to `TOLERANCE`, and the parameters of a large network to 1e-4. Runs with several processes: `tests/run`.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import crowdwise as cw
from tests.helpers import fits_of_all
from tests.helpers.every_method import LEARNERS, crowd

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-6


def in_another_process(tmp_path, **settings):
    """Return the results of every method in a process with these environment variables."""
    file = tmp_path / "results.npz"
    environment = {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [sys.executable, "-m", "tests.helpers.fits_of_all", file], env=environment, cwd=ROOT, check=True, timeout=600
    )
    with np.load(file) as saved:
        return {name: saved[name] for name in saved.files}


def test_every_method_gives_the_same_in_another_process_on_two_threads(tmp_path):
    here = fits_of_all.fit_all()
    there = in_another_process(
        tmp_path, PYTHONHASHSEED="12345", CROWDWISE_THREADS="2", OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2"
    )
    assert here.keys() == there.keys()
    for name, array in here.items():
        if name.split()[0] in LEARNERS and array.dtype.kind == "f":
            np.testing.assert_allclose(there[name], array, atol=TOLERANCE, err_msg=name)
        else:
            np.testing.assert_array_equal(there[name], array, err_msg=name)


def test_large_networks_agree_on_one_and_two_threads():
    """Above the size at which training uses a second thread."""
    from crowdwise.learn.network.torch_support import torch

    rng = np.random.default_rng(0)
    X, (_, answers) = rng.normal(size=(256, 400)).astype(np.float32), crowd(256)
    before, proba = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            network = cw.MLP((600,), dropout=0.0)
            model = cw.CrowdLayer(network=network, epochs=2, batch_size=128).fit(X, answers)
            proba.append(model.predict_proba(X))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(proba[1], proba[0], atol=1e-4)
