"""The torch modules behind `architectures`: `n_models` networks in one, each tensor with a leading axis of models."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from crowdwise.errors import ParameterError
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch

if TYPE_CHECKING:
    from crowdwise.learn.network.distributed import Part


# Scale of the last layer at the start, after a hidden layer and without: nearer 0 the gradients of hidden layers are
# small, and Adam amplifies their rounding.
START, LINEAR_START = 0.5, 0.02
# A step of Adam changes a logit by about lr times the sum of the last layer's inputs. In a linear network few features
# are scaled up to the sum of this many: with less, workers' layers learn faster than the classifier, and swap classes.
INPUTS = 64


class Network(nn.Module):
    """Logits (models, rows, classes) from features (models, rows, *shape)."""

    n_models: int
    width: int  # of the last hidden layer
    n_classes: int
    start = START

    @abstractmethod
    def embed(self, x: Tensor) -> Tensor:
        """Return the last hidden layer, (models, rows, width)."""

    @abstractmethod
    def classify(self, hidden: Tensor) -> Tensor:
        """Return logits from the last hidden layer."""

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.classify(self.embed(x))

    def flat(self, x: Tensor) -> Tensor:
        """Return the logits of all models, concatenated, (models * rows, classes)."""
        return self(x).flatten(0, 1)

    def standardise(self, mean: Any, scale: Any) -> None:
        """Set the mean of the features and one over their deviation, if the network standardises them.

        Both are (features,), or (models, 1, features) if they differ between models.
        """

    @abstractmethod
    def keep(self, models: list[int]) -> None:
        """Keep only some of the models."""

    def start_undecided(self) -> Self:
        """Shrink the last layer, so that all classes are nearly equally probable; return the network."""
        with torch.no_grad():
            for parameter in self.last_layer_parameters():
                parameter.mul_(self.start)
        return self

    def last_layer_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the layers that return the logits."""
        return []


class Dense(Network):
    """Fully connected layers."""

    mean: Tensor
    scale: Tensor

    dropout: Dropout
    head: Linear
    layers: nn.ModuleList
    norms: nn.ModuleList
    start: float

    n_classes: int
    n_models: int
    width: int

    def __init__(
        self,
        n_features: int,
        hidden: list[int],
        n_classes: int,
        n_models: int,
        seed: int,
        *,
        dropout: float = 0.0,
        batchnorm: bool = False,
        standardise: bool = True,
    ) -> None:
        super().__init__()
        self.n_models, self.n_classes = n_models, n_classes
        widths = [n_features, *hidden]
        self.width, self.start = widths[-1], START if hidden else LINEAR_START
        self.layers = nn.ModuleList(
            Linear(n_models, a, b, seed=[seed, i]) for i, (a, b) in enumerate(zip(widths, hidden, strict=False))
        )
        self.norms = nn.ModuleList(BatchNorm(n_models, h) for h in hidden if batchnorm)
        self.dropout = Dropout(dropout)
        self.head = Linear(n_models, self.width, n_classes, seed=[seed, len(hidden)])
        self.wants_scale = standardise
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(n_features))

    def standardise(self, mean: Any, scale: Any) -> None:  # noqa: D102
        larger = 1.0 if len(self.layers) else max(INPUTS / self.width, 1.0)
        self.mean = torch.as_tensor(mean).to(self.mean)
        self.scale = larger * torch.as_tensor(scale).to(self.scale)

    def last_layer_parameters(self) -> list[nn.Parameter]:  # noqa: D102
        return list(self.head.parameters())

    def embed(self, x: Tensor) -> Tensor:  # noqa: D102
        return self._embed(x[0])[None] if self.n_models == 1 else self._embed(x)

    def classify(self, hidden: Tensor) -> Tensor:  # noqa: D102
        return self.head(hidden)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        if self.n_models == 1:  # without the model axis, which would add steps to the backward pass
            return self.head(self._embed(x[0]))[None]
        return self.head(self._embed(x))

    def flat(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.head(self._embed(x[0])) if self.n_models == 1 else super().flat(x)

    def _embed(self, x: Tensor) -> Tensor:
        """Return the hidden layer for (models, rows, *shape), or for (rows, *shape) if there is one model."""
        x = x.flatten(1 if self.n_models == 1 else 2)
        if self.wants_scale:
            x = (x - self.mean) * self.scale
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if len(self.norms):
                x = self.norms[i](x)
            x = self.dropout(functional.relu(x))
        return x

    def keep(self, models: list[int]) -> None:  # noqa: D102
        if self.n_models == 1:
            return
        for layer in self.modules():
            if isinstance(layer, (Linear, BatchNorm)):
                for name, value in [*layer.named_parameters(), *layer.named_buffers()]:
                    getattr(layer, name).data = value.data[models[0] if len(models) == 1 else models].clone()
        self.n_models = len(models)


class Linear(nn.Module):
    """One linear layer per model: (models, rows, inputs) to (models, rows, outputs).

    The weights of a single model have no model axis; the input may then be (rows, inputs).
    """

    bias: nn.Parameter
    weight: nn.Parameter

    def __init__(self, n_models: int, n_in: int, n_out: int, *, seed: Sequence[int]) -> None:
        super().__init__()
        bound = 1 / math.sqrt(n_in)
        draws = [np.random.default_rng([*seed, m]).uniform(-bound, bound, (n_in + 1, n_out)) for m in range(n_models)]
        values = torch.tensor(np.array(draws), dtype=torch.float32)  # (models, inputs + 1, outputs)
        values = values[0] if n_models == 1 else values
        self.weight = nn.Parameter(values[..., :-1, :].clone())
        self.bias = nn.Parameter(values[..., -1:, :].clone())

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        if self.weight.ndim == 3:
            return torch.baddbmm(self.bias, x, self.weight)
        if x.ndim == 3:
            return torch.addmm(self.bias, x[0], self.weight)[None]
        return torch.addmm(self.bias, x, self.weight)


class Dropout(nn.Module):
    """Dropout with its own generator: it uses no global random state, and the same seed gives the same masks.

    Within a `Network`, rows are the second last axis; on several processes they are the rows of `part`.
    """

    part: Part | None = None

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """Restart the generator of masks."""
        self.generator = np.random.Generator(np.random.SFC64(seed))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        if not self.training or self.share == 0:
            return x
        # Sixteen random bits per unit: numpy draws them ten times as fast as torch does with its own generator.
        shape = x.shape if self.part is None else (*x.shape[:-2], self.part.n_rows, x.shape[-1])
        bits = np.frombuffer(self.generator.bytes(2 * math.prod(shape)), np.uint16).reshape(shape)
        if self.part is not None:  # draw the mask of the complete batch, as a single process does
            bits = bits[..., self.part.rows, :]
        keep = (bits >= round(self.share * 65536)) * np.float32(1 / (1 - self.share))
        return x * torch.from_numpy(keep).to(x.device, x.dtype)


class BatchNorm(nn.Module):
    """Batch normalisation over the rows of each model."""

    running_mean: Tensor
    running_var: Tensor
    part: Part | None = None

    bias: nn.Parameter
    weight: nn.Parameter

    def __init__(self, n_models: int, width: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.momentum = momentum
        shape = (1, width) if n_models == 1 else (n_models, 1, width)
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))
        self.register_buffer("running_mean", torch.zeros(shape))
        self.register_buffer("running_var", torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        n_rows = x.shape[-2] if self.part is None else self.part.n_rows
        if self.training and n_rows > 1:
            if self.part is None:
                var, mean = torch.var_mean(x, dim=-2, keepdim=True, correction=0)
            else:
                var, mean, _ = self.part.var_mean(x, [-2])
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var * n_rows / (n_rows - 1), self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        return (x - mean) * torch.rsqrt(var + 1e-5) * self.weight + self.bias


class Convolutions(nn.Module):
    """A single model: 3 x 3 convolutions with ReLU and pooling, a normalisation, a hidden layer, and logits."""

    head: nn.Linear
    layers: nn.Sequential

    def __init__(
        self,
        shape: tuple[int, ...],
        channels: list[int],
        hidden: int,
        n_classes: int,
        dropout: float,
        seed: list[int],
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        depth, height, wide = shape
        for out in channels:
            layers += [nn.Conv2d(depth, out, 3, padding=1), nn.ReLU()]
            if min(height, wide) >= 2:  # an image one pixel wide cannot be halved
                layers.append(nn.MaxPool2d(2))
                height, wide = height // 2, wide // 2
            depth = out
        layers += [nn.BatchNorm2d(depth), nn.Flatten(), nn.Linear(depth * height * wide, hidden), nn.ReLU()]
        self.layers = nn.Sequential(*layers, Dropout(dropout))
        self.head = nn.Linear(hidden, n_classes)
        initialise(self, seed)

    def embed(self, x: Tensor) -> Tensor:
        """Return the hidden layer, (rows, hidden)."""
        return self.layers(x)


class NetworkList(Network):
    """A list of networks, computed one after another in each step, for modules without a model axis."""

    members: nn.ModuleList

    n_classes: int
    n_models: int
    width: int

    def __init__(self, members: Sequence[nn.Module], width: int, n_classes: int, *, user_module: bool = False) -> None:
        super().__init__()
        self.is_user_module = user_module  # it may use torch's global generator
        self.members = nn.ModuleList(members)
        self.n_models, self.width, self.n_classes = len(members), width, n_classes
        self.splits: bool = all(hasattr(m, "embed") and hasattr(m, "head") for m in members)

    def embed(self, x: Tensor) -> Tensor:  # noqa: D102
        if len(self.members) == 1:
            return self._embed_one(0, x[0])[None]
        return torch.stack([self._embed_one(i, x[i]) for i in range(len(self.members))])

    def last_layer_parameters(self) -> list[nn.Parameter]:  # noqa: D102
        heads: list[Any] = [member.head for member in self.members if self.splits]
        return [parameter for head in heads for parameter in head.parameters()]

    def _embed_one(self, i: int, x: Tensor) -> Tensor:
        member: Any = self.members[i]
        return member.embed(x) if self.splits else member(x)

    def classify(self, hidden: Tensor) -> Tensor:  # noqa: D102
        if not self.splits:
            return hidden
        heads: list[Any] = [member.head for member in self.members]
        return torch.stack([head(hidden[i]) for i, head in enumerate(heads)])

    def keep(self, models: list[int]) -> None:  # noqa: D102
        self.members = nn.ModuleList(self.members[i] for i in models)
        self.n_models = len(models)


def from_module(module: nn.Module, shape: tuple[int, ...], n_classes: int, n_models: int) -> NetworkList:
    """Return copies of a user's module, which is not changed; check it on rows of zeros."""
    members = [copy.deepcopy(module) for _ in range(n_models)]
    trial: Any = members[0]
    state = trial.training
    try:
        with torch.no_grad():
            out = trial.eval()(torch.zeros(2, *shape))
            width = trial.embed(torch.zeros(2, *shape)).shape[1] if hasattr(trial, "embed") else n_classes
    except RuntimeError as error:
        message = f"the network does not accept tasks of shape {shape}: {error}"
        raise ParameterError(message) from None
    trial.train(state)
    if tuple(out.shape) != (2, n_classes):
        message = (
            f"the network returns {tuple(out.shape)} for 2 tasks of shape {shape}. It must return logits, "
            f"(2, {n_classes})."
        )
        raise ParameterError(message)
    return NetworkList(members, width, n_classes, user_module=True)


def initialise(module: nn.Module, seed: Sequence[int]) -> None:
    """Initialise the weights of linear and convolutional layers, uniformly as torch does, from a seed."""
    rng = np.random.default_rng(list(seed))
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            for values in (layer.weight, layer.bias):
                if values is not None:
                    values.data.copy_(torch.as_tensor(rng.uniform(-bound, bound, tuple(values.shape))))
