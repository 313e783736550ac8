"""Which fit a checkpoint belongs to. These tests need no Spark."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.engines.spark import checkpoint
from crowdwise.errors import ModelFileError
from crowdwise.truth.methods.one_coin import Parameters

DATA = SimpleNamespace(class_ids=pa.array(["a", "b"]), n_tasks=3, n_workers=300, n_answers=9, digest=7)


def test_a_stamp_depends_on_the_settings_but_not_on_the_length_of_the_fit():
    prior = np.ones((300, 2, 2))
    other = prior.copy()
    other[150, 1, 1] = 2  # not visible in numpy's repr
    stamp = checkpoint.stamp(cw.DawidSkene(prior=prior), DATA)
    assert stamp == checkpoint.stamp(cw.DawidSkene(prior=prior.copy(), max_iter=7, tol=0), DATA)
    assert stamp != checkpoint.stamp(cw.DawidSkene(prior=other), DATA)
    assert stamp != checkpoint.stamp(cw.IBCC(), DATA)


def test_a_checkpoint_of_another_fit_or_a_damaged_one_is_refused(tmp_path):
    file, stamp = tmp_path / checkpoint.STATE, checkpoint.stamp(cw.OneCoin(), DATA)
    assert checkpoint.load(file, stamp, Parameters) is None
    checkpoint.save(file, stamp, Parameters(np.array([0.5, 0.5]), np.arange(3.0)), [-3.0, -2.5])
    parameters, history = checkpoint.load(file, stamp, Parameters)
    assert parameters.skill.tolist() == [0, 1, 2] and history == [-3.0, -2.5]
    with pytest.raises(ModelFileError, match=r"another fit \(settings differ\)"):
        checkpoint.load(file, checkpoint.stamp(cw.OneCoin(prior=None), DATA), Parameters)
    file.write_bytes(b"half a file")
    with pytest.raises(ModelFileError, match="cannot be read"):
        checkpoint.load(file, stamp, Parameters)
