"""Resampling for several models: each samples separately, and the first samples as a single model would."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.features import open_features
from crowdwise.learn.network.batches import Batches
from crowdwise.simulate import simulate

ANSWERS = simulate(60, n_classes=3, seed=1)
X = np.arange(60, dtype=np.float32)[:, None]


def batches(n_models: int, answers: Answers | list[Answers] = ANSWERS, **options: object) -> Batches:
    settings = {"batch_size": 16, "resample": True, "seed": 5, **options}
    return Batches(open_features(X), answers, n_models=n_models, **settings)  # type: ignore[arg-type]


def times(drawn: Batches, model: int, epoch: int = 3) -> Array:
    """Return how often a model sampled each answer in an epoch, with its task, worker and label."""
    out = []
    for batch in drawn.epoch(epoch):
        assert batch.weight is not None
        mine = batch.worker // ANSWERS.n_workers == model
        worker = batch.worker[mine] % ANSWERS.n_workers
        out.append(np.column_stack([batch.task[batch.row[mine]], worker, batch.label[mine], batch.weight[mine]]))
    counts = np.concatenate(out)
    return counts[np.lexsort(counts.T[1::-1])]  # (answers, 4)


def test_each_model_samples_its_own_answers() -> None:
    drawn = batches(3)
    each = [times(drawn, model) for model in range(3)]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        np.testing.assert_array_equal(each[one][:, :3], each[other][:, :3])
        assert (each[one][:, 3] != each[other][:, 3]).mean() > 0.3
    assert all(of[:, 3].sum() == ANSWERS.n_answers for of in each)


def test_samples_of_models_are_uncorrelated() -> None:
    both = np.array([[times(drawn, m, e)[:, 3] for m in (0, 1)] for drawn in [batches(2)] for e in range(20)])
    own = both - both.mean(axis=0)  # the expected number depends on the label
    assert abs(np.corrcoef(own[:, 0].ravel(), own[:, 1].ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 1.5, ANSWERS.n_answers)])
def test_the_first_of_several_models_samples_as_a_single_model(weight: Array | None) -> None:
    np.testing.assert_array_equal(times(batches(3, weight=weight), 0), times(batches(1, weight=weight), 0))


def test_equal_pools_are_sampled_like_a_shared_one() -> None:
    copy = ANSWERS.take(np.arange(ANSWERS.n_answers))
    shared, apart = (
        batches(2),
        batches(2, [ANSWERS, copy], batch_size=60),
    )  # one batch
    for model in (0, 1):
        np.testing.assert_array_equal(times(apart, model), times(shared, model))


def test_labels_are_sampled_equally_often() -> None:
    drawn = np.concatenate([times(batches(2), model, epoch) for model in (0, 1) for epoch in range(40)])
    share = np.bincount(drawn[:, 2].astype(int), drawn[:, 3]) / drawn[:, 3].sum()
    np.testing.assert_allclose(share, 1 / 3, atol=0.02)
    assert np.ptp(np.bincount(ANSWERS.label)) > 5  # labels are imbalanced in the answers
