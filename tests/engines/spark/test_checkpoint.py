"""What a checkpoint belongs to. Needs no Spark."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa

import crowdwise as cw
from crowdwise.engines.spark.checkpoint import stamp

DATA = SimpleNamespace(class_ids=pa.array(["a", "b"]), n_tasks=3, n_workers=300, n_answers=9, digest=7)


def test_settings_are_told_apart_however_large_but_longer_fits_are_not():
    prior = np.ones((300, 2, 2))
    other = prior.copy()
    other[150, 1, 1] = 2  # numpy does not print it
    made = stamp(cw.DawidSkene(prior=prior), DATA)
    assert made == stamp(cw.DawidSkene(prior=prior.copy(), max_iter=7, tol=0), DATA)
    assert made != stamp(cw.DawidSkene(prior=other), DATA)
    assert made != stamp(cw.IBCC(), DATA)
