"""The generator: the answer that a worker would give to a task, given the prediction of the classifier.

    G(label | x, w, noise, f)   softmax of two layers on [e(x) | e_w | noise | f(x)], 128 units between them
    e(x)      two layers on the features, 64 units between them, batch normalise_graph
    e_w       an embedding of the worker

The first layer is a sum of terms for the task, the worker and the noise. The first two are computed once per task and
worker, not per pair, unless there are more workers than pairs. Without `use_task` (CrowdInG-U) the generator sees the
features only through f; without `use_worker` (CrowdInG-I) all workers are the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crowdwise.learn.network.modules import BatchNorm, Dropout, Linear
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch

SEED = 2_000_000  # above the seeds of any network layer, so that draws are independent
WIDTH, TASK_HIDDEN, HIDDEN = 20, 64, 128
GatherRows = Callable[[Tensor], Tensor]


def identity(rows: Tensor) -> Tensor:
    """Return the rows unchanged: in a single process, there are no others."""
    return rows


class TaskEncoder(nn.Module):
    """Two layers on features, for each model: (models, rows, features) to (models, rows, width)."""

    first: Linear
    last: Linear

    def __init__(self, n_models: int, n_features: int, hidden: int, width: int, seed: list[int]) -> None:
        super().__init__()
        self.n_models = n_models
        self.first = Linear(n_models, n_features, hidden, seed=[*seed, 0])
        self.norm = BatchNorm(n_models, hidden)
        self.last = Linear(n_models, hidden, width, seed=[*seed, 1])

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        one = self.n_models == 1  # layers of a single model have no model axis
        out: Tensor = self.last(functional.relu(self.norm(self.first(x[0] if one else x))))
        return out[None] if one else out


class Noise(Dropout):
    """Standard normal noise from a random generator that the training loop seeds, as for dropout."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def draw(self, n_rows: int, width: int) -> Tensor:
        """Return new noise, (rows, width)."""
        return torch.from_numpy(self.generator.standard_normal((n_rows, width), dtype=np.float32))


class Generator(nn.Module):
    """Log probabilities (pairs, classes) of answers; rows, workers and pairs of all models are concatenated."""

    from_noise: Linear
    from_task: Linear
    from_worker: Linear
    last: Linear
    n_models: int
    n_workers: int
    use_task: bool
    use_worker: bool
    worker: nn.Parameter

    def __init__(
        self,
        n_models: int,
        n_features: int,
        n_workers: int,
        n_classes: int,
        seed: int,
        *,
        use_task: bool,
        use_worker: bool,
    ) -> None:
        super().__init__()
        self.n_models, self.n_workers, self.use_task, self.use_worker = n_models, n_workers, use_task, use_worker
        draws = [seed, SEED]
        if use_task:
            self.encoder = TaskEncoder(n_models, n_features, TASK_HIDDEN, WIDTH, [*draws, 0])
        if use_worker:
            table = Linear(n_models, n_workers, WIDTH, seed=[*draws, 1]).weight.detach().reshape(-1, n_workers, WIDTH)
            self.worker = nn.Parameter(table.clone())  # (models, workers, width)
            self.from_worker = Linear(n_models, WIDTH, HIDDEN, seed=[*draws, 2])
        self.from_task = Linear(n_models, WIDTH * use_task + n_classes, HIDDEN, seed=[*draws, 3])
        self.from_noise = Linear(n_models, n_classes, HIDDEN, seed=[*draws, 4])
        self.last = Linear(n_models, HIDDEN, n_classes, seed=[*draws, 5])

    def forward(
        self, x: Tensor, f: Tensor, row: Tensor, worker: Tensor, noise: Tensor, gather: GatherRows = identity
    ) -> Tensor:
        """Log probabilities from features (models, rows, features), f (models, rows, classes), noise (pairs, classes).

        Pair p is worker[p] and the task in row[p]; `gather` concatenates the rows of x with those of other processes.
        """
        task = torch.cat([gather(self.encoder(x)), f], dim=2) if self.use_task else f
        hidden = self.from_task(task).flatten(0, 1).index_select(0, row)  # (pairs, hidden)
        layout = Layout(worker // self.n_workers, self.n_models)
        if self.use_worker:
            hidden = hidden + layout.each(self.from_worker, self.worker.flatten(0, 1), worker)
        # Add the noise term, then apply the last layer, model by model.
        spread = functional.relu(layout.spread(hidden) + self.from_noise(layout.spread(noise)))
        return functional.log_softmax(layout.flat(self.last(spread)), dim=1)


class Layout:
    """Converts between pairs concatenated over models and an array with a model axis, padded with zeros."""

    longest: int
    n_models: int

    def __init__(self, model: Tensor, n_models: int) -> None:
        count = torch.bincount(model, minlength=n_models)
        self.n_models, self.longest = n_models, int(count.max())
        self.even: bool = bool((count == self.longest).all())
        before = torch.cumsum(count, 0) - count
        self.place: Tensor = model * self.longest + torch.arange(len(model), device=model.device) - before[model]

    def each(self, layer: nn.Module, table: Tensor, at: Tensor) -> Tensor:
        """Return a layer's output for the rows `at` (pairs,) of a table (models * n, width), (pairs, hidden).

        It is computed for all rows once, or only for those asked for if they are fewer: a batch has few workers.
        """
        if len(at) < len(table):
            return self.flat(layer(self.spread(table.index_select(0, at))))
        out: Tensor = layer(table.view(self.n_models, -1, table.shape[1]))
        return out.flatten(0, 1).index_select(0, at)

    def spread(self, values: Tensor) -> Tensor:
        """Return (pairs, width) as (models, longest, width)."""
        if not self.even:
            filled = values.new_zeros(self.n_models * self.longest, values.shape[1])
            values = filled.index_copy(0, self.place, values)
        return values.view(self.n_models, self.longest, values.shape[1])

    def flat(self, values: Tensor) -> Tensor:
        """Return (models, longest, width) as (pairs, width)."""
        values = values.flatten(0, 1)
        return values if self.even else values.index_select(0, self.place)
