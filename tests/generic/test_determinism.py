"""The same seed gives the same result: in another process, with other hashes of strings, on more threads.

Truth models give the same bits on any number of threads: their sums are made of chunks that depend on the data alone.
So do learners in training, as small networks train on one thread. Where torch computes on two threads (what a fitted
network says of many tasks; training of large ones, from 20 million multiplications a batch), its sums may be added in
another order: what is said of many tasks agrees to `TOLERANCE`, what a large network learned to 1e-4.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import crowdwise as cw
from crowdwise.run import run
from tests.helpers import fits_of_all
from tests.helpers.every_method import LEARNERS, crowd

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-6
TIMES = {"times.json"}


def in_another_process(tmp_path, **settings):
    """What every method finds in a process with these variables."""
    file = tmp_path / "found.npz"
    environment = {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [sys.executable, "-m", "tests.helpers.fits_of_all", file], env=environment, cwd=ROOT, check=True, timeout=600
    )
    with np.load(file) as saved:
        return {name: saved[name] for name in saved.files}


def test_every_method_in_another_process_on_two_threads(tmp_path):
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


def digests(folder):
    """Digest of each file below a folder, by its path there; times are what they are."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in TIMES)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_run_does_not_depend_on_how_many_fits_go_on_at_once(tmp_path):
    X, answers = crowd(60)
    methods = ["majority-vote", "one-coin", "raykar"]
    for n_jobs in (1, 2):
        (tmp_path / str(n_jobs)).mkdir()  # the run's folder gives the report its title
        run(answers, tmp_path / str(n_jobs) / "run", features=X, folds=2, n_jobs=n_jobs, method=methods)
    one, two = digests(tmp_path / "1"), digests(tmp_path / "2")
    assert len(one) > 5
    assert one == two


def test_large_networks_agree_on_any_number_of_threads():
    """Above the size from which a second thread is used."""
    from crowdwise.learn.network.torch_support import torch

    rng = np.random.default_rng(0)
    X, (_, answers) = rng.normal(size=(256, 400)).astype(np.float32), crowd(256)
    before, said = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            network = cw.MLP((600,), dropout=0.0)
            model = cw.CrowdLayer(network=network, epochs=2, batch_size=128).fit(X, answers)
            said.append(model.predict_proba(X))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(said[1], said[0], atol=1e-4)
