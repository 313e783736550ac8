"""Specifications of classifier networks, which do not need torch, and how modules are built from them.

`Logistic`, `MLP` and `CNN` hold settings only. The module built from them trains `n_models` networks at once: every
tensor has a leading axis of models, so that five seeds of a small network cost little more than one.

    x          (models, rows, *shape)       float32
    embed(x)   (models, rows, width)        the last hidden layer
    module(x)  (models, rows, classes)      logits

The last layer starts at half the usual size (a fiftieth in a linear network), so a network starts with a weak opinion:
the first steps then order the classes as the answers do, and workers' layers, which start at the identity, have little
to swap.

Your own `torch.nn.Module` takes (rows, *shape) and returns logits (rows, classes), not probabilities. If it has a
method `embed` and a layer `head`, learners that need a hidden layer use them; otherwise they use its logits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from crowdwise._core.validation import require
from crowdwise.errors import ParameterError

if TYPE_CHECKING:
    from crowdwise.learn.network.modules import Network

Standardise = bool | Literal["common", "auto"]


class Logistic(BaseEstimator):
    """Multinomial logistic regression: one linear layer.

    Parameters
    ----------
    standardise : bool, "common" or "auto"
        True scales each feature to mean 0 and deviation 1, as measured on the training tasks. "common" divides all
        features by the same number, the root of their mean variance, for features in the same unit, such as the
        outputs of an encoder. "auto" chooses on held-out answers if `epochs="auto"`, otherwise it is True. False
        leaves features as they are.
    """

    def __init__(self, *, standardise: Standardise = "auto") -> None:
        self.standardise = standardise

    def build(self, shape: tuple[int, ...], n_classes: int, n_models: int, seed: int) -> Network:
        """Build the module for features of this shape."""
        from crowdwise.learn.network.modules import Dense

        require_standardise(self.standardise)
        network = Dense(math.prod(shape), [], n_classes, n_models, seed, standardise=bool(self.standardise))
        return network.start_undecided()


class MLP(BaseEstimator):
    """Fully connected layers, each with ReLU and dropout.

    Parameters
    ----------
    hidden : int or sequence of int
        Width of the hidden layer, or of each hidden layer.
    dropout : float
        Fraction of hidden units dropped during training.
    batchnorm : bool
        Whether to apply batch normalisation to each hidden layer.
    standardise : bool, "common" or "auto"
        As for `Logistic`.
    """

    def __init__(
        self,
        hidden: int | tuple[int, ...] = 128,
        *,
        dropout: float = 0.5,
        batchnorm: bool = False,
        standardise: Standardise = "auto",
    ) -> None:
        self.hidden = hidden
        self.dropout = dropout
        self.batchnorm = batchnorm
        self.standardise = standardise

    def build(self, shape: tuple[int, ...], n_classes: int, n_models: int, seed: int) -> Network:
        """Build the module for features of this shape."""
        from crowdwise.learn.network.modules import Dense

        hidden = [self.hidden] if isinstance(self.hidden, (int, np.integer)) else list(self.hidden)
        require(all(h >= 1 for h in hidden), "hidden", self.hidden, "a width, or one per layer")
        require(0 <= self.dropout < 1, "dropout", self.dropout, "a fraction, at least 0 and below 1")
        require_standardise(self.standardise)
        network = Dense(
            math.prod(shape), hidden, n_classes, n_models, seed,
            dropout=self.dropout, batchnorm=self.batchnorm, standardise=bool(self.standardise),
        )  # fmt: skip
        return network.start_undecided()


class CNN(BaseEstimator):
    """Four 3 x 3 convolutions with ReLU and pooling, then a hidden layer: the network of the difficulty paper.

    Parameters
    ----------
    channels : sequence of int
        Channels of each convolution.
    hidden : int
        Width of the hidden layer.
    dropout : float
        Fraction of hidden units dropped during training.
    """

    def __init__(
        self, channels: tuple[int, ...] = (32, 32, 64, 64), hidden: int = 128, *, dropout: float = 0.5
    ) -> None:
        self.channels = channels
        self.hidden = hidden
        self.dropout = dropout

    def build(self, shape: tuple[int, ...], n_classes: int, n_models: int, seed: int) -> Network:
        """Build the module for images of this shape (channels, height, width)."""
        from crowdwise.learn.network.modules import Convolutions, NetworkList

        if len(shape) != 3:
            message = f"CNN needs images (channels, height, width), not features of shape {shape}. Use MLP()."
            raise ParameterError(message)
        members = [
            Convolutions(shape, list(self.channels), self.hidden, n_classes, self.dropout, [seed, m])
            for m in range(n_models)
        ]
        return NetworkList(members, self.hidden, n_classes).start_undecided()


NAMED = {"logistic": Logistic, "mlp": MLP, "cnn": CNN}
Spec = Any  # Logistic, MLP, CNN, a name, a torch.nn.Module, or None


def resolve_spec(network: Spec, shape: tuple[int, ...]) -> Any:
    """Return the spec of a name, or of the default for features of this shape; others are returned as they are."""
    if network is None:
        return default_network(shape)
    if isinstance(network, str):
        require(network in NAMED, "network", network, f"{', '.join(map(repr, NAMED))}, a network, or a torch module")
        return NAMED[network]()
    return network


def require_standardise(value: Any) -> None:
    """Raise ParameterError if the value of `standardise` is invalid."""
    valid = isinstance(value, (bool, np.bool_)) or value in ("common", "auto")
    require(valid, "standardise", value, "True, False, 'common' or 'auto'")


def build_network(network: Spec, shape: tuple[int, ...], n_classes: int, n_models: int, seed: int) -> Network:
    """Build the module for a spec, a name, a user's module, or None for the default of this shape."""
    network = resolve_spec(network, shape)
    if isinstance(network, (Logistic, MLP, CNN)):
        return network.build(shape, n_classes, n_models, seed)
    from crowdwise.learn.network.modules import from_module
    from crowdwise.learn.network.torch_support import nn

    require(isinstance(network, nn.Module), "network", type(network).__name__, "Logistic, MLP, CNN or a torch module")
    return from_module(network, shape, n_classes, n_models)


def default_network(shape: tuple[int, ...]) -> Logistic | MLP | CNN:
    """Return the default network: CNN for images, Logistic for fewer than 8 features, otherwise MLP.

    >>> default_network((512,)), default_network((2,))
    (MLP(), Logistic())
    """
    if len(shape) == 3:
        return CNN()
    return Logistic() if math.prod(shape) < 8 else MLP()
