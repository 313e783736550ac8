"""Fingerprints of data and settings."""

import subprocess
import sys

import numpy as np
import scipy.sparse
from PIL import Image

import crowdwise as cw
from crowdwise._core.fingerprints import fingerprint
from crowdwise.learn.features import open_features

CODE = """
import crowdwise as cw
from crowdwise._core.fingerprints import fingerprint
print(fingerprint(cw.simulate.simulate(9), cw.GLAD()))
"""


def test_equal_content_has_equal_fingerprints_across_processes():
    out = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    assert out.strip() == fingerprint(cw.simulate.simulate(9), cw.GLAD())


def test_any_change_changes_the_fingerprint():
    answers, X = cw.simulate.simulate(50, seed=1), np.random.default_rng(0).normal(size=(200, 3))
    other = X.copy()
    other[101, 1] += 1e-3
    values = [
        answers, cw.simulate.simulate(50, seed=2), answers.thin(0.1), X, other, X.astype(np.float32), open_features(X),
        open_features(other), ["a"], ["b"], None, {"a": 1}, {"a": 2}, cw.GLAD(), cw.GLAD(max_iter=3),
    ]  # fmt: skip
    assert len({fingerprint(value) for value in values}) == len(values)
    renamed = cw.Answers.from_arrays(answers.task, [f"w{w}" for w in answers.worker], answers.label)
    assert fingerprint(renamed) != fingerprint(answers)


def test_fingerprint_covers_every_row_and_image(tmp_path):
    X = np.arange(3.0 * 1000).reshape(1000, 3)
    one = fingerprint(open_features(save(tmp_path / "one.npy", X)))
    X[617] += 1
    assert fingerprint(open_features(save(tmp_path / "two.npy", X))) != one
    sparse = [fingerprint(open_features(scipy.sparse.csr_array(np.eye(1000) * value))) for value in (1, 2)]
    assert sparse[0] != sparse[1]
    for number in range(3):
        Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
    before = fingerprint(open_features(tmp_path))
    Image.fromarray(np.full((4, 4, 3), 9, np.uint8)).save(tmp_path / "1.png")
    assert fingerprint(open_features(tmp_path)) != before


def save(path, array):
    np.save(path, array)
    return path
