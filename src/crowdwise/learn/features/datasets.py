"""Features read one row at a time: a torch Dataset, or any object with `__len__` and `__getitem__`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.errors import FeaturesError
from crowdwise.learn.features.base import Array, Features, from_tensor, require_numbers, scale_images


class DatasetFeatures(Features):
    """Rows of a dataset: each is x, or (x, ...), where x is an array, a tensor or a Pillow image.

    >>> class Squares:
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, i):
    ...         return np.array([i, i * i]), "ignored"
    >>> DatasetFeatures(Squares()).rows(np.array([3, 1])).tolist()
    [[3.0, 9.0], [1.0, 1.0]]
    """

    n_rows: int

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.n_rows = len(dataset)
        if self.n_rows == 0:
            message = f"X is an empty {type(dataset).__name__}; the shape of a row is unknown. Pass at least one row."
            raise FeaturesError(message)
        self._numbers = np.arange(self.n_rows)
        self.shape = self.rows(np.array([0])).shape[1:]

    def rows(self, index: Array) -> Array:
        """Return some rows."""
        numbers = self._numbers[index].tolist()  # checks bounds, and resolves negative numbers
        if not numbers:
            return np.empty((0, *self.shape), np.float32)
        read_many = getattr(self._dataset, "__getitems__", None)
        rows = read_many(numbers) if read_many else [self._dataset[i] for i in numbers]
        arrays = [_as_array(row) for row in rows]
        if len(shapes := {array.shape for array in arrays}) > 1:
            message = f"the rows of X differ in shape ({', '.join(map(str, sorted(shapes)))}). Resize or pad them."
            raise FeaturesError(message)
        batch = np.stack(arrays)
        require_numbers(batch)
        images = batch.dtype == np.uint8 and batch.ndim == 4
        return scale_images(batch) if images else np.ascontiguousarray(batch, dtype=np.float32)


def dataset_of(loader: Any) -> Any:
    """Return the dataset of a torch DataLoader, whose rows are then read as the fit needs them.

    The batches of the loader are not used: its dataset must have a row per task, which is not changed on the way.
    """
    from torch.utils.data import RandomSampler, SequentialSampler, default_collate

    dataset, sampler = loader.dataset, loader.sampler
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        message = (
            "X is a DataLoader over a stream, whose rows cannot be read by number. Use a Dataset with __getitem__."
        )
        raise FeaturesError(message)
    whole = isinstance(sampler, SequentialSampler) or (
        isinstance(sampler, RandomSampler) and len(sampler) == len(dataset) and not sampler.replacement
    )
    if not whole or sampler.data_source is not dataset:
        message = f"X is a DataLoader that selects rows ({type(sampler).__name__}). Pass the Dataset of these rows."
        raise FeaturesError(message)
    if loader.collate_fn is not default_collate:
        message = (
            "X is a DataLoader with its own collate_fn, which is not used. Pass a Dataset that returns final rows."
        )
        raise FeaturesError(message)
    return dataset


def _as_array(row: Any) -> Array:
    """Return x of a row (x, ...), or the row itself, as an array."""
    pair = isinstance(row, tuple) or (isinstance(row, list) and row and not isinstance(row[0], (int, float)))
    x = row[0] if pair else row
    if isinstance(x, (Mapping, str, bytes)):
        keys = f" with {', '.join(map(repr, x))}" if isinstance(x, Mapping) else ""
        message = f"a row of X is a {type(x).__name__}{keys}, not numbers. The dataset must return x or (x, ...)."
        raise FeaturesError(message)
    if hasattr(x, "detach"):  # a tensor
        return from_tensor(x)
    if hasattr(x, "convert") and hasattr(x, "mode"):  # a Pillow image
        return np.asarray(x)[:, :, None] if x.mode == "L" else np.asarray(x.convert("RGB"))
    return np.asarray(x)
